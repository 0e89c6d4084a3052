"""A ledger that has grown is as easy to work with as a young one: what each entry costs does not depend on the others.

Work is counted, not timed: lines of Python that run, and bytes held at the peak (copies are made in C, where no line
runs). The slow tests at the end time a ledger of a hundred thousand entries.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

import ledger_golden
from dpledger.accounting.guarantees import PureDP
from dpledger.ledger.accounts import recomposition
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.scope import Scope
from dpledger.ledger.stores.memory import MemoryStore
from dpledger.ledger.stores.protocol import Store
from dpledger.ledger.tip import Head, resumed
from dpledger.ledger.verifying import verification
from ledger_mechanisms import laplace
from work_counter import lines_run, peak_bytes

pytestmark = pytest.mark.sliced

RULES: dict[str, Any] = {"unit": "patient", "relation": "add_remove"}
AMPLE = PureDP(1_000_000)
DELTA = "0.000001"
BESIDE = 8_000  # bytes: a few nodes of a tree; one copy of 400 items is 18,000


def begun(*, snapshot_every: int = 1_000_000) -> tuple[Ledger, MemoryStore]:
    """A ledger and its store, in memory."""
    store = MemoryStore()
    key, recovery = ledger_golden.KEY, ledger_golden.RECOVERY.public
    return Ledger.begin(store, key, recovery, snapshot_every=snapshot_every), store


def with_releases(count: int, **begin: int) -> tuple[Ledger, MemoryStore]:
    """A ledger of one scope in which `count` charges were settled."""
    book, store = begun(**begin)
    scope = book.scope("s", budget=AMPLE, **RULES)
    for _ in range(count):
        scope.release(laplace(), 1)
    return book, store


def with_open_charges(count: int) -> Scope:
    """A scope in which `count` charges wait, and so count at their caps."""
    scope = begun()[0].scope("s", budget=AMPLE, **RULES)
    for _ in range(count):
        scope.reserve(laplace())
    return scope


def with_other_scopes(count: int) -> Scope:
    """A scope beside `count` others."""
    book, _ = begun()
    for number in range(count):
        book.scope(f"other-{number}", budget=AMPLE, **RULES)
    return book.scope("s", budget=AMPLE, **RULES)


def opened(store: Store) -> Head:
    """What opening a ledger does once the file is open."""
    return resumed(store, ledger_golden.KEY).head


# ---- the counters see what they are for -----------------------------------------------------------------------------


def test_a_loop_and_a_copy_are_seen() -> None:
    many = dict.fromkeys(range(10_000))
    assert lines_run(lambda: [name for name in many if name < 0]) > 10_000
    assert peak_bytes(lambda: {**many}) > 100_000
    assert lines_run(lambda: {**many}) < 10


# ---- each charge ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("grown", [with_open_charges, with_other_scopes], ids=["open charges", "scopes"])
def test_a_release_is_the_same_work_in_a_ledger_that_has_grown(grown: Callable[[int], Scope]) -> None:
    young, old = grown(4), grown(400)
    for scope in (young, old):
        scope.release(laplace(), 1)  # what is kept from the first one, is kept
    lines = [lines_run(lambda scope=scope: scope.release(laplace(), 1)) for scope in (young, old)]  # type: ignore[misc]
    assert lines[1] <= 1.15 * lines[0]  # a few levels of a tree more
    memory = [peak_bytes(lambda scope=scope: scope.release(laplace(), 1)) for scope in (young, old)]  # type: ignore[misc]
    assert memory[1] <= memory[0] + BESIDE


def test_a_refusal_is_the_same_work_with_many_open_charges() -> None:
    """It shows how much of what is spent is held by charges that are open."""
    lines = []
    for count in (4, 400):
        scope = with_open_charges(count)
        lines.append(lines_run(lambda scope=scope: scope.quote(laplace("2000000"))))  # type: ignore[misc]
    assert lines[1] <= 1.15 * lines[0]


@pytest.mark.slow
def test_a_scope_is_opened_with_the_same_work_beside_many() -> None:
    lines, memory = [], []
    for count in (4, 400):
        book = with_other_scopes(count)._ledger
        lines.append(lines_run(lambda book=book: book.scope("new", budget=AMPLE, **RULES)))  # type: ignore[misc]
        memory.append(peak_bytes(lambda book=book: book.scope("newer", budget=AMPLE, **RULES)))  # type: ignore[misc]
    assert lines[1] <= 1.15 * lines[0]
    assert memory[1] <= memory[0] + BESIDE


# ---- the whole of it ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("what", ["open", "verify", "account"])
def test_reading_a_ledger_is_the_same_work_for_each_entry(what: str) -> None:
    per_charge = []
    for count in (50, 400):
        book, store = with_releases(count)

        def read(book: Ledger = book, store: MemoryStore = store) -> object:
            match what:
                case "open":
                    return opened(store).state
                case "verify":
                    return verification.verify(book.leaves(), book.head, book.public_key)
                case _:
                    return recomposition.accounts(book.entries(), book.state)

        read()  # what is kept from the first time, is kept
        per_charge.append(lines_run(read) / count)
    assert per_charge[1] <= 1.05 * per_charge[0]


def test_what_was_spent_is_read_from_what_the_state_keeps() -> None:
    """As much work after 20 entries as after 800: no entry is looked at."""
    lines = []
    for count in (10, 400):
        scope = with_releases(count)[0].scope("s")
        scope.spent(DELTA)  # the engine's answer on what ran is kept
        lines.append(lines_run(lambda scope=scope: scope.spent(DELTA)))  # type: ignore[misc]
    assert lines[1] <= 1.05 * lines[0]


# ---- by the clock ---------------------------------------------------------------------------------------------------


def cpu_seconds(call: Callable[[], object]) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


@pytest.mark.slow
def test_a_hundred_thousand_entries_fold_in_seconds_and_open_in_a_moment() -> None:
    small, large = (with_releases(count, snapshot_every=1_000)[1] for count in (12_500, 50_000))
    moment = min(cpu_seconds(lambda: opened(large)) for _ in range(3))
    small.saved = large.saved = None
    few, many = (cpu_seconds(lambda store=store: opened(store)) for store in (small, large))  # type: ignore[misc]
    assert many < 60
    assert many < 8 * few  # four times as much is four times the work; the rest is the machine's
    assert moment < many / 25  # a thousand entries of a hundred thousand, and what was saved


@pytest.mark.slow
def test_twenty_thousand_open_charges_do_not_slow_the_fold() -> None:
    few, many = (with_open_charges(count)._ledger for count in (5_000, 20_000))
    seconds = [cpu_seconds(lambda book=book: opened(book._store)) for book in (few, many)]  # type: ignore[misc]
    assert seconds[1] < 8 * seconds[0]
