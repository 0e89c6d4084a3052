"""Runs over values and distances, over votes and over scores: threads share one, and a forked child gets nothing.

Each of them ends with its first answer that is UNSTABLE, or where a test says so with a later one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from dpledger.errors import Halted, PolicyError
from dpledger.mechanisms.entropy import Entropy, seeded
from dpledger.mechanisms.stability.answers import UNSTABLE
from dpledger.mechanisms.stability.ensembles.ensemble import Ensemble
from dpledger.mechanisms.stability.labels.soft import SoftLabels
from dpledger.mechanisms.stability.stable_queries import StableQueries
from dpledger.mechanisms.stability.voting import PrivateClassifier
from forking import DONE, ignores_fork_warnings, in_child
from threads import Interrupted, Slow, together
from voting_models import scoring, spread

pytestmark = pytest.mark.sliced

BUDGET: dict[str, Any] = {"epsilon": 100, "delta": "1e-6"}
CHUNKS: dict[str, Any] = {"chunks": 61, "chunker": "slots"}
PATIENCE = 20.0  # seconds that a thread waits for one that is sure to come


@dataclass(frozen=True)
class Kind:
    """How a run is opened that ends with so many UNSTABLE answers, and two queries."""

    open: Callable[[int, Entropy], Any]
    near: Any
    """Its answer is UNSTABLE."""
    far: Any
    answer: object
    """That to `far`."""
    failed: int
    """How many tests fail for an answer that is UNSTABLE."""
    what: str


def stable(unstable: int, entropy: Entropy) -> Any:
    return StableQueries(**BUDGET, cutoff=unstable).open(None, entropy=entropy)


def without_charges(unstable: int, entropy: Entropy) -> Any:
    return StableQueries(**BUDGET, max_queries=unstable, mode="gaussian").open(None, entropy=entropy)


def votes(unstable: int, entropy: Entropy) -> Any:
    return PrivateClassifier(**BUDGET, **CHUNKS, cutoff=unstable).open(spread(61), entropy=entropy)


def scores(unstable: int, entropy: Entropy) -> Any:
    """Query 0 splits the models in both partitions, query 1 has one answer: two tests fail, or none."""
    table = np.stack([np.arange(61) % 2, np.full(61, 0.95)], axis=1)
    return SoftLabels(**BUDGET, **CHUNKS, failed_tests=2 * unstable).open(scoring(table), entropy=entropy)


KINDS = {
    "stable queries": Kind(stable, ("a", 0), ("b", 10**6), "b", 1, "a run over stable values"),
    "votes": Kind(votes, 30, 60, 1, 1, "an interaction over an ensemble"),
    "scores": Kind(scores, 0, 1, 0.95, 2, "a run of soft labels"),
}
ALL = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())


# ---- threads --------------------------------------------------------------------------------------------------------


def last_answers(run: Any, query: Any) -> tuple[int, int]:
    """How many of two threads that ask for the last answer of a run get one, and how many are told that it is over."""
    answers = together(lambda: run.ask(query), lambda: run.ask(query))
    return answers.count(UNSTABLE), sum(isinstance(answer, Halted) for answer in answers)


@ALL
def test_the_last_unstable_answer_is_given_to_one_thread(kind: Kind) -> None:
    run = kind.open(1, Slow())
    assert last_answers(run, kind.near) == (1, 1)
    assert run.close().value.unstable == 1


def test_the_last_test_without_charges_is_run_for_one_thread() -> None:
    run = without_charges(1, Slow())
    assert last_answers(run, ("a", 0)) == (1, 1)
    assert run.close().value.asked == 1


@ALL
def test_without_turns_both_threads_would_get_it(kind: Kind) -> None:
    run = kind.open(1, Slow(PATIENCE))
    run._turn = nullcontext()
    assert last_answers(run, kind.near) == (2, 0)


@ALL
def test_what_threads_are_told_is_what_is_counted(kind: Kind) -> None:
    """One by one and in batches, until the run is over."""
    run = kind.open(8, seeded(3))

    def alone() -> list[object]:
        found = []
        for place in range(30):
            try:
                found.append(run.ask(kind.far if place % 3 else kind.near))
            except Halted:
                break
        return found

    def at_once() -> list[object]:
        found: list[object] = []
        for _ in range(3):
            try:
                found += run.ask_many([kind.near, kind.far, kind.far] * 4)
            except Halted:
                break
        return found

    told = [answer for part in together(alone, at_once, alone, at_once) if isinstance(part, list) for answer in part]
    release = run.close()
    assert release.value.halted
    assert told.count(UNSTABLE) == release.value.unstable == 8
    assert len(told) == release.value.asked
    assert told.count(kind.answer) == len(told) - 8
    assert len(release.parts.outcome.closed_epochs) == 8 * kind.failed


@ALL
@pytest.mark.parametrize("other", ["ask", "ask_many", "close"])
def test_what_interrupts_an_answer_gets_none_and_ends_nothing(kind: Kind, other: str) -> None:
    """As a signal handler may."""

    def handler() -> None:
        with pytest.raises(PolicyError, match="while it was answering"):
            uses[other]()

    run = kind.open(2, Interrupted(handler))
    uses = {"ask": lambda: run.ask(kind.far), "ask_many": lambda: run.ask_many([kind.far]), "close": run.close}
    assert run.ask(kind.near) is UNSTABLE
    assert run.ask_many([kind.far, kind.near]) == (kind.answer, UNSTABLE)
    assert run.close().value.asked == 3


# ---- forks ----------------------------------------------------------------------------------------------------------


@ALL
@ignores_fork_warnings
def test_a_run_answers_nothing_in_a_forked_child(kind: Kind) -> None:
    """Its parent goes on as if there had been no child: with the same noise."""
    run, alone = kind.open(3, seeded(1)), kind.open(3, seeded(1))
    assert run.ask(kind.near) is alone.ask(kind.near) is UNSTABLE
    for use in (
        lambda: run.ask(kind.far),
        lambda: run.ask(kind.near),
        lambda: run.ask_many([kind.near, kind.far]),
        lambda: run.ask_many([]),
        run.close,
    ):
        assert in_child(use).startswith(f"ForkedProcess: {kind.what}")
    asked = [kind.far, kind.near, kind.far]
    assert run.ask_many(asked) == alone.ask_many(asked) == (kind.answer, UNSTABLE, kind.answer)
    assert run.close() == alone.close()


@ALL
@ignores_fork_warnings
def test_a_run_opened_in_the_child_answers_there(kind: Kind) -> None:
    def work() -> None:
        assert kind.open(1, seeded(1)).ask(kind.far) == kind.answer

    assert in_child(work) == DONE


class Forks:
    """The process that forks next: in a class, of which no chunk has a copy of its own."""

    next: ClassVar[int | None] = None


def fork() -> None:
    if os.getpid() == Forks.next:
        Forks.next = None
        if os.fork():
            os.wait()


def of_values() -> tuple[Any, Any]:
    def query(_: object) -> tuple[str, int]:
        fork()
        return "b", 10**6

    return stable(1, seeded(1)), query


def of_votes() -> tuple[Any, Any]:
    return PrivateClassifier(**BUDGET, **CHUNKS, cutoff=1).open(forking(2), entropy=seeded(1)), 0


def of_scores() -> tuple[Any, Any]:
    return SoftLabels(**BUDGET, **CHUNKS, failed_tests=2).open(forking(None), entropy=seeded(1)), 0


def forking(classes: int | None) -> Ensemble:
    """An ensemble whose models fork when they are asked."""

    def learner(rows: Any, labels: Any) -> Any:
        def predict(asked: Any) -> Any:
            fork()
            return np.ones(len(asked), dtype=int)

        return predict

    return Ensemble.fit(learner, (np.zeros(61), np.zeros(61)), 61, "slots", classes=classes, progress=False)


@pytest.mark.parametrize("opened", [of_values, of_votes, of_scores])
@ignores_fork_warnings
def test_what_a_query_or_a_model_forks_gets_no_answer(opened: Callable[..., tuple[Any, Any]]) -> None:
    reading, writing = os.pipe()
    parent = os.getpid()
    run, query = opened()
    Forks.next = parent
    try:
        answer = run.ask(query)
        assert os.getpid() == parent, "the child got an answer"
    except BaseException as error:
        if os.getpid() == parent:
            raise
        os.write(writing, type(error).__name__.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        assert pipe.read() == "ForkedProcess"
    assert answer in ("b", 1, 0.95)
    assert Forks.next is None
