"""The end of a log as a handle knows it, and how it follows what the store holds.

A handle remembers the hash of the last leaf that it saw. A store with another leaf at that index, or with fewer, lost
entries: it is never continued, since its next head would contradict a signed one.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import assert_never

from dpledger.errors import ForeignLedger, StoreBehind, VerificationError
from dpledger.ledger.entries.bodies import (
    Aborted,
    Audited,
    Body,
    Closed,
    Committed,
    Declared,
    Heartbeat,
    Intended,
    KeyDelegated,
    KeyRevoked,
    KeyRotated,
    LedgerOpened,
    Lost,
    OwnerRotated,
    PlanRegistered,
    PolicyChanged,
    Progress,
    Refused,
    Reported,
    Reserved,
    RollbackAccepted,
    ScopeOpened,
    Snapshot,
    Started,
)
from dpledger.ledger.entries.entry import FIRST_PREVIOUS, entry_of, last_trusted_of
from dpledger.ledger.rules.authority import key_of
from dpledger.ledger.rules.scope_state import EMPTY, State
from dpledger.ledger.rules.transitions import charged_scope, step
from dpledger.ledger.saved import SavedFold, restored
from dpledger.ledger.signed import checkpoint, merkle
from dpledger.ledger.signed.keys import Signer
from dpledger.ledger.stores.protocol import GO_ON, ChargeRow, Ending, Question, Store, TableRows, Tail, streamed

__all__ = ["START", "Head", "Resumed", "caught_up", "index_entry", "require_tables", "resumed"]

NO_HEAD = "the store holds no signed head: it was never a whole ledger, or it was truncated"


@dataclass(frozen=True, slots=True)
class Head:
    """What a handle knows of the end of the log: the folded state, the tree, and what the next entry names as the one
    before it. `signed`: the signed head that the store held for it; None of one that no store was seen to hold."""

    state: State
    tree: merkle.CompactRange
    previous: str
    signed: bytes | None = field(default=None, compare=False)

    def after(self, leaf: bytes, body: Body) -> Head:
        """The head once `leaf`, which holds `body`, is at the end."""
        hashed = merkle.leaf_hash(leaf)
        return Head(step(self.state, body), self.tree.append(hashed), hashed.hex())

    def after_all(self, leaves: Iterable[bytes], told: TableRows | None = None) -> Head:
        """The head once `leaves` follow; their charges and refusals go into `told`. No signature is
        verified: check the root. Raises VerificationError with the index of the leaf that cannot follow."""
        head = self
        for leaf in leaves:
            index = head.tree.size
            try:
                body = entry_of(leaf).body
                head = head.after(leaf, body)
            except VerificationError as error:
                raise error.at(index) from None
            if told is not None:
                index_entry(told, index, body, head.state)
        return head

    @property
    def fold(self) -> SavedFold:
        """What may be saved of it."""
        return SavedFold(state=self.state, tree=self.tree, leaf=self.previous)


START = Head(EMPTY, merkle.CompactRange(), FIRST_PREVIOUS)


@dataclass(frozen=True, slots=True)
class Resumed:
    """The head of a ledger that was opened, and how many of its entries a fold covers that the store keeps."""

    head: Head
    saved: int


def resumed(store: Store, signer: Signer | None, *, last_trusted: int | None = None) -> Resumed:
    """The head of the ledger in a store that was opened, checked against the signed head: from what was saved of the
    fold and the entries after it, or, where that cannot be used, from all entries. Raises ForeignLedger for no ledger
    of this key, StoreBehind for a changed one. `last_trusted`: as of a revocation that is about to be written with the
    recovery key, `signer`."""
    seen = store.tail(None, Question(saved=True))
    if seen.head is None or seen.size == 0:
        raise ForeignLedger(NO_HEAD)
    if last_trusted is None:
        last_trusted = next(iter([last_trusted_of(leaf) for leaf in store.leaves(seen.size - 1, seen.size)]), None)
    fold = None if seen.saved is None or last_trusted is not None else restored(seen.saved, signer)
    if fold is not None and 0 < fold.tree.size <= seen.size:
        with suppress(VerificationError, StoreBehind, ForeignLedger):  # all entries say what is wrong, if anything is
            return Resumed(_after_fold(store, fold, signer), fold.tree.size)
    return Resumed(_after_all(store, signer, last_trusted), 0)


def _after_fold(store: Store, fold: SavedFold, signer: Signer | None) -> Head:
    tail = store.tail(fold.tree.size - 1)
    if _named(tail.leaves[:1]) != fold.leaf:
        raise StoreBehind("what was folded is of other entries")
    return _signed(Head(fold.state, fold.tree, fold.leaf).after_all(tail.leaves[1:]), tail, signer)


def _named(last: tuple[bytes, ...]) -> str:
    """How the next entry names the last leaf; there may be none."""
    return next((merkle.leaf_hash(leaf).hex() for leaf in last), FIRST_PREVIOUS)


def _after_all(store: Store, signer: Signer | None, last_trusted: int | None) -> Head:
    """Every entry is folded, and the store looks through itself; its tables of charges and refusals are those of the
    entries."""
    seen, rows = store.tail(None, Question(everything=True, checked=True)), TableRows()
    start = replace(START, state=replace(EMPTY, last_trusted=last_trusted))
    head = _signed(start.after_all(streamed(store, seen.size), rows), seen, signer)
    require_tables(seen, rows)
    return caught_up(head, store.tail(head.tree.size - 1), signer)  # with what others appended meanwhile


def require_tables(told: Tail, rows: TableRows) -> None:
    """StoreBehind unless every charge and refusal that the store told is one of the entries, whose `rows` are given."""
    ended = {ending.charge: ending for ending in rows.endings}
    charges = (_as_ended(row, ended.get(row.charge)) for row in rows.charges)
    if list(told.charges) != sorted(charges, key=lambda row: row.charge):
        raise StoreBehind("the stored charges are not those of the entries: the store was changed")
    if list(told.refusals) != sorted(set(rows.refusals)):
        raise StoreBehind("the stored refusals are not those of the entries: the store was changed")


def _as_ended(row: ChargeRow, ending: Ending | None) -> ChargeRow:
    return row if ending is None else replace(row, status=ending.status, ended=ending.ended)


def caught_up(head: Head, tail: Tail, signer: Signer | None) -> Head:
    """`head`, and what others appended since: `tail` has the leaves from the last one on that this handle has seen.
    StoreBehind for a store that lost what it has seen."""
    known = head.tree.size
    if tail.size < known:
        raise StoreBehind(f"the store holds {tail.size} entries; this handle has seen {known}. {GO_ON}")
    if known and _named(tail.leaves[:1]) != head.previous:
        raise StoreBehind(f"entry {known - 1} is not the one that this handle has seen. {GO_ON}")
    if tail.size > known:
        if last_trusted_of(tail.leaves[-1]) is not None:
            raise ForeignLedger("the signing key of this ledger was revoked: open the ledger again, it is for reading")
        head = head.after_all(tail.leaves[min(known, 1) :])
        return _signed(head, tail, signer)
    if known and tail.head != head.signed:  # this handle saw that head signed: its bytes alone need a look
        _require_covered(head, checkpoint.parse_unverified(tail.head or b"")[0])
        return replace(head, signed=tail.head)
    return head


def _signed(head: Head, tail: Tail, signer: Signer | None) -> Head:
    """`head`, as the store holds it. Raises unless the stored head is that of `head`, signed by the key in force, and
    `signer` is the ledger's key, or the one that may revoke it."""
    authority, stored = head.state.authority, tail.head
    if authority is None or stored is None:
        raise ForeignLedger(NO_HEAD)
    is_revoking = head.state.last_trusted is not None and signer is not None
    if signer is not None and not (is_revoking and signer.public.text == authority.recovery):
        own = authority.own(head.tree.size)
        if signer.public != own and any(signer.public == key_of(term.key) for term in authority.terms):
            raise ForeignLedger(
                f"the key of this ledger was rotated: the one in force is {own.key_id_hex}, the one given "
                f"{signer.public.key_id_hex}; open the ledger with the new one"
            )
        if signer.public != own:
            raise ForeignLedger("the signing key is not the key of this ledger")
    _require_covered(head, checkpoint.verify(stored, authority.of_head(head.tree.size)))
    return replace(head, signed=stored)


def _require_covered(head: Head, signed: checkpoint.Checkpoint) -> None:
    if (signed.size, signed.root) != (head.tree.size, head.tree.root()):
        raise StoreBehind("the stored entries are not those of the signed head: the store was changed or truncated")


def index_entry(rows: TableRows, index: int, body: Body, after: State) -> None:
    """Add what comes into the store's tables, of charges with their keys and of refusals, with the entry that holds
    `body`, at `index`. `after`: the state after it, or after any later one."""
    match body:
        case Reserved(path=path, charge=charge, key=key, request=request):
            scope = charged_scope(after, path).scope
            rows.charges.append(ChargeRow(charge=charge, scope=scope, key=key, request=request, status="open"))
        case Committed(charge=charge):
            rows.endings.append(Ending(charge, "committed", index))
        case Aborted(charge=charge):
            rows.endings.append(Ending(charge, "aborted", index))
        case Refused(path=path, request=request):
            rows.refusals.append((charged_scope(after, path).scope, request))
        case LedgerOpened() | ScopeOpened() | Started() | Progress() | Lost() | Snapshot() | Closed():
            pass
        case Declared() | Intended() | Audited() | Reported() | Heartbeat():
            pass
        case PlanRegistered() | PolicyChanged() | RollbackAccepted():
            pass
        case KeyRotated() | KeyDelegated() | OwnerRotated() | KeyRevoked():
            pass
        case _:
            assert_never(body)
