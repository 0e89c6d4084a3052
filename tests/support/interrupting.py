"""Interruptions at every line: what Ctrl-C in a notebook or a worker's time limit does, wherever the interpreter is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

__all__ = ["interrupted_before", "interruptions"]


def interrupted_before(line: int, run: Callable[[], object], *folders: str) -> bool:
    """Run with KeyboardInterrupt raised before the `line`-th line, from 0, that is run of files in these folders; in
    generators as well. False where the run has fewer lines and ended."""
    left = line
    before = sys.gettrace()

    def watch(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if not any(folder in frame.f_code.co_filename for folder in folders):
            return None
        if event == "line":
            left -= 1
            if left < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return watch

    sys.settrace(watch)
    try:
        run()
    except KeyboardInterrupt:
        assert left < 0, "another interruption than this one"
        return True
    finally:
        sys.settrace(before)
    return False


def interruptions(run: Callable[[], object], *folders: str, every: int = 1) -> Iterator[int]:
    """Run again and again, each time interrupted `every` lines later, until it is not; the number of each line, after
    its interruption."""
    line = 0
    while interrupted_before(line, run, *folders):
        yield line
        line += every
