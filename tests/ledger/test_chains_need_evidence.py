"""What comes back of a chain rests on the levels that the session saw asked and handed out.

A mechanism may say that it went further than the session saw, which only costs more; never that it went less far.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, ClassVar, get_args

import pytest
from hypothesis import given, settings as examples, strategies as st

from dpledger.accounting.chains import ChainLaw, Level
from dpledger.accounting.composition import (
    Chain,
    Composition,
    DiscreteLaplaceLaw,
    GaussianLaw,
    LaplaceLaw,
    Repeated,
    Sequence,
    SparseVectorLaw,
    SparseVectorOutcome,
)
from dpledger.accounting.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP
from dpledger.accounting.pricing.outcomes import planned
from dpledger.errors import ContractViolation, ParameterError, VerificationError
from dpledger.ledger.entries.bodies import Body, Committed
from dpledger.ledger.entries.members import LevelCharge
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.rules import course
from dpledger.ledger.rules.scope_state import Form
from dpledger.ledger.rules.transitions import fold
from dpledger.ledger.scope import Scope
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.protocol import Refines, Release
from dpledger.relations import Relation
from ledger_mechanisms import Once, Told, Training, TrainingRun
from mechanism_conformance import MechanismConformance

CLOSED = PureDP(0)
FINEST = LaplaceLaw(2)
PLAN = Chain(FINEST)
NINE: Guarantee = PureDP(9)
ROOMY: Guarantee = ApproxDP(90, "0.000001")
Q = Decimal("0.25")


def epsilon(value: Decimal | str) -> LaplaceLaw:
    return LaplaceLaw(value)


@dataclass(frozen=True)
class Silent(Told):
    """An interaction about a chain that answers any level, says at close what it is told to say, and shows nobody which
    levels it is asked for."""

    says: Composition = PLAN

    def open(self, data: Any, *, entropy: Entropy) -> SilentRun:
        return SilentRun(self.says)


class SilentRun:
    """The conversation of a `Silent`."""

    def __init__(self, says: Composition) -> None:
        self.says = says
        self.asked: list[Any] = []

    def ask(self, query: Any, /) -> Any:
        self.asked.append(query)
        return query

    def close(self) -> Release[str]:
        return Release(value="over", parts=self.says)


@dataclass(frozen=True)
class Gradual(Silent):
    """The same, and the session may ask it for the level of a query: an epsilon."""

    def level_of(self, query: Any, /) -> ChainLaw | None:
        if query is None:
            return None
        if not isinstance(query, Decimal | str):
            raise ParameterError("epsilon", query, "a number")
        return epsilon(query)


def opened(budget: Guarantee = ROOMY) -> Scope:
    return Ledger.in_memory().scope("s", unit="patient", relation="add_remove", budget=budget)


def said(parts: Composition, kind: type[Silent] = Gradual, claim: Guarantee = NINE) -> Silent:
    return kind(claimed=claim, made_of=planned(parts), says=parts)


def ended(scope: Scope) -> Committed:
    """The last commit; the whole record verifies."""
    scope._ledger.verify()
    body = scope._ledger.entry(len(scope._ledger) - 1).body
    assert isinstance(body, Committed)
    return body


def charged(scope: Scope) -> Decimal:
    (admission,) = scope.account().admissions
    return admission.charged["pure"]


quarters = st.integers(1, 8).map(lambda n: Q * n)


@given(asked=st.lists(quarters, max_size=5), says=quarters)
@examples(max_examples=40, deadline=None)
def test_a_chain_costs_the_finest_level_that_was_handed_out_or_more_if_its_mechanism_says_so(
    asked: list[Decimal], says: Decimal
) -> None:
    scope = opened()
    with scope.open(said(Chain(FINEST, epsilon(says))), None) as answers:
        for level in asked:
            answers.ask(level)
    assert charged(scope) == max([says, *asked])
    assert ended(scope).parts == Chain(FINEST, epsilon(max([says, *asked])))


def test_a_chain_closed_before_its_first_level_costs_nothing() -> None:
    scope = opened(PureDP(2))
    assert isinstance(said(Chain(FINEST)), Refines)
    with scope.open(said(Chain(FINEST, CLOSED)), None):
        assert scope.spent(0).upper == 2
    assert charged(scope) == 0
    assert ended(scope).rule == "ex_post"
    assert scope.spent(0).upper == 0


def test_nothing_comes_back_where_nobody_saw_the_levels() -> None:
    scope = opened()
    with scope.open(said(Chain(FINEST, epsilon(Q)), Silent), None) as answers:
        answers.ask(Q)
    assert ended(scope).rule == "cap"
    assert ended(scope).parts == PLAN
    assert charged(scope) == 2


def test_a_level_beyond_the_finest_breaks_the_contract() -> None:
    scope = opened()
    run = scope.open(said(Chain(FINEST, FINEST)), None)
    run.ask(Decimal("2.25"))
    with pytest.raises(ContractViolation):
        run.close()
    assert ended(scope).outside_guarantee
    assert charged(scope) == 2


def test_a_query_that_is_no_level_is_refused_before_anything_is_asked() -> None:
    scope = opened()
    run = scope.open(said(Chain(FINEST, epsilon(Q))), None)
    with pytest.raises(ParameterError, match="epsilon"):
        run.ask(object())
    conversation: Any = run._conversation
    assert conversation.asked == []
    run.ask(None)  # an answer of another kind
    run.ask(Q)
    run.close()
    assert charged(scope) == Q


def test_an_answer_that_never_came_was_not_handed_out() -> None:
    class Refusing(SilentRun):
        def ask(self, query: Any, /) -> Any:
            raise ParameterError("epsilon", query, "a level above the last one")

    class Opens(Gradual):
        def open(self, data: Any, *, entropy: Entropy) -> SilentRun:
            return Refusing(self.says)

    scope = opened()
    with scope.open(said(Chain(FINEST, CLOSED), Opens), None) as answers, pytest.raises(ParameterError):
        answers.ask(Q)
    assert charged(scope) == 0


def test_of_many_questions_at_once_the_levels_of_those_count_that_were_answered() -> None:
    class Halting(SilentRun):
        def ask_many(self, queries: Any, /) -> Any:
            return queries[:2]

    class Opens(Gradual):
        def open(self, data: Any, *, entropy: Entropy) -> SilentRun:
            return Halting(self.says)

    scope = opened()
    with scope.open(said(Chain(FINEST, CLOSED), Opens), None) as answers:
        assert len(answers.ask_many([Q, Decimal("0.5"), Decimal(1)])) == 2
    assert charged(scope) == Decimal("0.5")


def test_each_chain_of_a_request_is_held_to_the_levels_of_its_kind() -> None:
    scope = opened()

    class Both(Gradual):
        def level_of(self, query: Any, /) -> ChainLaw | None:
            level: ChainLaw = query
            return level

    integers, finest = DiscreteLaplaceLaw(8, 1), DiscreteLaplaceLaw(2, 1)
    parts = Sequence((Chain(FINEST, CLOSED), Chain(finest, CLOSED), Chain(finest, DiscreteLaplaceLaw(4, 1))))
    with scope.open(said(parts, Both), None) as answers:
        answers.ask(integers)
    assert ended(scope).parts == Sequence(
        (Chain(FINEST, CLOSED), Chain(finest, integers), Chain(finest, DiscreteLaplaceLaw(4, 1)))
    )
    other = opened()
    run = other.open(said(parts, Both), None)
    run.ask(GaussianLaw(3))
    with pytest.raises(ContractViolation):
        run.close()
    assert ended(other).outside_guarantee


@pytest.mark.parametrize(("budget", "name"), [(ZCDP(9), "rho"), (GDP(9), "mu_squared")], ids=str)
def test_a_gaussian_chain_gives_back_the_increments_that_were_not_taken(budget: Guarantee, name: str) -> None:
    class Brownian(Gradual):
        def level_of(self, query: Any, /) -> ChainLaw | None:
            return GaussianLaw(query)

    scope = opened(budget)
    with scope.open(said(Chain(GaussianLaw(1), GaussianLaw(8)), Brownian, GDP(1)), None) as answers:
        for multiplier in (8, 4, 2):
            answers.ask(multiplier)
    (admission,) = scope.account().admissions
    assert admission.reserved[name] == 4 * admission.charged[name]
    assert ended(scope).parts == Chain(GaussianLaw(1), GaussianLaw(2))


class Levels(MechanismConformance):
    """What is asked of a mechanism that refines, of one that is told its levels."""

    relations = (Relation.ADD_REMOVE,)
    level_queries: ClassVar[tuple[object, ...]] = ("0.5", "1", "2")

    def make(self, **changes: Any) -> Any:
        return said(PLAN)


def test_a_mechanism_that_refines_says_levels_of_its_own_chain_only() -> None:
    class Backwards(Levels):
        level_queries: ClassVar[tuple[object, ...]] = ("2", "1")

    class Beyond(Levels):
        level_queries: ClassVar[tuple[object, ...]] = ("1", "3")

    class Unsaid(Levels):
        level_queries: ClassVar[tuple[object, ...]] = ()

    Levels().test_its_levels_are_those_of_its_chain_and_grow_finer()
    for twin in (Backwards, Beyond, Unsaid):
        with pytest.raises(AssertionError):
            twin().test_its_levels_are_those_of_its_chain_and_grow_finer()


# ---- releases and plans ---------------------------------------------------------------------------------------------


def told_once(parts: Composition) -> Once:
    return Once(claimed=PureDP(9), made_of=planned(parts), run=lambda data, _: Release(value=data, parts=parts))


def test_a_release_is_a_level() -> None:
    scope = opened()
    scope.release(told_once(Chain(FINEST, epsilon(Q))), 1)
    assert (charged(scope), ended(scope).rule) == (Q, "ex_post")
    withheld = opened()
    with pytest.raises(ContractViolation, match="withheld"):
        withheld.release(told_once(Chain(FINEST, CLOSED)), 1)
    assert charged(withheld) == 2


@pytest.mark.parametrize("form", get_args(Form))
def test_of_an_interaction_alone_somebody_has_to_see_the_levels(form: Form) -> None:
    """A release has one answer: its own."""
    scope, told = opened(), Chain(FINEST, epsilon(Q))
    redeem = scope.open(said(PLAN), None)._attempt._redeem
    state = fold([entry.body for entry in scope._ledger.entries()])
    (held,) = state.open.values()
    for answers, parts in ((0, told), (1, PLAN if form == "interaction" else told)):
        settled = course.settle(state, replace(held, form=form), told, redeem=redeem, handed_out=answers)
        assert settled.parts == parts


def test_beside_tests_a_chain_tells_of_no_answer() -> None:
    """Accuracy first: an above-threshold test of each level, of which the last is published."""

    def tested(tests: int, reached: Level) -> Composition:
        outcome = SparseVectorOutcome((tests,) if tests else (), 0, bool(tests))
        law = SparseVectorLaw("single_threshold", 1, 1, 0, 2, 4)
        return Sequence((replace(law, outcome=outcome), Chain(FINEST, reached)))

    scope = opened()
    scope.release(told_once(tested(2, epsilon(Q))), 1)
    assert charged(scope) == Decimal("0.5") + Q  # a quarter for each test
    scope = opened()
    with pytest.raises(ContractViolation):
        scope.release(told_once(tested(0, epsilon(Q))), 1)
    scope = opened()
    run = scope.open(said(tested(1, epsilon(Q))), None)
    run.ask(Q)
    run.ask(Q)
    with pytest.raises(ContractViolation):
        run.close()


def test_a_chain_within_a_plan_counts_at_its_finest() -> None:
    class Run(TrainingRun):
        def close(self) -> Release[int]:
            return Release(value=0, parts=Repeated(Chain(FINEST, CLOSED), times=4, done=1))

    class Plan(Training):
        def open(self, data: Any, *, entropy: Entropy) -> TrainingRun:
            return Run(Repeated(FINEST, times=4))

    scope = opened()
    plan = Repeated(Chain(FINEST), times=4)
    run = scope.open(Plan(claimed=PureDP(8), made_of=plan, kind="training", planned_steps=4), None)
    run.ask(None)
    run.close()
    assert ended(scope).parts == replace(plan, done=1)
    assert charged(scope) == 2


# ---- the verifier ---------------------------------------------------------------------------------------------------


def changed(record: list[Body], parts: Composition, pure: Decimal) -> None:
    """The record with another last commit, folded."""
    *before, last = record
    assert isinstance(last, Committed)
    levels = tuple(LevelCharge(one.scope, {**one.amounts, "pure": pure}) for one in last.levels)
    fold([*before, replace(last, parts=parts, levels=levels)])


def test_a_record_that_gives_back_more_than_the_last_level_does_not_verify() -> None:
    scope = opened(PureDP(90))
    with scope.open(said(Chain(FINEST, LaplaceLaw(1))), None) as answers:
        answers.ask(Decimal(1))
    record = [entry.body for entry in scope._ledger.entries()]
    changed(record, Chain(FINEST, LaplaceLaw(1)), Decimal(1))
    with pytest.raises(VerificationError, match="refunded beyond the rule"):
        changed(record, Chain(FINEST, LaplaceLaw(1)), Decimal("0.999"))
    with pytest.raises(VerificationError, match="not those that were reserved"):
        changed(record, Chain(LaplaceLaw(1), LaplaceLaw(1)), Decimal(1))
    with pytest.raises(VerificationError, match="other numbers"):
        changed(record, Chain(FINEST), Decimal(2))
