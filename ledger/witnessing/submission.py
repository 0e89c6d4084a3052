"""What a ledger sends to a witness, and what comes back (c2sp.org/tlog-witness, `add-checkpoint`).

    old 7                                           how many entries the witness saw last
    PlRNCrwHpqhGrupue0L7gxbjbMiKA9temvuZZDDpkaw=    the consistency proof from there: no line or more
                                                    an empty line
    example.org/clinic/000102030405060708090a0b...  the new head, a C2SP checkpoint

It answers 200 with its signature lines; 409 with how many entries it saw, where that is not `old`; 400 for what has
another form, 403 for a head that no key signed which it knows, 404 for an unknown origin, 422 for a proof that does not
hold.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dpledger.errors import ParameterError, VerificationError
from dpledger.ledger.signed import checkpoint, merkle, wire

__all__ = ["MAX_BYTES", "PATH", "SIZE_TYPE", "Submission", "lines_of", "read_size"]

PATH = "add-checkpoint"
SIZE_TYPE = "text/x.tlog.size"
MOST_HASHES = 63
MAX_BYTES = 131_072  # of a body: 63 hashes take 2,835, a head with 24 signatures of 5 kB the rest
_OLD = re.compile(r"old (0|[1-9][0-9]{0,15})")
_SIZE = re.compile(rb"(0|[1-9][0-9]{0,15})\n")


@dataclass(frozen=True, slots=True)
class Submission:
    """A head for a witness, in the bytes of its note, with the proof that it continues the first `old` entries."""

    old: int
    proof: tuple[bytes, ...]
    note: bytes

    @property
    def body(self) -> bytes:
        """The bytes that are sent. The inverse of `parse`."""
        lines = [f"old {self.old}", *map(wire.to_base64, self.proof)]
        return "\n".join(lines).encode("ascii") + b"\n\n" + self.note

    @property
    def origin(self) -> str:
        """The first line of the note; nothing of it is verified."""
        return self.note.partition(b"\n")[0].decode("utf-8", "replace")

    @classmethod
    def parse(cls, body: bytes) -> Submission:
        """What somebody sent. VerificationError for another form; the note itself is looked at by `checkpoint`."""
        text, blank, note = body.partition(b"\n\n")
        if not blank:
            raise VerificationError("submission: no empty line before the head")
        try:
            first, *lines = text.decode("ascii").split("\n")
        except UnicodeDecodeError as error:
            raise VerificationError(f"submission: not ASCII at byte {error.start}") from None
        old = _OLD.fullmatch(first)
        if old is None or int(old[1]) >= merkle.SIZE_LIMIT:
            raise VerificationError("submission: line 1: expected `old` and a size in decimal, without leading zeros")
        if len(lines) > MOST_HASHES:
            raise VerificationError(f"submission: {len(lines)} hashes, expected at most {MOST_HASHES}")
        try:
            proof = tuple(wire.from_base64(line, f"line {number}") for number, line in enumerate(lines, start=2))
        except ParameterError as error:
            raise VerificationError(f"submission: {error}") from None
        if any(len(one) != merkle.HASH_BYTES for one in proof):
            raise VerificationError(f"submission: a hash has {merkle.HASH_BYTES} bytes")
        return cls(int(old[1]), proof, note)


def read_size(body: bytes) -> int:
    """What a witness says that it saw. VerificationError for another form."""
    size = _SIZE.fullmatch(body)
    if size is None or int(size[1]) >= merkle.SIZE_LIMIT:
        raise VerificationError("witness: expected a size in decimal and a line feed")
    return int(size[1])


def lines_of(body: bytes, note: bytes) -> tuple[checkpoint.SignatureLine, ...]:
    """The signature lines that a witness answered for `note`. VerificationError for what is none."""
    _, own = checkpoint.parse_unverified(note)
    _, lines = checkpoint.parse_unverified(note + body)
    return lines[len(own) :]
