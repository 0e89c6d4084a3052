"""A reader of signed notes, cosignatures and policies from the texts of C2SP alone (signed-note, tlog-cosignature,
tlog-witness), of any log: what a stock client would make of ours. Nothing here imports the product.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

ED25519, COSIGNATURE = 1, 4


@dataclass(frozen=True)
class Verifier:
    """A vkey: <name>+<id in hex>+<base64 of type || key>."""

    name: str
    id: bytes
    kind: int
    key: bytes

    @classmethod
    def parse(cls, vkey: str) -> Verifier:
        name, number, data = vkey.split("+", 2)
        raw = base64.b64decode(data, validate=True)
        found = cls(name, hashlib.sha256(name.encode() + b"\n" + raw).digest()[:4], raw[0], raw[1:])
        if found.id.hex() != number:
            raise ValueError("another id")
        return found

    def holds(self, text: bytes, signature: bytes) -> bool:
        if self.kind == COSIGNATURE:
            (time,) = struct.unpack(">Q", signature[:8])
            text, signature = b"cosignature/v1\ntime %d\n%s" % (time, text), signature[8:]
        try:
            Ed25519PublicKey.from_public_bytes(self.key).verify(signature, text)
        except InvalidSignature:
            return False
        return True


def opened(note: bytes, known: list[Verifier]) -> tuple[bytes, list[Verifier]]:
    """The text of a note, and which of the known keys signed it. ValueError for a malformed one, and for one that a
    known key signed falsely, or none."""
    body, _, signatures = note.rpartition(b"\n\n")
    text, by = body + b"\n", []
    if not signatures.endswith(b"\n"):
        raise ValueError("no line feed at the end")
    for line in signatures.decode("utf-8").split("\n")[:-1]:
        dash, name, data = line.split(" ")
        raw = base64.b64decode(data, validate=True)
        if dash != "\u2014" or len(raw) < 5:
            raise ValueError("no signature line")
        for one in known:
            if (one.name, one.id) == (name, raw[:4]):
                if not one.holds(text, raw[4:]):
                    raise ValueError("a false signature")
                by.append(one)
    if not by:
        raise ValueError("signed by nobody who is known")
    return text, by


def cosigner_key(name: str, seed: bytes) -> str:
    """The vkey of a cosigner."""
    raw = bytes([COSIGNATURE]) + Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    number = hashlib.sha256(name.encode() + b"\n" + raw).digest()[:4]
    return f"{name}+{number.hex()}+{base64.b64encode(raw).decode()}"


def cosigned(text: bytes, name: str, seed: bytes, time: int) -> bytes:
    """The line that a cosigner puts under the text of a checkpoint."""
    key = Verifier.parse(cosigner_key(name, seed))
    message = b"cosignature/v1\ntime %d\n%s" % (time, text)
    signature = struct.pack(">Q", time) + Ed25519PrivateKey.from_private_bytes(seed).sign(message)
    return f"\u2014 {name} {base64.b64encode(key.id + signature).decode()}\n".encode()


def submission(old: int, proof: list[bytes], note: bytes) -> bytes:
    """The body of an add-checkpoint."""
    lines = [b"old %d\n" % old, *(base64.b64encode(one) + b"\n" for one in proof)]
    return b"".join(lines) + b"\n" + note
