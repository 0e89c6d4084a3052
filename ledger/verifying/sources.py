"""Where a verifier reads a signed record from: a ledger, or the folder of a bundle. Read as they are; verification
judges them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dpledger.errors import ForeignLedger, ParameterError
from dpledger.ledger.remembered import Heads, is_behind
from dpledger.ledger.signed import checkpoint
from dpledger.ledger.stores.places import Place, is_address, looked
from dpledger.ledger.stores.protocol import Question, Store, streamed
from dpledger.ledger.verifying import bundle

__all__ = ["Source", "opened"]


@dataclass(frozen=True, slots=True)
class Source:
    """A head, and leaves that can be gone through again; they are read as they are asked for, never held together."""

    leaves: Iterable[bytes]
    head: bytes


@contextmanager
def opened(place: Place) -> Iterator[Source]:
    """The record at `place`, as it is while the context lasts. ForeignLedger or ParameterError for what is neither a
    ledger nor a bundle; RollbackSeen, a warning, for a ledger of which more was seen here."""
    if not is_address(place) and os.path.isdir(place):
        yield Source(*bundle.read(place))
        return
    if not is_address(place) and not os.path.exists(place):
        raise ParameterError("ledger", str(place), "a ledger file, or the folder of a bundle, that is there")
    store = looked(place)
    try:
        first = store.tail(None).head
        if first is None:
            raise ForeignLedger(f"{store.name} holds no signed head: it was never a whole ledger, or it was truncated")
        known = Heads(checkpoint.parse_unverified(first)[0].origin, warns=False).newest()
        tail = store.tail(None, Question(checked=True))  # after what is remembered was read
        assert tail.head is not None, "entries are never taken away"
        is_behind(known, tail.size, store)
        yield Source(_Stored(store, tail.size), tail.head)
    finally:
        store.close()


@dataclass(frozen=True, slots=True)
class _Stored:
    """The first leaves of a store, as many as there were at one moment."""

    store: Store
    size: int

    def __iter__(self) -> Iterator[bytes]:
        return streamed(self.store, self.size)
