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

Steps 6 and 7 are made by several processes where there is much to do, but for what the entries before tell; the fold by
one. Memory grows with the ids that were used, not with the entries, where these go to the caller one by one.

Keys come from the verifier, never from what is verified. Pure: no file, no network.

What no verifier can see without a head of its own (`since`): that the tail was cut back to an older genuine head, and
that whoever stole the key wrote another history.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from types import MappingProxyType
from typing import Literal, NoReturn, TypeAlias

from dpledger.errors import ParameterError, VerificationError
from dpledger.ledger.entries.bodies import Reserved
from dpledger.ledger.entries.entry import FIRST_PREVIOUS, Entry, last_trusted_of, parse_entry
from dpledger.ledger.entries.members import Attestation
from dpledger.ledger.rules.authority import Authority
from dpledger.ledger.rules.scope_state import EMPTY, State
from dpledger.ledger.signed import checkpoint, merkle
from dpledger.ledger.signed.checkpoint import Checkpoint
from dpledger.ledger.signed.keys import VerifyingKey
from dpledger.ledger.verifying import signatures
from dpledger.ledger.verifying.folding import Fold
from dpledger.ledger.verifying.following import Following, authority_after, require_place, signed_entry
from dpledger.ledger.verifying.seconds import Seconds
from dpledger.ledger.witnessing.cosigning import Cosignature
from dpledger.progress import Advance

__all__ = ["Remembered", "Verified", "verify", "verify_quick"]

Remembered: TypeAlias = Checkpoint | bytes
"""A head that a verifier remembers, or the bytes of its file, whose signature is verified then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What was verified, and how far.

    `mode`: quick (the bytes are those that were signed, nothing more), full, or partial (as full, but for the prices of
    the entries in `unpriced`, for which the verifier's seconds were not enough: no full pass). `witnessed`: the number
    of entries under a head that somebody else holds; what follows could still be cut off unseen. A head as new as the
    record could be its own, and counts for none unless witnesses cosigned it: `is_own` says that only such were given.
    `seen`: the witnesses that cosigned the head of `witnessed` entries, of those that the verifier trusts. `attested`:
    by the index of the entry that charges it, what ran elsewhere: that each is priced and settled by the rules is
    verified; that it ran as its parts say is the word of whoever it names. In quick `entries`, `attested` and `state`
    are empty; `entries` are so too where they went to the caller one by one."""

    mode: Literal["quick", "full", "partial"]
    head: Checkpoint
    key: VerifyingKey
    witnessed: int
    entries: tuple[Entry, ...]
    state: State
    is_own: bool = False
    attested: Mapping[int, Attestation] = field(default_factory=lambda: MappingProxyType({}))
    unpriced: tuple[int, ...] = ()
    seen: tuple[Cosignature, ...] = ()

    def __repr__(self) -> str:
        return f"<Verified ({self.mode}): {self.head.size:,} entries of {self.head.origin}>"

    @property
    def unwitnessed(self) -> int:
        """How many entries follow the last one that somebody else holds a head of."""
        return self.head.size - self.witnessed


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
    each: Callable[[Entry], None] | None = None,
    jobs: int | None = None,
    most_seconds: float | None = None,
) -> Verified:
    """Steps 1 to 10. `leaves`: no more are read than the head covers, and one; those that can be gone through again
    are, one at a time. `key`: the ledger's key, or the one before or after it: the keys are followed. `since`: heads
    that the verifier remembers. `advance` is called with 1 after each entry.

    `each` is called with each entry once it is verified, in order; then none is kept. `jobs`: how many processes, from
    1 to 64, share the work; None: as many as there are processors, if there are thousands of entries. `most_seconds`:
    seconds of the processor that prices may take, all together; None: as many as they need. Where they are not enough
    the answer is partial, and names the entries in `unpriced`."""
    read = _read(leaves, head, key, since)
    shared = signatures.jobs_for(jobs, read.head.size)
    seconds = Seconds(most_seconds)
    wrong: VerificationError | None = None
    signer: Callable[[int], VerifyingKey] = lambda _: key  # noqa: E731 (until the keys are known)
    try:
        followed = read.keys.followed()
        signer = followed.usual
        read.require_signed(followed, key)
    except VerificationError as error:
        if error.index is None:
            raise
        wrong = error  # the first entry at fault is named below: this one, or one before it
    fold = Fold(replace(EMPTY, last_trusted=read.last_trusted), seconds)
    entries: list[Entry] = []
    keep = entries.append if each is None else each
    attested: dict[int, Attestation] = {}
    previous, hashes = FIRST_PREVIOUS, hashlib.sha256()
    with closing(signatures.checked(islice(read.leaves, read.head.size), signer, shared)) as found:
        for index, checked in enumerate(found):
            entry = _checked_entry(index, checked, read.head.origin, fold.state.authority)
            _require_after(previous, entry)
            fold.add(entry)
            leaf_hash = merkle.leaf_hash(checked.leaf)
            hashes.update(leaf_hash)
            previous = leaf_hash.hex()
            if isinstance(entry.body, Reserved) and entry.body.attested is not None:
                attested[index] = entry.body.attested
            keep(entry)
            if advance is not None:
                advance(1)
    if wrong is not None:
        raise wrong
    if hashes.digest() != read.hashes:
        raise VerificationError("the record was changed while it was read: verify a copy of it")
    read.require_signed(fold.state.keys, key)
    seen, is_own = _witnessed(read.since, read.head)
    return Verified(
        mode="partial" if fold.unpriced else "full",
        head=read.head,
        key=key,
        witnessed=seen,
        entries=tuple(entries),
        state=fold.state,
        is_own=is_own,
        attested=MappingProxyType(attested),
        unpriced=tuple(fold.unpriced),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """A record whose leaves hash to the root of its head. Whose key signed that, the followed keys tell.

    `hashes`: the digest of the hashes of all leaves, by which they are known when they are gone through again. `since`:
    the remembered heads; `signed_since`: of those, the ones whose signature is to be verified as well."""

    head: Checkpoint
    note: bytes
    leaves: Iterable[bytes]
    hashes: bytes
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
    checkpoint.require_origin(signed, key)
    if any((line.name, line.key_id) == (key.name, key.key_id) for line in lines):
        checkpoint.verify(head, key)
    kept = [one if isinstance(one, Checkpoint) else checkpoint.parse_unverified(one)[0] for one in since]
    at_most = signed.size + 1
    stored = tuple(islice(leaves, at_most)) if isinstance(leaves, Iterator) else leaves  # what goes by once is kept
    sizes = {other.size for other in kept}
    tree, roots = merkle.CompactRange(), {0: merkle.EMPTY_ROOT}
    keys, leaf, hashes = Following(signed.origin), b"", hashlib.sha256()
    for leaf in islice(stored, at_most):
        leaf_hash = merkle.leaf_hash(leaf)
        hashes.update(leaf_hash)
        tree = tree.append(leaf_hash)
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
        hashes=hashes.digest(),
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
        entry = signed_entry(index, leaf, signed.origin, authority)
        _require_after(previous, entry)
        try:
            authority = authority_after(authority, index, entry.body)
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


def _checked_entry(index: int, checked: signatures.Checked, origin: str, authority: Authority | None) -> Entry:
    """Steps 6 and 7, but for what the entry follows. What another process did not find signed by the key that signs it
    is looked at here, which says what is wrong with it."""
    if checked.payload is not None and authority is not None:
        try:
            entry = parse_entry(checked.payload)
            if authority.signer(index, entry.body) == checked.key:
                require_place(index, entry, origin)
                return entry
        except VerificationError as error:
            raise error.at(index) from None
    return signed_entry(index, checked.leaf, origin, authority)


def _require_after(previous: str, entry: Entry) -> None:
    if entry.previous != previous:
        raise VerificationError("does not follow the entry before it", index=entry.index)


def _witnessed(since: Sequence[Checkpoint], signed: Checkpoint) -> tuple[int, bool]:
    """How many entries an older head covers, and whether none does although one as new as the record was given."""
    seen = max((head.size for head in since if head.size < signed.size), default=0)
    return seen, not seen and any(head.size == signed.size for head in since)
