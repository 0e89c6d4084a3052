"""Quantiles: the law of each against an enumeration of every place, and what neighbours do to it."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting.composition import ExponentialLaw, Repeated
from dpledger.accounting.guarantees import BoundedRange, PureDP
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.noise import recording
from dpledger.mechanisms.statistics import ColumnBounds, Quantile, Quantiles
from dpledger.mechanisms.statistics.joint_ranks import JointChoice
from dpledger.mechanisms.statistics.quantiles import turns_of
from dpledger.mechanisms.statistics.ranks import SPLIT, Places, Ranked, Stretch, scores_of
from dpledger.relations import Relation, Unit
from exact_tests import SIGNIFICANCE, events_p_value
from rank_oracle import distances, jointly_missed, jointly_of_two, law, of_several, spread_out

pytestmark = pytest.mark.sliced

ADD, REPLACE, RECORD = Relation.ADD_REMOVE, Relation.REPLACE_ONE, Unit("record")
ROWS = (0, 1, 1, 1, 3, 4, 4)
QS = ("0.25", "0.5", "0.75")


def of(rows: Any, split: int = 1) -> Ranked:
    return Ranked.of(np.sort(np.array(rows, dtype=np.int64)), split)


# ---- a column -------------------------------------------------------------------------------------------------------


@given(rows=st.lists(st.integers(-3, 6), max_size=40), split=st.sampled_from([1, SPLIT]), data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_column_counts_the_rows_as_they_are_spread(rows: list[int], split: int, data: Any) -> None:
    rows = rows * data.draw(st.sampled_from([1, 60]))
    column, fine = of(rows, split), sorted(spread_out(rows, split))
    place = data.draw(st.integers(-4 * split, 8 * split))
    assert column.upto(place) == sum(x <= place for x in fine)
    least = data.draw(st.integers(0, len(rows)))
    most = data.draw(st.integers(least, len(rows)))
    places, ranks = column.near(least, most)
    assert np.all(np.diff(places) > 0)
    assert set(fine[least:most]) <= set(places.tolist())
    assert ranks.tolist()[:-1] == [sum(x < at for x in fine) for at in places.tolist()]
    assert np.all(np.diff(ranks) > 0)


def test_a_row_more_is_one_place_more_and_no_other_moves() -> None:
    for many in range(1, 40):
        before, after = Counter(spread_out([5] * many, 8)), Counter(spread_out([5] * (many + 1), 8))
        assert (after - before).total() == 1
        assert not before - after


@given(rows=st.lists(st.integers(0, 4), max_size=9), q=st.fractions(0, 1, max_denominator=6), data=st.data())
@settings(max_examples=80, deadline=None)
def test_a_score_is_the_distance_from_the_quantile_by_definition(rows: list[int], q: Fraction, data: Any) -> None:
    low, high = sorted((data.draw(st.integers(-1, 4)), data.draw(st.integers(0, 4))))
    cap, first = data.draw(st.sampled_from([0, 1, 3, 100])), max(low, 0)
    scores, counts = scores_of(of(rows), Stretch(low, high), first, q, cap=cap)
    wanted = distances([row for row in rows if low < row <= high], range(first, high + 1), q)
    each = np.repeat(scores, counts).tolist()
    assert each == [-min(far, cap) * q.denominator for far in wanted]


def neighbours(rows: tuple[int, ...], relation: Relation) -> list[tuple[int, ...]]:
    if relation is ADD:
        return [(*rows, x) for x in range(5)]
    return [(*rows[1:], x) for x in range(5)]


@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize("boundary", [None, 2, 3])
def test_a_level_moves_by_no_more_than_its_rows(relation: Relation, boundary: int | None) -> None:
    """All data of up to three rows on five places, all that a row may do, shares 1/3 and 1/2; nearly attained."""
    shares = (Fraction(1, 3), Fraction(1, 2)) if boundary is not None else (Fraction(1, 3),)
    parts = [Stretch(-1, 4)] if boundary is None else [Stretch(-1, boundary), Stretch(boundary, 4)]
    changed = Fraction(1) if boundary is None else Fraction(4, 3)
    allowed = Fraction(2, 3) if relation is ADD else changed
    worst = Fraction(0)
    for many in range(1, 4):
        for rows in itertools.product(range(5), repeat=many):
            for other in neighbours(rows, relation):
                moved = Fraction(0)
                for part, share in zip(parts, shares, strict=True):
                    first = max(part.low, 0)
                    here, there = (
                        np.repeat(*scores_of(of(side), part, first, share, cap=100)) for side in (rows, other)
                    )
                    moved += Fraction(int(np.abs(here - there).max()), share.denominator)
                worst = max(worst, moved)
    assert worst <= allowed
    assert worst >= (allowed if boundary is None or relation is ADD else Fraction(7, 6))


# ---- laws -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("q", ["0.1", "0.5", "0.75"])
def test_a_quantile_is_drawn_by_its_law(q: str) -> None:
    mechanism, runs = Quantile(epsilon=2, q=q, lower=0, upper=4, grid=1).under(ADD, RECORD), 4000
    exponent = 1 / max(float(q), 1 - float(q))
    true = dict(enumerate(law(ROWS, 0, 4, Fraction(q), exponent).tolist()))
    twin = dict(enumerate(law(ROWS, 0, 4, Fraction(q), exponent * 1.7).tolist()))
    found = Counter(mechanism.sample(ROWS, runs, seeded(5)).astype(int).tolist())
    assert events_p_value(found, runs, true) > SIGNIFICANCE
    assert events_p_value(found, runs, twin) < SIGNIFICANCE


@pytest.mark.slow
@pytest.mark.parametrize("many", [1, 2, 3])
@pytest.mark.parametrize("relation", [ADD, REPLACE])
def test_several_quantiles_are_drawn_by_the_law_of_halving(many: int, relation: Relation) -> None:
    qs, runs = (("0.5",), ("0.25", "0.5"), QS)[many - 1], 2000
    mechanism = Quantiles(epsilon=4, qs=qs, lower=0, upper=4, grid=1, way="halving").under(relation, RECORD)
    exponents = list(map(float, mechanism.parameters()["exponents"]))  # type: ignore[arg-type]
    added = ([1 / 2], [3 / 4, 2 / 3], [1 / 2, 1 / 2])[many - 1]
    moved = added if relation is ADD else [1.0, *(2 * rows for rows in added[1:])]
    assert exponents == pytest.approx([4 / len(moved) / 2 / rows for rows in moved], rel=1e-9)
    true, twin = (
        of_several(ROWS, 5, list(map(Fraction, qs)), [scale * one for one in exponents], SPLIT) for scale in (1, 2.2)
    )
    drawn = mechanism.sample(ROWS, runs, seeded(6)).astype(int)
    found = Counter(map(tuple, drawn.tolist()))
    assert true.sum() == pytest.approx(1)
    laws = [{at: float(chances[at]) for at in np.ndindex(*chances.shape)} for chances in (true, twin)]
    assert set(found) <= {at for at, chance in laws[0].items() if chance > 0}
    assert events_p_value(found, runs, laws[0]) > SIGNIFICANCE  # type: ignore[arg-type]  # events are tuples
    assert events_p_value(found, runs, laws[1]) < SIGNIFICANCE  # type: ignore[arg-type]


@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize("q", ["0.2", "0.5"])
def test_no_neighbours_are_told_apart_by_more_than_epsilon(relation: Relation, q: str) -> None:
    """All data of up to four rows on five places; the range of the losses, nearly attained."""
    mechanism = Quantile(epsilon=1, q=q, lower=0, upper=4, grid=1).under(relation, RECORD)
    exponent = float(mechanism.parameters()["exponent"])  # type: ignore[arg-type]
    span = 0.0
    for many in range(1, 5):
        for rows in itertools.combinations_with_replacement(range(5), many):
            for at in range(many):
                turned = (*rows[at:], *rows[:at])
                for other in neighbours(turned, relation):
                    here, there = (law(side, 0, 4, Fraction(q), exponent) for side in (rows, other))
                    losses = np.log(here) - np.log(there)
                    span = max(span, float(losses.max() - losses.min()))
    assert 0.75 < span <= 1 + 1e-9


@pytest.mark.parametrize(("relation", "way"), [(ADD, "joint"), (REPLACE, None)])
def test_two_quantiles_are_drawn_by_the_joint_law(relation: Relation, way: Any) -> None:
    """All pairs of places, each of the 1,024 of a value by itself."""
    qs, runs = ("0.25", "0.5"), 2000
    mechanism = Quantiles(epsilon=4, qs=qs, lower=0, upper=4, grid=1, way=way).under(relation, RECORD)
    exponent = float(mechanism.parameters()["exponent"])  # type: ignore[arg-type]
    assert exponent == pytest.approx(4 / 2 / (2 if relation is REPLACE else 3 / 2))
    drawn = mechanism.sample(ROWS, runs, seeded(6)).astype(int)
    found = Counter(map(tuple, drawn.tolist()))
    true, twin = (jointly_of_two(ROWS, 5, list(map(Fraction, qs)), scale * exponent, SPLIT) for scale in (1, 1.6))
    assert events_p_value(found, runs, true) > SIGNIFICANCE  # type: ignore[arg-type]  # events are tuples
    assert events_p_value(found, runs, twin) < SIGNIFICANCE  # type: ignore[arg-type]


@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize("qs", [("0.5",), ("0.25", "0.5"), ("0.5", "0.8"), QS])
def test_no_joint_choice_tells_neighbours_apart_by_more_than_epsilon(relation: Relation, qs: tuple[str, ...]) -> None:
    """All data of up to three rows on four places; the range of the losses. As if a row moved one part alone, it is
    more."""
    shares = tuple(map(Fraction, qs))
    choice = JointChoice(Decimal(1), 1, shares, exchanged=relation is REPLACE)
    span = 0.0
    for many in range(1, 4):
        for rows in itertools.combinations_with_replacement(range(4), many):
            for at in range(many):
                for other in neighbours((*rows[at:], *rows[:at]), relation):
                    if max(other) < 4:
                        missed = (jointly_missed(side, 4, shares) for side in (rows, other))
                        gaps = [here - there for here, there in zip(*missed, strict=True)]
                        span = max(span, float(max(gaps) - min(gaps)) * float(choice.exponent(1)))
    assert 0.74 < span <= 1 + 1e-9
    assert (span * float(choice.moved) > 1) == (choice.moved > 1)  # a twin that pays for one row in one part


@pytest.mark.parametrize(("way", "relation"), [("halving", ADD), ("joint", ADD), ("joint", REPLACE)])
def test_what_is_chosen_has_the_smaller_interval(way: Any, relation: Relation) -> None:
    for many in (2, 3, 7, 9, 20):
        qs = tuple(f"{(at + 1) / (many + 1):.6f}" for at in range(many))
        said: dict[str, Any] = {"epsilon": 1, "qs": qs, "lower": 0, "upper": 1, "relation": relation}
        if way == "joint" and many > 16:
            with pytest.raises(ParameterError, match="way"):
                Quantiles(**said, way=way)
            continue
        assert Quantiles(**said).interval("0.95") <= Quantiles(**said, way=way).interval("0.95")


def test_a_tiny_epsilon_is_no_joint_choice() -> None:
    """Whatever the rows are, it would look at most of them."""
    said: dict[str, Any] = {"qs": QS, "lower": 0, "upper": 1, "relation": REPLACE}
    assert Quantiles(epsilon="1e-4", **said).parameters()["way"] == "halving"
    with pytest.raises(ParameterError, match="way"):
        Quantiles(epsilon="1e-4", **said, way="joint")


def test_the_recursion_halves() -> None:
    for many in (1, 2, 3, 4, 7, 8, 9, 100):
        qs = tuple(Fraction(i + 1, many + 1) for i in range(many))
        levels = turns_of(qs)
        assert len(levels) == math.ceil(math.log2(many + 1))
        assert sorted(turn.place for level in levels for turn in level) == list(range(many))
        ends = (Fraction(0), *qs, Fraction(1))
        for turn in itertools.chain(*levels):
            low, high = ends[turn.low + 1], ends[turn.high + 1]
            assert low + turn.share * (high - low) == qs[turn.place]


# ---- what they promise, and how near they are -----------------------------------------------------------------------


def test_what_they_promise_and_are_made_of() -> None:
    one = Quantile(epsilon="0.5", q="0.5", lower=0, upper=1)
    assert (one.claim(), one.parts()) == (BoundedRange("0.5"), ExponentialLaw("0.5"))
    many = Quantiles(epsilon=1, qs=QS, lower=0, upper=1)
    assert (many.claim(), many.parts()) == (PureDP(1), Repeated(ExponentialLaw("0.5"), times=2))
    jointly = many.under(REPLACE, RECORD)
    assert (jointly.claim(), jointly.parts()) == (PureDP(1), ExponentialLaw(1))
    assert Quantiles(epsilon=1, qs=("0.5",), lower=0, upper=1).parts() == ExponentialLaw(1)


@pytest.mark.parametrize("confidence", ["0.5", "0.95"])
def test_a_rank_is_within_its_interval(confidence: str) -> None:
    one = Quantile(epsilon=1, q="0.3", lower=0, upper=50, grid=1)
    rows = np.random.default_rng(3).integers(0, 51, 400).tolist()
    exponent = float(one.parameters()["exponent"])  # type: ignore[arg-type]
    chances = law(rows, 0, 50, Fraction("0.3"), exponent)
    far = np.array(distances(rows, range(51), Fraction("0.3")), dtype=float)
    assert chances[far > one.interval(confidence)].sum() <= 1 - float(confidence)
    assert chances[far > one.interval(confidence) / 4].sum() > 1e-6
    for way in ("halving", "joint"):
        several = Quantiles(epsilon=2, qs=QS, lower=0, upper=50, grid=1, way=way)
        drawn = several.sample(rows, 200, seeded(3))
        worst = [
            max(float(*distances(rows, [int(x)], Fraction(q))) for x, q in zip(run, QS, strict=True)) for run in drawn
        ]
        assert sum(one > several.interval(confidence) + 1 for one in worst) <= 200 * (1 - float(confidence))
        assert max(worst) > several.interval(confidence) / 20


def test_the_least_epsilon_for_an_error() -> None:
    for kind, more in ((Quantile, {"q": "0.5"}), (Quantiles, {"qs": QS})):
        make: Any = kind
        found = make.for_error(10, "0.95", lower=0, upper=100, grid=1, **more)
        assert found.interval("0.95") <= 10
        less = make(epsilon=found.epsilon * 99 / 100, lower=0, upper=100, grid=1, **more)
        assert less.interval("0.95") > 10
    with pytest.raises(ParameterError, match="confidence"):
        Quantile(epsilon=1, q="0.5", lower=0, upper=1).interval("0.9999999999999999999")


@pytest.mark.parametrize("way", ["halving", "joint"])
def test_rows_of_one_value_are_divided_in_the_right_proportion(way: Any) -> None:
    """Four rows of five are 0: so is the upper quartile, though the rows beside the median have its value."""
    rows = np.repeat([0, 10, 20, 30, 40], [8000, 500, 500, 500, 500])
    found = Quantiles(epsilon=1, qs=("0.25", "0.5", "0.75", "0.9"), lower=0, upper=50, grid=1, way=way)
    assert found.release(rows, entropy=seeded(4)).value[:3] == (0.0, 0.0, 0.0)
    assert found.release(rows, entropy=seeded(4)).value[3] in range(19, 32)


@pytest.mark.parametrize("grid", [None, "0.5", 1, "1e-9"])
def test_places_are_multiples_of_the_grid_however_they_are_counted(grid: Any) -> None:
    rows = [float("nan"), -3, 0.2, 1.26, 99.999, 1e300, "7"]
    one = Quantile(epsilon=1, q="0.5", lower="0.1", upper=100, grid=grid, missing=50)
    places = Places(lower=one.lower, upper=one.upper, missing=one._missing, grid=one._grid)
    column = places.column(rows)
    step = Fraction(places.grid)
    wanted = sorted(
        min(max(round(Fraction(x) / step), places.first), places.last) for x in (50, 0, 0.2, 1.26, 99.999, 100, 7)
    )
    assert np.repeat(column.values, np.diff(column.ranks)).tolist() == wanted
    assert (one.release(rows, entropy=seeded(1)).value / float(places.grid)) % 1 == pytest.approx(0, abs=1e-3)


def test_a_choice_costs_what_the_rows_near_the_quantile_cost() -> None:
    """Of 10^5 rows of as many values, a few hundred segments stand for a choice."""
    rows = np.arange(100_000)
    with recording() as draws:
        Quantile(epsilon=1, q="0.5", lower=0, upper=100_000, grid="0.1").release(rows, entropy=seeded(1))
    scores, counts = draws[0].value
    assert len(scores) < 1000
    assert int(counts.sum()) == 1_000_001


# ---- bounds of a column ---------------------------------------------------------------------------------------------


def test_bounds_are_drawn_by_the_laws_of_two_quantiles() -> None:
    ends = [-(2.0**k) for k in range(59, -21, -1)] + [0.0] + [2.0**k for k in range(-20, 60)]
    rows, runs = [-5.0, -4.0, 0.0, 0.1, 3.0, 2.0**70, float("nan"), *[float(x) for x in range(40)]], 3000
    read = [0.0 if math.isnan(x) else x for x in rows]
    below = [max((at for at, end in enumerate(ends) if end <= x), default=0) for x in read]
    above = [min((at for at, end in enumerate(ends) if end >= x), default=len(ends) - 1) for x in read]
    mechanism = ColumnBounds(epsilon=4, tail="0.1").under(ADD, RECORD)
    exponent = 2 / 2 / 0.9
    lows, highs = (
        law(places, 0, len(ends) - 1, q, exponent) for places, q in ((below, Fraction(1, 10)), (above, Fraction(9, 10)))
    )
    joint: dict[tuple[float, float], float] = {}
    for low, high in itertools.product(range(len(ends)), repeat=2):
        first = min(low, high, len(ends) - 2)
        key = (ends[first], ends[max(low, high, first + 1)])
        joint[key] = joint.get(key, 0.0) + float(lows[low] * highs[high])
    likely = {key: chance for key, chance in joint.items() if chance > 1e-3}
    found = Counter(map(tuple, mechanism.sample(rows, runs, seeded(8)).tolist()))
    assert events_p_value(found, runs, likely) > SIGNIFICANCE  # type: ignore[arg-type]  # events are tuples
    twin = {key: chance**1.5 for key, chance in likely.items()}
    assert events_p_value(found, runs, twin) < SIGNIFICANCE  # type: ignore[arg-type]


def test_bounds_hold_nearly_all_rows() -> None:
    rows = np.random.default_rng(2).normal(30, 8, 20_000)
    mechanism = ColumnBounds(epsilon=1, tail="0.01")
    for run in range(20):
        low, high = mechanism.release(rows, entropy=seeded(run)).value
        assert 0 <= low <= 16
        assert 32 <= high <= 64
        beyond = max(np.count_nonzero(rows < low), np.count_nonzero(rows > high))
        assert beyond <= 200 + mechanism.interval("0.999")
    assert ColumnBounds(epsilon=1).parts() == Repeated(ExponentialLaw("0.5"), times=2)
