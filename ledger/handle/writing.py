"""Giving bodies their place: stamp, check, sign, hash. What several callers write goes into one append of the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from dpledger.errors import ForeignLedger
from dpledger.ledger.entries.bodies import TIMELESS, Body, KeyDelegated
from dpledger.ledger.entries.entry import Entry, format_entry
from dpledger.ledger.rules.scope_state import State
from dpledger.ledger.saved import saved
from dpledger.ledger.signed import checkpoint, envelope, values, wire
from dpledger.ledger.signed.keys import Signer, VerifyingKey
from dpledger.ledger.signers.delegating import Delegating
from dpledger.ledger.stores.protocol import Addition, Question, TableRows, Tail
from dpledger.ledger.tip import Head, index_entry

__all__ = ["Clock", "Writing", "utc_now", "with_rows"]

Clock = Callable[[], str]


def utc_now() -> str:
    """The time of an entry: for people; no rule reads it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Writing:
    """The entries of one caller, from a head on. `known`: what the store told of what was asked as it was read;
    None where it was not read: then nothing is known of that (`is_told`). `successor`: what signs once an entry names
    its key."""

    def __init__(
        self, signer: Signer, time: str, head: Head, known: Tail | None, *, successor: Signer | None = None
    ) -> None:
        self._ledger = signer.public.name
        self._signers = [signer, *([signer.entry] if isinstance(signer, Delegating) else [])]
        if successor is not None:
            self._signers += [successor, *([successor.entry] if isinstance(successor, Delegating) else [])]
        self._time = time
        self._start = head
        self.leaves: list[bytes] = []
        self.rows = TableRows()
        self.is_told = known is not None
        self.known = Tail(size=head.tree.size, leaves=(), head=head.signed) if known is None else known
        self.head = head
        self.appended: list[Entry] = []
        self.made: list[Entry] = []  # of these, what was asked for: no snapshot, no delegation

    def write(self, make: Callable[[State, Writing], Sequence[Body]]) -> None:
        """Append what `make` returns."""
        self.delegate()
        self.made = [self.append(body) for body in make(self.head.state, self)]

    def delegate(self) -> None:
        """See that what signs here may sign the next entries: the ledger's key delegates them, or takes them back."""
        signer, authority, index = self._signers[0], self.head.state.authority, self.head.tree.size
        if authority is None or authority.revoked or authority.own(index) != signer.public:
            return  # the first entry; or `append` refuses
        usual = authority.usual(index)
        if not isinstance(signer, Delegating):
            if usual != signer.public:
                self.append(KeyDelegated())
            return
        last = authority.terms[-1].last
        if usual == signer.entry.public and last is not None and last - index >= signer.room:
            return
        if any(term.key == signer.entry.public.text for term in authority.terms):
            signer.renew()
            self._signers[1] = signer.entry
        self.append(KeyDelegated(public_key=signer.entry.public.text, last=index + signer.entries))

    def append(self, body: Body) -> Entry:
        """Stamp and sign one body. The rules are checked first (`state.step`). ForeignLedger where the key that is to
        sign is not here."""
        index, authority = self.head.tree.size, self.head.state.authority
        signer = self._signers[0] if authority is None else self._signer_of(authority.signer(index, body))
        entry = Entry(
            ledger=self._ledger,
            index=self.head.tree.size,
            previous=self.head.previous,
            body=body,
            time=None if isinstance(body, TIMELESS) else self._time,
        )
        leaf = envelope.seal(wire.dump(format_entry(entry)), signer)
        self.head = self.head.after(leaf, body)
        index_entry(self.rows, entry.index, body, self.head.state)
        self.leaves.append(leaf)
        self.appended.append(entry)
        return entry

    def _signer_of(self, key: VerifyingKey) -> Signer:
        for signer in self._signers:
            if signer.public == key:
                return signer
        raise ForeignLedger(
            f"the signing key is not the one in force, {key.key_id_hex}: the ledger's key was rotated, or revoked; "
            "open the ledger with the key in force"
        )

    def keep_value(self, value: bytes, origin: values.ValueOrigin) -> None:
        """Keep the value of a release beside its entries, sealed as that of `origin`, so that a repetition is
        answered."""
        signer = self._signer_of(self.head.state.keys.usual(origin.entry))
        self.rows.values.append((origin.charge, values.sealed(value, origin, signer)))

    def sign_head(self, parts: Sequence[Writing], *, is_saved: bool) -> Addition:
        """What the store is to append: the entries of all `parts`, of which this is the last, with the signed head that
        covers them; and, if `is_saved`, with what is folded from all. That the ledger's own key signs; one that
        delegates is asked for it where it signs anyhow."""
        tree, authority = self.head.tree, self.head.state.keys
        head = checkpoint.Checkpoint(origin=self._ledger, size=tree.size, root=tree.root())
        if isinstance(self._signers[0], Delegating):
            is_saved = is_saved and any(isinstance(one.body, KeyDelegated) for part in parts for one in part.appended)
        return Addition(
            size=parts[0]._start.tree.size,
            after=parts[0]._start.signed,
            leaves=tuple(leaf for part in parts for leaf in part.leaves),
            head=checkpoint.sign(head, self._signer_of(authority.of_head(tree.size))),
            rows=TableRows(
                charges=[row for part in parts for row in part.rows.charges],
                endings=[ending for part in parts for ending in part.rows.endings],
                refusals=[refusal for part in parts for refusal in part.rows.refusals],
                values=[value for part in parts for value in part.rows.values],
            ),
            saved=saved(self.head.fold, self._signer_of(authority.own(tree.size))) if is_saved else None,
        )


def with_rows(told: Tail, asked: Question, follow: Sequence[TableRows]) -> Tail:
    """What a store `told` of what was `asked`, as it is once these rows follow."""
    charges = {row.charge: row for row in told.charges}
    refusals, value = told.refusals, told.value
    for rows in follow:
        asked_rows = (row for row in rows.charges if (row.scope, row.key) == asked.key or row.charge == asked.charge)
        charges.update((row.charge, row) for row in asked_rows)
        for ending in rows.endings:
            if ending.charge in charges:
                ended = replace(charges[ending.charge], status=ending.status, ended=ending.ended)
                charges[ending.charge] = ended
        refusals += tuple(one for one in rows.refusals if one == asked.refusal)
        value = next((kept for charge, kept in rows.values if charge == asked.charge), value)
    return replace(told, charges=tuple(charges.values()), refusals=refusals, value=value)
