"""Real forks for tests: a child does some work and reports through a pipe, and never returns into pytest.

What a child says is one line of text: `done`, or the type and message of what it raised. A child that says nothing for
`PATIENCE` seconds is taken to hang, for example on a lock that nobody in it can give back.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

PATIENCE = 20.0  # seconds; a machine may be busy
HUNG = "hung"
DONE = "done"

ignores_fork_warnings = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
"""Python 3.12 warns of a fork beside threads, which is what is tested."""

Fork = Callable[[], int]
_CLONE_NEWPID = 0x20000000


def in_child(work: Callable[[], object], fork: Fork = os.fork, patience: float = PATIENCE) -> str:
    """What a forked child says that runs `work`."""
    return heard(*started(work, fork), patience)


def started(work: Callable[[], object], fork: Fork = os.fork) -> tuple[int, int]:
    """A forked child that runs `work`: its id, and the pipe that it reports to."""
    reading, writing = os.pipe()
    pid = fork()
    if pid:
        os.close(writing)
        return pid, reading
    try:
        os.close(reading)
        os.write(writing, _told(work).encode())
    finally:
        os._exit(0)


def heard(pid: int, pipe: int, patience: float = PATIENCE) -> str:
    """What a child says in the end."""
    try:
        ready, _, _ = select.select([pipe], [], [], patience)
        text = b""
        while ready and (more := os.read(pipe, 65536)):
            text += more
    finally:
        os.close(pipe)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return text.decode() if ready else HUNG


def _told(work: Callable[[], object]) -> str:
    try:
        work()
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return DONE


@contextmanager
def held_by_another_thread(hold: Callable[[threading.Event, threading.Event], object]) -> Iterator[None]:
    """A thread inside `hold(inside, leave)`, which sets `inside` and waits for `leave`."""
    inside, leave = threading.Event(), threading.Event()
    thread = threading.Thread(target=hold, args=(inside, leave))
    thread.start()
    try:
        assert inside.wait(PATIENCE)
        yield
    finally:
        leave.set()
        thread.join()


def open_files(file: Path) -> list[str]:
    """What this process has open of a file and of what lies beside it: descriptors and paths."""
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the descriptor that listed them
            found.append(f"{descriptor} {os.readlink(f'/proc/self/fd/{descriptor}')}")
    return sorted(line for line in found if str(file) in line)


def quiet_fork() -> int:
    """A fork by foreign code, which tells Python nothing. The child must end by `os._exit`."""
    return int(ctypes.PyDLL(None).fork())


def same_id_fork() -> int:
    """A fork whose child has the process id of its parent, if that is the first of its own pid namespace. Where such a
    namespace cannot be made, a constant id stands for it. Call it in a process of its own: it has no other forks
    afterwards."""
    unshare = getattr(ctypes.CDLL(None), "unshare", None)
    if unshare is None or unshare(_CLONE_NEWPID):
        own = os.getpid()
        os.getpid = lambda: own
    return os.fork()
