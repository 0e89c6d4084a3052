"""Cosignatures of witnesses (c2sp.org/tlog-cosignature): their keys, what they sign, and their lines under a head.

A witness signs that a head continues every head of this origin that it signed before, and when. Its key is Ed25519, of
the C2SP signature type 0x04, with a name of its own:

    verifying key   <name>+<key id in hex>+<base64 of 0x04 || public key>
    signing key     PRIVATE+KEY+<name>+<key id in hex>+<base64 of 0x04 || seed>
    key id          the first 4 bytes of SHA-256(name || 0x0A || 0x04 || public key)
    cosignature     time (8 bytes, big-endian seconds since 1970) || Ed25519 signature of
                    "cosignature/v1\\ntime <seconds>\\n" and the text of the head

>>> key = CosigningKey.from_seed("witness.example/w1", bytes(32))
>>> key.public == WitnessKey.parse(key.public.text)
True
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dpledger.errors import ParameterError, VerificationError
from dpledger.ledger.signed import keys, wire
from dpledger.ledger.signed.checkpoint import Checkpoint, SignatureLine
from dpledger.ledger.signed.keys import VerifyingKey
from dpledger.posix import require_posix

__all__ = ["Cosignature", "CosigningKey", "WitnessKey", "cosigned_by", "line_of"]

_TYPE = b"\x04"  # of the C2SP signature types: cosignature/v1
_TIME_BYTES = 8
_LATEST = 2**63
_CALENDAR = 253_402_300_799  # the last second of the year 9999
_PREFIX = "PRIVATE+KEY+"
_FORM = re.compile(r"([!-*,-~]{1,255})\+([0-9a-f]{8})\+(.+)")


@dataclass(frozen=True, slots=True)
class WitnessKey:
    """The public key of a witness and its name. ParameterError for what a `VerifyingKey` refuses."""

    name: str
    public: bytes

    def __post_init__(self) -> None:
        VerifyingKey(self.name, self.public)

    @property
    def key_id(self) -> bytes:
        """The C2SP key id, 4 bytes."""
        return hashlib.sha256(self.name.encode() + b"\n" + _TYPE + self.public).digest()[:4]

    @property
    def text(self) -> str:
        """The key in its one text form. The inverse of `parse`."""
        return f"{self.name}+{self.key_id.hex()}+{wire.to_base64(_TYPE + self.public)}"

    @classmethod
    def parse(cls, text: str) -> WitnessKey:
        """The key whose text form is exactly `text`. ParameterError for anything else."""
        name, key_id, data = _parted(text)
        return _of_id(cls(name, data), key_id)

    def verify(self, signature: bytes, checkpoint: Checkpoint) -> Cosignature:
        """What this key said of `checkpoint` in the bytes of a signature line. VerificationError unless it did."""
        time, rest = int.from_bytes(signature[:_TIME_BYTES], "big"), signature[_TIME_BYTES:]
        if time >= _LATEST:
            raise VerificationError("cosignature: its time is not below 2^63")
        VerifyingKey(self.name, self.public).verify(rest, _message(checkpoint, time))
        return Cosignature(self, time)


@dataclass(frozen=True, slots=True)
class Cosignature:
    """That a witness saw a head, as the newest of its ledger. `time`: in seconds since 1970, by the witness's clock."""

    key: WitnessKey
    time: int

    @property
    def moment(self) -> str:
        """The time for people, in UTC."""
        if self.time > _CALENDAR:
            return f"{self.time} seconds after 1970"
        return datetime.fromtimestamp(self.time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class CosigningKey:
    """The private key of a witness, in memory. It prints as its public half and does not pickle."""

    __slots__ = ("_private", "_public")

    def __init__(self, name: str, private: Ed25519PrivateKey) -> None:
        self._private = private
        self._public = WitnessKey(name, private.public_key().public_bytes_raw())

    def __repr__(self) -> str:
        return f"<CosigningKey {self._public.name} {self._public.key_id.hex()}>"

    @property
    def public(self) -> WitnessKey:
        """The key that checks what this one signs."""
        return self._public

    @classmethod
    def generate(cls, name: str) -> CosigningKey:
        """A fresh key from the operating system's generator."""
        return cls(name, Ed25519PrivateKey.generate())

    @classmethod
    def from_seed(cls, name: str, seed: bytes) -> CosigningKey:
        """The key of a seed of 32 bytes, for test vectors."""
        return cls(name, Ed25519PrivateKey.from_private_bytes(seed))

    def cosign(self, checkpoint: Checkpoint, time: int) -> SignatureLine:
        """The signature line under `checkpoint`, of the moment `time`: seconds since 1970, above 0 and below 2^63."""
        signature = self._private.sign(_message(checkpoint, time))
        return SignatureLine(self._public.name, self._public.key_id, time.to_bytes(_TIME_BYTES, "big") + signature)

    def save(self, path: Path) -> None:
        """Write a new key file that its owner alone can read. ParameterError if something is there, or it cannot be
        written."""
        require_posix(path, "key file")
        key = self._public
        text = f"{_PREFIX}{key.name}+{key.key_id.hex()}+{wire.to_base64(_TYPE + self._private.private_bytes_raw())}\n"
        try:
            keys.create_private(path, text.encode())
        except FileExistsError:
            raise ParameterError("key file", str(path), "a path where nothing exists yet") from None
        except OSError as error:
            raise ParameterError("key file", str(path), f"a path that can be written ({error.strerror})") from None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> CosigningKey:
        """The key in a key file. ParameterError, showing nothing of it, if there is none, if its group or others have
        any right to it, or if it holds no key of a witness."""
        require_posix(Path(path), "key file")
        try:
            line = keys.read_private(Path(path)).decode("ascii").removesuffix("\n")
        except OSError as error:
            raise ParameterError("key file", str(path), f"a readable key file ({error.strerror})") from None
        except UnicodeDecodeError:
            raise ParameterError("key file", str(path), "one line of ASCII text") from None
        if not line.startswith(_PREFIX):
            raise ParameterError("key file", str(path), "the key of a witness (dpledger witness init makes one)")
        name, key_id, seed = _parted(line.removeprefix(_PREFIX))
        found = cls.from_seed(name, seed)
        _of_id(found.public, key_id)
        return found


def line_of(line: SignatureLine) -> str:
    """A signature line of a note, as it is written, with its line feed."""
    return f"\u2014 {line.name} {wire.to_base64(line.key_id + line.signature)}\n"


def cosigned_by(
    lines: Iterable[SignatureLine], checkpoint: Checkpoint, known: Iterable[WitnessKey]
) -> tuple[Cosignature, ...]:
    """What the witnesses `known` say of `checkpoint` in the signature lines of its note: one a witness, the newest, in
    the order of `known`. Lines of others are passed over; VerificationError for one of a known key that does not
    hold (c2sp.org/signed-note)."""
    found: dict[WitnessKey, Cosignature] = {}
    by_line = {(key.name, key.key_id): key for key in known}
    for line in lines:
        key = by_line.get((line.name, line.key_id))
        if key is not None:
            said = key.verify(line.signature, checkpoint)
            if key not in found or found[key].time < said.time:
                found[key] = said
    return tuple(found[key] for key in by_line.values() if key in found)


def _message(checkpoint: Checkpoint, time: int) -> bytes:
    return f"cosignature/v1\ntime {time}\n{checkpoint.text}".encode()


def _parted(text: str) -> tuple[str, str, bytes]:
    """Name, key id and 32 bytes of `<name>+<id>+<base64>`; the text, which may be a secret, is never shown."""
    form = _FORM.fullmatch(text)
    if form is None:
        raise ParameterError("key of a witness", "another form", "<name>+<8 hexadecimal digits>+<base64>")
    data = wire.from_base64(form[3], "key of a witness")
    if data[:1] != _TYPE:
        raise ParameterError("key of a witness", f"signature type 0x{data[:1].hex()}", "0x04 (cosignature/v1)")
    if len(data) != 1 + keys.KEY_BYTES:
        raise ParameterError("key of a witness", f"{len(data)} bytes", f"{1 + keys.KEY_BYTES} bytes")
    return form[1], form[2], data[1:]


def _of_id(key: WitnessKey, key_id: str) -> WitnessKey:
    if key.key_id.hex() != key_id:
        raise ParameterError("key of a witness", f"the key id {key_id}", f"{key.key_id.hex()}, which name and key give")
    return key
