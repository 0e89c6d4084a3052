"""The store for tests and for trying things out: everything is lost with the process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from dpledger.errors import StoreBehind, StoreFailure
from dpledger.ledger.stores.protocol import ChargeRow, Reader, Refusal, Status, Transaction
from dpledger.process import Home

__all__ = ["MemoryStore"]


class MemoryStore:
    """Leaves in a list. A transaction notes what it changes, and all of it is put in place at its end.

    It has happened once it is noted as the last one. Where an interrupt falls while it is put in place, whoever comes
    next does that again."""

    def __init__(self) -> None:
        self.home = Home("a ledger in memory")
        self.lock = threading.RLock()
        self.leaves: list[bytes] = []
        self.checkpoint: bytes | None = None
        self.charges: dict[str, ChargeRow] = {}
        self.keys: dict[tuple[str, str], str] = {}
        self.values: dict[str, bytes] = {}
        self.refusals: set[Refusal] = set()
        self._last: _Work | None = None  # what was committed last
        self._is_whole = True  # whether all of that is in place

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        self.home.require()
        with self.lock:
            self._finish()
            yield _Work(self)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        self.home.require()
        with self.lock:
            self._finish()
            before, work = self._last, _Work(self)
            yield work
            self.home.require()  # what is done inside may have forked
            if self._last is not before:
                raise StoreFailure(
                    "something was written in the middle of another transaction of this thread, by a signal handler, "
                    "say: the outer one is undone, and nothing of it was written"
                )
            self._is_whole = False
            self._last = work
            self._finish()

    def _finish(self) -> None:
        """Put in place what was committed last, unless it is. Where nothing new was committed, nothing changes."""
        if not self._is_whole and self._last is not None:
            self._last.apply()
        self._is_whole = True

    def close(self) -> None:
        """Nothing is held open."""


class _Work:
    """What one transaction reads and would write."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._before = len(store.leaves)
        self._appended: list[bytes] = []
        self._charges: dict[str, ChargeRow] = {}
        self._keys: dict[tuple[str, str], str] = {}
        self._values: dict[str, bytes] = {}
        self._refusals: set[Refusal] = set()
        self._checkpoint = store.checkpoint

    def apply(self) -> None:
        """Put everything in place; a second time changes nothing."""
        self._store.leaves[self._before :] = self._appended
        self._store.checkpoint = self._checkpoint
        self._store.charges.update(self._charges)
        self._store.keys.update(self._keys)
        self._store.values.update(self._values)
        self._store.refusals |= self._refusals

    @property
    def size(self) -> int:
        return len(self._store.leaves) + len(self._appended)

    def leaf(self, index: int) -> bytes:
        if not 0 <= index < self.size:
            raise IndexError(index)
        return next(self.leaves(index))

    def leaves(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        before = len(self._store.leaves)
        for index in range(start, self.size if stop is None else min(stop, self.size)):
            yield self._store.leaves[index] if index < before else self._appended[index - before]

    def checkpoint(self) -> bytes | None:
        return self._checkpoint

    def charges(self) -> Iterator[ChargeRow]:
        return iter(sorted({**self._store.charges, **self._charges}.values(), key=lambda row: row.charge))

    def charge_of(self, scope: str, key: str) -> ChargeRow | None:
        charge = self._keys.get((scope, key)) or self._store.keys.get((scope, key))
        return None if charge is None else self._row(charge)

    def refusals(self) -> Iterator[Refusal]:
        return iter(sorted(self._store.refusals | self._refusals))

    def value(self, charge: str) -> bytes | None:
        return self._values.get(charge) or self._store.values.get(charge)

    def append(self, leaf: bytes) -> int:
        self._appended.append(leaf)
        return self.size - 1

    def put_checkpoint(self, checkpoint: bytes) -> None:
        self._checkpoint = checkpoint

    def add_charge(self, row: ChargeRow) -> None:
        if self._row(row.charge) is not None or self.charge_of(row.scope, row.key) is not None:
            raise StoreBehind(f"charge or key {row.key!r} is in the store already")
        self._charges[row.charge] = row
        self._keys[row.scope, row.key] = row.charge

    def end_charge(self, charge: str, status: Status, index: int) -> None:
        row = self._row(charge)
        if row is None or row.status != "open":
            raise StoreBehind("a charge that the ledger holds open is not open in the store")
        self._charges[charge] = replace(row, status=status, ended=index)

    def put_value(self, charge: str, value: bytes) -> None:
        self._values[charge] = value

    def note_refusal(self, scope: str, key: str, request: str) -> bool:
        refusal = (scope, key, request)
        if refusal in self._store.refusals or refusal in self._refusals:
            return False
        self._refusals.add(refusal)
        return True

    def _row(self, charge: str) -> ChargeRow | None:
        return self._charges.get(charge) or self._store.charges.get(charge)
