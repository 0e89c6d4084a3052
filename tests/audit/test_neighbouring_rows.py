"""An audit is as good as its pair: rows that no single unit tells apart refute no claim."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

import dpledger as dpl
from dpledger.audit.tested.neighbours import ALIKE, apart, check_pair
from dpledger.errors import ParameterError
from dpledger.relations import Relation, Unit

pytestmark = pytest.mark.sliced

TRIALS: dict[str, Any] = {"trials": 2_000, "seed": 1, "progress": False}
ROWS = st.lists(st.sampled_from([1, 2, True, None, "ill"]), max_size=6)
FEW = st.lists(st.sampled_from([1, 2, "well"]), max_size=3)


def size(data: list[object], rng: np.random.Generator) -> float:
    return len(data) + float(rng.laplace())


# ---- which pairs may be neighbours ----------------------------------------------------------------------------------


@given(ROWS, FEW, st.randoms())
def test_one_unit_more_or_less_is_a_neighbour_in_every_order(rows: list[Any], of_one: list[Any], chance: Any) -> None:
    unit = Unit("user", max_contributions=max(1, len(of_one)))
    more = rows + of_one
    chance.shuffle(more)
    for relation in (Relation.ADD_REMOVE, Relation.REPLACE_ONE, Relation.ZERO_OUT):
        assert apart(rows, more, relation, unit) is None
        assert apart(more, rows, relation, unit) is None


@given(ROWS, FEW, FEW)
def test_one_unit_exchanged_is_a_neighbour_where_units_are_exchanged(
    rows: list[Any], before: list[Any], after: list[Any]
) -> None:
    unit = Unit("user", max_contributions=max(1, len(before), len(after)))
    assert apart(rows + before, after + rows, Relation.REPLACE_ONE, unit) is None
    if len(before) == len(after):
        assert apart(rows + before, after + rows, Relation.LABEL_FLIP, unit) is None


@pytest.mark.parametrize(
    ("left", "right", "relation", "most"),
    [
        ([1] * 9, [1] * 12, "add_remove", 1),
        ([1] * 9, [1] * 12, "add_remove", 2),
        ([1, 2], [1, 3], "add_remove", 1),
        ([1, 2, 3], [1, 4, 5], "replace_one", 1),
        ([1, 2], [1, 2, 3], "label_flip", 1),
        ([[1, 0], [2, 0]], [[1, 1], [2, 1]], "label_flip", 1),
        (np.zeros((3, 2)), np.ones((3, 2)), "replace_one", 2),
        ([object()] * 9, [object()] * 12, "add_remove", 1),
    ],
)
def test_rows_that_no_single_unit_tells_apart_are_no_neighbours(
    left: Any, right: Any, relation: str, most: int
) -> None:
    unit = Unit("user", max_contributions=most)
    told = apart(left, right, Relation(relation), unit)
    assert told is not None
    assert told.startswith(f"no neighbours under {relation}: ")
    assert apart(right, left, Relation(relation), unit) is not None


def test_an_exchanged_row_is_told_as_one() -> None:
    """Lists of one length that differ in one place are neighbours under replace_one, and not under add_remove."""
    told = apart([0, 0], [0, 1], Relation.ADD_REMOVE, Unit())
    assert told is not None
    assert "they differ by an exchanged row: say relation='replace_one'" in told
    assert apart([0, 0], [0, 1], Relation.REPLACE_ONE, Unit()) is None
    further = apart([0, 0], [1, 1], Relation.ADD_REMOVE, Unit())
    assert further is not None
    assert "exchanged" not in further


def test_equal_rows_are_equal_however_they_are_held() -> None:
    nan = float("nan")
    for right in (np.array([1.0, nan, 0.0]), [True, np.nan, False], [1, -nan, 0.0]):
        assert apart([1, nan, 0], right, Relation.LABEL_FLIP, Unit()) is None
    assert apart([[1, nan]], np.array([[1.0, nan], [2.0, 3.0]]), Relation.ADD_REMOVE, Unit()) is None


def test_frames_are_rows() -> None:
    rows = pd.DataFrame({"age": [31, 45], "name": ["a", None]})
    further = pd.concat([rows] * 3)
    for left, right in ((rows, further), (rows["age"], further["age"]), (rows["name"], further["name"])):
        told = apart(left, right, Relation.ADD_REMOVE, Unit())
        assert told == "no neighbours under add_remove: 0 rows in left alone, 4 in right alone, 1 a unit"
        assert apart(left, left[:1], Relation.ADD_REMOVE, Unit()) is None
    moved = rows.set_index(pd.Index([7, 8]))
    assert apart(rows, moved[::-1], Relation.ADD_REMOVE, Unit()) is None
    assert apart(rows, [(31, "a"), (45, None), (9, "b")], Relation.ADD_REMOVE, Unit()) is None
    result = dpl.audit_mechanism(size, rows, further, claim=dpl.PureDP(1), **TRIALS)
    assert result.apart is not None


@pytest.mark.parametrize(("left", "right"), [(0, 7), ((0.0, 5), (3.0, 9)), ("text", "other"), ([1], 3), (None, [])])
def test_what_is_no_list_of_rows_is_not_compared(left: object, right: object) -> None:
    assert apart(left, right, Relation.ADD_REMOVE, Unit()) is None


def test_no_row_is_in_the_words() -> None:
    told = apart([4711, 4712], [4713, 4714], Relation.REPLACE_ONE, Unit())
    assert told is not None
    assert "471" not in told


# ---- what an audit makes of it --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mechanism",
    [
        dpl.Count(epsilon="0.5", of="rows"),
        dpl.Histogram(epsilon="0.5", edges=(0, 2)),
        dpl.ClippedMean(epsilon="0.5", lower=0, upper=2),
    ],
    ids=lambda mechanism: mechanism.kind,
)
def test_a_mechanism_that_reads_rows_is_not_refuted_by_rows_far_apart(mechanism: Any) -> None:
    with pytest.raises(ParameterError, match="3 in right alone, 1 a unit") as raised:
        dpl.audit_mechanism(mechanism, [1] * 9, [1] * 12, **TRIALS)
    assert raised.value.field == "left, right"


def test_the_unit_and_the_relation_say_which_rows_are_neighbours() -> None:
    count = dpl.Count(epsilon="0.5", of="rows")
    result = dpl.audit_mechanism(count, [1] * 9, [1] * 12, unit=dpl.Unit("user", max_contributions=3), **TRIALS)
    assert (result.verdict, result.apart) == ("not_refuted", None)
    groups = dpl.Histogram(epsilon="0.5", categories=("ill", "well"))
    with pytest.raises(ParameterError, match="replace_one exchanges a row for another"):
        dpl.audit_mechanism(groups, ["ill"], ["well"], **TRIALS)
    assert dpl.audit_mechanism(groups, ["ill"], ["well"], relation="replace_one", **TRIALS).verdict == "not_refuted"


def test_a_claim_about_several_units_may_be_tried_on_them() -> None:
    """Whoever states a claim of their own may mean it of three units: the result says how far the data are apart."""
    count = dpl.Count(epsilon="0.5", of="rows")
    result = dpl.audit_mechanism(count, [1] * 9, [1] * 12, claim=dpl.PureDP("1.5"), **TRIALS)
    assert result.verdict == "not_refuted"
    assert result.apart is not None


def test_the_result_of_a_function_says_that_its_lists_are_no_neighbours_if_they_are_rows() -> None:
    result = dpl.audit_mechanism(size, [1] * 9, [1] * 12, claim=dpl.PureDP(1), **TRIALS)
    assert result.apart == "no neighbours under add_remove: 0 rows in left alone, 3 in right alone, 1 a unit"
    assert f"{result.apart}. If these are rows, the claim does not cover them" in str(result)
    assert json.loads(result.to_json())["apart"] == result.apart


def test_of_neighbours_nothing_is_said() -> None:
    result = dpl.audit_mechanism(size, [1] * 9, [1] * 10, claim=dpl.PureDP(1), **TRIALS)
    assert result.apart is None
    assert "neighbours" not in str(result)
    assert "apart" not in json.loads(result.to_json())


# ---- numbers, and the sensitivity that is declared of them ----------------------------------------------------------

FAR_APART = [
    (dpl.Laplace(sensitivity=1, epsilon=1), 10, 12),
    (dpl.Laplace(sensitivity=1, epsilon=1), 10, Fraction(11) + Fraction(1, 10**9)),
    (dpl.Geometric(sensitivity=2, epsilon=1), 0, 3),
    (dpl.IntegerGaussian(sensitivity=1, sigma=1), 5, 3),
    (dpl.Gaussian(sensitivity=1, noise_multiplier=1, dimension=2), [0, 0], [1, 0.1]),
    (dpl.Laplace(sensitivity=1, epsilon=1, dimension=2, justification="j"), np.zeros(2), np.full(2, 0.6)),
    (dpl.Laplace(sensitivity=1, epsilon=1, missing=3), float("nan"), 5.0),
    (dpl.Laplace(sensitivity=1, epsilon=1), float("inf"), 0),
]


@pytest.mark.parametrize(("mechanism", "left", "right"), FAR_APART)
def test_numbers_further_apart_than_declared_are_refused(mechanism: Any, left: object, right: object) -> None:
    for one, other in ((left, right), (right, left)):
        with pytest.raises(ParameterError, match="further apart") as refusal:
            check_pair(mechanism, one, other, Relation.ADD_REMOVE, Unit())
        assert "12" not in str(refusal.value)


NEIGHBOURS = [
    (dpl.Laplace(sensitivity=1, epsilon=1), 10, 11),
    (dpl.Laplace(sensitivity="0.1", epsilon=1), Fraction(1, 10), Fraction(2, 10)),
    (dpl.Gaussian(sensitivity=1, noise_multiplier=1, dimension=2), [0, 0], [0.6, 0.8 - 1e-12]),
    (dpl.Laplace(sensitivity=1, epsilon=1, bound=2), 1.5, 1e300),
    (dpl.Laplace(sensitivity=1, epsilon=1), float("nan"), 1),
    (dpl.Laplace(sensitivity=1, epsilon=1), np.float32(3), np.array(4)),
]


@pytest.mark.parametrize(("mechanism", "left", "right"), NEIGHBOURS)
def test_numbers_of_neighbours_are_none_of_these(mechanism: Any, left: object, right: object) -> None:
    check_pair(mechanism, left, right, Relation.ADD_REMOVE, Unit())
    check_pair(mechanism, right, left, Relation.ADD_REMOVE, Unit())


# ---- datasets that are the same -------------------------------------------------------------------------------------


def test_an_audit_on_the_same_data_twice_is_blind() -> None:
    """Also of a mechanism that publishes its data: its claim could not fall."""
    count = dpl.Count(epsilon="0.5", of="rows")
    for result in (
        dpl.audit_mechanism(count, [1, 2], [1, 2], **TRIALS),
        dpl.audit_mechanism(size, [1, 2], [1, 2], dpl.PureDP(1), **TRIALS),
        dpl.audit_mechanism(lambda data: sum(data) + np.random.normal(), [1, 2], [1, 2], dpl.PureDP(1), **TRIALS),
    ):
        assert (result.verdict, result.blind, result.power) == ("not_refuted", ALIKE, None)
        assert result.body().blind == ALIKE
    assert dpl.audit_replay(count, [1, 2], [1, 2]).verdict == "blind"
    assert dpl.audit_replay(count, [1, 2], [1]).verdict == "not_refuted"
    assert dpl.audit_mechanism(count, [1, 2], [1], **TRIALS).blind is None


def test_a_service_that_is_asked_about_the_same_data_is_blind() -> None:
    noise = np.random.default_rng(1)
    result = dpl.audit_service(lambda rows: 1 + noise.laplace(), [1], [1], dpl.PureDP(1), quota=400, seed=1)
    assert result.blind == ALIKE
