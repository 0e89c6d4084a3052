"""The keys of a record, followed from its first entry: which key signs which entry, and the head.

Cheap enough for a quick verification: a key is first used right after the entry that names it (`rules.authority`), so
that only the entries before a change of the key id need a look. What it cannot tell, that an entry is not one that its
key may sign, the fold of all entries tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from dpledger.errors import VerificationError
from dpledger.ledger.entries.bodies import Body, LedgerOpened
from dpledger.ledger.entries.entry import Entry, entry_of, last_trusted_of, parse_entry
from dpledger.ledger.rules.authority import Authority, NamesKeys, Term
from dpledger.ledger.signed import envelope, wire
from dpledger.ledger.signed.checkpoint import Checkpoint
from dpledger.ledger.signed.keys import VerifyingKey

__all__ = ["Following", "authority_after", "authority_of", "key_entries", "require_place", "signed_entry"]


def signed_entry(index: int, leaf: bytes, origin: str, authority: Authority | None) -> Entry:
    """Steps 6 and 7 for one leaf by itself: all but what it follows. `authority`: as of the entries before it; None for
    the first, which is signed by the key that it names. VerificationError with the index."""
    try:
        known = _first(leaf) if authority is None else authority
        entry = parse_entry(wire.parse(envelope.verify(leaf, partial(known.one_of, index))))
        known.require(index, entry.body, envelope.key_id_of(leaf))
    except VerificationError as error:
        raise error.at(index) from None
    require_place(index, entry, origin)
    if known.name != origin:
        raise VerificationError("names another signing key than one of the ledger's own", index=index)
    return entry


def require_place(index: int, entry: Entry, origin: str) -> None:
    """VerificationError unless an entry says that it is the one at `index` of the ledger `origin`."""
    if entry.index != index:
        raise VerificationError(f"says that it is entry {entry.index}", index=index)
    if entry.ledger != origin:
        raise VerificationError(f"is an entry of another ledger: {entry.ledger}", index=index)


def key_entries(authority: Authority, size: int, *indices: int) -> tuple[int, ...]:
    """Which of the first `size` entries show somebody who has no others who signed those at `indices`, and the head:
    none, where the ledger's first key signed everything. The inverse of `authority_of`."""
    begun: dict[str, int] = {}  # a key that takes entries back began before
    for term in authority.terms:
        begun.setdefault(term.key, term.first)
    named = {begun[authority.term(index).key] for index in (*indices, size)}
    named.update(begun[term.key] for term in authority.terms if term.last is None and term.first <= size)
    found = {first - 1 for first in named if first} | ({size - 1} if authority.revoked else set())
    return tuple(sorted({0} | found)) if found else ()


def authority_of(leaves: Sequence[bytes], head: Checkpoint, key: VerifyingKey) -> tuple[Authority, int | None]:
    """Who signs, by key entries alone, as of a head that is not verified, to whoever trusts `key`; and the last trusted
    entry, where the last of them revokes the key. VerificationError where they do not lead from one to the other."""
    authority, before, last_trusted = None, -1, None
    for leaf in leaves:
        index = entry_of(leaf).index
        if not before < index < head.size or (authority is None) is not (index == 0):
            raise VerificationError("the entries that name its keys are not in order")
        if authority is not None and authority.revoked:
            raise VerificationError("nothing may follow a revocation", index=index)
        body = signed_entry(index, leaf, head.origin, authority).body
        authority = authority_after(authority, index, body)
        before, last_trusted = index, last_trusted_of(leaf)
    if authority is None:
        authority = Authority(terms=(Term(key=key.text, first=0),), recovery=None)
    if authority.revoked and before != head.size - 1:
        raise VerificationError("nothing may follow a revocation", index=before + 1)
    authority.require_trusted(key, last_trusted)
    return authority, last_trusted


def authority_after(authority: Authority | None, index: int, body: Body) -> Authority:
    """Who signs once `body`, which was read by `signed_entry`, stands at `index`."""
    if authority is None:
        assert isinstance(body, LedgerOpened), "checked where it was read"
        return Authority.opened(body)
    return authority.after(index, body) if isinstance(body, NamesKeys) else authority


def _first(leaf: bytes) -> Authority:
    body = entry_of(leaf).body
    if not isinstance(body, LedgerOpened):
        raise VerificationError("the first entry is not ledger_opened")
    return Authority.opened(body)


class Following:
    """The keys of a record of the ledger `origin`, while its leaves go by, each given to `see` in order."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._authority: Authority | None = None
        self._usual = ""  # the id of the key that signs the next entry, as far as is known
        self._until: int | None = None  # the last entry it signs
        self._before: bytes = b""
        self._size = 0
        self._looked = -1  # the last entry that was looked into
        self._error: VerificationError | None = None

    def see(self, leaf: bytes) -> None:
        """The next leaf. What is wrong with it is told at the end."""
        if self._error is None:
            index = self._size
            key_id = envelope.key_id_of(leaf)
            if key_id != self._usual or (self._until is not None and index > self._until):
                try:
                    self._changed(index, leaf, key_id)
                except VerificationError as error:
                    self._error = error.at(index)
        self._before = leaf
        self._size += 1

    def _changed(self, index: int, leaf: bytes, key_id: str) -> None:
        if self._authority is not None:
            self._look(index - 1, self._before)
            if key_id == self._usual:
                return
        self._look(index, leaf)

    def _look(self, index: int, leaf: bytes) -> None:
        """Take in what the entry at `index` says of keys."""
        if index <= self._looked:
            return
        if self._authority is not None and self._authority.revoked:
            raise VerificationError("nothing may follow a revocation", index=index)
        body = signed_entry(index, leaf, self._origin, self._authority).body
        try:
            self._authority = authority_after(self._authority, index, body)
        except VerificationError as error:
            raise error.at(index) from None
        self._looked = index
        self._usual = self._authority.of_head(index + 1).key_id_hex
        last = self._authority.terms[-1].last
        self._until = last if last is not None and last > index else None

    def followed(self) -> Authority:
        """Who signs, as of the end. VerificationError for a leaf that was signed by another key."""
        if self._error is None and self._size:
            try:
                self._look(self._size - 1, self._before)
            except VerificationError as error:
                self._error = error
        if self._error is not None:
            raise self._error
        if self._authority is None:
            raise VerificationError("the record has no entry", index=0)
        return self._authority
