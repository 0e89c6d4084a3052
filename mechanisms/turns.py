"""One answer at a time: threads wait for their turn, and whoever asks in the middle of an answer is refused.

A plain lock would let a signal handler wait for the thread that it interrupted, for ever; one that a thread may take
twice would let it in, to read and change what the interrupted answer is about to use: two answers from one threshold
would get two, and both levels of a chain paths of their own.

>>> turn = Turn("a run")
>>> with turn:
...     with turn:
...         pass
Traceback (most recent call last):
    ...
dpledger.errors.StillAnswering: a run was asked while it was answering: nothing was drawn. Ask again afterwards
"""

from __future__ import annotations

import threading

from dpledger.errors import StillAnswering

__all__ = ["Turn"]


class Turn:
    """A lock that no thread enters twice; `what` is its owner's name in a message."""

    __slots__ = ("_lock", "_taken", "_what")

    def __init__(self, what: str) -> None:
        self._what, self._lock, self._taken = what, threading.RLock(), False

    def __enter__(self) -> None:
        self._lock.acquire()
        if self._taken:
            self._lock.release()
            raise StillAnswering(
                f"{self._what} was asked while it was answering: nothing was drawn. Ask again afterwards"
            )
        self._taken = True

    def __exit__(self, *_: object) -> None:
        self._taken = False
        self._lock.release()
