"""What happens when something breaks: processes that are killed, many at once, a disk that fails.

At every moment: what was released <= what is charged <= the budget, and the chain is whole.
"""

from __future__ import annotations

import copy
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpledger.accounting.composition import GaussianLaw, Repeated
from dpledger.accounting.guarantees import GDP, ApproxDP, PureDP
from dpledger.errors import AlreadySpent, BudgetRefused, ChargeInProgress, KeyReused, PolicyError, StoreFailure
from dpledger.ledger.entries.bodies import Committed, Progress, Refused
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.scope import Receipt, Scope
from dpledger.ledger.stores.protocol import Addition, AppendOutcome
from dpledger.mechanisms.numeric import Gaussian
from dpledger.mechanisms.protocol import Release
from fault_conformance import FaultConformance, Lying, counts, forked, read_all, released_until_refused, with_budget
from forking import ignores_fork_warnings
from ledger_mechanisms import Once, laplace, stream, training
from threads import Meeting

pytestmark = pytest.mark.sliced


def file_with_budget(path: Path, epsilon: str) -> Path:
    with_budget(Lying(str(path), path), epsilon)
    return path


class TestFaultsOfFiles(FaultConformance):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder, self.count = tmp_path, 0

    def lying(self) -> Lying:
        self.count += 1
        path = self.folder / f"{self.count}.ledger"
        return Lying(str(path), path)

    @contextmanager
    def full(self, book: Ledger, room: int) -> Iterator[None]:
        store: Any = book._store
        (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
        store._connection.execute(f"PRAGMA max_page_count = {pages + room}")
        yield
        store._connection.execute("PRAGMA max_page_count = 1073741823")


@ignores_fork_warnings
def test_children_forked_before_and_threads_after_the_opening_share_one_budget(tmp_path: Path) -> None:
    """The children open the file on their own, the parent goes on with its handle: each release is granted once."""
    path = file_with_budget(tmp_path / "clinic.ledger", "30")
    where = Lying(str(path), path)
    children = [forked(where) for _ in range(2)]
    with Ledger.open(path) as book:
        granted = in_threads(2, lambda _: released_until_refused(book.scope("s")))
    released = [read_all(pipe) - 1 for _, pipe in children]
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid, _ in children] == [0, 0]
    assert sum(released) + sum(count for count in granted if isinstance(count, int)) == 30
    assert counts(where) == (30, 30)


def in_threads(count: int, work: Callable[[int], object]) -> list[object]:
    """What `work(number)` returned or raised in each of `count` threads that start together."""
    results: list[object] = [None] * count
    barrier = threading.Barrier(count)

    def run(number: int) -> None:
        barrier.wait()
        try:
            results[number] = work(number)
        except Exception as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def made_in(store: str, request: pytest.FixtureRequest, folder: Path) -> Ledger:
    match store:
        case "memory":
            return Ledger.in_memory()
        case "sqlite":
            return Ledger.create(folder / "clinic.ledger")
        case "postgres":
            return Ledger.create(request.getfixturevalue("server").address(), keys=folder / "clinic")
    raise AssertionError(store)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def scope(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scope]:
    """A scope of epsilon 10, in every store."""
    with made_in(request.param, request, tmp_path) as book:
        yield book.scope("s", unit="patient", relation="add_remove", budget=PureDP(10))


def test_threads_grant_the_budget_exactly(scope: Scope) -> None:
    def work(_: int) -> int:
        granted = 0
        for number in range(5):
            try:
                scope.release(laplace("1"), number)
            except BudgetRefused:
                continue
            granted += 1
        return granted

    results = in_threads(4, work)
    assert sum(result for result in results if isinstance(result, int)) == 10
    assert scope.account().spent_by_account == {"pure": "10"}
    scope._ledger.verify()


def test_threads_draw_their_noise_from_one_ledger(scope: Scope) -> None:
    mechanism = Gaussian(sensitivity=1, noise_multiplier=100, dimension=20_000)
    book, data = scope._ledger, np.zeros(20_000)
    assert isinstance(book, Ledger)
    other = book.scope("vectors", unit="patient", relation="add_remove", budget=GDP(1))
    results = in_threads(2, lambda _: [np.sum(other.release(mechanism, data).value) for _ in range(10)])
    assert len({total for result in results if isinstance(result, list) for total in result}) == 20
    committed = [entry.body for entry in book.verify().entries if isinstance(entry.body, Committed)]
    assert [body.outside_guarantee for body in committed] == [False] * 20


def test_a_reservation_is_released_once_by_two_threads(scope: Scope) -> None:
    meeting = Meeting()

    class Awaited(Once):
        def inspect(self, data: object) -> None:
            meeting.wait()

    with scope.reserve(Awaited()) as reservation:
        receipts = in_threads(2, reservation.release)
    assert sum(isinstance(receipt, Receipt) for receipt in receipts) == 1
    assert sum(isinstance(receipt, AlreadySpent) for receipt in receipts) == 1
    assert len(scope.account().admissions) == 1


def test_sixteen_requests_with_one_key_are_one_charge_and_fifteen_repetitions(scope: Scope) -> None:
    ran: list[int] = []

    def slowly(data: Any, parts: Any) -> Release[Any]:
        ran.append(1)
        time.sleep(0.05)
        return Release(value=data, parts=parts)

    mechanism = Once(run=slowly)
    receipts = in_threads(16, lambda number: scope.release(mechanism, number, key="one", wait=60.0))
    assert len(ran) == 1
    told = [receipt for receipt in receipts if isinstance(receipt, Receipt)]
    assert len(told) == 16
    assert all(receipt == told[0] for receipt in told)
    assert [receipt.replayed for receipt in told].count(True) == 15
    assert len(scope.account().admissions) == 1
    with pytest.raises(KeyReused):
        scope.release(laplace("2"), 0, key="one")


def test_without_patience_a_key_under_way_is_refused(scope: Scope) -> None:
    def again(data: Any, parts: Any) -> Release[Any]:
        with pytest.raises(ChargeInProgress):
            scope.release(mechanism, 0, key="one")
        return Release(value=data, parts=parts)

    mechanism = Once(run=again)
    scope.release(mechanism, 0, key="one")


# ---- copies ---------------------------------------------------------------------------------------------------------


def test_a_handle_neither_pickles_nor_copies(scope: Scope) -> None:
    for make_copy in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="does not pickle"):
            make_copy(scope._ledger)
    with pytest.raises(TypeError, match="does not pickle"):
        pickle.dumps(scope)


def test_what_is_open_neither_pickles_nor_copies(scope: Scope) -> None:
    with scope.open(stream(), None) as session, scope.reserve(laplace()) as reservation:
        for held in (session, reservation):
            for make_copy in (pickle.dumps, copy.copy, copy.deepcopy):
                with pytest.raises(TypeError, match="does not pickle"):
                    make_copy(held)


def test_a_closed_handle_says_so(tmp_path: Path) -> None:
    book = Ledger.create(tmp_path / "clinic.ledger")
    book.close()
    book.close()
    with pytest.raises(PolicyError, match="closed"):
        book.declare("limits", "none", by="me")


# ---- a run that breaks ----------------------------------------------------------------------------------------------


def failing_commit(scope: Scope, monkeypatch: pytest.MonkeyPatch, from_call: int) -> None:
    """The store fails in every append from the given one on, before it is durable."""
    store: Any = scope._ledger._store
    genuine, calls = type(store).append, iter(range(10**6))

    def append(self: Any, addition: Addition) -> AppendOutcome:
        if next(calls) >= from_call:
            raise StoreFailure("the disk is full")
        return genuine(self, addition)  # type: ignore[no-any-return]

    monkeypatch.setattr(type(store), "append", append)


def test_a_value_whose_commit_fails_is_withheld_and_its_cap_stays(
    scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[int] = []

    def run(data: Any, parts: Any) -> Release[Any]:
        ran.append(1)
        return Release(value=data, parts=parts)

    with monkeypatch.context() as broken:
        failing_commit(scope, broken, from_call=1)
        with pytest.raises(StoreFailure):
            scope.release(Once(run=run), 1, key="one")
    assert ran == [1]
    (admission,) = scope.account().admissions
    assert (admission.status, admission.charged) == ("started", {"pure": Decimal("0.1")})
    with pytest.raises(ChargeInProgress):
        scope.release(Once(run=run), 1, key="one")
    assert ran == [1]
    scope._ledger.verify()


def test_no_data_is_read_before_the_reservation_is_durable(scope: Scope, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(data: Any, parts: Any) -> Release[Any]:
        raise AssertionError("the data were read")

    with monkeypatch.context() as broken:
        failing_commit(scope, broken, from_call=0)
        with pytest.raises(StoreFailure):
            scope.release(Once(run=run), 1)
        with pytest.raises(StoreFailure):
            scope.open(stream(), None)
    assert scope.account().admissions == ()
    assert len(scope._ledger) == 2


def test_no_step_runs_before_its_grant_is_durable(scope: Scope, monkeypatch: pytest.MonkeyPatch) -> None:
    book = scope._ledger
    assert isinstance(book, Ledger)
    steps = book.scope("steps", unit="patient", relation="add_remove", budget=ApproxDP(3, "1e-6"))
    run = steps.open(training(40), None)
    with monkeypatch.context() as broken:
        failing_commit(steps, broken, from_call=0)
        with pytest.raises(StoreFailure):
            run.ask(0)
    assert run.ask(0) == 1  # the step before was never taken
    run.close()
    assert steps.account().admissions[0].granted == 2


def test_a_step_that_a_step_starts_is_granted_before_it_runs(scope: Scope) -> None:
    """The caller's code asks again before it returns: five steps have begun, and none of them has ended."""
    book = scope._ledger
    assert isinstance(book, Ledger)
    steps = book.scope("steps", unit="patient", relation="add_remove", budget=ApproxDP(3, "1e-6"))
    granted: list[int] = []

    class Nested:
        def ask(self, depth: int, /) -> int:
            granted.append(max(entry.body.upto for entry in book.entries() if isinstance(entry.body, Progress)))
            return run.ask(depth - 1) if depth else 0

        def close(self) -> Release[None]:
            return Release(value=None, parts=Repeated(GaussianLaw(40), times=40, done=len(granted)))

    run: Any = steps.open(training(40), None)
    run._conversation = Nested()
    run.ask(4)
    run.close()
    assert granted == [2, 2, 4, 4, 6]
    book.verify()


def test_a_refusal_is_recorded_once_for_a_key_and_a_request(scope: Scope) -> None:
    for _ in range(3):
        with pytest.raises(BudgetRefused):
            scope.release(laplace("11"), 1, key="k")
    with pytest.raises(BudgetRefused):
        scope.release(laplace("12"), 1, key="k")
    scope.release(laplace("1"), 1, key="k")
    bodies = [entry.body for entry in scope._ledger.entries()]
    assert sum(isinstance(body, Refused) for body in bodies) == 2


HELD = """
import sqlite3, sys, time
other = sqlite3.connect(sys.argv[1], isolation_level=None)
other.execute("BEGIN IMMEDIATE")
print("held", flush=True)
time.sleep(2.0)
other.execute("ROLLBACK")
other.close()
"""


def test_a_time_limit_that_falls_while_a_release_waits_for_another_writer(tmp_path: Path) -> None:
    """A real signal, whose handler raises as Ctrl-C does, while `BEGIN IMMEDIATE` waits for another process. What is
    released afterwards is in the file, and the budget is kept."""
    path = file_with_budget(tmp_path / "clinic.ledger", "3")
    with Ledger.open(path) as book:
        scope = book.scope("s")

        def released_in_time() -> None:
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            scope.release(laplace("1"), 0)

        with subprocess.Popen([sys.executable, "-c", HELD, str(path)], stdout=subprocess.PIPE) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == b"held\n"
            before = signal.signal(signal.SIGALRM, signal.default_int_handler)
            try:
                with pytest.raises(KeyboardInterrupt):
                    released_in_time()
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, before)
        assert released_until_refused(scope) == 3
        with Ledger.open(path) as fresh:
            assert list(fresh.leaves()) == list(book.leaves())
    assert counts(Lying(str(path), path)) == (3, 3)
