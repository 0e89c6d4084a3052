"""Noise that is added to what the caller computed: what mechanisms of numbers share, whatever the law of their noise.

A record says the law, the norm of the sensitivity and how far one unit moves the steps of the grid; the rest is here.
Each entry is rounded to the grid, and noise of the same grid is added as whole steps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.accounting.composition import Composition
from dpledger.decimals import Number
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    RoundedGaussian,
    RoundedLaplace,
    Sensitivity,
    draw,
    half_width,
)
from dpledger.mechanisms.numeric.grid import TotalMap, check_number_or_vector, number_or_vector_to_steps, to_floats
from dpledger.mechanisms.numeric.one_shot import Vouched
from dpledger.mechanisms.protocol import Release
from dpledger.schema import Plain, plain

__all__ = ["AddedNoise", "NoisePlan", "RealNumbers"]

_Value: TypeAlias = float | npt.NDArray[np.float64]


class AddedNoise(Vouched, ABC):
    """Base of a record that adds noise of the law `noise`; `norm` is that of its sensitivity."""

    __slots__ = ()

    norm: ClassVar[Literal["l1", "l2"]]
    bound: Decimal
    missing: Decimal

    @property
    @abstractmethod
    def noise(self) -> RoundedLaplace | RoundedGaussian | DiscreteLaplace | DiscreteGaussian:
        """The law of the noise of each entry."""

    @abstractmethod
    def parts(self) -> Composition:
        """The leaf of the noise."""

    def values_read_as(self) -> tuple[str, ...]:
        """What values that are not ordinary numbers count as: by the parameters, never by the data."""
        return self._map.words()

    @property
    @abstractmethod
    def _grid(self) -> Decimal:
        """The step to which entries are rounded: that of the noise."""

    @property
    def _map(self) -> TotalMap:
        return TotalMap(grid=self._grid, bound=self.bound, missing=self.missing)

    @property
    def _moved(self) -> Decimal | int:
        """How far one unit moves what the noise is added to."""
        return self.sensitivity

    @property
    def _declared(self) -> Sensitivity:
        return Sensitivity(self._moved, self.norm, self.justification)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisePlan:
    """What is used. `sensitivity` is that of the number or vector rounded to the grid."""

    grid: Decimal
    sensitivity: Decimal


class RealNumbers(AddedNoise):
    """Base of a record that adds noise to a number, or to each entry of a vector of `dimension` numbers."""

    __slots__ = ()

    sensitivity: Decimal
    dimension: int

    @property
    @abstractmethod
    def _plan(self) -> NoisePlan:
        """What follows from the parameters."""

    @abstractmethod
    def _used(self) -> Mapping[str, Decimal]:
        """The parameters of the noise, as they are used."""

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with those of the noise and the grid as they are used."""
        values = {
            "sensitivity": self.sensitivity,
            **self._used(),
            "dimension": self.dimension,
            "grid": self._grid,
            "bound": self.bound,
            "missing": self.missing,
            "justification": self.justification,
        }
        result: dict[str, Plain] = plain(values)
        return result

    def inspect(self, data: object) -> None:
        """ParameterError unless `data` are one number or, where the dimension is above 1, a vector of that length."""
        check_number_or_vector(data, self.dimension)

    def release(self, data: object, *, entropy: Entropy) -> Release[_Value]:
        """`data` plus noise: a float where the dimension is 1, else float64[dimension]; multiples of the grid."""
        self.inspect(data)
        noisy = draw(self.noise, self._steps(data), sensitivity=self._declared, entropy=entropy)
        value = to_floats(noisy, self._grid)
        return Release(value=float(value[0]) if self.dimension == 1 else value, parts=self.parts())

    def sample(self, data: object, size: int, entropy: Entropy) -> npt.NDArray[np.float64]:
        """`size` independent releases of the same data: float64[size], or float64[size, dimension]."""
        self.inspect(data)
        steps = np.tile(self._steps(data), (size, 1))
        noisy = draw(self.noise, steps, sensitivity=self._declared, entropy=entropy)
        return to_floats(noisy[:, 0] if self.dimension == 1 else noisy, self._grid)

    def _automatic(self) -> dict[str, Any]:
        return {"grid": self._grid}

    def _within(self, confidence: Number, entries: int) -> float:
        """The half-width that holds so many entries at once, with at least this probability, and the rounding to the
        grid."""
        widest = half_width(self.noise, confidence, entries) + 1
        return float(to_floats(np.array([widest]), self._grid)[0])

    def _steps(self, data: object) -> npt.NDArray[Any]:
        """The entries of `data` in whole steps: integers [dimension]."""
        return number_or_vector_to_steps(data, self._map, self.dimension)

    @property
    def _grid(self) -> Decimal:
        return self._plan.grid

    @property
    def _moved(self) -> Decimal:
        return self._plan.sensitivity
