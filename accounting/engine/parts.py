"""What bundles share: losses of one kind, each with its count, and the sums of what their rows say.

docs/proofs/engine.md, section 6 (products).
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from dpledger.accounting.arithmetic import elementary
from dpledger.accounting.arithmetic.floating import UNIT, Array
from dpledger.accounting.engine.composed import sum_up
from dpledger.accounting.laws.law import Cumulants, Loss, Nodes, Tilted, excess, prices

__all__ = ["NodeRows", "Parts", "Some", "in_blocks", "joined"]

MOST_AT_ONCE = 1 << 17  # rows times nodes formed at once

EVERY = slice(None)
L = TypeVar("L", bound=Loss)
Some: TypeAlias = slice | npt.NDArray[np.intp]
NodeRows: TypeAlias = tuple[Array, Array, Array]


@dataclass(frozen=True, eq=False)
class Parts(ABC, Generic[L]):
    """Losses, each with its count: the sum of all of them, as one loss. A row of an array is of one loss, run once."""

    parts: tuple[tuple[L, int], ...]

    @abstractmethod
    def tilted(self, c: float) -> Tilted: ...

    @property
    def infinite_mass(self) -> float:
        return 0.0

    @functools.cached_property
    def largest(self) -> float:
        return sum_up([count * law.largest for law, count in self.parts])

    @functools.cached_property
    def largest_down(self) -> float:
        return -sum_up([-count * law.largest_down for law, count in self.parts])

    @functools.cached_property
    def counts(self) -> Array:
        return np.array([count for _, count in self.parts], dtype=np.float64)

    def rdp_upper(self, orders: Array) -> Array:
        """Claim: at least the Renyi divergences of the sum; infinite where the loss can be. Source: Mironov 2017,
        Propositions 1 and 9."""
        if self.infinite_mass > 0:
            return np.full(orders.shape, math.inf)
        c = excess(orders)
        tilted = [self.tilted(x).cumulants for x in c.tolist()]
        return prices(np.array([at.value + at.error for at in tilted]), c)

    def added(self, value: Array, error: Array, mean: Array, variance: Array) -> Cumulants:
        """K, its error, mean and variance of the sum, from those of each loss."""
        counts = self.counts
        values = counts * value
        rounding = 8 * UNIT * float(np.abs(values).sum())
        return Cumulants(
            math.fsum(values.tolist()),
            float(elementary.product(counts, error)) * (1 + 1e-9) + rounding * (1 + 1e-9),
            math.fsum((counts * mean).tolist()),
            float(elementary.product(counts, variance)),
        )

    def searched(self, value: Array, mean: Array, variance: Array) -> Cumulants:
        """K, mean and variance of the sum, for a search, without an error."""
        counts = self.counts
        return Cumulants(
            float(elementary.product(counts, value)),
            math.inf,
            float(elementary.product(counts, mean)),
            float(elementary.product(counts, variance)),
        )

    def bounds_of_moments(self, rows: Array) -> Array:
        """Upper bounds of K of the sum from those of each loss, at several c: shape (c, laws)."""
        bounds: Array = elementary.product(rows, self.counts) + (len(self.parts) + 8) * UNIT * (
            elementary.product(np.abs(rows), self.counts)
        )
        return bounds

    def multiplied(self, rows: NodeRows, some: Some = EVERY) -> Nodes:
        """log Phi of some of the losses, with their counts, and its spread, from rows of nodes: real and imaginary part
        of log phi, and its spread."""
        (real, imaginary, spread), counts = rows, self.counts[some]
        rounded = ((len(self.parts) + 4) * UNIT) * (np.abs(real) + np.abs(imaginary))
        return Nodes(
            elementary.product(counts, real) + 1j * (elementary.product(counts, imaginary)),
            (elementary.product(counts, spread + rounded)) * (1 + 1e-9),
        )


def joined(parts: Iterable[Nodes], rates: float, t: Array) -> Nodes:
    """The nodes of independent sums; `rates`: that of the spread in t which comes beside."""
    first, *others = parts
    log_phi, spread = first.log_phi, first.spread
    for other in others:
        log_phi, spread = log_phi + other.log_phi, spread + other.spread
    return Nodes(log_phi, (spread + rates * t) * (1 + 1e-9))


def in_blocks(rows: int, nodes: int) -> list[slice]:
    """Blocks of rows with so many nodes each that fit a cache."""
    most = max(1, MOST_AT_ONCE // nodes)
    return [slice(start, start + most) for start in range(0, rows, most)]
