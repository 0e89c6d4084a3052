"""The verification recipe, numbered, over bytes. Each step raises VerificationError with the index and the reason.

    1  the parts are there: a head, and as many leaves as it says
    2  the head: a strict checkpoint, signed by the verifier's key
    3  the leaves hash to its root
    4  it is consistent with every head that the verifier remembers     `quick` ends here: these are the signed bytes
    5  each envelope: strict, signed by the key in force at its index
    6  each payload: the byte profile, the schema, this ledger, contiguous indices, `previous` the hash of the leaf
       before
    7  the fold: every transition legal, every key, charge and refusal once, every level within its filter at every
       prefix, refunds only by rule, refusals of what did not fit, audits that do not contradict themselves, snapshots
       equal
    8  the charges: each request is the digest of what is reserved; each level is charged at least what its filter asks
       for the recorded parts; claims follow from parts
    9  what is left over is reported: open charges, refusals, entries that no witness has seen

Keys come from the verifier, never from what is verified. Pure: no file, no clock, no network.

What no verifier can see without a head of its own (`since`): that the tail was cut back to an older genuine head, and
that whoever stole the key wrote another history.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, NoReturn, assert_never

from dpledger.errors import DpledgerError, ParameterError, VerificationError
from dpledger.ledger.entries.bodies import (
    Aborted,
    Audited,
    Closed,
    Committed,
    Declared,
    Heartbeat,
    Intended,
    KeyRevoked,
    KeyRotated,
    LedgerOpened,
    Lost,
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
from dpledger.ledger.entries.entry import FIRST_PREVIOUS, Entry, parse_entry
from dpledger.ledger.entries.members import Attestation
from dpledger.ledger.rules import approvals, notes
from dpledger.ledger.rules.scope_state import EMPTY, State
from dpledger.ledger.rules.transitions import charged_scope, step
from dpledger.ledger.signed import checkpoint, envelope, merkle, wire
from dpledger.ledger.signed.checkpoint import Checkpoint
from dpledger.ledger.signed.keys import VerifyingKey
from dpledger.ledger.verifying import claims
from dpledger.ledger.witnessing.cosigning import Cosignature
from dpledger.progress import Advance

__all__ = ["Verified", "signed_entry", "verify", "verify_quick"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What was verified, and how far.

    `mode`: quick (the bytes are those that were signed, nothing more) or full. `witnessed`: the number of entries under
    a head that somebody else holds; what follows could still be cut off unseen. A head as new as the record could be
    its own, and counts for none unless witnesses cosigned it: `is_own` says that only such were given. `seen`: the
    witnesses that cosigned the head of `witnessed` entries, of those that the verifier trusts. `entries` and `state`
    are empty in quick."""

    mode: Literal["quick", "full"]
    head: Checkpoint
    key: VerifyingKey
    witnessed: int
    entries: tuple[Entry, ...]
    state: State
    is_own: bool = False
    seen: tuple[Cosignature, ...] = ()

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
    leaves: Iterable[bytes], head: bytes, key: VerifyingKey, *, since: Sequence[Checkpoint] = ()
) -> Verified:
    """Steps 1 to 4, in flat memory for leaves that can be gone through again. `since`: heads that the verifier
    remembers."""
    signed, _ = _signed_leaves(leaves, head, key, since)
    seen, is_own = _witnessed(since, signed)
    return Verified(mode="quick", head=signed, key=key, witnessed=seen, entries=(), state=EMPTY, is_own=is_own)


def verify(
    leaves: Iterable[bytes],
    head: bytes,
    key: VerifyingKey,
    *,
    since: Sequence[Checkpoint] = (),
    advance: Advance | None = None,
) -> Verified:
    """Steps 1 to 9. `leaves`: no more are read than the head covers, and one; those that can be gone through again are,
    one at a time. `since`: heads that the verifier remembers. `advance` is called with 1 after each entry."""
    signed, stored = _signed_leaves(leaves, head, key, since)
    entries: list[Entry] = []
    state, previous, tree = EMPTY, FIRST_PREVIOUS, merkle.CompactRange()
    used = _Used()
    for index, leaf in enumerate(islice(stored, signed.size)):
        entry = _entry_at(index, leaf, previous, signed.origin, key)
        state = _step_at(index, state, entry, key, used)
        leaf_hash = merkle.leaf_hash(leaf)
        previous, tree = leaf_hash.hex(), tree.append(leaf_hash)
        entries.append(entry)
        if advance is not None:
            advance(1)
    if (tree.size, tree.root()) != (signed.size, signed.root):
        raise VerificationError("the record was changed while it was read: verify a copy of it")
    seen, is_own = _witnessed(since, signed)
    return Verified(
        mode="full",
        head=signed,
        key=key,
        witnessed=seen,
        entries=tuple(entries),
        state=state,
        is_own=is_own,
    )


def _signed_leaves(
    leaves: Iterable[bytes], head: bytes, key: VerifyingKey, since: Sequence[Checkpoint]
) -> tuple[Checkpoint, Iterable[bytes]]:
    """Steps 1 to 4. The head comes first: its size, once its signature holds, says how much there is to read."""
    signed = checkpoint.verify(head, key)
    at_most = signed.size + 1
    stored = tuple(islice(leaves, at_most)) if isinstance(leaves, Iterator) else leaves  # what goes by once is kept
    sizes = {other.size for other in since}
    tree, roots = merkle.CompactRange(), {0: merkle.EMPTY_ROOT}
    for leaf in islice(stored, at_most):
        tree = tree.append(merkle.leaf_hash(leaf))
        if tree.size in sizes:
            roots[tree.size] = tree.root()
    if (tree.size, tree.root()) != (signed.size, signed.root):
        _name_the_entry(islice(stored, at_most), key, signed)
    for other in since:
        _require_consistent(other, signed, roots)
    return signed, stored


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


def _name_the_entry(leaves: Iterable[bytes], key: VerifyingKey, signed: Checkpoint) -> NoReturn:
    """The leaves are not those of the head: say which entry is at fault, where one can be named."""
    previous, size = FIRST_PREVIOUS, 0
    for index, leaf in enumerate(leaves):
        _entry_at(index, leaf, previous, signed.origin, key)
        previous, size = merkle.leaf_hash(leaf).hex(), index + 1
    if size < signed.size:
        reason, index = f"the record ends here, its signed head covers {signed.size} entries", size
    elif size > signed.size:
        reason, index = f"beyond the signed head, which covers {signed.size} entries", signed.size
    else:
        reason, index = "each entry is signed and linked, and yet the signed head is of others", size - 1
    raise VerificationError(reason, index=index)


def _entry_at(index: int, leaf: bytes, previous: str, origin: str, key: VerifyingKey) -> Entry:
    """Steps 5 and 6."""
    entry = signed_entry(index, leaf, origin, key)
    if entry.previous != previous:
        raise VerificationError("does not follow the entry before it", index=index)
    return entry


def signed_entry(index: int, leaf: bytes, origin: str, key: VerifyingKey) -> Entry:
    """Steps 5 and 6 for one leaf by itself: all but what it follows."""

    def in_force(key_id: str) -> VerifyingKey:
        if key_id != key.key_id_hex:
            raise VerificationError(f"signed by key {key_id}, the key in force is {key.key_id_hex}")
        return key

    try:
        entry = parse_entry(wire.parse(envelope.verify(leaf, in_force)))
    except VerificationError as error:
        raise error.at(index) from None
    if entry.index != index:
        raise VerificationError(f"says that it is entry {entry.index}", index=index)
    if entry.ledger != origin:
        raise VerificationError(f"is an entry of another ledger: {entry.ledger}", index=index)
    return entry


class _Used:
    """Which charges, keys and refusals occurred: each once, for ever."""

    def __init__(self) -> None:
        self.scope_of: dict[str, str] = {}  # by charge
        self.keys: set[tuple[str, str]] = set()
        self.refusals: set[tuple[str, str, str]] = set()

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
        refusal = scope, body.key, body.request
        if refusal in self.refusals:
            raise VerificationError("the same refusal was recorded before")
        self.refusals.add(refusal)


def _step_at(index: int, state: State, entry: Entry, key: VerifyingKey, used: _Used) -> State:
    """Steps 7 and 8."""
    body = entry.body
    try:
        after = step(state, body)
        match body:
            case LedgerOpened():
                _require_keys(body, key)
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
            case Declared() | Intended() | Reported() | Heartbeat() | PlanRegistered():
                pass
            case PolicyChanged() | KeyRotated() | KeyRevoked() | RollbackAccepted():
                pass
            case _:
                assert_never(body)
    except VerificationError as error:
        raise error.at(index) from None
    except DpledgerError as error:
        raise VerificationError(str(error), index=index) from None
    return after


def _require_keys(body: LedgerOpened, key: VerifyingKey) -> None:
    """The ledger names the key that signs it, and another one of its own that can revoke it."""
    try:
        public, recovery = VerifyingKey.parse(body.public_key), VerifyingKey.parse(body.recovery_key)
    except ParameterError as error:
        raise VerificationError(f"a key cannot be used: {error}") from None
    if public != key:
        raise VerificationError("names another signing key than the one it is signed by")
    if recovery.name != key.name or recovery.key_id == key.key_id:
        raise VerificationError("names no recovery key of its own")
    if body.owner_key is not None:
        approvals.check_owner(body.owner_key, (public, recovery))


def _witnessed(since: Sequence[Checkpoint], signed: Checkpoint) -> tuple[int, bool]:
    """How many entries an older head covers, and whether none does although one as new as the record was given."""
    seen = max((head.size for head in since if head.size < signed.size), default=0)
    return seen, not seen and any(head.size == signed.size for head in since)
