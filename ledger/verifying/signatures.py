"""Of many leaves, what each tells by itself: its envelope, its signature, the byte profile of its payload. On several
processes, where there are many; the fold needs all of them in order, and is made in one.

The processes are fresh interpreters that read leaves and answer a byte for each. Nothing of the caller is forked, its
script is not run again, and nothing is pickled.

    to a process      a chunk: two numbers of 4 bytes, how many leaves and how long the key's text; the text; for each
                      leaf its length, in 4 bytes, and the leaf
    from a process    a byte for each leaf of the chunk: 1 where it holds, 0 where it does not

What does not hold is checked again where the answer is read, which says what is wrong with it; so is what a process did
not answer.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import cycle
from typing import BinaryIO, TypeAlias

from dpledger.errors import ParameterError, VerificationError
from dpledger.ledger.signed import envelope, wire
from dpledger.ledger.signed.keys import VerifyingKey
from dpledger.schema import Plain

__all__ = ["Checked", "answer", "checked", "jobs_for"]

LEAVES = 256  # of a chunk, at most
BYTES = 1 << 20  # of a chunk, after which no leaf is added
WAITING = 3  # chunks that a process is given before its first answer is read
PER_JOB = 4_000  # leaves for which another process is worth its start: about a second of work
MOST_JOBS = 64
NUMBER = 4  # bytes


@dataclass(frozen=True, slots=True)
class Checked:
    """A leaf, and what it says if `key` signed it: None where it did not, or where the leaf is not as it must be."""

    leaf: bytes
    key: VerifyingKey
    payload: dict[str, Plain] | None


def jobs_for(jobs: int | None, size: int) -> int:
    """How many processes are to share the work on `size` leaves. By None as many as there are processors, if there is
    enough to do. ParameterError for what is no number from 1 to 64."""
    if jobs is None:
        return max(1, min(_processors(), size // PER_JOB, MOST_JOBS)) if _has_interpreter() else 1
    if type(jobs) is not int or not 1 <= jobs <= MOST_JOBS:
        raise ParameterError("jobs", jobs, f"a whole number from 1 to {MOST_JOBS}, or None: as many as there are cores")
    if jobs > 1 and not _has_interpreter():
        raise ParameterError("jobs", jobs, "1: no Python interpreter is known here that could be started beside this")
    return jobs


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _has_interpreter() -> bool:
    """Whether `sys.executable` is Python: in an application that was frozen it is the application."""
    return bool(sys.executable) and not getattr(sys, "frozen", False)


def checked(leaves: Iterable[bytes], key: Callable[[int], VerifyingKey], jobs: int) -> Generator[Checked, None, None]:
    """The leaves in order, each with what it says. `key`: the one that signs an entry at an index, as far as is known;
    a chunk is checked with that of its first leaf. `jobs`: how many processes share the work, the one that folds among
    them."""
    with ExitStack() as stack:
        lanes = cycle([stack.enter_context(_lane()) for _ in range(jobs - 1)] or [_here])
        waiting: deque[tuple[list[bytes], VerifyingKey, _Result]] = deque()
        index = 0
        for chunk in _chunks(leaves):
            in_force = key(index)
            index += len(chunk)
            waiting.append((chunk, in_force, next(lanes)(chunk, in_force)))
            if len(waiting) > WAITING * (jobs - 1):
                yield from _answered(*waiting.popleft())
        while waiting:
            yield from _answered(*waiting.popleft())


_Payloads: TypeAlias = list[dict[str, Plain] | None]
_Result: TypeAlias = Callable[[], _Payloads]
_Lane: TypeAlias = Callable[[list[bytes], VerifyingKey], _Result]


def _answered(chunk: list[bytes], key: VerifyingKey, result: _Result) -> Iterator[Checked]:
    for leaf, payload in zip(chunk, result(), strict=True):
        yield Checked(leaf, key, payload)


def _chunks(leaves: Iterable[bytes]) -> Iterator[list[bytes]]:
    chunk: list[bytes] = []
    size = 0
    for leaf in leaves:
        chunk.append(leaf)
        size += len(leaf)
        if len(chunk) == LEAVES or size > BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _here(chunk: list[bytes], key: VerifyingKey) -> _Result:
    """In this process, once it is asked for."""
    return lambda: [_payload(leaf, key) for leaf in chunk]


def _payload(leaf: bytes, key: VerifyingKey) -> dict[str, Plain] | None:
    try:
        return wire.parse(envelope.verify(leaf, lambda _: key))
    except VerificationError:
        return None


# ---- in another process ---------------------------------------------------------------------------------------------


@contextmanager
def _lane() -> Iterator[_Lane]:
    """A process of its own, and a thread that waits for it. It ends when its input does. What it answers is read in the
    caller's thread: the one that waits gives the process its next chunk at once. Where the system gives no process or
    thread, the work is done here."""
    code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import answer; answer()"
    try:
        process = subprocess.Popen(  # noqa: S603 (this interpreter, and code that stands here)
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except OSError:
        yield _here
        return
    waiter = ThreadPoolExecutor(1, thread_name_prefix="dpledger-verify")

    def lane(chunk: list[bytes], key: VerifyingKey) -> _Result:
        try:
            asked = waiter.submit(_asked, process, chunk, key)
        except RuntimeError:  # no thread can be started
            return _here(chunk, key)
        return lambda: _read(chunk, key, asked.result())

    try:
        yield lane
    finally:
        process.kill()  # it writes nothing; a thread that waits for it sees the end
        waiter.shutdown(cancel_futures=True)
        process.communicate()


def _asked(process: subprocess.Popen[bytes], chunk: list[bytes], key: VerifyingKey) -> bytes:
    """What the process says of a chunk, a byte a leaf; fewer where it does not answer."""
    assert process.stdin is not None
    assert process.stdout is not None
    text = key.text.encode("ascii")
    try:
        leaves = (part for leaf in chunk for part in (_number(len(leaf)), leaf))
        process.stdin.write(b"".join((_number(len(chunk)), _number(len(text)), text, *leaves)))  # at once: after each
        process.stdin.flush()  # write this thread waits for its turn beside the one that folds
        return process.stdout.read(len(chunk))
    except (OSError, ValueError):
        return b""


def _read(chunk: list[bytes], key: VerifyingKey, verdicts: bytes) -> _Payloads:
    """The payloads of what a process says; where it did not answer, what this one says."""
    if len(verdicts) != len(chunk):
        return _here(chunk, key)()
    return [_unverified(leaf) if holds == 1 else None for leaf, holds in zip(chunk, verdicts, strict=True)]


def _unverified(leaf: bytes) -> dict[str, Plain]:
    """The payload of a leaf that another process has checked."""
    return wire.read_again(envelope.parse_unverified(leaf).payload)


def answer(source: BinaryIO | None = None, answers: BinaryIO | None = None) -> None:
    """The other process: answer each chunk that comes, until none does. By default from standard input to output."""
    source, answers = source or sys.stdin.buffer, answers or sys.stdout.buffer
    with suppress(KeyboardInterrupt, BrokenPipeError):
        while header := source.read(2 * NUMBER):
            leaves, length = _numbers(header)
            key = VerifyingKey.parse(source.read(length).decode("ascii"))
            chunk = [source.read(*_numbers(source.read(NUMBER))) for _ in range(leaves)]
            answers.write(bytes(_payload(leaf, key) is not None for leaf in chunk))
            answers.flush()


def _number(value: int) -> bytes:
    return value.to_bytes(NUMBER, "big")


def _numbers(data: bytes) -> list[int]:
    return [int.from_bytes(data[at : at + NUMBER], "big") for at in range(0, len(data), NUMBER)]
