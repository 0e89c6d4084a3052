"""The file of a store and what is kept beside it: made for its owner alone, found, watched, removed."""

from __future__ import annotations

import errno
import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

from dpledger.errors import ForeignLedger, ParameterError, StoreFailure
from dpledger.files import path_of

__all__ = [
    "Identity",
    "Rest",
    "beside",
    "existing",
    "identity",
    "made",
    "may_write",
    "remove",
    "require_free",
    "require_local",
    "sync_folder",
]

Identity = tuple[int, int]
"""Which file it is: its device and its inode."""

BESIDE = ("-wal", "-shm", "-journal", "-lock")
NETWORKS = {  # statfs(2), linux/magic.h
    0x6969: "NFS",
    0x517B: "SMB",
    0xFE534D42: "SMB",
    0xFF534D42: "SMB",
    0x564C: "NCP",
    0x5346414F: "AFS",
    0x6B414653: "AFS",
    0x73757245: "Coda",
    0x00C36400: "Ceph",
    0x0BD00BD0: "Lustre",
    0x47504653: "GPFS",
    0x19830326: "BeeGFS",
}
NO_LEDGER = "a ledger file (create one with `dpledger init`)"
A_FILE = (
    "a ledger file, not a folder (read a bundle with `dpledger verify`, `report`, `scopes`, `show`, `spent` and --key)"
)


def remove(file: Path) -> None:
    """Remove a ledger file that was just made, and what SQLite keeps beside it."""
    for suffix in ("", *BESIDE):
        beside(file, suffix).unlink(missing_ok=True)


def identity(file: str | Path) -> Identity | None:
    """Which file it is that a path names; None where nothing is. Opens nothing."""
    try:
        found = os.stat(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StoreFailure(f"{file} cannot be read: {error.strerror}") from None
    return found.st_dev, found.st_ino


@dataclass(frozen=True, slots=True)
class Rest:
    """What shows that nobody wrote to a file: its identity, size and time of change, and whether it has a log."""

    inode: int
    size: int
    changed: int  # nanoseconds
    is_written: bool

    @classmethod
    def of(cls, file: Path) -> Rest:
        try:
            found = file.stat()
            return cls(found.st_ino, found.st_size, found.st_mtime_ns, beside(file, "-wal").exists())
        except OSError as error:
            raise StoreFailure(f"{file} cannot be read: {error.strerror}") from None


def beside(file: Path, suffix: str) -> Path:
    """What SQLite keeps there: beside the file itself, also where `file` is a link to it."""
    real = file.resolve()
    return real.with_name(real.name + suffix)


def may_write(file: Path) -> bool:
    """Whether this process may write `file`, and make other files beside it."""
    real = file.resolve()
    return all(_may(os.W_OK, place) for place in (real, real.parent))


def _may(what: int, place: Path) -> bool:
    return os.access(place, what, effective_ids=os.access in os.supports_effective_ids)


def existing(path: str | os.PathLike[str]) -> Path:
    """The path of a file that is there, under one name: the only one that its log has."""
    file = path_of(path, "ledger")
    try:
        found = os.stat(file)
    except (FileNotFoundError, NotADirectoryError):
        raise ParameterError("ledger", str(file), NO_LEDGER) from None
    except OSError as error:
        raise ParameterError("ledger", str(file), f"a ledger file that you may read ({error.strerror})") from None
    if stat.S_ISDIR(found.st_mode):
        raise ParameterError("ledger", str(file), A_FILE)
    if not stat.S_ISREG(found.st_mode):
        raise ParameterError("ledger", str(file), NO_LEDGER)
    if not _may(os.R_OK, file):
        raise ParameterError("ledger", str(file), f"a ledger file that you may read ({os.strerror(errno.EACCES)})")
    if found.st_nlink > 1:
        raise ForeignLedger(f"{file} has more than one hard link: SQLite would not see the other name's journal")
    for suffix in BESIDE:
        _require_regular(beside(file, suffix))
    return file


def _require_regular(file: Path) -> None:
    """What SQLite keeps beside a ledger is a file of its own, or not there: nothing that waits, or has no end."""
    try:
        mode = os.lstat(file).st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreFailure(f"{file} cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(mode):
        raise ForeignLedger(f"{file} is not a regular file: whoever put it there is not dpledger; remove it")


def require_free(file: Path, field: str, expected: str) -> None:
    """ParameterError if something is at `file`, or a log lies beside it: it is left of another file, and would be read
    into this one."""
    for name in (file, *(file.with_name(file.name + suffix) for suffix in BESIDE)):
        if os.path.lexists(name):
            raise ParameterError(field, str(name), expected)


def made(path: str | os.PathLike[str], field: str, expected: str) -> Path:
    """A new, empty file, for its owner alone."""
    file = path_of(path, field)
    try:
        require_free(file, field, expected)
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        raise ParameterError(field, str(file), expected) from None
    except (OSError, ValueError) as error:
        if isinstance(error, ParameterError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise ParameterError(field, str(file), f"a path that can be written ({reason})") from None
    return file


def require_local(file: Path) -> None:
    """ForeignLedger where `file` lies on a network file system: locks and the order of writes are another machine's
    there, and entries that were acknowledged could be lost. Asks the system by `statfs`; where it does not say (other
    systems than Linux, FUSE, 9P) nothing is refused."""
    name = NETWORKS.get(_file_system(file.parent) or 0)
    if name is not None:
        raise ForeignLedger(
            f"{file} is on a network file system ({name}), where locks and writes of another machine may be lost: "
            "keep the ledger on a disk of this machine, or in PostgreSQL"
        )


def _file_system(folder: Path) -> int | None:
    """The number by which Linux names the file system of a folder; None elsewhere, or where it is not told."""
    if sys.platform != "linux":
        return None
    import ctypes

    found = (ctypes.c_long * 32)()  # more than a `struct statfs`, whose first member is the number
    if ctypes.CDLL(None, use_errno=True).statfs(os.fsencode(folder), ctypes.byref(found)):
        return None
    return found[0] & 0xFFFFFFFF


def sync_folder(file: Path) -> None:
    """Make the new name durable."""
    folder = os.open(file.absolute().parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
