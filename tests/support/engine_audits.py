"""Audits under an engine of joblib: `python engine_audits.py ENGINE JOBS ...` prints what they say for each JOBS.

It is run as a program, so what the engines start and warn of stays out of the tests' process."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import joblib
import numpy as np

import dpledger as dpl
from dpledger.audit.sampling import runs as room
from dpledger.audit.sampling.travel import THREADS


def half_noise(data: float, rng: np.random.Generator) -> dict[str, float]:
    return {"mean": data + rng.laplace(scale=0.5)}


def noisy(data: float, rng: np.random.Generator) -> tuple[float, str]:
    return data + rng.laplace(), "an answer"


def batched(data: float, size: int, rng: np.random.Generator) -> Any:
    return 2 * data + rng.laplace(size=size)


def unaided(data: float) -> float:
    return data + float(np.random.laplace())  # a global generator is what is tested


class Own:
    """Noise from a generator of its own."""

    __name__ = "Own"

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def __call__(self, data: float, rng: np.random.Generator) -> float:
        return data + float(self.rng.laplace())


AUDITS: tuple[tuple[Callable[..., Any], int], ...] = (
    (half_noise, 600), (noisy, 600), (batched, 1_000), (unaided, 300), (Own(), 300)
)  # fmt: skip


def said(jobs: int) -> dict[str, Any]:
    """The documents of all audits, without the time that they took, and what is told of threads."""
    found = {}
    for mechanism, trials in AUDITS:
        result = dpl.audit_mechanism(
            mechanism,
            0.0,
            1.0,
            dpl.PureDP(1),
            trials=trials,
            batched=mechanism is batched,
            stop_at_violation=False,
            seed=3,
            jobs=jobs,
            progress=False,
        )
        assert set(result.told) <= {THREADS}, result.told
        found[mechanism.__name__] = json.loads(result.to_json()) | {"seconds": None, "told": None}
    return found


@contextlib.contextmanager
def engine(name: str) -> Iterator[None]:
    """The engine, for a while."""
    with contextlib.ExitStack() as stack:
        if name == "dask":
            from distributed import Client

            options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
            stack.enter_context(Client(**options))  # type: ignore[no-untyped-call]
        elif name == "ray":
            import ray
            from ray.util.joblib import register_ray

            ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
            stack.callback(ray.shutdown)
            register_ray()  # type: ignore[no-untyped-call]
        stack.enter_context(joblib.parallel_config(backend=name))
        yield


if __name__ == "__main__":
    room.BATCH, room.LOOP, room.HERE = 128, 128, 0.0  # so that a few runs are many pieces, and leave this process
    with engine(sys.argv[1]):
        for word in sys.argv[2:]:
            print(json.dumps(said(int(word))))
