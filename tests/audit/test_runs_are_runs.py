"""Runs that are runs: each has a seed of its own, the sides take turns, and nothing of one run reaches the next."""

from __future__ import annotations

import functools
import pickle
import random
import secrets
import signal
import time
from collections.abc import Callable
from multiprocessing.pool import ThreadPool
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import dpledger as dpl
from dpledger.audit.outcomes import Outputs, Raised
from dpledger.audit.sampling.generators import own_generators
from dpledger.audit.sampling.runs import ALTERED, BATCH, UNSEEDED, Runs
from dpledger.audit.sampling.seeds import Side, Streams, right_first, right_first_at, words_at, words_of
from dpledger.audit.sampling.ways import Batched, Sampler, Single, Unaided
from dpledger.errors import ParameterError

Pair = tuple[list[Any], list[Any]]


def drawn(sampler: Sampler, first: int = 0, pairs: int = 100, *, jobs: int = 1, **settings: Any) -> Pair:
    return block(runs_of(sampler, **settings), first, pairs, jobs=jobs)


def runs_of(sampler: Sampler, left: object = 0.0, right: object = 1.0, **settings: Any) -> Runs:
    return Runs(sampler, left, right, **{"seed": 3, "encode": list, **settings})


def block(runs: Runs, first: int = 0, pairs: int = 100, *, jobs: int = 1) -> Pair:
    return runs.block(first, pairs, as_it_is, jobs=jobs, advance=lambda _: None)


def as_it_is(outputs: list[Any]) -> list[Any]:
    return outputs


def noisy(data: float, rng: np.random.Generator) -> float:
    return data + rng.laplace()


def many(data: float, size: int, rng: np.random.Generator) -> Any:
    return data + rng.laplace(size=size)


# ---- seeds ----------------------------------------------------------------------------------------------------------


def test_a_run_is_the_same_in_any_block() -> None:
    left, right = drawn(Single(noisy), 0, 40)
    assert drawn(Single(noisy), 13, 20) == (left[13:33], right[13:33])
    assert len(set(left + right)) == 80


def test_no_two_runs_share_their_words_and_sides_are_apart() -> None:
    words = [word for side in Side for row in words_of(5, side, first=0, count=500) for word in row]
    assert len(set(words)) == len(words)
    assert words_of(5, Side.LEFT, first=77, count=3) == words_of(5, Side.LEFT, first=0, count=80)[77:]


def test_the_schedule_is_public_and_fair() -> None:
    flips = right_first(5, 0, 10_000)
    assert (right_first(5, 123, 500) == flips[123:623]).all()
    assert 4_700 < flips.sum() < 5_300  # six standard deviations
    assert (right_first(6, 0, 10_000) != flips).any()


@given(seed=st.integers(0, 2**80), runs=st.lists(st.integers(0, 2**61), max_size=8))
def test_words_and_schedule_are_those_of_the_run_however_they_are_asked_for(seed: int, runs: list[int]) -> None:
    for side in Side:
        assert list(words_at(seed, side, runs)) == [words_of(seed, side, first=run, count=1)[0] for run in runs]
    assert right_first_at(seed, runs) == [right_first(seed, run, 1)[0] for run in runs]


@pytest.mark.parametrize("pairs", [1, BATCH, 3 * BATCH + 1])
def test_batches_are_the_same_in_pieces_of_any_size(pairs: int) -> None:
    """A piece has as many batches as take a while; where batches begin depends on the numbers of runs alone."""
    begun: list[tuple[float, int]] = []

    def told(data: float, size: int, rng: np.random.Generator) -> Any:
        begun.append((data, size))
        return data + rng.random(size)

    found = []
    for each in (None, 1e-9, 1.0):
        runs = runs_of(Batched(told))
        runs._each = each
        dealt = runs._pieces(7, pairs, 1)
        assert len(dealt) == (1 if each == 1e-9 else -(-(7 + pairs) // BATCH))
        begun.clear()
        found.append((block(runs, 7, pairs), list(begun), runs.starts))
    assert found[0] == found[1] == found[2]
    assert found[0][2] == ([7, *range(BATCH, 7 + pairs, BATCH)],) * 2
    assert max(size for _, size in begun) <= BATCH


def test_the_sides_take_turns_in_each_pair() -> None:
    called: list[float] = []

    def told(data: float, rng: np.random.Generator) -> float:
        called.append(data)
        return data

    drawn(Single(told), 0, 50)
    assert [sorted(called[place : place + 2]) for place in range(0, 100, 2)] == [[0.0, 1.0]] * 50
    assert called[::2] == right_first(3, 0, 50).astype(float).tolist()


def test_a_generator_looks_like_any_other() -> None:
    streams = Streams()
    rng = streams.begin(words_of(1, Side.LEFT, first=4, count=1)[0])
    ordinary = np.random.default_rng()
    assert type(rng) is type(ordinary)
    assert type(rng.bit_generator) is type(ordinary.bit_generator)
    sequence, other = rng.bit_generator.seed_seq, ordinary.bit_generator.seed_seq
    assert isinstance(sequence, np.random.SeedSequence)
    assert isinstance(other, np.random.SeedSequence)
    assert sequence.spawn_key == other.spawn_key
    assert isinstance(sequence.entropy, int)
    assert sequence.entropy.bit_length() > 100
    assert sequence.pool_size == other.pool_size
    assert repr(sequence).startswith("SeedSequence(")
    travelled = pickle.loads(pickle.dumps(rng))
    assert travelled.random() == rng.random()
    assert travelled.bit_generator.seed_seq.entropy == sequence.entropy


def spawning(data: float, rng: np.random.Generator) -> float:
    child, other = rng.spawn(2)
    state = rng.bit_generator.seed_seq.generate_state(1)[0]
    return data + child.laplace() + other.laplace() + float(state)


def test_children_of_a_run_are_its_own() -> None:
    left, right = drawn(Single(spawning), 0, 40)
    assert drawn(Single(spawning), 13, 20) == (left[13:33], right[13:33])
    assert len(set(left + right)) == 80


@pytest.mark.parametrize(
    "part", [lambda rng: rng, lambda rng: rng.bit_generator, lambda rng: rng.bit_generator.seed_seq]
)
def test_what_a_mechanism_keeps_of_a_generator_stays_as_it_was(part: Callable[[Any], Any]) -> None:
    kept: list[Any] = []

    def keeping(data: float, rng: np.random.Generator) -> float:
        kept.append(part(rng))
        return rng.random()

    left, right = drawn(Single(keeping), 0, 20)
    assert len({id(one) for one in kept}) == 40
    streams = {_next(one) for one in kept}
    assert len(streams) == 40
    plain = drawn(Single(lambda data, rng: rng.random()), 0, 20)
    assert (left, right) == plain


def _next(one: Any) -> object:
    if isinstance(one, np.random.SeedSequence):
        return one.entropy
    return (one if isinstance(one, np.random.Generator) else np.random.Generator(one)).random()


# ---- batches --------------------------------------------------------------------------------------------------------


def test_borders_of_batches_depend_on_run_numbers_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpledger.audit.sampling.runs.BATCH", 100)
    sizes: list[tuple[int, float]] = []

    def told(data: float, size: int, rng: np.random.Generator) -> Any:
        sizes.append((size, data))
        return data + rng.laplace(size=size)

    runs = runs_of(Batched(told))
    left, right = block(runs, 30, 200)
    assert sorted(sizes) == [(30, 0.0), (30, 1.0), (70, 0.0), (70, 1.0), (100, 0.0), (100, 1.0)]
    assert [len(left), len(right), len(set(left + right))] == [200, 200, 400]
    assert block(runs, 100, 100)[0] == left[70:170]
    assert runs.starts[0][:3] == [30, 100, 200]


# ---- copies ---------------------------------------------------------------------------------------------------------

BUFFER = np.zeros(2)


def in_a_buffer(data: float, rng: np.random.Generator) -> Any:
    BUFFER[:] = data + rng.laplace(size=2)
    return BUFFER


def many_in_a_buffer(data: float, size: int, rng: np.random.Generator) -> Any:
    answer = np.broadcast_to(BUFFER, (2,)) if size == 2 else BUFFER
    assert size == 2
    BUFFER[:] = data + rng.laplace(size=2)
    return answer


def test_an_output_in_a_buffer_that_is_used_again_is_copied() -> None:
    left, right = drawn(Single(in_a_buffer))
    assert len({tuple(row) for row in left + right}) == 200
    left, right = drawn(Batched(many_in_a_buffer), 0, 2)
    assert len(set(left + right)) == 4


def test_a_generator_is_read_before_the_next_run() -> None:
    state = {"data": 0.0}

    def lazy(data: float, rng: np.random.Generator) -> Any:
        state["data"] = data
        return (state["data"] for _ in range(2))

    assert drawn(Single(lazy), 0, 3) == ([[0.0, 0.0]] * 3, [[1.0, 1.0]] * 3)


class Uncopyable:
    def __init__(self) -> None:
        self.value = 0.0

    def __deepcopy__(self, memo: object) -> object:
        raise TypeError


def values(outputs: Outputs) -> list[object]:
    return [getattr(output, "value", output) for output in outputs]


def test_what_cannot_be_copied_is_encoded_at_once() -> None:
    one = Uncopyable()

    def reusing(data: float, rng: np.random.Generator) -> object:
        one.value = data + rng.laplace()
        return one if rng.random() < 0.5 else data

    left, right = drawn(Single(reusing), encode=values)
    assert len(left) == len(right) == 100
    assert 60 < len(set(left + right)) < 140


# ---- data -----------------------------------------------------------------------------------------------------------


def in_place(data: Any, rng: np.random.Generator) -> float:
    data += rng.laplace()
    return float(data[0])


def test_who_writes_into_the_data_gets_copies_and_no_run_on_altered_data_counts() -> None:
    mine, other = np.zeros(1), np.ones(1)
    runs = runs_of(Single(in_place), mine, other)
    assert block(runs) == drawn(Single(noisy))
    assert runs.altered == ALTERED
    assert (mine[0], other[0]) == (0.0, 1.0)
    tame = runs_of(Single(lambda data, rng: float(data[0]) + rng.laplace()), np.zeros(1), np.ones(1))
    assert block(tame) == drawn(Single(noisy))
    assert tame.altered is None


def test_rows_that_both_sides_share_are_no_way_from_one_to_the_other() -> None:
    rows = [np.zeros(1)]

    def once(data: Any, rng: np.random.Generator) -> float:
        data[0] += 5.0
        return float(data[0][0])

    assert drawn(Single(once), left=rows, right=[*rows, np.ones(1)]) == ([5.0] * 100, [5.0] * 100)


# ---- generators of others -------------------------------------------------------------------------------------------


def by_numpy(data: float) -> float:
    return data + np.random.laplace()  # a global generator is what is tested


def test_what_a_process_shares_is_seeded_for_each_run_once_it_is_drawn_from() -> None:
    left, right = drawn(Unaided(by_numpy), 0, 40)
    assert drawn(Unaided(by_numpy), 13, 20) == (left[13:33], right[13:33])
    assert len(set(left + right)) == 80


class OwnGenerator:
    """Noise from a generator of its own, which a copy would take along."""

    def __init__(self, rng: Any) -> None:
        self.rng = rng

    def __call__(self, data: float, rng: np.random.Generator) -> float:
        return data + float(self.rng.gauss(0, 1) if isinstance(self.rng, random.Random) else self.rng.normal())


RNG = np.random.default_rng(0)


def from_a_name(data: float, rng: np.random.Generator) -> float:
    return data + RNG.laplace()


OTHER = np.random.RandomState(4)


def closed_over() -> Callable[..., float]:
    own = np.random.Generator(np.random.Philox(1))
    return lambda data, rng, other=OTHER: data + own.laplace() + other.laplace()


@pytest.mark.parametrize(
    "mechanism",
    [
        OwnGenerator(np.random.default_rng(0)),
        OwnGenerator(np.random.RandomState(0)),
        OwnGenerator(random.Random(0)),
        functools.partial(OwnGenerator(np.random.default_rng(0))),
        OwnGenerator(np.random.default_rng(0)).__call__,
        from_a_name,
        closed_over(),
    ],
)
def test_a_generator_of_its_own_is_seeded_for_each_run_and_put_back(mechanism: Callable[..., float]) -> None:
    before = [pickle.dumps(one) for one in own_generators(mechanism)]
    assert before
    left, right = drawn(Single(mechanism), 0, 40)
    assert drawn(Single(mechanism), 13, 20) == (left[13:33], right[13:33])
    assert len(set(left + right)) == 80
    assert [pickle.dumps(one) for one in own_generators(mechanism)] == before


def test_a_generator_of_torch_is_seeded_as_well() -> None:
    own = torch.Generator()

    def of_torch(data: float, rng: np.random.Generator) -> float:
        return data + float(torch.randn(1, generator=own))

    left, right = drawn(Single(of_torch), 0, 40)
    assert drawn(Single(of_torch), 13, 20) == (left[13:33], right[13:33])
    assert len(set(left + right)) == 80


def test_the_generators_of_a_process_are_put_back() -> None:
    random.seed(5)
    np.random.seed(5)
    before = random.getstate(), pickle.dumps(np.random.get_state())
    drawn(Unaided(by_numpy))
    assert (random.getstate(), pickle.dumps(np.random.get_state())) == before


# ---- outcomes -------------------------------------------------------------------------------------------------------


def leaving(data: float, rng: np.random.Generator) -> float:
    match int(rng.integers(4)):
        case 0:
            raise SystemExit(3)
        case 1:
            raise GeneratorExit
        case 2:
            raise ValueError("no more than 4711")
    return data


def test_whoever_leaves_the_program_has_an_outcome() -> None:
    left, _ = drawn(Single(leaving), 0, 60)
    assert {getattr(one, "name", one) for one in left} == {"SystemExit", "GeneratorExit", "ValueError", 0.0}
    told, _ = drawn(Single(leaving), 0, 60, texts=True)
    assert "no more than 4711" in {getattr(one, "text", None) for one in told}


def test_an_interrupt_is_the_users_own() -> None:
    def interrupted(data: float, rng: np.random.Generator) -> float:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drawn(Single(interrupted))


def hanging(data: float, rng: np.random.Generator) -> float:
    try:
        while data:
            time.sleep(0.002)
    except Exception:
        return -1.0
    return 1.0


def deaf(data: float, rng: np.random.Generator) -> float:
    try:
        time.sleep(60)
    except BaseException:
        return 2.0
    return 1.0


def test_a_run_that_hangs_is_an_outcome() -> None:
    left, right = drawn(Single(hanging), 0, 2, each_seconds=0.4)
    assert left == [1.0, 1.0]
    assert right == [Raised("TooLong: ran longer than 0.4 s")] * 2
    assert drawn(Single(deaf), 0, 1, each_seconds=0.1)[0] == [Raised("TooLong: ran longer than 0.1 s")]


def test_the_timer_of_others_goes_on() -> None:
    rung: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: rung.append(number))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        drawn(Single(noisy), 0, 4, each_seconds=30)
        time.sleep(0.7)
        assert rung == [signal.SIGALRM]
    finally:
        signal.signal(signal.SIGALRM, before)


def test_where_a_run_cannot_be_stopped_is_said_by_name() -> None:
    with ThreadPool(1) as pool, pytest.raises(ParameterError, match="each_seconds"):
        pool.apply(drawn, (Single(noisy),), {"each_seconds": 1.0})


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_time_is_above_nothing_and_of_single_runs(seconds: float) -> None:
    with pytest.raises(ParameterError, match="each_seconds"):
        runs_of(Single(noisy), each_seconds=seconds)
    with pytest.raises(ParameterError, match="each_seconds"):
        runs_of(Batched(many), each_seconds=1.0)


def test_a_batch_that_raises_is_refused() -> None:
    def raising(data: float, size: int, rng: np.random.Generator) -> Any:
        raise ValueError

    with pytest.raises(ParameterError, match="a batch that raised ValueError"):
        drawn(Batched(raising))


@pytest.mark.parametrize("output", [np.array(1.0), np.zeros(3), 1.0, None, "ab", {0: 1, 1: 2}])
def test_what_is_no_batch_is_refused(output: Any) -> None:
    with pytest.raises(ParameterError, match=r"an array or list of 2 outputs, got a batch of"):
        drawn(Batched(lambda data, size, rng: output), pairs=2)


# ---- the first runs -------------------------------------------------------------------------------------------------


def test_a_few_runs_are_tried_first_and_count_for_nothing() -> None:
    runs = runs_of(Single(noisy))
    left, right = runs.probe()
    assert (len(left), len(right), runs.unseeded) == (64, 64, None)
    assert not set(left) & set(block(runs)[0])
    unseeded = runs_of(Single(lambda data, rng: data + secrets.randbelow(2**40)))
    unseeded.probe()
    assert unseeded.unseeded == UNSEEDED


def test_of_what_is_slow_one_run_is_tried() -> None:
    def slow(data: float, rng: np.random.Generator) -> float:
        time.sleep(0.02)
        return data

    assert runs_of(Single(slow)).probe() == ([0.0], [1.0])


def test_what_raises_at_first_is_tried_as_often_where_it_is_slow() -> None:
    """Whether a call is refused because it always raises does not hang on how long one took."""

    def broken(data: float, rng: np.random.Generator) -> float:
        time.sleep(0.005)
        raise KeyError

    left, right = runs_of(Single(broken)).probe()
    assert (len(left), len(right)) == (64, 64)


def test_an_exception_is_no_part_of_what_equal_seeds_show() -> None:
    def raising(data: float, rng: np.random.Generator) -> float:
        error = ValueError()
        error.at = time.perf_counter()  # type: ignore[attr-defined]
        raise error

    runs = runs_of(Single(raising))
    runs.probe()
    assert runs.unseeded is None


def test_an_array_after_an_error_is_audited() -> None:
    def mechanism(data: float, rng: np.random.Generator) -> Any:
        if rng.random() < 0.5:
            raise ValueError
        return rng.normal(size=3)

    for seed in range(4):
        found = dpl.audit_mechanism(mechanism, 0, 1, dpl.PureDP(1), trials=200, seed=seed, progress=False)
        assert found.verdict == "not_refuted"


def test_an_exception_is_kept_of_the_runs_that_are_tried_first() -> None:
    left, _ = runs_of(Single(lambda data, rng: 1 / 0)).probe()
    assert isinstance(left[0], Raised)
    assert isinstance(left[0].error, ZeroDivisionError)
    (one, *_), _ = drawn(Single(lambda data, rng: 1 / 0))
    assert one == left[0]
    assert one.error is None
