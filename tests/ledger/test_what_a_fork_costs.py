"""What a fork costs the process that forked: what was open settles at its cap, for its copy may have gone on.

Workers that are no forks cost nothing: they get nothing of the memory.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import threading
from collections.abc import Iterator
from decimal import Decimal
from multiprocessing.context import ForkServerContext, SpawnContext
from pathlib import Path
from typing import Any

import joblib
import pytest

import ledger_workers
from dpledger import process
from dpledger.accounting.composition import SparseVectorLaw, SparseVectorOutcome
from dpledger.accounting.guarantees import ApproxDP, PureDP
from dpledger.ledger.entries.bodies import Committed
from dpledger.ledger.ledger import Ledger
from dpledger.mechanisms.protocol import Release
from dpledger.process import Home
from forking import DONE, ignores_fork_warnings, in_child
from ledger_mechanisms import Once, stream, training
from ledger_workers import answer_of_what_was_inherited, ledger_file, releases_from_the_file

pytestmark = [ignores_fork_warnings, pytest.mark.sliced]


@pytest.fixture
def book() -> Iterator[Ledger]:
    with Ledger.in_memory() as made:
        made.scope("s", unit="patient", relation="add_remove", budget=PureDP(10))
        yield made


def last_commit(book: Ledger) -> Committed:
    *_, committed = (entry.body for entry in book.entries() if isinstance(entry.body, Committed))
    return committed


# ---- what a fork costs the parent -----------------------------------------------------------------------------------


def test_an_interaction_that_was_forked_while_open_settles_at_its_cap(book: Ledger) -> None:
    scope = book.scope("s")
    with scope.open(stream("0.5", cutoff=2), None) as session:
        session.ask(True)
        assert in_child(lambda: None) == DONE
        session.ask(False)
    committed = last_commit(book)
    assert (committed.rule, committed.levels[0].amounts) == ("cap", {"pure": Decimal("0.5")})
    assert any("forked" in warning for warning in committed.warnings)
    assert not committed.outside_guarantee
    book.verify()


def test_without_a_fork_the_same_interaction_gets_its_refund(book: Ledger) -> None:
    assert in_child(lambda: None) == DONE  # before it was open: nothing of it was copied
    with book.scope("s").open(stream("0.5", cutoff=2), None) as session:
        session.ask(True)
        session.ask(False)
    committed = last_commit(book)
    assert (committed.rule, committed.warnings) == ("ex_post", ())
    assert committed.levels[0].amounts["pure"] < Decimal("0.5")


def test_a_training_run_that_was_forked_gets_no_steps_back(book: Ledger) -> None:
    scope = book.scope("steps", unit="patient", relation="add_remove", budget=ApproxDP(3, "1e-6"))
    with scope.open(training(40), None) as run:
        run.ask(0)
        assert in_child(lambda: None) == DONE
    committed = last_commit(book)
    assert committed.rule == "cap"
    assert any("forked" in warning for warning in committed.warnings)
    book.verify()


def test_a_release_in_flight_while_another_thread_forks_gets_nothing_back(book: Ledger) -> None:
    """A mechanism that answers once, with an outcome that would lower its price."""
    law = stream("0.5", cutoff=2).made_of
    assert isinstance(law, SparseVectorLaw)
    values = {name: getattr(law, name) for name in law.__dataclass_fields__ if name != "outcome"}
    outcome = SparseVectorLaw(**values, outcome=SparseVectorOutcome((1,), 0, False))

    def run(data: Any, parts: Any) -> Release[Any]:
        if data == "forks":
            thread = threading.Thread(target=lambda: said.append(in_child(lambda: None)))
            thread.start()
            thread.join()
        return Release(value=data, parts=outcome)

    said: list[str] = []
    mechanism = Once(claimed=PureDP("0.5"), made_of=law, run=run)
    rules = []
    for data in ("alone", "forks"):
        assert book.scope("s").release(mechanism, data).value == data
        rules.append((last_commit(book).rule, len(last_commit(book).warnings)))
    assert said == [DONE]
    assert rules == [("ex_post", 0), ("cap", 1)]
    book.verify()


def test_a_release_without_an_outcome_needs_no_warning(book: Ledger) -> None:
    def run(data: Any, parts: Any) -> Release[Any]:
        assert in_child(lambda: None) == DONE
        return Release(value=data, parts=parts)

    book.scope("s").release(Once(run=run), 1)
    assert last_commit(book).warnings == ()


# ---- workers that are no forks, and workers that are ----------------------------------------------------------------


def test_workers_in_fresh_processes_use_the_ledger_and_cost_the_parent_nothing(tmp_path: Path) -> None:
    file = ledger_file(tmp_path / "clinic.ledger")
    with Ledger.open(file) as book:
        with book.scope("s").open(stream("0.5", cutoff=2), None) as session:
            session.ask(False)
            released = joblib.Parallel(n_jobs=2)(joblib.delayed(releases_from_the_file)(file, "2") for _ in range(2))
        assert sum(released) == 4
        assert last_commit(book).rule == "ex_post"
        book.verify()


CONTEXTS: dict[str, SpawnContext | ForkServerContext] = {
    "spawn": multiprocessing.get_context("spawn"),
    "forkserver": multiprocessing.get_context("forkserver"),
}


@pytest.mark.parametrize("way", CONTEXTS)
def test_other_ways_to_start_a_program_are_no_forks(way: str) -> None:
    home = Home("this")
    worker = CONTEXTS[way].Process(target=os.getpid)
    worker.start()
    worker.join()
    subprocess.run(["true"], check=True)
    assert worker.exitcode == 0
    assert not home.has_forked


def test_a_program_that_is_prepared_by_python_code_is_a_fork() -> None:
    """`preexec_fn` runs in a copy of this process, before the program begins."""
    home = Home("this")
    subprocess.run(["true"], check=True, preexec_fn=lambda: None)
    assert home.has_forked


def test_forked_workers_get_nothing_from_what_they_inherited(book: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_workers, "INHERITED", [book.scope("s")])
    before = book.head
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(answer_of_what_was_inherited, range(4)) == ["ForkedProcess"] * 4
    forked = joblib.Parallel(n_jobs=2, backend="multiprocessing")(
        joblib.delayed(answer_of_what_was_inherited)(number) for number in range(4)
    )
    assert forked == ["ForkedProcess"] * 4
    assert book.head == before
    assert answer_of_what_was_inherited(0) == "answered"


def test_a_fork_is_seen_by_what_was_made_before_it() -> None:
    before = Home("made before")
    assert not before.has_forked
    assert in_child(before.require).startswith("ForkedProcess")
    after = Home("made after")
    assert (before.has_forked, after.has_forked) == (True, False)
    assert before.is_here


def test_a_fork_is_seen_while_it_is_under_way() -> None:
    """Another thread is between the first line of a fork and its last; when it copies the memory nobody can tell."""
    before = Home("made before")
    process._before_fork()
    during = Home("made during")
    assert (before.has_forked, during.has_forked) == (True, True)
    process._after_fork_here()
    after = Home("made after")
    assert (before.has_forked, during.has_forked, after.has_forked) == (True, True, False)
