"""Queries told by their values on a domain: what they come to is what their values come to, record by record."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from dpledger.errors import ContractViolation, ParameterError
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.learning.queries import domain_queries
from dpledger.mechanisms.learning.queries.domain_queries import DomainQuery, Records
from dpledger.mechanisms.learning.queries.oracle import StatisticalQueryOracle
from dpledger.mechanisms.learning.queries.query_run import JointQuery
from dpledger.mechanisms.learning.queries.ranges import QueryRange
from dpledger.mechanisms.learning.samples import LabeledSample, Points, labels_of, points_of
from dpledger.relations import Relation, Unit

POINTS = 4
NAN = float("nan")
RANGES = [
    QueryRange(low=Decimal(0), high=Decimal(1), grid=Decimal(1)),
    QueryRange(low=Decimal(-3), high=Decimal("0.7"), grid=Decimal("0.125")),
    QueryRange(low=Decimal("0.3"), high=Decimal(5), grid=Decimal("0.25")),
    QueryRange(low=Decimal(-(2**52)), high=Decimal(2**52), grid=Decimal(1)),
]
records = st.tuples(
    st.one_of(st.integers(-2, 6), st.floats(), st.sampled_from(["3", "x", None, True, 10**400, 1j])),
    st.one_of(st.integers(-1, 2), st.sampled_from(["1", "yes", None, True, NAN, 1.0])),
)
values = st.lists(
    st.one_of(st.integers(-4, 4), st.floats(-1e300, 1e300), st.sampled_from([2.0**52, -(2.0**52)])),
    min_size=2 * POINTS,
    max_size=2 * POINTS,
)


def as_functions(queries: list[DomainQuery]) -> list[Any]:
    """The same queries, of which nobody knows that they are of a domain."""
    return [lambda x, y, one=one: one(x, y) for one in queries]


@settings(max_examples=150, deadline=None)
@given(rows=st.lists(records, max_size=12), tables=st.lists(values, min_size=1, max_size=4), data=st.data())
def test_they_come_to_what_their_values_come_to_record_by_record(
    rows: list[Any], tables: list[list[float]], data: st.DataObject
) -> None:
    x, y = [x for x, _ in rows], [y for _, y in rows]
    unit = data.draw(st.sampled_from(RANGES))
    queries = [DomainQuery(np.array(table, dtype=float).reshape(2, POINTS)) for table in tables]
    found = Records(x, y, len(rows)).sums(queries, unit)
    assert found == Records(x, y, len(rows)).sums(as_functions(queries), unit)
    points, labels = points_of(x, POINTS), labels_of(y)
    for query, total in zip(queries, found, strict=True):
        said = [
            float(query.values[label, point]) if known else NAN
            for point, known, label in zip(points.points.astype(int), points.known, labels, strict=True)
        ]
        assert total == sum(unit.total([one], rows=1) for one in said)


def test_a_twin_that_adds_floats_before_it_rounds_comes_to_something_else() -> None:
    unit, x = QueryRange(low=Decimal(0), high=Decimal(1), grid=Decimal(1)), [0] * 3 + [1]
    query = DomainQuery([[0.4, 1, 0, 0], [0, 0, 0, 0]])
    assert Records(x, [0] * 4, 4).sums([query], unit) == [1]
    counts = np.bincount(x, minlength=POINTS)
    assert round(float(query.values[0] @ counts)) == 2


def test_sums_beyond_every_float_are_exact() -> None:
    """Partial sums beyond 2^53: by whole numbers, and not by floats."""
    unit = QueryRange(low=Decimal(0), high=Decimal(2**52 + 1), grid=Decimal(1))
    rows = 2**13 + 1
    found = Records(np.zeros(rows), np.zeros(rows), rows).sums([DomainQuery([[2**52 + 1], [0]])], unit)
    assert found == [rows * (2**52 + 1)]


def test_many_at_once_are_multiplied_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    tables = rng.integers(0, 2, (9, 2, POINTS))
    records = Records(rng.integers(0, POINTS, 500), rng.integers(0, 2, 500), 500)
    whole = records.sums([DomainQuery(one) for one in tables], RANGES[0])
    monkeypatch.setattr(domain_queries, "_CELLS_AT_ONCE", 20)
    assert records.sums([DomainQuery(one) for one in tables], RANGES[0]) == whole
    assert whole == [int(one[records.y, records.x].sum()) for one in tables]


@pytest.mark.parametrize("mode", ["fixed", "split"])
@pytest.mark.parametrize("relation", Relation, ids=lambda relation: relation.value)
def test_answers_are_those_of_functions_bit_for_bit(mode: Any, relation: Relation) -> None:
    oracle = StatisticalQueryOracle(epsilon="0.7", queries=5, mode=mode, low=-1).under(relation, Unit())
    rng = np.random.default_rng(2)
    sample = LabeledSample(pd.Series([*rng.integers(0, POINTS, 60).tolist(), None]), rng.integers(0, 2, 61))
    queries = [DomainQuery(rng.normal(size=(2, POINTS))) for _ in range(5)]
    answers = []
    for asked in (queries, as_functions(queries)):
        run = oracle.open(sample, entropy=seeded(3))
        answers.append([run.ask(one) for one in asked])
    assert answers[0] == answers[1]


def test_joint_queries_may_be_of_both_kinds() -> None:
    bins = [DomainQuery(np.eye(POINTS)[[at, at]]) for at in range(POINTS)]
    both: list[Any] = [*bins[:2], lambda x, y: np.asarray(x) == 2, bins[3]]
    oracle = StatisticalQueryOracle(epsilon=10**9, queries=1, values="whole")
    run = oracle.open(LabeledSample([0, 1, 1, 2, 2, 2, 3], [0, 1] * 3 + [1]), entropy=seeded(1))
    assert run.ask(JointQuery(both, l1=2, justification="a record is in one bin")) == (1, 2, 3, 1)


def test_the_records_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = list[int]()

    def looked(x: object, points: int) -> Points:
        looks.append(points)
        return points_of(x, points)

    monkeypatch.setattr(domain_queries, "points_of", looked)
    oracle = StatisticalQueryOracle(epsilon=9, queries=9, values="whole")
    run = oracle.open(LabeledSample([0, 1], [0, 1]), entropy=seeded(1))
    for query in ([[1, 0], [0, 0]], [[0, 1], [0, 0]], [[1, 1, 0], [0, 0, 0]], [[0, 1], [1, 0]]):
        run.ask(DomainQuery(query))
    assert looks == [2, 3]


@pytest.mark.parametrize("x", [np.zeros((3, 3)), pd.DataFrame({"a": [1, 2, 3]})], ids=["array", "table"])
def test_rows_with_columns_are_no_points(x: Any) -> None:
    """A square of numbers would put each row into as many cells as it has columns."""
    oracle = StatisticalQueryOracle(epsilon=1, queries=2)
    for query in (DomainQuery([[1], [0]]), *as_functions([DomainQuery([[1], [0]])])):
        with pytest.raises(ContractViolation):
            oracle.open(LabeledSample(x, [0, 1, 1]), entropy=seeded(1)).ask(query)


WRONG: dict[str, Any] = {
    "one row": [[1, 2]],
    "three rows": [[1], [2], [3]],
    "no points": [[], []],
    "ragged": [[1, 2], [3]],
    "text": [["a"], ["b"]],
    "nothing": None,
    "a number": 1,
    "complex": [[1j], [0]],
    "NaN": [[NAN], [0]],
    "infinite": [[0], [float("inf")]],
    "beyond every float": [[10**400], [0]],
}


@pytest.mark.parametrize("given_", WRONG.values(), ids=WRONG)
def test_other_matrices_are_refused(given_: Any) -> None:
    with pytest.raises(ParameterError, match="values"):
        DomainQuery(given_)


def test_a_query_is_a_frozen_value_that_shows_its_size() -> None:
    given_ = np.ones((2, 3))
    query = DomainQuery(given_)
    given_[:] = 0
    assert query.values.min() == 1
    assert (repr(query), query.points) == ("DomainQuery(points=3)", 3)
    with pytest.raises(ValueError, match="read-only"):
        query.values[0, 0] = 5
    assert Fraction(query([7], [1])[0]) == 1
