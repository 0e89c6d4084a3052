"""Threads that meet where a race would be: what one of them does between two lines, the other does too."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from dpledger.mechanisms.entropy import Words, seeded

__all__ = ["Interrupted", "Meeting", "Slow", "together"]

MEETING = 0.2  # seconds; where a lock keeps threads apart, nobody comes to the meeting


class Meeting:
    """A place where `count` threads wait for each other, but not for long: behind a lock only one arrives."""

    def __init__(self, count: int = 2, patience: float = MEETING) -> None:
        self._barrier, self._patience = threading.Barrier(count), patience

    def wait(self) -> None:
        with suppress(threading.BrokenBarrierError):
            self._barrier.wait(self._patience)


def together(*works: Callable[[], object]) -> list[object]:
    """What each of the works returned or raised, all of them started at once in threads of their own."""
    results: list[object] = [None] * len(works)
    start = threading.Barrier(len(works))

    def run(number: int) -> None:
        start.wait()
        try:
            results[number] = works[number]()
        except Exception as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


class Slow:
    """A noise source that lets another thread catch up before it first answers one."""

    def __init__(self, patience: float = MEETING) -> None:
        self._source, self._meeting, self._met = seeded(5), Meeting(patience=patience), threading.local()

    def words(self, count: int, /) -> Words:
        if not hasattr(self._met, "here"):
            self._met.here = True
            self._meeting.wait()
        return self._source.words(count)


class Interrupted:
    """A noise source whose first answer `handler` interrupts, as a signal handler may."""

    def __init__(self, handler: Callable[[], None]) -> None:
        self._handlers, self._source = [handler], seeded(1)

    def words(self, count: int, /) -> Words:
        while self._handlers:
            self._handlers.pop()()
        return self._source.words(count)
