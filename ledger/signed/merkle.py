"""The Merkle tree over the leaves of a ledger (RFC 6962 section 2.1, RFC 9162 section 2.1).

    leaf hash     SHA-256(0x00 || leaf)
    node hash     SHA-256(0x01 || left || right)
    root of n     n = 0: SHA-256 of nothing; n = 1: the leaf hash; else the node over the first k leaves and the rest,
                  k the greatest power of two below n

Leaves are added at the right end only, so the roots of the perfect subtrees (one for each 1 in the binary form of n,
the largest first) are all that appending needs: a `CompactRange`. An *inclusion proof* shows that one leaf lies at one
index below a root; a *consistency proof* that the leaves below an older root are the first ones below a newer root.
Each `prove_` function has its `check_` function. A check assumes that (size, root) came signed: the proof says nothing
about a size that was made up.

>>> hashes = [leaf_hash(leaf) for leaf in (b"a", b"b", b"c")]
>>> whole = CompactRange().extend(hashes)
>>> whole.size, whole.root() == root(hashes)
(3, True)
>>> check_inclusion(prove_inclusion(hashes, 2), leaf_hash=hashes[2], index=2, size=3, root=whole.root())
>>> proof = prove_consistency(hashes, 2)
>>> check_consistency(proof, old_size=2, old_root=root(hashes[:2]), new_size=3, new_root=whole.root())
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dpledger.errors import ParameterError, VerificationError

__all__ = [
    "EMPTY_ROOT",
    "HASH_BYTES",
    "SIZE_LIMIT",
    "CompactRange",
    "check_consistency",
    "check_inclusion",
    "consistency_ranges",
    "inclusion_ranges",
    "leaf_hash",
    "node_hash",
    "prove_consistency",
    "prove_growth",
    "prove_inclusion",
    "root",
]

HASH_BYTES = 32
SIZE_LIMIT = 2**53  # sizes lie below it, as every integer of the byte profile does
EMPTY_ROOT = hashlib.sha256(b"").digest()
_SIZE_BYTES = 8

Proof = tuple[bytes, ...]


def leaf_hash(leaf: bytes) -> bytes:
    """The hash of a leaf, 32 bytes."""
    return hashlib.sha256(b"\x00" + leaf).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of an inner node over two hashes of 32 bytes."""
    return hashlib.sha256(b"\x01" + left + right).digest()


@dataclass(frozen=True, slots=True)
class CompactRange:
    """The first `size` leaves as the roots of their perfect subtrees, the largest (leftmost) first.

    Invariant, checked: there are as many hashes as ones in the binary form of `size`, each of 32 bytes. A tree of a
    million leaves is at most 20 hashes.
    """

    size: int = 0
    hashes: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        if type(self.size) is not int or not 0 <= self.size < SIZE_LIMIT:
            raise ParameterError("size", self.size, "a number of leaves, at least 0 and below 2^53")
        if len(self.hashes) != self.size.bit_count():
            expected = f"{self.size.bit_count()} hashes (the ones in the binary form of {self.size})"
            raise ParameterError("hashes", f"{len(self.hashes)} hashes", expected)
        if set(map(type, self.hashes)) - {bytes} or set(map(len, self.hashes)) - {HASH_BYTES}:
            raise ParameterError("hashes", "others", f"hashes of {HASH_BYTES} bytes")

    def append(self, leaf: bytes) -> CompactRange:
        """This range with one more leaf, given by its hash."""
        return self.extend((leaf,))

    def extend(self, leaf_hashes: Iterable[bytes]) -> CompactRange:
        """This range with more leaves at its right end, given by their hashes in order."""
        size, hashes = self.size, list(self.hashes)
        for right in leaf_hashes:
            merged = right
            full = size  # each 1 at the low end of the size is a subtree that the new leaf completes to the next one
            while full & 1:
                merged = node_hash(hashes.pop(), merged)
                full >>= 1
            hashes.append(merged)
            size += 1
        return CompactRange(size, tuple(hashes))

    def root(self) -> bytes:
        """The root of the tree over these leaves, 32 bytes."""
        if not self.hashes:
            return EMPTY_ROOT
        *left, result = self.hashes
        for subtree in reversed(left):
            result = node_hash(subtree, result)
        return result

    def encode(self) -> bytes:
        """The size (8 bytes, big-endian) and the hashes. The inverse of `decode`."""
        return self.size.to_bytes(_SIZE_BYTES, "big") + b"".join(self.hashes)

    @classmethod
    def decode(cls, data: bytes) -> CompactRange:
        """The range that `encode` wrote as `data`; VerificationError for anything else."""
        size, rest = int.from_bytes(data[:_SIZE_BYTES], "big"), data[_SIZE_BYTES:]
        if len(data) < _SIZE_BYTES or size >= SIZE_LIMIT or len(rest) != HASH_BYTES * size.bit_count():
            raise VerificationError(f"compact range: {len(data)} bytes do not hold a size and its hashes")
        return cls(size, tuple(rest[start : start + HASH_BYTES] for start in range(0, len(rest), HASH_BYTES)))


def root(leaf_hashes: Iterable[bytes]) -> bytes:
    """The root of the tree over these leaf hashes, 32 bytes."""
    return CompactRange().extend(leaf_hashes).root()


def inclusion_ranges(index: int, size: int) -> tuple[tuple[int, int], ...]:
    """Which subtrees an inclusion proof consists of: the half-open range of leaves below each, from the leaf's
    neighbour up to the child of the root (RFC 9162 section 2.1.3.1). ParameterError unless 0 <= index < size."""
    if not 0 <= index < size:
        raise ParameterError("index", index, f"an index from 0 to {size - 1}" if size > 0 else "a tree with leaves")
    return tuple(reversed(tuple(_siblings(index, size))))


def _siblings(index: int, size: int) -> Iterator[tuple[int, int]]:
    low, high = 0, size
    while high - low > 1:
        middle = low + _left_size(high - low)
        if index < middle:
            yield middle, high
            high = middle
        else:
            yield low, middle
            low = middle


def consistency_ranges(old_size: int, new_size: int) -> tuple[tuple[int, int], ...]:
    """Which subtrees a consistency proof consists of: the half-open range of leaves below each, in the order of
    RFC 9162 section 2.1.4.1. None for an empty older tree and for equal sizes. ParameterError unless
    0 <= old_size <= new_size."""
    if not 0 <= old_size <= new_size:
        raise ParameterError("old_size", old_size, f"a size from 0 to {new_size}")
    if old_size in (0, new_size):
        return ()
    low, high = 0, new_size
    ranges = []
    while old_size != high:
        middle = low + _left_size(high - low)
        if old_size <= middle:
            ranges.append((middle, high))
            high = middle
        else:
            ranges.append((low, middle))
            low = middle
    if low > 0:  # else the older tree is one subtree of the newer, whose root the checker has
        ranges.append((low, high))
    return tuple(reversed(ranges))


def prove_inclusion(leaf_hashes: Sequence[bytes], index: int) -> Proof:
    """The proof that `leaf_hashes[index]` lies at `index` below `root(leaf_hashes)`: hashes of 32 bytes, from the leaf
    upwards. ParameterError unless 0 <= index < len(leaf_hashes)."""
    return tuple(root(leaf_hashes[low:high]) for low, high in inclusion_ranges(index, len(leaf_hashes)))


def prove_consistency(leaf_hashes: Sequence[bytes], old_size: int) -> Proof:
    """The proof that the first `old_size` leaves are what `root(leaf_hashes[:old_size])` stood for. ParameterError
    unless 0 <= old_size <= len(leaf_hashes)."""
    return tuple(root(leaf_hashes[low:high]) for low, high in consistency_ranges(old_size, len(leaf_hashes)))


def prove_growth(older: CompactRange, following: Sequence[bytes]) -> Proof:
    """The consistency proof from `older` to the tree that has the leaf hashes `following` behind it: that of
    `prove_consistency`, without the leaves of the older tree. What it has of those is the older tree's own subtrees."""
    roots, low = {}, 0
    for place, subtree in zip(_ones(older.size), older.hashes, strict=True):
        roots[low] = subtree
        low += place
    start = older.size
    return tuple(
        roots[low] if high <= start else root(following[low - start : high - start])
        for low, high in consistency_ranges(start, start + len(following))
    )


def _ones(size: int) -> Iterator[int]:
    """The powers of two that `size` is the sum of, the greatest first."""
    for place in range(size.bit_length() - 1, -1, -1):
        if size >> place & 1:
            yield 1 << place


def check_inclusion(proof: Sequence[bytes], *, leaf_hash: bytes, index: int, size: int, root: bytes) -> None:
    """Raises VerificationError unless `proof` shows that `leaf_hash` is the leaf at `index` below `root`, the root of
    a tree of `size` leaves. Source: RFC 9162 section 2.1.3.2."""
    what = "inclusion proof"
    if not 0 <= index < size < SIZE_LIMIT:
        raise VerificationError(f"{what}: index {index} does not lie in a tree of {size} leaves")
    _check_lengths((leaf_hash, root, *proof), what)
    place, last, result = index, size - 1, leaf_hash
    for sibling in proof:
        if last == 0:
            raise VerificationError(f"{what}: more hashes than the tree has levels")
        if place & 1 or place == last:
            result = node_hash(sibling, result)
            place, last = _past_missing_nodes(place, last)
        else:
            result = node_hash(result, sibling)
        place, last = place >> 1, last >> 1
    if last != 0:
        raise VerificationError(f"{what}: fewer hashes than the tree has levels")
    if result != root:
        raise VerificationError(f"{what}: leads to another root")


def check_consistency(
    proof: Sequence[bytes], *, old_size: int, old_root: bytes, new_size: int, new_root: bytes
) -> None:
    """Raises VerificationError unless `proof` shows that the `old_size` leaves below `old_root` are the first leaves of
    the `new_size` below `new_root`. Source: RFC 9162 section 2.1.4.2; every tree begins with the empty one."""
    what = "consistency proof"
    if not 0 <= old_size <= new_size < SIZE_LIMIT:
        raise VerificationError(f"{what}: a tree of {new_size} leaves does not begin with one of {old_size}")
    _check_lengths((old_root, new_root, *proof), what)
    if old_size in (0, new_size):
        if proof:
            raise VerificationError(f"{what}: none is needed between these sizes, {len(proof)} hashes were given")
        if old_root != (new_root if old_size else EMPTY_ROOT):
            raise VerificationError(f"{what}: the older root is not that of the first {old_size} leaves")
        return
    if not proof:
        raise VerificationError(f"{what}: missing")
    old_result, new_result = _rebuilt_roots(_completed(proof, old_size, old_root), old_size, new_size)
    if old_result != old_root:
        raise VerificationError(f"{what}: leads to another older root")
    if new_result != new_root:
        raise VerificationError(f"{what}: leads to another newer root")


def _completed(proof: Sequence[bytes], old_size: int, old_root: bytes) -> Sequence[bytes]:
    """A proof leaves out its first hash where that is the older root itself: where the older tree is perfect."""
    return (old_root, *proof) if old_size.bit_count() == 1 else proof


def _rebuilt_roots(path: Sequence[bytes], old_size: int, new_size: int) -> tuple[bytes, bytes]:
    place, last = old_size - 1, new_size - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    old_result = new_result = path[0]
    for sibling in path[1:]:
        if last == 0:
            raise VerificationError("consistency proof: more hashes than the tree has levels")
        if place & 1 or place == last:
            old_result, new_result = node_hash(sibling, old_result), node_hash(sibling, new_result)
            place, last = _past_missing_nodes(place, last)
        else:
            new_result = node_hash(new_result, sibling)
        place, last = place >> 1, last >> 1
    if last != 0:
        raise VerificationError("consistency proof: fewer hashes than the tree has levels")
    return old_result, new_result


def _past_missing_nodes(place: int, last: int) -> tuple[int, int]:
    """At the right edge a node without a sibling moves up unchanged: skip the levels at which that happens."""
    while place and not place & 1:
        place, last = place >> 1, last >> 1
    return place, last


def _left_size(size: int) -> int:
    """The greatest power of two below `size` (at least 2)."""
    return 1 << (size - 1).bit_length() - 1


def _check_lengths(hashes: Iterable[bytes], what: str) -> None:
    for value in hashes:
        if len(value) != HASH_BYTES:
            raise VerificationError(f"{what}: expected hashes of {HASH_BYTES} bytes, got one of {len(value)}")
