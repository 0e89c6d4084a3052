"""How long a verifier computes prices: seconds of the processor, after which it stops and says what it left out.

Everything else in a verification takes time that grows with the bytes of the record alone. A price does not: a few
bytes may name a law whose profile takes minutes. So each entry's prices may take half of the seconds that are left: all
together never take more than was given, and no single one takes all.

An alarm interrupts the computation between two steps of the interpreter, as Ctrl-C does. It needs the main thread, and
a system with interval timers (Linux, macOS).
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dpledger.errors import ParameterError

__all__ = ["Seconds"]

SHARE = 0.5  # of the seconds that are left, for one entry
AGAIN = 0.05  # seconds after which the alarm rings again: one may be lost where no error passes, as in a finaliser


class _Late(BaseException):
    """The seconds of an entry are over. No `except Exception` stops it."""


class Seconds:
    """The seconds of the processor that prices may still take; by None as many as they need.

    ParameterError for what is no finite number above 0, and where no alarm can be set."""

    def __init__(self, most: float | None) -> None:
        if most is not None:
            if isinstance(most, bool) or not isinstance(most, (int, float)) or not 0 < most < math.inf:
                raise ParameterError("most_seconds", most, "a finite number above 0, or None: no limit")
            if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
                raise ParameterError("most_seconds", most, "None: the limit needs the main thread, on Linux or macOS")
        self._left = None if most is None else float(most)

    def are_enough(self, check: Callable[[], None]) -> bool:
        """Whether `check` came to an end within its share. What it raises passes through."""
        if self._left is None:
            check()
            return True
        began = time.process_time()
        try:
            with _alarm(self._left * SHARE):
                check()
        except _Late:
            return False
        finally:
            self._left = max(0.0, self._left - (time.process_time() - began))
        return True


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """_Late is raised once the processor has worked for so long."""

    def ring(*_: object) -> None:
        raise _Late

    if seconds < 1e-6:  # what a timer takes for none at all
        raise _Late
    before = signal.signal(signal.SIGPROF, ring)
    try:
        signal.setitimer(signal.ITIMER_PROF, seconds, AGAIN)
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
