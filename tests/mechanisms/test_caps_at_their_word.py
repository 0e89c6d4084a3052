"""What a receipt says where one unit may have several rows: of a column nothing is enforced, of groups all is."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

import dpledger as dpl

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
