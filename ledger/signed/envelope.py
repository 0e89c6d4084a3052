"""The envelope that a payload is signed in (DSSE v1), narrowed until one entry has exactly one text.

    {"payload":"<base64>","payloadType":"application/vnd.dpledger.entry.v1+json","signatures":[{"keyid":"<id>","sig":"<base64>"}]}

These members in this order, no white space, one signature, standard base64 that re-encodes to itself, the key id in
hexadecimal, at most 65,535 bytes in all (what one entry of a C2SP tile can hold). What is signed is not the envelope:

    "DSSEv1" SP <length of the type> SP <type> SP <length of the payload> SP <payload>

with lengths in bytes, in decimal. The envelope's bytes, without a line feed, are the *leaf* of the Merkle tree.

Statements about files (`attach.intoto`) have the same form under the type of in-toto, and are in no tree.

Bytes are verified first and parsed after: `verify` returns a payload only once its signature holds, and reads nothing
in it.

>>> from dpledger.ledger.signed.keys import SigningKey
>>> key = SigningKey.from_seed("example.org/clinic/000102030405060708090a0b0c0d0e0f", bytes(32))
>>> leaf = seal(b'{"index":0}', key)
>>> leaf[:39]
b'{"payload":"eyJpbmRleCI6MH0=","payloadT'
>>> verify(leaf, lambda key_id: key.public)
b'{"index":0}'
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from dpledger.errors import ParameterError, VerificationError
from dpledger.ledger.signed import wire
from dpledger.ledger.signed.keys import SIGNATURE_BYTES, Signer, VerifyingKey, signature_of

__all__ = [
    "MAX_BYTES",
    "PAYLOAD_TYPE",
    "STATEMENT_TYPE",
    "Envelope",
    "encode",
    "key_id_of",
    "parse_unverified",
    "pre_authentication",
    "seal",
    "verify",
]

PAYLOAD_TYPE = "application/vnd.dpledger.entry.v1+json"
STATEMENT_TYPE = "application/vnd.in-toto+json"
MAX_BYTES = 65_535  # the length of a C2SP tile entry has two bytes

_KEY_ID = re.compile(r"[0-9a-f]{8}")
_BETWEEN = ('{"payload":"', '","payloadType":"', '","signatures":[{"keyid":"', '","sig":"')
_END = '"}]}'
_SIG_TEXT = 88  # characters of 64 bytes in base64
_AFTER_KEY_ID = len(_BETWEEN[3]) + _SIG_TEXT + len(_END)
_KEY_ID_PLACE = slice(-8 - _AFTER_KEY_ID, -_AFTER_KEY_ID)


@dataclass(frozen=True, slots=True)
class Envelope:
    """A payload and its signature, `key_id` in hexadecimal. Holding one says nothing about the signature."""

    payload: bytes
    key_id: str
    signature: bytes


def pre_authentication(payload: bytes, payload_type: str = PAYLOAD_TYPE) -> bytes:
    """The message that is signed for `payload` (DSSE's pre-authentication encoding). Messages of different types are
    different, whatever the payloads: a signature of one is none of the other."""
    return b"DSSEv1 %d %b %d %b" % (len(payload_type), payload_type.encode("ascii"), len(payload), payload)


def seal(payload: bytes, signer: Signer, payload_type: str = PAYLOAD_TYPE) -> bytes:
    """The leaf that holds `payload` under the signature of `signer`. ParameterError if it would pass 65,535 bytes:
    what is larger enters by its digest."""
    signature = signature_of(pre_authentication(payload, payload_type), signer)
    return encode(Envelope(payload, signer.public.key_id_hex, signature), payload_type)


def verify(leaf: bytes, key_of: Callable[[str], VerifyingKey], payload_type: str = PAYLOAD_TYPE) -> bytes:
    """The payload of `leaf`, its signature verified by the key that `key_of` returns for the key id (8 hexadecimal
    digits).

    Raises VerificationError if the leaf is not in its one form or the signature does not hold; `key_of` raises it for a
    key that is not in force.
    """
    envelope = parse_unverified(leaf, payload_type)
    key = key_of(envelope.key_id)
    if key.key_id_hex != envelope.key_id:
        raise VerificationError(f"envelope: signed under the key id {envelope.key_id}, expected {key.key_id_hex}")
    key.verify(envelope.signature, pre_authentication(envelope.payload, payload_type))
    return envelope.payload


def key_id_of(leaf: bytes) -> str:
    """The key id where a leaf in its one text has it, not checked: another text gives no id of a key."""
    return leaf[_KEY_ID_PLACE].decode("ascii", "replace")


def encode(envelope: Envelope, payload_type: str = PAYLOAD_TYPE) -> bytes:
    """The one text of `envelope`. The inverse of `parse_unverified`. ParameterError for a malformed key id, a signature
    that has not 64 bytes, and more than 65,535 bytes."""
    if not _KEY_ID.fullmatch(envelope.key_id):
        raise ParameterError("key_id", ascii(envelope.key_id), "8 hexadecimal digits in lower case")
    if len(envelope.signature) != SIGNATURE_BYTES:
        raise ParameterError("signature", f"{len(envelope.signature)} bytes", f"{SIGNATURE_BYTES} bytes")
    fields = (wire.to_base64(envelope.payload), payload_type, envelope.key_id, wire.to_base64(envelope.signature))
    leaf = "".join(before + field for before, field in zip(_BETWEEN, fields, strict=True)) + _END
    if len(leaf) > MAX_BYTES:
        raise ParameterError(
            "payload", f"an envelope of {len(leaf)} bytes", f"at most {MAX_BYTES} (enter a digest instead)"
        )
    return leaf.encode("ascii")


def parse_unverified(leaf: bytes, payload_type: str = PAYLOAD_TYPE) -> Envelope:
    """The envelope whose one text is `leaf`; its signature is NOT verified. VerificationError with the byte offset for
    any other text."""
    if len(leaf) > MAX_BYTES:
        raise VerificationError(f"envelope: {len(leaf)} bytes, expected at most {MAX_BYTES}")
    payload, own_type, key_id, signature = _fields(leaf)
    if own_type != payload_type:
        raise VerificationError("envelope: of another payloadType, perhaps newer than this verifier")
    if not _KEY_ID.fullmatch(key_id):
        raise VerificationError("envelope: expected a keyid of 8 hexadecimal digits in lower case")
    try:
        decoded = Envelope(wire.from_base64(payload, "payload"), key_id, wire.from_base64(signature, "sig"))
    except ParameterError as error:
        raise VerificationError(f"envelope: {error}") from None
    if len(decoded.signature) != SIGNATURE_BYTES:
        raise VerificationError(
            f"envelope: expected a signature of {SIGNATURE_BYTES} bytes, got {len(decoded.signature)}"
        )
    return decoded


def _fields(leaf: bytes) -> list[str]:
    """What stands between the fixed parts, which must be where they belong. No field holds a quotation mark."""
    try:
        text = leaf.decode("ascii")
    except UnicodeDecodeError as error:
        raise VerificationError(f"envelope: not ASCII at byte {error.start}") from None
    fields, place = [], 0
    for fixed in _BETWEEN:
        start = _after(text, fixed, place)
        place = text.find('"', start)
        if place < 0:
            raise VerificationError(f"envelope: ends inside the text that begins at byte {start}")
        fields.append(text[start:place])
    end = _after(text, _END, place)
    if end != len(text):
        raise VerificationError(f"envelope: expected its end at byte {end}, got {len(text) - end} bytes more")
    return fields


def _after(text: str, fixed: str, place: int) -> int:
    if not text.startswith(fixed, place):
        raise VerificationError(f"envelope: expected {fixed} at byte {place}")
    return place + len(fixed)
