"""A handle of a ledger: its store, its signing key and the head that it saw last. It reads, and it appends what it is
given; what may be appended is for the ledger and its scopes to say.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import NoReturn, Self

from dpledger.decimals import whole
from dpledger.errors import ParameterError, PolicyError, StoreBehind
from dpledger.ledger import logging, remembered
from dpledger.ledger.accounts.tables import LedgerTable, entries_table
from dpledger.ledger.entries.bodies import Body, Note, Snapshot
from dpledger.ledger.entries.entry import Entry, entry_of, signed_entry
from dpledger.ledger.rules import notes
from dpledger.ledger.rules.scope_state import State, state_digest
from dpledger.ledger.signed import envelope, keys, values
from dpledger.ledger.signed.checkpoint import Checkpoint
from dpledger.ledger.stores.protocol import Reader, Store, Transaction
from dpledger.ledger.tip import START, Head, caught_up
from dpledger.ledger.verifying import verification
from dpledger.ledger.writing import Clock, Writing, utc_now
from dpledger.mechanisms.entropy import Entropy, system as system_entropy
from dpledger.process import Home
from dpledger.progress import Advance
from dpledger.schema import listed

__all__ = ["Clock", "Draw", "Handle", "Make"]

Draw = Callable[[int], bytes]
"""Secret random bytes, as many as asked for: ids and salts, never noise."""
Make = Callable[[State, Transaction], Sequence[Body]]
"""Given the state and the open transaction, the bodies to append."""

SNAPSHOT_EVERY = 1000  # entries
BATCH = 500  # leaves fetched at a time


class Handle:
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
        self._store = store
        self._signer = signer
        self._clock = clock
        self._entropy = entropy if entropy is not None else system_entropy()
        self._draw = draw
        self._snapshot_every = snapshot_every
        self._lock = threading.RLock()
        self._home = Home("a ledger handle")
        self._is_closed = False
        self._head = START
        self._heads: remembered.Heads | None = None  # of a store that nobody remembers

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
        return self.public_key.name

    @property
    def state(self) -> State:
        """The folded state, as this handle last saw it (`refresh` looks again)."""
        return self._head.state

    @property
    def public_key(self) -> keys.VerifyingKey:
        """The key that verifies this ledger. A verifier gets it from you, not from the ledger."""
        opened = self.state.opened
        assert opened is not None, "a handle is made with its first entry"
        return keys.VerifyingKey.parse(opened.public_key)

    @property
    def head(self) -> bytes:
        """The signed checkpoint."""
        head, _ = self._signed_part()
        return head

    def __len__(self) -> int:
        with self._reading() as reader:
            return reader.size

    def refresh(self) -> State:
        """The state, with what other processes appended since."""
        self._require_ours()
        with logging.failures(self.state), self._lock, self._reading() as reader:
            self._head = caught_up(self._head, reader, self._signer)
        self._remember()
        return self.state

    def leaves(self, *, stop: int | None = None) -> Iterator[bytes]:
        """The envelopes, byte for byte as they were signed: all there are now, or the first `stop`."""
        size = len(self)
        return self._leaves(size if stop is None else min(whole(stop, field="stop"), size))

    def _leaves(self, stop: int) -> Iterator[bytes]:
        for start in range(0, stop, BATCH):
            with self._reading() as reader:
                batch = list(reader.leaves(start, min(stop, start + BATCH)))
            yield from batch

    def entries(self, *, stop: int | None = None) -> LedgerTable[Entry]:
        """The entries, in order: all there are now, or the first `stop`. Iterate over them, or take `to_frame()`, a
        pandas DataFrame (`ledger.accounts.tables` lists its columns). Not a verification: see `verify`."""
        size = len(self) if stop is None else min(whole(stop, field="stop"), len(self))
        return entries_table(lambda: map(entry_of, self._leaves(size)), size)

    def entry(self, index: int) -> Entry:
        """The entry at `index`, its signature verified; that the entries before it are those that it follows, `verify`
        shows. ParameterError beyond the end."""
        place = whole(index, field="index", most=len(self) - 1)
        with self._reading() as reader:
            leaf = reader.leaf(place)
        return signed_entry(leaf, self.public_key, place)

    def kept(self, origin: values.ValueOrigin) -> bytes | None:
        """The bytes of a kept value; None if it was not kept. VerificationError unless this ledger signed it for
        `origin`."""
        with self._reading() as reader:
            stored = reader.value(origin.charge)
        return None if stored is None else values.unsealed(stored, origin, self.public_key)

    def verify(
        self,
        *,
        key: keys.VerifyingKey | None = None,
        since: Sequence[Checkpoint] = (),
        advance: Advance | None = None,
    ) -> verification.Verified:
        """Verify the whole ledger, bytes first, against `key` (default: its own; then this shows that the file is
        consistent, not whose it is). Raises VerificationError with the index and the reason."""
        if key is not None and not isinstance(key, keys.VerifyingKey):
            raise ParameterError("key", type(key).__name__, "a VerifyingKey (VerifyingKey.parse reads its text)")
        remembered = listed(since, field="since")
        if not all(isinstance(head, Checkpoint) for head in remembered):
            raise ParameterError("since", type(since).__name__, "a list of checkpoints (Checkpoint.parse reads one)")
        head, leaves = self._signed_part()
        own = key if key is not None else self.public_key
        return verification.verify(leaves, head, own, since=remembered, advance=advance)

    def _signed_part(self) -> tuple[bytes, Iterator[bytes]]:
        """The signed head, and the leaves that it covers."""
        with self._reading() as reader:
            head, size = reader.checkpoint(), reader.size
        if head is None:
            raise StoreBehind("the signed head is gone from the store")
        return head, self._leaves(size)

    # ---- writing ----------------------------------------------------------------------------------------------------

    def record(self, note: Note | notes.Noted, *, about: Sequence[str] = (), intended: int | None = None) -> Entry:
        """Append a note, which charges nothing: what an audit or a report returned, a declaration, a heartbeat.
        `about`: the scopes that a declaration or an audit is about. `intended`: the index of the entry in which
        `intend` said that this audit would be made. ParameterError for an audit whose verdict is not that of its
        numbers, that is not about its scopes, or is another than was intended."""
        said = notes.note_of(note)
        if intended is not None:
            said = notes.finishing(said, whole(intended, field="intended"))
        return self.transact(lambda state, store: [notes.placed(said, about, state, store)])[0]

    def transact(self, make: Make) -> tuple[Entry, ...]:
        """Append the bodies that `make` returns, in one durable transaction that excludes every other writer. The new
        head is signed in it, and seen by nobody before it is durable."""
        signer = self._key()
        with logging.failures(self.state), self._lock:
            known = self._known()
            with self._store.transaction() as transaction:
                self._head = caught_up(self._head, transaction, self._signer)
                remembered.require_seen(known, self._head, transaction)
                if self.state.closed:
                    raise PolicyError("the ledger was ended: nothing may follow; open a new one")
                writing = Writing(signer, self._clock(), self._head, transaction)
                entries = tuple(writing.append(body) for body in make(self.state, transaction))
                if entries:
                    if self._is_snapshot_due(writing.head):
                        writing.append(Snapshot(state_digest(writing.head.state)))
                    writing.sign_head()
            self._head = writing.head
        self._remember()
        logging.appended(writing.appended)
        return entries

    def _known(self) -> remembered.SeenHead | None:
        """The newest head that was seen here: to be read before the store is."""
        return None if self._heads is None else self._heads.newest()

    def _remember(self) -> None:
        """What this handle has seen, outside of the ledger; once it is durable."""
        if self._heads is not None:
            self._heads.keep(remembered.SeenHead.of(self._head))

    def seal(self, value: bytes, origin: values.ValueOrigin) -> bytes:
        """The bytes of a value as the store is to hold them, signed as that of `origin`. The inverse of `kept`."""
        return values.sealed(value, origin, self._key())

    def stated(self, payload: bytes) -> bytes:
        """A statement beside the ledger, under its key: the envelope of an in-toto statement, which is in no tree.
        ParameterError for one that is too long, and for a handle without the signing key."""
        return envelope.seal(payload, self._key(), envelope.STATEMENT_TYPE)

    def _is_snapshot_due(self, after: Head) -> bool:
        every = self._snapshot_every
        return not after.state.closed and after.tree.size // every > self._head.tree.size // every

    @property
    def entropy(self) -> Entropy:
        """Where releases draw their noise from."""
        return self._entropy

    def draw(self, count: int) -> bytes:
        """`count` secret random bytes, for ids and salts."""
        return self._draw(count)

    # ---- life of the handle -----------------------------------------------------------------------------------------

    def _reading(self) -> AbstractContextManager[Reader]:
        self._require_ours()
        return self._store.reading()

    def _key(self) -> keys.Signer:
        self._require_ours()
        if self._signer is None:
            raise ParameterError("key", "none", "the signing key of the ledger (it is open for reading only)")
        return self._signer

    def _require_ours(self) -> None:
        self._home.require()
        if self._is_closed:
            raise PolicyError("the ledger handle is closed: open the ledger again")

    def close(self) -> None:
        """Close the store; in a forked child it closes nothing, as the connection stays its parent's."""
        self._is_closed = True
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a ledger handle does not pickle: open the ledger in the other process")
