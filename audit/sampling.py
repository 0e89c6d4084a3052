"""Runs in chunks. A chunk is a pure function of the mechanism, the data and the chunk's name (side, part, number), so
any number of workers gives the same runs.

The names become disjoint spawn keys of one seed: the two sides, and the parts of one audit, never share randomness.
With shared seeds a correct mechanism can be refuted, as the runs of a pair would depend on each other.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np

from dpledger.audit.global_noise import seeded_globals
from dpledger.audit.outcomes import Outcomes, Outputs, Raised, encode
from dpledger.audit.strata import Stated
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.protocol import Mechanism, Sampled
from dpledger.progress import Advance

__all__ = [
    "Batched",
    "Chunk",
    "Part",
    "Releases",
    "Runs",
    "Sampler",
    "Samples",
    "Side",
    "Single",
    "Unaided",
    "chunks",
    "expected_seconds",
    "over_chunks",
]

T = TypeVar("T")

BATCH = 65_536  # runs of a chunk where many are drawn at once
LOOP = 2_048  # runs of a chunk where each is a call
MOST_NUMBERS = 2**24  # of a chunk's outputs together: 128 MiB
TELLING = 0.1  # seconds of runs, from which it is clear how long one takes


class Side(IntEnum):
    """Which dataset."""

    LEFT = 0
    RIGHT = 1


class Part(IntEnum):
    """What a run is for. PROBE: to see the shape of outputs. SELECTION: to choose events. ESTIMATION: to count them."""

    PROBE = 0
    SELECTION = 1
    ESTIMATION = 2


@dataclass(frozen=True, slots=True)
class Chunk:
    """`size` runs of one side and part, by their number in it."""

    side: Side
    part: Part
    number: int
    size: int


def _sequence(seed: int, chunk: Chunk) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=(int(chunk.side), int(chunk.part), chunk.number))


def _generator(seed: int, chunk: Chunk) -> np.random.Generator:
    return np.random.default_rng(_sequence(seed, chunk))


@dataclass(frozen=True, slots=True)
class Single:
    """A function f(data, rng) -> output, called once a run; what it raises is the outcome of that run."""

    call: ClassVar = "f(data, rng)"
    function: Callable[[Any, np.random.Generator], object]
    chunk_size: int = LOOP

    def draw(self, data: object, chunk: Chunk, seed: int) -> Outputs:
        rng = _generator(seed, chunk)
        return [_outcome(lambda: self.function(data, rng), chunk.part) for _ in range(chunk.size)]


@dataclass(frozen=True, slots=True)
class Unaided:
    """A function f(data) -> output, called once a run, that draws its noise itself; what it raises is the outcome of
    that run. The generators that a process shares are seeded for each chunk. Of one of its own nobody knows, and a copy
    in a worker would repeat its noise: its chunks are drawn in one process, one after another."""

    call: ClassVar = "f(data)"
    function: Callable[[Any], object]
    chunk_size: int = LOOP

    def draw(self, data: object, chunk: Chunk, seed: int) -> Outputs:
        with seeded_globals(_sequence(seed, chunk)):
            return [_outcome(lambda: self.function(data), chunk.part) for _ in range(chunk.size)]


@dataclass(frozen=True, slots=True)
class Batched:
    """A function f(data, size, rng) -> array or list of `size` outputs."""

    call: ClassVar = "f(data, size, rng)"
    function: Callable[[Any, int, np.random.Generator], Any]
    chunk_size: int = BATCH

    def draw(self, data: object, chunk: Chunk, seed: int) -> Outputs:
        rng = _generator(seed, chunk)
        return _whole_batch(lambda: self.function(data, chunk.size, rng), chunk.size)


@dataclass(frozen=True, slots=True)
class Samples:
    """A mechanism that draws many releases at once."""

    call: ClassVar = "sample(data, size, entropy)"
    mechanism: Sampled[Any]
    chunk_size: int = BATCH

    def draw(self, data: object, chunk: Chunk, seed: int) -> Outputs:
        entropy = seeded(seed, chunk.side, chunk.part, chunk.number)
        return _whole_batch(lambda: self.mechanism.sample(data, chunk.size, entropy), chunk.size)


@dataclass(frozen=True, slots=True)
class Releases:
    """A mechanism that is released once a run: its outputs are whole releases."""

    call: ClassVar = "release(data, entropy=entropy)"
    mechanism: Mechanism[Any, object]
    chunk_size: int = LOOP

    def draw(self, data: object, chunk: Chunk, seed: int) -> Outputs:
        entropy = seeded(seed, chunk.side, chunk.part, chunk.number)
        return [_outcome(lambda: self.mechanism.release(data, entropy=entropy), chunk.part) for _ in range(chunk.size)]


Sampler: TypeAlias = Single | Unaided | Batched | Samples | Releases
"""The closed union of ways to run what is audited."""


def _outcome(run: Callable[[], object], part: Part) -> object:
    try:
        return run()
    except Exception as error:
        return Raised(type(error).__name__, error=error if part is Part.PROBE else None)


def _whole_batch(run: Callable[[], Any], size: int) -> Outputs:
    """The outputs of a batch. One that raises cannot be split into outcomes of single runs, so it is refused."""
    try:
        outputs = run()
    except Exception as error:
        raise ParameterError(
            "mechanism",
            f"a batch that raised {type(error).__name__}",
            "batches that do not raise; audit single runs, f(data, rng), where an exception is an outcome",
        ) from error
    if not isinstance(outputs, (np.ndarray, list, tuple)) or len(outputs) != size:
        shape = np.shape(outputs) if isinstance(outputs, np.ndarray) else type(outputs).__name__
        raise ParameterError("mechanism", f"a batch of {shape}", f"an array or list of {size} outputs")
    return outputs


@dataclass(frozen=True, slots=True)
class Runs:
    """All that a worker needs to draw any chunk. `width`: how many numbers an output usually has; `stated`: the ex-post
    claim that is tested, if it is one."""

    sampler: Sampler
    left: object
    right: object
    seed: int
    width: int
    stated: Stated | None = None

    @property
    def chunk_size(self) -> int:
        """How many runs a chunk has: as the sampler says, or fewer where outputs are wide."""
        return min(self.sampler.chunk_size, max(1, MOST_NUMBERS // self.width))

    def outputs(self, chunk: Chunk) -> Outputs:
        """The outputs of one chunk, as the mechanism gave them."""
        data = self.left if chunk.side is Side.LEFT else self.right
        return self.sampler.draw(data, chunk, self.seed)

    def outcomes(self, chunk: Chunk) -> Outcomes:
        """The outcomes of one chunk."""
        outputs = self.outputs(chunk)
        return encode(outputs, self.width) if self.stated is None else self.stated.outcomes(outputs, self.width)


def chunks(part: Part, trials: int, size: int) -> list[Chunk]:
    """Both sides' runs of a part, `trials` each, in chunks of at most `size`; the left side first."""
    sizes = [min(size, trials - start) for start in range(0, trials, size)]
    return [Chunk(side, part, number, runs) for side in Side for number, runs in enumerate(sizes)]


def expected_seconds(runs: Runs, trials: int, jobs: int, *, first: float, longest: float) -> float:
    """About how long `trials` runs of each side take. `first`: what a run took so far; where that comes to more than
    `longest`, more and more are timed at once, for what comes first (a compiler, the cost of a call) is slow."""
    workers = min(jobs, os.cpu_count() or 1) if jobs > 0 else os.cpu_count() or 1
    each, size, seconds = first, 16, 0.0
    while 2 * trials * each / workers > longest and seconds < TELLING and size <= runs.chunk_size:
        started = time.perf_counter()
        runs.outcomes(Chunk(Side.LEFT, Part.PROBE, 0, size))
        seconds = time.perf_counter() - started
        each, size = seconds / size, 4 * size
    return 2 * trials * each / workers


def over_chunks(
    work: Callable[[Chunk], T], plan: Iterable[Chunk], *, jobs: int, advance: Advance
) -> Iterator[tuple[Chunk, T]]:
    """`work` of each chunk, in order. With jobs above 1 through joblib, so its `parallel_config` chooses the engine."""
    listed = list(plan)
    if jobs == 1 or len(listed) < 2:
        results: Iterable[T] = map(work, listed)
    else:
        from joblib import Parallel, delayed  # here: 0.2 s that most audits do not need

        results = Parallel(n_jobs=jobs, return_as="generator")(delayed(work)(chunk) for chunk in listed)
    for chunk, result in zip(listed, results, strict=True):
        advance(chunk.size)
        yield chunk, result
