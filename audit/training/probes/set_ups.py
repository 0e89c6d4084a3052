"""What a training set-up has to show so that it can be probed, on made-up rows.

A set-up that cannot show one of these raises `CannotTell` with the reason, and the probe answers with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dpledger.errors import ParameterError

__all__ = ["CannotTell", "Charged", "Gradient", "Positions", "SetUp", "StepCounts", "exploded"]

Positions = npt.NDArray[np.int64]
Gradient = npt.NDArray[np.float64]

_FACTOR = 1e4  # above every clip norm, and its square is still a float32


class CannotTell(Exception):
    """A probe has no answer for this set-up; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Charged:
    """What the accountant is told of a step. `rate`: the chance of a row, in (0, 1]. `noise_multiplier`: deviation of
    the noise over `clip_norm`. `clip_norm`: the l2 norm of one row's gradient at most. `divisor`: of the noisy sum."""

    rate: float
    noise_multiplier: float
    clip_norm: float
    divisor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCounts:
    """A short training. `counted`: after each event, how many updates were made, and how many steps the accountant has
    counted since the start."""

    counted: tuple[tuple[int, int], ...]


class SetUp(Protocol):
    """A training set-up on made-up rows. `rows`: how many. `exploding`: the positions of two of them or more, whose
    gradients are far beyond the clip norm. `shares_rows`: neighbours have the same number of rows (zero_out)."""

    @property
    def charged(self) -> Charged: ...

    @property
    def rows(self) -> int: ...

    @property
    def exploding(self) -> tuple[int, ...]: ...

    @property
    def shares_rows(self) -> bool: ...

    def of_rows(self, rows: int) -> SetUp:
        """The same set-up as its author makes it for the first `rows` rows."""
        ...

    def step(self, batch: Positions, seed: int) -> Gradient:
        """The noisy mean gradient of one step on the rows at these positions, of which some may occur twice, from one
        fixed state. All noise follows from the seed, whatever the batch is. float64[dimension]."""
        ...

    def batches(self, count: int, seed: int) -> Sequence[Positions]:
        """The first `count` batches that the sampler draws."""
        ...

    def course(self) -> StepCounts:
        """A short training, and what the accountant counted meanwhile."""
        ...

    def ranks(self) -> Sequence[Gradient]:
        """Of two or more ranks that start alike, the noise that each draws: at least a hundred numbers."""
        ...


def exploded(rows: Any, positions: tuple[int, ...]) -> Any:
    """A copy of arrays in which the rows at these positions have gradients far beyond the clip norm: floats are
    multiplied, with alternating sign. ParameterError where there are no floats."""
    columns = [np.array(column) for column in (rows if isinstance(rows, tuple) else (rows,))]
    if not any(column.dtype.kind == "f" for column in columns):
        raise ParameterError("exploding", None, "the positions of rows with huge gradients: these rows have no floats")
    for column in columns:
        if column.dtype.kind == "f":
            for index, position in enumerate(positions):
                column[position] = column[position] * (_FACTOR if index % 2 == 0 else -_FACTOR)
    return tuple(columns) if isinstance(rows, tuple) else columns[0]
