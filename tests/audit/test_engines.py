"""Which runs go to other processes, and in how many pieces. That they say the same there:
test_acceptance_of_engines.py."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from dpledger.audit.sampling.runs import Piece, Runs
from dpledger.audit.sampling.travel import REPEATS, UNSENT
from dpledger.audit.sampling.ways import Single

pytestmark = pytest.mark.sliced


def drawn(mechanism: Any, *, jobs: int) -> tuple[Runs, Any]:
    runs = Runs(Single(mechanism), 0.0, 1.0, seed=3, encode=list)
    return runs, runs.block(0, 40, list, jobs=jobs, advance=lambda _: None)


class Hidden:
    """Noise from a source that nobody can seed: a copy begins where this one stands."""

    def __init__(self) -> None:
        self.state = 1

    def __call__(self, data: float, rng: np.random.Generator) -> float:
        self.state = self.state * 6364136223846793005 % 2**64 + 1
        return data + self.state / 2**64


def test_what_would_repeat_its_noise_stays_in_this_process() -> None:
    runs, (left, right) = drawn(Hidden(), jobs=2)
    assert runs.alone == REPEATS
    assert len({one % 1 for one in [*left, *right]}) == 80


def test_what_cannot_be_sent_stays_in_this_process() -> None:
    lock = threading.Lock()

    def locked(data: float, rng: np.random.Generator) -> float:
        with lock:
            return data + rng.laplace()

    runs, outputs = drawn(locked, jobs=2)
    assert runs.alone == UNSENT
    assert outputs == drawn(locked, jobs=1)[1]


def slow(data: float, rng: np.random.Generator) -> float:
    return data


@pytest.mark.parametrize(("each", "pairs", "workers", "pieces"), [(60.0, 100, 16, 200), (60.0, 8, 16, 16)])
def test_slow_runs_are_dealt_one_by_one(each: float, pairs: int, workers: int, pieces: int) -> None:
    """200 trainings on 16 cores use 16."""
    runs = Runs(Single(slow), 0.0, 1.0, seed=3, encode=list)
    runs._each = each
    dealt = runs._pieces(0, pairs, workers)
    assert dealt == [Piece(place, place + 1) for place in range(pieces)]


def test_fast_runs_are_dealt_in_few_pieces() -> None:
    runs = Runs(Single(slow), 0.0, 1.0, seed=3, encode=list)
    runs._each = 1e-5
    assert runs._workers(2 * 100, 16) == 1
    assert len(runs._pieces(0, 20_000, 16)) <= 32
