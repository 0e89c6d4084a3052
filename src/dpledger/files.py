"""How a file that somebody else wrote is read: a regular file, whole, and no larger than is said beforehand; and how a
new one is written.

A pipe would wait for ever and a device has no end, so neither is read; of a file that is too large no more than the
limit is.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from dpledger import bounded
from dpledger.errors import ParameterError

__all__ = ["digest_of", "path_of", "place_of", "read_whole", "write_new"]

FILE = "the path of a file"
BLOCK = 2**20  # bytes read at a time
LONGEST_NAME, LONGEST_PATH = 255, 4095  # bytes that a file system takes


def path_of(path: object, field: str) -> Path:
    """`path` as the path of a file, with a name. ParameterError as `place_of`."""
    file = place_of(path, field, FILE)
    if not file.name:
        raise ParameterError(field, str(path), FILE)
    return file


def place_of(path: object, field: str, expected: str = "a path") -> Path:
    """`path` as a path. ParameterError, naming `field`, for anything else, and for what nothing can be called."""
    if not isinstance(path, (str, os.PathLike)) or isinstance(path, type) or not isinstance(os.fspath(path), str):
        raise ParameterError(field, path if isinstance(path, type) else type(path).__name__, expected)
    place = Path(path)
    try:
        sizes = [len(os.fsencode(part)) for part in place.parts]
    except UnicodeError:
        sizes = [LONGEST_PATH]
    if "\0" in str(place) or sum(sizes) + len(sizes) > LONGEST_PATH or max(sizes, default=0) > LONGEST_NAME:
        raise ParameterError(field, str(path), f"a path whose names are text of at most {LONGEST_NAME} bytes")
    return place


def read_whole(path: str | os.PathLike[str], *, limit: int, field: str = "path") -> bytes:
    """The bytes of the regular file at `path`, at most `limit`. ParameterError, naming `field` and the path, for
    anything that is not there, cannot be read, is no file, or is longer."""
    name = path_of(path, field)
    try:
        return bounded.read(name, limit)
    except OSError as error:
        raise ParameterError(
            field, str(name), f"a regular file of at most {limit:,} bytes ({error.strerror})"
        ) from None


def digest_of(path: str | os.PathLike[str], *, field: str = "path") -> str:
    """The SHA-256 of the regular file at `path`, of any size, in hexadecimal digits. ParameterError, naming `field` and
    the path, for anything that is not there, cannot be read, or is no file."""
    name = path_of(path, field)
    try:
        digest = hashlib.sha256()
        with bounded.opened(name) as stream:
            while block := stream.read(BLOCK):
                digest.update(block)
        return digest.hexdigest()
    except OSError as error:
        raise ParameterError(field, str(name), f"a regular file that can be read ({error.strerror})") from None


def write_new(path: str | os.PathLike[str], data: bytes, *, field: str = "path") -> None:
    """A new file of `data` at `path`. ParameterError, naming `field` and the path, where something is there already, or
    the file cannot be written."""
    name = path_of(path, field)
    try:
        with open(name, "xb") as stream:
            stream.write(data)
    except FileExistsError:
        raise ParameterError(field, str(name), "a path where nothing exists yet") from None
    except OSError as error:
        raise ParameterError(field, str(name), f"a path that can be written ({error.strerror})") from None
