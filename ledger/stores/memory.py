"""The store for tests and for trying things out: everything is lost with the process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from dpledger.errors import StoreBehind
from dpledger.ledger.stores.protocol import ChargeRow, Status, Transaction

__all__ = ["MemoryStore"]


class MemoryStore:
    """Leaves in a list. A transaction works on copies of what it changes and swaps them in at its end."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._leaves: list[bytes] = []
        self._checkpoint: bytes | None = None
        self._charges: dict[str, ChargeRow] = {}
        self._keys: dict[tuple[str, str], str] = {}
        self._values: dict[str, bytes] = {}

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        with self._lock:
            work = _Work(self)
            yield work
            self._leaves.extend(work.appended)
            self._checkpoint = work.checkpoint
            self._charges.update(work.charges)
            self._keys.update({(row.scope, row.key): row.charge for row in work.charges.values()})
            self._values.update(work.values)

    def size(self) -> int:
        return len(self._leaves)

    def leaf(self, index: int) -> bytes:
        if index < 0:
            raise IndexError(index)
        return self._leaves[index]

    def leaves(self, start: int = 0) -> Iterator[bytes]:
        return iter(self._leaves[start:])

    def checkpoint(self) -> bytes | None:
        return self._checkpoint

    def value(self, charge: str) -> bytes | None:
        return self._values.get(charge)

    def close(self) -> None:
        """Nothing is held open."""


class _Work:
    """What one transaction reads and would write."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.appended: list[bytes] = []
        self.charges: dict[str, ChargeRow] = {}
        self.values: dict[str, bytes] = {}
        self.checkpoint = store._checkpoint

    @property
    def size(self) -> int:
        return len(self._store._leaves) + len(self.appended)

    def leaves(self, start: int) -> Iterator[bytes]:
        return iter([*self._store._leaves, *self.appended][start:])

    def append(self, leaf: bytes) -> int:
        self.appended.append(leaf)
        return self.size - 1

    def put_checkpoint(self, checkpoint: bytes) -> None:
        self.checkpoint = checkpoint

    def add_charge(self, row: ChargeRow) -> None:
        if self._row(row.charge) is not None or self.charge_of(row.scope, row.key) is not None:
            raise StoreBehind(f"charge or key {row.key!r} is in the store already")
        self.charges[row.charge] = row

    def end_charge(self, charge: str, status: Status, index: int) -> None:
        row = self._row(charge)
        if row is None:
            raise StoreBehind("a charge that the ledger holds is not in the store")
        self.charges[charge] = replace(row, status=status, ended=index)

    def put_value(self, charge: str, value: bytes) -> None:
        self.values[charge] = value

    def charge_of(self, scope: str, key: str) -> ChargeRow | None:
        own = (row for row in self.charges.values() if (row.scope, row.key) == (scope, key))
        charge = self._store._keys.get((scope, key))
        return next(own, self._row(charge) if charge is not None else None)

    def _row(self, charge: str) -> ChargeRow | None:
        return self.charges.get(charge) or self._store._charges.get(charge)
