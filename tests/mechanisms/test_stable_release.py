"""`StableRelease` as a mechanism: its conformance, what it draws, what it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

import pytest

import dpledger as dpl
from dpledger.accounting.certificates.stable_releases import release_probability
from dpledger.accounting.composition import Group
from dpledger.accounting.guarantees import ApproxDP, PrivacyFailure
from dpledger.accounting.rules import check
from dpledger.errors import ContractViolation, InfeasiblePlan, RelationError
from dpledger.ledger.entries.bodies import Committed
from dpledger.ledger.entries.entry import Entry
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.noise import DiscreteLaplace, recording
from dpledger.mechanisms.stability.answers import FAR, UNSTABLE
from dpledger.mechanisms.stability.stable_release import StableRelease
from dpledger.relations import Relation, Unit
from mechanism_conformance import MechanismConformance

SIX: dict[str, Any] = {"epsilon": 1, "delta": "0.01"}
MODES = ("optimal", "tight")
NO_DISTANCES = (-1, 0.5, float("nan"), "3", None, Decimal("-0.1"), Decimal("NaN"), 1j, -float("inf"))


class Stable(MechanismConformance):
    relations = tuple(Relation)
    mode: ClassVar[str]

    def make(self, **changes: Any) -> Any:
        return StableRelease(**{**SIX, "mode": self.mode, **changes})

    good_data = ("B", 5)
    bad_data = (("B", float("inf")), ((1, 2), 0), (None, 10**400), (-1.5, Fraction(4)), (UNSTABLE, 10))
    bad_containers = (None, 3, "B5", ["B", 5], ("B",), ("B", 5, 6))
    bad_parameters: ClassVar[tuple[Mapping[str, object], ...]] = (
        {"epsilon": 0},
        {"epsilon": "inf"},
        {"delta": 0},
        {"delta": "0.5"},
        {"mode": "best"},
        {"distance_relation": "other"},
        {"justification": ""},
    )


class TestOptimal(Stable):
    mode = "optimal"


class TestTight(Stable):
    mode = "tight"


class TestInAGroup(Stable):
    """A distance under add_remove, in a scope of replace_one."""

    mode = "optimal"
    relations = (Relation.ADD_REMOVE, Relation.REPLACE_ONE)

    def make(self, **changes: Any) -> Any:
        return super().make(**{"distance_relation": "add_remove", **changes})


def committed(entry: Entry) -> Committed:
    assert isinstance(entry.body, Committed)
    return entry.body


def placed(relation: Relation = Relation.ADD_REMOVE, **changes: Any) -> StableRelease:
    return StableRelease(**{**SIX, **changes}).under(relation, Unit())


def test_a_coin_of_the_best_probability_is_tossed() -> None:
    with recording() as draws:
        answers = [placed().release(("B", distance), entropy=seeded(3)).value for distance in (0, 3, 5, 8)]
    chances = [release_probability(Decimal(1), Decimal("0.01"), distance) for distance in (0, 3, 5, 8)]
    assert [draw.value for draw in draws] == chances
    assert [answer == "B" for answer in answers] == [draw.output for draw in draws]


def test_the_distance_gets_noise_of_one_over_epsilon() -> None:
    with recording() as draws:
        answers = [placed(mode="tight").release(("B", at), entropy=seeded(at)).value for at in range(40)]
    assert {draw.law for draw in draws} == {DiscreteLaplace(1)}
    assert [draw.value.tolist() for draw in draws] == [[at] for at in range(40)]
    assert [answer == "B" for answer in answers] == [draw.output.item() > 4 for draw in draws]
    assert {"B", UNSTABLE} == set(answers)


@pytest.mark.parametrize("mode", MODES)
def test_a_sample_of_none_is_empty(mode: str) -> None:
    """Found: the noisy modes drew one."""
    assert not len(placed(mode=mode).sample(("B", 99), 0, seeded(1)))


@pytest.mark.parametrize("mode", MODES)
def test_a_sample_is_many_releases(mode: str) -> None:
    sample = placed(mode=mode).sample(((1, 2), 4), 200, seeded(1))
    assert set(sample.tolist()) == {(1, 2), UNSTABLE}
    assert all(answer is UNSTABLE or answer == (1, 2) for answer in sample)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("distance", NO_DISTANCES, ids=lambda at: f"{type(at).__name__} {at}")
def test_what_is_no_distance_breaks_the_contract_before_anything_is_drawn(mode: str, distance: Any) -> None:
    with recording() as draws, pytest.raises(ContractViolation):
        placed(mode=mode).release(("B", distance), entropy=seeded(1))
    assert not draws


def test_a_value_without_a_hash_breaks_the_contract_and_costs_all() -> None:
    ledger = dpl.Ledger.in_memory()
    scope = ledger.scope("rows", unit="record", relation="add_remove", budget=dpl.ApproxDP(2, "1e-4"))
    with pytest.raises(ContractViolation):
        scope.release(StableRelease(epsilon=1, delta="1e-6"), ([1], 5))  # type: ignore[misc]  # the very thing
    *_, entry = ledger.entries()
    assert (committed(entry).rule, committed(entry).outside_guarantee) == ("cap", True)


@pytest.mark.parametrize("keep", ["value", "digest", "none"])
def test_an_entry_does_not_say_whether_it_answered(keep: Any) -> None:
    """What is kept, and what is said of it, is of one form for a value and for UNSTABLE."""
    ledger = dpl.Ledger.in_memory()
    scope = ledger.scope("rows", unit="record", relation="add_remove", budget=dpl.ApproxDP(9, "1e-4"), keep=keep)
    certain = StableRelease(epsilon=1, delta="1e-9", mode="tight")
    answered, not_answered = (scope.release(certain, ("B", at), key=f"at-{at}") for at in (float("inf"), 0))
    assert (answered.value, not_answered.value) == ("B", UNSTABLE)
    said = [committed(receipt.entry) for receipt in (answered, not_answered)]
    assert [body.warnings for body in said] == [(), ()]
    assert said[0].parts == said[1].parts
    if keep == "value":
        assert scope.release(certain, ("B", 0), key="at-0").value == UNSTABLE


def test_two_steps_cost_what_two_steps_do() -> None:
    best, noisy = (
        placed(Relation.REPLACE_ONE, mode=mode, distance_relation="add_remove") for mode in ("optimal", "tight")
    )
    assert best.parts() == Group(ApproxDP(1, "0.01"), 2, Relation.ADD_REMOVE)
    assert float(best.claim().delta) == pytest.approx(0.01 * (1 + 2.718281828459045))
    assert noisy.parts() == noisy.claim()
    assert float(noisy.claim().delta) == pytest.approx(0.0133898049327)
    assert best.claim().epsilon == noisy.claim().epsilon == 2
    for mechanism in (best, noisy):
        assert mechanism.failures() == (PrivacyFailure(mechanism.claim().delta, "stability"),)
        check(mechanism.claim(), mechanism.parts(), Relation.REPLACE_ONE)


def test_a_label_is_one_step_of_a_record() -> None:
    claim = placed(Relation.LABEL_FLIP, distance_relation="replace_one").claim()
    assert claim.epsilon == 1
    assert float(claim.delta) == pytest.approx(0.01, rel=1e-10)


@pytest.mark.parametrize(
    ("inner", "outer"), [("replace_one", Relation.ADD_REMOVE), ("add_remove", Relation.LABEL_FLIP)]
)
def test_relations_of_which_no_steps_are_known_are_refused(inner: str, outer: Relation) -> None:
    with pytest.raises(RelationError, match=inner):
        placed(outer, distance_relation=inner)


def test_two_steps_that_leave_no_delta_are_refused_before_anything_is_spent() -> None:
    for mode in MODES:
        with pytest.raises(InfeasiblePlan, match="delta"):
            placed(Relation.REPLACE_ONE, epsilon=60, delta="0.3", mode=mode, distance_relation="add_remove")


def test_a_unit_of_many_rows_wants_a_reason() -> None:
    family = Unit("family", max_contributions=5)
    with pytest.raises(dpl.ParameterError, match="sensitivity"):
        StableRelease(**SIX).under(Relation.ADD_REMOVE, family)
    assert (
        StableRelease(**SIX, justification="families that must leave").under(Relation.ADD_REMOVE, family).unit == family
    )


def test_far_distances_count_as_one() -> None:
    with recording() as draws:
        for distance in (float("inf"), 10**400, FAR, 2**62, 1e300):
            assert placed(mode="tight").release(("B", distance), entropy=seeded(1)).value == "B"
    assert {draw.value.item() for draw in draws} == {FAR}
