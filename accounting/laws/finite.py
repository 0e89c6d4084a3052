"""Losses with finitely many values: (epsilon, delta) worst cases, discrete Laplace, and samples of them.

A `FinitePair` is the pair of distributions itself, outcome by outcome, so that it can be sampled and turned round; a
`FiniteLoss` is the law of its loss. The worst case of (e0, delta0)-DP has four outcomes. Source: Kairouz-Oh-Viswanath
2015, Theorem 3.3; sampling: Zhu-Dong-Wang 2022, Theorem 11.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import SUBNORMAL, UNIT, Array, down, up
from dpledger.accounting.laws.atoms import SLIGHT, from_one, mean_error, nodes_of_atoms
from dpledger.accounting.laws.law import Cumulants, Direction, Loss, Nodes, decay_of_bounded
from dpledger.accounting.laws.tails import TailProfile, listed_profile
from dpledger.decimals import ZERO, add, total
from dpledger.errors import WorkLimit

__all__ = [
    "FiniteLoss",
    "FinitePair",
    "approximate_pair",
    "discrete_laplace_pair",
    "listed_pair",
    "mirrored",
    "randomised_response_pair",
]


@dataclass(frozen=True, slots=True)
class FinitePair:
    """Outcomes that both hypotheses allow, with losses log P/Q = `losses` and masses `left` (P) and `right` (Q); beside
    them P mass `only_left` where Q has none, and Q mass `only_right` where P has none.

    `loss_errors`: absolute, of each loss. `mass_error`: of the logarithm of each mass. `imbalance`: by how much the
    exact masses of either hypothesis miss 1 at most, all told; infinite where that is not known.
    """

    losses: tuple[float, ...]
    left: tuple[float, ...]
    right: tuple[float, ...]
    only_left: float
    only_right: float
    loss_errors: tuple[float, ...]
    mass_error: float
    imbalance: float = math.inf

    @classmethod
    def of(
        cls, losses: Array, masses: tuple[Array, Array], only: tuple[float, float], errors: Array, mass_error: float
    ) -> FinitePair:
        """That of arrays: `masses` left and right, `only` left and right."""
        rows = [tuple(row.tolist()) for row in (losses, *masses, errors)]
        return cls(rows[0], rows[1], rows[2], *only, rows[3], mass_error)

    def loss_in(self, direction: Direction) -> FiniteLoss:
        """The loss of this direction: P is the pair's left where the unit is removed."""
        return (self if direction == "remove" else self.turned()).loss()

    def turned(self) -> FinitePair:
        """(Q, P) in place of (P, Q)."""
        losses, infinite = tuple(-x for x in self.losses), (self.only_right, self.only_left)
        return FinitePair(losses, self.right, self.left, *infinite, self.loss_errors, self.mass_error, self.imbalance)

    def sampled(self, rate: float) -> FinitePair:
        """((1-q) Q + q P, Q): what a secret batch that holds the unit with probability q = `rate` < 1 shows."""
        kept = 1 - rate
        mixed = [_mixed_loss(x, e, rate) for x, e in zip(self.losses, self.loss_errors, strict=True)]
        left = [kept * q + rate * p for p, q in zip(self.left, self.right, strict=True)]
        right = list(self.right)
        if self.only_right:
            absent = scalars.log1p(-rate)
            mixed.append((absent, 8 * UNIT * (abs(absent) + rate / kept)))
            left.append(self.only_right * kept)
            right.append(self.only_right)
        losses, errors = zip(*mixed, strict=True)
        rounding = self.mass_error + (8 + 4 / kept) * UNIT  # 1 - rate is rounded, and so is the rate
        return FinitePair(
            losses, tuple(left), tuple(right), self.only_left * rate, 0.0, errors, rounding, self.imbalance
        )

    def loss(self) -> FiniteLoss:
        """The law of the loss under P, equal outcomes left apart."""
        rows, imbalance = np.array((self.losses, self.left, self.loss_errors)), self.imbalance
        if min(self.left, default=1.0) <= 0:
            rows, imbalance = rows[:, rows[1] > 0], math.inf
        losses, left, errors = rows
        return FiniteLoss(losses, left, errors, self.mass_error, self.only_left, imbalance)


@dataclass(frozen=True, slots=True, eq=False)
class FiniteLoss(Loss):
    """Values `losses` with masses `masses` (their logarithms within `mass_error`, each value within `loss_errors`),
    whose exact sum with `infinite_mass` is 1 within `imbalance`.

    Equal laws are equal: the two directions of a symmetric pair are one."""

    losses: Array
    masses: Array
    loss_errors: Array
    mass_error: float
    infinite_mass: float
    imbalance: float = math.inf

    def _key(self) -> tuple[bytes, bytes, bytes, float, float, float]:
        arrays = self.losses.tobytes(), self.masses.tobytes(), self.loss_errors.tobytes()
        return (*arrays, self.mass_error, self.infinite_mass, self.imbalance)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FiniteLoss) and (self is other or self._key() == other._key())

    def __hash__(self) -> int:
        return hash(self._key())

    @property
    def largest(self) -> float:
        return up(float(np.maximum.reduce(self.losses + self.loss_errors)))

    @property
    def largest_down(self) -> float:
        return down(float(np.maximum.reduce(self.losses - self.loss_errors)))

    @property
    def log_error(self) -> float:
        """Of the logarithm of each mass, given that the loss is finite."""
        odds = self.infinite_mass / (1 - self.infinite_mass)
        return self.mass_error * (1 + 2 * odds)

    def _weights(self, c: Array) -> tuple[Array, Array, Array]:
        """For each c: normalised tilted masses, the errors of their logarithms before that (rows); K(c) of the finite
        part."""
        logs = elementary.log(self.masses)
        exponents = logs + np.multiply.outer(c, self.losses)
        top = exponents.max(axis=1)
        weights = elementary.exp(exponents - top[:, None])
        total = weights.sum(axis=1)
        weights /= total[:, None]
        moved = np.multiply.outer(c, self.loss_errors + 4 * UNIT * np.abs(self.losses))
        each = moved + 4 * UNIT * (2 * np.abs(logs) + np.abs(exponents) + (np.abs(top) + 4)[:, None])
        fixed = self.log_error + (self.losses.size + 16) * UNIT
        return weights, each + fixed, top + elementary.log(total) - scalars.log1p(-self.infinite_mass)

    def _from_one(self, c: Array) -> tuple[Array, Array]:
        """K(c) = log1p(E(e^{cL} - 1)), and bounds of the error, infinite where it does not do. Source:
        docs/proofs/engine.md, section 6 (K from 1)."""
        return from_one(
            c, self.losses, self.masses, self.loss_errors, (self.mass_error, self.infinite_mass), self.imbalance
        )

    def log_moments(self, c: Array) -> Array:
        weights, each, values = self._weights(c)
        errors = mean_error(weights, each) + 8 * UNIT * (np.abs(values) + 2)
        bounds: Array = values + errors
        slight = c * float(np.max(np.abs(self.losses))) <= SLIGHT
        if slight.any():
            others, other_errors = self._from_one(c[slight])
            bounds[slight] = np.minimum(bounds[slight], others + other_errors)
        return bounds

    def tilted(self, c: float) -> TiltedFinite:
        at = np.array([c])
        (weights,), (each,), (value,) = self._weights(at)
        mean = float(elementary.product(weights, self.losses))
        apart = self.losses - mean
        variance = float(elementary.product(weights, apart * apart))
        error = mean_error(weights, each) + 8 * UNIT * (abs(value) + 2)
        (other,), (other_error,) = self._from_one(at)
        if other_error < error:
            value, error = other, other_error
        return TiltedFinite(self, weights, each, Cumulants(float(value), float(error), mean, variance))

    def profile(self) -> TailProfile:
        """By its outcomes, summed from the largest loss down."""
        order = np.argsort(self.losses, kind="stable")
        values, masses = self.losses[order], self.masses[order] / (1 - self.infinite_mass)
        moved = float(np.max(self.loss_errors))
        odds = self.infinite_mass / (1 - self.infinite_mass)
        wide = float(np.max(np.abs(values)))
        error = 1.01 * scalars.expm1(self.log_error + moved) + UNIT * (16 + 4 * odds + values.size + 4 * wide)
        return listed_profile(
            values, (masses, masses * elementary.exp(-values)), moved, error, (float(values[0]) - moved, self.largest)
        )

    def within(self, most: float) -> FiniteLoss:
        """A loss without infinite mass that is as bad for a mechanism known to be (most, 0)-DP: a mass m at infinity
        becomes 2m at most + log 2.

        Claim: its profile is at least the mechanism's, if that of this loss is: at eps <= most the mass counts 2m (1 -
        e^(eps - most)/2) >= m, and beyond, the mechanism's profile is 0. So are its moments, which are integrals of the
        profile. Source: docs/proofs/amplification.md, section 9 (what rounding leaves at infinity)."""
        mass = up(2 * self.infinite_mass)
        return FiniteLoss(
            np.append(self.losses, up(most + scalars.LN2)),
            np.append(self.masses, mass),
            np.append(self.loss_errors, 0.0),
            self.mass_error,
            0.0,
            self.imbalance + mass,
        )


@dataclass(frozen=True, slots=True, eq=False)
class TiltedFinite:
    """A finite loss tilted: its masses are `weights`, the errors of their logarithms, not yet normalised, `each`."""

    law: FiniteLoss
    weights: Array
    each: Array
    cumulants: Cumulants

    def log_decay(self, t: Array, horizon: float = math.inf) -> Array:
        """Atoms need not decay for ever. Source: docs/proofs/engine.md, section 3 (bounded losses)."""
        sizes, errors, variance = np.abs(self.law.losses), self.law.loss_errors, self.cumulants.variance
        moved = float(np.max(errors + 4 * UNIT * sizes))  # what of a computed variance is below the true one
        sound = moved * moved < 1e-8 * variance and float(np.max(self.each)) < 1e-4
        reach = float(np.max(sizes + errors)) * (1 + 1e-9)
        return decay_of_bounded(reach, 0.998 * variance if sound else 0.0, t, horizon)

    def nodes(self, step: float, count: int, work: int) -> Nodes:
        if self.weights.size * count > work:
            raise WorkLimit(f"the nodes of a finite loss need more than {work} terms")
        law, mean = self.law, np.array(self.cumulants.mean)
        return nodes_of_atoms(law.losses, law.loss_errors, self.weights, self.each, mean, step, count)


def _mixed_loss(x: float, error: float, rate: float) -> tuple[float, float]:
    """log(1 - q + q e^x), and its error where x has error `error` and q = `rate` is rounded."""
    if x > 700:  # e^x may overflow, and q is below the rounding of 1 + q e^x
        far = x + scalars.log(rate)
        loss = max(far, 0.0) + scalars.log1p(scalars.exp(-abs(far)))
        return loss, error + 8 * UNIT * (abs(x) + abs(scalars.log(rate)) + 1)
    gain = rate * scalars.expm1(x)
    loss = scalars.log1p(gain)
    slope = rate * scalars.exp(x) / (1 + gain)
    rounding = 8 * UNIT * abs(loss) + 12 * UNIT * abs(gain) / (1 + gain) + SUBNORMAL
    return loss, rounding + slope * error * (1 + 1e-6)


def approximate_pair(epsilon: float, delta: float) -> FinitePair:
    """The pair that dominates every (epsilon, delta)-DP mechanism, and is (epsilon, delta)-DP itself.

    Source: Kairouz-Oh-Viswanath 2015, Theorem 3.3; Murtagh-Vadhan 2016, Lemma 3.2.
    """
    rare = scalars.exp(-epsilon)
    likely = (1 - delta) / (1 + rare)
    unlikely = (1 - delta) * rare / (1 + rare)
    shift = 3 * UNIT * epsilon
    rounding = (12 + 6 * min(epsilon, 800) + 4 / (1 - delta)) * UNIT
    return FinitePair(
        (epsilon, -epsilon), (likely, unlikely), (unlikely, likely), delta, delta, (shift, shift), rounding, 0.0
    )


def randomised_response_pair(epsilon: float, categories: int) -> FinitePair:
    """The true value, the neighbour's true value, and any other one of `categories`, as one outcome.

    Source: Kairouz-Bonawitz-Ramage 2016 (the mechanism).
    """
    rare = scalars.exp(-epsilon)
    odds = 1 + (categories - 1) * rare
    likely, unlikely, others = 1 / odds, rare / odds, (categories - 2) * rare / odds
    shift = 3 * UNIT * epsilon
    rounding = (16 + 6 * min(epsilon, 800)) * UNIT
    if categories == 2:
        losses, left, right, errors = (epsilon, -epsilon), (likely, unlikely), (unlikely, likely), (shift, shift)
        return FinitePair(losses, left, right, 0.0, 0.0, errors, rounding, 0.0)
    return FinitePair(
        (epsilon, 0.0, -epsilon),
        (likely, others, unlikely),
        (unlikely, others, likely),
        0.0,
        0.0,
        (shift, 0.0, shift),
        rounding,
        0.0,
    )


def listed_pair(left: tuple[Decimal, ...], right: tuple[Decimal, ...]) -> FinitePair:
    """A pair that is given outcome by outcome, exactly; outcomes of one likelihood ratio are taken together.

    Source: Blackwell 1953 (the likelihood ratio is sufficient).
    """
    only_left = total(p for p, q in zip(left, right, strict=True) if not q)
    only_right = total(q for p, q in zip(left, right, strict=True) if not p)
    masses: dict[Fraction, tuple[Decimal, Decimal]] = {}
    for p, q in zip(left, right, strict=True):
        if p and q:
            ratio = Fraction(p) / Fraction(q)
            before = masses.get(ratio, (ZERO, ZERO))
            masses[ratio] = add(before[0], p), add(before[1], q)
    losses = tuple(_log_of(ratio) for ratio in masses)
    return FinitePair(
        losses,
        tuple(float(p) for p, _ in masses.values()),
        tuple(float(q) for _, q in masses.values()),
        float(only_left),
        float(only_right),
        tuple(8 * UNIT * abs(loss) for loss in losses),
        4 * UNIT,
        0.0,
    )


def _log_of(ratio: Fraction) -> float:
    """log of a positive fraction, to a few roundings, however near to 1."""
    if Fraction(1, 2) < ratio < 2:
        return scalars.log1p(float(ratio - 1))
    return scalars.log(float(ratio))


def discrete_laplace_pair(scale: float, sensitivity: int) -> FinitePair:
    """Noise of pmf proportional to e^{-|k|/scale} around 0 and around `sensitivity`, a whole number.

    The loss (|k - s| - |k|)/scale takes the values (s - 2j)/scale, j = 0..s. Source: Ghosh-Roughgarden-Sundararajan
    2012 (the geometric mechanism); the largest shift is the worst: docs/proofs/engine.md, section 7.
    """
    a = scalars.exp(-1 / scale)
    centre = -scalars.expm1(-1 / scale) / (1 + a)  # the mass of 0
    side = 1 / (1 + a)  # the mass of k <= 0
    left = (
        side,
        *(centre * scalars.exp(-k / scale) for k in range(1, sensitivity)),
        side * scalars.exp(-sensitivity / scale),
    )
    losses = tuple((sensitivity - 2 * k) / scale for k in range(sensitivity + 1))
    errors = tuple(3 * UNIT * abs(x) for x in losses)
    rounding = (24 + 8 * min(sensitivity / scale, 800)) * UNIT
    return FinitePair(losses, left, tuple(reversed(left)), 0.0, 0.0, errors, rounding, 0.0)


def mirrored(pair: FinitePair) -> FinitePair:
    """The symmetric pair with this one's profile at eps >= 0: its losses above 0, their mirror images, and what is
    left of the mass at 0.

    Assumes: P(L > 0) + Q(L > 0) <= 1 for the loss L, but for rounding; where that fails, the result has more mass than
    1, which dominates as well. Source: docs/proofs/amplification.md, section 3.
    """
    losses, left, right = np.array(pair.losses), np.array(pair.left), np.array(pair.right)
    errors = np.array(pair.loss_errors)
    above = losses > 0
    losses, left, right, errors = losses[above], left[above], right[above], errors[above]
    whole = math.fsum([*left.tolist(), *right.tolist(), pair.only_left])
    rest = max(0.0, 1 - whole * (1 - 2 * pair.mass_error))
    both = np.concatenate([left, [rest], right])
    return FinitePair.of(
        np.concatenate([losses, [0.0], -losses]),
        (both, np.concatenate([right, [rest], left])),
        (pair.only_left, pair.only_left),
        np.concatenate([errors, [0.0], errors]),
        pair.mass_error * 2 + 4 * UNIT,
    )
