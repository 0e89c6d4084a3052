"""Where long work reports how far it is and how long it will still take: a bar on a terminal, silence elsewhere.

>>> list(track([1, 2, 3], "counting"))
[1, 2, 3]
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import TypeVar

from dpledger.process import Home

__all__ = ["Advance", "bar", "time_in_words", "track"]

T = TypeVar("T")
Advance = Callable[[int], None]

LOOKS_BACK = 3600.0  # seconds from whose steps the time left is told: one step of an audit may take minutes


@contextmanager
def bar(description: str, total: int | None, *, shown: bool = True) -> Iterator[Advance]:
    """A context that yields `advance(steps)`. Draws on standard error, only where that is a terminal, and not in a
    forked child: the thread that redraws is its parent's, and may hold the display's lock for ever."""
    if not shown or not sys.stderr.isatty():
        yield lambda _: None
        return
    drawn = random.getstate()  # which rich draws from as it is imported, and the caller may have seeded
    try:
        from rich.console import Console
        from rich.progress import Progress
    finally:
        random.setstate(drawn)

    home = Home("a progress bar")
    display = Progress(console=Console(stderr=True), transient=True, speed_estimate_period=LOOKS_BACK)
    display.start()
    try:
        task = display.add_task(description, total=total)
        yield lambda steps: display.advance(task, steps) if home.is_here else None
    finally:
        if home.is_here:
            display.stop()


def track(items: Iterable[T], description: str, *, total: int | None = None, shown: bool = True) -> Iterator[T]:
    """The items of `items`, one by one, with a bar that advances after each."""
    length = total if total is not None else len(items) if isinstance(items, Sized) else None
    with bar(description, length, shown=shown) as advance:
        for item in items:
            yield item
            advance(1)


def time_in_words(seconds: float) -> str:
    """About how long, in the largest unit of which there are two or more.

    >>> time_in_words(100), time_in_words(3 * 10**6)
    ('100 seconds', '35 days')
    """
    for unit, long in (("years", 31_557_600), ("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * long:
            return f"{seconds / long:,.0f} {unit}"
    return f"{seconds:.3g} seconds"
