"""The runs of sampled Gaussians of which some jump, so many or so many: into the layer between two smooth cuts.

Let A_i be law i cut at X_i, and b_i what a cut further out keeps beside it, a window. The runs of which k jump are the
terms of degree k of

    prod (A_i + b_i y)^{T_i}

positive measures, whose transforms are sums of products of those of A_i and b_i. So a contour may be laid through k
jumps where they are large, whatever tilt other numbers of jumps ask for. Direction remove only.
docs/proofs/engine.md, section 11.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array, ComplexArray
from dpledger.accounting.families.gaussian.tilted_rows import TiltedRows
from dpledger.accounting.laws.law import FLOOR, Cumulants, Loss, Nodes
from dpledger.errors import WorkLimit

__all__ = ["CutLoss", "JumpingRuns", "RunsOfOneLaw", "log_decay_of_window"]

LEAST_LOG_RATIO = -600.0  # of the logarithm of a decay, or of a ratio: what is smaller underflows
LARGEST_LOG = 600.0  # of the logarithm of a power of a ratio, and of what it may be off by
LEAST_MASS = 1e-250  # of a coefficient: far more than what underflows may take from it
BoolArray: TypeAlias = npt.NDArray[np.bool_]
Values = TypeVar("Values", Array, ComplexArray)
_HEIGHTS = elementary.geometric(1e-4, 0.49, 48)  # of the strip's half width
_BEFORE = elementary.geometric(1.0, 16.0, 7)  # widths before the start of a window
ROUNDED = 16 * UNIT  # of each product and sum of a coefficient, with room


class CutLoss(Loss, Protocol):
    """A sampled Gaussian with a cut."""

    def tilted(self, c: float) -> TiltedRows: ...


@dataclass(frozen=True, slots=True)
class RunsOfOneLaw:
    """`count` runs of one law: A is `within` its cut, b is `jump`, whose window starts where that cut is."""

    within: CutLoss
    jump: CutLoss
    count: int


@dataclass(frozen=True, eq=False)
class JumpingRuns(Loss):
    """The sum of the losses of all runs, `fewest` to `most` of which jump; it counts as one loss, run once."""

    groups: tuple[RunsOfOneLaw, ...]
    fewest: int
    most: int
    infinite_mass: float = 0.0
    largest: float = math.inf
    largest_down: float = math.inf

    @property
    def counts(self) -> tuple[int, ...]:
        return tuple(runs.count for runs in self.groups)

    @property
    def runs(self) -> int:
        return sum(self.counts)

    def jumping(self, fewest: int, most: int) -> JumpingRuns:
        """The same runs, of which so many jump."""
        return replace(self, fewest=fewest, most=most)

    def cumulants(self, c: float) -> Cumulants:
        return self._weighed([(runs.within.cumulants(c), runs.jump.cumulants(c)) for runs in self.groups])[0]

    def log_moments(self, c: Array) -> Array:
        """Upper bounds of K at several c: it rises with the transforms of all A and b."""
        rows, known = self._rows(c)
        logs, rounding = self._log_sum(rows)
        return np.where(known, logs + rounding, math.inf)

    def _rows(self, c: Array) -> tuple[list[tuple[Array, Array]], BoolArray]:
        """Upper bounds of log A and log b of each law at several c, and where all of them are known."""
        rows = [_log_moments(runs, tuple(c.tolist())) for runs in self.groups]
        known = np.all(np.isfinite(rows), axis=(0, 1))
        return [(np.where(known, a, 0.0), np.where(known, b, 0.0)) for a, b in rows], known

    def log_expected(self, c: Array) -> Array:
        """log of sum T b/A: how many jumps are to be expected at a tilt, about."""
        rows, _ = self._rows(c)
        logs = [scalars.log(count) + b - a for (a, b), count in zip(rows, self.counts, strict=True)]
        expected: Array = elementary.log_of_sum(logs)
        return expected

    def log_moments_beyond(self, c: Array) -> Array:
        """Upper bounds of K at several c of the runs of which more than `most` jump.

        Source: docs/proofs/engine.md, section 11 (more jumps).
        """
        rows, known = self._rows(c)
        n = self.most + 1
        log_y = np.maximum(0.0, scalars.log(n) - self.log_expected(c))
        grown = [
            count * (a + elementary.logaddexp(0.0, b - a + log_y))
            for (a, b), count in zip(rows, self.counts, strict=True)
        ]
        bounds: Array = np.sum(grown, axis=0) - n * log_y
        return np.where(known, bounds + 1e-9 * (1 + np.sum(np.abs(grown), axis=0) + n * log_y), math.inf)

    def tilted(self, c: float) -> TiltedRuns:
        pairs = [(runs.within.tilted(c), runs.jump.tilted(c)) for runs in self.groups]
        at, log_scale = self._weighed([(a.cumulants, b.cumulants) for a, b in pairs])
        return TiltedRuns(self, tuple(pairs), at, log_scale)

    def rdp_upper(self, orders: Array) -> Array:  # a part of a composition, never priced
        return np.full(orders.shape, math.inf)

    def _log_sum(self, rows: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
        """log of the sum over the numbers of jumps, from log A and log b of each law, and a bound of its rounding."""
        both = list(zip(rows, self.counts, strict=True))
        within = sum((count * a for (a, _), count in both), start=np.zeros(()))
        size = sum((count * np.abs(a) for (a, _), count in both), start=np.zeros(()))
        logs = [scalars.log(count) + b - a for (a, b), count in both]
        scale = np.max(logs, axis=0)
        coefficients = _coefficients([elementary.exp(log - scale) for log in logs], self.counts, self.most)
        terms = np.stack(coefficients[self.fewest :], axis=-1)
        if not np.all(terms > LEAST_MASS):
            raise WorkLimit("the jumps of several laws are too unlike for floats")
        numbers = np.arange(self.fewest, len(coefficients))
        powers = elementary.log(terms) + np.multiply.outer(scale, numbers)
        top = np.max(powers, axis=-1)
        value: Array = within + top + elementary.log(np.sum(elementary.exp(powers - top[..., None]), axis=-1))
        apart = np.max([np.abs(a) + np.abs(b) for a, b in rows], axis=0)
        moved = self.most * (2 * apart + np.abs(scale) + 40) + 2 * np.abs(top) + np.abs(value)
        rounding: Array = (8 * UNIT) * ((len(rows) + 1) * size + moved) + _rounding(self)
        return value, rounding

    def _weighed(self, pairs: Sequence[tuple[Cumulants, Cumulants]]) -> tuple[Cumulants, float]:
        """K with its derivatives, about, and the largest log(T b/A)."""
        value, rounding = self._log_sum([(np.array(a.value), np.array(b.value)) for a, b in pairs])
        both = list(zip(pairs, self.counts, strict=True))
        error = sum(count * a.error for (a, _), count in both) + self.most * max(a.error + b.error for a, b in pairs)
        logs = np.array([scalars.log(count) + b.value - a.value for (a, b), count in both])
        scale = float(logs.max())
        shares = elementary.exp(logs - scale)
        log_expected = scale + scalars.log(float(shares.sum()))
        numbers = np.arange(self.fewest, self.most + 1)
        log_weights = numbers * log_expected - np.array([scalars.log_factorial(int(k)) for k in numbers.tolist()])
        weights = elementary.exp(log_weights - log_weights.max())
        jumps = float(elementary.product(weights, numbers) / weights.sum())
        spread = float(elementary.product(weights, (numbers - jumps) * (numbers - jumps)) / weights.sum())
        shares /= shares.sum()
        apart = np.array([b.mean - a.mean for a, b in pairs])
        rise = float(elementary.product(shares, apart))
        beside = float(elementary.product(shares, [b.variance - a.variance for a, b in pairs])) + float(
            elementary.product(shares, scalars.square(apart - rise))
        )
        mean = sum(count * a.mean for (a, _), count in both) + jumps * rise
        variance = sum(count * a.variance for (a, _), count in both) + jumps * beside + spread * scalars.square(rise)
        whole = (error + float(rounding)) * (1 + 1e-6)
        return Cumulants(float(value), whole, mean, max(variance, 0.0)), scale


@functools.lru_cache(maxsize=64)
def _log_moments(runs: RunsOfOneLaw, c: tuple[float, ...]) -> tuple[Array, Array]:
    at = np.array(c)
    return runs.within.log_moments(at), runs.jump.log_moments(at)


def _rounding(runs: JumpingRuns) -> float:
    """Of a coefficient, relative to the same with moduli."""
    return ROUNDED * (runs.most + 2) * (len(runs.groups) + 2)


def _coefficients(expected: Sequence[Values], counts: Sequence[int], most: int) -> list[Values]:
    """Those of y^0 to y^most in the product of (1 + e y / T)^T over the laws, e `expected`."""
    product: list[Values] = []
    for each, count in zip(expected, counts, strict=True):
        powers: list[Values] = [np.ones_like(each)]
        for k in range(1, min(most, count) + 1):
            powers.append(powers[-1] * each * ((count - k + 1) / (k * count)))
        product = _product(product, powers, most) if product else powers
    return product


def _product(one: Sequence[Values], other: Sequence[Values], most: int) -> list[Values]:
    """The coefficients of the product of two polynomials, up to that of y^most."""
    degree = min(most, len(one) + len(other) - 2)
    sums = [np.zeros_like(one[0]) for _ in range(degree + 1)]
    for i, left in enumerate(one):
        for j, right in enumerate(other[: degree + 1 - i]):
            sums[i + j] += left * right
    return sums


# ---- the tilted measure ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TiltedRuns:
    """Tilted at one c; e^`log_scale` is the largest T b/A there."""

    runs: JumpingRuns
    pairs: tuple[tuple[TiltedRows, TiltedRows], ...]
    cumulants: Cumulants
    log_scale: float

    def log_decay(self, t: Array, horizon: float = math.inf) -> Array:
        """|M| is at most what it is with |A| and |b|, and that rises with both."""
        rows = []
        for a, b in self.pairs:
            decay = np.minimum(b.log_decay(t, horizon), log_decay_of_window(b, t))
            first, second = a.log_decay(t, horizon), np.maximum(decay, LEAST_LOG_RATIO)
            rows.append((a.cumulants.value + first, b.cumulants.value + second))
        value, rounding = self.runs._log_sum(rows)
        bounds: Array = value + rounding - self.cumulants.value + 2 * self.cumulants.error + 1e-9
        return np.minimum(bounds, 0.0)

    def nodes(self, step: float, count: int, work: int) -> Nodes:
        t = step * np.arange(count, dtype=np.float64)
        counts, mean = self.runs.counts, self.cumulants.mean
        log_within, spread = np.zeros(count, dtype=np.complex128), np.zeros(count)
        position, size = [-mean], abs(mean)
        ratios, doubts = [], np.zeros(count)
        slack = (len(counts) + 6) * UNIT
        for (a, b), times in zip(self.pairs, counts, strict=True):
            own, jumps = a.nodes(step, count, work), b.nodes(step, count, work)
            ratio, doubt = _ratio(a, b, (own, jumps), t, scalars.log(times) - self.log_scale, self.runs.most)
            ratios.append(ratio)
            doubts = np.maximum(doubts, doubt)
            log_within += times * own.log_phi
            spread += times * (own.spread + slack * elementary.modulus(own.log_phi))
            position.append(times * a.cumulants.mean)
            size += times * abs(a.cumulants.mean)
        log_sum, doubt = self._log_sum_at(ratios, doubts)
        log_phi = log_within + 1j * t * math.fsum(position) + log_sum
        spread += doubt + 2 * self.cumulants.error + (8 * UNIT) * (elementary.modulus(log_phi) + t * size)
        return Nodes(log_phi, spread * (1 + 1e-6))

    def _log_sum_at(self, ratios: Sequence[ComplexArray], doubts: Array) -> tuple[ComplexArray, Array]:
        """log of the sum over the numbers of jumps, over its value at t = 0, and B: the exact one is within e^B - 1 of
        it, relatively."""
        runs, top = self.runs, self.cumulants.value
        logs = [count * a.cumulants.value for (a, _), count in zip(self.pairs, runs.counts, strict=True)]
        terms = _coefficients(ratios, runs.counts, runs.most)[runs.fewest :]
        sizes = _coefficients([elementary.modulus(ratio) for ratio in ratios], runs.counts, runs.most)[runs.fewest :]
        total, lost = np.zeros(doubts.shape, dtype=np.complex128), np.zeros(doubts.shape)
        rounding = (8 * UNIT) * (8 + math.fsum(map(abs, logs)) + runs.most * abs(self.log_scale) + abs(top))
        for k, (term, size) in enumerate(zip(terms, sizes, strict=True), runs.fewest):
            weight = scalars.exp(math.fsum(logs) + k * self.log_scale - top)
            doubt = k * doubts + rounding
            moved = np.where(doubt < LARGEST_LOG, elementary.expm1(np.minimum(doubt, LARGEST_LOG)), math.inf)
            total += weight * term
            lost += (weight + FLOOR) * np.maximum(size, FLOOR) * (moved + _rounding(runs))
        modulus = np.maximum(elementary.modulus(total), FLOOR)
        log_sum = elementary.log(modulus) + 1j * elementary.angle(total)
        return log_sum, elementary.log1p((lost + FLOOR) / modulus) + (8 * UNIT) * elementary.modulus(log_sum)


def _ratio(
    a: TiltedRows, b: TiltedRows, nodes: tuple[Nodes, Nodes], t: Array, log_front: float, most: int
) -> tuple[ComplexArray, Array]:
    """e^log_front b/A at the nodes, and D: the exact one is within e^D - 1 of it, relatively, or below the floor."""
    at_a, at_b = a.cumulants, b.cumulants
    own, jumps = nodes
    turn = t * (at_b.mean - at_a.mean)
    logs = (at_b.value - at_a.value + log_front) + (jumps.log_phi - own.log_phi) + 1j * turn
    highest = LARGEST_LOG / most
    size = elementary.exp(np.clip(logs.real, LEAST_LOG_RATIO, highest))
    ratio = elementary.from_polar(size, logs.imag)
    sizes = (
        8
        + abs(at_a.value)
        + abs(at_b.value)
        + abs(log_front)
        + elementary.modulus(jumps.log_phi)
        + elementary.modulus(own.log_phi)
    )
    rounded = (8 * UNIT) * (sizes + t * (abs(at_a.mean) + abs(at_b.mean)))
    doubts: Array = own.spread + jumps.spread + at_a.error + at_b.error + rounded
    return ratio, np.where(logs.real > highest, math.inf, doubts)


def log_decay_of_window(tilted: TiltedRows, t: Array) -> Array:
    """Claim: at least log |phi(s)| for every s >= t. Source: docs/proofs/engine.md, section 11 (decay)."""
    pair, at, w = tilted.base.grid.pairs, tilted.cumulants, tilted.base.c + 1
    cut, sigma = pair.cut, float(pair.sigma[0, 0])
    variance = scalars.square(sigma)
    assert cut is not None
    assert cut.start > -math.inf
    x = (cut.start - _BEFORE * cut.width)[::-1]
    curve = pair.curve(x[None])
    rises = (cut.start - x) / scalars.square(cut.width) - np.maximum(x, 0.0) / variance
    log_terms = w * curve.values[0] - x * x / (2 * variance) + cut.log_kept(x)
    log_shares = log_terms - scalars.log(sigma * math.sqrt(2 * math.pi)) - (at.value - at.error) + 1e-6
    log_before = np.where(rises > 0, log_shares - elementary.log(np.where(rises > 0, rises, 1.0)), math.inf)
    heights = _HEIGHTS * (math.pi * variance)
    v, s = heights / variance, curve.slopes[0][:, None]
    sines, cosines = elementary.circle(v)
    angles = elementary.arctan2(s * sines, 1 - s + s * cosines) * (1 - 1e-9)
    spent = heights * heights / 2 * (1 / variance + 1 / scalars.square(cut.width))
    turned = elementary.logaddexp(-np.multiply.outer(t, angles), log_before[:, None])
    bounds: Array = np.min(turned + spent, axis=(1, 2)) * (1 - 1e-9) + 1e-9
    return np.minimum(bounds, 0.0)
