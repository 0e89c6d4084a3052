"""The store for tests and for trying things out: everything is lost with the process."""

from __future__ import annotations

import threading
from dataclasses import replace

from dpledger.errors import StoreBehind
from dpledger.ledger.stores.protocol import NOTHING, Addition, AppendOutcome, ChargeRow, Question, Refusal, Tail
from dpledger.process import Home

__all__ = ["MemoryStore"]


class MemoryStore:
    """Leaves in a list.

    An append has happened once it stands at the size that it follows. Where an interrupt, or a call of a signal
    handler, falls while it is put in place, whoever comes next does that again, and a second time changes nothing."""

    def __init__(self) -> None:
        self.home = Home("a ledger in memory")
        self.lock = threading.RLock()
        self.log: list[bytes] = []
        self.charges: dict[str, ChargeRow] = {}
        self.keys: dict[tuple[str, str], str] = {}
        self.values: dict[str, bytes] = {}
        self.refusals: dict[Refusal, None] = {}
        self.heads: dict[int, bytes] = {}
        self.saved: bytes | None = None
        self._additions: dict[int, Addition] = {}

    def tail(self, start: int | None, asked: Question = NOTHING) -> Tail:
        self.home.require()
        with self.lock:
            self._finish()
            size = len(self.log)
            return Tail(
                size=size,
                leaves=() if start is None else tuple(self.log[start:size]),
                head=self.heads.get(size),
                charges=self._charges(asked),
                refusals=tuple(sorted(self.refusals)) if asked.everything else self._refusals(asked),
                value=None if asked.charge is None else self.values.get(asked.charge),
                saved=self.saved if asked.saved else None,
            )

    def _charges(self, asked: Question) -> tuple[ChargeRow, ...]:
        if asked.everything:
            return tuple(self.charges[charge] for charge in sorted(self.charges))
        used = None if asked.key is None else self.keys.get(asked.key)
        return tuple(self.charges[one] for one in dict.fromkeys((used, asked.charge)) if one in self.charges)

    def _refusals(self, asked: Question) -> tuple[Refusal, ...]:
        return (asked.refusal,) if asked.refusal is not None and asked.refusal in self.refusals else ()

    def append(self, addition: Addition) -> AppendOutcome:
        self.home.require()
        with self.lock:
            self._finish()
            if addition.size != len(self.log) or addition.after not in (None, self.heads.get(addition.size)):
                return "failed"
            self._require_fits(addition)
            # in one step, so that of two appends of one thread, one inside the other, one is first
            if self._additions.setdefault(addition.size, addition) is not addition:
                return "failed"
            self._finish()
            return "done"

    def _require_fits(self, addition: Addition) -> None:
        opened: set[str] = set()
        keys: set[tuple[str, str]] = set()
        for row in addition.rows.charges:
            place = (row.scope, row.key)
            if row.charge in self.charges or row.charge in opened or place in self.keys or place in keys:
                raise StoreBehind(f"charge or key {row.key!r} is in the store already")
            opened.add(row.charge)
            keys.add(place)
        for ending in addition.rows.endings:
            before = self.charges.get(ending.charge)
            if ending.charge not in opened and (before is None or before.status != "open"):
                raise StoreBehind("a charge that the ledger holds open is not open in the store")
            opened.discard(ending.charge)

    def _finish(self) -> None:
        """Put in place what was appended and is not there yet."""
        while (addition := self._additions.get(len(self.log))) is not None:
            self._put(addition)

    def _put(self, addition: Addition) -> None:
        """The leaves last: they show that all of it is in place."""
        rows, stop = addition.rows, addition.size + len(addition.leaves)
        for row in rows.charges:
            self.charges.setdefault(row.charge, row)
            self.keys[row.scope, row.key] = row.charge
        for ending in rows.endings:
            ended = replace(self.charges[ending.charge], status=ending.status, ended=ending.ended)
            self.charges[ending.charge] = ended
        self.refusals.update(dict.fromkeys(rows.refusals))
        self.values.update(rows.values)
        self.saved = addition.saved if addition.saved is not None else self.saved
        self.heads[stop] = addition.head
        self.log[addition.size : stop] = addition.leaves

    def leaves(self, start: int, stop: int) -> tuple[bytes, ...]:
        self.home.require()
        with self.lock:
            self._finish()
            return tuple(self.log[start:stop])

    def close(self) -> None:
        """Nothing is held open."""
