"""Whether what is audited may run in several processes: whether copies of it would repeat each other's noise.

What draws from its generator alone, or from the operating system, may leave. What keeps a source of its own that nobody
can seed (a generator of another library, a counter) begins alike in every worker: there its runs would be the same runs
again, so all of them stay in this process. And where the workers are threads of this process there is nowhere to go.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from typing import Any, TypeVar

from dpledger.mechanisms.stability.ensembles.learners import as_bytes

__all__ = ["REPEATS", "THREADS", "UNSENT", "are_threads", "stays"]

Subject = TypeVar("Subject", bound=Any)

MOST_RUNS = 16
LONGEST = 0.5  # seconds of a run, from which on one has to do
UNSENT = "the mechanism cannot be sent to another process: all runs are in this one"
REPEATS = "a copy of the mechanism in another process would repeat its noise: all runs are in this one"
THREADS = "the workers are threads of this process, which makes one run at a time"


def are_threads() -> bool:
    """Whether the engine that joblib would take now has threads of this process for workers."""
    from joblib.parallel import get_active_backend

    backend, _ = get_active_backend()
    return bool(getattr(backend, "uses_threads", False))  # engines of others may not say


def stays(subject: Subject, tried: Callable[[Subject, int], bytes]) -> str | None:
    """Why `subject` stays in this process, in words; None where it may leave. `tried(copy, n)`: a digest of n runs of a
    copy, always with the same seeds.

    Two copies that agree, while one of them run again does not: then what it draws is in the copy. An answer that is
    not needed (by chance, or for what counts its calls) costs time, never a verdict."""
    try:
        sent = as_bytes(subject)
        one, other = pickle.loads(sent), pickle.loads(sent)  # noqa: S301  # made a line above
    except Exception:  # its own code: what cannot be sent stays
        return UNSENT
    started = time.perf_counter()
    first = tried(one, 1)
    if time.perf_counter() - started < LONGEST:
        one = pickle.loads(sent)  # noqa: S301
        first, runs = tried(one, MOST_RUNS), MOST_RUNS
    else:
        runs = 1
    return REPEATS if first == tried(other, runs) != tried(one, runs) else None
