"""What is saved of the fold opens a ledger with few entries read, to the state that all entries fold to; and nothing
that somebody puts in its place changes what the ledger says, or keeps it from opening."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings, strategies as st

import ledger_golden
from dpledger.accounting.guarantees import PureDP
from dpledger.errors import BudgetRefused, EvidenceError, StoreBehind, VerificationError
from dpledger.ledger import saved
from dpledger.ledger.entries.entry import entry_of
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.rules.scope_state import State
from dpledger.ledger.saved import SavedFold, restored
from dpledger.ledger.scope import Scope
from dpledger.ledger.signed import envelope
from dpledger.ledger.signed.keys import Signer, SigningKey, new_ledger_id
from dpledger.ledger.stores.memory import MemoryStore
from dpledger.ledger.stores.protocol import NOTHING, Addition, Question, Tail
from dpledger.ledger.tip import START, Head, Resumed, resumed
from ledger_mechanisms import laplace, stream

pytestmark = pytest.mark.sliced

RULES: dict[str, Any] = {"unit": "patient", "relation": "add_remove"}
KEY, RECOVERY = ledger_golden.KEY, ledger_golden.RECOVERY
EVERY = 5
CALLS: dict[str, Callable[[Scope], object]] = {
    "released": lambda scope: scope.release(laplace("0.1"), 1),
    "released under a key": lambda scope: scope.release(laplace("0.2"), 1, key="again"),
    "held": lambda scope: scope.reserve(laplace("0.05")),
    "given back": lambda scope: scope.reserve(laplace("0.05")).abort(),
    "asked": lambda scope: asked(scope),
    "refused": lambda scope: refused(scope),
    "declared": lambda scope: scope.declare("limits", "none", by="me"),
}


def asked(scope: Scope) -> None:
    with scope.open(stream("0.1"), None) as session:
        session.ask(0)


def refused(scope: Scope) -> None:
    with pytest.raises(BudgetRefused):
        scope.release(laplace("100"), 1)


class Counted(MemoryStore):
    """It counts the leaves that are read from it."""

    def __init__(self, *, keeps: bool = True) -> None:
        super().__init__()
        self.read = 0
        self._keeps = keeps

    def tail(self, start: int | None, asked: Question = NOTHING) -> Tail:
        found = super().tail(start, asked)
        self.read += len(found.leaves)
        return found

    def leaves(self, start: int, stop: int) -> tuple[bytes, ...]:
        found = super().leaves(start, stop)
        self.read += len(found)
        return found

    def append(self, addition: Addition) -> Any:
        return super().append(addition if self._keeps else replace(addition, saved=None))


def begun(store: MemoryStore | None = None, *, every: int = EVERY) -> tuple[Ledger, MemoryStore]:
    made = Counted() if store is None else store
    return Ledger.begin(made, KEY, RECOVERY.public, snapshot_every=every), made


def grown(calls: int = 20) -> MemoryStore:
    """A ledger in which a fold was saved, and entries follow it."""
    book, store = begun()
    scope = book.scope("s", budget=PureDP(50), **RULES)
    for number in range(calls):
        scope.release(laplace("0.1"), 1, key=f"k{number}")
    assert store.saved is not None
    return store


def folded(store: MemoryStore) -> Head:
    """From all entries, whatever was saved."""
    return START.after_all(store.log)


def fold_of(store: MemoryStore) -> SavedFold:
    assert store.saved is not None
    fold = restored(store.saved, KEY)
    assert fold is not None
    return fold


def saved_as(state: State, fold: SavedFold, signer: Signer = KEY) -> bytes:
    data = saved.saved(replace(fold, state=state), signer)
    assert data is not None
    return data


# ---- it is the fold -------------------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(st.lists(st.tuples(st.sampled_from(["s", "below"]), st.sampled_from(sorted(CALLS))), max_size=8))
def test_a_ledger_opens_to_the_state_that_all_entries_fold_to(calls: list[tuple[str, str]]) -> None:
    """After every call, and what happens next is the same in both."""
    book, store = begun()
    book.scope("s", budget=PureDP(50), **RULES)
    book.scope("below", budget=PureDP(2), parents=("s",), **RULES)
    for scope, call in calls:
        CALLS[call](book.scope(scope))
        head = folded(store)
        assert restored(saved_as(head.state, head.fold), KEY) == head.fold
        found = resumed(store, KEY)
        assert (found.head, found.saved) == (head, 0 if store.saved is None else fold_of(store).tree.size)
        assert len(store.log) - found.saved < EVERY + 3  # what one call appends


@pytest.mark.parametrize("build", [ledger_golden.build, ledger_golden.build_kinds, ledger_golden.build_owned])
def test_every_kind_of_entry_is_saved(build: Callable[[], Ledger]) -> None:
    """Every kind of guarantee, law, filter and note that there is, after each entry."""
    book, head = build(), START
    key = book._signer
    assert key is not None
    for leaf in book.leaves():
        head = head.after(leaf, entry_of(leaf).body)
        assert restored(saved_as(head.state, head.fold, key), key) == head.fold


def test_few_entries_are_read_to_open_a_ledger_that_has_many() -> None:
    store = grown(100)
    assert isinstance(store, Counted)
    store.read = 0
    resumed(store, KEY)
    few, store.read = store.read, 0
    store.saved = None
    resumed(store, KEY)
    assert few <= EVERY < 200 < store.read


def test_where_there_is_more_to_save_than_is_folded_it_is_saved_less_often() -> None:
    """What is saved holds every scope: with many of them, saving it at every few entries would be the most of the
    work."""
    book, store = begun()
    written: list[int] = []
    put = store.append

    def append(addition: Addition) -> Any:
        if addition.saved is not None:
            written.append(len(addition.saved))
        return put(addition)

    store.append = append  # type: ignore[method-assign]
    for number in range(200):
        book.scope(f"s{number}", budget=PureDP(1), **RULES)
    assert len(written) < 9  # at 5, 10, 20, 40, ...
    assert resumed(store, KEY).head == folded(store)


def test_who_folded_everything_saves_it_with_the_next_entry() -> None:
    """An upgrade, or a copy that kept none, is slow to open once."""
    store = grown()
    store.saved = None
    with Ledger.resume(store, KEY, snapshot_every=EVERY) as book:
        book.declare("limits", "none", by="me")
    assert fold_of(store).tree.size == len(store.log)


def test_what_is_too_large_is_not_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved, "LARGEST", 100)
    book, store = begun()
    scope = book.scope("s", budget=PureDP(50), **RULES)
    for _ in range(EVERY):
        scope.release(laplace("0.1"), 1)
    assert store.saved is None
    assert resumed(store, KEY).head == folded(store)


# ---- it decides nothing ---------------------------------------------------------------------------------------------


def unspent(state: State) -> State:
    """The state of somebody who spent nothing."""
    scope = state.scopes["s"]
    nothing = {name: (type(total)(0), 0) for name, (total, _) in scope.sums.items()}
    return replace(state, scopes=state.scopes.with_item("s", replace(scope, sums=nothing)))


def others() -> Iterator[tuple[str, bytes]]:
    """What somebody may put in its place who has no key."""
    store = grown()
    fold, mine = fold_of(store), SigningKey.generate(KEY.public.name)
    assert store.saved is not None
    signature, payload = store.saved[:64], store.saved[64:]
    yield "nothing", b""
    yield "a signature alone", signature
    yield "no signature", bytes(64) + payload
    yield "no JSON", signature + b"{"
    yield "too deep", signature + b"[" * 100_000
    yield "another budget", signature + saved_as(unspent(fold.state), fold)[64:]
    yield "another budget under another key", saved_as(unspent(fold.state), fold, mine)
    opened = fold.state.opened
    assert opened is not None
    stranger = replace(unspent(fold.state), opened=replace(opened, public_key=mine.public.text))
    yield "of a ledger that names another key", saved_as(stranger, fold, mine)
    yield "under the recovery key", saved_as(unspent(fold.state), fold, RECOVERY)
    name = new_ledger_id("other")
    another = MemoryStore()
    key = SigningKey.generate(name)
    with Ledger.begin(another, key, SigningKey.generate(name).public, snapshot_every=2) as book:
        book.scope("s", budget=PureDP(50), **RULES)
    assert another.saved is not None
    yield "of another ledger", another.saved
    said = {**orjson.loads(payload), "library": "dpledger 99"}
    later = orjson.dumps(said)
    yield "of another version", KEY.sign(saved._message(later)) + later
    newer = orjson.dumps({**orjson.loads(payload), "more": 1})
    yield "of a form that is not known", KEY.sign(saved._message(newer))[:63] + newer
    yield "another entry's payload", KEY.sign(envelope.pre_authentication(payload)) + payload


def test_what_somebody_puts_in_its_place_is_left_aside() -> None:
    store = grown()
    whole = folded(store)
    for name, data in others():
        store.saved = data
        assert resumed(store, KEY) == Resumed(whole, 0), name
        assert resumed(store, None) == Resumed(whole, 0), name


def test_a_changed_byte_is_left_aside() -> None:
    store = grown()
    data = store.saved
    assert data is not None
    for place in range(0, len(data), 61):
        store.saved = data[:place] + bytes([data[place] ^ 0x20]) + data[place + 1 :]
        assert resumed(store, KEY).saved == 0


def with_an_older_one() -> MemoryStore:
    """A ledger whose store has a fold of its first four entries, and no newer one."""
    book, store = begun()
    scope = book.scope("s", budget=PureDP(50), **RULES)
    scope.release(laplace("0.1"), 1)
    older = saved_as(book.state, book._head.fold)
    for _ in range(20):
        scope.release(laplace("0.1"), 1)
    store.saved = older
    return store


def test_an_older_one_is_good() -> None:
    store = with_an_older_one()
    assert resumed(store, KEY) == Resumed(folded(store), 4)


def test_one_of_more_entries_than_there_are_is_left_aside() -> None:
    """As where the entries are an older copy: that they are is for what is remembered to say."""
    store, older = grown(), grown(10)
    older.saved = store.saved
    found = resumed(older, KEY)
    assert (found.saved, found.head) == (0, folded(older))


def test_one_of_a_copy_that_went_on_by_itself_is_left_aside() -> None:
    """The same key signed both histories: the entries decide which one this is."""
    one, other = grown(), grown()
    assert len(one.log) == len(other.log)
    assert one.log[-1] != other.log[-1]
    one.saved = other.saved
    found = resumed(one, KEY)
    assert (found.saved, found.head) == (0, folded(one))


def test_the_key_alone_could_have_another_budget_believed() -> None:
    """So it is the signature that the tests above rest on; whoever has the key can as well write another ledger. A
    verification believes none of it."""
    store = grown()
    fold = fold_of(store)
    store.saved = saved_as(unspent(fold.state), fold)
    with Ledger.resume(store, KEY) as book:
        spent, _ = book.state.scopes["s"].sums["pure"]
        assert spent < 2
        assert book.verify().state.scopes["s"].sums["pure"] == (Decimal(2), 0)


def test_entries_that_are_not_those_of_the_signed_head_are_refused() -> None:
    """Also after a fold that was saved: the tree up to there is signed."""
    changed, cut = with_an_older_one(), with_an_older_one()
    changed.log[-1] = changed.log[-2]
    with pytest.raises(EvidenceError):
        resumed(changed, KEY)
    size = len(cut.log)
    cut._additions.clear()
    del cut.log[-2:]  # and the newest head stays
    cut.heads[size - 2] = cut.heads[size]
    with pytest.raises(EvidenceError):
        resumed(cut, KEY)


def test_what_lies_before_it_is_looked_at_by_a_verification() -> None:
    store = grown()
    whole = folded(store)
    store.log[3] = store.log[2]
    with Ledger.resume(store, KEY) as book:
        assert book.state == whole.state
        with pytest.raises(VerificationError):
            book.verify()


def test_the_tables_of_a_store_are_looked_at_by_a_verification() -> None:
    store = grown()
    charge = next(iter(store.charges))
    store.charges[charge] = replace(store.charges[charge], key="other")
    with Ledger.resume(store, KEY) as book, pytest.raises(StoreBehind, match="stored charges"):
        book.verify()


# ---- in a file ------------------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "clinic.ledger"
    with Ledger.create(file) as book:
        book._snapshot_every = EVERY
        scope = book.scope("s", budget=PureDP(50), **RULES)
        for number in range(20):
            scope.release(laplace("0.1"), 1, key=f"k{number}")
    return file


def test_a_file_keeps_it_and_so_does_its_backup(path: Path) -> None:
    with Ledger.open(path) as book:
        assert book._saved > 30
        state = book.state
        copy = book.backup(path.with_name("copy.ledger"))
    with Ledger.look(copy) as book:
        assert book._saved > 30
        assert book.state == state
        assert len(book.verify().entries) == state.size


def test_a_damaged_page_of_an_old_entry_is_found_by_a_verification(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("UPDATE leaves SET leaf = (SELECT leaf FROM leaves WHERE i = 4) WHERE i = 5")
    connection.commit()
    connection.close()
    with Ledger.open(path) as book, pytest.raises(VerificationError):
        book.verify()


def test_without_what_was_saved_a_file_opens_as_well(path: Path) -> None:
    with Ledger.open(path) as book:
        state = book.state
    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM saved")
    connection.execute("INSERT INTO saved VALUES (7, x'00')")
    connection.commit()
    connection.close()
    with Ledger.open(path) as book:
        assert (book._saved, book.state) == (0, state)
