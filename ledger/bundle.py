"""The bundle: a ledger as plain files, for people who do not trust the one who hands it to them.

    entries.jsonl    the envelopes, one a line, byte for byte as they were signed
    checkpoint       the signed head (C2SP tlog-checkpoint)
    policy           whose head it is, and how many witnesses it needs: none (C2SP tlog-policy)
    keys.json        which keys signed, for information: the verifier's own key decides

Nothing is trusted because the bundle contains it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from dpledger.errors import ForeignLedger, ParameterError, VerificationError
from dpledger.files import place_of
from dpledger.ledger import policy, verification, wire
from dpledger.ledger.checkpoint import Checkpoint
from dpledger.ledger.keys import VerifyingKey
from dpledger.progress import Advance

__all__ = ["CHECKPOINT", "ENTRIES", "KEYS", "POLICY", "lines", "read", "verify", "write"]

ENTRIES = "entries.jsonl"
CHECKPOINT = "checkpoint"
POLICY = "policy"
KEYS = "keys.json"


def write(folder: str | os.PathLike[str], leaves: Iterable[bytes], head: bytes, key: VerifyingKey) -> Path:
    """Write a bundle into `folder`, which is made; ParameterError if it is there and not empty."""
    target = place_of(folder, "folder")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ParameterError("bundle", str(target), "a folder that is empty or not there yet")
    try:
        target.mkdir(parents=True, exist_ok=True)
        with (target / ENTRIES).open("wb") as file:
            for leaf in leaves:
                file.write(leaf + b"\n")
        (target / CHECKPOINT).write_bytes(head)
        (target / POLICY).write_bytes(policy.encode(policy.Policy((key,))))
        (target / KEYS).write_bytes(wire.dump({"log": key.text}) + b"\n")
    except BaseException as error:
        for name in (ENTRIES, CHECKPOINT, POLICY, KEYS):  # half a bundle would look like a truncated ledger
            with suppress(OSError):
                (target / name).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise ParameterError("bundle", str(target), f"a folder that can be written ({error.strerror})") from None
        raise
    return target


def read(folder: str | os.PathLike[str]) -> tuple[list[bytes], bytes]:
    """The leaves and the head of a bundle, unverified. ForeignLedger if its files are not there; VerificationError with
    the index of an entry whose line does not end."""
    source = Path(folder)
    try:
        data = (source / ENTRIES).read_bytes()
        head = (source / CHECKPOINT).read_bytes()
    except OSError as error:
        name = Path(error.filename or "").name
        raise ForeignLedger(f"{source} is not a bundle: {name}: {error.strerror}") from None
    return lines(data), head


def lines(data: bytes) -> list[bytes]:
    """The leaves in the bytes of `entries.jsonl`: what stands before each line feed. VerificationError with the index
    of an entry whose line does not end."""
    *leaves, rest = data.split(b"\n")
    if rest:
        raise VerificationError("its line does not end: the file was truncated", index=len(leaves))
    return leaves


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
