"""Units that are exchanged on Poisson samples of Gaussian noise: against quadrature, every batch of a few units,
vectors and dp_accounting."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import privacy_loss_distribution as pld

import dpledger as dpl
from dpledger.accounting.arithmetic.floating import UNIT
from dpledger.accounting.families.gaussian.mixtures import _in_floats, in_samples
from dpledger.accounting.families.gaussian.opposed import _masses, opposed_bracket
from dpledger.accounting.laws.law import Direction
from dpledger.accounting.rules import cost
from dpledger.errors import CannotCertify
from dpledger.relations import Relation
from engine_oracles import mp, real
from leaf_conformance import Pmf, divergence, grid, hockey_stick, masses, normal_tail

pytestmark = pytest.mark.sliced

ADD, ZERO, REPLACE, FLIP = Relation.ADD_REMOVE, Relation.ZERO_OUT, Relation.REPLACE_ONE, Relation.LABEL_FLIP
DIRECTIONS: tuple[Direction, ...] = ("remove", "add")
ORDERS = (Decimal("1.25"), Decimal(3), Decimal(40))
Real = Any


def sampled(noise: object, rate: object) -> dpl.PoissonSampled:
    return dpl.PoissonSampled(dpl.GaussianLaw(noise), rate=rate)  # type: ignore[arg-type]


def group(noise: object, rate: object, k: int, relation: Relation = REPLACE) -> dpl.Group:
    return dpl.Group(sampled(noise, rate), k=k, relation=relation)


# ---- the opposed pair, by mpmath ------------------------------------------------------------------------------------


class Opposed:
    """Bin(k, q) units of +1 against as many of -1, in noise of `sigma`."""

    def __init__(self, noise: str, rate: str, k: int = 1) -> None:
        q = real(rate)
        self.sigma, self.k = real(noise), k
        self.weights = [mp.binomial(k, j) * q**j * (1 - q) ** (k - j) for j in range(k + 1)]

    def ratio(self, x: Real, side: int) -> Real:
        """Of the mixture moved to this side, to noise around 0."""
        s = self.sigma
        return mp.fsum(w * mp.exp((side * j * x - mp.mpf(j * j) / 2) / s**2) for j, w in enumerate(self.weights))

    def loss(self, x: Real) -> Real:
        return mp.log(self.ratio(x, 1) / self.ratio(x, -1))

    def delta(self, epsilon: Real) -> Real:
        """The loss rises with the outcome: one threshold, found by halving."""
        low, high = mp.mpf(-1), mp.mpf(1)
        while self.loss(high) < epsilon:
            high *= 2
        while self.loss(low) > epsilon:
            low *= 2
        for _ in range(160):
            middle = (low + high) / 2
            low, high = (middle, high) if self.loss(middle) < epsilon else (low, middle)
        return mp.fsum(
            w * (self._tail(low - j) - mp.exp(epsilon) * self._tail(low + j)) for j, w in enumerate(self.weights)
        )

    def _tail(self, x: Real) -> Real:
        return mp.erfc(x / self.sigma / mp.sqrt(2)) / 2

    def renyi(self, order: Decimal) -> Real:
        a, s, k = real(order), self.sigma, self.k
        places = sorted({-14 * s - k, -4 * s - k, mp.mpf(0), a * k / 2, a * k, (2 * a - 1) * k, 2 * a * k + 14 * s})
        with mp.workdps(24):
            total = mp.quad(lambda x: mp.npdf(x, 0, s) * self.ratio(x, 1) ** a * self.ratio(x, -1) ** (1 - a), places)
            return mp.log(total) / (a - 1)


SINGLE = [
    ("1", "0.01", 1),
    ("0.5", "0.3", 1),
    ("4", "1e-8", 1),
    ("20", "0.001", 1),
    ("1", "0.999", 1),
    ("0.1", "0.01", 1),
    ("2", "0.05", 3),
]


@pytest.mark.parametrize(("noise", "rate", "k"), SINGLE)
def test_one_step_is_the_opposed_pair(noise: str, rate: str, k: int) -> None:
    exact = Opposed(noise, rate, k)
    for direction in DIRECTIONS:
        profile = dpl.compose(group(noise, rate, k), relation=REPLACE, direction=direction)
        for epsilon in ("0", "0.001", "0.1", "0.7", "3"):
            truth, bounds = exact.delta(real(epsilon)), profile.delta(epsilon)
            assert bounds.lower <= truth * (1 + mp.mpf("1e-15")) + mp.mpf("1e-60"), epsilon
            assert truth <= bounds.upper * (1 + mp.mpf("1e-15")), epsilon
            assert bounds.upper - bounds.lower <= 1e-3 * bounds.upper + 1e-8
        for delta in ("1e-3", "1e-9"):
            bounds = profile.epsilon(delta)
            assert bounds.lower == 0 or exact.delta(real(bounds.lower)) >= real(delta) * (1 - mp.mpf("1e-12"))
            assert exact.delta(real(bounds.upper)) <= real(delta) * (1 + mp.mpf("1e-12"))


def test_two_steps_are_between_the_bounds() -> None:
    """delta of two is the mean of that of the second, at what the first left: a sum over a fine grid."""
    exact, bounds = Opposed("1.5", "0.1"), dpl.compose((sampled("1.5", "0.1"), 2), relation=REPLACE).delta("0.3")
    truth, step = mp.mpf(0), mp.mpf("0.1")
    with mp.workdps(20):
        for i in range(-150, 160):
            x = i * step
            mass = step * mp.npdf(x, 0, exact.sigma) * exact.ratio(x, 1)
            truth += mass * exact.delta(mp.mpf("0.3") - exact.loss(x))
    assert bounds.lower * (1 - 1e-9) <= truth <= bounds.upper * (1 + 1e-9)
    assert bounds.upper - bounds.lower <= 1e-3 * bounds.upper


@pytest.mark.parametrize(("noise", "rate", "k"), [one for one in SINGLE if one[0] not in ("0.1", "4")])
def test_prices_are_its_renyi_divergences_or_just_above(noise: str, rate: str, k: int) -> None:
    exact, price = Opposed(noise, rate, k), cost(group(noise, rate, k), REPLACE, orders=ORDERS)
    for order in ORDERS:
        most, truth = price.rdp[order], exact.renyi(order)
        assert most is not None
        assert truth * (1 - mp.mpf("1e-14")) <= real(most) <= truth * (1 + mp.mpf("1e-7"))


def test_a_price_is_never_above_that_of_the_whole() -> None:
    whole = cost(dpl.GaussianLaw("0.2"), REPLACE, orders=ORDERS)
    for rate in ("1e-9", "0.2", "0.9999"):
        price = cost(sampled("0.2", rate), REPLACE, orders=ORDERS)
        assert price.rho == whole.rho
        assert price.mu_squared == whole.mu_squared
        assert all(price.rdp[order] <= whole.rdp[order] for order in ORDERS)  # type: ignore[operator]


@pytest.mark.parametrize(("noise", "rate"), [("1", "0.01"), ("0.05", "0.5"), ("1e4", "0.1"), ("0.3", "1e-9")])
def test_the_finite_pairs_hold_the_masses_of_the_pair(noise: str, rate: str) -> None:
    """Each has a mass of 1, and one ratio an outcome."""
    pairs = opposed_bracket(_in_floats(in_samples(1 / Fraction(noise) ** 2, Fraction(rate), 1)))
    for pair in (pairs.above, pairs.below):
        assert math.fsum(pair.left) == pytest.approx(1, abs=1e-13)
        assert math.fsum(pair.right) == pytest.approx(1, abs=1e-13)
        for loss, p, q, error in zip(pair.losses, pair.left, pair.right, pair.loss_errors, strict=True):
            assert abs(math.log(p / q) - loss) <= error + 2 * pair.mass_error


# ---- adversaries ----------------------------------------------------------------------------------------------------

EPSILONS = (0.0, 0.1, 0.4, 0.9, 1.6)
OTHERS = {"nothing": (0.0, 0.0), "against it": (-1.0, -1.0), "mixed": (0.5, -1.0)}


def shown(contributions: tuple[float, ...], rate: float, sigma: float) -> list[float]:
    """The noisy sum of a Poisson sample of these, through the cells of a grid: every sample."""
    edges, found = grid(0.0, 14.0, 1400), [0.0] * 1402
    for chosen in itertools.product((False, True), repeat=len(contributions)):
        chance = math.prod(rate if inside else 1 - rate for inside in chosen)
        centre = math.fsum(x for x, inside in zip(contributions, chosen, strict=True) if inside)
        cells = masses(lambda t: normal_tail(t / sigma), edges, centre)
        found = [p + chance * q for p, q in zip(found, cells, strict=True)]
    return found


@pytest.mark.parametrize("others", OTHERS)
@pytest.mark.parametrize(("before", "after"), [(1.0, -1.0), (1.0, 0.3), (-0.2, -1.0), (0.0, 1.0)])
def test_every_sample_of_three_units_shows_at_most_the_bound(others: str, before: float, after: float) -> None:
    pair = shown((before, *OTHERS[others]), 0.3, 1.0), shown((after, *OTHERS[others]), 0.3, 1.0)
    profile, price = dpl.compose(sampled(1, "0.3"), relation=REPLACE), cost(sampled(1, "0.3"), REPLACE, orders=ORDERS)
    attained = others == "nothing" and (before, after) == (1.0, -1.0)
    for here in (pair, (pair[1], pair[0])):
        for epsilon in EPSILONS:
            bounds, found = profile.delta(str(epsilon)), hockey_stick(here, epsilon)
            assert found <= bounds.upper + 1e-9
            assert not attained or bounds.lower <= found + 1e-4
        for order in ORDERS[:2]:
            assert divergence(here, float(order)) <= float(price.rdp[order]) + 1e-9  # type: ignore[arg-type]


@pytest.mark.parametrize("signs", list(itertools.product((1.0, -1.0, 0.4), repeat=2)))
def test_every_sample_of_two_exchanged_units_shows_at_most_the_bound_of_a_group(signs: tuple[float, float]) -> None:
    pair: Pmf = shown((1.0, 1.0, 0.5), 0.2, 1.5), shown((*signs, 0.5), 0.2, 1.5)
    profile = dpl.compose(group("1.5", "0.2", 2), relation=REPLACE)
    for here in (pair, (pair[1], pair[0])):
        for epsilon in EPSILONS:
            assert hockey_stick(here, epsilon) <= profile.delta(str(epsilon)).upper + 1e-9


def test_no_pair_of_vectors_shows_more_than_opposed_ones() -> None:
    """In the plane, on a grid: random contributions of norm at most 1, also far from opposed."""
    generator = np.random.default_rng(20)
    for _ in range(25):
        rate, sigma = float(generator.uniform(0.05, 0.9)), float(generator.uniform(0.5, 2))
        profile = dpl.compose(sampled(sigma, rate), relation=REPLACE)
        angles, lengths = generator.uniform(0, 2 * math.pi, 2), generator.uniform(0.2, 1, 2) ** 0.3
        here, there = (length * np.array([math.cos(t), math.sin(t)]) for t, length in zip(angles, lengths, strict=True))
        for epsilon in (0.0, 0.3, 1.1):
            found = in_the_plane(rate, sigma, math.exp(epsilon), here, there)
            assert found <= profile.delta(str(epsilon)).upper + 1e-7


def in_the_plane(rate: float, sigma: float, a: float, here: np.ndarray, there: np.ndarray) -> float:
    line = np.linspace(-7 * sigma - 1, 7 * sigma + 1, 301)
    x, y = np.meshgrid(line, line)

    def noise(place: np.ndarray) -> np.ndarray:
        squares = (x - place[0]) ** 2 + (y - place[1]) ** 2
        density: np.ndarray = np.exp(-squares / (2 * sigma**2)) / (2 * math.pi * sigma**2)
        return density

    gap = (1 - rate) * (1 - a) * noise(np.zeros(2)) + rate * noise(here) - a * rate * noise(there)
    return float(np.maximum(gap, 0.0).sum() * (line[1] - line[0]) ** 2)


def test_a_twin_that_takes_it_for_a_unit_that_comes_is_refuted() -> None:
    pair = shown((1.0, 0.0), 0.3, 1.0), shown((-1.0, 0.0), 0.3, 1.0)
    twin, law = dpl.compose(sampled(1, "0.3")), dpl.compose(sampled(1, "0.3"), relation=REPLACE)
    found = {epsilon: hockey_stick(pair, epsilon) for epsilon in EPSILONS}
    assert all(one > twin.delta(str(epsilon)).upper + 1e-2 for epsilon, one in found.items() if epsilon <= 0.4)
    assert all(one <= law.delta(str(epsilon)).upper + 1e-9 for epsilon, one in found.items())


# ---- what reads as it -----------------------------------------------------------------------------------------------


def test_a_flipped_label_and_a_unit_for_another_are_exchanged_units() -> None:
    found = dpl.compose((sampled(1, "0.05"), 40), relation=REPLACE).epsilon("1e-6")
    of_one = dpl.Group(sampled(1, "0.05"), k=2, relation=ADD)
    for tree, relation in (
        (sampled(1, "0.05"), FLIP),
        (of_one, REPLACE),
        (dpl.Group(sampled(1, "0.05"), k=2, relation=ZERO), REPLACE),
        (group(1, "0.05", 1), FLIP),
    ):
        assert dpl.compose((tree, 40), relation=relation).epsilon("1e-6") == found


def test_several_gaussians_on_one_batch_are_one() -> None:
    several = dpl.PoissonSampled(dpl.Sequence((dpl.GaussianLaw(2), dpl.GaussianLaw(2))), rate="0.05")
    found = dpl.compose((several, 10), relation=REPLACE).epsilon("1e-6")
    alone = dpl.compose((sampled(Decimal(2).sqrt(), "0.05"), 10), relation=REPLACE).epsilon("1e-6")
    assert found.lower == pytest.approx(alone.lower, rel=1e-9)
    assert found.upper == pytest.approx(alone.upper, rel=1e-9)


def test_a_sample_of_everyone_is_no_sample_and_noise_without_end_says_nothing() -> None:
    everyone, whole = (dpl.compose(tree, relation=REPLACE) for tree in (sampled(2, 1), dpl.GaussianLaw(2)))
    assert everyone.epsilon("1e-6") == whole.epsilon("1e-6")
    nearly = dpl.compose(sampled(2, "0.999999999"), relation=REPLACE).epsilon("1e-6")
    assert nearly.lower <= whole.epsilon("1e-6").upper
    assert nearly.upper == pytest.approx(float(whole.epsilon("1e-6").upper), rel=1e-3)


@pytest.mark.parametrize(
    ("noise", "rate", "steps"), [("1", "0.01", 1000), ("2", "0.05", 100), ("0.7", "0.02", 500), ("1", "0.01", 1)]
)
def test_dp_accounting_says_the_same(noise: str, rate: str, steps: int) -> None:
    """Its grid is rounded upward: a finer one comes closer from above."""
    theirs = pld.from_gaussian_mechanism(
        float(noise),
        sampling_prob=float(rate),
        value_discretization_interval=1e-4,
        neighboring_relation=NeighboringRelation.REPLACE_ONE,
    ).self_compose(steps)
    ours = dpl.compose((sampled(noise, rate), steps), relation=REPLACE).epsilon("1e-6")
    found = theirs.get_epsilon_for_delta(1e-6)
    assert ours.lower <= found
    assert ours.upper <= found * 1.0003
    assert ours.upper - ours.lower <= 4e-4 * ours.upper


def test_truncation_costs_what_dp_accounting_finds_or_less() -> None:
    for batch, steps in ((15, 50), (25, 50), (60, 400)):
        theirs = pld.from_truncated_subsampled_gaussian_mechanism(
            1000,
            0.01,
            batch,
            1.0,
            value_discretization_interval=1e-3,
            neighboring_relation=NeighboringRelation.REPLACE_ONE,
        ).self_compose(steps)
        law = dpl.planning.TruncatedSampledGaussianLaw(1, "0.01", 1000, batch)
        ours = dpl.compose((law, steps), relation=REPLACE).epsilon("1e-6")
        assert ours.lower <= ours.upper <= theirs.get_epsilon_for_delta(1e-6)


REFUSED: dict[str, tuple[dpl.Composition, str]] = {
    "declared": (
        dpl.PoissonSampled(dpl.GDP(1), rate="0.1"),
        "under replace_one is certified for Gaussian noise only, not for gdp",
    ),
    "Laplace": (dpl.PoissonSampled(dpl.LaplaceLaw(1), rate="0.1"), "not for laplace"),
    "mixed": (
        dpl.PoissonSampled(dpl.Sequence((dpl.GaussianLaw(1), dpl.GDP(1))), rate="0.1"),
        "secret batch under replace_one is certified for Gaussian noise only, not for gdp",
    ),
    "dealt": (dpl.RandomAllocation(dpl.GaussianLaw(1), steps=3), "under add_remove and zero_out"),
    "little noise": (sampled("0.03", "0.1"), "from 0.04 on"),
    "too many": (group(1, "0.1", 300), "up to 256 units"),
    "a sample of a group": (dpl.PoissonSampled(group(1, "0.1", 2), rate="0.1"), "not for mixture_of_gaussians"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_theorem_covers_is_refused_by_name(name: str) -> None:
    tree, words = REFUSED[name]
    with pytest.raises(CannotCertify, match=words):
        dpl.compose(tree, relation=REPLACE)


def test_little_noise_is_priced_as_the_whole() -> None:
    assert cost(sampled("0.03", "0.1"), REPLACE).rho == cost(dpl.GaussianLaw("0.03"), REPLACE).rho


@pytest.mark.parametrize("rounded", [(0, 0), (1, -1), (-1, 1)])
@pytest.mark.parametrize("sigma", [0.3, 2.0])
def test_the_masses_of_cells_err_by_less_than_is_stated(sigma: float, rounded: tuple[int, int]) -> None:
    """Whatever the place and sigma were before they were rounded; and by less than a million roundings."""
    place, edges = 1.25, 1.25 + sigma * np.linspace(-30, 30, 61) + 0.01
    found, errors = _masses(place, sigma, edges)
    exact_place, exact_sigma = (
        mp.mpf(x) * (1 + by * mp.mpf(UNIT)) for x, by in zip((place, sigma), rounded, strict=True)
    )
    at = [(mp.mpf(edge) - exact_place) / exact_sigma for edge in edges.tolist()]
    for i, (low, high) in enumerate(itertools.pairwise(at)):
        exact = mp.ncdf(high) - mp.ncdf(low) if low < 0 else mp.ncdf(-low) - mp.ncdf(-high)
        assert abs(exact - mp.mpf(float(found[i]))) <= mp.mpf(float(errors[i]))
        assert errors[i] <= 1e6 * UNIT * exact
