"""Where a verifier reads a signed record from: a ledger file, or the folder of a bundle. Read as they are; verification
judges them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dpledger.errors import ForeignLedger
from dpledger.ledger.stores.protocol import Store, streamed
from dpledger.ledger.stores.sqlite import SQLiteStore
from dpledger.ledger.verifying import bundle

__all__ = ["Source", "opened"]


@dataclass(frozen=True, slots=True)
class Source:
    """A head, and leaves that can be gone through again; they are read as they are asked for, never held together."""

    leaves: Iterable[bytes]
    head: bytes


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[Source]:
    """The record at `path`, as it is while the context lasts. ForeignLedger or ParameterError for what is neither a
    ledger file nor a bundle."""
    if Path(path).is_dir():
        yield Source(*bundle.read(path))
        return
    store = SQLiteStore.look(path)
    try:
        tail = store.tail(None)
        if tail.head is None:
            raise ForeignLedger(f"{path} holds no signed head: it was never a whole ledger, or it was truncated")
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
