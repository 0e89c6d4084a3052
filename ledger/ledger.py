"""The ledger: it gives bodies their place, signs them, and keeps them in a store. The wiring that people touch.

>>> book = Ledger.in_memory()
>>> scope = book.scope("patients", unit="patient", relation="add_remove", budget=PureDP(1))
>>> [entry.body.kind for entry in book.entries()]
['ledger_opened', 'scope_opened']
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self

from dpledger.accounting.allotting import Allowance
from dpledger.accounting.ex_post.odometer import Odometer
from dpledger.accounting.filters import Filter, Orders
from dpledger.accounting.guarantees import Guarantee, PureDP
from dpledger.decimals import whole
from dpledger.errors import (
    ParameterError,
    PolicyError,
    ScopeError,
    StoreBehind,
    VerificationError,
)
from dpledger.ledger import announcing, bundle, keys, notes, values, verification
from dpledger.ledger.bodies import FORMAT, Body, Closed, Declared, LedgerOpened, Note, Snapshot
from dpledger.ledger.checkpoint import Checkpoint
from dpledger.ledger.entries import Entry, entry_of, signed_entry
from dpledger.ledger.founding import founded
from dpledger.ledger.heads import START, Head, caught_up, resumed
from dpledger.ledger.keyfiles import KeyFiles
from dpledger.ledger.opening import Keep, Rules
from dpledger.ledger.people import SamePeople, same_people, warn_where_unrelated
from dpledger.ledger.scope import Scope
from dpledger.ledger.standing import State, state_digest
from dpledger.ledger.state import step
from dpledger.ledger.stores import sqlite
from dpledger.ledger.stores.memory import MemoryStore
from dpledger.ledger.stores.protocol import Reader, Store, Transaction
from dpledger.ledger.tables import Table, entries_table
from dpledger.ledger.writing import Clock, Writing, utc_now
from dpledger.mechanisms.entropy import Entropy, system as system_entropy
from dpledger.process import Home
from dpledger.progress import Advance
from dpledger.relations import Relation, Unit
from dpledger.schema import listed

__all__ = ["Clock", "Draw", "Ledger", "PureDP"]

Draw = Callable[[int], bytes]
"""Secret random bytes, as many as asked for: ids and salts, never noise."""
Make = Callable[[State, Transaction], Sequence[Body]]
"""Given the state and the open transaction, the bodies to append."""

SNAPSHOT_EVERY = 1000  # entries
BATCH = 500  # leaves fetched at a time


class Ledger:
    """An append-only, signed record of what was released, and the gate that stands before it.

    A handle belongs to the process that made it, does not pickle, and refuses in a forked child. It may be shared by
    threads. Use `create`, `open` or `in_memory`, or `begin` and `resume` with a store of your own; close it, or use it
    as a context.
    """

    def __init__(
        self,
        store: Store,
        signer: keys.Signer | None,
        *,
        clock: Clock = utc_now,
        entropy: Entropy | None = None,
        draw: Draw = secrets.token_bytes,
        snapshot_every: int = SNAPSHOT_EVERY,
    ) -> None:
        self._store = store
        self._signer = signer
        self._clock = clock
        self._entropy = entropy if entropy is not None else system_entropy()
        self._draw = draw
        self._snapshot_every = snapshot_every
        self._lock = threading.RLock()
        self._home = Home("a ledger handle")
        self._is_closed = False
        self._head = START

    # ---- making a handle --------------------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        name: str | None = None,
        clock: Clock = utc_now,
        entropy: Entropy | None = None,
    ) -> Self:
        """A new ledger file, its signing key (`<path>.key`), the public key (`<path>.pub`) and the recovery key
        (`<path>.recovery.key`, for later versions: move it offline). ParameterError if any of them is there already; if
        it cannot finish, nothing of it stays; if the process dies, all four are there, or `create` makes them anew."""
        with founded(path, name) as made:
            begun = cls.begin(made.store, made.signer, made.recovery, clock=clock)
        book = cls(sqlite.SQLiteStore.open(path), made.signer, clock=clock, entropy=entropy)
        book._head = begun._head
        return book

    @classmethod
    def in_memory(cls, name: str = "memory", *, clock: Clock = utc_now, entropy: Entropy | None = None) -> Self:
        """A ledger that is lost with the process: for tests and for trying things out."""
        ledger_id = keys.new_ledger_id(name)
        signer, recovery = keys.SigningKey.generate(ledger_id), keys.SigningKey.generate(ledger_id)
        return cls.begin(MemoryStore(), signer, recovery.public, clock=clock, entropy=entropy)

    @classmethod
    def begin(
        cls,
        store: Store,
        signer: keys.Signer,
        recovery: keys.VerifyingKey,
        *,
        clock: Clock = utc_now,
        entropy: Entropy | None = None,
        draw: Draw = secrets.token_bytes,
        snapshot_every: int = SNAPSHOT_EVERY,
    ) -> Self:
        """A new ledger in an empty store of the caller's, named as the signer's key is."""
        book = cls(store, signer, clock=clock, entropy=entropy, draw=draw, snapshot_every=snapshot_every)
        opened = LedgerOpened(format=FORMAT, public_key=signer.public.text, recovery_key=recovery.text, witness="off")

        def first(_: State, transaction: Transaction) -> Sequence[Body]:
            if transaction.size:
                raise ParameterError("store", f"{transaction.size} entries", "an empty store (Ledger.resume opens one)")
            return [opened]

        book.transact(first)
        return book

    @classmethod
    def resume(
        cls,
        store: Store,
        signer: keys.Signer | None,
        *,
        clock: Clock = utc_now,
        entropy: Entropy | None = None,
        draw: Draw = secrets.token_bytes,
        snapshot_every: int = SNAPSHOT_EVERY,
    ) -> Self:
        """The ledger in a store of the caller's, whatever it keeps its leaves in; without a signer for reading only.
        The handle takes the store over: it is closed with it, and if this raises.

        Everything is folded and held against the signed head. ForeignLedger if the store holds no ledger, or that of
        another key; NewerThanVerifier for entries of a later version; StoreBehind if it lost entries; ForkedProcess for
        a store that a parent process made."""
        book = cls(store, signer, clock=clock, entropy=entropy, draw=draw, snapshot_every=snapshot_every)
        try:
            with announcing.failures(book.state), store.reading() as reader:
                book._head = resumed(reader, signer)
        except BaseException:
            store.close()
            raise
        announcing.resumed(book.state)
        return book

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        key: keys.Signer | str | os.PathLike[str] | None = None,
        clock: Clock = utc_now,
        entropy: Entropy | None = None,
    ) -> Self:
        """An existing ledger; never creates one. `key`: the signing key or its file (default: `<path>.key` if it is
        there, else DPLEDGER_KEY, else as `look`). ForeignLedger if the file is not a ledger or its head is not signed
        by the key, StoreBehind if it lost entries."""
        signer = KeyFiles.beside(path).find(key)
        if signer is None:
            return cls.look(path)
        return cls.resume(sqlite.SQLiteStore.open(path), signer, clock=clock, entropy=entropy)

    @classmethod
    def look(cls, path: str | os.PathLike[str]) -> Self:
        """An existing ledger, for reading only: no key is looked for, the right to read the file is enough, and nothing
        is written. Raises as `open` does."""
        return cls.resume(sqlite.SQLiteStore.look(path), None)

    # ---- reading ----------------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The ledger's id, which is also the origin of its checkpoints."""
        return self.public_key.name

    @property
    def state(self) -> State:
        """The folded state, as this handle last saw it (`refresh` looks again)."""
        return self._head.state

    @property
    def public_key(self) -> keys.VerifyingKey:
        """The key that verifies this ledger. A verifier gets it from you, not from the ledger."""
        opened = self.state.opened
        assert opened is not None, "a handle is made with its first entry"
        return keys.VerifyingKey.parse(opened.public_key)

    @property
    def head(self) -> bytes:
        """The signed checkpoint."""
        head, _ = self._signed_part()
        return head

    def __len__(self) -> int:
        with self._reading() as reader:
            return reader.size

    def refresh(self) -> State:
        """The state, with what other processes appended since."""
        self._require_ours()
        with announcing.failures(self.state), self._lock, self._reading() as reader:
            self._head = caught_up(self._head, reader, self._signer)
            return self.state

    def leaves(self, *, stop: int | None = None) -> Iterator[bytes]:
        """The envelopes, byte for byte as they were signed: all there are now, or the first `stop`."""
        size = len(self)
        return self._leaves(size if stop is None else min(whole(stop, field="stop"), size))

    def _leaves(self, stop: int) -> Iterator[bytes]:
        for start in range(0, stop, BATCH):
            with self._reading() as reader:
                batch = list(reader.leaves(start, min(stop, start + BATCH)))
            yield from batch

    def entries(self, *, stop: int | None = None) -> Table[Entry]:
        """The entries, in order: all there are now, or the first `stop`. Iterate over them, or take `to_frame()`, a
        pandas DataFrame (`ledger.tables` lists its columns). Not a verification: see `verify`."""
        size = len(self) if stop is None else min(whole(stop, field="stop"), len(self))
        return entries_table(lambda: map(entry_of, self._leaves(size)), size)

    def entry(self, index: int) -> Entry:
        """The entry at `index`, its signature verified; that the entries before it are those that it follows, `verify`
        shows. ParameterError beyond the end."""
        place = whole(index, field="index", most=len(self) - 1)
        with self._reading() as reader:
            leaf = reader.leaf(place)
        return signed_entry(leaf, self.public_key, place)

    def scopes(self) -> tuple[str, ...]:
        """The ids of the scopes, in id order."""
        return tuple(sorted(self.refresh().scopes))

    def kept(self, origin: values.Origin) -> bytes | None:
        """The bytes of a kept value; None if it was not kept. VerificationError unless this ledger signed it for
        `origin`."""
        with self._reading() as reader:
            stored = reader.value(origin.charge)
        return None if stored is None else values.unsealed(stored, origin, self.public_key)

    def verify(
        self,
        *,
        key: keys.VerifyingKey | None = None,
        since: Sequence[Checkpoint] = (),
        advance: Advance | None = None,
    ) -> verification.Verified:
        """Verify the whole ledger, bytes first, against `key` (default: its own; then this shows that the file is
        consistent, not whose it is). Raises VerificationError with the index and the reason."""
        if key is not None and not isinstance(key, keys.VerifyingKey):
            raise ParameterError("key", type(key).__name__, "a VerifyingKey (VerifyingKey.parse reads its text)")
        remembered = listed(since, field="since")
        if not all(isinstance(head, Checkpoint) for head in remembered):
            raise ParameterError("since", type(since).__name__, "a list of checkpoints (Checkpoint.parse reads one)")
        head, leaves = self._signed_part()
        own = key if key is not None else self.public_key
        return verification.verify(leaves, head, own, since=remembered, advance=advance)

    def export(self, folder: str | os.PathLike[str]) -> Path:
        """Write a bundle that anyone can verify offline with the public key: see `ledger.bundle`."""
        head, leaves = self._signed_part()
        return bundle.write(folder, leaves, head, self.public_key)

    def backup(self, path: str | os.PathLike[str], *, advance: Advance | None = None) -> Path:
        """Copy the ledger file as it is now, with what lies beside it, into one new file for its owner alone; no key.

        A copy by other means, of a file in use, lacks the last entries and verifies all the same. Append to the ledger
        or to its copy, never to both: two records under one key. `advance` is called with the percent copied.
        ParameterError if something is at `path`, it cannot be written, or the ledger is in memory."""
        self._require_ours()
        if not isinstance(self._store, sqlite.SQLiteStore):
            raise ParameterError("ledger", "one without a file", "a ledger file")
        return self._store.backup(path, advance=advance)

    def _signed_part(self) -> tuple[bytes, Iterator[bytes]]:
        """The signed head, and the leaves that it covers."""
        with self._reading() as reader:
            head, size = reader.checkpoint(), reader.size
        if head is None:
            raise StoreBehind("the signed head is gone from the store")
        return head, self._leaves(size)

    # ---- writing ----------------------------------------------------------------------------------------------------

    def scope(
        self,
        name: str,
        *,
        unit: Unit | str | None = None,
        relation: Relation | str | None = None,
        budget: Guarantee | Filter | None = None,
        orders: Orders | None = None,
        allowance: Allowance | None = None,
        keep: Keep | None = None,
        parents: Sequence[str] | None = None,
        dataset: str | None = None,
        odometer: Odometer | None = None,
    ) -> Scope:
        """The scope called `name`: opened now with `unit`, `relation` and `budget` (a guarantee, or a filter with every
        constant), or, if it is there, the one that is there. ScopeError if it is there with other rules, or is not
        there and one of the three is missing.

        `orders`: the Renyi orders of an approx_dp budget's accounts, alike or as pairs (order, share), in place of two
        that suit most work (docs/proofs/filters.md, "F8").
        `keep`: what of each value is kept: itself (the default, up to 64 KiB, so that a repeated key is answered), a
        salted digest in the entry, or nothing. `parents`: scopes that every charge here is charged to as well.
        `allowance`: so many draws of one law, within an approximate budget.
        `dataset`: a commitment to the data, never the data; what scopes of one dataset come to for one unit is added up
        (`people`), and UnrelatedScopes warns where nothing says whether scopes are about the same unit. `odometer`: a
        second reading beside the filter's, valid at every stopping time: `account().odometer()`."""
        rules = Rules.read(
            name,
            unit,
            relation,
            budget,
            keep,
            parents,
            dataset,
            odometer=odometer,
            orders=orders,
            allowance=allowance,
        )
        existing = self.refresh().scopes.get(name)
        if existing is not None:
            rules.require_same(existing)
            return Scope(self, name)
        body = rules.opening()
        warn_where_unrelated(self.state, body)

        def open_scope(state: State, _: Transaction) -> Sequence[Body]:
            if name in state.scopes:  # another process was first
                rules.require_same(state.scopes[name])
                return []
            try:
                step(state, body)
            except VerificationError as error:
                raise ScopeError(error.reason) from None
            return [body]

        self.transact(open_scope)
        return Scope(self, name)

    def people(self) -> SamePeople:
        """What the scopes come to for one unit, where they name the same dataset; and what of it is not known."""
        return same_people(self.refresh())

    def declare(self, item: str, text: str, *, by: str) -> Entry:
        """A statement that nothing here can measure, in the words of `by`. `item`: one of `declarations.ITEMS`, or a
        word of your own that begins with `own_`; UnknownWord, with the list, for another. ParameterError for a
        declaration in which nothing, or nobody, says anything."""
        return self.record(Declared(item=item, text=text, by=by))

    def record(self, note: Note, *, about: Sequence[str] = ()) -> Entry:
        """Append a note, which charges nothing: a declaration, an audit's or a report's result, a heartbeat. `about`:
        the scopes that a declaration or an audit is about. ParameterError for an audit whose verdict is not that of its
        numbers, or that is not about its scopes."""
        notes.check(note)
        return self.transact(lambda state, store: [notes.placed(note, about, state, store)])[0]

    def end(self, reason: str) -> Entry:
        """The last entry: nothing may follow. Charges that are open count at their caps, for ever."""
        return self.transact(lambda *_: [Closed(reason=reason)])[0]

    def transact(self, make: Make) -> tuple[Entry, ...]:
        """Append the bodies that `make` returns, in one durable transaction that excludes every other writer. The new
        head is signed in it, and seen by nobody before it is durable."""
        signer = self._key()
        with announcing.failures(self.state), self._lock:
            with self._store.transaction() as transaction:
                self._head = caught_up(self._head, transaction, self._signer)
                if self.state.closed:
                    raise PolicyError("the ledger was ended: nothing may follow; open a new one")
                writing = Writing(signer, self._clock(), self._head, transaction)
                entries = tuple(writing.append(body) for body in make(self.state, transaction))
                if entries:
                    if self._is_snapshot_due(writing.head):
                        writing.append(Snapshot(state_digest(writing.head.state)))
                    writing.sign_head()
            self._head = writing.head
        announcing.appended(writing.appended)
        return entries

    def seal(self, value: bytes, origin: values.Origin) -> bytes:
        """The bytes of a value as the store is to hold them, signed as that of `origin`. The inverse of `kept`."""
        return values.sealed(value, origin, self._key())

    def _is_snapshot_due(self, after: Head) -> bool:
        every = self._snapshot_every
        return not after.state.closed and after.tree.size // every > self._head.tree.size // every

    @property
    def entropy(self) -> Entropy:
        """Where releases draw their noise from."""
        return self._entropy

    def draw(self, count: int) -> bytes:
        """`count` secret random bytes, for ids and salts."""
        return self._draw(count)

    # ---- life of the handle -----------------------------------------------------------------------------------------

    def _reading(self) -> AbstractContextManager[Reader]:
        self._require_ours()
        return self._store.reading()

    def _key(self) -> keys.Signer:
        self._require_ours()
        if self._signer is None:
            raise ParameterError("key", "none", "the signing key of the ledger (it is open for reading only)")
        return self._signer

    def _require_ours(self) -> None:
        self._home.require()
        if self._is_closed:
            raise PolicyError("the ledger handle is closed: open the ledger again")

    def close(self) -> None:
        """Close the store; in a forked child it closes nothing, as the connection stays its parent's."""
        self._is_closed = True
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a ledger handle does not pickle: open the ledger in the other process")
