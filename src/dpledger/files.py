"""How a file that somebody else wrote is read: a regular file, whole, and no larger than is said beforehand.

A pipe would wait for ever and a device has no end, so neither is read; of a file that is too large no more than the
limit is.
"""

from __future__ import annotations

import os
import stat

from dpledger.errors import ParameterError

__all__ = ["read_whole"]


def read_whole(path: str | os.PathLike[str], *, limit: int, field: str = "path") -> bytes:
    """The bytes of the regular file at `path`, at most `limit`. ParameterError, naming `field` and the path, for
    anything that is not there, cannot be read, is no file, or is longer."""
    try:
        name = os.fsdecode(path)
    except TypeError:
        raise ParameterError(field, path, "the path of a file") from None
    try:
        with open(name, "rb", opener=_without_waiting) as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise ParameterError(field, name, "a regular file (no folder, pipe or device)")
            data = stream.read(limit + 1)
    except ParameterError:
        raise
    except (OSError, ValueError) as error:  # a name with a zero byte is a ValueError
        reason = getattr(error, "strerror", "no such name")
        raise ParameterError(field, name, f"a file that can be read ({reason})") from None
    if len(data) > limit:
        raise ParameterError(field, name, f"at most {limit:,} bytes")
    return data


def _without_waiting(name: str, flags: int) -> int:
    """A pipe is opened at once, for its kind to be seen."""
    return os.open(name, flags | os.O_NONBLOCK)
