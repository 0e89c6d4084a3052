"""Giving bodies their place: stamp, check, sign, hash, append; all inside one transaction of the store."""

from __future__ import annotations

from dpledger.errors import StoreBehind
from dpledger.ledger import envelope, merkle, wire
from dpledger.ledger.bodies import TIMELESS, Aborted, Body, Committed, Reserved
from dpledger.ledger.entries import Entry, format_entry
from dpledger.ledger.keys import Signer
from dpledger.ledger.state import State, step
from dpledger.ledger.stores.protocol import ChargeRow, Transaction

__all__ = ["FIRST_PREVIOUS", "Head", "Writing"]

FIRST_PREVIOUS = "0" * 64


class Head:
    """What a handle knows of the end of the log: the folded state, the tree, the last leaf."""

    __slots__ = ("last_leaf", "state", "tree")

    def __init__(self, state: State, tree: merkle.CompactRange, last_leaf: bytes | None) -> None:
        self.state = state
        self.tree = tree
        self.last_leaf = last_leaf

    def after(self, leaf: bytes, body: Body) -> Head:
        """The head once `leaf`, which holds `body`, is at the end."""
        return Head(step(self.state, body), self.tree.append(merkle.leaf_hash(leaf)), leaf)

    @property
    def previous(self) -> str:
        """What the next entry names as the one before it."""
        return FIRST_PREVIOUS if self.last_leaf is None else merkle.leaf_hash(self.last_leaf).hex()


class Writing:
    """One transaction's worth of appending, from a head on. Nothing is visible before the transaction is durable."""

    def __init__(self, ledger: str, signer: Signer, time: str, head: Head, transaction: Transaction) -> None:
        self._ledger = ledger
        self._signer = signer
        self._time = time
        self._transaction = transaction
        self.head = head

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
        self._index_charge(entry)
        return entry

    def _index_charge(self, entry: Entry) -> None:
        match entry.body:
            case Reserved(charge=charge, key=key, request=request):
                scope = self.head.state.open[charge].scope
                self._transaction.add_charge(
                    ChargeRow(charge=charge, scope=scope, key=key, request=request, status="open")
                )
            case Committed(charge=charge):
                self._transaction.end_charge(charge, "committed", entry.index)
            case Aborted(charge=charge):
                self._transaction.end_charge(charge, "aborted", entry.index)
            case _:
                pass
