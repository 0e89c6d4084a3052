"""The signed head of a ledger: a C2SP checkpoint (c2sp.org/tlog-checkpoint) in a C2SP signed note.

    example.org/clinic/000102030405060708090a0b0c0d0e0f                   the origin: the ledger's id
    2                                                                     the number of leaves, in decimal
    Dkr7Ck/Ue37ege4xwYuRvKrw5zxO8CxFGPk0EgmbqLI=                          the root, in base64
                                                                          an empty line
    — example.org/clinic/000102030405060708090a0b0c0d0e0f M243rkQj...     base64 of key id || signature

The signature covers the three lines with their line feeds. A signature line is: em dash (U+2014), space, key name,
space, base64, line feed. The log's own line is that of the key whose name is the origin, and stands there once. Lines
of other keys (witnesses) may stand beside it; they must be well formed and prove nothing here. No extension lines: what
a head says is in its three lines, and each head has one text.

>>> from dpledger.ledger.signed.keys import SigningKey
>>> key = SigningKey.from_seed("example.org/clinic/000102030405060708090a0b0c0d0e0f", bytes(32))
>>> head = Checkpoint(origin=key.public.name, size=2, root=bytes(32))
>>> verify(sign(head, key), key.public) == head
True
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dpledger.errors import ParameterError, VerificationError
from dpledger.ledger.signed import merkle, wire
from dpledger.ledger.signed.keys import Signer, VerifyingKey, signature_of

__all__ = [
    "MAX_BYTES",
    "MAX_SIGNATURES",
    "Checkpoint",
    "SignatureLine",
    "parse_unverified",
    "require_origin",
    "sign",
    "verify",
]

MAX_SIGNATURES = 64  # C2SP asks for at least 16
MAX_BYTES = 524_288  # 64 lines of the longest signatures in use, ML-DSA's of 5 kB
_KEY_ID_BYTES = 4
_LONGEST_NAME = 255

_SIZE = re.compile(r"0|[1-9][0-9]{0,15}")
_CONTROL = re.compile("[\u0000-\u0009\u000b-\u001f]")
_DASH = "\u2014 "


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A head: the ledger's id, its number of leaves, and the root of the tree over them (32 bytes).

    Raises ParameterError for what cannot be a head; of size 0 there is one, with the hash of nothing as its root.
    """

    origin: str
    size: int
    root: bytes

    def __post_init__(self) -> None:
        wire.check_ledger_id(self.origin, "origin")
        if type(self.size) is not int or not 0 <= self.size < merkle.SIZE_LIMIT:
            raise ParameterError("size", self.size, "a whole number from 0, below 2^53")
        if type(self.root) is not bytes or len(self.root) != merkle.HASH_BYTES:
            raise ParameterError("root", type(self.root).__name__, f"{merkle.HASH_BYTES} bytes")
        if self.size == 0 and self.root != merkle.EMPTY_ROOT:
            raise ParameterError("root", "another one", "the root of the empty tree, as the size is 0")

    @property
    def text(self) -> str:
        """The three lines that are signed."""
        return f"{self.origin}\n{self.size}\n{wire.to_base64(self.root)}\n"


@dataclass(frozen=True, slots=True)
class SignatureLine:
    """One signature of a note: the key's name, its id (4 bytes), and the bytes after it. Not verified."""

    name: str
    key_id: bytes
    signature: bytes


def sign(checkpoint: Checkpoint, signer: Signer) -> bytes:
    """The signed note of `checkpoint`. ParameterError unless the signer's key bears the name of the ledger.

    A ledger never signs two heads of which one does not continue the other: sign a head only once the entries it stands
    for are durable.
    """
    key = signer.public
    if key.name != checkpoint.origin:
        raise ParameterError("key name", key.name, f"the ledger's id, {checkpoint.origin}")
    signature = wire.to_base64(key.key_id + signature_of(checkpoint.text.encode("ascii"), signer))
    return f"{checkpoint.text}\n{_DASH}{key.name} {signature}\n".encode()


def require_origin(head: Checkpoint, key: VerifyingKey) -> None:
    """VerificationError unless `head` is of the ledger that `key` is named after."""
    if head.origin != key.name:
        raise VerificationError(
            f"checkpoint: of another ledger, {head.origin}, but the key is of {key.name}: perhaps the wrong key"
        )


def verify(data: bytes, key: VerifyingKey) -> Checkpoint:
    """The head in the signed note `data`, if it is one of the ledger that `key` is named after and `key` signed it.

    Raises VerificationError otherwise: a malformed note, another origin, no signature line of the key, more than one,
    or one that does not hold.
    """
    checkpoint, lines = parse_unverified(data)
    require_origin(checkpoint, key)
    ours = [line.signature for line in lines if (line.name, line.key_id) == (key.name, key.key_id)]
    if len(ours) != 1:
        raise VerificationError(f"checkpoint: expected one signature of the key {key.key_id_hex}, got {len(ours)}")
    key.verify(ours[0], checkpoint.text.encode("ascii"))
    return checkpoint


def parse_unverified(data: bytes) -> tuple[Checkpoint, tuple[SignatureLine, ...]]:
    """The head and the signature lines of a note; NO signature is verified. VerificationError if it is malformed."""
    if len(data) > MAX_BYTES:
        raise VerificationError(f"checkpoint: {len(data)} bytes, expected at most {MAX_BYTES}")
    try:
        note = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise VerificationError(f"checkpoint: not UTF-8 at byte {error.start}") from None
    control = _CONTROL.search(note)
    if control:
        raise VerificationError(f"checkpoint: a control character at character {control.start()}")
    text, blank, signatures = note.rpartition("\n\n")
    if not blank or not signatures.endswith("\n"):
        raise VerificationError(
            "checkpoint: expected a text, an empty line and signature lines, each ending in a line feed"
        )
    lines = signatures.split("\n")[:-1]
    if len(lines) > MAX_SIGNATURES:
        raise VerificationError(f"checkpoint: {len(lines)} signature lines, expected at most {MAX_SIGNATURES}")
    return _parse_text(text), tuple(_parse_line(line, number) for number, line in enumerate(lines, start=5))


def _parse_text(text: str) -> Checkpoint:
    lines = text.split("\n")
    if len(lines) != 3:
        raise VerificationError(f"checkpoint: expected 3 lines (origin, size, root), got {len(lines)}")
    origin, size, root = lines
    if not _SIZE.fullmatch(size):
        raise VerificationError("checkpoint: line 2: expected a size in decimal, without leading zeros")
    try:
        return Checkpoint(origin=origin, size=int(size), root=wire.from_base64(root, "root"))
    except ParameterError as error:
        raise VerificationError(f"checkpoint: {error}") from None


def _parse_line(line: str, number: int) -> SignatureLine:
    where = f"checkpoint: line {number}"
    name, space, encoded = line.removeprefix(_DASH).partition(" ")
    if not line.startswith(_DASH) or not space:
        raise VerificationError(f"{where}: expected an em dash, a key name and a signature, one space between each")
    if not name or len(name) > _LONGEST_NAME or "+" in name or any(character.isspace() for character in name):
        raise VerificationError(f"{where}: expected a key name without '+' and spaces")
    try:
        data = wire.from_base64(encoded, "signature")
    except ParameterError as error:
        raise VerificationError(f"{where}: {error}") from None
    if len(data) <= _KEY_ID_BYTES:
        raise VerificationError(f"{where}: expected a key id and a signature, got {len(data)} bytes")
    return SignatureLine(name, data[:_KEY_ID_BYTES], data[_KEY_ID_BYTES:])
