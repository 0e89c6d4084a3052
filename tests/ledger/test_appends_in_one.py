"""Many threads of one handle: what waits is appended together, and each call gets what it would have got alone."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import pytest

from dpledger.accounting.guarantees import PureDP
from dpledger.errors import BudgetRefused, ChargeInProgress, DpledgerError, ScopeError, StoreFailure
from dpledger.ledger.entries.bodies import Body, Heartbeat
from dpledger.ledger.entries.entry import Entry
from dpledger.ledger.handle.writing import Writing
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.rules.scope_state import State
from dpledger.ledger.scope import Scope
from dpledger.ledger.signed.keys import SigningKey, new_ledger_id
from dpledger.ledger.stores.memory import MemoryStore
from dpledger.ledger.stores.protocol import Addition, AppendOutcome
from ledger_mechanisms import laplace
from losing import Losing

NAME = new_ledger_id("clinic")
PATIENCE = 10.0  # seconds: for a thread that does its part at once


class Holding(Losing):
    """A store that loses replies, and holds the appends of a thread that comes while `hold` is set."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.sizes: list[int] = []  # leaves of each append
        self.hold, self.is_held, self.goes_on = False, threading.Event(), threading.Event()
        self.after: Callable[[], None] = lambda: None

    def append(self, addition: Addition) -> AppendOutcome:
        self.sizes.append(len(addition.leaves))
        if self.hold:
            self.hold = False
            self.is_held.set()
            assert self.goes_on.wait(PATIENCE)
        outcome = super().append(addition)
        after, self.after = self.after, lambda: None
        after()
        return outcome


@pytest.fixture
def store() -> Holding:
    return Holding()


@pytest.fixture
def book(store: Holding) -> Ledger:
    return Ledger.begin(store, SigningKey.generate(NAME), SigningKey.generate(NAME).public)


def scope_of(book: Ledger, epsilon: str) -> Scope:
    return book.scope("s", unit="patient", relation="add_remove", budget=PureDP(epsilon))


def beat(book: Ledger) -> Entry:
    return book.record(Heartbeat())


@contextmanager
def behind_one(book: Ledger, store: Holding, calls: Sequence[Callable[[], Any]]) -> Iterator[list[Any]]:
    """All `calls` wait, in threads of their own and in this order, while the append of another thread is held; it goes
    on once the block ends. What each of them returned or raised, after the block."""
    found: list[Any] = [None] * len(calls)

    def run(place: int) -> None:
        try:
            found[place] = calls[place]()
        except BaseException as error:
            found[place] = error

    store.hold, store.sizes = True, []
    store.is_held.clear()
    store.goes_on.clear()
    threads = [threading.Thread(target=beat, args=(book,))]
    threads[0].start()
    assert store.is_held.wait(PATIENCE)
    try:
        for place in range(len(calls)):
            before = len(book._waiting)
            threads.append(threading.Thread(target=run, args=(place,)))
            threads[-1].start()
            deadline = time.monotonic() + PATIENCE
            while len(book._waiting) == before and time.monotonic() < deadline:
                time.sleep(0.001)
        yield found
    finally:
        store.goes_on.set()
        for thread in threads:
            thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads)
    assert not book._waiting


def test_what_waits_is_one_append(book: Ledger, store: Holding) -> None:
    with behind_one(book, store, [lambda: beat(book)] * 20) as found:
        pass
    assert store.sizes == [1, 20]
    assert sorted(entry.index for entry in found) == list(range(2, 22))
    assert [book.entry(entry.index) for entry in found] == found
    assert book.verify().head.size == len(book) == 22


def test_each_is_admitted_on_the_state_after_those_before_it(book: Ledger, store: Holding) -> None:
    """Four of ten fit; each of the six others is refused, in its own thread, and says so on the record."""
    scope = scope_of(book, "4")
    with behind_one(
        book, store, [lambda: scope.reserve(laplace("1"))] * 4 + [lambda: scope.reserve(laplace("2"))] * 6
    ) as found:
        pass
    assert sum(isinstance(one, BudgetRefused) for one in found) == 6
    assert scope.spent().upper == 4
    kinds = [entry.body.kind for entry in book.verify().entries]
    assert kinds.count("reserved") == 4
    assert kinds.count("refused") == 1, "one note for a request that is refused"


def test_one_key_is_one_charge(book: Ledger, store: Holding) -> None:
    scope = scope_of(book, "4")
    with behind_one(book, store, [lambda: scope.release(laplace("1"), 0, key="k")] * 5) as found:
        pass
    assert sum(isinstance(one, ChargeInProgress) for one in found) == 4
    assert scope.spent().upper == 1
    assert scope.release(laplace("1"), 0, key="k").replayed
    book.verify()


def broken(_: State, __: Writing) -> NoReturn:
    raise ZeroDivisionError


def against_a_rule(state: State, writing: Writing) -> Sequence[Body]:
    writing.append(Heartbeat())
    raise ScopeError("no such scope")


@pytest.mark.parametrize(
    ("make", "error", "appends"), [(against_a_rule, ScopeError, [1, 4]), (broken, ZeroDivisionError, [1, 1, 1, 1, 1])]
)
def test_a_call_that_fails_is_its_own_affair(
    book: Ledger, store: Holding, make: Any, error: type[Exception], appends: list[int]
) -> None:
    good: list[Callable[[], Any]] = [lambda: beat(book)] * 2
    with behind_one(book, store, [*good, lambda: book.transact(make), *good]) as found:
        pass
    assert [type(one) for one in found] == [Entry, Entry, error, Entry, Entry]
    assert store.sizes == appends
    assert book.verify().head.size == 6


def test_where_the_store_fails_each_is_tried_alone(book: Ledger, store: Holding) -> None:
    with behind_one(book, store, [lambda: beat(book)] * 3) as found:
        store.skips, store.fails = 1, ["full"]
    assert store.sizes == [1, 3, 1, 1, 1]
    assert sorted(entry.index for entry in found) == [2, 3, 4]
    with behind_one(book, store, [lambda: beat(book)] * 3) as found:
        store.skips, store.fails = 1, ["full"] * 4
    assert all(isinstance(one, StoreFailure) for one in found)
    assert len({id(one) for one in found}) == 3, "an error for each"
    assert book.verify().head.size == 6


@pytest.mark.parametrize("lost", [["after"] * 4, ["before", "after"], ["before"] * 3, ["after and raises"]])
def test_a_lost_reply_appends_once(book: Ledger, store: Holding, lost: list[str]) -> None:
    with behind_one(book, store, [lambda: beat(book)] * 3) as found:
        store.skips, store.fails = 1, lost
    assert sorted(entry.index for entry in found) == [2, 3, 4]
    assert book.verify().head.size == 5


def test_others_that_were_first_are_followed(book: Ledger, store: Holding) -> None:
    other = Ledger.resume(store, book._signer)
    with behind_one(book, store, [lambda: beat(book)] * 3) as found:
        other.declare("limits", "none is known", by="another handle")
    assert sorted(entry.index for entry in found) in ([2, 3, 4], [3, 4, 5])
    assert book.verify().head.size == 6


def test_a_key_that_is_rotated_in_between_is_followed(book: Ledger, store: Holding) -> None:
    successor = SigningKey.generate(NAME)
    calls: list[Callable[[], Any]] = [lambda: beat(book), lambda: book.rotate_key(successor), lambda: beat(book)]
    with behind_one(book, store, calls):
        pass
    assert store.sizes == [1, 3]
    assert book.public_key == successor.public
    beat(book)
    assert book.verify().head.size == 6


# ---- interrupts -----------------------------------------------------------------------------------------------------


def stop() -> NoReturn:
    raise KeyboardInterrupt


@pytest.mark.parametrize("is_there", [True, False])
def test_who_has_the_turn_is_interrupted_and_the_others_get_theirs_once(
    book: Ledger, store: Holding, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    """Right after the append, or right before it."""
    if is_there:
        with behind_one(book, store, [lambda: beat(book)] * 4) as found:
            store.skips, store.after = 0, lambda: setattr(store, "after", stop)
        first = sum(isinstance(one, KeyboardInterrupt) for one in found)
    else:
        sign = Writing.sign_head
        stops = iter([stop])

        def signs(self: Writing, parts: Sequence[Writing], *, is_saved: bool) -> Addition:
            if len(parts) == 4:
                next(stops, lambda: None)()
            return sign(self, parts, is_saved=is_saved)

        with behind_one(book, store, [lambda: beat(book)] * 4) as found:
            monkeypatch.setattr(Writing, "sign_head", signs)
        first = sum(isinstance(one, KeyboardInterrupt) for one in found)
    assert first == 1
    indices = sorted(one.index for one in found if isinstance(one, Entry))
    size = book.verify().head.size
    assert len(set(indices)) == 3
    assert size == len(book) == (6 if is_there else 5), "appended once, the interrupted one too where it was there"


def test_who_waits_is_interrupted_and_waits_no_more(book: Ledger, store: Holding) -> None:
    """A time limit in the main thread, while another thread has the turn."""
    scope = scope_of(book, "4")

    def too_late(*_: object) -> NoReturn:
        raise TimeoutError

    def reserved_in_time() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        scope.reserve(laplace("1"))

    before = signal.signal(signal.SIGALRM, too_late)
    try:
        with behind_one(book, store, [lambda: beat(book)]):
            opener = threading.Timer(2.0, store.goes_on.set)
            opener.start()
            with pytest.raises(TimeoutError):
                reserved_in_time()
            opener.join()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not book.verify().state.open
    assert scope.spent().upper == 0


def test_a_handler_that_appends_in_a_turn_goes_before_it(book: Ledger, store: Holding) -> None:
    """As another process would: the calls of the turn that it fell into are appended once."""
    begun: list[bool] = []
    seen: list[Entry] = []

    def make(state: State, _: Writing) -> Sequence[Body]:
        if not begun:
            begun.append(True)
            seen.append(beat(book))
        return [Heartbeat()]

    with behind_one(book, store, [lambda: beat(book), lambda: book.transact(make), lambda: beat(book)]) as found:
        pass
    assert not any(isinstance(one, BaseException) for one in found)
    assert book.verify().head.size == 6
    assert isinstance(seen[0], Entry)


def test_no_error_of_the_package_is_shared(book: Ledger, store: Holding) -> None:
    """What is noted on one of them is not noted on another."""
    with behind_one(book, store, [lambda: book.transact(against_a_rule)] * 3) as found:
        pass
    assert all(isinstance(one, DpledgerError) for one in found)
    assert len({id(one) for one in found}) == 3
