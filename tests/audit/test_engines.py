"""Which runs go to other processes, and in how many pieces. That they say the same there:
test_acceptance_of_engines.py."""

from __future__ import annotations

import decimal
import pickle
import threading
import time
import warnings
from multiprocessing.pool import ThreadPool
from typing import Any

import joblib
import numpy as np
import pytest

from dpledger.audit.outcomes import Raised
from dpledger.audit.sampling import runs as sampled_runs
from dpledger.audit.sampling.runs import Piece, Runs
from dpledger.audit.sampling.travel import REPEATS, THREADS, UNSENT
from dpledger.audit.sampling.ways import Single, Unaided

pytestmark = pytest.mark.sliced


def drawn(mechanism: Any, *, jobs: int) -> tuple[Runs, Any]:
    runs = Runs(Single(mechanism), 0.0, 1.0, seed=3, encode=list)
    return runs, runs.block(0, 40, list, jobs=jobs, advance=lambda _: None)


def noisy(data: float, rng: np.random.Generator) -> float:
    return data + rng.laplace()


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


# ---- one result for any workers -------------------------------------------------------------------------------------


def settled(data: float, rng: np.random.Generator) -> Any:
    """What shows under which settings it runs."""
    with np.errstate():
        divided = float(np.float64(1) / np.float64(rng.integers(0, 2)))
    warnings.warn("a run", UserWarning, stacklevel=1)
    return divided, str(decimal.Decimal(1) / 3)


@pytest.mark.parametrize("errors", ["raise", "ignore"])
@pytest.mark.parametrize("filters", ["error", "ignore"])
def test_runs_are_under_the_settings_of_the_caller_wherever_they_are(errors: Any, filters: Any) -> None:
    with np.errstate(all=errors), warnings.catch_warnings(), decimal.localcontext() as context:
        context.prec = 5
        warnings.simplefilter(filters)
        one = drawn(settled, jobs=1)[1]
        runs_of_two, two = drawn(settled, jobs=2)
        kept = warnings.filters[:], np.geterr()
        assert kept == (warnings.filters, np.geterr())
    assert runs_of_two.alone is None
    assert one == two
    named = {output.name for output in [*one[0], *one[1]] if isinstance(output, Raised)}
    expected = {("raise", "error"): {"FloatingPointError", "UserWarning"}, ("raise", "ignore"): {"FloatingPointError"},
                ("ignore", "error"): {"UserWarning"}, ("ignore", "ignore"): set()}  # fmt: skip
    assert named == expected[errors, filters]
    assert {output[1] for output in [*one[0], *one[1]] if isinstance(output, tuple)} <= {"0.33333"}


def unaided(data: float) -> float:
    time.sleep(0)
    return data + float(np.random.laplace())  # a global generator is what is tested


OWN = np.random.default_rng(3)


def holding(data: float) -> float:
    time.sleep(0)
    return data + float(OWN.laplace())


def states() -> tuple[bytes, str]:
    return pickle.dumps(np.random.get_state(legacy=False)), str(OWN.bit_generator.state)


@pytest.mark.parametrize("mechanism", [unaided, holding])
def test_where_workers_are_threads_all_runs_are_in_one(mechanism: Any) -> None:
    def outputs(jobs: int) -> tuple[Runs, Any]:
        runs = Runs(Unaided(mechanism), 0.0, 1.0, seed=3, encode=list)
        return runs, runs.block(0, 500, list, jobs=jobs, advance=lambda _: None)

    before = states()
    with joblib.parallel_config("threading"):
        runs, found = outputs(4)
    assert states() == before
    assert runs.alone == THREADS
    assert found == outputs(1)[1]


@pytest.mark.parametrize("mechanism", [unaided, holding])
def test_threads_that_audit_at_once_do_not_disturb_each_other(mechanism: Any) -> None:
    def outputs(seed: int) -> Any:
        runs = Runs(Unaided(mechanism), 0.0, 1.0, seed=seed, encode=list)
        return runs.block(0, 500, list, jobs=1, advance=lambda _: None)

    before = states()
    with ThreadPool(4) as pool:
        found = pool.map(outputs, range(8))
    assert states() == before
    assert found == [outputs(seed) for seed in range(8)]


def test_an_audit_inside_a_run_does_not_wait_for_itself() -> None:
    def audits(data: float, rng: np.random.Generator) -> Any:
        return drawn(settled_quietly, jobs=2)[1]

    left, _ = drawn(audits, jobs=1)[1]
    assert left[0] == drawn(settled_quietly, jobs=1)[1]


def settled_quietly(data: float, rng: np.random.Generator) -> float:
    return data + rng.laplace()


# ---- pieces ---------------------------------------------------------------------------------------------------------


def slow(data: float, rng: np.random.Generator) -> float:
    return data


@pytest.mark.parametrize(("each", "pairs", "workers", "pieces"), [(60.0, 100, 16, 200), (60.0, 8, 16, 16)])
def test_slow_runs_are_dealt_one_by_one(each: float, pairs: int, workers: int, pieces: int) -> None:
    """200 trainings on 16 cores use 16."""
    runs = Runs(Single(slow), 0.0, 1.0, seed=3, encode=list)
    runs._each = each
    dealt = runs._pieces(0, pairs, workers)
    assert dealt == [Piece(place, place + 1) for place in range(pieces)]


def test_workers_are_started_for_what_takes_as_long_as_that_and_then_asked_for_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else an audit of three seconds waits ten for workers that save it a twentieth of one."""
    dealt: list[int] = []

    def in_this_process(work: Any, pieces: Any, _jobs: int) -> Any:
        dealt.append(len(pieces))
        return map(work, pieces)

    monkeypatch.setattr(sampled_runs, "_in_workers", in_this_process)
    monkeypatch.setattr(sampled_runs, "stays", lambda *_: None)
    runs = Runs(Single(noisy), 0.0, 1.0, seed=3, encode=list)
    for pairs, each, are_dealt in ((40, 0.001, 0), (40, 0.1, 1), (40, 0.001, 2), (10, 0.001, 2)):
        runs._each = each
        runs.block(0, pairs, list, jobs=2, advance=lambda _: None)
        assert len(dealt) == are_dealt


def test_fast_runs_are_dealt_in_few_pieces() -> None:
    runs = Runs(Single(slow), 0.0, 1.0, seed=3, encode=list)
    runs._each = 1e-5
    assert runs._workers(2 * 100, 16) == 1
    assert len(runs._pieces(0, 20_000, 16)) <= 32
