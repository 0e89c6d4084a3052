"""A store whose replies are lost."""

from __future__ import annotations

from dpledger.errors import StoreFailure
from dpledger.ledger.stores.protocol import Addition, AppendOutcome, Store

__all__ = ["Losing"]


class Losing:
    """A store whose reply is lost, as often as `fails` says: after its append, before, or both in turn. With "full" it
    says that nothing was written. `skips`: how many appends go well before."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.fails: list[str] = []
        self.skips = 0
        self.tail, self.leaves, self.close = inner.tail, inner.leaves, inner.close

    def append(self, addition: Addition) -> AppendOutcome:
        if self.skips:
            self.skips -= 1
            return self._inner.append(addition)
        fails = self.fails.pop(0) if self.fails else None
        if fails == "full":
            raise StoreFailure("the disk is full")
        if fails == "before":
            return "unknown"
        outcome = self._inner.append(addition)
        if fails == "after and raises":
            raise StoreFailure("the reply was lost")
        return "unknown" if fails == "after" else outcome
