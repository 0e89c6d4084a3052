"""What a run finds around it: the same in this process and in a worker.

A division by zero is a number, a warning or an exception, as numpy is told; a warning may be an exception as well. So
every run is made under the settings of whoever asks for the audit, wherever it is made: numpy's for errors in
arithmetic, those of `warnings`, and those of `decimal`. And a process makes one run at a time, also where its threads
are the workers: runs share its generators, the mechanism and its buffers.
"""

from __future__ import annotations

import decimal
import functools
import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Surroundings", "has_turn", "turn"]

_OWN = threading.local()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Settings that travel to workers. `errors`: of numpy, by kind; `filters`: of warnings, the first one first."""

    errors: tuple[tuple[str, Any], ...]
    filters: tuple[Any, ...]
    decimals: decimal.Context

    @classmethod
    def here(cls) -> Surroundings:
        """Those of this thread, now."""
        errors: dict[str, Any] = {**np.geterr(), "call": np.geterrcall()}
        of_decimals = decimal.getcontext().copy()  # type: ignore[misc]  # the caller's is meant
        return cls(tuple(errors.items()), tuple(warnings.filters), of_decimals)

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Have them here. Filters that are the same are left alone: a warning that is shown once was shown."""
        with ExitStack() as undo:
            undo.enter_context(np.errstate(**dict(self.errors)))
            undo.enter_context(decimal.localcontext(self.decimals))
            if tuple(warnings.filters) != self.filters:
                undo.enter_context(warnings.catch_warnings())
                warnings.resetwarnings()
                filters: Any = warnings.filters
                filters.extend(self.filters)
            yield


@contextmanager
def turn() -> Iterator[None]:
    """Wait until no other thread of this process makes a run."""
    with _lock(os.getpid()):
        before = has_turn()
        _OWN.turn = True
        try:
            yield
        finally:
            _OWN.turn = before


def has_turn() -> bool:
    """Whether this thread is inside a run: then other threads that it asked for runs would wait for it."""
    return getattr(_OWN, "turn", False)


@functools.lru_cache(maxsize=1)
def _lock(_process: int) -> threading.RLock:
    return threading.RLock()
