"""Blocks of runs on both sides: alternating, each with a seed of its own, the same for any number of workers.

Runs are drawn in an order that the seed fixes: of each pair of runs (of each pair of batches) a coin says which side
comes first. So whatever drifts while an audit runs, a quota, a cache, a clock, drifts for both sides alike, and is not
taken for data. A call belongs to one run alone, so calls are dealt to workers in pieces of any size; a batch begins
where its block begins or at a multiple of its size, so its borders depend on run numbers alone.

What shows afterwards makes a block be drawn again, with the same seeds and more care, and the first one is thrown away
before anything of it was counted: a mechanism that wrote into its data gets a fresh copy for each call from then on,
and one that drew from the generators of the process has them seeded for each run.
"""

from __future__ import annotations

import copy
import functools
import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from dpledger.audit.outcomes import Outputs, Raised
from dpledger.audit.sampling.copies import Uncopied, copied, copied_batch, is_immutable
from dpledger.audit.sampling.digests import digest
from dpledger.audit.sampling.generators import watched
from dpledger.audit.sampling.limits import check_can_stop
from dpledger.audit.sampling.seeds import Side, Streams, rest_of, right_first, right_first_at, words_at, words_of
from dpledger.audit.sampling.surroundings import Surroundings, has_turn, turn
from dpledger.audit.sampling.travel import THREADS, are_threads, stays
from dpledger.audit.sampling.ways import Batched, Batches, Calls, Sampler, Samples, outcome, without_error
from dpledger.errors import ParameterError
from dpledger.progress import Advance

__all__ = ["ALTERED", "PROBED", "UNSEEDED", "Kept", "Piece", "Runs", "Uncopyable", "WorkerPlan", "shown"]

BATCH = 65_536  # runs of a batch: few enough that what is made of them stays in the caches of a processor
LOOP = 2_048  # runs of both sides in a piece, where each is a call
MOST_NUMBERS = 2**24  # of a piece's outputs together: 128 MiB
PIECE = 0.25  # seconds that a piece takes at least, where runs are fast
HERE = 0.05  # seconds of runs that are not worth another process
STARTING = 20  # times as many, where it is not started yet: that takes seconds
SIDES = tuple(Side)
PROBED = 2**60  # the number from which runs count that count for nothing
PROBES = 64  # runs of each side that are tried first
LONGEST_PROBE = 1.0  # seconds that all of them may take
LONGEST_OF_ERRORS = 30.0  # where the first ones raise: then the call may be wrong, and no audit is to be made of it
UNSEEDED = "the same seed did not give the same outputs: the mechanism draws from a source of its own, or keeps a state"
ALTERED = "the mechanism alters its data: every call got a copy of its own, and no run on altered data counts"


class Joined(Protocol):
    """What is read of runs, and added up in the order of runs."""

    def __add__(self, other: Any, /) -> Any: ...


T = TypeVar("T", bound=Joined)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlan:
    """All that a worker needs to draw any run. `encode`: outputs of consecutive runs to their outcomes, which share no
    memory with an array of them. `width`: about how many numbers an output is. `each_seconds`: after which a run is
    over; `texts`: whether what an exception says is part of the outcome. `fresh_data`, `seeded_globals`: the care that
    past blocks have shown to be needed. `keeps_errors`: of runs that are tried first, exceptions beside their names.
    `surroundings`: the settings under which every run is made."""

    sampler: Sampler
    left: object
    right: object
    seed: int
    encode: Callable[[Outputs], Any]
    width: int = 1
    each_seconds: float | None = None
    texts: bool = False
    fresh_data: bool = False
    seeded_globals: bool = False
    keeps_errors: bool = False
    surroundings: Surroundings = field(default_factory=Surroundings.here)

    def data(self, side: Side) -> object:
        """What one call is given."""
        data = self.left if side is Side.LEFT else self.right
        return copy.deepcopy(data) if self.fresh_data else data

    @property
    def subject(self) -> object:
        """What is called."""
        return getattr(self.sampler, "function", None)

    @property
    def batch(self) -> int:
        """How many runs are drawn, or encoded, at once."""
        return min(BATCH if isinstance(self.sampler, Batched | Samples) else LOOP, max(1, MOST_NUMBERS // self.width))

    def batches(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """The first run of each batch of these runs, and the one after its last."""
        size = self.batch
        return itertools.pairwise([start, *range((start // size + 1) * size, stop, size), stop])


@dataclass(frozen=True, slots=True)
class Piece:
    """What one worker draws at once. Of calls: the places `start` to `stop` in the order of all runs, where pair i has
    places 2i and 2i + 1. Of batches: the runs `start` to `stop`, of both sides, in one batch or some."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class DrawnPieces(Generic[T]):
    """What consecutive pieces gave: of each side what was read (None of a side that is not in them), what showed, and
    how long it took."""

    left: T | None
    right: T | None
    altered: bool
    drew_globals: bool
    seconds: float

    def __add__(self, other: DrawnPieces[T]) -> DrawnPieces[T]:
        return DrawnPieces(
            joined([self.left, other.left]),
            joined([self.right, other.right]),
            self.altered or other.altered,
            self.drew_globals or other.drew_globals,
            self.seconds + other.seconds,
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Work(Generic[T]):
    """The work of one piece (a class, so that it travels to other processes; one that can be hashed, whatever the data
    are, as some engines ask for)."""

    plan: WorkerPlan
    read: Callable[[Any], T]

    def __call__(self, piece: Piece) -> DrawnPieces[T]:
        with turn():
            return self._drawn(piece)

    def _drawn(self, piece: Piece) -> DrawnPieces[T]:
        plan, started = self.plan, time.perf_counter()
        before = (digest(plan.left), digest(plan.right))
        with watched(plan.subject, with_globals=plan.seeded_globals) as watch, plan.surroundings.restored():
            match plan.sampler:
                case Batched() | Samples() as sampler:
                    read = self._batches(sampler, piece, watch.begin)
                case sampler:
                    read = self._calls(sampler, piece, watch.begin if watch.seeds else None)
        return DrawnPieces(
            left=read.get(Side.LEFT),
            right=read.get(Side.RIGHT),
            altered=not plan.fresh_data and (digest(plan.left), digest(plan.right)) != before,
            drew_globals=watch.drew,
            seconds=time.perf_counter() - started,
        )

    def _batches(self, sampler: Batches, piece: Piece, begin: Callable[[int], None]) -> dict[Side, T]:
        plan, streams, read = self.plan, Streams(), dict[Side, T]()
        borders = list(plan.batches(piece.start, piece.stop))
        starts = [start for start, _ in borders]
        words = zip(*(words_at(plan.seed, side, starts) for side in Side), strict=True)
        for (start, stop), swapped, own in zip(borders, right_first_at(plan.seed, starts), words, strict=True):
            for side in SIDES[::-1] if swapped else SIDES:
                begin(rest_of(own[side]))
                first = (plan.seed, side, start)
                outputs = copied_batch(sampler.many(plan.data(side), stop - start, streams, own[side], first))
                found = self.read(plan.encode(outputs))
                read[side] = read[side] + found if side in read else found
        return read

    def _calls(self, sampler: Calls, piece: Piece, begin: Callable[[int], None] | None) -> dict[Side, T]:
        plan, streams = self.plan, Streams()
        if plan.each_seconds is not None:
            check_can_stop(plan.each_seconds)
        first, last = piece.start // 2, (piece.stop + 1) // 2
        swapped = right_first(plan.seed, first, last - first).tolist()
        words = [words_of(plan.seed, side, first=first, count=last - first) for side in Side]
        kept = {side: Kept(plan.encode, self.read) for side in Side}

        def call() -> object:
            output = sampler.once(plan.data(side), streams, own, (plan.seed, side, run))
            return kept[side].copied(output)

        for place in range(piece.start, piece.stop):
            run = place // 2
            side = SIDES[(place & 1) ^ swapped[run - first]]
            own = words[side][run - first]
            if begin is not None:
                begin(rest_of(own))
            kept[side].add(
                outcome(call, each_seconds=plan.each_seconds, texts=plan.texts, keeps=plan.keeps_errors),
            )
        read = {side: kept[side].done() for side in Side}
        return {side: found for side, found in read.items() if found is not None}


@dataclass(slots=True)
class Kept(Generic[T]):
    """The outputs of one side so far: copies, and where one cannot be copied what was read of it at once."""

    encode: Callable[[Outputs], Any]
    read: Callable[[Any], T]
    outputs: list[object] = field(default_factory=list)
    found: list[T] = field(default_factory=list)

    def copied(self, output: object) -> object:
        try:
            return copied(output)
        except Uncopied:
            return Uncopyable(output)

    def add(self, output: object) -> None:
        if isinstance(output, Uncopyable):
            self.outputs.append(output.output)
            self._flush()
        else:
            self.outputs.append(output)

    def _flush(self) -> None:
        self.found.append(self.read(self.encode(self.outputs)))
        self.outputs = []

    def done(self) -> T | None:
        if self.outputs:
            self._flush()
        return joined(self.found)


@dataclass(frozen=True, slots=True)
class Uncopyable:
    """An output that is to be read before the next run."""

    output: object


def joined(pieces: Iterable[T | None]) -> T | None:
    """What was read of consecutive pieces, added up in their order; None where there is nothing."""
    found = [piece for piece in pieces if piece is not None]
    return functools.reduce(lambda one, other: one + other, found) if found else None


class Runs:
    """The runs of one audit, in the process that asks for them. What its author is told, each None where there is
    nothing to say: `altered`, that the mechanism wrote into its data; `alone`, why all runs are in this process
    although workers were asked for; `unseeded`, after a `probe`, that equal seeds give other outputs; `untyped`, that
    arrays of many runs were of other types on the two sides. `starts`: for `dependence`, of each side the runs with
    which a worker, or a batch, began.

    Runs are of copies of the data: the caller's own are never given away, unless they cannot be copied."""

    def __init__(self, sampler: Sampler, left: object, right: object, **settings: Any) -> None:
        """`settings`: `seed`, `encode`, and what else a `WorkerPlan` has. ParameterError for `each_seconds` that are no
        time, or of batches, which have no single run that could be stopped."""
        self.originals = (left, right)
        self.plan = WorkerPlan(sampler=sampler, left=_own(left), right=_own(right), **settings)
        seconds = self.plan.each_seconds
        if seconds is not None and (self._are_batches or not 0 < seconds < math.inf):
            raise ParameterError("each_seconds", seconds, "a time above 0, of single runs: f(data, rng) or f(data)")
        self.altered: str | None = None
        self.alone: str | None = None
        self.unseeded: str | None = None
        self.untyped: str | None = None
        self.starts: tuple[list[int], list[int]] = ([], [])
        self._each: float | None = None  # seconds of a run, as measured
        self._have_started = False  # workers

    def block(self, first: int, pairs: int, read: Callable[[Any], T], *, jobs: int, advance: Advance) -> tuple[T, T]:
        """Runs `first` to `first + pairs` of each side: what `read` makes of their outcomes, added up in run order.

        The same for any `jobs` (processes, through joblib, whose `parallel_config` chooses the engine), and whichever
        blocks came before, as long as the mechanism is a function of its data and its generator. `advance` is told
        the runs of each piece."""
        drawn = self._drawn(first, pairs, read, jobs, advance)
        while self._take_care(drawn):
            drawn = self._drawn(first, pairs, read, jobs, _in_silence)
        assert drawn.left is not None
        assert drawn.right is not None
        return drawn.left, drawn.right

    @property
    def told(self) -> tuple[str | None, ...]:
        """What the author of the mechanism is told."""
        return self.unseeded, self.altered, self.alone, self.untyped

    def probe(self, most: int = PROBES) -> tuple[list[object], list[object]]:
        """The outputs of a few runs of each side, as the mechanism gave them, and of what raised the exception as well.
        They count for nothing: they show what outputs look like, how long a run takes (one is enough where it is long),
        what care is needed, and whether the same seed gives the same outputs (`unseeded`)."""
        pairs, again = self._tried_once(1), self._tried_once(1)
        raise_alone = all(isinstance(output, Raised) for output in (*pairs[0], *pairs[1]))
        longest = LONGEST_OF_ERRORS if raise_alone else LONGEST_PROBE
        if self._each is not None and 4 * most * self._each < longest:
            pairs, again = self._tried_once(most), self._tried_once(most)
        self.unseeded = UNSEEDED if shown(pairs) != shown(again) else None
        return pairs

    def _tried_once(self, pairs: int) -> tuple[list[object], list[object]]:
        drawn = self._drawn(PROBED, pairs, list, 1, _in_silence, encode=_copies, keeps_errors=True)
        while self._take_care(drawn):
            drawn = self._drawn(PROBED, pairs, list, 1, _in_silence, encode=_copies, keeps_errors=True)
        self.starts = ([], [])
        return drawn.left or [], drawn.right or []

    def _drawn(
        self, first: int, pairs: int, read: Callable[[Any], T], jobs: int, advance: Advance, **changes: Any
    ) -> DrawnPieces[T]:
        """What all pieces gave, added up as they come: no more of them is kept than two."""
        work, workers = _Work(replace(self.plan, **changes), read), self._workers(2 * pairs, jobs)
        pieces = self._pieces(first, pairs, workers)
        if workers == 1 or len(pieces) == 1:
            results: Iterable[DrawnPieces[T]] = map(work, pieces)
        else:
            self._have_started = True
            results = _in_workers(work, pieces, jobs)
        drawn: DrawnPieces[T] | None = None
        for piece, one in zip(pieces, results, strict=True):
            advance(self._runs_in(piece))
            drawn = one if drawn is None else drawn + one
        assert drawn is not None, "a piece at least"
        self._each = drawn.seconds / (2 * pairs)
        self._starts(pieces, are_far=workers > 1)
        return drawn

    def _workers(self, runs: int, jobs: int) -> int:
        """How many processes draw so many runs."""
        least = HERE if self._have_started else STARTING * HERE
        if jobs == 1 or has_turn() or (self._each is not None and runs * self._each < least):
            return 1
        if not self._travels:
            return 1
        from joblib import effective_n_jobs

        return int(effective_n_jobs(jobs))

    @functools.cached_property
    def _travels(self) -> bool:
        self.alone = THREADS if are_threads() else stays(self.plan.sampler, self._tried)
        return self.alone is None

    def _tried(self, sampler: Sampler, runs: int) -> bytes:
        """A digest of a few runs that count for nothing."""
        plan = replace(self.plan, sampler=sampler, encode=digest)
        start = PROBED if self._are_batches else 2 * PROBED
        drawn = _Work(plan, bytes)(Piece(start, start + runs))
        return (drawn.left or b"") + (drawn.right or b"")

    def _pieces(self, first: int, pairs: int, workers: int) -> list[Piece]:
        """Pieces of a block: each of some batches, or of some calls, as many as take a while."""
        size = self.plan.batch
        fast = max(1, int(PIECE / self._each)) if self._each else size  # runs of both sides
        if self._are_batches:
            begins = [start for start, _ in self.plan.batches(first, first + pairs)]
            many = max(1, min(fast // (2 * size), len(begins) // workers))
            borders = [*begins[::many], first + pairs]
        else:
            start, stop, size = 2 * first, 2 * (first + pairs), 2 * size
            if workers > 1:
                size = min(size, max(1, min(fast, 2 * pairs // workers)))
            borders = [*range(start, stop, size), stop]
        return [Piece(one, other) for one, other in itertools.pairwise(borders)]

    @property
    def _are_batches(self) -> bool:
        return isinstance(self.plan.sampler, Batched | Samples)

    def _runs_in(self, piece: Piece) -> int:
        return (piece.stop - piece.start) * (2 if self._are_batches else 1)

    def _starts(self, pieces: Sequence[Piece], *, are_far: bool) -> None:
        for piece in pieces:
            if self._are_batches:
                for side in self.starts:
                    side.extend(start for start, _ in self.plan.batches(piece.start, piece.stop))
            elif are_far:
                run, odd = divmod(piece.start, 2)
                right = bool(right_first(self.plan.seed, run, 1)[0]) ^ bool(odd)  # the side of its first run
                self.starts[0].append(run + (odd and right))
                self.starts[1].append(run + (odd and not right))

    def _take_care(self, drawn: DrawnPieces[Any]) -> bool:
        """Whether what was drawn is to be thrown away, and drawn again with the care that it showed to be needed."""
        plan = self.plan
        if drawn.altered and not plan.fresh_data:
            fresh = [_own(data) for data in self.originals]
            if any(copied is own for copied, own in zip(fresh, self.originals, strict=True) if not is_immutable(own)):
                wanted = "data that can be copied, or a mechanism that leaves them as they are"
                raise ParameterError("left, right", "data that the mechanism alters, and that cannot be copied", wanted)
            self.plan = replace(self.plan, left=fresh[0], right=fresh[1], fresh_data=True)
            self.altered = ALTERED
        if drawn.drew_globals and not plan.seeded_globals:
            self.plan = replace(self.plan, seeded_globals=True)
        return self.plan is not plan


def _in_workers(work: _Work[T], pieces: Sequence[Piece], jobs: int) -> Iterable[DrawnPieces[T]]:
    from joblib import Parallel, delayed  # here: 0.2 s that most audits do not need

    # max_nbytes: data that a worker could not write to would be other data than those of one process
    try:
        parallel = Parallel(n_jobs=jobs, return_as="generator", max_nbytes=None)
    except ValueError:  # an engine that gives all results at once
        parallel = Parallel(n_jobs=jobs, max_nbytes=None)
    results: Iterable[DrawnPieces[T]] = parallel(delayed(work)(piece) for piece in pieces)
    return results


def _own(data: object) -> object:
    """A copy of the data, or the data themselves where their own code does not let them be copied."""
    try:
        return copy.deepcopy(data)
    except Exception:
        return data


def _copies(outputs: Outputs) -> list[object]:
    """The outputs themselves, apart from the array that holds them."""
    return [copied(output) for output in outputs] if isinstance(outputs, np.ndarray) else list(outputs)


def shown(pairs: tuple[Sequence[object], Sequence[object]]) -> bytes:
    """A digest of what a few runs of each side gave."""
    return digest([[without_error(output) for output in side] for side in pairs])


def _in_silence(_runs: int) -> None:
    """Runs that are drawn again are no progress."""
