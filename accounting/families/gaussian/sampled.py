"""The Poisson-sampled Gaussian: remove is ((1-q) N(0,s^2) + q N(1,s^2), N(0,s^2)), add the same pair turned round.

With L(x) = log(1 - q + q e^{(x - 1/2)/s^2}) and I(w) = E_{N(0,s^2)} e^{w L(x)}: E e^{z loss} is I(z+1) for remove and
I(-z) for add. I is computed by the trapezoid rule, whose error is proven from the strip |Im x| < pi s^2 in which L is
analytic. Source: Zhu-Dong-Wang 2022, Theorem 11 (the pairs); Trefethen-Weideman 2014, Theorem 5.1 (the rule);
docs/proofs/engine.md, section 4 (the strip bounds).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpledger.accounting.arithmetic import scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array
from dpledger.accounting.families.gaussian.loss import GaussianLoss, gaussian_base
from dpledger.accounting.families.gaussian.rare import RareGaussian
from dpledger.accounting.families.gaussian.sampled_grid import Grid, make_grid
from dpledger.accounting.families.gaussian.sampled_price import divergences_upper
from dpledger.accounting.families.gaussian.smooth_cut import Cut
from dpledger.accounting.families.gaussian.tilted_rows import ByTheRule
from dpledger.accounting.laws.closed_forms import sampled_closed
from dpledger.accounting.laws.law import ClosedForm, Direction, Loss, Parts, excess, sum_up
from dpledger.accounting.laws.sampled_curve import LossCurve, mixed_curve, mixed_slopes
from dpledger.accounting.laws.tails import TailProfile, sampled_profile

__all__ = ["FEWEST", "BundledGaussians", "SampledGaussianLoss", "rdp_both_ways"]

CHUNK = 96  # losses of one bundle
FEWEST = 10  # distinct sampled Gaussians that are worth a bundle
_HALVINGS = 60
_MORE_OF_NOISE = 10.0  # a relative change of the noise counts as so many times one of the rate


@dataclass(frozen=True, slots=True)
class SampledGaussianLoss(ByTheRule):
    """`rate` in (0, 1), `sigma` = the noise multiplier, above 0. `cut`: with it (direction remove) the measures have
    mass below 1, and K(0) < 0."""

    rate: float
    sigma: float
    direction: Direction
    infinite_mass: float = 0.0
    cut: Cut | None = None

    @property
    def largest(self) -> float:
        return math.inf if self.direction == "remove" else self._saturation(1.0)

    @property
    def largest_down(self) -> float:
        return math.inf if self.direction == "remove" else self._saturation(-1.0)

    def _saturation(self, side: float) -> float:
        """-log(1 - q), moved outward by more than its rounding."""
        return -scalars.log1p(-self.rate) * (1 + side * 8 * UNIT) + side * 4 * UNIT * self.rate / (1 - self.rate)

    @property
    def chi_squared(self) -> float:
        """About the chi-square divergence of the pair: the variance of the loss, where that is small."""
        return scalars.square(self.rate) * scalars.expm1(min(1 / scalars.square(self.sigma), 500.0))

    @property
    def pairs(self) -> SampledPairs:
        return _row(self.rate, self.sigma, self.direction, self.cut)

    def rdp_upper(self, orders: Array) -> Array:
        """Claim: at least the Renyi divergences in this direction. Source: Mironov-Talwar-Zhang 2019, section 3.3."""
        c = excess(orders)
        return divergences_upper(self.rate, self.sigma, c + 1 if self.direction == "remove" else -c, c)

    @property
    def closed(self) -> ClosedForm:
        """From that of the Gaussian. Source: Balle-Barthe-Gaboardi 2018."""
        base = GaussianLoss(1 / scalars.square(self.sigma))
        return sampled_closed(
            base.closed,
            (math.inf, math.inf),
            rate=self.rate,
            direction=self.direction,
            largest=self.largest,
            guess=functools.partial(_guessed_addition, self.rate, self.sigma),
        )

    @property
    def kin(self) -> Direction | None:
        return None if self.cut else self.direction

    def bundled(self, parts: Sequence[tuple[SampledGaussianLoss, int]]) -> tuple[Loss, ...] | None:
        return in_bundles(parts)

    def enclosed(self, parts: Sequence[tuple[SampledGaussianLoss, int]], most: int) -> tuple[Parts, Parts]:
        """Claim: the first list dominates `parts`, and these the second. Source: docs/proofs/engine.md,
        section 11 (many distinct laws)."""
        found: list[Parts] = []
        groups = _neighbours(list(parts), most)
        counts = [sum(count for _, count in some) for some in groups]
        for rate, sigma in ((max, min), (min, max)):
            ends = ((rate(law.rate for law, _ in some), sigma(law.sigma for law, _ in some)) for some in groups)
            losses = (replace(self, rate=likely, sigma=noise) for likely, noise in ends)
            found.append(tuple(zip(losses, counts, strict=True)))
        return found[0], found[1]

    @property
    def bend(self) -> float:
        """That of a sample that holds the unit, at the shift that pays for its rate: beyond, K rises as no parabola."""
        if self.direction == "add" or self.cut:
            return math.inf
        return -2 * scalars.square(self.sigma) * scalars.log(self.rate)

    @property
    def rare(self) -> RareGaussian | None:
        if self.direction == "add" or self.cut:
            return None
        return RareGaussian(self.rate, self.sigma, self.chi_squared, lambda cut: replace(self, cut=cut))

    def profile(self) -> TailProfile | None:
        """By the tails of the Gaussian pair; None of a cut loss."""
        if self.cut:
            return None
        base = gaussian_base(1 / self.sigma)
        return sampled_profile(base, math.inf, rate=self.rate, direction=self.direction, largest=self.largest)


@dataclass(frozen=True, eq=False)
class SampledPairs:
    """Sampled Gaussians of one direction, a row each: their rates and noise multipliers, as columns."""

    rate: Array
    sigma: Array
    direction: Direction
    cut: Cut | None = None

    def curve(self, x: Array) -> LossCurve:
        return mixed_curve(self.rate, (x - 0.5) / scalars.square(self.sigma))

    def slope(self, x: Array) -> Array:
        return mixed_slopes(self.rate, (x - 0.5) / scalars.square(self.sigma))


def _neighbours(parts: list[tuple[SampledGaussianLoss, int]], most: int) -> list[list[tuple[SampledGaussianLoss, int]]]:
    """At most so many groups of laws that are near each other: the widest group is divided in the middle."""
    groups = [parts]
    while len(groups) < most:
        widths = [_widths(some) for some in groups]
        i = max(range(len(groups)), key=lambda i: max(widths[i]))
        if max(widths[i]) <= 0:
            break
        by_rate = widths[i][0] > widths[i][1]
        values = [law.rate if by_rate else law.sigma for law, _ in groups[i]]
        middle = math.sqrt(min(values)) * math.sqrt(max(values))
        low = [part for part, value in zip(groups[i], values, strict=True) if value < middle]
        high = [part for part, value in zip(groups[i], values, strict=True) if value >= middle]
        if not low or not high:
            break
        groups[i : i + 1] = [low, high]
    return groups


def _widths(some: list[tuple[SampledGaussianLoss, int]]) -> tuple[float, float]:
    """How far the rates, and the noises, of some laws are apart, relatively."""
    rates, sigmas = zip(*((law.rate, law.sigma) for law, _ in some), strict=True)
    return max(rates) / min(rates) - 1, _MORE_OF_NOISE * (max(sigmas) / min(sigmas) - 1)


@functools.lru_cache(maxsize=1024)
def _row(rate: float, sigma: float, direction: Direction, cut: Cut | None) -> SampledPairs:
    """One, the same object each time: its grids are kept."""
    return SampledPairs(np.array([[rate]]), np.array([[sigma]]), direction, cut)


# ---- many as one ----------------------------------------------------------------------------------------------------


def in_bundles(group: Sequence[tuple[SampledGaussianLoss, int]]) -> tuple[Loss, ...] | None:
    """Bundles of at most CHUNK losses, whose arrays stay in the cache: the first holds those that decay fastest, and
    only it tells its decay; the others hold losses with equally many points. None where they are too few."""
    if len(group) < FEWEST:
        return None
    ordered = sorted(
        group, key=lambda part: scalars.square(part[0].rate) * part[1] / scalars.square(part[0].sigma), reverse=True
    )
    rest = sorted(ordered[CHUNK:], key=lambda part: part[0].sigma)
    others = [tuple(rest[start : start + CHUNK]) for start in range(0, len(rest), CHUNK)]
    return BundledGaussians(tuple(ordered[:CHUNK])), *(BundledGaussians(chunk, decays=False) for chunk in others)


@dataclass(frozen=True, eq=False)
class BundledGaussians(ByTheRule):
    """Sampled Gaussians of one direction, without cuts, each with its count: the sum of all of them, as one loss."""

    parts: tuple[tuple[SampledGaussianLoss, int], ...]
    decays: bool = True
    infinite_mass: float = 0.0

    @functools.cached_property
    def largest(self) -> float:
        return sum_up([count * law.largest for law, count in self.parts])

    @functools.cached_property
    def largest_down(self) -> float:
        return -sum_up([-count * law.largest_down for law, count in self.parts])

    @functools.cached_property
    def counts(self) -> Array:
        return np.array([count for _, count in self.parts], dtype=np.float64)

    @functools.cached_property
    def pairs(self) -> SampledPairs:
        numbers = np.array([(law.rate, law.sigma) for law, _ in self.parts])
        return SampledPairs(numbers[:, :1], numbers[:, 1:], self.parts[0][0].direction)

    @property
    def bend(self) -> float:
        return min(law.bend for law, _ in self.parts)

    def rdp_upper(self, orders: Array) -> Array:  # a part of a composition, never priced
        return np.full(orders.shape, math.inf)

    @functools.cached_property
    def _kept(self) -> dict[float, Grid]:
        return {}

    def grid_up_to(self, c: float) -> Grid:
        """Kept for neighbouring tilts."""
        for top, grid in self._kept.items():
            if c <= top <= 8 * c:
                return grid
        top = math.ldexp(1.0, math.frexp(c)[1] + 1)
        return self._kept.setdefault(top, make_grid(self.pairs, top, 0.0))


# ---- prices ---------------------------------------------------------------------------------------------------------


def rdp_both_ways(rate: float, sigma: float, orders: Array) -> tuple[Array, Array]:
    """The Renyi divergences of a Poisson-sampled Gaussian, rounded up: adding the unit, removing it.

    Claim: at least D(Q||P) and D(P||Q) for the pairs of the module at each order; infinite where no bound was found.
    Source: Mironov-Talwar-Zhang 2019, section 3.3; docs/proofs/engine.md, section 5.
    """
    c = excess(orders)
    adding, removing = np.split(divergences_upper(rate, sigma, np.append(-c, c + 1), np.append(c, c)), 2)
    return adding, removing


def _guessed_addition(rate: float, sigma: float, delta: float) -> float:
    """Where delta(epsilon) of a sampled Gaussian, direction add, is about `delta`: nothing is proven of it."""
    mu, low, high = 1 / sigma, 0.0, -scalars.log1p(-rate)
    for _ in range(_HALVINGS):
        epsilon = (low + high) / 2
        left = rate - (1 - rate) * scalars.expm1(epsilon)
        inner = epsilon + scalars.log(rate / left) if left > 0 else math.inf
        tail = scalars.erfc((inner / mu - mu / 2) / math.sqrt(2)) / 2
        near = scalars.exp(min(inner, 700.0)) * scalars.erfc((inner / mu + mu / 2) / math.sqrt(2)) / 2
        low, high = (epsilon, high) if left * (tail - near) > delta else (low, epsilon)
    return (low + high) / 2
