"""Curves of Renyi divergences: what a leaf promises that has no dominating pair.

K(c) = c D(1 + c) of a loss is at most what a curve says. Mironov 2017, Definition 4; Bun-Steinke 2016, Definition 8.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

import numpy as np

from dpledger.accounting.arithmetic.floating import UNIT, Array
from dpledger.decimals import ZERO, float_up, multiply, subtract

__all__ = ["ConcentratedCurve", "ListedCurve", "RenyiCurve"]

ONE = Decimal(1)


class RenyiCurve(Protocol):
    """Upper bounds of K, after mass `delta` was removed. Hashable, and equal where it says the same."""

    @property
    def delta(self) -> Decimal: ...

    @property
    def orders(self) -> tuple[Decimal, ...]:
        """Where it bends: the orders worth asking beside a grid."""
        ...

    def moments(self, c: Array) -> Array:
        """Upper bounds of K(c) = c D(1 + c); infinite where nothing is known."""
        ...


@dataclass(frozen=True, slots=True)
class ConcentratedCurve:
    """zCDP: D(a) <= offset + rho a, for every order."""

    rho: Decimal
    delta: Decimal
    offset: Decimal = ZERO

    @property
    def orders(self) -> tuple[Decimal, ...]:
        return ()

    def moments(self, c: Array) -> Array:
        quadratic: Array = c * (c + 1) * (float_up(self.rho) * (1 + 8 * UNIT))
        return quadratic + c * (float_up(self.offset) * (1 + 8 * UNIT)) if self.offset else quadratic


@dataclass(frozen=True, slots=True)
class ListedCurve:
    """D(orders[i]) <= epsilons[i]; between them by convexity of K, beyond the last nothing."""

    orders: tuple[Decimal, ...]
    epsilons: tuple[Decimal, ...]

    @property
    def delta(self) -> Decimal:
        return ZERO

    def moments(self, c: Array) -> Array:
        at = [subtract(order, ONE) for order in self.orders]
        values = [float_up(multiply(tilt, eps)) for tilt, eps in zip(at, self.epsilons, strict=True)]
        tilts = np.array([0.0, *map(float_up, at)])
        between = np.interp(c, tilts, np.array([0.0, *values]), right=math.inf)  # K is convex: chords lie above
        chords: Array = between * (1 + 16 * UNIT)
        return chords
