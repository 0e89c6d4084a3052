"""Whose gradient is clipped: one for a unit, however many rows it has, and whatever stands where its id should be."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from dpledger.accounting.composition import GaussianLaw, Group, PoissonSampled, Repeated
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.noise import recording
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.training import DPSGD
from dpledger.mechanisms.units import ByUnit, Units
from dpledger.relations import Relation, Unit
from mechanism_conformance import MechanismConformance
from training_mutants import MUTANTS

Floats = npt.NDArray[np.float64]

USERS = Unit("user", max_contributions=10)
PLAN: dict[str, Any] = {
    "rate": 1,
    "steps": 1,
    "noise_multiplier": 1,
    "clip_norm": 1,
    "dimension": 2,
    "expected_batch_size": 4,
}


def sums(users: list[Floats]) -> Floats:
    """The gradient of a user: the sum of the user's rows."""
    return np.array([user.sum(axis=0) for user in users]).reshape(len(users), 2)


def passed(mechanism: DPSGD, data: object, gradients: Any = sums) -> list[int]:
    """What one step passes to the noise functions, in steps of the grid."""
    with recording() as draws:
        mechanism.open(data, entropy=seeded(1)).ask(gradients)
    value: list[int] = np.asarray(draws[0].value).tolist()
    return value


class TestConformanceOfUsersById(MechanismConformance):
    relations = (Relation.ADD_REMOVE, Relation.ZERO_OUT, Relation.REPLACE_ONE)
    unit = USERS
    good_data: ClassVar[object] = ByUnit(np.ones((5, 2)), units=[1, 1, 2, 3, 3])
    bad_data = (
        ByUnit(np.full((3, 2), np.nan), units=[None, float("nan"), "a"]),
        ByUnit(np.full((3, 2), 1e308), units=[{}, [], 1j]),
        ByUnit(np.zeros((0, 2)), units=[]),
    )
    bad_containers = (np.ones((5, 2)), [np.ones((3, 2))], (np.ones((5, 2)), np.ones(5)), 7, None)
    bad_parameters = (
        {"grouped": 1},
        {"grouped": "yes"},
        {"by_row": 1},
        {"by_row": True, "grouped": True},
        {"microbatch": 0},
        {"microbatch": True},
        {"microbatch": 1.5},
    )

    def make(self, **changes: Any) -> Any:
        return DPSGD(**{**PLAN, "rate": "0.5", **changes})

    def run(self, mechanism: Any, data: Any, seed: int) -> Release[Any]:
        run = mechanism.open(data, entropy=seeded(seed))
        means = [run.ask(sums) for _ in run.steps()]
        release: Release[Any] = run.close()
        return Release(value=np.array(means), parts=release.parts)

    def test_containers_of_a_wrong_kind_are_refused_before_the_run(self) -> None:
        """What does not say how rows belong to units is refused as well, by the name of what is missing."""
        for mechanism in self.placed():
            for data in self.bad_containers:
                with pytest.raises(ParameterError) as refusal:
                    mechanism.inspect(data)  # type: ignore[attr-defined]
                assert refusal.value.field == "units"
                with pytest.raises(ParameterError):
                    self.run(mechanism, data, 1)


# ---- how rows belong to units ---------------------------------------------------------------------------------------


def test_rows_without_units_are_refused_where_a_unit_may_have_many() -> None:
    ready = DPSGD(**PLAN).under(Relation.ADD_REMOVE, USERS)
    with pytest.raises(ParameterError, match=r"units: expected an id for each row .*units=ids.*grouped=True"):
        ready.inspect(np.ones((5, 2)))
    with pytest.raises(ParameterError, match="one user may have 10 rows"):
        ready.open(np.ones((5, 2)), entropy=seeded(1))


def test_items_that_are_whole_units_are_declared_and_the_record_says_so() -> None:
    ready = DPSGD(**PLAN, grouped=True).under(Relation.ADD_REMOVE, USERS)
    users = [np.ones((3, 2)), np.ones((1, 2)), np.zeros((0, 2))]
    assert ready.parameters()["grouped"] is True
    assert "everything of one unit" in str(ready.parameters()["assumes"])
    assert ready.open(users, entropy=seeded(1)).ask(sums).shape == (2,)
    assert "grouped" not in DPSGD(**PLAN).parameters()


def test_items_cannot_be_whole_units_and_rows_with_ids_at_once() -> None:
    ready = DPSGD(**PLAN, grouped=True).under(Relation.ADD_REMOVE, USERS)
    with pytest.raises(ParameterError, match="grouped"):
        ready.inspect(ByUnit(np.ones((2, 2)), units=[1, 2]))


def test_rows_that_are_drawn_one_by_one_are_a_group_in_every_step() -> None:
    plan = DPSGD(**{**PLAN, "rate": "0.1", "steps": 3}, by_row=True)
    ready, step = plan.under(Relation.ADD_REMOVE, USERS), PoissonSampled(GaussianLaw(1), rate="0.1")
    assert ready.parts() == Repeated(Group(step, k=10, relation=Relation.ADD_REMOVE), times=3)
    assert plan.under(Relation.ZERO_OUT, Unit("user")).parts() == plan.parts() == Repeated(step, times=3)
    exchanged = plan.under(Relation.REPLACE_ONE, USERS)
    assert exchanged.parts() == Repeated(Group(step, k=10, relation=Relation.REPLACE_ONE), times=3)
    unplaced = DPSGD(**{**PLAN, "rate": "0.1", "steps": 3}, by_row=True, unit=USERS)
    assert unplaced.parts() == ready.parts(), "also before a relation is said"
    orders = ready.claim().orders
    assert ready.claim().epsilons > plan.under(Relation.ADD_REMOVE, Unit("user")).claim().epsilons[: len(orders)]
    assert "no unit has more of them" in str(ready.parameters()["assumes"])
    assert ready.open(np.ones((5, 2)), entropy=seeded(1)).ask(lambda rows: rows).shape == (2,)
    with pytest.raises(ParameterError, match="by_row"):
        ready.inspect(ByUnit(np.ones((2, 2)), units=[1, 2]))
    with pytest.raises(ParameterError, match="by_row=True where rows are drawn"):
        DPSGD(**PLAN).under(Relation.ADD_REMOVE, USERS).inspect(np.ones((5, 2)))


def test_a_unit_of_one_row_needs_neither() -> None:
    ready = DPSGD(**PLAN).under(Relation.ADD_REMOVE, Unit("user"))
    for data in (np.ones((2, 2)), ByUnit(np.ones((2, 2)), units=[1, 2])):
        ready.inspect(data)
        assert ready.open(data, entropy=seeded(1)).ask(lambda rows: np.ones((len(rows), 2))).shape == (2,)


def test_a_user_of_ten_rows_moves_the_sum_by_one_clipped_gradient() -> None:
    """Row by row (the mutant) the ten of them would move it ten times as far."""
    rows = np.array([[1.0, 0.0]] * 10 + [[0.0, 0.5]])
    ids = ["ann"] * 10 + ["bob"]
    plan = DPSGD(**PLAN).under(Relation.ADD_REMOVE, USERS)
    both = passed(plan, ByUnit(rows, units=ids))
    alone = passed(plan, ByUnit(rows[10:], units=ids[10:]))
    bound = float(plan.sensitivity.value) / float(plan.step_size)
    assert 0.9 * bound < np.linalg.norm(np.subtract(both, alone)) <= bound
    mutant = MUTANTS["TRN-B6"](**PLAN)
    left, right = (passed(mutant, data, np.asarray) for data in ([rows[:10], rows[10:]], [rows[10:]]))
    assert np.linalg.norm(np.subtract(left, right)) > 9 * bound


@given(
    ids=st.lists(
        st.one_of(
            st.sampled_from([1, 1.0, True, "1", 2, "a", b"a", None, float("nan"), 1.5, float("inf"), 10**30]),
            st.sampled_from([[], {}, (1,), object(), Decimal(1), Fraction(1, 2), 1j, pd.NA, pd.NaT]),
            st.sampled_from([np.int8(2), np.float32(2), np.uint64(2**63), np.timedelta64(2, "s"), np.str_("a")]),
        ),
        max_size=30,
    ),
    values=st.lists(st.floats(-3, 3), min_size=60, max_size=60),
    away=st.integers(0, 29),
)
def test_taking_a_unit_away_takes_its_gradient_alone(ids: list[Any], values: list[float], away: int) -> None:
    """No id raises, and what is left of the others is what it was: the two sums differ by the gradient of one unit."""
    rows = np.array(values[: 2 * len(ids)]).reshape(len(ids), 2)
    plan = DPSGD(**PLAN).under(Relation.ADD_REMOVE, USERS)
    units = Units.of(ByUnit(rows, units=ids))
    if not len(units):
        assert passed(plan, ByUnit(rows, units=ids)) == [0, 0]
        return
    assert units.groups is not None
    gone = units.groups[away % len(units)]
    kept = [i for i in range(len(ids)) if i not in gone.tolist()]
    left = passed(plan, ByUnit(rows, units=ids))
    right = passed(plan, ByUnit(rows[kept], units=[ids[i] for i in kept]))
    alone = passed(plan, ByUnit(rows[gone], units=[ids[i] for i in gone]))
    assert np.subtract(left, right).tolist() == alone


def groups(ids: Any) -> list[list[int]]:
    found = Units.of(ByUnit(np.zeros(len(ids)), units=ids)).groups
    assert found is not None
    return [group.tolist() for group in found]


def test_ids_of_one_unit_are_the_same_word() -> None:
    one = UUID(int=1)
    assert groups([2, 2.0, np.int8(2), np.float32(2), "2", b"2", "2.0", np.str_("2"), Decimal("2.0")]) == [
        list(range(9))
    ]
    assert groups(["ann", b"ann", "bob", "Ann", "01", "1"]) == [[0, 1], [2], [3], [4], [5]]
    assert groups([one, str(one), UUID(int=2)]) == [[0, 1], [2]]
    assert groups([]) == []


def test_people_whose_ids_are_near_each_other_are_two() -> None:
    """As one unit, one of the two would change an item that stays: no id is narrowed to a float."""
    for kind in (int, str, Decimal, np.int64, np.uint64):
        assert groups([kind(2**60), kind(2**60 + 1), kind(2**60)]) == [[0, 2], [1]]
    assert groups([b"\xff\xfe", b"\xfe\xff"]) == [[0], [1]]


@given(
    ids=st.lists(st.one_of(st.integers(-(2**63), 2**63 - 1), st.sampled_from(["a", "b", "7"])), min_size=1, max_size=9),
    company=st.sampled_from(["x", 0, "1.5"]),
)
def test_units_stay_apart_whatever_numpy_makes_of_their_ids(ids: list[Any], company: Any) -> None:
    """Beside text, numpy writes numbers as text; who belongs together does not change."""
    together = groups([*ids, company])
    assert groups(np.array([*map(str, ids), str(company)])) == together
    assert groups(np.array([*ids, company], dtype=object)) == together


def test_rows_without_an_id_belong_to_nobody() -> None:
    """Many people may share what is missing: as one unit, one of them would change the gradient of all."""
    missing: list[Any] = [
        None,
        float("nan"),
        "nan",
        [],
        {},
        pd.NA,
        pd.NaT,
        np.timedelta64(1, "s"),
        (1, 2),
        Decimal("NaN"),
    ]
    assert groups([*missing, 7]) == [[len(missing)]]
    assert groups(pd.Series([3, None, 3])) == [[0, 2]]
    assert groups(pd.Series([3, None, 3], dtype="Int64")) == [[0, 2]]


@pytest.mark.parametrize(
    "ids",
    [
        np.array([7, 9, 7]),
        np.array([7.0, 9.0, 7.0]),
        np.array(["ann", "bob", "ann"]),
        np.array(["ann", "bob", "ann"], dtype=object),
        pd.Series([7, 9, 7], index=[4, 4, 4]),
        pd.Series(["ann", "bob", "ann"], dtype="category"),
        pd.Series(["ann", "bob", "ann"], dtype="string"),
        ("ann", "bob", "ann"),
    ],
)
def test_ids_stand_in_a_list_an_array_or_a_column(ids: Any) -> None:
    assert groups(ids) == [[0, 2], [1]]


@pytest.mark.parametrize("ids", [None, "ab", 7, {1, 2}, {1: 2, 3: 4}, iter([1, 2]), np.ones((2, 2)), [1], [1, 2, 3]])
def test_what_are_no_ids_for_the_rows_is_refused_at_once(ids: Any) -> None:
    with pytest.raises(ParameterError, match="units"):
        ByUnit(np.ones((2, 2)), units=ids)


@pytest.mark.parametrize(
    ("rows", "items"),
    [
        (np.arange(3), [[0, 2], [1]]),
        ([0, 1, 2], [[0, 2], [1]]),
        (pd.Series([0, 1, 2], index=[9, 9, 9]), [[0, 2], [1]]),
        ((np.arange(3), ["x", "y", "z"]), ([[0, 2], [1]], [["x", "z"], ["y"]])),
    ],
)
def test_an_item_is_the_rows_of_a_unit_in_the_form_of_the_data(rows: Any, items: Any) -> None:
    def plain(taken: Any) -> Any:
        return tuple(map(plain, taken)) if isinstance(taken, tuple) else [list(group) for group in taken]

    assert plain(Units.of(ByUnit(rows, units=["ann", "bob", "ann"])).take(np.array([0, 1]))) == items


def test_rows_by_unit_show_nothing_of_the_data() -> None:
    assert repr(ByUnit([123.0], units=["id123"])) == "ByUnit(...)"
