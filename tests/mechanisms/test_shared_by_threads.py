"""Threads that share a noise source or an open run: no word is drawn twice, no step or answer is given beyond the plan.

The races are made to happen: where one thread could pass between a check and what it allows, both wait for each other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpledger.errors import Halted, PolicyError
from dpledger.mechanisms.entropy import seeded, system
from dpledger.mechanisms.learning.queries.oracle import StatisticalQueryOracle
from dpledger.mechanisms.learning.samples import LabeledSample
from dpledger.mechanisms.numeric import Gaussian
from dpledger.mechanisms.refinement import GradualGaussian, GradualRelease
from dpledger.mechanisms.threshold import Outcome, SparseVector
from dpledger.mechanisms.training import DPSGD, StepsTaken
from threads import Interrupted, Meeting, Slow, together

PLAN: dict[str, Any] = {
    "rate": "0.5",
    "noise_multiplier": 1,
    "clip_norm": 1,
    "dimension": 2,
    "expected_batch_size": 4,
}


# ---- noise sources --------------------------------------------------------------------------------------------------


def test_threads_share_a_stream_and_no_word_is_drawn_twice() -> None:
    """Together they draw what one would have drawn alone, in blocks."""
    threads, blocks, size = 4, 30, 20_000
    stream = seeded(3)
    drawn = together(*[lambda: [stream.words(size).tobytes() for _ in range(blocks)]] * threads)
    assert [error for error in drawn if not isinstance(error, list)] == []
    alone = seeded(3).words(threads * blocks * size).reshape(threads * blocks, size)
    assert sorted(block for part in drawn if isinstance(part, list) for block in part) == sorted(
        block.tobytes() for block in alone
    )


@pytest.mark.system_noise
def test_threads_that_share_a_source_release_without_a_failure() -> None:
    source, mechanism = system(), Gaussian(sensitivity=1, noise_multiplier=1, dimension=5000)
    data = np.zeros(5000)
    drawn = together(*[lambda: [np.sum(mechanism.release(data, entropy=source).value) for _ in range(20)]] * 2)
    sums = [total for part in drawn if isinstance(part, list) for total in part]
    assert len(set(sums)) == 40


# ---- open runs ------------------------------------------------------------------------------------------------------


def test_a_sparse_vector_of_one_answer_gives_two_threads_one() -> None:
    run = SparseVector(epsilon=1000, cutoff=1, threshold=10, charged="above", sensitivity=1).open(None, entropy=Slow())
    answers = together(lambda: run.ask(20), lambda: run.ask(20))
    assert answers.count(Outcome.ABOVE) == 1
    assert sum(isinstance(answer, Halted) for answer in answers) == 1
    assert run.close().value.above == 1


@pytest.mark.parametrize("other", ["ask", "close"])
def test_what_interrupts_an_answer_gets_none_and_ends_nothing(other: str) -> None:
    """As a signal handler may. Found: it was answered by a threshold of its own, in the same epoch; and what it closed
    gave one more answer, which its release did not count."""

    def handler() -> None:
        with pytest.raises(PolicyError, match="while it was answering"):
            run.ask(0) if other == "ask" else run.close()

    run = SparseVector(epsilon=1, cutoff=2, threshold=-1000, sensitivity=1).open(None, entropy=Interrupted(handler))
    assert run.ask(0) is Outcome.ABOVE
    assert run.ask_many([0, 0]) == (Outcome.ABOVE,) * 2
    assert run.close().value.asked == 3


def test_one_statistical_query_gives_two_threads_one_answer() -> None:
    run = StatisticalQueryOracle(epsilon=1, queries=1).open(LabeledSample([1], [1]), entropy=Slow())
    answers = together(lambda: run.ask(lambda x, y: x), lambda: run.ask(lambda x, y: x))
    assert sum(isinstance(answer, Halted) for answer in answers) == 1
    assert run.close().value.asked == 1


@pytest.mark.parametrize("other", ["ask", "close"])
def test_what_interrupts_a_statistical_query_gets_none_and_ends_nothing(other: str) -> None:
    def handler() -> None:
        with pytest.raises(PolicyError, match="while it was answering"):
            run.ask(lambda x, y: x) if other == "ask" else run.close()

    run = StatisticalQueryOracle(epsilon=1, queries=3).open(LabeledSample([1], [1]), entropy=Interrupted(handler))
    assert isinstance(run.ask(lambda x, y: x), float)
    assert run.close().value.asked == 1


@pytest.mark.parametrize("other", ["ask", "close"])
@pytest.mark.parametrize("mechanism", [GradualRelease(epsilon=4, sensitivity=1), GradualGaussian(mu=4, sensitivity=1)])
def test_what_interrupts_a_level_gets_none_and_ends_nothing(mechanism: Any, other: str) -> None:
    """Found: a second Gaussian level was drawn as if the first were not there, so that both were worth more than the
    finest one; and what was closed in the middle of a level reported the level before it."""

    def handler() -> None:
        with pytest.raises(PolicyError, match="while it was answering"):
            run.ask(4) if other == "ask" else run.close()

    run = mechanism.open(0.0, entropy=Interrupted(handler))
    answer = run.ask(3)
    assert run.level == 3
    assert run.close().parts.reached == mechanism.level_of(3)
    assert run.close().value == answer


def test_a_plan_of_one_step_runs_one_step_for_two_threads() -> None:
    run = DPSGD(**PLAN, steps=1).open(np.ones((8, 2)), entropy=seeded(1))
    meeting = Meeting()

    def gradients(rows: Any) -> Any:
        meeting.wait()
        return rows

    means = together(lambda: run.ask(gradients), lambda: run.ask(gradients))
    assert sum(isinstance(mean, np.ndarray) for mean in means) == 1
    assert sum(isinstance(mean, Halted) for mean in means) == 1
    assert run.close().value == StepsTaken(done=1, planned=1)
