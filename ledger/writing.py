"""Giving bodies their place: stamp, check, sign, hash; all of them go into one append of the store."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from dpledger.ledger.entries.bodies import TIMELESS, Body
from dpledger.ledger.entries.entry import Entry, format_entry
from dpledger.ledger.saved import saved
from dpledger.ledger.signed import checkpoint, envelope, wire
from dpledger.ledger.signed.keys import Signer
from dpledger.ledger.stores.protocol import Addition, TableRows, Tail
from dpledger.ledger.tip import Head, index_entry

__all__ = ["Clock", "Writing", "utc_now"]

Clock = Callable[[], str]


def utc_now() -> str:
    """The time of an entry: for people; no rule reads it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Writing:
    """One append's worth of entries, from a head on. `known`: what the store told of what was asked as it was read;
    None where it was not read: then nothing is known of that (`is_told`)."""

    def __init__(self, signer: Signer, time: str, head: Head, known: Tail | None) -> None:
        self._ledger = signer.public.name
        self._signer = signer
        self._time = time
        self._start = head
        self._leaves: list[bytes] = []
        self._rows = TableRows()
        self.is_told = known is not None
        self.known = Tail(size=head.tree.size, leaves=(), head=head.signed) if known is None else known
        self.head = head
        self.appended: list[Entry] = []

    def append(self, body: Body) -> Entry:
        """Stamp and sign one body. The rules are checked first (`state.step`)."""
        entry = Entry(
            ledger=self._ledger,
            index=self.head.tree.size,
            previous=self.head.previous,
            body=body,
            time=None if isinstance(body, TIMELESS) else self._time,
        )
        leaf = envelope.seal(wire.dump(format_entry(entry)), self._signer)
        self.head = self.head.after(leaf, body)
        index_entry(self._rows, entry.index, body, self.head.state)
        self._leaves.append(leaf)
        self.appended.append(entry)
        return entry

    def keep_value(self, charge: str, value: bytes) -> None:
        """Keep the value of a release beside its entries, so that a repetition is answered."""
        self._rows.values.append((charge, value))

    def sign_head(self, *, is_saved: bool) -> Addition:
        """What the store is to append: the entries, with the signed head that covers them; and, if `is_saved`, with
        what is folded from all."""
        tree = self.head.tree
        head = checkpoint.Checkpoint(origin=self._ledger, size=tree.size, root=tree.root())
        return Addition(
            size=self._start.tree.size,
            after=self._start.signed,
            leaves=tuple(self._leaves),
            head=checkpoint.sign(head, self._signer),
            rows=self._rows,
            saved=saved(self.head.fold, self._signer) if is_saved else None,
        )
