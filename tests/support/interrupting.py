"""Ctrl-C at every line: runs a piece of work again and again, interrupted before one line more each time."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import dpledger.ledger

__all__ = ["LEDGER", "Lines"]

LEDGER = str(Path(dpledger.ledger.__file__).parent)
STORES = str(Path(LEDGER, "stores"))
EVERY_SEVENTH = 7


class Lines:
    """Raises KeyboardInterrupt, or calls `then`, before the `target`-th of the lines that count: every line of
    `ledger/stores/`, of files in `also`, and every seventh of the rest of `ledger/`. `seen`: how many there were."""

    def __init__(self, target: int, also: tuple[str, ...] = (), then: Callable[[], object] | None = None) -> None:
        self._target = target
        self._then = then
        self._also = also
        self.seen = 0
        self._rest = 0
        self.has_raised = False

    def run(self, work: Callable[[], object]) -> None:
        """Run `work`; a KeyboardInterrupt ends it silently."""
        before = sys.gettrace()
        sys.settrace(self._call)
        try:
            work()
        except KeyboardInterrupt:
            if not self.has_raised:
                raise
        finally:
            sys.settrace(before)
        assert sys.exc_info()[1] is None, "a tracer that raises in a handler's last line leaves its exception for ever"

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._line if frame.f_code.co_filename.startswith((LEDGER, *self._also)) else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event != "line" or self.has_raised:
            return self._line
        if not frame.f_code.co_filename.startswith((STORES, *self._also)):
            self._rest += 1
            if self._rest % EVERY_SEVENTH:
                return self._line
        self.seen += 1
        if self.seen > self._target and not _is_finalizing(frame) and not _returns_from_a_handler(frame):
            self.has_raised = True
            if self._then is None:
                raise KeyboardInterrupt
            self._then()
        return self._line


def _returns_from_a_handler(frame: FrameType) -> bool:
    """Whether an exception is handled as this line returns: what a tracer raises there leaves that one for ever."""
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
    return sys.exc_info()[1] is not None and line.lstrip().startswith("return")


def _is_finalizing(frame: FrameType | None) -> bool:
    """Whether a finalizer runs: Python swallows what it raises."""
    while frame is not None:
        if frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False
