"""The ledger: it gives bodies their place, signs them, and keeps them in a store. The wiring that people touch.

>>> book = Ledger.in_memory()
>>> scope = book.scope("patients", unit="patient", relation="add_remove", budget=PureDP(1))
>>> [entry.body.kind for entry in book.entries()]
['ledger_opened', 'scope_opened']
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Literal, NoReturn, Self

from dpledger.accounting import filters
from dpledger.accounting.guarantees import Guarantee, PureDP
from dpledger.errors import ForeignLedger, ParameterError, PolicyError, ScopeError, StoreBehind, VerificationError
from dpledger.ledger import bundle, checkpoint, envelope, keys, merkle, verification, wire
from dpledger.ledger.bodies import FORMAT, Body, Declared, LedgerOpened, ScopeOpened, Snapshot, Step, UnitNote
from dpledger.ledger.entries import Entry, parse_entry
from dpledger.ledger.keyfiles import KeyFiles
from dpledger.ledger.scope import Scope
from dpledger.ledger.state import EMPTY, State, state_digest, step
from dpledger.ledger.stores.memory import MemoryStore
from dpledger.ledger.stores.protocol import Store, Transaction
from dpledger.ledger.stores.sqlite import SQLiteStore
from dpledger.ledger.writing import Head, Writing
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.entropy import system as system_entropy
from dpledger.relations import Relation, Unit

__all__ = ["Clock", "Ledger", "PureDP"]

Clock = Callable[[], str]
Make = Callable[[State, Transaction], Sequence[Body]]
"""Given the state and the open transaction, the bodies to append."""

SNAPSHOT_EVERY = 1000  # entries


def utc_now() -> str:
    """The time of an entry: for people; no rule reads it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Ledger:
    """An append-only, signed record of what was released, and the gate that stands before it.

    A handle belongs to the process that made it, does not pickle, and refuses in a forked child. It may be shared by
    threads. Use `create`, `open` or `in_memory`; close it, or use it as a context.
    """

    def __init__(
        self,
        store: Store,
        signer: keys.SigningKey | None,
        *,
        clock: Clock = utc_now,
        entropy: Entropy | None = None,
    ) -> None:
        self._store = store
        self._signer = signer
        self._clock = clock
        self._entropy = entropy if entropy is not None else system_entropy()
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._head = Head(EMPTY, merkle.CompactRange(), None)
        self._ledger_id = ""

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
        (`<path>.recovery.key`: move it offline). ParameterError if any of them is there already."""
        files = KeyFiles.beside(path)
        files.require_absent()
        ledger_id = keys.new_ledger_id(name if name is not None else _label(Path(path).stem))
        signer, recovery = keys.SigningKey.generate(ledger_id), keys.SigningKey.generate(ledger_id)
        store = SQLiteStore.create(path)
        files.save(signer, recovery)
        book = cls(store, signer, clock=clock, entropy=entropy)
        book._begin(recovery.public)
        return book

    @classmethod
    def in_memory(cls, name: str = "memory", *, clock: Clock = utc_now, entropy: Entropy | None = None) -> Self:
        """A ledger that is lost with the process: for tests and for trying things out."""
        ledger_id = keys.new_ledger_id(name)
        book = cls(MemoryStore(), keys.SigningKey.generate(ledger_id), clock=clock, entropy=entropy)
        book._begin(keys.SigningKey.generate(ledger_id).public)
        return book

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        key: keys.SigningKey | str | os.PathLike[str] | None = None,
        clock: Clock = utc_now,
        entropy: Entropy | None = None,
    ) -> Self:
        """An existing ledger; never creates one. `key`: the signing key or its file (default: `<path>.key` if it is
        there, else DPLEDGER_KEY, else the ledger is opened for reading only). ForeignLedger if the file is not a
        ledger or its head is not signed by the key, StoreBehind if it lost entries."""
        signer = key if isinstance(key, keys.SigningKey) else KeyFiles.beside(path).find(key)
        book = cls(SQLiteStore.open(path), signer, clock=clock, entropy=entropy)
        try:
            book._resume()
        except BaseException:
            book.close()
            raise
        return book

    def _begin(self, recovery: keys.VerifyingKey) -> None:
        self._ledger_id = self._key().public.name
        opened = LedgerOpened(
            format=FORMAT, public_key=self._key().public.text, recovery_key=recovery.text, witness="off"
        )
        self.transact(lambda *_: [opened])

    def _resume(self) -> None:
        """Fold what the store holds, and check that the stored head is ours and is the head of it."""
        head = self._store.checkpoint()
        if head is None:
            raise ForeignLedger("the file holds no signed head: it was never a whole ledger, or it was truncated")
        self._fold(self._store.leaves())
        opened = self.state.opened
        if opened is None:
            raise ForeignLedger("the file holds no entries: it was truncated")
        public = keys.VerifyingKey.parse(opened.public_key)
        if self._signer is not None and self._signer.public != public:
            raise ForeignLedger("the signing key is not the key of this ledger")
        signed = checkpoint.verify(head, public)
        if (signed.size, signed.root) != (self._head.tree.size, self._head.tree.root()):
            raise StoreBehind("the stored entries are not those of the signed head: the file was changed or truncated")

    # ---- reading ----------------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The ledger's id, which is also the origin of its checkpoints."""
        return self._ledger_id

    @property
    def state(self) -> State:
        """The folded state, as this handle last saw it."""
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
        head = self._store.checkpoint()
        assert head is not None, "a handle is made with its first head"
        return head

    def __len__(self) -> int:
        return self._store.size()

    def leaves(self) -> Iterator[bytes]:
        """The envelopes, byte for byte as they were signed."""
        return self._store.leaves()

    def entries(self) -> Iterator[Entry]:
        """The entries, in order. Not a verification: see `verify`."""
        return (_entry_of(leaf) for leaf in self.leaves())

    def scopes(self) -> tuple[str, ...]:
        """The ids of the scopes, in id order."""
        return tuple(sorted(self.state.scopes))

    def value(self, charge: str) -> bytes | None:
        """The kept value of a charge, if it was kept."""
        return self._store.value(charge)

    def verify(self, *, key: keys.VerifyingKey | None = None) -> verification.Verified:
        """Verify the whole ledger, bytes first, against `key` (default: its own; then this shows that the file is
        consistent, not whose it is). Raises VerificationError with the index and the reason."""
        return verification.verify(self.leaves(), self.head, key if key is not None else self.public_key)

    def export(self, folder: str | os.PathLike[str]) -> Path:
        """Write a bundle that anyone can verify offline with the public key: see `ledger.bundle`."""
        return bundle.write(folder, self.leaves(), self.head, self.public_key)

    # ---- writing ----------------------------------------------------------------------------------------------------

    def scope(
        self,
        name: str,
        *,
        unit: Unit | str | None = None,
        relation: Relation | str | None = None,
        budget: Guarantee | filters.Filter | None = None,
        keep: Literal["value", "digest", "none"] = "value",
        parents: Sequence[str] = (),
        dataset: str | None = None,
    ) -> Scope:
        """The scope called `name`: opened now with `unit`, `relation` and `budget` (a guarantee, or a filter with every
        constant), or, if it is there, the one that is there. ScopeError if it is there with other rules, or is not there
        and no budget is given."""
        existing = self.state.scopes.get(name)
        if existing is not None:
            _require_same(
                existing.relation, Relation.read(relation) if relation is not None else None, name, "relation"
            )
            _require_same(existing.unit, Unit.read(unit) if unit is not None else None, name, "unit")
            opened = (existing.budget, existing.filter)
            if budget is not None and budget not in opened:
                raise ScopeError(f"scope {name!r} was opened with another budget: {existing.budget}")
            return Scope(self, name)
        if budget is None or relation is None or unit is None:
            raise ScopeError(f"no scope {name!r} in this ledger: to open it, give unit, relation and budget")
        promised, rule = _budget_and_filter(budget)
        body = ScopeOpened(
            path=(Step(name, 0),),
            unit=_note(Unit.read(unit)),
            relation=Relation.read(relation),
            budget=promised,
            filter=rule,
            keep=keep,
            parents=tuple(sorted(set(parents))),
            dataset=dataset,
        )
        self._check_before_opening(body)
        self.transact(lambda *_: [body])
        return Scope(self, name)

    def declare(self, item: str, text: str, *, by: str) -> Entry:
        """A statement that nothing here can measure, in the words of `by`."""
        return self.record(Declared(item=item, text=text, by=by))

    def record(self, body: Body) -> Entry:
        """Append a body that charges nothing: an audit's, a report's, a declaration."""
        return self.transact(lambda *_: [body])[0]

    def transact(self, make: Make) -> tuple[Entry, ...]:
        """Append the bodies that `make` returns, in one durable transaction that excludes every other writer."""
        with self._lock:
            signer = self._key()
            with self._store.transaction() as transaction:
                self._catch_up(transaction)
                writing = Writing(self._ledger_id, signer, self._clock(), self._head, transaction)
                entries = [writing.append(body) for body in make(self.state, transaction)]
                if writing.head.tree.size // SNAPSHOT_EVERY > self._head.tree.size // SNAPSHOT_EVERY:
                    writing.append(Snapshot(state_digest(writing.head.state)))
                if entries:
                    tree = writing.head.tree
                    head = checkpoint.Checkpoint(origin=self._ledger_id, size=tree.size, root=tree.root())
                    transaction.put_checkpoint(checkpoint.sign(head, signer))
            self._head = writing.head
            return tuple(entries)

    @property
    def entropy(self) -> Entropy:
        """Where releases draw their noise from."""
        return self._entropy

    def _key(self) -> keys.SigningKey:
        if os.getpid() != self._process:
            raise PolicyError("a ledger handle was used in a forked child: open the ledger there, or send a token")
        if self._signer is None:
            raise ParameterError("key", "none", "the signing key of the ledger (it is open for reading only)")
        return self._signer

    def _check_before_opening(self, body: ScopeOpened) -> None:
        try:
            step(self.state, body)
        except VerificationError as error:
            raise ScopeError(error.reason) from None

    def _catch_up(self, transaction: Transaction) -> None:
        """See what other processes appended since; refuse a store that lost what this handle has seen."""
        known = self._head.tree.size
        if transaction.size < known:
            raise StoreBehind(f"the store holds {transaction.size} entries; this handle has seen {known}")
        if known and next(transaction.leaves(known - 1)) != self._head.last_leaf:
            raise StoreBehind(f"entry {known - 1} is not the one that this handle has seen")
        if transaction.size > known:
            self._fold(transaction.leaves(known))

    def _fold(self, leaves: Iterator[bytes]) -> None:
        for leaf in leaves:
            entry = _entry_of(leaf)
            self._ledger_id = entry.ledger
            self._head = self._head.after(leaf, entry.body)

    # ---- life of the handle -----------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the store, unless this is a forked child, whose parent's connection stays its own."""
        if os.getpid() == self._process:
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a ledger handle does not pickle: open the ledger in the other process")


def _entry_of(leaf: bytes) -> Entry:
    """The entry in a leaf, without checking its signature: the head over all leaves is checked where one is opened."""
    return parse_entry(wire.parse(envelope.parse_unverified(leaf).payload))


def _budget_and_filter(budget: Guarantee | filters.Filter) -> tuple[Guarantee, filters.Filter]:
    match budget:
        case filters.PureFilter() | filters.BasicFilter() | filters.MixedFilter() | filters.EitherFilter():
            return filters.budget_guarantee(budget), budget
        case _:
            return budget, filters.opened_by(budget)


def _note(unit: Unit) -> UnitNote:
    return UnitNote(unit.name, unit.max_contributions)


def _label(stem: str) -> str:
    """A file's name as the readable part of a ledger id."""
    return re.sub(r"[^a-z0-9._-]+", "-", stem.lower()).strip("-.")[:90] or "ledger"


def _require_same(existing: object, given: object | None, name: str, what: str) -> None:
    if given is not None and given != existing:
        raise ScopeError(f"scope {name!r} was opened with another {what}: {existing}")
