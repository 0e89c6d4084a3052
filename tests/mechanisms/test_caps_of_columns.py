"""Where one unit may have several rows: what a receipt says, and that ids of rows keep every statistic to the cap."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings, strategies as st

import dpledger as dpl
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.numeric.rows import counted
from dpledger.mechanisms.refinement.examples import Shape, check_examples
from dpledger.mechanisms.units import Units

RANGE: dict[str, Any] = {"epsilon": 1, "lower": 0, "upper": 10}
STATISTICS = (
    dpl.Count(epsilon=1, of="rows"),
    dpl.Histogram(epsilon=1, edges=(0, 5, 10)),
    dpl.ClippedSum(**RANGE),
    dpl.ClippedMean(**RANGE),
    dpl.Variance(**RANGE),
    dpl.Quantile(q="0.5", **RANGE),
    dpl.Quantiles(qs=("0.25", "0.5"), **RANGE),
    dpl.TopK(epsilon=1, k=1, categories=("1", "2")),
    dpl.ColumnBounds(epsilon=1),
)
WORDS = "that no plane has more than 4 rows is taken at its word"


@pytest.mark.parametrize("statistic", STATISTICS, ids=lambda one: one.kind)
def test_a_receipt_says_what_nobody_checked_and_its_interval_knows_the_unit(statistic: Any) -> None:
    book = dpl.Ledger.in_memory()
    plane = dpl.Unit("plane", max_contributions=4)
    planes = book.scope("planes", unit=plane, relation="add_remove", budget=dpl.ApproxDP(9, "1e-6"))
    flights = book.scope("flights", unit="flight", relation="add_remove", budget=dpl.ApproxDP(9, "1e-6"))
    column = [1, 2, 3, 2] * 50
    of_planes, of_flights = planes.release(statistic, column), flights.release(statistic, column)
    assert any(WORDS in told for told in of_planes.reads)
    assert not any("taken at its word" in told for told in of_flights.reads)
    assert of_planes.mechanism.unit == plane
    if hasattr(statistic, "interval") and isinstance(statistic.interval("0.9"), int | float):
        assert of_planes.mechanism.interval("0.9") > 2 * of_flights.mechanism.interval("0.9")


def test_groups_keep_to_it() -> None:
    plane = dpl.Unit("plane", max_contributions=4)
    scope = dpl.Ledger.in_memory().scope("planes", unit=plane, relation="add_remove", budget=dpl.PureDP(9))
    frame = pd.DataFrame({"all": ["x"] * 90, "tail": [str(at % 9) for at in range(90)], "late": [1.0] * 90})
    table = dpl.GroupBy("all", [("late", dpl.ClippedSum(**RANGE))], keys=["x"], units="tail", rows_per_key=4)
    receipt = scope.release(table, frame)
    assert not any("taken at its word" in told for told in receipt.reads)


# ---- ids of rows -----------------------------------------------------------------------------------------------------

PLANE = dpl.Unit("plane", max_contributions=2)
IDS = ["a"] * 5 + ["b"] * 1 + ["c"] * 9 + [None] * 7
COLUMN = [1.0] * 5 + [2.0] + [3.0] * 9 + [9.0] * 7
SHARP: dict[str, Any] = {"epsilon": 10**6, "lower": 0, "upper": 10}


def test_of_each_unit_as_many_rows_count_as_it_may_have_and_of_nobody_none() -> None:
    data = dpl.ByUnit(COLUMN, units=IDS)
    for statistic, wanted in (
        (dpl.Count(epsilon=10**6, of="rows"), 5),
        (dpl.ClippedSum(**SHARP), 2 * 1 + 2 + 2 * 3),
        (dpl.ClippedMean(**SHARP), 10 / 5),
        (dpl.Variance(**SHARP), 0.8),
        (dpl.Quantile(q="0.5", grid=1, **SHARP), 2),
    ):
        placed: Any = statistic.under(dpl.Relation.ADD_REMOVE, PLANE)
        assert float(placed.release(data, entropy=seeded(1)).value) == pytest.approx(wanted, abs=1e-3)
        sampled = placed.sample(data, 3, seeded(2))
        assert np.ravel(sampled)[0] == pytest.approx(wanted, abs=1e-3)


@pytest.mark.parametrize("statistic", STATISTICS, ids=lambda one: one.kind)
def test_every_statistic_takes_ids(statistic: Any) -> None:
    scope = dpl.Ledger.in_memory().scope("planes", unit=PLANE, relation="replace_one", budget=dpl.PureDP(9))
    array = np.array(COLUMN)
    for column in (COLUMN, array, pd.Series(COLUMN)):
        scope.release(statistic._with(epsilon="0.5"), dpl.ByUnit(column, units=IDS))
    placed = statistic.under(dpl.Relation.REPLACE_ONE, PLANE)
    assert len(placed.sample(dpl.ByUnit(array, units=IDS), 4, seeded(3))) == 4
    with pytest.raises(dpl.ParameterError, match="ids beside 2 columns"):
        scope.release(statistic, dpl.ByUnit((array, array), units=IDS))
    if statistic.kind != "count":  # which counts rows, whatever they hold
        with pytest.raises(dpl.ParameterError, match="data"):
            scope.release(statistic, dpl.ByUnit(np.zeros((22, 2)), units=IDS))


FRAME = pd.DataFrame({"who": ["ann"] * 3 + ["bob", "eve"], "x": [5.0, 1.0, 4.0, 2.0, 3.0], "y": [0, 1, 0, 1, 0]})
MOVED = FRAME.sort_values("x")
SHAPE = Shape(rows=None, dimension=1, feature_bound=Decimal(1), label_bound=Decimal(1), target=None)
SIDE_BY_SIDE: dict[str, Any] = {
    "ids": lambda of: dpl.ByUnit(of["x"], units=FRAME["who"]),
    "ids of a table": lambda of: dpl.ByUnit(of[["x", "y"]], units=FRAME["who"]),
    "ids of pairs": lambda of: dpl.ByUnit((of["x"], of["y"]), units=FRAME["who"]),
    "a labelled sample": lambda of: dpl.learning.LabeledSample(of["x"], FRAME["y"]),
    "items": lambda of: Units.of((of["x"], FRAME["y"])),
    "examples": lambda of: check_examples((of[["x"]], FRAME["y"]), SHAPE),
}


@pytest.mark.parametrize("name", SIDE_BY_SIDE)
def test_columns_that_were_sorted_apart_are_not_put_side_by_side(name: str) -> None:
    """By position each row would stand beside another's id: one unit would pass its cap."""
    beside = SIDE_BY_SIDE[name]
    beside(FRAME)
    beside(FRAME.copy())
    with pytest.raises(dpl.ParameterError, match="different indexes"):
        beside(MOVED)


def test_without_an_index_columns_stand_as_they_lie() -> None:
    both = dpl.ByUnit(MOVED["x"].to_numpy(), units=FRAME["who"])
    assert both.groups[0].tolist() == [0, 1, 2]
    assert dpl.ByUnit(MOVED["x"], units=MOVED["who"]).groups[0].tolist() == [0, 3, 4]


IN_RANGE = [one for one in STATISTICS if hasattr(one, "values")]


@pytest.mark.parametrize("statistic", IN_RANGE, ids=lambda one: one.kind)
@pytest.mark.parametrize("relation", [dpl.Relation.REPLACE_ONE, dpl.Relation.ZERO_OUT], ids=str)
def test_ids_are_refused_where_one_row_is_exchanged_for_one(statistic: Any, relation: dpl.Relation) -> None:
    """The row that comes may have no id: then one row fewer counts, and a number that was public is not."""
    scope = dpl.Ledger.in_memory().scope("planes", unit="plane", relation=relation, budget=dpl.PureDP(9))
    with pytest.raises(dpl.ParameterError, match=f"rows alone under {relation}, where one plane has one row"):
        scope.release(statistic, dpl.ByUnit([95.0] * 3, units=["a", "b", None]))
    assert scope.spent(0).upper == 0


@settings(max_examples=60, deadline=None)
@given(
    relation=st.sampled_from([dpl.Relation.ADD_REMOVE, dpl.Relation.REPLACE_ONE, dpl.Relation.ZERO_OUT]),
    most=st.integers(1, 3),
    ends=st.sampled_from([(0, 10), (90, 100), (-7, 3), (-100, -90)]),
    rest=st.lists(st.floats(-200, 200), max_size=4),
    left=st.lists(st.tuples(st.floats(-200, 200), st.booleans()), max_size=3),
    right=st.lists(st.tuples(st.floats(-200, 200), st.booleans()), max_size=3),
)
def test_no_neighbour_moves_what_is_summed_further_than_the_noise_is_for(
    relation: dpl.Relation, most: int, ends: Any, rest: Any, left: Any, right: Any
) -> None:
    """One unit's rows, with ids or without, against another's; of the sum, the distances and the squares."""
    assume(most > 1 or relation is dpl.Relation.ADD_REMOVE)
    unit = dpl.Unit("plane", max_contributions=most)
    gone = [] if relation is dpl.Relation.ADD_REMOVE else right[:most]
    sides = []
    for own in (left[:most], gone):
        column = [*rest, *(value for value, _ in own)]
        ids = [*map(str, range(len(rest))), *("own" if known else None for _, known in own)]
        sides.append(counted(dpl.ByUnit(column, units=ids), unit, entropy=seeded(0)))
    near, far = sides
    common: dict[str, Any] = {"epsilon": 1, "lower": ends[0], "upper": ends[1]}
    total: Any = dpl.ClippedSum(**common).under(relation, unit)
    mean: Any = dpl.ClippedMean(**common).under(relation, unit)
    spread: Any = dpl.Variance(**common).under(relation, unit)
    step = float(total._grid)
    assert abs(total.values.total(near) - total.values.total(far)) * step <= float(total._declared.value)
    (first, many), (second, others) = mean.values.totals(near), mean.values.totals(far)
    assert abs(first - second) * float(mean._grid) <= float(mean._sum_sensitivity().value)
    assert abs(many - others) <= (0 if mean._count_law() is None else most)
    sums, squares = zip(*(spread._totals(side)[:2] for side in sides), strict=True)
    assert abs(sums[0] - sums[1]) * float(spread._grid) <= float(spread._sum_sensitivity().value)
    assert abs(squares[0] - squares[1]) <= float(spread._square_sensitivity().value)


def test_what_does_not_keep_to_ids_refuses_them() -> None:
    """It would read no row at all."""
    data = dpl.ByUnit([3.0] * 9, units=["a"] * 9)
    refusing: tuple[Any, ...] = (dpl.ex_post.GradualMean(**RANGE), dpl.RandomizedResponse(("1", "2"), epsilon=1))
    for mechanism in refusing:
        with pytest.raises(dpl.ParameterError, match=r"data: .* got ByUnit"):
            mechanism.under(dpl.Relation.REPLACE_ONE, dpl.Unit()).inspect(data)


def test_which_rows_stay_is_a_coin_of_their_unit_alone() -> None:
    """What stays of one plane is the same whatever another holds; and each of its rows is as likely."""
    rows = np.arange(9)
    stays: Counter[int] = Counter()
    for seed in range(600):
        kept: Any = dpl.ByUnit(rows, units=["a"] * 3 + ["b"] * 6).at_most(2, entropy=seeded(seed))
        other: Any = dpl.ByUnit(np.r_[rows[:3], 90, rows[4:]], units=["a"] * 3 + ["b"] * 6).at_most(
            2, entropy=seeded(seed)
        )
        assert [one for one in kept if one < 3] == [one for one in other if one < 3]
        assert len(kept) == len(other) == 4
        stays.update(kept.tolist())
    assert all(abs(stays[row] - 400) < 70 for row in range(3))
    assert all(abs(stays[row] - 200) < 70 for row in range(3, 9))
