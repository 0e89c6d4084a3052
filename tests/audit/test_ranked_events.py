"""The witness of an audit and what an audit would have seen: against plain counts and closed formulas."""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from dpledger.audit.evidence import power, witness
from dpledger.audit.evidence.edges import Regions, StrataClaim, pure_or_approx
from dpledger.audit.evidence.projection import project
from dpledger.audit.evidence.tracks import Track
from dpledger.audit.evidence.witness import Direction, Witness, witness_of
from dpledger.audit.features.coordinates import Value
from dpledger.audit.features.events import Above, AtMost, Equals, InCategory, Outside, Undefined, Within
from dpledger.audit.features.score import Place

OUTPUT = Value(Place("output"))


def track_of(left: Any, right: Any) -> Track:
    numbers = np.asarray(left, float), np.asarray(right, float)
    return Track.born(OUTPUT, numbers, None, 1, Fraction(1))


def found_by(track: Track, delta: float = 0.0) -> Witness:
    engine: Any = SimpleNamespace(leading=track, point_delta=delta)
    seen = witness_of(engine)
    assert seen is not None
    return seen


def holds(event: Any, numbers: Any) -> Any:
    match event:
        case AtMost(threshold=most):
            return numbers <= most
        case Above(threshold=least):
            return numbers > least
        case Within(low=low, high=high):
            return (low < numbers) & (numbers <= high)
        case Outside(low=low, high=high):
            return (numbers <= low) | (numbers > high)
        case Equals(value=value):
            return numbers == value
        case Undefined():
            return np.isnan(numbers)
        case _:
            raise AssertionError(event)


DRAW = np.random.default_rng(7)
SAMPLES = {
    "shifted": (DRAW.normal(1, 1, 900), DRAW.normal(0, 1, 700)),
    "an atom": (np.append(DRAW.normal(size=500), [0.125] * 60), np.append(DRAW.normal(size=560), [0.125])),
    "undefined": (np.append(DRAW.normal(size=300), [math.nan] * 40), DRAW.normal(size=300)),
    "narrow": (DRAW.normal(0, 0.3, 2000), DRAW.normal(0, 2, 2000)),
    "a lattice": (DRAW.normal(0, 1, 6000), np.append(DRAW.normal(0, 1, 5900), [4.5] * 100)),
}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("direction", Direction)
def test_every_event_has_the_counts_of_the_runs_in_which_it_holds(name: str, direction: Direction) -> None:
    left, right = SAMPLES[name]
    track = track_of(left, right)
    trials = len(left), len(right)
    ranking = witness._Ranking(trials, direction, 0.0, None)
    events = list(witness._events(track, track.counts[0], track.counts[1], ranking))
    kinds = {type(one.event) for one in events}
    assert {Undefined, AtMost, Above, Within, Outside} <= kinds
    exactly = name != "a lattice"  # whose edges are rounded
    for one in events:
        counts = int(holds(one.event, left).sum()), int(holds(one.event, right).sum())
        if exactly or isinstance(one.event, Equals):
            assert (one.left, one.right) == counts, one.event
        else:
            assert np.allclose((one.left, one.right), counts, atol=3)
        pair = isinstance(one.event, Within | Outside)
        assert one.rank == ranking.of(one.left, one.right) - (0.01 if pair else 0)


@pytest.mark.parametrize(
    ("name", "kind", "direction"),
    [
        ("shifted", (AtMost, Above), Direction.RIGHT),
        ("an atom", Equals, Direction.LEFT),
        ("undefined", Undefined, Direction.LEFT),
        ("narrow", (Outside, Above, AtMost), Direction.RIGHT),
        ("a lattice", Equals, Direction.RIGHT),
    ],
)
def test_the_witness_is_the_event_that_tells_most(name: str, kind: Any, direction: Direction) -> None:
    left, right = SAMPLES[name]
    seen = found_by(track_of(left, right))
    assert isinstance(seen.event, kind)
    assert seen.direction is direction
    assert seen.trials == (len(left), len(right))
    assert (seen.left, seen.right) == (int(holds(seen.event, left).sum()), int(holds(seen.event, right).sum()))
    shares = seen.left / len(left), seen.right / len(right)
    assert (seen.detections, seen.false_alarms) == (shares if direction is Direction.LEFT else shares[::-1])
    turned = found_by(track_of(right, left))
    assert turned.direction is not direction
    assert (turned.left, turned.right) == (seen.right, seen.left)


@pytest.mark.parametrize("name", SAMPLES)
def test_the_curve_of_a_witness_is_that_of_its_cells_from_the_likeliest_on(name: str) -> None:
    left, right = SAMPLES[name]
    seen = found_by(track_of(left, right))
    there = seen.direction is Direction.LEFT
    totals = (len(left), len(right)) if there else (len(right), len(left))
    assert tuple(map(sum, zip(*seen.cells, strict=True))) == totals
    ratios = [(a + 0.5) / (b + 0.5) for a, b in seen.cells]
    assert ratios == sorted(ratios, reverse=True)
    assert all(a or b for a, b in seen.cells)
    rarer, likelier = seen.curve
    first, second = 0, 0
    for (a, b), x, y in zip(seen.cells, rarer, likelier, strict=True):
        first, second = first + b, second + a
        assert (x, y) == pytest.approx((first / totals[1], second / totals[0]))


def test_a_curve_of_no_run_on_a_side_stays_at_nothing() -> None:
    some = Witness(event=Undefined(OUTPUT), direction=Direction.LEFT, left=3, right=0, trials=(3, 0), cells=((3, 0),))
    assert some.curve == ([0.0], [1.0])
    assert (some.detections, some.false_alarms) == (1.0, 0.0)
    assert "in 3 of 3 runs on the left data and 0 of 0 on the right" in some.words


@pytest.mark.parametrize("z", [-3.0, 3.0, 1.0])
@pytest.mark.parametrize(("hits", "runs"), [(0, 10), (3, 10), (10, 10), (500, 10**6)])
def test_the_score_limit_is_as_many_deviations_away(hits: int, runs: int, z: float) -> None:
    """Wilson 1927: (hits/n - p)^2 = z^2 p (1-p) / n."""
    found = witness._wilson(hits, runs, z)
    assert (hits / runs - found) ** 2 == pytest.approx(z * z * found * (1 - found) / runs, abs=1e-15)
    assert (found - hits / runs) * z >= -1e-15


@pytest.mark.parametrize("delta", [0.0, 0.01])
def test_events_are_ranked_by_the_epsilon_that_they_show_less_luck(delta: float) -> None:
    trials = (1000, 500)
    for direction, (hits, rare) in ((Direction.LEFT, (400, 20)), (Direction.RIGHT, (40, 200))):
        (a, n), (b, m) = (hits, 1000), (rare, 500)
        if direction is Direction.RIGHT:
            (a, n), (b, m) = (b, m), (a, n)
        shown = math.log((witness._wilson(a, n, -3) - delta) / witness._wilson(b, m, 3))
        assert witness._Ranking(trials, direction, delta, None).of(hits, rare) == pytest.approx(shown)
        assert shown > 0
    weak = witness._Ranking(trials, Direction.LEFT, delta, None).of(100, 50)
    p, q = 100.5 / 1001, 50.5 / 501
    spread = math.sqrt(p * (1 - p) / 1000 + q * (1 - q) / 500)
    assert weak == pytest.approx(-1000 + (p - q - delta) / spread)
    claimed = witness._Ranking(trials, Direction.LEFT, delta, 0.7).of(400, 20)
    p, q, growth = 400.5 / 1001, 20.5 / 501, math.exp(0.7)
    spread = math.sqrt(p * (1 - p) / 1000 + growth * growth * q * (1 - q) / 500)
    assert claimed == pytest.approx(-1000 + (p - growth * q - delta) / spread)


def test_categories_are_taken_from_the_likeliest_on() -> None:
    score: Any = SimpleNamespace(categories=4, primary=True)
    track: Any = SimpleNamespace(score=score)
    x, y = np.array([50, 5, 30, 15, 0]), np.array([10, 60, 10, 20, 0])
    for direction in Direction:
        ranking = witness._Ranking((100, 100), direction, 0.0, None)
        found = [one for one in witness._events(track, x, y, ranking) if isinstance(one.event, InCategory)]
        order = (0, 2, 3, 1) if direction is Direction.LEFT else (1, 3, 2, 0)
        expected = [tuple(sorted(order[: k + 1])) for k in range(3)]
        assert [one.event for one in found] == [InCategory(score, codes) for codes in expected]
        assert [(one.left, one.right) for one in found] == [
            (int(x[list(codes)].sum()), int(y[list(codes)].sum())) for codes in expected
        ]


def test_before_there_are_scores_there_is_no_witness() -> None:
    engine: Any = SimpleNamespace(leading=None, point_delta=0.0)
    assert witness_of(engine) is None


# ---- power ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.05, 1e-6])
def test_what_is_needed_refutes_nine_times_in_ten(alpha: float) -> None:
    """A wealth whose logarithm has the mean D and the variance 2 D reaches log(1/alpha) and the price so often."""
    for price in (0.0, 4.0):
        mean = power.needed(alpha, price)
        chance = norm.sf((price - math.log(alpha) - mean) / math.sqrt(2 * mean))
        assert chance == pytest.approx(0.9, abs=0.003)
    assert power.needed(alpha) == power.needed(alpha, 4.0)


def growth_of(claim: Any, p: list[float], q: list[float]) -> float:
    return float(project(Regions.of([claim]), np.array([p]), np.array([q]), runs=10**6).growth[0])


@pytest.mark.parametrize("claim", [pure_or_approx(1.0, 0.0), pure_or_approx(0.5, 1e-3)])
@pytest.mark.parametrize("nats", [0.1, 0.01, 1e-3])
def test_the_least_event_is_the_least_that_gains_enough(claim: Any, nats: float) -> None:
    found = power.least_event(claim, nats)
    assert found is not None
    rare = power.IMPOSSIBLE
    assert growth_of(claim, [found, 1 - found], [rare, 1 - rare]) >= nats * 0.97
    less = found / 1.02
    assert growth_of(claim, [less, 1 - less], [rare, 1 - rare]) < nats


@pytest.mark.parametrize("nats", [0.1, 0.01])
def test_the_least_stretch_is_the_least_factor_that_gains_enough(nats: float) -> None:
    claim, p, q = pure_or_approx(1.0, 0.0), np.array([0.6, 0.3, 0.1]), np.array([0.3, 0.3, 0.4])
    found = power.least_stretch(claim, p, q, None, nats)
    assert found is not None
    left, right = found
    assert growth_of(claim, left.tolist(), right.tolist()) == pytest.approx(nats, rel=0.1)
    assert (left.sum(), right.sum()) == pytest.approx((1, 1))
    stretched = np.log(left / right) - np.log(left / right)[1]
    original = np.log(p / q) - np.log(p / q)[1]
    factors = stretched[[0, 2]] / original[[0, 2]]
    assert factors[0] == pytest.approx(factors[1])
    assert factors[0] > 1
    whole = [0.5 * (p + q)[i] for i in range(3)]
    share = 1 / (1 + np.exp(-factors[0] * np.log(p / q)))
    assert np.allclose(left, np.array(whole) * share / (np.array(whole) * share).sum())


def test_what_no_factor_and_no_event_shows_is_none() -> None:
    claim = pure_or_approx(1.0, 0.0)
    assert power.least_stretch(claim, np.array([0.5, 0.5]), np.array([0.5, 0.5]), None, 0.1) is None
    assert power.least_event(claim, 50.0) is None
    assert power._least((1.0, 100.0), lambda x: x, 200.0) is None


@pytest.mark.parametrize(("mu", "delta"), [(0.3, 1e-3), (1.0, 1e-5), (4.0, 1e-9)])
def test_sides_as_far_apart_as_a_gaussian_shift_have_its_epsilon(mu: float, delta: float) -> None:
    apart = norm.cdf(mu / 2)
    epsilon = power.as_gaussian(np.array([apart, 1 - apart]), np.array([1 - apart, apart]), delta)
    left = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    assert left == pytest.approx(delta, rel=1e-6)
    assert power.as_gaussian(np.array([0.5, 0.5]), np.array([0.5, 0.5]), delta) < 1e-6


@pytest.mark.parametrize("nats", [1.0, 1.5, 37.0, 99.0])
def test_the_least_of_a_search_is_next_to_the_least_there_is(nats: float) -> None:
    found = power._least((1.0, 100.0), lambda x: x, nats)
    assert found is not None
    assert nats <= found <= nats * 100 ** (1 / 15**3) * (1 + 1e-12)


def test_the_loosest_stratum_is_that_of_the_largest_finite_epsilon() -> None:
    assert power._loosest(StrataClaim((0.5, 2.0, math.inf), 0.0)) == 1
    assert power._loosest(StrataClaim((0.5, 2.0), 0.0)) == 1
    assert power._loosest(StrataClaim((math.inf,), 0.0)) == 0
    strata = power.least_event(StrataClaim((0.5, 2.0, math.inf), 0.0), 0.05)
    assert strata == pytest.approx(power.least_event(pure_or_approx(2.0, 0.0), 0.05), rel=0.02)
