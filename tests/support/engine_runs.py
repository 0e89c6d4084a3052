"""Blocks of runs under an engine of joblib: `python engine_runs.py ENGINE JOBS ...` prints a digest for each JOBS.

It is run as a program, so what the engines start and warn of stays out of the tests' process."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import joblib
import numpy as np

from dpledger.audit.sampling import runs as room
from dpledger.audit.sampling.copies import digest
from dpledger.audit.sampling.runs import Runs
from dpledger.audit.sampling.ways import Batched, Single, Unaided

BLOCKS = (8, 60)


def noisy(data: float, rng: np.random.Generator) -> float:
    return data + rng.laplace()


def many(data: float, size: int, rng: np.random.Generator) -> Any:
    return data + rng.laplace(size=size)


def unaided(data: float) -> float:
    return data + float(np.random.laplace())  # a global generator is what is tested


class Own:
    """Noise from a generator of its own."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def __call__(self, data: Any, rng: np.random.Generator) -> float:
        data += self.rng.laplace()
        return float(data[0])


def listed(outputs: Any) -> list[Any]:
    return list(outputs)


WAYS = ((Single(noisy), 0.0), (Batched(many), 0.0), (Unaided(unaided), 0.0), (Single(Own()), np.zeros(1)))


def digests(jobs: int) -> str:
    """Of every way to run, over a few blocks."""
    found = []
    for sampler, left in WAYS:
        runs = Runs(sampler, left, left + 1, seed=3, encode=listed)
        first = 0
        for pairs in BLOCKS:
            runs._each = 0.02  # as if a run took so long: blocks go to workers
            found.append(runs.block(first, pairs, listed, jobs=jobs, advance=lambda _: None))
            first += pairs
        assert runs.alone is None
    return digest(found).hex()


@contextlib.contextmanager
def engine(name: str) -> Iterator[None]:
    """The engine, for a while."""
    with contextlib.ExitStack() as stack:
        if name == "dask":
            from distributed import Client

            options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
            stack.enter_context(Client(**options))  # type: ignore[no-untyped-call]
        stack.enter_context(joblib.parallel_config(backend=name))
        yield


if __name__ == "__main__":
    room.BATCH = 32
    with engine(sys.argv[1]):
        for word in sys.argv[2:]:
            print(f"digest {digests(int(word))}")
