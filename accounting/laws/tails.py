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
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array, Rounding
from dpledger.accounting.laws.bounded_range import BoundedRangeLoss
from dpledger.accounting.laws.discrete_gaussian import DiscreteGaussianLoss
from dpledger.accounting.laws.finite import FiniteLoss
from dpledger.accounting.laws.gaussian import GaussianLoss
from dpledger.accounting.laws.laplace import LaplaceLoss
from dpledger.accounting.laws.law import Loss
from dpledger.accounting.laws.sampled_laplace import SampledLaplaceLoss
from dpledger.accounting.laws.smooth_cut import ULPS
from dpledger.accounting.laws.subsampled import SampledGaussianLoss
from dpledger.errors import WorkLimit

__all__ = ["TINY", "Profiled", "Tails", "profile_of"]

BoolArray: TypeAlias = npt.NDArray[np.bool_]

TINY = 1e-290
"""Added to every upper bound of a tail: below it the relative error bounds do not hold."""
LARGEST_EXPONENT = 690.0
"""Digits of an outcome that is looked at, to base e: TINY is e^-667."""
_FAR_LOSS = 60.0  # e^-60 is below every rounding
_DEVIATIONS = 60.0  # standard deviations: the mass beyond is below TINY


@dataclass(frozen=True, slots=True, eq=False)
class Tails:
    """P(S) and Q(S) of the sets S = {L > l'}, within a relative `error` (and TINY): one set for each point l."""

    left: Array
    right: Array
    error: Array


class Profiled(Protocol):
    """A privacy profile delta(e^l) of a loss, given that it is finite, bounded on both sides."""

    @property
    def smallest(self) -> float:
        """A lower bound of the loss: -inf where there is none."""
        ...

    @property
    def largest(self) -> float:
        """An upper bound of the finite loss."""
        ...

    def above(self, points: Array) -> Array:
        """Upper bounds of delta(e^l) at rising points l."""
        ...

    def lines(self, middles: Array) -> tuple[Array, Array]:
        """(A, B) for each point: the line A - B y, B >= 0, is at most delta(y) for every y >= 0 and near it at the
        point; A is near P(L > l), B near Q(L > l)."""
        ...


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
        error = (tails.error + 16 * UNIT) * (tails.left + near) + 2.02 * slack * near + 2 * TINY
        bounds = np.minimum(1.0, tails.left - near + error)
        return np.where(points >= self.largest, 0.0, np.maximum(bounds, 0.0))

    def lines(self, middles: Array) -> tuple[Array, Array]:
        """Claim: A - B y <= delta(y) for every y >= 0. Source: docs/proofs/lattice.md, Lemma 1."""
        tails = self.tails(middles)
        return np.maximum(tails.left * (1 - tails.error) - TINY, 0.0), tails.right * (1 + tails.error) + TINY


def profile_of(loss: Loss) -> Profiled | None:
    """The profile of a loss whose tails are known here; None for any other."""
    match loss:
        case GaussianLoss(mu_squared=mu_squared):
            base = gaussian_base(math.sqrt(mu_squared))
            return TailProfile(lambda points: base(points, "above"), _rounded, -math.inf, math.inf)
        case LaplaceLoss(epsilon=e0):
            base = laplace_base(e0)
            return TailProfile(lambda points: base(points, "above"), _rounded, -loss.largest, loss.largest)
        case BoundedRangeLoss(eta=eta):
            return TailProfile(functools.partial(_bounded_range, eta), _rounded, -loss.largest, loss.largest)
        case SampledGaussianLoss(cut=None):
            return _sampled(gaussian_base(1 / loss.sigma), math.inf, loss)
        case SampledLaplaceLoss(epsilon=e0):
            return _sampled(laplace_base(e0), e0, loss)
        case FiniteLoss():
            return _finite(loss)
        case DiscreteGaussianLoss():
            return _discrete_gaussian(loss)
        case _:
            return None


def _rounded(points: Array) -> Array:
    """What a threshold that is used as it is given is off by, its law's parameter being rounded."""
    return 16 * UNIT * (1 + np.abs(points))


# ---- base laws ------------------------------------------------------------------------------------------------------


Base = Callable[[Array, Rounding], Tails]
"""P and Q of {L > v} (above) or of {L <= v} (below), at rising v."""


def gaussian_base(mu: float) -> Base:
    """N(mu^2/2, mu^2) under P, N(-mu^2/2, mu^2) under Q. Source: Balle-Wang 2018, Theorem 8."""
    return functools.partial(_gaussian, mu)


def _gaussian(mu: float, v: Array, side: Rounding) -> Tails:
    at = np.clip(v / mu, -_DEVIATIONS - mu, _DEVIATIONS + mu)
    sign = math.sqrt(0.5) if side == "above" else -math.sqrt(0.5)
    left, right = (at - mu / 2) * sign, (at + mu / 2) * sign
    halves = 0.5 * elementary.erfc(np.concatenate([left, right]))
    moved = 8 * UNIT * (np.abs(at) + mu)  # of an argument: the roundings here and that of mu
    far = np.maximum(np.maximum(left, right), 0.0)  # the hazard of erfc at x is at most 2 (x + 1) for x > 0, 2 below
    return Tails(halves[: at.size], halves[at.size :], 2 * ULPS * UNIT + 2.1 * moved * (far + 1))


def laplace_base(e0: float) -> Base:
    """Atoms at e0 and -e0, a density between. Source: Balle-Wang 2018, section 3."""
    return functools.partial(_laplace, e0)


def _laplace(e0: float, v: Array, side: Rounding) -> Tails:
    inside = np.clip(v, -e0, e0)
    low, high = elementary.exp((inside - e0) / 2) / 2, elementary.exp(-(inside + e0) / 2) / 2
    over, under = v >= e0, v < -e0
    error = np.full(v.shape, UNIT * (16 + 8 * e0))
    if side == "above":
        return Tails(_filled(1 - low, under, over), _filled(high, under, over), error)
    return Tails(_filled(low, over, under), _filled(1 - high, over, under), error)


def _filled(values: Array, ones: BoolArray, zeros: BoolArray) -> Array:
    return np.where(ones, 1.0, np.where(zeros, 0.0, values))


def _bounded_range(eta: float, points: Array) -> Tails:
    """Density e^{(l - eta)/2} / (2 (1 - e^-eta)) on [-eta, eta]. Source: Dong-Durfee-Rogers 2020."""
    at = np.clip(points, -eta, eta)
    whole = -scalars.expm1(-eta)
    left = -elementary.expm1((at - eta) / 2) / whole
    right = elementary.exp(-(eta + at) / 2) * left
    room = np.maximum(eta - at, 1e-300)
    error = UNIT * (48 + 4 * eta + 8 * (eta + np.abs(at)) / room)
    return Tails(left, right, np.minimum(error, 1.0))


# ---- Poisson sampling -----------------------------------------------------------------------------------------------


def _sampled(base: Base, base_largest: float, loss: SampledGaussianLoss | SampledLaplaceLoss) -> TailProfile:
    rate = loss.rate
    least = scalars.log1p(-rate) if math.isinf(base_largest) else scalars.log1p(rate * scalars.expm1(-base_largest))
    most = math.inf if math.isinf(base_largest) else scalars.log1p(rate * scalars.expm1(min(base_largest, 700.0)))
    least, most = least - 1e-12 * (1 + abs(least)), most + 1e-12
    if loss.direction == "remove":
        return TailProfile(functools.partial(_removed, base, rate), _slack_of(rate, 1.0), least, loss.largest)
    return TailProfile(functools.partial(_added, base, rate), _slack_of(rate, -1.0), -most, loss.largest)


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


# ---- finite losses --------------------------------------------------------------------------------------------------


def _finite(loss: FiniteLoss) -> TailProfile:
    order = np.argsort(loss.losses, kind="stable")
    values, masses = loss.losses[order], loss.masses[order] / (1 - loss.infinite_mass)
    moved = float(np.max(loss.loss_errors))
    odds = loss.infinite_mass / (1 - loss.infinite_mass)
    wide = float(np.max(np.abs(values)))
    error = (1 + 2 * odds) * loss.mass_error + 1.01 * moved + UNIT * (16 + 4 * odds + values.size + 4 * wide)
    return _listed(
        values, (masses, masses * elementary.exp(-values)), moved, error, (float(values[0]) - moved, loss.largest)
    )


def _discrete_gaussian(loss: DiscreteGaussianLoss) -> TailProfile | None:
    """Every outcome that is not rarer than TINY."""
    try:
        losses, logs, mass_errors, _ = loss.outcomes(LARGEST_EXPONENT)
    except WorkLimit:
        return None
    order = np.argsort(losses, kind="stable")
    values, logs = losses[order], logs[order]
    moved = 8 * UNIT * (float(np.max(np.abs(values))) + scalars.square(loss.shift / loss.sigma))
    error = float(np.max(mass_errors)) + UNIT * (64 + values.size + 16 * float(np.max(np.abs(logs)))) + 2 * moved
    return _listed(values, (elementary.exp(logs), elementary.exp(logs - values)), moved, error, (-math.inf, math.inf))


def _listed(
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
