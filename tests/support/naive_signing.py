"""Keys, envelopes and checkpoints of a ledger made with the standard library and one signature call: for forging them.

Nothing here imports the product; what it refuses can be written with these.
"""

from __future__ import annotations

import base64
import hashlib

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

NAME = "example.org/clinic/000102030405060708090a0b0c0d0e0f"
OTHER_NAME = "example.org/clinic/f0e0d0c0b0a090807060504030201000"
SEED = bytes(range(32))
OTHER_SEED = bytes([7]) * 32
TYPE = "application/vnd.dpledger.entry.v1+json"
PRIME = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493  # of the base point (RFC 8032 section 5.1)
ORDER_8 = "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"
SMALL_ORDER = {
    "the identity": (1).to_bytes(32, "little"),
    "the identity, sign bit set": (1 + 2**255).to_bytes(32, "little"),
    "order 2": (PRIME - 1).to_bytes(32, "little"),
    "order 2, sign bit set": (PRIME - 1 + 2**255).to_bytes(32, "little"),
    "order 4": bytes(32),
    "order 4, the other": (2**255).to_bytes(32, "little"),
    "order 8": bytes.fromhex(ORDER_8),
    "order 8, sign bit set": (int.from_bytes(bytes.fromhex(ORDER_8), "little") + 2**255).to_bytes(32, "little"),
    "order 8, the other y": (PRIME - int.from_bytes(bytes.fromhex(ORDER_8), "little")).to_bytes(32, "little"),
}


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def sign(seed: bytes, message: bytes) -> bytes:
    return Ed25519PrivateKey.from_private_bytes(seed).sign(message)


def public(seed: bytes) -> bytes:
    return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()


def key_id(name: str, key: bytes) -> bytes:
    return hashlib.sha256(name.encode("utf-8") + b"\n\x01" + key).digest()[:4]


def vkey(name: str, key: bytes) -> str:
    return f"{name}+{key_id(name, key).hex()}+{b64(bytes([1]) + key)}"


def pae(payload: bytes, payload_type: str = TYPE) -> bytes:
    kind = payload_type.encode("utf-8")
    return b" ".join([b"DSSEv1", str(len(kind)).encode(), kind, str(len(payload)).encode(), payload])


def envelope(payload: bytes, /, *, seed: bytes = SEED, payload_type: str = TYPE, **changes: str) -> str:
    """An envelope that is signed over what it says; `changes` replace members after signing."""
    fields = {
        "payload": b64(payload),
        "payloadType": payload_type,
        "keyid": key_id(NAME, public(seed)).hex(),
        "sig": b64(sign(seed, pae(payload, payload_type))),
    } | changes
    shape = (
        '{"payload":"%(payload)s","payloadType":"%(payloadType)s","signatures":[{"keyid":"%(keyid)s","sig":"%(sig)s"}]}'
    )
    return shape % fields


def head(size: object, root: bytes, *, origin: str = NAME, extra: str = "") -> str:
    return f"{origin}\n{size}\n{b64(root)}\n{extra}"


def signature_line(text: str, *, name: str = NAME, seed: bytes = SEED) -> str:
    return f"\u2014 {name} {b64(key_id(name, public(seed)) + sign(seed, text.encode('utf-8')))}\n"


def note(text: str, *lines: str) -> str:
    """A signed note: by the log's key unless signature lines are given."""
    return f"{text}\n{''.join(lines or (signature_line(text),))}"


def respelled(text: str) -> str:
    """Padded base64 that decodes to the same bytes with a spare bit set: QQ== becomes QR==."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    bare = text.rstrip("=")
    assert bare != text
    return bare[:-1] + alphabet[alphabet.index(bare[-1]) + 1] + text[len(bare) :]
