"""Few large losses among many small ones: the split against direct convolutions, ball arithmetic and the other
methods, and splits that are wrong, which must be noticed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import jump_oracles
from dpledger.accounting.composition import GaussianLaw, PoissonSampled, Repeated
from dpledger.accounting.engine import choose, jumps
from dpledger.accounting.engine.bulk import Bulk, tabulated
from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.engine.cut import cut_epsilon
from dpledger.accounting.engine.jumps import has_jumps, jumps_delta, jumps_epsilon
from dpledger.accounting.engine.lattice import lattice_delta
from dpledger.accounting.engine.solve import Interval, finite_epsilon
from dpledger.accounting.laws import jump_cells as cells_module
from dpledger.accounting.laws.gaussian import GaussianLoss
from dpledger.accounting.laws.jump_cells import jump_cells
from dpledger.accounting.laws.smooth_cut import Cut, mass_beyond
from dpledger.accounting.laws.subsampled import SampledGaussianLoss
from dpledger.accounting.profile import compose
from engine_oracles import ball, composed_sampled_delta, seeds

Case = tuple[float, float, int, float]
CASES: list[tuple[Case, float]] = [
    ((1.7597, 0.0007301, 131, 3.829e-35), 1e-5),
    ((3.4188, 0.0012, 239, 1.913e-115), 1e-5),
    ((3.0439, 0.000102, 340000, 1.284e-234), 2e-5),
    ((1.1173, 0.0001794, 5510, 6.909e-219), 2e-4),
    ((3.1081, 0.001049, 114, 2.954e-137), 1e-5),
    ((2.4686, 0.003566, 1480, 1.07e-237), 2e-5),
    ((0.6709, 0.0003671, 1980, 2.332e-198), 1e-3),
    ((1.4052, 0.0004925, 956, 1.088e-215), 3e-5),
    ((2.2007, 0.0005986, 32200, 3.088e-181), 2e-5),
    ((0.7294, 0.0001119, 357, 4.22e-11), 2e-4),
]
TWO_JUMPS: Case = (2.4686, 0.003566, 1480, 1.07e-237)  # two jumps are 22 % of delta


def composed_of(case: Case) -> Composed:
    sigma, rate, count, _ = case
    return Composed(((SampledGaussianLoss(rate, sigma, "remove"), count),))


def meets(one: Interval, other: Interval, slack: float = 0.0) -> bool:
    return max(one.lower, other.lower) <= min(one.upper, other.upper) * (1 + slack)


@pytest.mark.parametrize(("case", "width"), CASES)
def test_where_every_exponential_bound_is_loose_the_interval_is_narrow(case: Case, width: float) -> None:
    composed, delta = composed_of(case), case[3]
    found = jumps_epsilon(composed, delta, delta)
    assert 0 < found.lower <= found.upper
    assert found.relative_width() <= width
    assert meets(found, finite_epsilon(composed, math.log(delta), math.log(delta)))
    assert meets(found, cut_epsilon(composed, delta, delta))
    at = jumps_delta(composed, (found.lower + found.upper) / 2, delta)
    assert at.lower <= delta * (1 + 0.1)
    assert at.upper >= delta * (1 - 0.1)
    assert 0 < at.lower <= at.upper <= 1.2 * at.lower


@pytest.mark.parametrize("seed", seeds(4, 40))
def test_direct_convolutions_agree(seed: int) -> None:
    """Oracle: the whole law on a lattice, 2 to 300 runs, with neither a split nor a transform."""
    rng = np.random.default_rng(seed)
    case = direct_case(rng)
    delta = case[3]
    found = jumps_epsilon(composed_of(case), delta, delta)
    if found.upper == math.inf:
        pytest.fail(f"no split was found for {case}")
    low, high = direct(case, found.lower), direct(case, found.upper)
    assert low.upper >= delta * (1 - 1e-8)  # delta at the lower end is at least the target
    assert high.lower <= delta * (1 + 1e-8)
    assert 0 < low.upper <= 1.6 * low.lower  # and the oracle knows it well enough to tell
    at = jumps_delta(composed_of(case), found.upper, delta)
    assert meets(at, high, 1e-8)
    assert at.upper <= 1.2 * at.lower


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
        found = jumps_epsilon(composed, delta, delta)
        assert found.relative_width() <= 1e-3
        at = lattice_delta(composed, found.upper)
        assert at.lower <= delta * (1 + 1e-9)
        assert meets(at, jumps_delta(composed, found.upper, delta))


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_intervals_meet_those_of_contours_and_cuts(data: st.DataObject) -> None:
    sigma = data.draw(st.floats(0.6, 4))
    rate = 10 ** data.draw(st.floats(-4, -1.5))
    count = int(10 ** data.draw(st.floats(0.4, 5)))
    delta = 10 ** data.draw(st.floats(-280, -3))
    composed = composed_of((sigma, rate, count, delta))
    found = jumps_epsilon(composed, delta, delta)
    log_delta = math.log(delta)
    contour = finite_epsilon(composed, log_delta - 1e-12 * abs(log_delta), log_delta + 1e-12 * abs(log_delta))
    assert found.lower <= found.upper
    assert meets(found, contour)
    assert meets(found, cut_epsilon(composed, delta, delta))


@pytest.mark.parametrize(
    ("delta", "lines"),
    [(1e-60, ((40.0, 6.0), (35.0, 8.0))), pytest.param(1e-100, ((40.0, 9.0), (35.0, 10.0)), marks=pytest.mark.slow)],
)
def test_three_hundred_bits_are_not_lost_to_any_tilt(delta: float, lines: tuple[tuple[float, float], ...]) -> None:
    """Oracle: the contour sum in ball arithmetic, on two lines, which agree: their aliases are nothing."""
    composed = composed_of((2.0, 0.001, 30000, delta))
    found = jumps_epsilon(composed, delta, delta)
    at = jumps_delta(composed, found.upper, delta)
    one, other = (
        ball(
            composed_sampled_delta(
                [("0.001", "2.0", 30000)], found.upper, "remove", c=c, window=window, nodes=int(25 * window)
            )
        )
        for c, window in lines
    )
    assert abs(one - other) <= 1e-9 * one
    assert at.lower <= one <= at.upper <= 1.01 * at.lower
    assert one <= delta


@pytest.mark.parametrize(
    "case", [(6.876858926481945, 0.00013611516157660517, 2112, 2.3654675809445774e-104), (8.0, 1e-4, 500, 1e-30)]
)
def test_where_the_search_ends_is_no_bound(case: Case) -> None:
    """Epsilon may lie beyond the tables: then there is a lower bound at most."""
    composed, delta = composed_of(case), case[3]
    assert meets(jumps_epsilon(composed, delta, delta), cut_epsilon(composed, delta, delta))


# ---- wrong splits ---------------------------------------------------------------------------------------------------


def test_a_lost_term_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without two jumps at once the upper bound is wrong, and the cut's lower bound says so."""
    delta = TWO_JUMPS[3]
    known = cut_epsilon(composed_of(TWO_JUMPS), delta, delta)
    assert meets(jumps_epsilon(composed_of(TWO_JUMPS), delta, delta), known)
    counted = jumps.Sums.count_to

    def without_two(self: jumps.Sums, most: int) -> None:
        counted(self, most)
        if self.most >= 2:
            self._above[2] = np.zeros(self._above[2].size)

    monkeypatch.setattr(jumps.Sums, "count_to", without_two)
    wrong = jumps_epsilon(composed_of(TWO_JUMPS), delta, delta)
    assert not (wrong.lower <= wrong.upper and meets(wrong, known))


def test_mass_moved_the_wrong_way_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong_way(*given: Any) -> Any:
        return np.append(right_way(*given)[1:], 0.0)

    right_way = cells_module._above
    case = CASES[0][0]
    monkeypatch.setattr(cells_module, "_above", wrong_way)
    wrong = jumps_epsilon(composed_of(case), case[3], case[3])
    assert wrong.lower > wrong.upper


def test_cells_hold_the_jumps_on_both_sides() -> None:
    loss, cut = SampledGaussianLoss(7e-4, 1.76, "remove"), Cut(18.0, 0.3)
    cells = jump_cells(loss, cut, 1.0, 512)
    whole = mass_beyond(loss.rate, loss.sigma, cut)
    assert float(cells.below.sum()) < whole <= float(cells.above.sum()) + cells.beyond
    assert float(cells.above.sum()) < 1.1 * whole
    x = np.linspace(0.5, 40.0, 400001)
    p = (1 - loss.rate) * _normal(x, loss.sigma) + loss.rate * _normal(x - 1, loss.sigma)
    jump = p * np.array([math.erfc(-v / math.sqrt(2)) / 2 for v in ((x - cut.point) / cut.width).tolist()])
    losses = np.log1p(loss.rate * np.expm1((x - 0.5) / loss.sigma**2))
    numbers = np.arange(513) * cells.spacing
    for epsilon in (0.01, 0.1, 0.3, 0.77):
        exact = float(np.sum(jump * np.maximum(-np.expm1(epsilon - losses), 0.0))) * (x[1] - x[0])
        most = float(cells.above @ np.maximum(-np.expm1(epsilon - numbers - cells.slack), 0.0)) + cells.beyond
        least = float(cells.below @ np.maximum(-np.expm1(epsilon - numbers - cells.offset * cells.spacing), 0.0))
        assert least <= exact * (1 + 1e-7)
        assert exact <= most * (1 + 1e-7)
        assert most - least <= 0.1 * most


def _normal(x: Any, sigma: float) -> Any:
    return np.exp(-x * x / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi))


def test_a_table_holds_a_convex_profile_between_its_knots() -> None:
    """One Gaussian release, whose profile is known; the knots are far apart."""
    rng = np.random.default_rng(5)

    def exact(epsilons: Any) -> Any:
        def tail(v: float) -> float:
            return math.erfc(v / math.sqrt(2)) / 2

        return np.array([tail(e - 0.5) - math.exp(e) * tail(e + 0.5) for e in epsilons.tolist()])

    knots = np.linspace(-4.0, 5.0, 90)
    logs = np.log(exact(knots))
    table = tabulated(knots, logs - 1e-9, logs + 1e-9, (1.0, 1.0))
    asked = np.sort(rng.uniform(-6.0, 5.0, 4000))
    truth, lower, upper = exact(asked), table.below(asked), table.above(asked)
    assert np.all(lower <= truth)
    assert np.all(truth <= upper)
    inside = (asked > -3.9) & (asked < 3.5)
    assert np.all((upper - lower)[inside] <= 0.1 * truth[inside])
    assert table.below(np.array([5.5]))[0] == 0
    assert table.above(np.array([5.5]))[0] >= float(exact(np.array([5.5]))[0])


# ---- where it is asked ----------------------------------------------------------------------------------------------


def test_it_is_for_sampled_gaussians_run_more_than_once() -> None:
    sampled = SampledGaussianLoss(1e-3, 1.5, "remove")
    assert has_jumps(Composed(((sampled, 2),)))
    assert not has_jumps(Composed(((sampled, 1),)))
    assert not has_jumps(Composed(((SampledGaussianLoss(1e-3, 1.5, "add"), 9),)))
    assert not has_jumps(Composed(((sampled, 9), (GaussianLoss(0.1), 1))))
    other = Composed(((GaussianLoss(0.1), 4),))
    assert jumps_epsilon(other, 1e-5, 1e-5) == Interval(0.0, math.inf)
    assert jumps_delta(other, 1.0, 1e-5) == Interval(0.0, 1.0)


def test_ordinary_questions_do_not_ask_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> Any:
        raise AssertionError("a narrow answer was known already")

    monkeypatch.setattr(choose, "jumps_epsilon", refused)
    monkeypatch.setattr(choose, "jumps_delta", refused)
    monkeypatch.setattr(Bulk, "__init__", refused)
    for rate, sigma, count, delta in (
        ("0.01", "1", 10000, "1e-6"),
        ("0.002", "0.8", 30000, "1e-10"),
        ("0.2", "4", 500, "1e-5"),
    ):
        profile = compose(Repeated(PoissonSampled(GaussianLaw(sigma), rate=rate), count))
        at = profile.epsilon(delta)
        assert at.upper - at.lower <= 1e-3 * at.upper
        profile.delta("1.5")


def test_the_hand_over_asks_it_where_the_others_are_wide() -> None:
    profile = compose(Repeated(PoissonSampled(GaussianLaw("1.7597"), rate="0.0007301"), 131))
    at = profile.epsilon("3.829e-35")
    assert at.upper - at.lower <= 1e-5 * at.upper
    back = profile.delta(str(at.upper))
    assert back.lower <= 3.829e-35
    assert back.upper <= 1.01 * 3.829e-35
