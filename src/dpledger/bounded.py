"""Reading files that somebody else may have put there: regular files alone, and no more of them than was agreed.

A pipe would keep its reader waiting for ever, a device has no end, and a link may lead to either. Links to regular
files are followed. What cannot be read is an OSError whose `strerror` says why, so that every caller says it in its own
words.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

__all__ = ["opened", "read"]

_FLAGS = os.O_RDONLY
for _name in ("O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY"):  # the last on Windows alone, the others elsewhere
    _FLAGS |= getattr(os, _name, 0)


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """The regular file at `path`, open for reading. OSError for anything else; opening waits for nobody."""
    try:
        _require_regular(os.stat(path), path)  # a device may act on being opened
        descriptor = os.open(path, _FLAGS)
    except ValueError:  # a NUL in the path
        raise OSError(errno.EINVAL, "no path of a file", os.fspath(path)) from None
    with open(descriptor, "rb") as stream:
        _require_regular(os.fstat(descriptor), path)  # it may have been exchanged in between
        yield stream


def read(path: str | os.PathLike[str], most: int) -> bytes:
    """The bytes of the regular file at `path`. OSError for anything else, and for a file of more than `most` bytes."""
    with opened(path) as stream:
        if os.fstat(stream.fileno()).st_size <= most:
            data = stream.read(most + 1)  # it may grow meanwhile
            if len(data) <= most:
                return data
    raise OSError(errno.EFBIG, f"more than {most} bytes", os.fspath(path))


def _require_regular(found: os.stat_result, path: str | os.PathLike[str]) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
