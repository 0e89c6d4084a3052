"""One clock and one measure of memory for every library.

Seconds are those of the processor, all libraries on one thread: a busy machine does not change the ratios. Memory is
the peak of what Python and numpy allocate during one call.
"""

from __future__ import annotations

import statistics
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Timed(Generic[T]):
    """`seconds` of each repetition, and the last result."""

    seconds: tuple[float, ...]
    result: T

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def ninetieth(self) -> float:
        return sorted(self.seconds)[min(len(self.seconds) - 1, int(0.9 * len(self.seconds)))]


def once(work: Callable[[], T]) -> tuple[float, T]:
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def repeated(work: Callable[[int], T], repeats: int, most_seconds: float = 4.0) -> Timed[T]:
    """work(1), work(2), ... after work(0), which is not counted unless it took more than `most_seconds` by itself."""
    first, result = once(lambda: work(0))
    if first > most_seconds or repeats == 0:
        return Timed((first,), result)
    seconds: list[float] = []
    for i in range(1, repeats + 1):
        taken, result = once(lambda i=i: work(i))
        seconds.append(taken)
        if sum(seconds) > most_seconds:
            break
    return Timed(tuple(seconds), result)


def peak_memory(work: Callable[[], object]) -> float:
    """Megabytes."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()
