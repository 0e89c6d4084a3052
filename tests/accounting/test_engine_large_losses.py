"""Few large losses among many small ones: layers of jumps against a quadrature in one outcome, direct convolutions,
ball arithmetic and the other methods; and layers that are wrong, which must be noticed."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from mpmath import mp

import jump_oracles
from dpledger.accounting.composition import Composition, GaussianLaw, LaplaceLaw, PoissonSampled, Repeated, Sequence
from dpledger.accounting.engine import large_loss_layers, methods
from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.engine.covering import Answer, AskedEpsilons, RisingEpsilons, alone, cover
from dpledger.accounting.engine.large_loss_layers import has_large_losses
from dpledger.accounting.engine.large_losses import large_losses_epsilon, layers, two_scales
from dpledger.accounting.engine.lattice import lattice_epsilon, lattices
from dpledger.accounting.engine.solve import finite_epsilon
from dpledger.accounting.engine.tilt import chernoff_bounds
from dpledger.accounting.families.gaussian import rare
from dpledger.accounting.families.gaussian.jumping_runs import JumpingRuns, RunsOfOneLaw, log_decay_of_window
from dpledger.accounting.families.gaussian.loss import GaussianLoss
from dpledger.accounting.families.gaussian.sampled import SampledGaussianLoss
from dpledger.accounting.families.gaussian.smooth_cut import Cut, mass_beyond
from dpledger.accounting.families.laplace.loss import LaplaceLoss
from dpledger.accounting.laws.intervals import Interval
from dpledger.accounting.laws.law import Loss
from dpledger.accounting.profile import compose
from engine_oracles import ball, composed_sampled_delta
from seed_batches import over_seeds

pytestmark = pytest.mark.sliced

Case = tuple[float, float, int, float]
CASES: list[Case] = [
    (1.7597, 0.0007301, 131, 3.829e-35),
    (3.4188, 0.0012, 239, 1.913e-115),
    (3.0439, 0.000102, 340000, 1.284e-234),
    (1.1173, 0.0001794, 5510, 6.909e-219),
    (3.1081, 0.001049, 114, 2.954e-137),
    (2.4686, 0.003566, 1480, 1.07e-237),
    (0.6709, 0.0003671, 1980, 2.332e-198),
    (1.4052, 0.0004925, 956, 1.088e-215),
    (2.2007, 0.0005986, 32200, 3.088e-181),
    (0.7294, 0.0001119, 357, 4.22e-11),
    (3.29, 4.54e-4, 186360, 7.2e-172),
    (0.6551, 0.0002186, 537, 0.001016),
    (3.536, 1.81e-3, 4073, 1e-120),
    (3.906, 0.0002032, 80354, 1.06e-177),
    (3.906, 1.777e-06, 801, 6.4e-62),
    (2.371, 1.136e-05, 173, 6.03e-24),
]
TWO_JUMPS: Case = (2.4686, 0.003566, 1480, 1.07e-237)  # two jumps are 22 % of delta
ORACLE = 1e-9  # relative error of the quadrature for two runs


def composed_of(case: Case) -> Composed:
    sigma, rate, count, _ = case
    return Composed(((SampledGaussianLoss(rate, sigma, "remove"), count),))


def meets(one: Interval, other: Interval, slack: float = 0.0) -> bool:
    return max(one.lower, other.lower) <= min(one.upper, other.upper) * (1 + slack)


@pytest.mark.parametrize("case", CASES)
def test_where_every_exponential_bound_is_loose_the_interval_is_narrow(case: Case) -> None:
    composed, delta = composed_of(case), case[3]
    found = large_losses_epsilon(composed, delta, delta)
    assert 0 < found.lower <= found.upper
    assert found.relative_width() <= 1e-6
    assert meets(found, finite_epsilon(composed, math.log(delta), math.log(delta)))
    at = alone(layers, composed, (found.lower + found.upper) / 2, delta)
    assert at.lower <= delta * (1 + 1e-3)
    assert at.upper >= delta * (1 - 1e-3)
    assert 0 < at.lower <= at.upper <= 1.001 * at.lower


# ---- against other ways to the number -------------------------------------------------------------------------------


@over_seeds(10, 150)
def test_two_runs_agree_with_a_quadrature_in_one_outcome(seed: int) -> None:
    rng = np.random.default_rng(4000 + seed)
    sigma, rate = float(rng.uniform(0.5, 4)), float(10 ** rng.uniform(-6, -1.5))
    delta = float(10 ** rng.uniform(-200, -5))
    composed = composed_of((sigma, rate, 2, delta))
    found = large_losses_epsilon(composed, delta, delta)
    if found.upper < math.inf:
        assert jump_oracles.two_runs(rate, sigma, found.upper) <= delta * (1 + ORACLE)
        assert found.lower == 0 or jump_oracles.two_runs(rate, sigma, found.lower) >= delta * (1 - ORACLE)
        point = found.upper * float(rng.uniform(0.9, 1.1))
    else:
        point = float(rng.uniform(0.01, 5))
    at, exact = alone(layers, composed, point, delta), jump_oracles.two_runs(rate, sigma, point)
    assert at.lower * (1 - ORACLE) <= exact <= at.upper * (1 + ORACLE)


def test_the_quadrature_for_two_runs_is_right() -> None:
    """By mpmath, its breakpoints close to where the integrand bends."""
    rate, sigma, epsilon = 0.0019881705379059538, 2.6338409686493582, 0.3526356275412523
    known = 1.9218514388902648e-48 * (1 - 3.2472e-9)
    assert abs(jump_oracles.two_runs(rate, sigma, epsilon) / known - 1) <= 1e-11


@pytest.mark.parametrize(("sigma", "rate", "delta"), [(2.63, 2e-3, 1.9e-48), (1.79, 1.3e-3, 4.2e-32)])
def test_two_runs_are_known_to_eight_digits(sigma: float, rate: float, delta: float) -> None:
    found = large_losses_epsilon(composed_of((sigma, rate, 2, delta)), delta, delta)
    assert found.relative_width() <= 1e-7


@over_seeds(4, 40)
def test_direct_convolutions_agree(seed: int) -> None:
    """Oracle: the whole law on a lattice, 2 to 300 runs, with neither a split nor a transform."""
    rng = np.random.default_rng(seed)
    case = direct_case(rng)
    delta = case[3]
    found = large_losses_epsilon(composed_of(case), delta, delta)
    if found.upper == math.inf:
        pytest.fail(f"no layers were found for {case}")
    low, high = direct(case, found.lower), direct(case, found.upper)
    assert low.upper >= delta * (1 - 1e-8)  # delta at the lower end is at least the target
    assert high.lower <= delta * (1 + 1e-8)
    assert 0 < low.upper <= 1.6 * low.lower  # and the oracle knows it well enough to tell
    at = alone(layers, composed_of(case), found.upper, delta)
    assert meets(at, high, 1e-8)
    assert at.upper <= 1.001 * at.lower


def direct_case(rng: np.random.Generator) -> Case:
    sigma, rate = float(rng.uniform(1.2, 3.5)), float(10 ** rng.uniform(-4, -3))
    return sigma, rate, int(rng.integers(2, 300)), float(10 ** rng.uniform(-150, -60))


def direct(case: Case, epsilon: float) -> Interval:
    """The upper end is above delta. The error is of the first order at worst: as much as the coarser lattice adds."""
    sigma, rate, count, _ = case
    largest = 1.35 * epsilon
    coarse, fine = (
        jump_oracles.repeated(jump_oracles.above(rate, sigma, largest, cells), count, largest).delta(epsilon)
        for cells in (1500, 3000)
    )
    return Interval(fine - 1.2 * (coarse - fine), fine)


@pytest.mark.parametrize("count", [2, 3])
def test_two_and_three_runs_meet_the_lattice(count: int) -> None:
    for sigma, rate, delta in ((2.0, 5e-4, 1e-60), (1.3, 1e-3, 1e-40), (3.1, 2e-4, 1e-120)):
        composed = composed_of((sigma, rate, count, delta))
        found = large_losses_epsilon(composed, delta, delta)
        assert found.relative_width() <= 1e-6
        at = alone(lattices, composed, found.upper)
        assert at.lower <= delta * (1 + 1e-9)
        assert meets(at, alone(layers, composed, found.upper, delta))


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_intervals_meet_those_of_contours(data: st.DataObject) -> None:
    sigma = data.draw(st.floats(0.6, 4))
    rate = 10 ** data.draw(st.floats(-5, -1.5))
    count = int(10 ** data.draw(st.floats(0.4, 5)))
    delta = 10 ** data.draw(st.floats(-280, -3))
    found = meets_contours(composed_of((sigma, rate, count, delta)), delta)
    assert 0 <= found.lower <= found.upper


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(300))
def test_many_intervals_meet_those_of_contours_and_lattices(seed: int) -> None:
    rng = np.random.default_rng(7000 + seed)
    parts = tuple(
        (SampledGaussianLoss(float(10 ** rng.uniform(-6, -1)), float(rng.uniform(0.5, 4)), "remove"), count)
        for count in (10 ** rng.uniform(0.3, 5, size=int(rng.integers(1, 4)))).astype(int).tolist()
    )
    delta = float(10 ** rng.uniform(-295, -2))
    composed = Composed(parts)
    found = meets_contours(composed, delta)
    if sum(count for _, count in parts) < 64:
        assert meets(found, lattice_epsilon(composed, delta, delta))


def meets_contours(composed: Composed, delta: float) -> Interval:
    found = large_losses_epsilon(composed, delta, delta)
    log_delta = math.log(delta)
    contour = finite_epsilon(composed, log_delta - 1e-12 * abs(log_delta), log_delta + 1e-12 * abs(log_delta))
    assert found.lower <= found.upper
    assert meets(found, contour)
    return found


@pytest.mark.parametrize(
    ("delta", "lines"),
    [(1e-60, ((40.0, 6.0), (35.0, 8.0))), pytest.param(1e-100, ((40.0, 9.0), (35.0, 10.0)), marks=pytest.mark.slow)],
)
def test_three_hundred_bits_are_not_lost_to_any_tilt(delta: float, lines: tuple[tuple[float, float], ...]) -> None:
    """Oracle: the contour sum in ball arithmetic, on two lines, which agree: their aliases are nothing."""
    composed = composed_of((2.0, 0.001, 30000, delta))
    found = large_losses_epsilon(composed, delta, delta)
    at = alone(layers, composed, found.upper, delta)
    one, other = by_balls([("0.001", "2.0", 30000)], found.upper, lines)
    assert abs(one - other) <= 1e-9 * one
    assert at.lower <= one <= at.upper <= 1.00001 * at.lower
    assert one <= delta


def by_balls(
    parts: list[tuple[str, str, int]], epsilon: float, lines: tuple[tuple[float, float], ...]
) -> Iterator[float]:
    for c, window in lines:
        yield ball(composed_sampled_delta(parts, epsilon, "remove", c=c, window=window, nodes=int(25 * window)))


# ---- several losses -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_two_laws_that_jump_agree_with_three_hundred_bits() -> None:
    first, second = SampledGaussianLoss(0.001, 2.0, "remove"), SampledGaussianLoss(0.002, 2.0, "remove")
    composed = Composed(((first, 30000), (second, 3000)))
    found = large_losses_epsilon(composed, 1e-60, 1e-60)
    assert found.relative_width() <= 1e-6
    parts = [("0.001", "2.0", 30000), ("0.002", "2.0", 3000)]
    one, other = by_balls(parts, found.upper, ((40.0, 6.0), (35.0, 8.0)))
    assert abs(one - other) <= 1e-9 * one
    assert one <= 1e-60
    (below,) = by_balls(parts, found.lower, ((40.0, 6.0),))
    assert below >= 1e-60


SAMPLED = SampledGaussianLoss(7.3e-4, 1.76, "remove")
MIXES: list[tuple[tuple[tuple[Loss, int], ...], float]] = [
    (((SAMPLED, 131), (GaussianLoss(1e-6), 1)), 3.8e-35),
    (((SAMPLED, 131), (LaplaceLoss(0.05), 3)), 3.8e-35),
    (((SAMPLED, 131), (SampledGaussianLoss(1e-3, 1.9, "remove"), 100)), 1e-45),
    (((SAMPLED, 40), (SampledGaussianLoss(0.02, 2.0, "add"), 300), (GaussianLoss(0.02), 1)), 1e-60),
    (((SAMPLED, 131), (SampledGaussianLoss(1e-4, 3.0, "remove"), 3000), (GaussianLoss(1e-4), 2)), 1e-80),
]


@pytest.mark.parametrize(("parts", "delta"), MIXES)
def test_beside_other_losses_the_interval_is_as_narrow(parts: tuple[tuple[Loss, int], ...], delta: float) -> None:
    composed = Composed(parts)
    found = meets_contours(composed, delta)
    assert found.relative_width() <= 1e-6
    for loss, count in parts:
        assert (
            large_losses_epsilon(Composed(((loss, count),)), delta, delta).lower <= found.upper
        )  # less is learnt from a part
    turned = large_losses_epsilon(Composed(parts[::-1]), delta, delta)
    assert meets(found, turned)


@pytest.mark.parametrize("mu_squared", [1e-3, 1e-2])
def test_few_runs_beside_noise_meet_the_lattice(mu_squared: float) -> None:
    composed = Composed(((SampledGaussianLoss(5e-4, 2.0, "remove"), 3), (GaussianLoss(mu_squared), 1)))
    found = large_losses_epsilon(composed, 1e-30, 1e-30)
    assert found.relative_width() <= 1e-6
    assert meets(found, lattice_epsilon(composed, 1e-30, 1e-30))


# ---- the measure of the runs that jump ------------------------------------------------------------------------------

CUT, FARTHER = Cut(6.0, 0.4, tilt=40.0), Cut(9.0, 0.4, tilt=40.0)
RATES = ((0.01, 1.5, 3), (0.004, 1.2, 2))


def runs_of(rates: tuple[tuple[float, float, int], ...]) -> tuple[RunsOfOneLaw, ...]:
    window = replace(FARTHER, start=CUT.point)
    return tuple(
        RunsOfOneLaw(
            SampledGaussianLoss(q, s, "remove", cut=CUT), SampledGaussianLoss(q, s, "remove", cut=window), count
        )
        for q, s, count in rates
    )


def exact_transform(z: Any, rates: tuple[tuple[float, float, int], ...], fewest: int, most: int) -> Any:
    """E e^{zL} of the runs of which so many jump: coefficients of products, by quadrature at 18 digits."""
    polynomial = [mp.mpf(1)]
    for q, s, count in rates:
        within, jump = (_transform(z, mp.mpf(q), mp.mpf(s), part) for part in ("within", "jump"))
        for _ in range(count):
            longer = [a * within for a in polynomial] + [mp.mpf(0)]
            polynomial = [a + (polynomial[k - 1] * jump if k else 0) for k, a in enumerate(longer)]
    return mp.fsum(polynomial[fewest : most + 1])


@functools.cache
def _transform(z: Any, q: Any, s: Any, part: str) -> Any:
    def term(x: Any) -> Any:
        kept, more = (mp.ncdf((cut.point - x) / mp.mpf(cut.width)) for cut in (CUT, FARTHER))
        loss = mp.log(1 - q + q * mp.exp((x - mp.mpf(1) / 2) / s**2))
        return mp.npdf(x, 0, s) * mp.exp((z + 1) * loss) * (kept if part == "within" else more - kept)

    return mp.quad(term, mp.linspace(-12, 14, 27), maxdegree=4)


@pytest.mark.slow
@pytest.mark.parametrize(("fewest", "most"), [(1, 5), (1, 1), (2, 2), (2, 5)])
@pytest.mark.parametrize("rates", [RATES, RATES[:1]])
def test_the_transform_of_runs_that_jump(rates: tuple[tuple[float, float, int], ...], fewest: int, most: int) -> None:
    """K and the nodes stay within their errors, and the decay above what they are."""
    runs, c, step = JumpingRuns(runs_of(rates), fewest, min(most, sum(r[2] for r in rates))), 5.0, 0.75
    tilted = runs.tilted(c)
    at, nodes = tilted.cumulants, tilted.nodes(step, 6, 1 << 22)
    with mp.workdps(18):
        whole = exact_transform(mp.mpf(c), rates, fewest, most)
        assert abs(mp.log(whole) - at.value) <= at.error <= 1e-9
        assert float(runs.log_moments(np.array([c]))[0]) >= mp.log(whole)
        for k in (2, 5):
            z = mp.mpc(c, k * step)
            exact = exact_transform(z, rates, fewest, most) / whole * mp.expj(-mp.mpf(k * step) * mp.mpf(at.mean))
            found = mp.exp(mp.mpc(complex(nodes.log_phi[k])))
            assert abs(exact - found) <= abs(found) * mp.expm1(float(nodes.spread[k]))
            assert nodes.spread[k] <= 1e-7
            assert float(tilted.log_decay(np.array([k * step]))[0]) >= mp.log(abs(exact)) - mp.mpf("1e-12")


def test_more_jumps_than_are_counted_are_bounded() -> None:
    runs, c = JumpingRuns(runs_of(RATES), 1, 2), np.array([1.0, 5.0])
    with mp.workdps(18):
        for bound, point in zip(runs.log_moments_beyond(c).tolist(), c.tolist(), strict=True):
            assert bound >= mp.log(exact_transform(mp.mpf(point), RATES, 3, 5))


def test_a_window_decays_at_least_as_fast_as_is_said() -> None:
    window = SampledGaussianLoss(0.01, 1.5, "remove", cut=Cut(9.0, 0.4, 6.0))
    tilted = window.tilted(5.0)
    t = np.array([1.0, 10.0, 60.0, 400.0])
    bounds = log_decay_of_window(tilted, t)
    x = np.linspace(0.0, 16.0, 40001)
    losses = np.log1p(0.01 * np.expm1((x - 0.5) / 1.5**2))
    logs = 6.0 * losses - x * x / 4.5 + window.cut.log_kept(x) if window.cut else losses
    weights = np.exp(logs - logs.max())
    exact = np.abs(np.exp(1j * np.multiply.outer(t, losses)) @ weights) / weights.sum()
    assert np.all(np.exp(bounds) >= exact - 1e-13)
    assert bounds[-1] < -5


def test_a_window_is_the_difference_of_two_cuts() -> None:
    near, far = Cut(5.0, 0.3), Cut(6.3, 0.3)
    window = replace(far, start=near.point)
    x = np.concatenate([np.linspace(2.5, 9.0, 27), [-3.0, 20.0]])
    found = window.log_kept(x)
    with mp.workdps(60):
        for point, log_kept in zip(x.tolist(), found.tolist(), strict=True):
            kept = [mp.ncdf((mp.mpf(cut.point) - mp.mpf(point)) / mp.mpf(cut.width)) for cut in (far, near)]
            exact = mp.log(kept[0] - kept[1])
            assert abs(exact - log_kept) <= 8 * 2.0**-53 * (4 + abs(exact))


# ---- wrong layers ---------------------------------------------------------------------------------------------------


def test_a_lost_number_of_jumps_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without two jumps at once the upper bound is too low for a delta that is known from elsewhere."""
    delta = TWO_JUMPS[3]
    known = large_losses_epsilon(composed_of(TWO_JUMPS), delta, delta)
    numbers: Any = large_loss_layers._numbers

    def without_two(*given: Any) -> Iterator[Any]:
        yield from (pair for pair in numbers(*given) if (pair[0].fewest, pair[0].most) != (2, 2))

    monkeypatch.setattr(large_loss_layers, "_numbers", without_two)
    wrong = large_losses_epsilon(composed_of(TWO_JUMPS), delta, delta)
    assert not (wrong.lower <= wrong.upper and meets(wrong, known))


def test_a_lost_layer_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    sigma, rate, delta = 2.63, 2e-3, 1.9e-48
    composed = composed_of((sigma, rate, 2, delta))
    numbers: Any = large_loss_layers._numbers

    def faint(*given: Any) -> Iterator[Any]:
        for runs, _ in numbers(*given):
            few = replace(runs, fewest=2, most=2)
            yield few, chernoff_bounds(given[1][0], few.log_moments(given[1][0]))

    monkeypatch.setattr(large_loss_layers, "_numbers", faint)
    wrong = large_losses_epsilon(composed, delta, delta)
    assert wrong.upper < math.inf
    assert jump_oracles.two_runs(rate, sigma, wrong.upper) > delta * (1 + ORACLE)


@pytest.mark.parametrize("counted", [True, False])
def test_what_the_last_cut_takes_away_counts(monkeypatch: pytest.MonkeyPatch, counted: bool) -> None:
    sigma, rate, delta = 2.63, 2e-3, 1.9e-48
    monkeypatch.setattr(large_loss_layers, "LOST", 0.2)
    if not counted:
        monkeypatch.setattr(rare, "mass_beyond", lambda *_: 0.0)
    found = large_losses_epsilon(composed_of((sigma, rate, 2, delta)), delta, delta)
    assert (jump_oracles.two_runs(rate, sigma, found.upper) <= delta * (1 + ORACLE)) == counted


def test_the_mass_that_a_cut_takes_away_is_bounded_below_the_normal_floats() -> None:
    lost = mass_beyond(1e-12, 1.0, Cut(38.1, 0.01))
    with mp.workdps(30):
        spread = mp.sqrt(1 + mp.mpf("1e-4"))
        exact = mp.ncdf(-mp.mpf(38.1) / spread) + mp.mpf("1e-12") * mp.ncdf(-mp.mpf(37.1) / spread)
        assert exact <= lost <= exact * (1 + mp.mpf("1e-9")) + mp.mpf("2e-320")


def test_layers_made_for_one_epsilon_serve_the_next() -> None:
    """Many points of a profile at once: the same bounds, or narrower, in a fraction of the work."""
    composed = Composed(((SampledGaussianLoss(1e-3, 1.0, "remove"), 40),))
    epsilons = np.linspace(0.5, 4.0, 12).tolist()
    uppers = [alone(layers, composed, epsilon, 1e-4 * math.exp(-12 * epsilon)).upper for epsilon in epsilons]
    made: list[float] = []

    def counted(composed: Composed, epsilon: float, about: float) -> Iterator[Answer]:
        for answer in layers(composed, epsilon, about):
            made.append(epsilon)
            yield answer

    asked = AskedEpsilons(RisingEpsilons(np.array(epsilons)), np.zeros(12), np.zeros(12), np.array(uppers))
    cover(counted, composed, asked)
    assert len(made) < len(epsilons)
    for epsilon, about, lower, upper in zip(epsilons, uppers, asked.lower, asked.upper, strict=True):
        single, found = alone(layers, composed, epsilon, about), Interval(float(lower), float(upper))
        assert max(single.lower, found.lower) <= min(single.upper, found.upper)
        assert found.relative_width() <= max(1e-3, single.relative_width())


# ---- where it is asked ----------------------------------------------------------------------------------------------


def test_it_is_for_sampled_gaussians_whose_loss_is_unbounded() -> None:
    sampled = SampledGaussianLoss(1e-3, 1.5, "remove")
    assert has_large_losses(Composed(((sampled, 2),)))
    assert has_large_losses(Composed(((GaussianLoss(0.1), 1), (sampled, 9))))
    assert not has_large_losses(Composed(((SampledGaussianLoss(1e-3, 1.5, "add"), 9),)))
    other = Composed(((GaussianLoss(0.1), 4),))
    assert not has_large_losses(other)
    assert not two_scales(other, math.log(1e-5))
    assert large_losses_epsilon(other, 1e-5, 1e-5) == Interval(0.0, math.inf)
    assert alone(layers, other, 1.0, 1e-5) == Interval(0.0, 1.0)


@pytest.mark.parametrize("case", [case for case in CASES if case[0] != 3.906])
def test_two_scales_are_seen_before_a_long_contour_is_tried(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(composed: Composed, down: float, up: float, most: int = 1 << 14) -> Any:
        assert most <= 200, "a contour was laid in vain"
        return finite_epsilon(composed, down, up, most)

    monkeypatch.setattr(methods, "finite_epsilon", refused)
    sigma, rate, count, delta = case
    training = Repeated(PoissonSampled(GaussianLaw(sigma), rate=rate), count)
    at = compose(training, direction="remove").epsilon(delta)
    assert at.upper - at.lower <= 1e-6 * at.upper


def test_ordinary_questions_do_not_ask_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> Any:
        raise AssertionError("a narrow answer was known already")

    monkeypatch.setattr(methods, "large_losses_epsilon", refused)
    for rate, sigma, count, delta in (
        ("0.01", "1", 10000, "1e-6"),
        ("0.002", "0.8", 30000, "1e-10"),
        ("0.2", "4", 500, "1e-5"),
    ):
        profile = compose(Repeated(PoissonSampled(GaussianLaw(sigma), rate=rate), count))
        at = profile.epsilon(delta)
        assert at.upper - at.lower <= 1e-3 * at.upper
        profile.delta("1.5")


@pytest.mark.parametrize("beside", [(), (GaussianLaw("1000"),), (LaplaceLaw("0.05"),)])
def test_the_hand_over_asks_it_where_the_others_are_wide(beside: tuple[Composition, ...]) -> None:
    training = Repeated(PoissonSampled(GaussianLaw("1.7597"), rate="0.0007301"), 131)
    profile = compose(Sequence((training, *beside)))
    at = profile.epsilon("3.829e-35")
    assert at.upper - at.lower <= 1e-6 * at.upper
    back = profile.delta(str(at.upper))
    assert back.lower <= 3.829e-35
    assert back.upper <= 1.0001 * 3.829e-35
