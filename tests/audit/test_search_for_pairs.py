"""A search finds the pair on which a claim breaks, leaves correct code alone, and tries neighbours only."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import dpledger as dpl
from dpledger.audit.search.columns import read_schema
from dpledger.audit.search.drawn import are_apart
from dpledger.audit.search.families import pairs_of, smaller
from dpledger.audit.tested.neighbours import apart
from dpledger.errors import ParameterError
from dpledger.relations import Relation, Unit
from faults_to_find import (
    CORRECT,
    FAULTS,
    TABLE,
    UNIT,
    UNTUNED,
    Case,
    clip_passes_nan,
    clipped_sum,
    no_noise_on_nothing,
)

pytestmark = pytest.mark.sliced

Rng = np.random.Generator
audit_search: Any = dpl.audit_search
SURE = "0.999999"
E = 2.718281828459045


def searched(case: Case, **settings: Any) -> Any:
    said = {"relation": case.relation, "seed": 1, "progress": False, "confidence": SURE} | settings
    return audit_search(case.mechanism, case.claim, neighbours=case.schema, **said)


@pytest.mark.slow
@pytest.mark.parametrize("case", [*FAULTS, *UNTUNED], ids=lambda case: case.name)
def test_every_fault_is_found_from_its_schema_alone(case: Case) -> None:
    result = searched(case, confidence="0.95", seconds=120)  # a minute is enough where nobody else is at work
    assert result.verdict == "violation"
    assert are_apart(result.searched.left, result.searched.right, Relation(case.relation), Unit()) is None or (
        "answers" in case.schema
    )


@pytest.mark.slow
@pytest.mark.parametrize("case", CORRECT, ids=lambda case: case.name)
def test_what_is_correct_is_not_refuted(case: Case) -> None:
    result = searched(case, trials=60_000)
    assert result.verdict == "not_refuted"
    assert result.searched.pairs > 1


@pytest.mark.parametrize("name", ["no_noise_on_nothing", "clip_passes_nan", "count_in_a_byte", "cities_that_are_there"])
def test_faults_of_every_kind_of_data_are_found(name: str) -> None:
    (case,) = (case for case in FAULTS if case.name == name)
    assert searched(case).verdict == "violation"


def test_rows_that_fill_a_byte_or_a_word_are_tried() -> None:
    schema = {"rows": {"type": "integer", "low": 0, "high": 1000}}
    tried = [pair.left for pair in pairs_of(read_schema(schema), Relation.ADD_REMOVE, Unit())]
    assert {32, 65, 127, 255} <= {len(left) for left in tried if left == [1000] * len(left)}  # type: ignore[arg-type]


def test_correct_code_is_left_alone_and_the_result_says_what_was_searched() -> None:
    result = searched(CORRECT[0], trials=3_000)
    assert result.verdict == "not_refuted"
    assert result.searched.runs <= 3_000 * 1.1
    assert f"searched {result.searched.pairs:,} of {result.searched.known:,} pairs" in str(result)
    assert json.loads(result.to_json())["searched"] == str(result.searched)


def test_the_public_summary_says_nothing_of_the_data() -> None:
    pairs = [([0.25], [0.25, 0.75]), ([], [0.625])]
    result = audit_search(no_noise_on_nothing, dpl.PureDP(1), neighbours=pairs, seed=1, progress=False)
    assert (result.verdict, result.searched.right) == ("violation", [0.625])
    assert "0.625" in str(result)
    assert "0.625" not in result.public_summary


def test_the_same_seed_gives_the_same_search() -> None:
    one, two = (searched(FAULTS[4], trials=12_000) for _ in range(2))
    assert (one.searched.right, one.seed) == (two.searched.right, two.seed)
    assert one.evidence == two.evidence


def test_a_violation_is_shrunk_to_the_smallest_pair_that_shows_it() -> None:
    def at_three(rows: list[float], rng: Rng) -> float:  # a fault of three rows and more
        return float(len(rows)) if len(rows) > 2 else len(rows) + rng.laplace()

    result = audit_search(at_three, dpl.PureDP(1), neighbours=UNIT, seed=1, progress=False)
    assert result.verdict == "violation"
    assert (len(result.searched.left), len(result.searched.right)) == (2, 3)


def test_a_strategy_is_searched_and_only_its_neighbours_are_tried() -> None:
    seen: list[int] = []

    def watched(rows: list[int], rng: Rng) -> float:
        seen.append(len(rows))
        return sum(row == 7 for row in rows) * 4 + rng.laplace()

    rows = st.lists(st.integers(0, 9), max_size=3)
    strategy = st.tuples(rows, rows)
    result = audit_search(watched, dpl.PureDP(1), neighbours=strategy, seed=1, progress=False, trials=100_000)
    assert result.verdict == "violation"
    assert apart(result.searched.left, result.searched.right, Relation.ADD_REMOVE, Unit()) is None
    assert 7 in result.searched.left + result.searched.right


def test_alpha_is_shared_by_the_audits() -> None:
    parts = [Fraction(1, j * (j + 1)) for j in range(1, 1_000)]
    assert sum(parts) < 1
    result = searched(CORRECT[1], trials=2_000, confidence="0.95")
    assert result.searched.audits >= 1
    assert result.confidence >= 1 - Fraction(1, 20) / 2


@pytest.mark.slow
def test_false_alarms_over_all_pairs_keep_to_the_error_budget_and_a_mutant_does_not() -> None:
    """On the boundary of its claim, at confidence 0.8: 12 searches of eight pairs each."""

    def boundary(data: int, rng: Rng) -> bool:  # randomised response at exactly 1, whatever the pair
        return bool(rng.random() < 1 / (1 + E)) ^ bool(data % 2)

    pairs = [(number, number + 1) for number in range(8)]

    def alarms(claim: str) -> int:
        said: dict[str, Any] = {"neighbours": pairs, "confidence": "0.8", "trials": 500, "progress": False}
        found = (audit_search(boundary, dpl.PureDP(claim), seed=seed, **said) for seed in range(12))
        return Counter(result.verdict for result in found)["violation"]

    assert alarms("1") <= 9  # P(Bin(12, 0.2) > 9) < 10^-5
    assert alarms("0.2") > 9  # the same code with a false claim


@given(st.sampled_from(["add_remove", "replace_one", "label_flip"]), st.integers(1, 3), st.data())
@settings(max_examples=30, deadline=None)
def test_every_pair_of_a_schema_and_every_smaller_one_is_of_neighbours(relation: str, most: int, data: Any) -> None:
    columns = st.fixed_dictionaries({"type": st.sampled_from(["number", "integer", "boolean", "text", "time"])})
    schema = read_schema({"rows": data.draw(st.lists(columns, min_size=1, max_size=3)), "label": 0, "most_rows": 40})
    unit = Unit("person", max_contributions=most)
    pairs = list(pairs_of(schema, Relation(relation), unit))
    assert pairs
    for pair in data.draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=20)):
        for made in (pair, *smaller(pair)):
            assert are_apart(made.left, made.right, Relation(relation), unit) is None
            sides: Any = made.left, made.right
            assert max(map(len, sides)) <= 40


def test_frames_are_compared_row_by_row() -> None:
    schema = read_schema(TABLE)
    pair: Any
    for pair in list(pairs_of(schema, Relation.ADD_REMOVE, Unit()))[:40]:
        assert are_apart(pair.left, pair.right, Relation.ADD_REMOVE, Unit()) is None
    left, right = pair.left, pair.right
    assert are_apart(left, right.assign(age=7), Relation.ADD_REMOVE, Unit()) is not None


def test_every_pair_keeps_to_its_schema() -> None:
    schema = read_schema({"rows": {"type": "number", "low": 2, "high": 3}, "fewest_rows": 1, "most_rows": 5})
    pair: Any
    for pair in pairs_of(schema, Relation.ADD_REMOVE, Unit()):
        assert all(2 <= row <= 3 for side in (pair.left, pair.right) for row in side)
        assert all(1 <= len(side) <= 5 for side in (pair.left, pair.right))


@pytest.mark.parametrize(
    ("schema", "named"),
    [
        ({}, "neighbours"),
        ({"rows": {"type": "number"}, "table": {}}, "neighbours"),
        ({"rows": {"type": "float"}}, r"rows\[0\].type"),
        ({"rows": {"type": "number", "low": float("nan")}}, r"rows\[0\].low"),
        ({"rows": {"type": "number", "low": 2, "high": 1}}, r"rows\[0\].high"),
        ({"rows": {"type": "text", "low": 0}}, "low"),
        ({"rows": {"type": "integer", "low": 0.2, "high": 0.7}}, "whole number between"),
        ({"rows": {"type": "category", "values": ["a"]}}, "values"),
        ({"rows": {"type": "number", "colour": 1}}, "colour"),
        ({"rows": {"type": "number"}, "form": "set"}, "form"),
        ({"rows": {"type": "number"}, "fewest_rows": 9, "most_rows": 3}, "most_rows"),
        ({"rows": {"type": "number"}, "label": "age"}, "label"),
        ({"answers": {"count": 0}}, "answers.count"),
        ({"answers": {"count": 2, "moves": -1}}, "answers.moves"),
        ({"table": []}, "table"),
    ],
)
def test_a_schema_that_says_nothing_is_refused_by_name(schema: Any, named: str) -> None:
    with pytest.raises(ParameterError, match=named):
        audit_search(clipped_sum, dpl.PureDP(1), neighbours=schema)


@pytest.mark.parametrize("neighbours", [7, [], "rows", [([1], [1, 2, 3])], [3]])
def test_what_is_no_pair_of_neighbours_is_refused(neighbours: Any) -> None:
    with pytest.raises(ParameterError, match="neighbours"):
        audit_search(clip_passes_nan, dpl.PureDP(1), neighbours=neighbours)


def test_code_that_always_raises_is_refused_with_its_cause() -> None:
    def broken(rows: list[float], rng: Rng) -> float:
        raise KeyError(rows)

    with pytest.raises(ParameterError, match="KeyError"):
        audit_search(broken, dpl.PureDP(1), neighbours=UNIT, seed=1, progress=False, trials=1_000)
