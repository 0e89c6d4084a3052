"""A handle of a ledger: its store, its signing key and the head that it saw last. It reads, and it appends what it is
given; what may be appended is for the ledger and its scopes to say.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self

from dpledger.decimals import whole
from dpledger.errors import ParameterError, StoreBehind
from dpledger.ledger.accounts.tables import LedgerTable, entries_table
from dpledger.ledger.entries.bodies import Audited, Body, Note
from dpledger.ledger.entries.entry import Entry, entry_of
from dpledger.ledger.handle import logging
from dpledger.ledger.handle.appending import Appending, Call, Make
from dpledger.ledger.handle.writing import Clock, Writing, utc_now
from dpledger.ledger.rules import notes
from dpledger.ledger.rules.scope_state import State
from dpledger.ledger.signed import checkpoint, envelope, keys, values
from dpledger.ledger.signed.checkpoint import Checkpoint
from dpledger.ledger.stores.protocol import NOTHING, Question, Store, TableRows, Tail, streamed
from dpledger.ledger.tip import index_entry, require_tables
from dpledger.ledger.verifying import verification
from dpledger.ledger.verifying.following import signed_entry
from dpledger.ledger.verifying.seen import read_cosigned, with_seen
from dpledger.ledger.witnessing.policy import WitnessPolicy, read_policy
from dpledger.mechanisms.entropy import Entropy, system as system_entropy
from dpledger.progress import Advance
from dpledger.schema import listed

if TYPE_CHECKING:
    from dpledger.ledger.witnessing.watch import HeadWatch

__all__ = ["Clock", "Draw", "Handle"]

Draw = Callable[[int], bytes]
"""Secret random bytes, as many as asked for: ids and salts, never noise."""

SNAPSHOT_EVERY = 1000  # entries


class Handle(Appending):
    """One process's hold on a ledger: what `Ledger` and its scopes read from and append to."""

    def __init__(
        self,
        store: Store,
        signer: keys.Signer | None,
        *,
        clock: Clock = utc_now,
        entropy: Entropy | None = None,
        draw: Draw = secrets.token_bytes,
        snapshot_every: int = SNAPSHOT_EVERY,
    ) -> None:
        super().__init__(store, signer, clock, snapshot_every)
        self._entropy = entropy if entropy is not None else system_entropy()
        self._draw = draw
        self._key_file: str | None = None  # of the signing key, where it was named
        self._watch: HeadWatch | None = None  # once it is needed, of a ledger that names witnesses

    def __repr__(self) -> str:
        """As this handle last saw it; nothing is read."""
        state = self.state
        named = "no entry yet" if state.opened is None else self.id
        count = len(state.scopes)
        seen = f"{state.size:,} entries, {count:,} scope{'' if count == 1 else 's'}"
        return f"<{type(self).__name__} {named}: {seen}{', closed' if self._is_closed else ''}>"

    # ---- reading ----------------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The ledger's id, which is also the origin of its checkpoints."""
        return self.state.keys.name

    @property
    def public_key(self) -> keys.VerifyingKey:
        """The ledger's key in force, which verifies it. A verifier gets it from you, not from the ledger."""
        return self.state.keys.own(self.state.size)

    @property
    def head(self) -> bytes:
        """The signed checkpoint."""
        head, _ = self._signed_part()
        return head

    @property
    def witnesses(self) -> WitnessPolicy | None:
        """Who cosigns a head before data are read; None in a ledger that names no witnesses."""
        watch = self._watched()
        return None if watch is None else watch.policy

    def cosigned(self, *, witnesses: WitnessPolicy | str | os.PathLike[str] | None = None) -> bytes:
        """The signed checkpoint as it is now, cosigned by a quorum of the witnesses, which are asked: keep it, or give
        it to whoever verifies (`since`). `witnesses`: the ledger's policy, with the addresses at which to ask.
        ParameterError in a ledger that names none, or others; NotWitnessed where too few cosign it, StoreBehind where
        one saw another history."""
        if witnesses is not None:
            self._watch_by(read_policy(witnesses))
        watch = self._watched()
        if watch is None:
            raise ParameterError("ledger", "one without witnesses", "one that was made with `witnesses=`")
        return watch.cosigned(len(self))

    def __len__(self) -> int:
        return self._tail().size

    def refresh(self) -> State:
        """The state, with what other processes appended since."""
        self._require_ours()
        with logging.failures(self.state), self._lock:
            self._followed(NOTHING)
        self._remember()
        return self.state

    def leaves(self, *, stop: int | None = None) -> Iterator[bytes]:
        """The envelopes, byte for byte as they were signed: all there are now, or the first `stop`."""
        size = len(self)
        return self._leaves(size if stop is None else min(whole(stop, field="stop"), size))

    def _leaves(self, stop: int) -> Iterator[bytes]:
        for leaf in streamed(self._store, stop):
            self._require_ours()
            yield leaf

    def entries(self, *, stop: int | None = None) -> LedgerTable[Entry]:
        """The entries, in order: all there are now, or the first `stop`. Iterate over them, or take `to_frame()`, a
        pandas DataFrame (`ledger.accounts.tables` lists its columns). Not a verification: see `verify`."""
        size = len(self) if stop is None else min(whole(stop, field="stop"), len(self))
        return entries_table(lambda: map(entry_of, self._leaves(size)), size)

    def entry(self, index: int) -> Entry:
        """The entry at `index`, its signature verified; that the entries before it are those that it follows, `verify`
        shows. ParameterError beyond the end."""
        place = whole(index, field="index", most=len(self) - 1)
        for leaf in self._store.leaves(place, place + 1):
            return signed_entry(place, leaf, self.id, self.state.keys)
        raise StoreBehind(f"entry {place} is gone from the store")

    def kept(self, origin: values.ValueOrigin) -> bytes | None:
        """The bytes of a kept value; None if it was not kept. VerificationError unless this ledger signed it for
        `origin`."""
        stored = self._tail(Question(charge=origin.charge)).value
        return None if stored is None else values.unsealed(stored, origin, self.state.keys.usual(origin.entry))

    def verify(
        self,
        *,
        key: keys.VerifyingKey | None = None,
        since: Sequence[Checkpoint | bytes] = (),
        witnesses: WitnessPolicy | str | os.PathLike[str] | None = None,
        advance: Advance | None = None,
    ) -> verification.Verified:
        """Verify the whole ledger, bytes first, against `key` (default: its own; then this shows that the file is
        consistent, not whose it is). `since`: heads that you kept from before, or the bytes of such files; what they
        cover must still be there. `witnesses`: a policy, its file, or the key of one witness: those that you trust to
        have cosigned these files, one or more, a quorum of them each. Raises VerificationError with the index and the
        reason; ForeignLedger for a store that is damaged, StoreBehind for one whose charges are not those of the
        entries."""
        if key is not None and not isinstance(key, keys.VerifyingKey):
            raise ParameterError("key", type(key).__name__, "a VerifyingKey (VerifyingKey.parse reads its text)")
        kept = listed(since, field="since")
        if not all(isinstance(head, (Checkpoint, bytes)) for head in kept):
            raise ParameterError("since", type(since).__name__, "a list of checkpoints, or of the bytes of their files")
        self._require_ours()
        told = self._store.tail(None, Question(everything=True, checked=True))
        own = key if key is not None else self.public_key
        leaves = self._leaves(told.size)
        trusted = None if witnesses is None else read_policy(witnesses)
        files = [head for head in kept if isinstance(head, bytes)]
        if trusted is not None and not files:
            raise ParameterError("since", "no file", "the bytes of a checkpoint that witnesses cosigned (`cosigned`)")
        cosigned = [] if trusted is None else [read_cosigned(file, trusted) for file in files]
        verified = verification.verify(leaves, _head_of(told), own, since=kept, advance=advance)
        rows = TableRows()
        for entry in verified.entries:
            index_entry(rows, entry.index, entry.body, verified.state)
        require_tables(told, rows)
        return with_seen(verified, cosigned)

    def _signed_part(self) -> tuple[bytes, Iterator[bytes]]:
        """The signed head, and the leaves that it covers."""
        tail = self._tail()
        return _head_of(tail), self._leaves(tail.size)

    # ---- writing ----------------------------------------------------------------------------------------------------

    def record(self, note: Note | notes.Noted, *, about: Sequence[str] = (), intended: int | None = None) -> Entry:
        """Append a note, which charges nothing: what an audit or a report returned, a declaration, a heartbeat.
        `about`: the scopes that a declaration or an audit is about. `intended`: the index of the entry in which
        `intend` said that this audit would be made. ParameterError for an audit whose verdict is not that of its
        numbers, that is not about its scopes, or is another than was intended."""
        said = notes.note_of(note)
        if intended is not None:
            said = notes.finishing(said, whole(intended, field="intended"))
        asked = Question(charge=said.charge if isinstance(said, Audited) else None)
        return self.transact(lambda state, writing: [notes.placed(said, about, state, writing.known.charges)], asked)[0]

    def transact(
        self,
        make: Make,
        asked: Question = NOTHING,
        *,
        is_new: bool = False,
        successor: keys.Signer | None = None,
    ) -> tuple[Entry, ...]:
        """Append the bodies that `make` returns for the state and what the store knows of what is `asked`: all of them,
        durably, behind what they were made for, or none. The new head is seen by nobody before it is durable.

        What several threads ask for at once is appended together, by one of them (`appending`). The store is not locked
        meanwhile: where others appended, `make` is asked again. An append whose reply was lost is said again, and is
        there once. `successor`: what signs from here on, where they name its key.

        Where nothing is asked, or the answer can hardly be other than nothing (`is_new`), the store is not read first:
        the append says whether the handle knows its end. Whatever else comes of it than an append, `make` is asked
        again with what the store says.

        In a ledger that names witnesses, bodies that let data be read are cosigned when this returns. NotWitnessed or
        StoreBehind where they are not: they are appended all the same, unless that was known before."""
        watch = self._watched()
        if watch is None:
            return self._transacted(make, asked, is_new, successor)
        lets_read = False

        def watched(state: State, writing: Writing) -> Sequence[Body]:
            nonlocal lets_read
            bodies = make(state, writing)
            lets_read = watch.lets_read(bodies, state.size)
            return bodies

        while True:
            entries: tuple[Entry, ...] | None = None
            with suppress(watch.Unsure):
                entries = self._transacted(watched, asked, is_new, successor)
            if entries is None:
                watch.cover(self.state.size)  # before anything is charged
                continue
            if successor is not None:
                watch.doubt()  # whether they take heads of that key
            if entries and lets_read:
                watch.cover(entries[-1].index + 1)
            return entries

    def cover(self) -> None:
        """Return once all that this handle appended for data to be read is cosigned, where witnesses are named: for
        what is said again after it was interrupted."""
        watch = self._watched()
        if watch is not None:
            watch.cover_owed(self.state.size)

    def _transacted(
        self, make: Make, asked: Question, is_new: bool, successor: keys.Signer | None
    ) -> tuple[Entry, ...]:
        with logging.failures(self.state):
            written = self._written(Call(make, asked, is_new or asked == NOTHING, successor))
        logging.appended(written.appended if written.made else ())
        return tuple(written.made)

    def _watched(self) -> HeadWatch | None:
        opened = self.state.opened
        if self._watch is None and opened is not None and opened.witness_policy is not None:
            self._watch_by(WitnessPolicy.written(opened.witness_policy))
        return self._watch

    def _watch_by(self, policy: WitnessPolicy) -> None:
        """From here on the witnesses are asked where `policy` says. ParameterError unless it is that of the ledger."""
        self._require_ours()
        opened = self.state.opened
        named = (
            None if opened is None or opened.witness_policy is None else WitnessPolicy.written(opened.witness_policy)
        )
        if named is None or named.without_urls != policy.without_urls:
            raise ParameterError("witnesses", "another policy", f"that of the ledger {self.id}, or none")
        from dpledger.ledger.witnessing.watch import HeadWatch  # the network is loaded where somebody is asked

        with self._lock:
            if self._watch is None or self._watch.policy != policy:
                self._watch = HeadWatch(policy, self._store, lambda: self._head.tree, countersigned=self._countersigned)

    def _countersigned(self, note: bytes) -> bytes:
        """A head, with a line of the ledger's key too where that delegates to one that no witness knows. By a handle
        that only reads, as it is."""
        head, lines = checkpoint.parse_unverified(note)
        signer = self._signer
        if signer is None or any(line.key_id == signer.public.key_id for line in lines):
            return note
        return note + checkpoint.sign(head, signer).partition(b"\n\n")[2]

    def stated(self, payload: bytes) -> bytes:
        """A statement beside the ledger, under its key: the envelope of an in-toto statement, which is in no tree.
        ParameterError for one that is too long, and for a handle without the signing key."""
        return envelope.seal(payload, self._key(), envelope.STATEMENT_TYPE)

    @property
    def entropy(self) -> Entropy:
        """Where releases draw their noise from."""
        return self._entropy

    def draw(self, count: int) -> bytes:
        """`count` secret random bytes, for ids and salts."""
        return self._draw(count)

    # ---- life of the handle -----------------------------------------------------------------------------------------

    def _tail(self, asked: Question = NOTHING) -> Tail:
        """Without leaves."""
        self._require_ours()
        return self._store.tail(None, asked)

    def close(self) -> None:
        """Close the store; in a forked child it closes nothing, as the connection stays its parent's."""
        self._is_closed = True
        if self._watch is not None:
            self._watch.close()
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a ledger handle does not pickle: open the ledger in the other process")


def _head_of(tail: Tail) -> bytes:
    if tail.head is None:
        raise StoreBehind("the signed head is gone from the store")
    return tail.head
