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

Steps 5 and 6 are made by several processes where there is much to do, but for what the entry before tells; the fold by
one. Memory grows with the ids that were used, not with the entries, where these go to the caller one by one.

Keys come from the verifier, never from what is verified. Pure: no file, no network.

What no verifier can see without a head of its own (`since`): that the tail was cut back to an older genuine head, and
that whoever stole the key wrote another history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import Literal, NoReturn

from dpledger.errors import VerificationError
from dpledger.ledger.entries.bodies import Reserved
from dpledger.ledger.entries.entry import FIRST_PREVIOUS, Entry, parse_entry
from dpledger.ledger.entries.members import Attestation
from dpledger.ledger.rules.scope_state import EMPTY, State
from dpledger.ledger.signed import checkpoint, merkle
from dpledger.ledger.signed.checkpoint import Checkpoint
from dpledger.ledger.signed.keys import VerifyingKey
from dpledger.ledger.verifying import signatures
from dpledger.ledger.verifying.folding import Fold
from dpledger.ledger.verifying.seconds import Seconds
from dpledger.progress import Advance
from dpledger.schema import Plain

__all__ = ["Verified", "signed_entry", "verify", "verify_quick"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What was verified, and how far.

    `mode`: quick (the bytes are those that were signed, nothing more), full, or partial (as full, but for the prices of
    the entries in `unpriced`, for which the verifier's seconds were not enough: no full pass). `witnessed`: the number
    of entries under a head that somebody else holds; what follows could still be cut off unseen. A head as new as the
    record could be its own, and counts for none: `is_own` says that only such were given. `attested`: by the index of
    the entry that charges it, what ran elsewhere: that each is priced and settled by the rules is verified; that it ran
    as its parts say is the word of whoever it names. In quick `entries`, `attested` and `state` are empty; `entries`
    are so too where they went to the caller one by one."""

    mode: Literal["quick", "full", "partial"]
    head: Checkpoint
    key: VerifyingKey
    witnessed: int
    entries: tuple[Entry, ...]
    state: State
    is_own: bool = False
    attested: Mapping[int, Attestation] = field(default_factory=lambda: MappingProxyType({}))
    unpriced: tuple[int, ...] = ()

    def __repr__(self) -> str:
        return f"<Verified ({self.mode}): {self.head.size:,} entries of {self.head.origin}>"

    @property
    def unwitnessed(self) -> int:
        """How many entries follow the last one that somebody else holds a head of."""
        return self.head.size - self.witnessed


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
    each: Callable[[Entry], None] | None = None,
    jobs: int | None = None,
    most_seconds: float | None = None,
) -> Verified:
    """Steps 1 to 9. `leaves`: no more are read than the head covers, and one; those that can be gone through again are,
    one at a time. `since`: heads that the verifier remembers. `advance` is called with 1 after each entry.

    `each` is called with each entry once it is verified, in order; then none is kept. `jobs`: how many processes, from
    1 to 64, share the work; None: as many as there are processors, if there are thousands of entries. `most_seconds`:
    seconds of the processor that prices may take, all together; None: as many as they need. Where they are not enough
    the answer is partial, and names the entries in `unpriced`."""
    signed, stored = _signed_leaves(leaves, head, key, since)
    shared = signatures.jobs_for(jobs, signed.size)
    fold = Fold(key, Seconds(most_seconds))
    entries: list[Entry] = []
    keep = entries.append if each is None else each
    attested: dict[int, Attestation] = {}
    previous, tree = FIRST_PREVIOUS, merkle.CompactRange()
    with closing(signatures.checked(islice(stored, signed.size), lambda: key, shared)) as found:
        for index, checked in enumerate(found):
            entry = _entry_at(index, checked, previous, signed.origin, key)
            fold.add(entry)
            leaf_hash = merkle.leaf_hash(checked.leaf)
            previous, tree = leaf_hash.hex(), tree.append(leaf_hash)
            if isinstance(entry.body, Reserved) and entry.body.attested is not None:
                attested[index] = entry.body.attested
            keep(entry)
            if advance is not None:
                advance(1)
    if (tree.size, tree.root()) != (signed.size, signed.root):
        raise VerificationError("the record was changed while it was read: verify a copy of it")
    seen, is_own = _witnessed(since, signed)
    return Verified(
        mode="partial" if fold.unpriced else "full",
        head=signed,
        key=key,
        witnessed=seen,
        entries=tuple(entries),
        state=fold.state,
        is_own=is_own,
        attested=MappingProxyType(attested),
        unpriced=tuple(fold.unpriced),
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
        _entry_at(index, signatures.Checked(leaf, key, None), previous, signed.origin, key)
        previous, size = merkle.leaf_hash(leaf).hex(), index + 1
    if size < signed.size:
        reason, index = f"the record ends here, its signed head covers {signed.size} entries", size
    elif size > signed.size:
        reason, index = f"beyond the signed head, which covers {signed.size} entries", signed.size
    else:
        reason, index = "each entry is signed and linked, and yet the signed head is of others", size - 1
    raise VerificationError(reason, index=index)


def _entry_at(index: int, checked: signatures.Checked, previous: str, origin: str, key: VerifyingKey) -> Entry:
    """Steps 5 and 6. `key`: the one in force at this index."""
    if checked.payload is None or checked.key != key:
        entry = signed_entry(index, checked.leaf, origin, key)
    else:
        entry = _entry_of(index, checked.payload, origin)
    if entry.previous != previous:
        raise VerificationError("does not follow the entry before it", index=index)
    return entry


def signed_entry(index: int, leaf: bytes, origin: str, key: VerifyingKey) -> Entry:
    """Steps 5 and 6 for one leaf by itself: all but what it follows."""
    try:
        payload = signatures.signed_payload(leaf, key)
    except VerificationError as error:
        raise error.at(index) from None
    return _entry_of(index, payload, origin)


def _entry_of(index: int, payload: Mapping[str, Plain], origin: str) -> Entry:
    try:
        entry = parse_entry(payload)
    except VerificationError as error:
        raise error.at(index) from None
    if entry.index != index:
        raise VerificationError(f"says that it is entry {entry.index}", index=index)
    if entry.ledger != origin:
        raise VerificationError(f"is an entry of another ledger: {entry.ledger}", index=index)
    return entry


def _witnessed(since: Sequence[Checkpoint], signed: Checkpoint) -> tuple[int, bool]:
    """How many entries an older head covers, and whether none does although one as new as the record was given."""
    seen = max((head.size for head in since if head.size < signed.size), default=0)
    return seen, not seen and any(head.size == signed.size for head in since)
