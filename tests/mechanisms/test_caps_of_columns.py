"""Where one unit may have several rows: what a receipt says, and that ids of rows keep every statistic to the cap."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpledger as dpl
from dpledger.mechanisms.entropy import seeded

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
