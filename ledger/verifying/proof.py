"""One entry with its inclusion proof and the signed head, in one file, for somebody who sees no other entry.

    c2sp.org/tlog-proof@v1
    extra eyJwYXlsb2FkIjoi...                       the entry's envelope, in base64; and, behind a line feed each,
                                                    the entries that name keys, where another signed than the first
    index 17
    PlRNCrwHpqhGrupue0L7gxbjbMiKA9temvuZZDDpkaw=    the audit path, from the leaf's neighbour upwards: no line or more
                                                    an empty line
    example.org/clinic/000102030405060708090a0b...  the head, a C2SP checkpoint

The form is C2SP's tlog-proof (c2sp.org/tlog-proof) with one text for each value. It shows that the key signed this
entry at this index of this ledger, and a head that covers it. It shows no other entry, and so neither that this one is
a legal step, nor what it follows, nor what came after.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from dpledger.errors import ParameterError, VerificationError
from dpledger.ledger.entries.entry import Entry
from dpledger.ledger.rules.authority import Authority
from dpledger.ledger.signed import checkpoint, merkle, wire
from dpledger.ledger.signed.checkpoint import Checkpoint
from dpledger.ledger.signed.keys import VerifyingKey
from dpledger.ledger.verifying import following

__all__ = ["MAX_BYTES", "Proven", "looks_like_one", "prove", "verify"]

MAX_BYTES = 655_360  # above the longest envelope in base64 (87,380), 53 hashes (2,385) and the longest head (524,288)
_FIRST = "c2sp.org/tlog-proof@v1"
_BEGINS = b"c2sp.org/tlog-p"
_EXTRA = "extra "
_INDEX = re.compile(r"index (0|[1-9][0-9]{0,15})")


@dataclass(frozen=True, slots=True)
class Proven:
    """An entry, and the head that covers it. Both are signed by the verifier's key, or by those that follow from it.
    `is_trusted`: False for an entry that whoever stole the key may have signed, as the head revokes it."""

    entry: Entry
    head: Checkpoint
    is_trusted: bool


def looks_like_one(beginning: bytes) -> bool:
    """Whether a file whose first 16 bytes are these is a proof, of this version or another."""
    return beginning.startswith(_BEGINS)


def prove(leaves: Iterable[bytes], head: bytes, index: int, authority: Authority | None = None) -> bytes:
    """The proof of the leaf at `index` under `head`, a signed checkpoint over all of `leaves`, which are gone through
    once and not held. `authority`: who signs in it, where not one key signed all. ParameterError unless there is such a
    leaf; VerificationError if they are not those of the head."""
    signed, _ = checkpoint.parse_unverified(head)
    if type(index) is not int or not 0 <= index < signed.size:
        raise ParameterError("index", index, f"a whole number from 0 to {signed.size - 1}")
    ranges = merkle.inclusion_ranges(index, signed.size)
    named = () if authority is None else following.key_entries(authority, signed.size, index)
    kept = dict.fromkeys((index, *named), b"")
    passing, roots = iter(_keeping(leaves, kept)), {}
    for low, high in sorted((*ranges, (index, index + 1))):  # together, all leaves
        roots[low] = merkle.root(map(merkle.leaf_hash, islice(passing, high - low)))
    own, keys = kept[index], [kept[place] for place in named]
    hashes = [roots[low] for low, _ in ranges]
    _require_included(hashes, own, index, signed)
    lines = [_FIRST, _EXTRA + wire.to_base64(b"\n".join((own, *keys))), f"index {index}", *map(wire.to_base64, hashes)]
    return "\n".join(lines).encode("ascii") + b"\n\n" + head


def verify(data: bytes, key: VerifyingKey) -> Proven:
    """What the proof `data` shows to whoever trusts `key`. VerificationError, with the index once it is known, if it is
    malformed, of another ledger or another key, or does not hold."""
    if len(data) > MAX_BYTES:
        raise VerificationError(f"proof: {len(data)} bytes, expected at most {MAX_BYTES}")
    text, blank, head = data.partition(b"\n\n")
    if not blank:
        raise VerificationError("proof: expected an empty line before the head: the file was truncated")
    index, (leaf, *keys), hashes = _parsed(text)
    signed, _ = checkpoint.parse_unverified(head)
    checkpoint.require_origin(signed, key)
    authority, last_trusted = following.authority_of(keys, signed, key)
    checkpoint.verify(head, authority.of_head(signed.size))
    try:
        _require_included(hashes, leaf, index, signed)
    except VerificationError as error:
        raise error.at(index) from None
    entry = following.signed_entry(index, leaf, signed.origin, authority)
    return Proven(entry, signed, last_trusted is None or index <= last_trusted)


def _keeping(leaves: Iterable[bytes], kept: dict[int, bytes]) -> Iterator[bytes]:
    """The leaves as they pass; those at the indices in `kept` are put there."""
    for index, leaf in enumerate(leaves):
        if index in kept:
            kept[index] = leaf
        yield leaf


def _parsed(text: bytes) -> tuple[int, list[bytes], list[bytes]]:
    """The index, the leaf with the entries that name keys, and the audit path in the lines before the head."""
    try:
        first, *lines = text.decode("ascii").split("\n")
    except UnicodeDecodeError as error:
        raise VerificationError(f"proof: not ASCII at byte {error.start}") from None
    if first != _FIRST:
        raise VerificationError("proof: of another form, perhaps newer than this verifier")
    if len(lines) < 2 or not lines[0].startswith(_EXTRA):
        raise VerificationError("proof: expected the entry and its index in lines 2 and 3")
    extra, index, *path = lines
    found = _INDEX.fullmatch(index)
    if found is None:
        raise VerificationError("proof: line 3: expected an index in decimal, without leading zeros")
    try:
        shown = wire.from_base64(extra.removeprefix(_EXTRA), "extra").split(b"\n")
        return int(found[1]), shown, list(_hashes(path))
    except ParameterError as error:
        raise VerificationError(f"proof: {error}") from None


def _hashes(lines: Iterable[str]) -> Iterator[bytes]:
    for number, line in enumerate(lines, start=4):
        yield wire.from_base64(line, f"line {number}")


def _require_included(hashes: list[bytes], leaf: bytes, index: int, signed: Checkpoint) -> None:
    own = merkle.leaf_hash(leaf)
    merkle.check_inclusion(hashes, leaf_hash=own, index=index, size=signed.size, root=signed.root)
