"""A run that may hang: after some seconds it is an outcome like any other, "ran longer than 2 s"."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from dpledger.errors import ParameterError

__all__ = ["TooLong", "check_can_stop", "within"]

T = TypeVar("T")


class TooLong(BaseException):
    """Raised inside a run whose time is over. No Exception, so that a mechanism that handles those does not go on."""


def check_can_stop(seconds: float) -> None:
    """ParameterError where a run cannot be stopped: only a process's main thread can, where there are timers."""
    if not hasattr(signal, "setitimer"):
        raise ParameterError("each_seconds", seconds, "None: this system has no timer that stops a run")
    if threading.current_thread() is not threading.main_thread():
        raise ParameterError(
            "each_seconds", seconds, "None in a thread: only a process's main thread can stop a run (jobs=1, or loky)"
        )


def within(seconds: float, run: Callable[[], T]) -> T:
    """What `run` returns or raises; TooLong if that takes more than `seconds`, also where the run ignores being
    stopped and ends later. Code that never comes back to Python (one long call into C) cannot be stopped.

    Must run where `check_can_stop` finds nothing. A timer that was on is on again afterwards."""
    is_over = False

    def stop(_number: int, _frame: object) -> None:
        nonlocal is_over
        is_over = True
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    started = time.monotonic()
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        try:
            result = run()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if is_over:
            raise TooLong
        return result
    finally:
        signal.signal(signal.SIGALRM, before)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - started), 1e-3), interval)
