"""The journal of an audit: a file that has each block of runs as soon as it is drawn, so that an audit that is killed
goes on where it was.

The file has a record a line: the SHA-256 of a JSON object, a space, and the object. The first is what the audit is of
and its seed. The file only grows, and a line that is not whole, the last one of a process that was killed, is as if it
had not been written. What the blocks hold are outputs: the file is for its owner alone (mode 600).

To resume is to read: an audit is a function of its blocks, so one that reads them again stands where it stood.

>>> import tempfile, pathlib
>>> place = pathlib.Path(tempfile.mkdtemp()) / "audit.runs"
>>> with Journal.open(place, of={"claim": "1"}, seed=7) as journal:
...     journal.append({"pairs": 8})
>>> with Journal.open(place, of={"claim": "1"}, seed=None) as journal:
...     journal.seed, journal.next(), journal.next()
(7, {'pairs': 8}, None)
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Mapping
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

from dpledger.errors import ParameterError
from dpledger.files import path_of
from dpledger.posix import fcntl, require_posix

__all__ = ["FIELD", "Journal", "seed_in"]

FIELD = "resume"
LONGEST_LINE = 2**30
WANTED = "a file that an audit wrote, whole; or a new name, to begin again"


class Journal:
    """A file that remembers one audit. `seed`: with which it began."""

    def __init__(self, path: Path, stream: BinaryIO) -> None:
        self._path, self._stream = path, stream
        self.seed = 0

    @classmethod
    def open(cls, path: object, *, of: Mapping[str, object], seed: int | None, drawn: int = 0) -> Journal:
        """The journal at `path`, or a new one. `of`: by name, in plain values, everything that its runs depend on;
        `seed`: that of the audit, None for whichever the file has, or `drawn` where there is no file.

        ParameterError for what no audit wrote, a journal of another audit (it names what differs), one that another
        process writes, and a place that cannot be written to."""
        file = path_of(path, FIELD)
        with ExitStack() as held:
            journal = cls(file, held.enter_context(_stream(file)))
            journal._begin({**of}, seed, drawn)
            held.pop_all()
        return journal

    def _begin(self, of: dict[str, object], seed: int | None, drawn: int) -> None:
        head = self._head()
        if head is None:
            self.seed = drawn if seed is None else seed
            self.append({"of": of, "seed": self.seed})
            return
        self.seed, old = head["seed"], head["of"]
        differing = sorted(name for name in {*old, *of} if old.get(name) != of.get(name))
        if seed not in (None, self.seed):
            differing.append(f"seed ({self.seed} in the file)")
        if differing:
            given = f"{self._path}, whose audit differs in: {', '.join(differing)}"
            raise ParameterError(FIELD, given, "the file of this very audit; or a new name, to begin again")

    def _head(self) -> dict[str, Any] | None:
        """The first record; None of an empty file."""
        head = self.next()
        if head is None and not self._stream.seek(0, os.SEEK_END):
            return None
        if head is None or head.keys() != {"of", "seed"} or not isinstance(head["of"], dict):
            raise ParameterError(FIELD, str(self._path), WANTED)
        return head

    def next(self) -> dict[str, Any] | None:
        """The next record of an earlier process; None after the last. ParameterError for a record that was altered."""
        begin = self._stream.tell()
        line = self._stream.readline(LONGEST_LINE)
        if not line.endswith(b"\n"):  # the end, or a line that was cut off
            if begin:
                self._stream.seek(begin)
                self._stream.truncate()
            return None
        digest, _, text = line[:-1].partition(b" ")
        if sha256(text).hexdigest().encode() != digest:
            raise ParameterError(FIELD, str(self._path), WANTED)
        found = json.loads(text)
        if not isinstance(found, dict):
            raise ParameterError(FIELD, str(self._path), WANTED)
        return found

    def append(self, record: Mapping[str, Any]) -> None:
        """Write a record, durably. All earlier ones must have been read."""
        text = json.dumps(record, allow_nan=False).encode()
        try:
            self._stream.write(sha256(text).hexdigest().encode() + b" " + text + b"\n")
            self._stream.flush()
            os.fsync(self._stream.fileno())
        except OSError as error:
            raise ParameterError(FIELD, str(self._path), f"a file that can be written ({error.strerror})") from None

    def close(self) -> None:
        """Let others have it."""
        self._stream.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def seed_in(path: object) -> int | None:
    """The seed of the audit whose journal is at `path`; None where nothing is. ParameterError as `Journal.open`."""
    file = path_of(path, FIELD)
    if not file.exists():
        return None
    with _stream(file) as stream:
        head = Journal(file, stream)._head()
    return None if head is None else int(head["seed"])


def _stream(file: Path) -> BinaryIO:
    """The file, for this process alone. ParameterError for anything but a regular file of one's own."""
    require_posix(file, FIELD)
    try:
        return _owned(file)
    except BlockingIOError:
        raise ParameterError(FIELD, str(file), "a file that no other audit is writing at the moment") from None
    except OSError as error:
        raise ParameterError(FIELD, str(file), f"a file that can be written ({error.strerror})") from None


def _owned(file: Path) -> BinaryIO:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    stream = open(os.open(file, flags, 0o600), "r+b")  # noqa: SIM115
    try:
        found = os.fstat(stream.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        if found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise OSError(errno.EPERM, "others may read it: make it private (chmod 600)")
        fcntl.flock(stream.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        stream.close()
        raise
    return stream
