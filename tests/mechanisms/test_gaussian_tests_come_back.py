"""Mode gaussian through a scope: tests that the ledger never granted come back, and nothing on the mechanism's word."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from dpledger.accounting.composition import GaussianLaw, Repeated, Sequence
from dpledger.accounting.guarantees import ZCDP
from dpledger.accounting.rules import cost
from dpledger.errors import ContractViolation, Halted, ParameterError, ScopeError, StoreFailure
from dpledger.ledger.entries.bodies import Committed, Progress
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.scope import Scope
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.stability.answers import SideBySide, StableCounts
from dpledger.mechanisms.stability.ensembles.ensemble import Ensemble
from dpledger.mechanisms.stability.labels.learner import LabelPrivateLearner, Lesson
from dpledger.mechanisms.stability.stable_queries import StableQueries
from dpledger.mechanisms.stability.voting import PrivateClassifier
from dpledger.relations import Relation
from ledger_mechanisms import Told

FAR = ("a", 10**6)


def planned(queries: int = 1000) -> StableQueries:
    return StableQueries(epsilon=1, delta="1e-6", mode="gaussian", max_queries=queries)


def opened() -> tuple[Ledger, Scope]:
    ledger = Ledger.in_memory()
    return ledger, ledger.scope("rows", unit="record", relation="replace_one", budget=ZCDP("0.5", "1e-4"))


def bodies(ledger: Ledger, kind: type) -> list[Any]:
    return [entry.body for entry in ledger.entries() if isinstance(entry.body, kind)]


def charged(ledger: Ledger) -> Decimal:
    """The rho of the only run."""
    (committed,) = bodies(ledger, Committed)
    rho: Decimal = committed.levels[0].amounts["rho"]
    return rho


def rho_of_each(mechanism: Any) -> Decimal:
    parts = mechanism.parts()
    assert isinstance(parts, Repeated)
    rho = cost(parts.of, Relation.REPLACE_ONE).rho
    assert rho is not None
    return rho


def test_a_tenth_of_the_queries_costs_a_tenth_of_rho() -> None:
    ledger, scope = opened()
    with scope.open(planned(), None) as session:
        assert session.ask_many(SideBySide(["a"] * 100, [10**6] * 100)) == ("a",) * 100
    assert session.receipt.value == StableCounts(asked=100, answered=100, unstable=0, halted=False)
    assert charged(ledger) == 100 * rho_of_each(planned())
    assert bodies(ledger, Committed)[0].rule == "steps"


def test_one_by_one_tests_are_granted_in_blocks_before_they_run() -> None:
    ledger, scope = opened()
    with scope.open(planned(), None) as session:
        for number in range(51):
            session.ask(FAR)
            assert [one.upto for one in bodies(ledger, Progress)] == [50, 100][: 1 + number // 50]
        session.ask_many([FAR] * 200)
    assert [one.upto for one in bodies(ledger, Progress)] == [50, 100, 251]
    assert charged(ledger) == 251 * rho_of_each(planned())


def test_a_run_that_asked_nothing_costs_no_rho() -> None:
    ledger, scope = opened()
    with scope.open(planned(), None) as session:
        assert session.ask_many([]) == ()
    assert charged(ledger) == 0


def test_a_batch_beyond_the_plan_is_granted_what_is_left() -> None:
    ledger, scope = opened()
    with scope.open(planned(30), None) as session:
        session.ask(FAR)
        assert len(session.ask_many(SideBySide(["a"] * 50, [10**6] * 50))) == 29
        with pytest.raises(Halted):
            session.ask_many([FAR])
        with pytest.raises(Halted):
            session.ask(FAR)
    assert session.receipt.value.asked == 30
    assert charged(ledger) == 30 * rho_of_each(planned(30))


def test_what_is_no_container_is_refused_and_grants_nothing() -> None:
    ledger, scope = opened()
    with scope.open(planned(), None) as session:
        for wrong in (5, iter([FAR]), np.array(5)):
            with pytest.raises(ParameterError, match="queries"):
                session.ask_many(wrong)  # type: ignore[arg-type]
    assert not bodies(ledger, Progress)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), StoreFailure("the reply was lost")])
def test_a_grant_that_was_durable_and_not_answered_is_said_again(
    error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, scope = opened()
    transact = Ledger.transact

    def unanswered(book: Ledger, make: Any) -> Any:
        transact(book, make)
        raise error

    with scope.open(planned(100), None) as session:
        monkeypatch.setattr(Ledger, "transact", unanswered)
        with pytest.raises(type(error)):
            session.ask_many([FAR] * 7)
        monkeypatch.setattr(Ledger, "transact", transact)
        assert session.ask_many([FAR] * 7) == ("a",) * 7
        assert [one.upto for one in bodies(ledger, Progress)] == [7]
        assert session.ask(FAR) == "a"
    assert [one.upto for one in bodies(ledger, Progress)] == [7, 12]
    assert charged(ledger) == 12 * rho_of_each(planned(100))
    ledger.verify()


def test_classifiers_get_back_what_was_not_asked_and_a_learner_of_labels_does_not() -> None:
    def halfway(rows: Any, labels: Any) -> Any:
        middle = rows.mean()
        return lambda asked: (asked > middle).astype(int)

    rows, labels = np.arange(900.0), (np.arange(900) > 450).astype(int)
    ensemble = Ensemble.fit(halfway, (rows, labels), 300, "slots", progress=False)
    made: dict[str, Any] = {"epsilon": 2, "delta": "1e-6", "chunks": 300, "mode": "gaussian", "max_queries": 20}
    ledger, scope = opened()
    with scope.open(PrivateClassifier(**made), ensemble) as session:
        session.ask_many(np.array([10.0, 800.0]))
    each = rho_of_each(PrivateClassifier(**made))
    assert charged(ledger) == 2 * each
    ledger, scope = opened()
    scope.release(LabelPrivateLearner(PrivateClassifier(**made)), Lesson(ensemble, np.array([10.0, 800.0])))
    assert charged(ledger) == 20 * each, "a release is no stream: nobody counted its questions"


# ---- nothing on the mechanism's word --------------------------------------------------------------------------------

STEP = GaussianLaw(20)  # rho 0.005 under replace_one


@dataclass(frozen=True)
class Batches(Told):
    """Steps that answer many at once: `more` answers than they were asked for, `said` steps in the end."""

    more: int = 0
    said: int | None = None

    def steps_to_grant(self) -> int:
        assert isinstance(self.made_of, Repeated)
        return self.made_of.times

    def open(self, data: Any, *, entropy: Entropy) -> BatchesRun:
        return BatchesRun(self)


class BatchesRun:
    """The conversation of `Batches`."""

    def __init__(self, made: Batches) -> None:
        self.made = made

    def ask(self, query: object, /) -> int:
        return 1

    def ask_many(self, queries: Any, /) -> tuple[int, ...]:
        return (1,) * (len(queries) + self.made.more)

    def close(self) -> Release[int]:
        assert isinstance(self.made.made_of, Repeated)
        return Release(value=0, parts=replace(self.made.made_of, done=self.made.said))


def batches(**changes: Any) -> Batches:
    return Batches(claimed=ZCDP("0.2"), made_of=Repeated(STEP, 40), kind="batches", **changes)


@pytest.mark.parametrize(("said", "counted"), [(0, 7), (3, 7), (7, 7), (9, 9)])
def test_what_the_mechanism_says_it_started_is_no_less_than_was_granted(said: int, counted: int) -> None:
    ledger, scope = opened()
    with scope.open(batches(said=said), None) as session:
        session.ask_many([0] * 7)
    assert charged(ledger) == counted * Decimal("0.005")


def test_more_answers_than_were_asked_for_cost_the_cap() -> None:
    ledger, scope = opened()
    session = scope.open(batches(more=1, said=0), None)
    with pytest.raises(ContractViolation):
        session.ask_many([0] * 7)
    assert charged(ledger) == Decimal("0.2")
    assert bodies(ledger, Committed)[0].outside_guarantee


def test_steps_that_answer_one_at_a_time_still_do() -> None:
    class Alone(Batches):
        def open(self, data: Any, *, entropy: Entropy) -> Any:
            run = BatchesRun(self)
            return type("Run", (), {"ask": staticmethod(run.ask), "close": staticmethod(run.close)})()

    _, scope = opened()
    made = Alone(claimed=ZCDP("0.2"), made_of=Repeated(STEP, 40), kind="batches")
    with pytest.raises(ScopeError, match="one query at a time"):
        scope.open(made, None).ask_many([1])


def test_each_test_stands_with_its_own_chance_of_telling() -> None:
    parts = planned(10).parts()
    assert isinstance(parts, Repeated)
    assert isinstance(parts.of, Sequence)
    assert parts.times == 10
    assert parts.of.of[1].kind == "privacy_curve"
