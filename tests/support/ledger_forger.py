"""A thief with the signing key, or a faulty gate: signs whatever bodies it is given, each in its place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dpledger.ledger.entries.bodies import TIMELESS, Body
from dpledger.ledger.entries.entry import Entry, format_entry
from dpledger.ledger.signed import checkpoint, envelope, merkle, wire
from dpledger.ledger.signed.checkpoint import Checkpoint
from dpledger.ledger.signed.keys import SigningKey
from dpledger.schema import Plain

TIME = "2026-11-21T12:00:00Z"


def forged(bodies: Iterable[Body], key: SigningKey) -> tuple[list[bytes], bytes]:
    """Leaves and head of a ledger that holds `bodies`, correctly stamped, linked and signed; no rule is asked."""
    leaves: list[bytes] = []
    previous = "0" * 64
    for index, body in enumerate(bodies):
        entry = Entry(
            ledger=key.public.name,
            index=index,
            previous=previous,
            body=body,
            time=None if isinstance(body, TIMELESS) else TIME,
        )
        leaf = envelope.seal(wire.dump(format_entry(entry)), key)
        previous = merkle.leaf_hash(leaf).hex()
        leaves.append(leaf)
    return leaves, signed_head(leaves, key)


def forged_payloads(payloads: Iterable[dict[str, Plain]], key: SigningKey) -> tuple[list[bytes], bytes]:
    """Leaves and head of a ledger with these payloads, linked anew: for what this version has no body for."""
    leaves: list[bytes] = []
    previous = "0" * 64
    for payload in payloads:
        leaf = envelope.seal(wire.dump({**payload, "previous": previous}), key)
        previous = merkle.leaf_hash(leaf).hex()
        leaves.append(leaf)
    return leaves, signed_head(leaves, key)


def signed_head(leaves: Sequence[bytes], key: SigningKey) -> bytes:
    """A head over exactly these leaves."""
    return checkpoint.sign(head_of(leaves, key), key)


def head_of(leaves: Sequence[bytes], key: SigningKey) -> Checkpoint:
    """The same, unsigned: what a verifier remembers."""
    root = merkle.root(merkle.leaf_hash(leaf) for leaf in leaves)
    return Checkpoint(origin=key.public.name, size=len(leaves), root=root)
