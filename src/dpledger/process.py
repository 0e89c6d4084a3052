"""Which process an object was made in. What holds a secret, a charge or a granted step works nowhere else.

A forked child is a copy of its parent: the same noise to come, the same steps that were granted, a connection whose
locks it believes in and does not hold. Both would answer, and the record would hold one of them. So such an object
remembers its `Home`, and asks it before it does anything, before it takes a lock too: a thread that held the lock when
the process was forked does not exist in the child, and nobody would give it back.

A child is told from its parent by what Python runs in it (`os.register_at_fork`) and by its process id: the id alone
repeats in another pid namespace, and a fork in foreign code may tell Python nothing.

>>> home = Home("a counter")
>>> home.require()
>>> home.has_forked
False
"""

from __future__ import annotations

import os
import threading

from dpledger.errors import ForkedProcess

__all__ = ["Home"]

_process = object()  # another one in each forked child
_last_fork = object()  # another one after each fork of this process
_forking: set[int] = set()  # the threads that are inside a fork


class Home:
    """The process in which an object was made; `what` is the object's name in a message."""

    __slots__ = ("_fork", "_pid", "_process", "_what")

    def __init__(self, what: str) -> None:
        self._what = what
        self._process = _process
        self._pid = os.getpid()
        self._fork = None if _forking else _last_fork

    @property
    def is_here(self) -> bool:
        """Whether this is the process in which the object was made."""
        return self._process is _process and self._pid == os.getpid()

    @property
    def has_forked(self) -> bool:
        """Whether this process was forked, by any thread, since the object was made; also if that is under way.

        `subprocess` (without `preexec_fn`), spawn, forkserver and loky begin a program of their own: no such fork."""
        return bool(_forking) or self._fork is not _last_fork  # in this order: a fork ends with a new _last_fork

    def require(self) -> None:
        """Raises ForkedProcess in any other process."""
        if not self.is_here:
            raise self.refusal()

    def refusal(self) -> ForkedProcess:
        """What the object says in another process."""
        return ForkedProcess(
            f"{self._what} belongs to the process that made it, and does nothing in this fork of it. Use it in the "
            "process that made it; or start workers without fork (spawn, forkserver, a fresh process like those of "
            "joblib's loky) and open the ledger there"
        )


def _before_fork() -> None:
    _forking.add(threading.get_ident())


def _after_fork_here() -> None:
    global _last_fork
    _last_fork = object()
    _forking.discard(threading.get_ident())


def _after_fork_in_child() -> None:
    global _process, _last_fork
    _process = object()
    _last_fork = object()
    _forking.clear()


if hasattr(os, "register_at_fork"):  # elsewhere nothing forks
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_here, after_in_child=_after_fork_in_child)
