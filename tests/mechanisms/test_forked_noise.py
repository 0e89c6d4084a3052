"""Noise sources and open runs in a fork of their process: they draw nothing there, whoever forked and however."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from dpledger.mechanisms.entropy import Entropy, seeded, system
from dpledger.mechanisms.learning.queries.oracle import StatisticalQueryOracle
from dpledger.mechanisms.learning.samples import LabeledSample
from dpledger.mechanisms.threshold import Outcome, SparseVector
from dpledger.mechanisms.training import DPFTRL, DPSGD
from forking import DONE, Fork, ignores_fork_warnings, in_child, quiet_fork

pytestmark = [ignores_fork_warnings, pytest.mark.system_noise]

REFUSED = "ForkedProcess: "
PLAN: dict[str, Any] = {
    "rate": "0.5",
    "steps": 9,
    "noise_multiplier": 1,
    "clip_norm": 1,
    "dimension": 2,
    "expected_batch_size": 4,
}


@pytest.mark.parametrize("fork", [os.fork, quiet_fork], ids=["fork", "foreign fork"])
@pytest.mark.parametrize("source", [system(), seeded(7)], ids=["system", "seeded"])
def test_a_source_draws_nothing_in_a_forked_child(source: Entropy, fork: Fork) -> None:
    """Its words would be those that its parent draws next."""
    assert in_child(lambda: source.words(4), fork).startswith(f"{REFUSED}a noise source")
    assert len(source.words(4)) == 4


def test_a_source_made_in_the_child_draws_there() -> None:
    assert in_child(lambda: system().words(4)) == DONE


def test_an_open_sparse_vector_answers_nothing_in_a_forked_child() -> None:
    run = SparseVector(epsilon=1000, cutoff=2, threshold=10, sensitivity=1).open(None, entropy=seeded(1))
    assert run.ask(20) is Outcome.ABOVE

    def reads_the_data(_: object) -> int:
        os._exit(1)  # a child that says nothing

    for use in (lambda: run.ask(20), lambda: run.ask(0), lambda: run.ask(reads_the_data), run.close):
        assert in_child(use).startswith(f"{REFUSED}a sparse vector run")
    assert run.ask(20) is Outcome.ABOVE


def test_an_open_run_of_statistical_queries_answers_nothing_in_a_forked_child() -> None:
    run = StatisticalQueryOracle(epsilon=1, queries=2).open(LabeledSample([1], [1]), entropy=seeded(1))
    for use in (lambda: run.ask(lambda x, y: x), run.close):
        assert in_child(use).startswith(f"{REFUSED}a run of statistical queries")
    assert isinstance(run.ask(lambda x, y: x), float)
    assert run.close().value.asked == 1


TRAININGS: list[Any] = [DPSGD(**PLAN), DPFTRL(**PLAN, groups=2)]


@pytest.mark.parametrize("training", TRAININGS, ids=lambda one: one.kind)
def test_an_open_training_run_takes_no_step_in_a_forked_child(training: Any) -> None:
    run = training.open(np.ones((8, 2)), entropy=seeded(1))
    loop = run.steps()
    next(loop)
    run.ask(lambda rows: rows)
    for use in (lambda: run.ask(lambda rows: rows), loop.__next__, run.close):
        assert in_child(use).startswith(f"{REFUSED}a training run")
    assert next(loop) == 1
    assert run.close().value.done == 1


@pytest.mark.parametrize("raises", [False, True])
def test_what_the_callers_code_forks_gets_no_answer(raises: bool) -> None:
    """The fork happens inside of the query, or of the gradients, which return, or raise, in both processes."""
    reading, writing = os.pipe()
    parent = os.getpid()

    def forks(rows: Any) -> Any:
        if os.fork():
            os.wait()
        elif raises:
            raise ValueError
        return 20 if rows is None else rows

    vector = SparseVector(epsilon=1000, cutoff=2, threshold=10, sensitivity=1).open(None, entropy=seeded(1))
    trainings = [training.open(np.ones((8, 2)), entropy=seeded(1)) for training in TRAININGS]
    for training in trainings:
        training.ask(lambda rows: rows)
    for ask in (vector.ask, *(training.ask for training in trainings)):
        try:
            ask(forks)
            assert os.getpid() == parent
        except BaseException as error:
            if os.getpid() == parent:
                raise
            os.write(writing, f"{type(error).__name__} ".encode())
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        assert pipe.read() == "ForkedProcess " * 3
