"""Tails of privacy losses: P(L > l) and Q(L > l), from which the lattice bounds a profile.

For every set S, P(S) - y Q(S) is a line in y below the profile delta(y) = sup_S P(S) - y Q(S), and at y = e^l the set
{L > l} reaches the supremum (Neyman-Pearson). So tails give lines below a profile, whatever the threshold was rounded
to, and values of it. For a Poisson-sampled pair with base loss B, {L > l} is {B > v} (remove) or {B < v} (add), v the
base loss at which the mixture's loss is l. docs/proofs/lattice.md, section 1.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array, Rounding
from dpledger.accounting.laws.law import Direction

__all__ = [
    "LARGEST_EXPONENT",
    "TINY",
    "Base",
    "TailProfile",
    "Tails",
    "listed_profile",
    "rounded_threshold",
    "sampled_profile",
]

TINY = 1e-290
"""Added to every upper bound of a tail: below it the relative error bounds do not hold."""
LARGEST_EXPONENT = 690.0
"""Digits of an outcome that is looked at, to base e: TINY is e^-667."""
_FAR_LOSS = 60.0  # e^-60 is below every rounding


@dataclass(frozen=True, slots=True, eq=False)
class Tails:
    """P(S) and Q(S) of the sets S = {L > l'}, within a relative `error` (and TINY): one set for each point l."""

    left: Array
    right: Array
    error: Array


@dataclass(frozen=True, slots=True, eq=False)
class TailProfile:
    """The profile of a loss with known tails. `slack(l)` bounds |l' - l|."""

    tails: Callable[[Array], Tails]
    slack: Callable[[Array], Array]
    smallest: float
    largest: float

    def above(self, points: Array) -> Array:
        """Claim: at least delta(e^l). Source: docs/proofs/lattice.md, Lemma 1."""
        slack = self.slack(points)
        tails = self.tails(points - slack)
        near = elementary.exp(np.minimum(points, LARGEST_EXPONENT)) * tails.right  # less only raises the bound
        with np.errstate(over="ignore"):  # an infinite error is a valid one
            error = (tails.error + 16 * UNIT) * (tails.left + near) + 2.02 * slack * near + 2 * TINY
        bounds = np.minimum(1.0, tails.left - near + error)
        return np.where(points >= self.largest, 0.0, np.maximum(bounds, 0.0))

    def lines(self, middles: Array) -> tuple[Array, Array]:
        """Claim: A - B y <= delta(y) for every y >= 0. Source: docs/proofs/lattice.md, Lemma 1."""
        tails = self.tails(middles)
        return np.maximum(tails.left * (1 - tails.error) - TINY, 0.0), tails.right * (1 + tails.error) + TINY


def rounded_threshold(points: Array) -> Array:
    """What a threshold that is used as it is given is off by, its law's parameter being rounded."""
    return 16 * UNIT * (1 + np.abs(points))


Base = Callable[[Array, Rounding], Tails]
"""P and Q of {L > v} (above) or of {L <= v} (below), at rising v."""


# ---- Poisson sampling -----------------------------------------------------------------------------------------------


def sampled_profile(
    base: Base, base_largest: float, *, rate: float, direction: Direction, largest: float
) -> TailProfile:
    """The profile of a Poisson sample of a pair with these tails. `largest`: an upper bound of its loss."""
    least = scalars.log1p(-rate) if math.isinf(base_largest) else scalars.log1p(rate * scalars.expm1(-base_largest))
    most = math.inf if math.isinf(base_largest) else scalars.log1p(rate * scalars.expm1(min(base_largest, 700.0)))
    least, most = least - 1e-12 * (1 + abs(least)), most + 1e-12
    if direction == "remove":
        return TailProfile(functools.partial(_removed, base, rate), _slack_of(rate, 1.0), least, largest)
    return TailProfile(functools.partial(_added, base, rate), _slack_of(rate, -1.0), -most, largest)


def _slack_of(rate: float, sign: float) -> Callable[[Array], Array]:
    """The inner loss is log1p(expm1(l) / q): its rounding, carried back to l. docs/proofs/lattice.md, Lemma 2."""

    def slack(points: Array) -> Array:
        lost = np.minimum(-sign * points, _FAR_LOSS)
        steep = np.minimum(np.abs(elementary.expm1(lost)), 1 / (1 - rate))  # more only where the set is all or nothing
        return 32 * UNIT * (2 + np.abs(points) - scalars.log(rate) + steep)

    return slack


def _inner(rate: float, points: Array) -> Array:
    """The base loss v with log(1 - q + q e^v) = l: -inf where l is below log(1 - q)."""
    gains = np.maximum(elementary.expm1(np.minimum(points, _FAR_LOSS)) / rate, -1.0)
    with np.errstate(divide="ignore"):
        return elementary.log1p(gains) + np.maximum(
            points - _FAR_LOSS, 0.0
        )  # beyond, v - l does not change by e^-_FAR_LOSS


def _removed(base: Base, rate: float, points: Array) -> Tails:
    inner = base(_inner(rate, points), "above")
    mixed = (1 - rate) * inner.right + rate * inner.left
    return Tails(mixed, inner.right, inner.error + UNIT * (8 + 4 / (1 - rate)))


def _added(base: Base, rate: float, points: Array) -> Tails:
    inner = base(_inner(rate, -points), "below")
    mixed = (1 - rate) * inner.right + rate * inner.left
    return Tails(inner.right, mixed, inner.error + UNIT * (8 + 4 / (1 - rate)))


def listed_profile(
    values: Array, masses: tuple[Array, Array], moved: float, error: float, ends: tuple[float, float]
) -> TailProfile:
    """Rising losses, each within `moved`, with masses under P and Q, within a relative `error`."""
    left, right = (np.append(np.cumsum(side[::-1])[::-1], 0.0) for side in masses)

    def tails(points: Array) -> Tails:
        first = np.searchsorted(values, points, side="right")
        return Tails(left[first], right[first], np.full(points.shape, error))

    def slack(points: Array) -> Array:
        return moved + 4 * UNIT * np.abs(points)

    return TailProfile(tails, slack, *ends)
