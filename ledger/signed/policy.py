"""Which logs and witnesses a verifier trusts, as a C2SP policy file (c2sp.org/tlog-policy).

    # comments and empty lines may stand anywhere
    log example.org/clinic/000102030405060708090a0b0c0d0e0f+336e37ae+AQOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4
    quorum none

Items are separated by spaces and tabs. A log may be followed by its address, which nothing here reads. This version
reads policies without witnesses: a `witness` or `group` line, or another quorum than `none`, is refused, never skipped.
A policy is the verifier's own; the one in a bundle is for information.

>>> key = "example.org/clinic/000102030405060708090a0b0c0d0e0f+336e37ae+AQOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4"
>>> policy = Policy((VerifyingKey.parse(key),))
>>> parse(encode(policy)) == policy
True
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dpledger.errors import ParameterError, VerificationError
from dpledger.ledger.signed.keys import VerifyingKey

__all__ = ["Policy", "encode", "parse"]

_MAX_BYTES = 65_536
_MAX_LOGS = 64  # C2SP asks for at least 32
_FORBIDDEN = re.compile(rb"[^\x09\x0a\x20-\x7e\x80-\xff]")


@dataclass(frozen=True, slots=True)
class Policy:
    """The keys of the logs whose heads count; no witness is asked for. At least one log, each public key once."""

    logs: tuple[VerifyingKey, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.logs) <= _MAX_LOGS:
            raise ParameterError("policy", f"{len(self.logs)} logs", f"1 to {_MAX_LOGS} logs")
        if len({key.public for key in self.logs}) != len(self.logs):
            raise ParameterError("policy", "one public key in two log lines", "each public key once")

    def key_of(self, origin: str) -> VerifyingKey:
        """The key of the log named `origin`; VerificationError unless exactly one log bears that name."""
        found = [key for key in self.logs if key.name == origin]
        if len(found) != 1:
            raise VerificationError(f"policy: {len(found)} keys of the ledger {origin[:128]!a}, expected one")
        return found[0]


def encode(policy: Policy) -> bytes:
    """The policy file of `policy`. `parse` undoes it."""
    return "".join([*(f"log {key.text}\n" for key in policy.logs), "quorum none\n"]).encode("ascii")


def parse(data: bytes) -> Policy:
    """The policy in the file `data`. ParameterError for a file that is none, or that asks for witnesses."""
    if len(data) > _MAX_BYTES:
        raise ParameterError("policy", f"{len(data)} bytes", f"at most {_MAX_BYTES} bytes")
    forbidden = _FORBIDDEN.search(data)
    if forbidden:
        raise ParameterError("policy", f"a control character at byte {forbidden.start()}", "lines of text")
    if not data.endswith(b"\n"):
        raise ParameterError("policy", "a last line without its end", "lines that each end in a line feed")
    logs: list[VerifyingKey] = []
    quorums = 0
    for number, line in enumerate(data.split(b"\n"), start=1):
        items = re.split("[ \t]+", line.decode("latin-1").strip(" \t"))  # octets above 127 are opaque to the format
        match items:
            case [first, *_] if not first or first.startswith("#"):
                continue
            case ["log", key] | ["log", key, _]:
                logs.append(_key_in_line(key, number))
            case ["quorum", "none"]:
                quorums += 1
            case ["witness" | "group" | "quorum" as word, *_]:
                raise ParameterError(f"policy line {number}", f"a {word} line", "a policy without witnesses")
            case _:
                raise ParameterError(f"policy line {number}", "another line", "a log or a quorum line")
    if quorums != 1:
        raise ParameterError("policy", f"{quorums} quorum lines", "one")
    return Policy(tuple(logs))


def _key_in_line(text: str, number: int) -> VerifyingKey:
    try:
        return VerifyingKey.parse(text)
    except ParameterError as error:
        raise ParameterError(f"policy line {number}", error.value, error.expected) from None
