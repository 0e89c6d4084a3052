"""The verification recipe, numbered, over bytes. Each step raises VerificationError with the index and the reason.

    1  the parts are there: a head, and as many leaves as it says
    2  the head: a strict checkpoint, of the ledger that the verifier's key is named after
    3  the leaves hash to its root
    4  it is consistent with every head that the verifier remembers
    5  the keys, followed from the first entry: the verifier's is one of them, and the head is signed by the one in
       force                                                           `quick` ends here: these are the signed bytes
    6  each envelope: strict, signed by the key in force at its index
    7  each payload: the byte profile, the schema, this ledger, contiguous indices, `previous` the hash of the leaf
       before
    8  the fold: every transition legal, every key, charge and refusal once, every level within its filter at every
       prefix, refunds only by rule, refusals of what did not fit, audits that do not contradict themselves, snapshots
       equal
    9  the charges: each request is the digest of what is reserved; each level is charged at least what its filter asks
       for the recorded parts; claims follow from parts
   10  what is left over is reported: open charges, refusals, entries that no witness has seen

Keys come from the verifier, never from what is verified. Pure: no file, no clock, no network.

What no verifier can see without a head of its own (`since`): that the tail was cut back to an older genuine head, and
that whoever stole the key wrote another history.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal, NoReturn, TypeAlias, assert_never

from dpledger.errors import DpledgerError, ParameterError, VerificationError
from dpledger.ledger.entries.bodies import (
    Aborted,
    Audited,
    Closed,
    Committed,
    Declared,
    Heartbeat,
    Intended,
    KeyDelegated,
    KeyRevoked,
    KeyRotated,
    LedgerOpened,
    Lost,
    OwnerRotated,
    PlanRegistered,
    PolicyChanged,
    Progress,
    Refused,
    Reported,
    Reserved,
    RollbackAccepted,
    ScopeOpened,
    Snapshot,
    Started,
)
from dpledger.ledger.entries.entry import FIRST_PREVIOUS, Entry, last_trusted_of
from dpledger.ledger.entries.members import Attestation
from dpledger.ledger.rules import notes
from dpledger.ledger.rules.authority import Authority
from dpledger.ledger.rules.scope_state import EMPTY, State
from dpledger.ledger.rules.transitions import charged_scope, step
from dpledger.ledger.signed import checkpoint, merkle
from dpledger.ledger.signed.checkpoint import Checkpoint
from dpledger.ledger.signed.keys import VerifyingKey
from dpledger.ledger.verifying import claims
from dpledger.ledger.verifying.following import Following, authority_after, signed_entry
from dpledger.progress import Advance

__all__ = ["Remembered", "Verified", "verify", "verify_quick"]

Remembered: TypeAlias = Checkpoint | bytes
"""A head that a verifier remembers, or the bytes of its file, whose signature is verified then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What was verified, and how far.

    `mode`: quick (the bytes are those that were signed, nothing more) or full. `witnessed`: the number of entries under
    a head that somebody else holds; what follows could still be cut off unseen. A head as new as the record could be
    its own, and counts for none: `is_own` says that only such were given. `entries` and `state` are empty in quick."""

    mode: Literal["quick", "full"]
    head: Checkpoint
    key: VerifyingKey
    witnessed: int
    entries: tuple[Entry, ...]
    state: State
    is_own: bool = False

    def __repr__(self) -> str:
        return f"<Verified ({self.mode}): {self.head.size:,} entries of {self.head.origin}>"

    @property
    def unwitnessed(self) -> int:
        """How many entries follow the last one that somebody else holds a head of."""
        return self.head.size - self.witnessed

    @property
    def attested(self) -> Mapping[int, Attestation]:
        """By the index of the entry that charges it, what ran elsewhere: that each is priced and settled by the rules
        is verified; that it ran as its parts say is the word of whoever it names. Empty in quick."""
        said = ((entry.index, entry.body.attested) for entry in self.entries if isinstance(entry.body, Reserved))
        return {index: attestation for index, attestation in said if attestation is not None}


def verify_quick(
    leaves: Iterable[bytes], head: bytes, key: VerifyingKey, *, since: Sequence[Remembered] = ()
) -> Verified:
    """Steps 1 to 5, in flat memory for leaves that can be gone through again. `since`: heads that the verifier
    remembers."""
    read = _read(leaves, head, key, since)
    read.require_signed(read.keys.followed(), key)
    seen, is_own = _witnessed(read.since, read.head)
    return Verified(mode="quick", head=read.head, key=key, witnessed=seen, entries=(), state=EMPTY, is_own=is_own)


def verify(
    leaves: Iterable[bytes],
    head: bytes,
    key: VerifyingKey,
    *,
    since: Sequence[Remembered] = (),
    advance: Advance | None = None,
) -> Verified:
    """Steps 1 to 10. `leaves`: no more are read than the head covers, and one; those that can be gone through again
    are, one at a time. `key`: the ledger's key, or the one before or after it: the keys are followed. `since`: heads
    that the verifier remembers. `advance` is called with 1 after each entry."""
    read = _read(leaves, head, key, since)
    wrong: VerificationError | None = None
    try:
        read.require_signed(read.keys.followed(), key)
    except VerificationError as error:
        if error.index is None:
            raise
        wrong = error  # the first entry at fault is named below: this one, or one before it
    entries: list[Entry] = []
    state, previous, tree = replace(EMPTY, last_trusted=read.last_trusted), FIRST_PREVIOUS, merkle.CompactRange()
    used = _Used()
    for index, leaf in enumerate(islice(read.leaves, read.head.size)):
        entry = _entry_at(index, leaf, previous, read.head.origin, state.authority)
        state = _step_at(index, state, entry, used)
        leaf_hash = merkle.leaf_hash(leaf)
        previous, tree = leaf_hash.hex(), tree.append(leaf_hash)
        entries.append(entry)
        if advance is not None:
            advance(1)
    if wrong is not None:
        raise wrong
    if (tree.size, tree.root()) != (read.head.size, read.head.root):
        raise VerificationError("the record was changed while it was read: verify a copy of it")
    read.require_signed(state.keys, key)
    seen, is_own = _witnessed(read.since, read.head)
    return Verified(
        mode="full",
        head=read.head,
        key=key,
        witnessed=seen,
        entries=tuple(entries),
        state=state,
        is_own=is_own,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """A record whose leaves hash to the root of its head. Whose key signed that, the followed keys tell.

    `since`: the remembered heads; `signed_since`: of those, the ones whose signature is to be verified as well."""

    head: Checkpoint
    note: bytes
    leaves: Iterable[bytes]
    keys: Following
    last_trusted: int | None
    since: Sequence[Checkpoint]
    signed_since: Sequence[bytes]

    def require_signed(self, authority: Authority, key: VerifyingKey) -> None:
        """Step 5: the verifier's key is one of the record's own, and the heads are signed by those in force."""
        authority.require_trusted(key, self.last_trusted)
        checkpoint.verify(self.note, authority.of_head(self.head.size))
        for note in self.signed_since:
            head, _ = checkpoint.parse_unverified(note)
            signer = authority.of_head(head.size) if head.size == self.head.size else authority.usual(head.size)
            try:
                checkpoint.verify(note, signer)
            except VerificationError as error:
                expected = f"a head that a key of this ledger signed ({error.reason})"
                raise ParameterError("since", f"a head of {head.size} entries", expected) from None


def _read(leaves: Iterable[bytes], head: bytes, key: VerifyingKey, since: Sequence[Remembered]) -> _Read:
    """Steps 1 to 4."""
    signed, lines = checkpoint.parse_unverified(head)
    if signed.origin != key.name:
        raise VerificationError("checkpoint: of another ledger than the key")
    if any((line.name, line.key_id) == (key.name, key.key_id) for line in lines):
        checkpoint.verify(head, key)
    kept = [one if isinstance(one, Checkpoint) else checkpoint.parse_unverified(one)[0] for one in since]
    at_most = signed.size + 1
    stored = tuple(islice(leaves, at_most)) if isinstance(leaves, Iterator) else leaves  # what goes by once is kept
    sizes = {other.size for other in kept}
    tree, roots = merkle.CompactRange(), {0: merkle.EMPTY_ROOT}
    keys, leaf = Following(signed.origin), b""
    for leaf in islice(stored, at_most):
        tree = tree.append(merkle.leaf_hash(leaf))
        keys.see(leaf)
        if tree.size in sizes:
            roots[tree.size] = tree.root()
    if (tree.size, tree.root()) != (signed.size, signed.root):
        _name_the_entry(islice(stored, at_most), signed)
    for other in kept:
        _require_consistent(other, signed, roots)
    return _Read(
        head=signed,
        note=head,
        leaves=stored,
        keys=keys,
        last_trusted=last_trusted_of(leaf),
        since=kept,
        signed_since=[one for one in since if isinstance(one, bytes)],
    )


def _require_consistent(other: Checkpoint, signed: Checkpoint, roots: dict[int, bytes]) -> None:
    if other.origin != signed.origin:
        raise VerificationError(f"a remembered head is of another ledger: {other.origin}")
    if other.size > signed.size:
        raise VerificationError(
            f"the record ends here, a remembered head covers {other.size} entries", index=signed.size
        )
    if roots[other.size] != other.root:
        raise VerificationError(
            f"at or before this entry, the record is not the one that a remembered head of {other.size} entries is of",
            index=max(0, other.size - 1),
        )


def _name_the_entry(leaves: Iterable[bytes], signed: Checkpoint) -> NoReturn:
    """The leaves are not those of the head: say which entry is at fault, where one can be named."""
    previous, size = FIRST_PREVIOUS, 0
    authority: Authority | None = None
    for index, leaf in enumerate(leaves):
        body = _entry_at(index, leaf, previous, signed.origin, authority).body
        try:
            authority = authority_after(authority, index, body)
        except VerificationError as error:
            raise error.at(index) from None
        previous, size = merkle.leaf_hash(leaf).hex(), index + 1
    if size < signed.size:
        reason, index = f"the record ends here, its signed head covers {signed.size} entries", size
    elif size > signed.size:
        reason, index = f"beyond the signed head, which covers {signed.size} entries", signed.size
    else:
        reason, index = "each entry is signed and linked, and yet the signed head is of others", size - 1
    raise VerificationError(reason, index=index)


def _entry_at(index: int, leaf: bytes, previous: str, origin: str, authority: Authority | None) -> Entry:
    """Steps 6 and 7."""
    entry = signed_entry(index, leaf, origin, authority)
    if entry.previous != previous:
        raise VerificationError("does not follow the entry before it", index=index)
    return entry


class _Used:
    """Which charges, keys and refusals occurred: each once, for ever."""

    def __init__(self) -> None:
        self.scope_of: dict[str, str] = {}  # by charge
        self.keys: set[tuple[str, str]] = set()
        self.refusals: set[tuple[str, str]] = set()

    def note(self, scope: str, key: str, charge: str) -> None:
        if charge in self.scope_of:
            raise VerificationError("the charge was used before")
        self.require_free(scope, key)
        self.scope_of[charge] = scope
        self.keys.add((scope, key))

    def require_free(self, scope: str, key: str) -> None:
        if (scope, key) in self.keys:
            raise VerificationError("the key was used before in its scope")

    def note_refusal(self, scope: str, body: Refused) -> None:
        self.require_free(scope, body.key)  # one that was used is replayed, never refused
        refusal = scope, body.request
        if refusal in self.refusals:
            raise VerificationError("the same refusal was recorded before")
        self.refusals.add(refusal)


def _step_at(index: int, state: State, entry: Entry, used: _Used) -> State:
    """Steps 8 and 9."""
    body = entry.body
    try:
        after = step(state, body)
        match body:
            case Reserved(key=name, charge=charge):
                used.note(after.open[charge].scope, name, charge)
                claims.check_reserved(after, body)
            case Refused(path=path):
                used.note_refusal(charged_scope(after, path).scope, body)
            case Audited(charge=charge, path=path):
                if charge is not None:
                    notes.require_about(after, charge, used.scope_of.get(charge), tuple(level.scope for level in path))
            case ScopeOpened() | Started() | Progress() | Committed() | Aborted() | Lost() | Snapshot() | Closed():
                pass  # what they may do is in `step`
            case LedgerOpened() | Declared() | Intended() | Reported() | Heartbeat() | PlanRegistered():
                pass
            case PolicyChanged() | KeyRotated() | KeyDelegated() | OwnerRotated() | KeyRevoked() | RollbackAccepted():
                pass
            case _:
                assert_never(body)
    except VerificationError as error:
        raise error.at(index) from None
    except DpledgerError as error:
        raise VerificationError(str(error), index=index) from None
    return after


def _witnessed(since: Sequence[Checkpoint], signed: Checkpoint) -> tuple[int, bool]:
    """How many entries an older head covers, and whether none does although one as new as the record was given."""
    seen = max((head.size for head in since if head.size < signed.size), default=0)
    return seen, not seen and any(head.size == signed.size for head in since)
