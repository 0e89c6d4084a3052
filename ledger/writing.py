"""Giving bodies their place: stamp, check, sign, hash, append; all inside one transaction of the store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dpledger.errors import StoreBehind, VerificationError
from dpledger.ledger import checkpoint, envelope, merkle, wire
from dpledger.ledger.bodies import TIMELESS, Aborted, Body, Committed, Reserved
from dpledger.ledger.entries import Entry, entry_of, format_entry
from dpledger.ledger.keys import Signer
from dpledger.ledger.standing import EMPTY, State
from dpledger.ledger.state import step
from dpledger.ledger.stores.protocol import ChargeRow, Transaction

__all__ = ["FIRST_PREVIOUS", "START", "Head", "Writing", "index_charge"]

FIRST_PREVIOUS = "0" * 64


@dataclass(frozen=True, slots=True)
class Head:
    """What a handle knows of the end of the log: the folded state, the tree, the last leaf."""

    state: State
    tree: merkle.CompactRange
    last_leaf: bytes | None

    def after(self, leaf: bytes, body: Body) -> Head:
        """The head once `leaf`, which holds `body`, is at the end."""
        return Head(step(self.state, body), self.tree.append(merkle.leaf_hash(leaf)), leaf)

    def after_all(self, leaves: Iterable[bytes]) -> Head:
        """The head once `leaves` follow. Their signatures are not verified: check the root."""
        head = self
        for leaf in leaves:
            try:
                head = head.after(leaf, entry_of(leaf).body)
            except VerificationError as error:
                raise VerificationError(error.reason, index=head.tree.size) from None
        return head

    @property
    def previous(self) -> str:
        """What the next entry names as the one before it."""
        return FIRST_PREVIOUS if self.last_leaf is None else merkle.leaf_hash(self.last_leaf).hex()


START = Head(EMPTY, merkle.CompactRange(), None)


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
        index_charge(self._transaction, entry.index, body, self.head.state)
        return entry

    def sign_head(self) -> None:
        """Replace the signed head, in the same transaction as the entries that it covers."""
        tree = self.head.tree
        head = checkpoint.Checkpoint(origin=self._ledger, size=tree.size, root=tree.root())
        self._transaction.put_checkpoint(checkpoint.sign(head, self._signer))


def index_charge(transaction: Transaction, index: int, body: Body, after: State) -> None:
    """Keep the store's table of charges and keys in step with the entry that holds `body`, at `index`."""
    match body:
        case Reserved(charge=charge, key=key, request=request):
            scope = after.open[charge].scope
            transaction.add_charge(ChargeRow(charge=charge, scope=scope, key=key, request=request, status="open"))
        case Committed(charge=charge):
            transaction.end_charge(charge, "committed", index)
        case Aborted(charge=charge):
            transaction.end_charge(charge, "aborted", index)
        case _:
            pass
