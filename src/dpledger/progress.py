"""Where long work reports how far it is: a bar on a terminal, silence elsewhere.

>>> list(track([1, 2, 3], "counting"))
[1, 2, 3]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import TypeVar

from dpledger.process import Home

__all__ = ["Advance", "bar", "track"]

T = TypeVar("T")
Advance = Callable[[int], None]


@contextmanager
def bar(description: str, total: int | None, *, shown: bool = True) -> Iterator[Advance]:
    """A context that yields `advance(steps)`. Draws on standard error, only where that is a terminal, and not in a
    forked child: the thread that redraws is its parent's, and may hold the display's lock for ever."""
    if not shown or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    home = Home("a progress bar")
    display = Progress(console=Console(stderr=True), transient=True)
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
