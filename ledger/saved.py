"""The folded state, saved beside the entries, so that opening a ledger folds only the newest of them.

It follows from the entries, stands in no export, and binds nobody: whatever is wrong with it, it is left aside, and all
entries are folded. So that nobody who can write to the store can have another budget believed, the ledger's key signs
it, as DSSE signs under a type of its own:

    signature || bytes    Ed25519, 64 bytes, of the pre-authentication encoding of
        type              application/vnd.dpledger.saved.v1+json
        payload           SHA-256 of the bytes, so that a key elsewhere is sent little
        bytes             {"library", "leaf", "tree", "state"}: by which version it was folded, the hash of the last
                          leaf that it covers, the hashes of the tree up to there, in hexadecimal, and the whole state

The state names the ledger and its keys, of which its own signs, never one to which it delegated entries (that it may
sign is what the state itself would say): so what another ledger saved, or a key that was rotated away, is none of this
one. Another version of the library may fold otherwise: it folds again. An older one is good, and more entries are
folded after it.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass

import orjson
import pydantic
from pydantic import TypeAdapter

from dpledger.errors import DpledgerError
from dpledger.ledger.entries.members import LIBRARY
from dpledger.ledger.rules.scope_state import State
from dpledger.ledger.signed import envelope, merkle
from dpledger.ledger.signed.keys import SIGNATURE_BYTES, Signer, signature_of
from dpledger.schema import plain

__all__ = ["LARGEST", "SavedFold", "restored", "saved"]

TYPE = "application/vnd.dpledger.saved.v1+json"
LARGEST = 64 * 2**20  # bytes of one; what would be larger is not saved


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedFold:
    """What was folded from the first entries: their state, their tree, and the hash of the last leaf, in hex."""

    state: State
    tree: merkle.CompactRange
    leaf: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Payload:
    library: str
    leaf: str
    tree: str
    state: State


_PAYLOAD: TypeAdapter[_Payload] = TypeAdapter(_Payload)


def saved(fold: SavedFold, signer: Signer) -> bytes | None:
    """The bytes that a store keeps; None for what would be too large."""
    said = _Payload(library=LIBRARY, leaf=fold.leaf, tree=fold.tree.encode().hex(), state=fold.state)
    payload = orjson.dumps(plain(said))
    if len(payload) + SIGNATURE_BYTES > LARGEST:
        return None
    with suppress(Exception):  # a key elsewhere that does not answer: entries go on without
        return signature_of(_message(payload), signer) + payload
    return None


def _message(payload: bytes) -> bytes:
    return envelope.pre_authentication(hashlib.sha256(payload).digest(), TYPE)


def restored(data: bytes, signer: Signer | None) -> SavedFold | None:
    """What `saved` made `data` of; None for anything else, and for what is not signed by the key that its state names:
    that of `signer`, where one is given."""
    if len(data) > LARGEST:
        return None
    signature, payload = data[:SIGNATURE_BYTES], data[SIGNATURE_BYTES:]
    message = _message(payload)
    try:
        if signer is not None:  # then nothing is read that it did not sign
            signer.public.verify(signature, message)
        said = _PAYLOAD.validate_json(payload)
        if said.library != LIBRARY or said.state.authority is None or said.state.last_trusted is not None:
            return None
        key = said.state.authority.own(said.state.size)
        if signer is not None and key != signer.public:
            return None
        key.verify(signature, message)
        fold = SavedFold(state=said.state, tree=merkle.CompactRange.decode(bytes.fromhex(said.tree)), leaf=said.leaf)
        return fold if fold.tree.size == fold.state.size else None
    except (DpledgerError, ValueError, pydantic.ValidationError, RecursionError):
        return None
