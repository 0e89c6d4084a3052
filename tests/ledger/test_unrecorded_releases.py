"""No release of a ledger is in a noise log: it would hold the exact values, and replayed noise is known noise."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from typing import Any

import numpy as np
import pytest

from dpledger.accounting.guarantees import ApproxDP, PureDP
from dpledger.attach.training import private_sgd
from dpledger.errors import ContractViolation, PolicyError
from dpledger.ledger.entries.bodies import Committed
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.scope import Scope
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.noise import Draw, recording, replaying
from dpledger.mechanisms.numeric import Laplace
from dpledger.mechanisms.protocol import Release
from ledger_mechanisms import Once, stream, training

MECHANISM = Laplace(sensitivity=1, epsilon="0.1")
SECRET = 1234
ROWS = np.ones((20, 1))
PLAN: dict[str, Any] = {
    "rate": "0.1",
    "steps": 3,
    "noise_multiplier": 4,
    "clip_norm": 1,
    "dimension": 1,
    "expected_batch_size": 2,
}
LOG_IS_KEPT = "being recorded or replayed"


@contextmanager
def replayed() -> Iterator[list[Draw]]:
    """A replay of a run that was recorded before, on other data."""
    with recording() as draws:
        MECHANISM.release(0, entropy=seeded(1))
    with replaying(draws) as again:
        yield again


LOGS: list[Callable[[], AbstractContextManager[list[Draw]]]] = [recording, replayed]
logs = pytest.mark.parametrize("log", LOGS)


@pytest.fixture
def scope() -> Scope:
    return Ledger.in_memory().scope("s", unit="patient", relation="add_remove", budget=ApproxDP(3, "0.000001"))


def size(scope: Scope) -> int:
    return len(scope._ledger)


@logs
def test_nothing_is_released_or_opened_under_a_log_and_nothing_is_spent(scope: Scope, log: Any) -> None:
    begins: tuple[Callable[[], object], ...] = (
        lambda: scope.release(MECHANISM, SECRET, key="k"),
        lambda: scope.open(stream(), SECRET, key="k"),
        lambda: private_sgd(scope, ROWS, lambda batch: batch, **PLAN),
    )
    for begin in begins:
        with log() as draws, pytest.raises(PolicyError, match=LOG_IS_KEPT):
            begin()
        assert draws == []
    assert size(scope) == 2
    assert scope.release(MECHANISM, SECRET, key="k").entry.index == 3  # the key is still free


@logs
def test_a_kept_value_is_no_exception(scope: Scope, log: Any) -> None:
    """Whether a key was used is no reason to let a log be kept."""
    scope.release(MECHANISM, SECRET, key="k")
    with log(), pytest.raises(PolicyError, match=LOG_IS_KEPT):
        scope.release(MECHANISM, SECRET, key="k")


@logs
def test_a_reservation_is_not_started_under_a_log_and_can_be_released_after_it(scope: Scope, log: Any) -> None:
    held = scope.reserve(MECHANISM)
    with log() as draws, pytest.raises(PolicyError, match=LOG_IS_KEPT):
        held.release(SECRET)
    assert draws == []
    assert [one.status for one in scope.account().admissions] == ["reserved"]
    assert held.release(SECRET).entry.body.kind == "committed"


@logs
def test_an_open_interaction_answers_nothing_under_a_log_and_goes_on_after_it(scope: Scope, log: Any) -> None:
    with scope.open(stream(), SECRET) as answers, scope.open(training(4), SECRET) as run:
        with log(), pytest.raises(PolicyError, match=LOG_IS_KEPT):
            answers.ask(True)
        with log(), pytest.raises(PolicyError, match=LOG_IS_KEPT):
            run.ask(None)
        with log(), pytest.raises(PolicyError, match=LOG_IS_KEPT):
            run.close()
        assert [charge.granted for charge in scope._ledger.state.open.values()] == [0, 0]
        assert answers.ask(True) is True
        assert run.ask(None) == 1
    assert (answers.receipt.value, run.receipt.value) == (1, 1)


@logs
def test_a_training_loop_takes_no_step_under_a_log_and_goes_on_after_it(scope: Scope, log: Any) -> None:
    with private_sgd(scope, ROWS, lambda batch: batch, **PLAN) as run:
        with log() as draws, pytest.raises(PolicyError, match=LOG_IS_KEPT):
            list(run)
        assert draws == []
        assert [charge.granted for charge in scope._ledger.state.open.values()] == [0]
        assert len(list(run)) == 3
    assert run.receipt.value.done == 3


def test_a_query_of_the_caller_cannot_begin_a_log_inside(scope: Scope) -> None:
    """The noise is drawn after the caller's code ran: a log that it leaves open would hear the exact value."""
    logs: list[Any] = []

    def query() -> bool:
        logs.append(recording())
        logs[-1].__enter__()
        return True

    with pytest.raises(ContractViolation), scope.open(stream(), SECRET) as answers:
        answers.ask(query)
    with pytest.raises(ContractViolation):
        scope.release(Once(run=lambda data, parts: Release(value=query(), parts=parts)), SECRET)
    assert len(logs) == 2
    last = scope._ledger.entry(size(scope) - 1).body
    assert isinstance(last, Committed)
    assert last.outside_guarantee
    with recording() as draws:  # nothing was left on, nothing is left forbidden
        MECHANISM.release(0, entropy=seeded(1))
    assert len(draws) == 1


def in_a_copy_of_the_context(call: Callable[[], object]) -> object:
    """In another thread that carries the log: what asyncio and many executors do."""
    return asyncio.run(_awaited(call))


async def _awaited(call: Callable[[], object]) -> object:
    return await asyncio.to_thread(call)


def in_a_thread_of_its_own(call: Callable[[], object]) -> object:
    answers: list[object] = []
    thread = threading.Thread(target=lambda: answers.append(call()))
    thread.start()
    thread.join()
    return answers[0]


def test_a_log_that_travels_to_another_thread_is_seen_there(scope: Scope) -> None:
    with recording() as draws:
        with pytest.raises(PolicyError, match=LOG_IS_KEPT):
            in_a_copy_of_the_context(lambda: scope.release(MECHANISM, SECRET))
        context = copy_context()
    with pytest.raises(PolicyError, match=LOG_IS_KEPT):
        context.run(scope.release, MECHANISM, SECRET)
    assert draws == []
    assert size(scope) == 2


def test_a_log_of_one_thread_hears_nothing_of_the_releases_of_another(scope: Scope) -> None:
    with recording() as draws:
        in_a_thread_of_its_own(lambda: scope.release(MECHANISM, SECRET))
    assert draws == []
    assert size(scope) == 4


def test_audits_record_what_they_call_themselves() -> None:
    book = Ledger.in_memory()
    scope = book.scope("s", unit="patient", relation="add_remove", budget=PureDP(1))
    ready = MECHANISM.under(scope.relation, scope.unit)
    scope.release(ready, SECRET)
    with recording() as left:
        ready.release(10, entropy=seeded(3))
    with replaying(left) as right:
        ready.release(11, entropy=seeded(3))
    assert len(left) == len(right) == 1
