"""Giving bodies their place: stamp, check, sign, hash, append; all inside one transaction of the store."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from dpledger.errors import StoreBehind
from dpledger.ledger.entries.bodies import TIMELESS, Body
from dpledger.ledger.entries.entry import Entry, format_entry
from dpledger.ledger.signed import checkpoint, envelope, wire
from dpledger.ledger.signed.keys import Signer
from dpledger.ledger.stores.protocol import Transaction
from dpledger.ledger.tip import Head, index_entry

__all__ = ["Clock", "Writing", "utc_now"]

Clock = Callable[[], str]


def utc_now() -> str:
    """The time of an entry: for people; no rule reads it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Writing:
    """One transaction's worth of appending, from a head on. Nothing is visible before the transaction is durable."""

    def __init__(self, signer: Signer, time: str, head: Head, transaction: Transaction) -> None:
        self._ledger = signer.public.name
        self._signer = signer
        self._time = time
        self._transaction = transaction
        self.head = head
        self.appended: list[Entry] = []

    def append(self, body: Body) -> Entry:
        """Stamp, sign and append one body. The rules are checked first (`state.step`)."""
        entry = Entry(
            ledger=self._ledger,
            index=self.head.tree.size,
            previous=self.head.previous,
            body=body,
            time=None if isinstance(body, TIMELESS) else self._time,
        )
        leaf = envelope.seal(wire.dump(format_entry(entry)), self._signer)
        self.head = self.head.after(leaf, body)
        if self._transaction.append(leaf) != entry.index:
            raise StoreBehind("the store has another size than the handle")
        index_entry(self._transaction, entry.index, body, self.head.state)
        self.appended.append(entry)
        return entry

    def sign_head(self) -> None:
        """Replace the signed head, in the same transaction as the entries that it covers."""
        tree = self.head.tree
        head = checkpoint.Checkpoint(origin=self._ledger, size=tree.size, root=tree.root())
        self._transaction.put_checkpoint(checkpoint.sign(head, self._signer))
