"""A copy of the process's memory that nobody sees (a machine restored from a snapshot): it repeats no noise.

The copy is a real one, a fork, in which every look at the process is switched off.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dpledger as dpl
from dpledger.mechanisms import noise
from dpledger.mechanisms.entropy import Entropy, seeded, system
from dpledger.mechanisms.noise import DiscreteLaplace, ExponentialWeights, RandomizedAnswer, Sensitivity
from dpledger.process import Home
from forking import ignores_fork_warnings, in_child

pytestmark = [ignores_fork_warnings, pytest.mark.sliced, pytest.mark.system_noise]

Draws = Callable[[], object]
"""One more release, or one more answer; of so many bits that two of them agree once in 2^60."""

ONE = Sensitivity(1, "l1", "a record changes a count by one")
WIDE = DiscreteLaplace(scale=10**17)


def copied(draws: Draws, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """What the copy and the original answer next."""

    def told() -> None:
        raise ValueError(repr(draws()))

    monkeypatch.setattr(Home, "require", lambda _: None)
    monkeypatch.setattr(Home, "is_here", property(lambda _: True))
    return in_child(told), f"ValueError: {draws()!r}"


def noises(entropy: Entropy) -> dict[str, Draws]:
    """Every noise function, used once before the copy is made."""
    return {
        "words": lambda: entropy.words(2).tolist(),
        "many words": lambda: entropy.words(5000).tolist()[-2:],
        "draw": lambda: noise.draw(WIDE, 0, sensitivity=ONE, entropy=entropy),
        "draw many": lambda: noise.draw(WIDE, np.zeros(900, np.int64), sensitivity=ONE, entropy=entropy).tolist()[-2:],
        "happens": lambda: noise.happens("0.5", size=200, entropy=entropy).tolist(),
        "sampled": lambda: noise.sampled("0.01", 20_000, entropy=entropy).tolist(),
        "uniform": lambda: noise.uniform(2**64, 3, entropy=entropy).tolist(),
        "choose": lambda: [
            noise.choose(ExponentialWeights(exponent=1), [0] * 500, sensitivity=ONE, entropy=entropy) for _ in range(20)
        ],
        "respond": lambda: noise.respond(
            RandomizedAnswer(epsilon=1, k=1000), np.zeros(500, np.int64), entropy=entropy
        ).tolist(),
        "chain": lambda: noise.chain(WIDE, 0, sensitivity=ONE, entropy=entropy).refine(2 * 10**17),
    }


def runs(entropy: Entropy) -> dict[str, Draws]:
    """Open runs, asked once before the copy is made: their next answer."""
    training = dpl.DPSGD(rate="0.5", steps=9, noise_multiplier=1, clip_norm=1, dimension=9, expected_batch_size=4).open(
        np.ones((8, 9)), entropy=entropy
    )
    oracle = dpl.learning.StatisticalQueryOracle(epsilon=1, queries=4).open(
        dpl.learning.LabeledSample([1], [1]), entropy=entropy
    )
    gradual = dpl.ex_post.GradualGaussian(mu=9, sensitivity=1, dimension=6).open(np.zeros(6), entropy=entropy)
    levels = iter(range(1, 9))
    return {
        "training": lambda: training.ask(lambda batch: np.zeros((len(batch), 9))).tolist(),
        "oracle": lambda: [oracle.ask(lambda x, y: x), oracle.ask(lambda x, y: x)],
        "gradual Gaussian": lambda: np.asarray(gradual.ask(next(levels))).tolist(),
    }


def of_a_ledger(entropy: Entropy | None) -> dict[str, Draws]:
    """A handle of a ledger that has released and answered before."""
    scope = dpl.Ledger.in_memory(entropy=entropy).scope(
        "rows", unit="record", relation="add_remove", budget=dpl.PureDP(1000)
    )
    laplace = dpl.Laplace(sensitivity=1, epsilon=1)
    session = scope.open(
        dpl.learning.StatisticalQueryOracle(epsilon=1, queries=9), dpl.learning.LabeledSample([1], [1])
    )
    return {
        "releases": lambda: [scope.release(laplace, 0.0).value for _ in range(5)],
        "asks": lambda: [session.ask(lambda x, y: x) for _ in range(3)],
    }


@pytest.mark.parametrize("kind", [noises, runs])
def test_a_copy_of_memory_repeats_no_noise(
    kind: Callable[[Entropy], dict[str, Draws]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, draws in kind(system()).items():
        draws()
        copy, original = copied(draws, monkeypatch)
        assert copy.startswith("ValueError: "), (name, copy)
        assert copy != original, name


def test_a_copy_of_a_ledger_repeats_no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found: a handle had one key of the system, and its copy's releases were the original's to the last bit."""
    for name, draws in of_a_ledger(None).items():
        draws()
        copy, original = copied(draws, monkeypatch)
        assert copy.startswith("ValueError: "), (name, copy)
        assert copy != original, name


@pytest.mark.parametrize("kind", [noises, runs, of_a_ledger])
def test_a_source_with_a_key_of_its_own_is_found_out(
    kind: Callable[[Entropy], dict[str, Draws]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: what a handle held before."""
    for name, draws in kind(seeded(1)).items():
        draws()
        copy, original = copied(draws, monkeypatch)
        assert copy == original, name


def test_nothing_that_was_drawn_or_drawn_from_stays_in_the_source() -> None:
    """Earlier noise cannot be told from later memory: the source refers to its process, and to nothing else."""
    source = system()
    for count in (1, 128, 129, 10_000):
        source.words(count)
    assert [type(held) for held in gc.get_referents(source) if not isinstance(held, type)] == [Home]


@pytest.mark.parametrize("count", [0, 1, 127, 128, 129, 4096, 100_000])
def test_words_are_as_many_as_asked_for_and_new_each_time(count: int) -> None:
    source = system()
    first, second = source.words(count), source.words(count)
    assert first.dtype == second.dtype == np.uint64
    assert len(first) == len(second) == count
    assert not set(first.tolist()) & set(second.tolist())  # by chance once in 2^30, at most


@pytest.mark.parametrize("count", [-1, 2**33 + 1])
def test_a_number_of_words_that_nobody_has_is_refused(count: int) -> None:
    with pytest.raises(dpl.ParameterError, match="count"):
        system().words(count)


def test_a_seeded_stream_repeats_and_does_not_start_anew() -> None:
    stream: Any = seeded(3)
    stream._drawn = 2**36 - 8
    stream.words(1)
    with pytest.raises(dpl.ParameterError, match="a fresh stream"):
        stream.words(1)
