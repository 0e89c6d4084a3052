"""A charge comes back on what the ledger saw or a verifier recomputes, never on what a mechanism says of itself.

Seen are the steps that were granted and the answers that were handed out; recomputed is the loss of an outcome. The
twins here lie about each of these, in each place of a tree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings as examples, strategies as st

from dpledger.accounting import filters, rules
from dpledger.accounting.composition import (
    Composition,
    Filtered,
    GaussianLaw,
    Group,
    LaplaceLaw,
    Parallel,
    PoissonSampled,
    PostProcessed,
    Repeated,
    Sequence,
    SparseVectorLaw,
    SparseVectorOutcome,
)
from dpledger.accounting.families.sparse_vector.scales import sparse_vector_law
from dpledger.accounting.guarantees import ZCDP, ApproxDP, Guarantee, PureDP
from dpledger.accounting.pricing.outcomes import planned
from dpledger.errors import ContractViolation, Halted, VerificationError
from dpledger.ledger.entries.bodies import Body, Committed
from dpledger.ledger.entries.members import LevelCharge
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.rules.transitions import fold
from dpledger.ledger.scope import Scope
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.protocol import Release
from dpledger.relations import Relation
from ledger_mechanisms import Once, Told, Training, TrainingRun, stream, training

ADD = Relation.ADD_REMOVE
LAW = sparse_vector_law(Decimal("0.5"), Decimal(0), 2, "basic")


@dataclass(frozen=True)
class Liar(Told):
    """An interaction that answers whatever it is asked, and says in the end what it is told to say."""

    says: Callable[[Composition], Composition] = planned

    def open(self, data: Any, *, entropy: Entropy) -> LiarRun:
        return LiarRun(self.says(self.made_of))


class LiarRun:
    """The conversation of a `Liar`."""

    def __init__(self, parts: Composition) -> None:
        self.parts = parts

    def ask(self, query: Any, /) -> Any:
        return query

    def close(self) -> Release[str]:
        return Release(value="over", parts=self.parts)


@pytest.fixture
def scope() -> Scope:
    return Ledger.in_memory().scope("s", unit="patient", relation="add_remove", budget=ApproxDP(90, "0.000001"))


def ended(scope: Scope) -> Committed:
    """The last commit; the whole record verifies."""
    scope._ledger.verify()
    body = scope._ledger.entry(len(scope._ledger) - 1).body
    assert isinstance(body, Committed)
    return body


def assert_all_of_it_stands(scope: Scope) -> Committed:
    (admission,) = scope.account().admissions
    assert admission.charged == admission.reserved
    assert ended(scope).rule == "cap"
    return ended(scope)


# ---- steps that nobody granted --------------------------------------------------------------------------------------

UNDONE = Repeated(LaplaceLaw("0.1"), times=5, done=0)
PLACES: dict[str, Composition] = {
    "alone": UNDONE,
    "in a sequence": Sequence((LaplaceLaw(1), UNDONE)),
    "a sequence itself": Sequence((LaplaceLaw(1), LaplaceLaw(2)), done=0),
    "after a program": PostProcessed(UNDONE),
    "beside another": Parallel((UNDONE, UNDONE)),
    "for a group": Group(UNDONE, k=2, relation=ADD),
    "within a plan": Repeated(UNDONE, times=3),
    "on a sample": PoissonSampled(UNDONE, rate="0.5"),
    "under a filter": Filtered(filters.opened_by(PureDP(2)), (UNDONE,)),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_release_gets_no_step_back(scope: Scope, place: str) -> None:
    told = PLACES[place]
    once = Once(claimed=PureDP(9), made_of=planned(told), run=lambda data, _: Release(value=data, parts=told))
    assert scope.release(once, 7).value == 7
    assert assert_all_of_it_stands(scope).parts == planned(told)


@pytest.mark.parametrize("place", PLACES)
def test_an_interaction_gets_no_step_back(scope: Scope, place: str) -> None:
    told = PLACES[place]
    liar = Liar(claimed=PureDP(9), made_of=planned(told), says=lambda _: told)
    with scope.open(liar, None) as answers:
        answers.ask("anything")
    assert assert_all_of_it_stands(scope).parts == planned(told)


def test_a_training_run_gets_back_what_was_not_granted_and_no_step_within_a_step(scope: Scope) -> None:
    """The count within each step is no count of grants."""

    class Run(TrainingRun):
        def close(self) -> Release[int]:
            return Release(value=0, parts=Repeated(replace(inner, done=0), times=40, done=0))

    class Inner(Training):
        def open(self, data: Any, *, entropy: Entropy) -> TrainingRun:
            return Run(Repeated(inner, times=40))

    inner = Repeated(GaussianLaw(40), times=2)
    made: Any = {"made_of": Repeated(inner, times=40), "claimed": ZCDP("0.1")}
    run = scope.open(Inner(**{**vars(training()), **made, "planned_steps": 40}), None, tail_delta=0)
    run.ask(None)
    run.close()
    body = ended(scope)
    assert body.parts == Repeated(inner, times=40, done=2)  # a block of two was granted for the first step
    assert body.rule == "steps"
    (admission,) = scope.account().admissions
    assert admission.charged["mixed_rdp_0"] == pytest.approx(admission.reserved["mixed_rdp_0"] / 20)


def test_a_training_run_may_be_a_sequence_of_different_steps(scope: Scope) -> None:
    class Run(TrainingRun):
        def close(self) -> Release[int]:
            return Release(value=0, parts=replace(plan, done=1))

    class Annealed(Training):
        def open(self, data: Any, *, entropy: Entropy) -> TrainingRun:
            return Run(Repeated(plan, times=1))

    plan = Sequence(tuple(LaplaceLaw(k) for k in range(1, 5)))
    run = scope.open(Annealed(claimed=PureDP(10), made_of=plan, kind="training", planned_steps=4), None)
    run.ask(None)
    run.ask(None)
    run.close()
    assert ended(scope).parts == replace(plan, done=2)
    assert ended(scope).rule == "steps"
    (admission,) = scope.account().admissions
    assert admission.charged["pure"] == 3


# ---- answers that were counted --------------------------------------------------------------------------------------


def told(tests: int, *, law: SparseVectorLaw = LAW, halted: bool = False) -> SparseVectorLaw:
    """A leaf that tells of so many tests, none of them charged."""
    values = {name: getattr(law, name) for name in law.__dataclass_fields__ if name != "outcome"}
    return SparseVectorLaw(**values, outcome=SparseVectorOutcome((), tests, halted))


def around(place: str, leaf: Composition) -> Composition:
    """A leaf with an outcome, in one place of a tree."""
    match place:
        case "alone":
            return leaf
        case "in a sequence":
            return Sequence((LaplaceLaw(1), leaf))
        case "after a program":
            return PostProcessed(leaf)
        case "beside another":
            return Parallel((LaplaceLaw("0.1"), leaf))
        case "for a group":
            return Group(leaf, k=2, relation=ADD)
        case "within a plan":
            return Repeated(leaf, times=3)
        case "on a sample":
            return PoissonSampled(leaf, rate="0.5")
        case _:
            return Filtered(filters.opened_by(PureDP(2)), (leaf,))


def asked(scope: Scope, parts: Composition, questions: int, claim: Guarantee | None = None) -> None:
    """An interaction of so many questions that says `parts` in the end."""
    liar = Liar(claimed=claim or PureDP(9), made_of=planned(parts), says=lambda _: parts)
    with scope.open(liar, None) as answers:
        for number in range(questions):
            answers.ask(number)


@pytest.mark.parametrize("place", PLACES)
@given(tests=st.integers(0, 6), questions=st.integers(0, 6))
@examples(max_examples=12, deadline=None)
def test_an_outcome_tells_of_every_answer_or_nothing_comes_back(place: str, tests: int, questions: int) -> None:
    scope = Ledger.in_memory().scope("s", unit="patient", relation="add_remove", budget=ApproxDP(90, "0.000001"))
    parts = around(place, told(tests))
    if tests >= questions:
        asked(scope, parts, questions)
        assert ended(scope).parts == parts
        return
    with pytest.raises(ContractViolation, match="does not match its answers"):
        asked(scope, parts, questions)
    body = assert_all_of_it_stands(scope)
    assert body.outside_guarantee
    assert body.parts == planned(parts)


def test_an_answer_that_comes_after_its_query_closed_the_interaction_is_not_handed_out(scope: Scope) -> None:
    run = scope.open(stream("0.5"), None)
    run.ask(True)
    with pytest.raises(Halted, match="settled without this answer"):
        run.ask(lambda: bool(run.close()))
    assert ended(scope).rule == "ex_post"


def test_outcomes_of_several_leaves_count_together(scope: Scope) -> None:
    asked(scope, Sequence((told(2), told(1))), 3)
    assert ended(scope).rule == "ex_post"
    with pytest.raises(ContractViolation):
        asked(scope, Sequence((told(1), told(1))), 3)


def test_a_release_is_an_answer_too(scope: Scope) -> None:
    silent = Once(claimed=PureDP(1), made_of=LAW, run=lambda data, _: Release(value=data, parts=told(0)))
    with pytest.raises(ContractViolation, match="withheld"):
        scope.release(silent, "all of it")
    assert assert_all_of_it_stands(scope).outside_guarantee


def test_an_outcome_that_cannot_be_breaks_the_contract_wherever_it_stands() -> None:
    """Halted without its epochs; more epochs than the cutoff; an epoch without a test; tests after the halt."""
    for outcome in (
        SparseVectorOutcome((), 3, True),
        SparseVectorOutcome((1, 1), 0, False),
        SparseVectorOutcome((1, 1, 1), 0, True),
        SparseVectorOutcome((0, 3), 0, True),
        SparseVectorOutcome((1, 1), 2, True),
    ):
        for place in PLACES:
            scope = Ledger.in_memory().scope("s", unit="patient", relation="add_remove", budget=PureDP(90))
            with pytest.raises(ContractViolation):
                asked(scope, around(place, replace(told(3), outcome=outcome)), 1)
            assert assert_all_of_it_stands(scope).outside_guarantee


# ---- counts beside an outcome ---------------------------------------------------------------------------------------


def doubled(tests: int, done: int) -> Composition:
    """Answers at a growing epsilon, each tested once: what its outcome tells, and how many answers it says it gave."""
    return Sequence((told(tests), Sequence(tuple(LaplaceLaw(Decimal(2) ** k / 10) for k in range(5)), done=done)))


@pytest.mark.parametrize(("says", "counted"), [(2, 2), (0, 2), (4, 4)])
def test_answers_that_a_test_did_not_let_out_come_back(scope: Scope, says: int, counted: int) -> None:
    parts = doubled(2, says)
    once = Once(claimed=PureDP(9), made_of=planned(parts), run=lambda data, _: Release(value=data, parts=parts))
    scope.release(once, 7)
    body = ended(scope)
    assert body.rule == "ex_post"
    assert body.parts == doubled(2, counted)
    (admission,) = scope.account().admissions
    tested = rules.cost(told(2), ADD).pure
    assert tested is not None
    assert admission.charged["pure"] == tested + sum(Decimal(2) ** k / 10 for k in range(counted))


def test_a_record_in_which_fewer_answers_were_given_than_tested_does_not_verify(scope: Scope) -> None:
    parts = doubled(2, 2)
    once = Once(claimed=PureDP(9), made_of=planned(parts), run=lambda data, _: Release(value=data, parts=parts))
    scope.release(once, 7)
    record = bodies(scope)
    fold(record)
    assert "fewer steps" in rejected(record, doubled(2, 1), {}, "ex_post")


# ---- the verifier ---------------------------------------------------------------------------------------------------


def bodies(scope: Scope) -> list[Body]:
    return [entry.body for entry in scope._ledger.entries()]


def rejected(record: list[Body], parts: Composition, amounts: dict[str, Decimal], rule: str) -> str:
    """What the fold says of a record whose last commit is another."""
    *before, last = record
    assert isinstance(last, Committed)
    levels = tuple(LevelCharge(level.scope, {**level.amounts, **amounts}) for level in last.levels)
    changed: Any = {"parts": parts, "levels": levels, "rule": rule}
    with pytest.raises(VerificationError) as refusal:
        fold([*before, replace(last, **changed)])
    return str(refusal.value)


def test_a_record_in_which_ungranted_steps_came_back_does_not_verify(scope: Scope) -> None:
    plan = Repeated(LaplaceLaw("0.1"), times=5)
    scope.release(Once(claimed=PureDP(1), made_of=plan), 1)
    record, nothing = bodies(scope), dict.fromkeys(filters.names(scope.account().filter), Decimal(0))
    fold(record)
    assert "fewer steps" in rejected(record, UNDONE, nothing, "steps")


@pytest.mark.parametrize("place", PLACES)
def test_a_record_with_an_outcome_that_cannot_be_does_not_verify(scope: Scope, place: str) -> None:
    parts = around(place, told(3))
    asked(scope, parts, 3)
    record = bodies(scope)
    last = record[-1]
    fold(record)
    assert isinstance(last, Committed)
    lie = around(place, replace(told(3), outcome=SparseVectorOutcome((), 3, True)))
    assert "halted" in rejected(record, lie, {}, last.rule)
