"""A fork of a process answers for nothing of it: one budget, one record, whatever is copied with the memory.

Each child here is a real fork. What its parent made refuses in it, at once and whoever held a lock; and what it leaves
behind, it leaves as it was.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpledger.accounting.guarantees import ApproxDP, PureDP
from dpledger.attach.training import private_sgd
from dpledger.errors import Halted
from dpledger.ledger.charging.sessions import Session
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.signed.checkpoint import parse_unverified
from dpledger.ledger.stores.protocol import Addition
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.threshold import SparseVector
from forking import DONE, HUNG, heard, held_by_another_thread, ignores_fork_warnings, in_child, open_files, started
from ledger_mechanisms import Once, laplace, stream, training
from ledger_workers import fresh_process, ledger_file, releases_elsewhere, releases_from_the_file

pytestmark = [ignores_fork_warnings, pytest.mark.sliced]

REFUSED = "ForkedProcess: "


@pytest.fixture(params=["memory", "sqlite"])
def book(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    """A ledger with the scope `s`, in either store."""
    with Ledger.in_memory() if request.param == "memory" else Ledger.create(tmp_path / "clinic.ledger") as made:
        made.scope("s", unit="patient", relation="add_remove", budget=PureDP(10))
        yield made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A closed ledger file with the scope `s`."""
    return ledger_file(tmp_path / "clinic.ledger")


def steps(book: Ledger, count: int = 40) -> Session[Any, Any, Any]:
    """An open training run of `count` steps, granted two at a time."""
    scope = book.scope("steps", unit="patient", relation="add_remove", budget=ApproxDP(3, "1e-6"))
    return scope.open(training(count), None)


# ---- nothing answers ------------------------------------------------------------------------------------------------


def test_each_use_of_a_handle_is_refused(book: Ledger) -> None:
    scope = book.scope("s")
    entries = book.entries()
    uses: dict[str, Callable[[], object]] = {
        "release": lambda: scope.release(laplace(), 1),
        "open": lambda: scope.open(stream(), None),
        "reserve": lambda: scope.reserve(laplace()),
        "quote": lambda: scope.quote(laplace()),
        "spent": lambda: scope.spent(0),
        "account": scope.account,
        "releases": lambda: list(scope.releases()),
        "declare": lambda: book.declare("limits", "none", by="me"),
        "scope": lambda: book.scope("s"),
        "entries": lambda: list(book.entries()),
        "a table from before": lambda: list(entries),
        "entry": lambda: book.entry(0),
        "head": lambda: book.head,
        "verify": book.verify,
        "refresh": book.refresh,
        "length": lambda: len(book),
        "noise": lambda: book.entropy.words(1),
        "reading": lambda: book._store.tail(0),
        "writing": lambda: book._store.append(Addition(size=len(book), leaves=(b"leaf",), head=b"head")),
    }
    before = book.head
    said = {name: in_child(use) for name, use in uses.items()}
    assert {name: text for name, text in said.items() if not text.startswith(REFUSED)} == {}
    assert all("spawn" in text and "fresh process" in text for text in said.values())
    assert in_child(book.close) == DONE  # which closes nothing of the parent's
    assert book.head == before
    scope.release(laplace(), 1)
    book.verify()


def test_a_sparse_vector_of_one_answer_forked_four_times_gives_one(book: Ledger) -> None:
    mechanism = SparseVector(epsilon="1", cutoff=1, threshold=1_000_000, charged="above", sensitivity=1)
    session = book.scope("s").open(mechanism, [0] * 9)

    def ask_until_charged() -> None:
        for _ in range(50):
            session.ask(2_000_000)

    children = [started(ask_until_charged) for _ in range(4)]
    assert all(heard(*child).startswith(REFUSED) for child in children)
    with pytest.raises(Halted):
        ask_until_charged()
    assert session.close().value.above == 1


def test_forked_trainers_run_nothing_of_the_block_that_was_granted(book: Ledger) -> None:
    run = steps(book)
    assert run.ask(0) == 1  # two were granted
    children = [started(lambda: run.ask(0)) for _ in range(4)]
    assert all(heard(*child).startswith(REFUSED) for child in children)
    assert run.ask(0) == 2


def test_a_loop_over_steps_that_was_under_way_ends_in_the_child(book: Ledger) -> None:
    scope = book.scope("rows", unit="record", relation="add_remove", budget=ApproxDP(3, "1e-6"))
    plan: dict[str, Any] = {"rate": "0.1", "noise_multiplier": 4, "clip_norm": 1, "dimension": 2}
    with (
        private_sgd(scope, np.ones((8, 2)), lambda batch: batch, steps=20, expected_batch_size=4, **plan) as run,
        steps(book) as session,
    ):
        loops: list[Iterator[Any]] = [iter(run), session.steps()]
        for loop in loops:
            next(loop)
            assert in_child(loop.__next__).startswith(REFUSED)
            next(loop)


def test_a_query_that_forks_is_answered_in_the_parent_alone(book: Ledger) -> None:
    """The fork happens inside of `ask`, where the child holds the lock and the charge is started."""
    reading, writing = os.pipe()

    def forks() -> bool:
        if os.fork():
            os.wait()
        else:
            os.close(reading)
        return True

    with book.scope("s").open(stream(), None) as session:
        parent = os.getpid()
        try:
            assert session.ask(forks)
            assert os.getpid() == parent
        except BaseException as error:
            if os.getpid() != parent:
                os.write(writing, type(error).__name__.encode())
                os._exit(0)
            raise
        os.close(writing)
        with os.fdopen(reading) as pipe:
            assert pipe.read() == "ForkedProcess"


def test_a_mechanism_that_forks_releases_in_the_parent_alone(book: Ledger) -> None:
    reading, writing = os.pipe()
    parent = os.getpid()

    def forks(data: Any, parts: Any) -> Release[Any]:
        if os.fork():
            os.wait()
        return Release(value=data, parts=parts)

    try:
        receipt = book.scope("s").release(Once(run=forks), 1)
        assert os.getpid() == parent
    except BaseException as error:
        if os.getpid() != parent:
            os.write(writing, type(error).__name__.encode())
            os._exit(0)
        raise
    os.close(writing)
    with os.fdopen(reading) as pipe:
        assert pipe.read() == "ForkedProcess"
    assert receipt.value == 1
    assert len(book.scope("s").account().admissions) == 1


def test_a_child_that_ends_inside_a_mechanism_ends(book: Ledger) -> None:
    """`sys.exit` in the child of a release goes on to the top, and settles nothing on its way."""
    parent, status = os.getpid(), []

    def forks(data: Any, parts: Any) -> Release[Any]:
        pid = os.fork()
        if pid == 0:
            raise SystemExit(3)
        status.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        return Release(value=data, parts=parts)

    try:
        book.scope("s").release(Once(run=forks), 1)
    except BaseException as error:
        if os.getpid() == parent:
            raise
        os._exit(error.code if isinstance(error, SystemExit) else 1)  # type: ignore[arg-type]
    assert status == [3]


def test_a_reservation_is_released_and_aborted_in_the_parent_alone(book: Ledger) -> None:
    with book.scope("s").reserve(laplace()) as reservation:
        for use in (lambda: reservation.release(1), reservation.abort):
            assert in_child(use).startswith(REFUSED)
        assert in_child(lambda: reservation.__exit__(None, None, None)) == DONE
        assert reservation.release(1).value == 1


# ---- nothing is left behind -----------------------------------------------------------------------------------------


def test_leaving_the_blocks_in_a_child_settles_and_closes_nothing(book: Ledger) -> None:
    with (
        book.scope("s").open(stream(), None) as session,
        steps(book) as run,
        book.scope("s").reserve(laplace()) as held,
    ):
        session.ask(True)
        run.ask(0)
        before = book.head

        def leave() -> None:
            for context in (held, run, session, book):
                context.__exit__(None, None, None)

        assert in_child(leave) == DONE
        assert book.head == before
        assert session.ask(True)
        assert run.ask(0) == 2
    book.verify()


def test_garbage_of_a_child_takes_nothing_from_the_parent(file: Path) -> None:
    book = Ledger.open(file)
    scope = book.scope("s")
    store: Any = book._store
    suspended = store._begun("BEGIN IMMEDIATE")
    suspended.__enter__()

    def drop_everything() -> None:
        nonlocal book, scope, store, suspended
        del book, scope, store, suspended
        gc.collect()

    assert in_child(drop_everything) == DONE
    suspended.__exit__(None, None, None)
    assert scope.release(laplace(), 1).value == 1
    assert file.with_name(file.name + "-wal").exists()
    assert releases_elsewhere(file, "9.9") == 1
    assert len(scope.account().admissions) == 2
    book.close()


def test_no_file_of_the_parent_is_closed_when_a_child_drops_its_handle(file: Path) -> None:
    book = Ledger.open(file)

    def drop_it() -> None:
        nonlocal book
        before = open_files(file)
        del book
        gc.collect()
        assert before == open_files(file) != []

    assert in_child(drop_it) == DONE
    book.close()


def test_a_child_that_ends_as_a_program_ends_takes_nothing_from_the_parent(file: Path) -> None:
    """Interpreter exit, while another thread of the parent is inside a transaction: exit handlers, finalizers and the
    modules' last garbage run in the child, then in the parent."""
    code = f"""
import os, sys, threading
from dpledger.accounting.guarantees import PureDP
from dpledger.ledger.ledger import Ledger
from ledger_mechanisms import laplace, stream
book = Ledger.open({str(file)!r})
scope = book.scope("s")
session = scope.open(stream(), None)
inside, leave = threading.Event(), threading.Event()
def write(*_):
    inside.set()
    leave.wait()
    return []
thread = threading.Thread(target=book.transact, args=(write,))
thread.start()
inside.wait()
pid = os.fork()
if pid == 0:
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
leave.set()
thread.join()
assert os.path.exists({str(file) + "-wal"!r})
session.close()
for _ in range(3):
    scope.release(laplace(), 1)
print(len(scope.account().admissions), len(book.verify().entries))
"""
    run = fresh_process(code)
    assert (run.stdout.split(), run.stderr) == (["4", "10"], "")


def test_children_write_nothing_and_no_two_heads_have_one_size(file: Path) -> None:
    heads: list[bytes] = []
    with Ledger.open(file) as book:
        scope = book.scope("s")
        for _ in range(3):
            heads.append(book.head)
            children = [
                started(lambda: scope.release(laplace(), 1)),
                started(lambda: releases_from_the_file(file, "1")),
            ]
            assert all(heard(*child).startswith(REFUSED) for child in children)
            assert book.head == heads[-1]
            scope.release(laplace(), 1)
        heads.append(book.head)
        book.verify(since=[parse_unverified(head)[0] for head in heads])
    sizes = [parse_unverified(head)[0].size for head in heads]
    assert sorted(set(sizes)) == sizes


# ---- nothing hangs --------------------------------------------------------------------------------------------------


def test_locks_that_another_thread_held_do_not_stop_a_child(book: Ledger) -> None:
    scope = book.scope("s")
    session = scope.open(stream(), None)

    def hold(inside: threading.Event, leave: threading.Event) -> None:
        def query() -> bool:
            inside.set()
            leave.wait()
            return True

        session.ask(query)

    def write(inside: threading.Event, leave: threading.Event) -> None:
        def make(*_: object) -> list[Any]:
            inside.set()
            leave.wait()
            return []

        book.transact(make)

    uses: list[Callable[[], object]] = [
        lambda: session.ask(True),
        session.close,
        lambda: scope.release(laplace(), 1),
        book.refresh,
        lambda: book.head,
    ]
    for holder in (hold, write):
        with held_by_another_thread(holder):
            said = [in_child(use) for use in uses]
            assert HUNG not in said
            assert all(text.startswith(REFUSED) for text in said)
            assert in_child(lambda: session.__exit__(None, None, None)) == DONE
            assert in_child(book.close) == DONE


def test_a_noise_source_or_a_reservation_that_another_thread_held_does_not_stop_a_child(book: Ledger) -> None:
    source: Any = seeded(1)  # the system's has no lock
    reservation: Any = book.scope("s").reserve(laplace())

    def hold(inside: threading.Event, leave: threading.Event) -> None:
        with source._lock, reservation._lock:
            inside.set()
            leave.wait()

    with held_by_another_thread(hold):
        for use in (lambda: source.words(1), lambda: reservation.release(1), reservation.abort):
            assert in_child(use).startswith(REFUSED)
        assert in_child(source._lock.acquire, patience=0.2) == HUNG  # the lock is held for ever in a child
    assert len(source.words(3)) == 3
    assert reservation.release(1).value == 1
