"""Two scales: many small losses and a few large ones, for a Poisson-sampled Gaussian of a small rate.

There the tail is ruled by one outcome far out, or a few: the law of the loss falls more slowly than any exponential for
a while, and every contour loses all its digits. A smooth cut chi splits each run's densities into a part a of small
losses and a part b of *jumps*. Which part an outcome falls to is a coin that does not see the data, so exactly

    delta(eps) = sum over k of C(T, k) E_{B ~ b^k} delta_{a^(T-k)}(eps - B)

The profiles of the a part come from contours, which are sharp there (`bulk`); the jumps are put on a lattice, above and
below, and convolved directly: all terms are positive, so only relative roundings occur. Direction remove only: in the
direction add the loss is bounded. docs/proofs/engine.md, section 11.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from dpledger.accounting.engine.bulk import Bulk
from dpledger.accounting.engine.composed import Composed, log_kappa
from dpledger.accounting.engine.floating import Array
from dpledger.accounting.engine.solve import WIDTH, Interval
from dpledger.accounting.engine.tilt import saddle_for_delta
from dpledger.accounting.laws.jump_cells import FARTHEST, JumpCells, jump_cells
from dpledger.accounting.laws.smooth_cut import Cut, mass_beyond, require_error_function
from dpledger.accounting.laws.subsampled import SampledGaussianLoss
from dpledger.errors import WorkLimit

__all__ = ["has_jumps", "jumps_delta", "jumps_epsilon"]

CELLS, FEWER_CELLS, ROUGH_CELLS = 4096, 2048, 512  # of the lattice of jumps
SEVERAL = 4  # jumps: more are put on fewer cells
MOST_JUMPS = 12
LEFT_OUT = 1e-6  # of delta: jumps that are not counted
STEEPER = 2.0  # the jumps begin where their law falls so many times as steeply as at the end of interest
STEADY = 1.5  # times that steepness: up to there small losses are to be summed sharply
MOST_EXPECTED = 0.5  # jumps in all runs, on average: more are no jumps
REACH = 15.0  # below delta, to base e: what no longer matters
MARGIN = 20.0  # of tilt times loss: the lattice goes on so far beyond epsilon
SHARE_OF_POINT = 1 / 9  # the width of the cut is at most this share of its point
_UNDERFLOW = 1e-319  # more than CELLS products of floats lose where they underflow
_ROUNDING = 2e-12  # more than CELLS + 8 roundings
_SEARCH = 60
_FINE = 1e-8
_NOTHING = 750.0  # digits of a number that underflows, to base e


def has_jumps(composed: Composed) -> bool:
    """Whether it is one uncut Poisson-sampled Gaussian, direction remove, run at least twice."""
    match composed.parts:
        case ((SampledGaussianLoss(direction="remove", cut=None), count),):
            return count > 1
        case _:
            return False


def jumps_epsilon(composed: Composed, down: float, up: float) -> Interval:
    """Bounds of the least epsilon >= 0 with d(epsilon) <= delta.

    Claim: the upper bound holds for every delta >= down, the lower for every delta <= up. Source:
    docs/proofs/engine.md, section 11.
    """
    found = Interval(0.0, composed.largest)
    if not has_jumps(composed):
        return found
    try:
        split = _split(composed, down)
        rough = Sums(split, split.ceiling, ROUGH_CELLS)
        first = _solved(rough, down, up, Interval(0.0, split.ceiling))
        if first.upper == split.ceiling:  # where the search ended, no bound
            return Interval(first.lower, found.upper)
        found = found.meet(first)
        far = max(split.last_loss, min(split.ceiling, found.upper + MARGIN / split.tilt))
        fine = Sums(split, far, CELLS if rough.most <= SEVERAL else FEWER_CELLS)
        fine.count_to(rough.most)
        return found.meet(_solved(fine, down, up, found))
    except WorkLimit:
        return found


def jumps_delta(composed: Composed, epsilon: float, about: float) -> Interval:
    """Bounds of d(epsilon), with a split made for a delta of `about`.

    Claim: lower <= d(epsilon) <= upper. Source: docs/proofs/engine.md, section 11.
    """
    whole = Interval(0.0, 1.0)
    if not (has_jumps(composed) and about > 0):
        return whole
    try:
        split = _split(composed, about)
        sums = Sums(split, min(split.ceiling, max(split.last_loss, epsilon + MARGIN / split.tilt)), CELLS)
        if epsilon >= sums.largest:
            return whole
        sums.count_until_few(epsilon, LEFT_OUT * about)
        return Interval(sums.below(epsilon), min(1.0, sums.above(epsilon)))
    except WorkLimit:
        return whole


def _solved(sums: Sums, down: float, up: float, within: Interval) -> Interval:
    """Count more jumps until those that are left do not matter; then both ends, each verified."""
    while True:
        lower = _crossing(sums.below, up, within).lower
        if not sums.count_until_few(lower, LEFT_OUT * down):
            break
    return Interval(lower, _crossing(sums.above, math.nextafter(down, 0.0), within).upper)


def _crossing(falling: Callable[[float], float], target: float, within: Interval) -> Interval:
    """Two neighbouring points, the function at least the target at the first and below it at the second, by secants of
    its logarithm and halving; the ends of `within` are not asked."""
    low, high = within.lower, within.upper
    at_low, at_high = math.nan, math.nan
    for tries in range(_SEARCH):
        if high - low <= _FINE * high:
            break
        guess = low + (high - low) * at_low / (at_low - at_high) if tries % 3 and at_low > at_high else math.nan
        aside = _FINE * high / 4 if abs(at_low) < abs(at_high) else -_FINE * high / 4  # to close in from both sides
        at = guess + aside if low < guess + aside < high else (low + high) / 2
        value = falling(at)
        excess = math.log(value / target) if value > 0 else -_NOTHING
        if value >= target:
            low, at_low = at, excess
        else:
            high, at_high = at, excess
    return Interval(low, high)


# ---- the split: any is valid ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """`count` runs of `loss`, divided by `cut`; P masses of the jumps of a run (bounds); the tail falls about as
    e^{-tilt l}; epsilon is at most about `ceiling`; one jump beyond `last_loss` is too rare to matter."""

    loss: SampledGaussianLoss
    count: int
    cut: Cut
    jumps: tuple[float, float]
    tilt: float
    ceiling: float
    last_loss: float
    bulk: Bulk


def _split(composed: Composed, delta: float) -> Split:
    """Raises WorkLimit where the losses have one scale only."""
    require_error_function()
    loss, count = composed.parts[0]
    assert isinstance(loss, SampledGaussianLoss)
    saddle = saddle_for_delta(composed, math.log(delta), WIDTH)
    point, tilt = _first_jump(loss, _point_beyond(loss, delta / count), saddle.c)
    width = 1.6 * loss.sigma**2 / math.sqrt(2.4 * (STEEPER * tilt + 1) + 2)
    cut = Cut(point, min(width, SHARE_OF_POINT * point))
    beyond = mass_beyond(loss.rate, loss.sigma, cut)
    if beyond * count > MOST_EXPECTED:
        raise WorkLimit("there are many jumps")
    jumps = (max(0.0, beyond * (1 - 1e-9) - 2e-300), beyond)
    last_loss = _loss_at(loss, _point_beyond(loss, LEFT_OUT * delta / count))
    ceiling = max(last_loss, saddle.epsilon * 1.02 + MARGIN / tilt)
    least = math.log(delta) - REACH
    masses = (1 - jumps[1], 1 - jumps[0])
    bulk = Bulk(replace(loss, cut=cut), count, masses, tilt=STEADY * tilt, least=least, ceiling=ceiling)
    return Split(loss, count, cut, jumps, tilt, ceiling, last_loss, bulk)


def _first_jump(loss: SampledGaussianLoss, single: float, saddle: float) -> tuple[float, float]:
    """Where jumps begin, and the tilt at the end of interest: that of one jump to the point `single`, or, if the law
    falls more and more steeply there, perhaps of several: the saddle's."""
    if single <= 1:
        raise WorkLimit("outcomes of no loss are as rare as delta")
    x = np.linspace(0.5, single, 1024)[1:]
    falls = x / _slopes(loss, x)  # 1 + (-d log P / d loss)
    top = int(np.argmax(falls))
    flattest = top + int(np.argmin(falls[top:]))
    steepness = float(falls[-1]) if flattest == falls.size - 1 else min(float(falls[-1]), saddle + 1)
    steep = np.flatnonzero(falls[: flattest + 1] > STEEPER * max(steepness, 2.0, float(falls[flattest])))
    if steep.size == 0 or steep[-1] == flattest:
        raise WorkLimit("the losses have one scale only")
    return float(x[steep[-1] + 1]), max(steepness - 1, 1.0)


def _point_beyond(loss: SampledGaussianLoss, mass: float) -> float:
    """About the x beyond which P has this mass."""
    low, high = 0.0, FARTHEST * loss.sigma
    for _ in range(30):
        middle = (low + high) / 2
        near, far = (math.erfc((middle - mean) / (loss.sigma * math.sqrt(2))) / 2 for mean in (0.0, 1.0))
        low, high = (middle, high) if (1 - loss.rate) * near + loss.rate * far > mass else (low, middle)
    return high


def _slopes(loss: SampledGaussianLoss, x: Array) -> Array:
    """sigma^2 L'(x)."""
    slopes: Array = 1 / (1 + (1 - loss.rate) / loss.rate * np.exp((0.5 - x) / loss.sigma**2))
    return slopes


def _loss_at(loss: SampledGaussianLoss, x: float) -> float:
    return float(np.logaddexp(math.log1p(-loss.rate), math.log(loss.rate) + (x - 0.5) / loss.sigma**2))


# ---- the sum over the number of jumps -------------------------------------------------------------------------------


@dataclass(eq=False)
class Sums:
    """The sum over the number of jumps, on a lattice of `count` cells up to the loss `largest`.

    Entry k of `_above` and `_below`: C(T, k) times the P masses of k jumps on the losses i h, i <= count."""

    split: Split
    largest: float
    count: int
    most: int = 0
    _above: list[Array] = field(default_factory=lambda: [np.ones(1)])
    _below: list[Array] = field(default_factory=lambda: [np.ones(1)])
    _outside: float = 0.0  # of all k together: C(T, k) times the mass of those that add up to more than `largest`
    _outside_last: float = 0.0

    def __post_init__(self) -> None:
        self._cells: JumpCells = jump_cells(self.split.loss, self.split.cut, self.largest, self.count)
        self._once = (self.split.count * self._cells.above, self.split.count * self._cells.below)
        self._log_transform = self._transform()
        self.count_to(1)

    def _transform(self) -> Array:
        """Upper bounds of log E e^{cB} of one jump, at the bulk's rungs c."""
        above, c = self._cells.above, self.split.bulk.rungs
        filled = np.flatnonzero(above)
        exponents = np.multiply.outer(c, filled * self._cells.spacing) + np.log(above[filled])
        tops = np.max(exponents, axis=1)
        sums: Array = tops + np.log(np.sum(np.exp(exponents - tops[:, None]), axis=1)) + c * self._cells.slack
        return sums + 1e-9 * (1 + np.abs(sums))

    def count_to(self, jumps: int) -> None:
        """Include the terms of up to so many jumps."""
        while self.most < min(jumps, self.split.count - 1):
            k = self.most = self.most + 1
            share = (self.split.count - k + 1) / (k * self.split.count)
            once_above, once_below = self._once
            above = np.convolve(self._above[-1], once_above) * (share * (1 + _ROUNDING)) + _UNDERFLOW
            below = np.convolve(self._below[-1], once_below) * (share * (1 - _ROUNDING)) - _UNDERFLOW
            outside = self._outside_last * float(once_above.sum()) * share + float(above[self.count + 1 :].sum())
            self._outside_last = outside * (1 + _ROUNDING)
            self._outside += self._outside_last
            self._above.append(above[: self.count + 1])
            self._below.append(np.maximum(below[: self.count + 1], 0.0))

    def count_until_few(self, epsilon: float, mass: float) -> bool:
        """Include terms until what is left is at most `mass` at this epsilon; whether any was."""
        before = self.most
        while self.most < MOST_JUMPS and self.most < self.split.count - 1 and self._left_out(epsilon) > mass:
            self.count_to(self.most + 1)
        return self.most > before

    def _left_out(self, epsilon: float) -> float:
        """Claim: at least what the terms of more than `most` jumps add. Source: docs/proofs/engine.md, section 11."""
        runs, bulk, m = self.split.count, self.split.bulk, self.most + 1
        if m > runs:
            return 0.0
        log_choices = m * math.log(runs) - math.lgamma(m + 1)
        by_mass = log_choices + m * math.log(self.split.jumps[1])
        of_all = np.logaddexp(bulk.log_moments(), self._log_transform)
        by_chernoff = m * self._log_transform + (runs - m) * of_all - bulk.rungs * epsilon + log_kappa(bulk.rungs)
        least = log_choices + float(by_chernoff.min())
        return math.exp(min(700.0, min(by_mass, least + 1e-9 * abs(least)) + 1e-6))

    def above(self, epsilon: float) -> float:
        """Claim: at least delta(epsilon), 0 <= epsilon < largest. Source: docs/proofs/engine.md, section 11."""
        once, runs = self._cells.above, self.split.count
        beyond = runs * self._cells.beyond * math.exp(min(700.0, runs * (float(once.sum()) + self._cells.beyond)))
        total = self._outside + self._left_out(epsilon) + beyond
        for k, masses in enumerate(self._above):
            losses: Array = np.arange(masses.size, dtype=np.float64) * self._cells.spacing + k * self._cells.slack
            total += float(np.dot(masses, self.split.bulk.profile(runs - k).above(epsilon - losses))) + _UNDERFLOW
        return total * (1 + _ROUNDING)

    def below(self, epsilon: float) -> float:
        """Claim: at most delta(epsilon), 0 <= epsilon < largest. Source: docs/proofs/engine.md, section 11."""
        total = 0.0
        for k, masses in enumerate(self._below):
            losses: Array = (np.arange(masses.size, dtype=np.float64) + k * self._cells.offset) * self._cells.spacing
            total += float(np.dot(masses, self.split.bulk.profile(self.split.count - k).below(epsilon - losses)))
        return max(0.0, total * (1 - _ROUNDING) - len(self._below) * _UNDERFLOW)
