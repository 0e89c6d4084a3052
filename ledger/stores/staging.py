"""Files that appear whole or not at all, whenever the process that makes them dies.

They are made in a folder of their own beside their place, `.NAME.unfinished`, and get their names once all of them are
on the disk. A name is given by a hard link, which never takes the place of what is there; that of the main file comes
last. A process that dies before leaves that folder. Whoever makes the file anew clears it away, and takes back the
names that were given: those that still lead to a file in the folder. A lock on it tells the dead from the living.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dpledger.errors import ParameterError
from dpledger.ledger.stores.files import require_free, sync_folder
from dpledger.posix import fcntl, require_posix
from dpledger.process import Home

__all__ = ["settle", "staged"]

ATTEMPTS = 100  # at a folder that others make and remove meanwhile
POLL_SECONDS = 0.02  # between looks at a folder that another process holds


@contextmanager
def staged(main: Path, field: str, expected: str, *, wait: float = 0.0) -> Iterator[Path]:
    """A folder in which to make `main` and files whose names begin with its name. Once the body ends they stand beside
    `main`, durably; if it fails, nothing stays. `wait`: how many seconds to wait for another process that is at it.

    ParameterError, naming `field`, if a name is taken, another process is at it, or nothing can be written."""
    require_posix(main, field)
    home = Home(f"{main}, which is being made,")
    with _folder(main, field, home, wait) as folder:
        try:
            with _writing(main, field):
                _clear(folder, main)
            require_free(main, field, expected)
            yield folder
            home.require()
            with _writing(main, field):
                _publish(folder, main, field, expected)
        finally:
            if home.is_here:  # a forked child that leaves the body takes nothing from its parent
                with suppress(OSError):  # whoever makes the file anew, or opens it, does it then
                    _clear(folder, main)


@contextmanager
def _writing(main: Path, field: str) -> Iterator[None]:
    """What the system refuses, as ParameterError of `field`."""
    try:
        yield
    except OSError as error:
        raise ParameterError(field, str(main), f"a path that can be written ({error.strerror})") from None


def settle(main: Path) -> None:
    """Finish what a process left that died after `main` had its name: until then the file has a second one."""
    folder = _folder_of(main)
    if os.path.islink(folder) or not os.path.exists(main):
        return
    with suppress(OSError):  # without the right to write there, all stays as it is
        if _is_same(folder / main.name, main):
            _remove(folder, main)
        folder.rmdir()


def _folder_of(main: Path) -> Path:
    return main.with_name(f".{main.name}.unfinished")


@contextmanager
def _folder(main: Path, field: str, home: Home, wait: float) -> Iterator[Path]:
    """The folder, locked; it is removed at the end. What a dead process left in it is still there."""
    folder = _folder_of(main)
    try:
        descriptor = _locked_within(folder, wait)
    except BlockingIOError:
        raise ParameterError(field, str(main), "a path at which no other process is making a file now") from None
    except FileNotFoundError:
        raise ParameterError(field, str(main), f"a path in a folder that exists: there is no {main.parent}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ParameterError(field, str(main), f"a path that can be written ({folder}: {reason})") from None
    try:
        yield folder
    finally:
        if home.is_here:
            with suppress(OSError):  # there is something else in it: not ours to remove
                folder.rmdir()
        os.close(descriptor)


def _locked_within(folder: Path, wait: float) -> int:
    deadline = time.monotonic() + wait
    while True:
        try:
            return _locked(folder)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(POLL_SECONDS)


def _locked(folder: Path) -> int:
    for _ in range(ATTEMPTS):
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        with suppress(FileNotFoundError):  # whoever held it removed it just now
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                _require_own(descriptor)
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(descriptor), os.lstat(folder)):
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)
    raise BlockingIOError


def _require_own(descriptor: int) -> None:
    """PermissionError for a folder that somebody else made, or may enter: keys are made in it."""
    found = os.fstat(descriptor)
    if found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(errno.EPERM, "not yours, or others may enter it: find out who made it, and remove it")


def _publish(folder: Path, main: Path, field: str, expected: str) -> None:
    names = _names(folder, main)
    for name in names:
        _sync(folder / name)
    sync_folder(folder / main.name)
    for name in names:
        try:
            os.link(folder / name, main.with_name(name))
        except FileExistsError:
            raise ParameterError(field, str(main.with_name(name)), expected) from None
        except OSError as error:
            reason = f"a path that can be written, on a file system with hard links ({error.strerror})"
            raise ParameterError(field, str(main.with_name(name)), reason) from None
        if name != main.name:
            sync_folder(main)  # a ledger has its keys before it has its name
    sync_folder(main)


def _clear(folder: Path, main: Path) -> None:
    """Empty the folder. Unless the main file has its name, the names that were given are taken back first."""
    if not _is_same(folder / main.name, main):
        for name in _names(folder, main):
            if _is_same(folder / name, main.with_name(name)):
                main.with_name(name).unlink(missing_ok=True)
    _remove(folder, main)


def _remove(folder: Path, main: Path) -> None:
    """What was made in the folder, the main file last: while it is there, it shows how far the making came."""
    for name in _names(folder, main):
        (folder / name).unlink(missing_ok=True)


def _names(folder: Path, main: Path) -> list[str]:
    """What was made in the folder, the main file last; nothing, once somebody else has removed it (`settle`)."""
    try:
        found = os.listdir(folder)
    except FileNotFoundError:
        return []
    return sorted((name for name in found if name.startswith(main.name)), key=lambda name: (name == main.name, name))


def _is_same(staged_file: Path, named: Path) -> bool:
    try:
        return os.path.samestat(os.lstat(staged_file), os.lstat(named))
    except (OSError, ValueError):
        return False


def _sync(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
