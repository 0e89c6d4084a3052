"""The bundle: a ledger as plain files, for people who do not trust the one who hands it to them.

    entries.jsonl    the envelopes, one a line, byte for byte as they were signed
    checkpoint       the signed head (C2SP tlog-checkpoint)

Nothing is trusted because the bundle contains it. It holds no key: the verifier's own decides.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dpledger import bounded
from dpledger.errors import ForeignLedger, ParameterError, VerificationError
from dpledger.files import place_of
from dpledger.ledger.signed import checkpoint, envelope
from dpledger.ledger.signed.checkpoint import Checkpoint
from dpledger.ledger.signed.keys import VerifyingKey
from dpledger.ledger.verifying import verification
from dpledger.progress import Advance

__all__ = ["CHECKPOINT", "ENTRIES", "Leaves", "lines", "read", "verify", "write"]

ENTRIES = "entries.jsonl"
CHECKPOINT = "checkpoint"


def write(folder: str | os.PathLike[str], leaves: Iterable[bytes], head: bytes) -> Path:
    """Write a bundle into `folder`, which is made; ParameterError if it is there and not empty."""
    target = place_of(folder, "folder")
    try:
        is_free = not os.listdir(target)
    except (FileNotFoundError, NotADirectoryError):
        is_free = not os.path.lexists(target)
    except OSError as error:
        raise ParameterError("bundle", str(target), f"a folder that can be written ({error.strerror})") from None
    if not is_free:
        raise ParameterError("bundle", str(target), "a folder that is empty or not there yet")
    try:
        target.mkdir(parents=True, exist_ok=True)
        with (target / ENTRIES).open("wb") as file:
            for leaf in leaves:
                file.write(leaf + b"\n")
        (target / CHECKPOINT).write_bytes(head)
    except BaseException as error:
        for name in (ENTRIES, CHECKPOINT):  # half a bundle would look like a truncated ledger
            with suppress(OSError):
                (target / name).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise ParameterError("bundle", str(target), f"a folder that can be written ({error.strerror})") from None
        raise
    return target


def read(folder: str | os.PathLike[str]) -> tuple[Leaves, bytes]:
    """The leaves and the head of a bundle, unverified: the head now, the leaves as they are asked for. ForeignLedger if
    they are no regular files, or the head is larger than a head may be."""
    source = Path(folder)
    with _in_a_bundle(source):
        head = bounded.read(source / CHECKPOINT, checkpoint.MAX_BYTES)
        with bounded.opened(source / ENTRIES):
            return Leaves(source), head


@dataclass(frozen=True, slots=True)
class Leaves:
    """The leaves of a bundle, read from its file line by line each time they are gone through, and never held together.

    Going through them raises what `lines` does, and ForeignLedger where the file cannot be read any more."""

    folder: Path

    def __iter__(self) -> Iterator[bytes]:
        with _in_a_bundle(self.folder), bounded.opened(self.folder / ENTRIES) as stream:
            yield from lines(stream)


@contextmanager
def _in_a_bundle(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        name = Path(error.filename or ENTRIES).name
        raise ForeignLedger(f"{folder} is not a bundle: {name}: {error.strerror}") from None


def lines(stream: BinaryIO) -> Iterator[bytes]:
    """The leaves in a stream of `entries.jsonl`: what stands before each line feed. VerificationError with the index of
    an entry whose line does not end, or is longer than an entry may be."""
    for index in itertools.count():
        line = stream.readline(envelope.MAX_BYTES + 1)
        if not line:
            return
        if not line.endswith(b"\n"):
            cut_off = len(line) <= envelope.MAX_BYTES
            reason = "its line does not end: the file was truncated" if cut_off else "longer than an entry may be"
            raise VerificationError(reason, index=index)
        yield line[:-1]


def verify(
    folder: str | os.PathLike[str],
    key: VerifyingKey,
    *,
    since: Sequence[Checkpoint] = (),
    advance: Advance | None = None,
) -> verification.Verified:
    """Verify a bundle against the verifier's own key and remembered heads. Raises VerificationError."""
    leaves, head = read(folder)
    return verification.verify(leaves, head, key, since=since, advance=advance)
