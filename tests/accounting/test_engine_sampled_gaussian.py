"""Poisson-sampled Gaussians: one run in closed form, two by quadrature, many by ball arithmetic, prices by sums."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from dpledger.accounting.arithmetic.floating import UNIT
from dpledger.accounting.composition import GaussianLaw, PoissonSampled, Repeated, Sequence
from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.engine.covering import alone, contours
from dpledger.accounting.engine.large_losses import large_losses_epsilon, layers
from dpledger.accounting.engine.solve import finite_epsilon
from dpledger.accounting.families.gaussian.rules import sampled_gaussian_rdp
from dpledger.accounting.families.gaussian.sampled import SampledGaussianLoss, rdp_both_ways
from dpledger.accounting.families.gaussian.sampled_grid import fine_grid, make_grid, weighted
from dpledger.accounting.families.gaussian.smooth_cut import Cut, mass_beyond
from dpledger.accounting.laws.law import Direction
from dpledger.accounting.laws.layers import MARGIN, lost_share
from dpledger.accounting.profile import compose
from engine_oracles import (
    ball,
    composed_sampled_delta,
    holds_delta,
    holds_epsilon,
    mp,
    real,
    sampled_gaussian_delta,
    sampled_moment,
)
from seed_batches import over_seeds

pytestmark = pytest.mark.sliced

DIRECTIONS: tuple[Direction, ...] = ("add", "remove")


@pytest.mark.parametrize("direction", DIRECTIONS)
@over_seeds(15, 200)
def test_one_run(seed: int, direction: Direction) -> None:
    rng = np.random.default_rng(seed)
    rate, sigma = f"{10 ** rng.uniform(-5, -0.05):.4g}", f"{math.exp(rng.uniform(-1, 2)):.4g}"
    profile = compose(PoissonSampled(GaussianLaw(sigma), rate=rate), direction=direction)

    def exact(epsilon: Any) -> Any:
        return sampled_gaussian_delta(real(rate), real(sigma), epsilon, direction)

    for delta in ("1e-2", "1e-6", "1e-14", "1e-40"):
        at = profile.epsilon(delta)
        assert holds_epsilon(at.lower, at.upper, exact, real(delta))
        assert at.upper - at.lower <= 1e-7 * at.upper + 1e-12
    for epsilon in ("0", "0.001", "0.3", "4"):
        found = profile.delta(epsilon)
        assert holds_delta(found.lower, found.upper, exact(real(epsilon)))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_the_contour_holds_one_run_too(direction: Direction) -> None:
    """The worst case for the contour: nothing decays. Its bounds may be wide, never wrong."""
    rng = np.random.default_rng(7)
    for _ in range(8):
        rate, sigma = f"{10 ** rng.uniform(-2, -0.1):.4g}", f"{math.exp(rng.uniform(-0.5, 1.5)):.4g}"
        composed = Composed(((SampledGaussianLoss(float(rate), float(sigma), direction), 1),))
        epsilon = float(rng.uniform(0, -math.log1p(-float(rate)) if direction == "add" else 3))
        exact = sampled_gaussian_delta(real(rate), real(sigma), mp.mpf(epsilon), direction)
        at = alone(contours, composed, epsilon)
        assert at.lower <= exact <= at.upper


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(
    ("rate", "sigma", "epsilon"), [("0.1", "1", "0.15"), ("0.5", "2", "0.5"), ("0.02", "0.6", "0.03")]
)
def test_two_runs_by_quadrature(rate: str, sigma: str, epsilon: str, direction: Direction) -> None:
    """delta_2(eps) = E_P delta_1(eps - L), integrated over x under P."""
    q, s, e = real(rate), real(sigma), real(epsilon)
    sign = 1 if direction == "remove" else -1

    def weighted(x: Any) -> Any:
        odds = mp.exp((x - mp.mpf(1) / 2) / s**2)
        base = mp.npdf(x, 0, s)
        density = base * (1 - q + q * odds) if direction == "remove" else base
        loss = sign * mp.log(1 - q + q * odds)
        return density * sampled_gaussian_delta(q, s, e - loss, direction)

    with mp.workdps(20):
        exact = mp.quad(weighted, mp.linspace(-8 * s, 8 * s + 1, 13), maxdegree=5)
    at = compose(Repeated(PoissonSampled(GaussianLaw(sigma), rate=rate), times=2), direction=direction).delta(epsilon)
    assert at.lower <= exact * (1 + real("1e-9"))
    assert at.upper >= exact * (1 - real("1e-9"))


CONTOURS = [
    (("0.01", "1", 1000), "remove", 1.8282366657, 5.0, 30.0, 260),
    (("0.1", "3", 400), "add", 1.1, 7.0, 14.0, 120),
    (("0.00001", "2", 10**10), "remove", 3.11557, 10.5, 12.0, 120),
    (("0.0001", "1", 10**8), "add", 8.3, 4.2, 24.0, 160),
]
MORE_CONTOURS = [
    (("0.004", "0.8", 14063), "remove", 4.3, 3.0, 30.0, 300),
    (("0.05", "2", 500), "remove", 3.0, 5.0, 20.0, 250),
    (("0.2", "1.5", 70), "add", 4.0, 6.0, 16.0, 400),
    (("0.001", "1.1", 100000), "add", 1.5, 9.0, 12.0, 120),
]


@pytest.mark.parametrize(
    ("part", "direction", "epsilon", "c", "window", "nodes"),
    [*CONTOURS, *(pytest.param(*one, marks=pytest.mark.slow) for one in MORE_CONTOURS)],
)
def test_many_runs_in_ball_arithmetic(
    part: tuple[str, str, int], direction: Direction, epsilon: float, c: float, window: float, nodes: int
) -> None:
    exact = ball(composed_sampled_delta([part], epsilon, direction, c=c, window=window, nodes=nodes))
    rate, sigma, count = part
    at = compose(Repeated(PoissonSampled(GaussianLaw(sigma), rate=rate), times=count), direction=direction).delta(
        epsilon
    )
    assert at.lower <= exact * (1 + 1e-11)
    assert at.upper >= exact * (1 - 1e-11)
    assert at.upper - at.lower <= 1e-6 * at.upper


@pytest.mark.parametrize(
    ("rate", "sigma", "times"), [("0.00001", "2", 10**10), ("0.0001", "1", 10**8), ("0.3", "4", 10**10)]
)
def test_rounding_hardly_grows_with_the_runs(rate: str, sigma: str, times: int) -> None:
    """What a run adds to K and phi is small, and so is its rounding."""
    at = compose(Repeated(PoissonSampled(GaussianLaw(sigma), rate=rate), times=times)).epsilon("1e-9")
    assert at.upper - at.lower <= 1e-8 * at.upper


def test_a_mix_lies_between_its_parts_and_does_not_depend_on_order() -> None:
    first = Repeated(PoissonSampled(GaussianLaw("0.9"), rate="0.004"), times=400)
    second = Repeated(PoissonSampled(GaussianLaw("1.3"), rate="0.016"), times=300)
    whole = compose(Sequence((first, second))).epsilon("1e-6")
    turned = compose(Sequence((second, first))).epsilon("1e-6")
    assert max(whole.lower, turned.lower) <= min(whole.upper, turned.upper)
    assert whole.upper > compose(second).epsilon("1e-6").lower


# ---- the smooth cut -------------------------------------------------------------------------------------------------


@over_seeds(12, 150)
def test_layers_hold_one_run(seed: int) -> None:
    """Forced on one run, where the closed form is exact; and its own transform stays within its errors."""
    rng = np.random.default_rng(900 + seed)
    rate, sigma = f"{10 ** rng.uniform(-4, -0.3):.4g}", f"{math.exp(rng.uniform(-0.5, 1.5)):.4g}"
    delta = f"{float(rate) * 10 ** rng.uniform(-9, -1):.3g}"
    composed = Composed(((SampledGaussianLoss(float(rate), float(sigma), "remove"), 1),))
    at = large_losses_epsilon(composed, float(delta), float(delta))

    def exact(epsilon: Any) -> Any:
        return sampled_gaussian_delta(real(rate), real(sigma), epsilon, "remove")

    assert holds_epsilon(at.lower, at.upper, exact, real(delta))
    point = float(rng.uniform(0, 3))
    found = alone(layers, composed, point, float(delta))
    assert holds_delta(found.lower, found.upper, exact(mp.mpf(point)))


def test_one_jump_among_many() -> None:
    """Few steps of a tiny rate, ruled by one of them: large losses apart, and one contour for all, agree."""
    rate, sigma, count, delta = 2.041e-4, 2.585, 1285, 1e-6
    composed = Composed(((SampledGaussianLoss(rate, sigma, "remove"), count),))
    whole, cut = (
        finite_epsilon(composed, math.log(delta), math.log(delta)),
        large_losses_epsilon(composed, delta, delta),
    )
    assert cut.upper - cut.lower < 1e-5 * cut.upper
    assert max(whole.lower, cut.lower) <= min(whole.upper, cut.upper)
    steps = Repeated(PoissonSampled(GaussianLaw("2.585"), rate="2.041e-4"), times=count)
    back = compose(steps, direction="remove").delta(cut.upper)
    assert back.lower <= delta <= back.upper * (1 + 1e-4)
    assert back.upper - back.lower < 1e-3 * back.upper


@pytest.mark.parametrize(
    ("rate", "sigma", "count", "delta"),
    [
        ("1e-6", "1", 10**8, "1e-8"),
        ("4.74e-5", "4.025", 3_479_356, "2.7e-65"),
    ],
)
def test_very_many_steps_where_no_single_loss_rules(rate: str, sigma: str, count: int, delta: str) -> None:
    """Very many steps of a tiny rate: one contour for all weighs outcomes that never happen, layers do not."""
    composed = Composed(((SampledGaussianLoss(float(rate), float(sigma), "remove"), count),))
    whole = finite_epsilon(composed, math.log(float(delta)), math.log(float(delta)))
    at = compose(Repeated(PoissonSampled(GaussianLaw(sigma), rate=rate), times=count), direction="remove").epsilon(
        delta
    )
    assert max(whole.lower, at.lower) <= min(whole.upper, at.upper)
    assert at.upper - at.lower <= 1e-5 * at.upper
    assert whole.relative_width() > 1e-3


@pytest.mark.parametrize(("width", "c"), [(0.3, 2.0), (0.08, 30.0), (1.0, 0.5)])
def test_the_transform_of_a_cut_loss(width: float, c: float) -> None:
    """K of chi P against quadrature at 25 digits, and the mass that the cut takes away."""
    cut = Cut(3.0, width)
    loss = SampledGaussianLoss(0.01, 1.0, "remove", cut=cut)

    def weighted(w: Any) -> Any:
        def term(x: Any) -> Any:
            loss_at = mp.log(1 - q + q * mp.exp(x - mp.mpf(1) / 2))
            return mp.npdf(x) * mp.exp(w * loss_at) * mp.ncdf((3 - x) / mp.mpf(width))

        return mp.quad(term, mp.linspace(-14, 8 + 12 * width, 40))

    with mp.workdps(25):
        q = real("0.01")
        at = loss.tilted(c).cumulants
        assert abs(mp.mpf(at.value) - mp.log(weighted(mp.mpf(c) + 1))) <= at.error
        lost = mp.mpf(mass_beyond(0.01, 1.0, cut))
        assert 1 - weighted(mp.mpf(1)) <= lost <= (1 - weighted(mp.mpf(1))) * (1 + real("1e-9"))


def test_tails_of_the_normal_law() -> None:
    cut = Cut(0.0, 1.0)
    points = np.array([-30.0, -3.0, 0.0, 1.0, 9.0, 35.9, 36.1, 80.0])
    for y, found in zip(points, cut.log_kept(points), strict=True):
        exact = mp.log(mp.erfc(mp.mpf(y) / mp.sqrt(2)) / 2)
        assert abs(mp.mpf(found) - exact) <= 8 * UNIT * (4 + abs(exact))


# ---- prices ---------------------------------------------------------------------------------------------------------


def rdp_upper(rate: str, sigma: str, order: float) -> float:
    """The larger of both directions."""
    return float(np.max(rdp_both_ways(float(rate), float(sigma), np.array([order]))))


def test_prices_at_whole_orders_against_the_binomial_sum() -> None:
    rng = np.random.default_rng(11)
    for _ in range(80):
        rate, sigma = f"{10 ** rng.uniform(-8, -0.02):.5g}", f"{math.exp(rng.uniform(-1, 3)):.5g}"
        order = int(2 ** rng.uniform(1, 7))
        exact = sampled_moment(real(rate), real(sigma), order)
        found = mp.mpf(rdp_upper(rate, sigma, order))
        assert exact <= found, (rate, sigma, order)
        assert found <= exact * (1 + real("1e-6")), (rate, sigma, order)


@pytest.mark.parametrize(
    ("rate", "sigma", "order"), [("0.01", "1", "1.5"), ("0.3", "2", "7.25"), ("1e-4", "0.7", "3.3")]
)
def test_prices_at_fractional_orders_against_quadrature(rate: str, sigma: str, order: str) -> None:
    q, s, a = real(rate), real(sigma), real(order)

    def ratio(x: Any) -> Any:
        return 1 - q + q * mp.exp((x - mp.mpf(1) / 2) / s**2)

    with mp.workdps(25):
        grid = mp.linspace(-11 * s, a + 11 * s, 25)
        remove = mp.log(mp.quad(lambda x: mp.npdf(x, 0, s) * ratio(x) ** a, grid)) / (a - 1)
        add = mp.log(mp.quad(lambda x: mp.npdf(x, 0, s) * ratio(x) ** (1 - a), grid)) / (a - 1)
    found = mp.mpf(rdp_upper(rate, sigma, float(order)))
    assert max(remove, add) <= found <= max(remove, add) * (1 + real("1e-7"))


def test_the_price_of_everyone_is_the_gaussian_price() -> None:
    assert sampled_gaussian_rdp(Decimal(1), Decimal(2), (Decimal(3),)) == (Decimal("0.375"),)
    nearly = Decimal(1) - Decimal("1e-30")
    assert sampled_gaussian_rdp(nearly, Decimal(2), (Decimal(3),)) == (Decimal("0.375"),)


@over_seeds(12, 200)
def test_behind_a_cut_a_coarser_grid_integrates_as_well(seed: int) -> None:
    """Against the grid whose step holds for every slope, node by node; and it is coarser where the loss is flat."""
    rng = np.random.default_rng(seed)
    rate, sigma = 10 ** rng.uniform(-5, -2), rng.uniform(0.6, 3)
    tilt, width = 10 ** rng.uniform(1, 2.5), rng.uniform(0.03, 0.3)
    law = SampledGaussianLoss(rate, sigma, "remove", cut=Cut(rng.uniform(2, 7) * sigma, width))
    tilted = law.tilted(tilt)
    frequency = 10 ** rng.uniform(1, 3)
    fine = fine_grid(tilted.base, frequency)
    plain = make_grid(law.pairs, tilt, frequency)
    assert fine.steps >= plain.steps
    t = frequency * np.array([0.0, 0.3, 0.7, 1.0])
    sums = [
        (weighted(grid, tilt).weights * np.exp(1j * np.multiply.outer(t, grid.losses[0]))).sum(axis=1)
        for grid in (fine, plain)
    ]
    rounding = 1e-13 + 1e-15 * frequency * float(np.abs(fine.losses).max())
    assert np.abs(sums[0] - sums[1]).max() <= rounding


# ---- the density below which the layers stay ------------------------------------------------------------------------


@pytest.mark.parametrize("direction", DIRECTIONS)
@over_seeds(40, 400)
def test_the_layers_stay_below_the_density(seed: int, direction: Direction) -> None:
    """Then their mass is at most 1, and the bound of the transform above its modulus at every frequency."""
    rng = np.random.default_rng(seed)
    loss = SampledGaussianLoss(10 ** rng.uniform(-2.5, -0.02), math.exp(rng.uniform(-0.7, 1.6)), direction)
    tilted = loss.tilted(float(10 ** rng.uniform(-1, 1.7)))
    t = np.concatenate([[0.0], np.geomspace(0.05, 8, 12)]) / math.sqrt(tilted.cumulants.variance)
    bounds = np.exp(tilted.log_decay(t))
    grid = fine_grid(tilted.base, float(t[-1]))
    points, weights = grid.losses[0] - tilted.cumulants.mean, weighted(grid, tilted.base.c).weights[0]
    moduli = np.abs(np.exp(1j * np.multiply.outer(t, points)) @ weights)
    assert (moduli <= bounds + 1e-12).all()
    assert float(tilted.layers.masses.sum()) <= 1


def test_what_a_layer_loses_keeps_its_digits_near_frequency_zero() -> None:
    """A rounding of 1e-16 there, times 10^13 runs, would be a decay that is none."""
    x = np.geomspace(1e-9, 4.0, 4000)
    shares = lost_share(x)
    for at, share in zip(x.tolist(), shares.tolist(), strict=True):
        exact = 1 - abs(mp.sin(mp.mpf(at)) / mp.mpf(at))
        assert share * (1 - MARGIN) <= exact
        assert at > 2.5 or exact <= share * (1 + MARGIN)
    assert (np.diff(shares) >= -1e-9 * shares[1:]).all()


@pytest.mark.parametrize("rate", [1e-7, 0.1, 0.9, 0.999999])
def test_the_largest_loss_in_the_direction_add_is_known_from_both_sides(rate: float) -> None:
    """Of every rate that is rounded to this one."""
    loss = SampledGaussianLoss(rate, 1.0, "add")
    for moved in (-1, 0, 1):
        assert loss.largest_down <= -mp.log1p(-mp.mpf(rate) * (1 + moved * mp.mpf(UNIT))) <= loss.largest
    assert loss.largest - loss.largest_down <= 32 * UNIT * (loss.largest + rate / (1 - rate))
