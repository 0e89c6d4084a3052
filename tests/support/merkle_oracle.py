"""The Merkle tree of RFC 6962 section 2.1, word for word: recursive, slow, and sharing nothing with the product."""

from __future__ import annotations

from hashlib import sha256


def leaf(data: bytes) -> bytes:
    """The hash of a leaf."""
    return sha256(bytes([0]) + data).digest()


def head(leaves: list[bytes]) -> bytes:
    """MTH(D[n]), over leaf contents (section 2.1)."""
    if not leaves:
        return sha256().digest()
    if len(leaves) == 1:
        return leaf(leaves[0])
    k = split(len(leaves))
    return sha256(bytes([1]) + head(leaves[:k]) + head(leaves[k:])).digest()


def path(m: int, leaves: list[bytes]) -> list[bytes]:
    """PATH(m, D[n]), the audit path of leaf m (section 2.1.1)."""
    if len(leaves) == 1:
        return []
    k = split(len(leaves))
    if m < k:
        return [*path(m, leaves[:k]), head(leaves[k:])]
    return [*path(m - k, leaves[k:]), head(leaves[:k])]


def proof(m: int, leaves: list[bytes]) -> list[bytes]:
    """PROOF(m, D[n]), the consistency proof from the first m leaves, 0 < m < n (section 2.1.2)."""
    return subproof(m, leaves, True)


def subproof(m: int, leaves: list[bytes], complete: bool) -> list[bytes]:
    """SUBPROOF(m, D[n], b)."""
    if m == len(leaves):
        return [] if complete else [head(leaves)]
    k = split(len(leaves))
    if m <= k:
        return [*subproof(m, leaves[:k], complete), head(leaves[k:])]
    return [*subproof(m - k, leaves[k:], False), head(leaves[:k])]


def split(n: int) -> int:
    """The largest power of two smaller than n, for n > 1."""
    k = 1
    while k * 2 < n:
        k *= 2
    return k
