"""One run of a job in a log: recorded, or with its draws answered by a script.

A job is a mechanism that answers once, or a function f(data), f(data, rng) or f(data, entropy). Each run gets a copy of
the data and a seed of its own for every source that it is given, and for the generators that a process shares.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dpledger.audit.replay.calls import RaisedCall, Run
from dpledger.audit.replay.rows import Pairing, copied
from dpledger.audit.sampling.generators import seeded_globals
from dpledger.audit.tested.subjects import require_unguarded
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.noise import Bernoulli, Draw, Uniform, answering, recording, scripted
from dpledger.mechanisms.noise.randomness_log import Returned
from dpledger.mechanisms.protocol import Mechanism

__all__ = ["Answer", "Job", "recorded", "replayed"]

Answer = Callable[[int, Draw], Returned]
_WANTED = "a mechanism with release(), or a function f(data), f(data, rng) or f(data, entropy)"


@dataclass(frozen=True, slots=True)
class Job:
    """How it is called: `second` says what stands beside the data."""

    call: Callable[..., object]
    second: Literal["nothing", "rng", "entropy"]
    keyword: bool = False

    @classmethod
    def of(cls, job: object) -> Job:
        """The way to call it. ParameterError for what cannot be called."""
        if isinstance(job, Mechanism) and not isinstance(job, type):
            return cls(job.release, "entropy", keyword=True)
        require_unguarded(job, field="job")
        if not callable(job):
            hint = " that opens the interaction, asks, and returns what was answered" if hasattr(job, "open") else ""
            raise ParameterError("job", type(job).__name__, _WANTED + hint)
        return cls._of_function(job)

    @classmethod
    def _of_function(cls, function: Callable[..., object]) -> Job:
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            return cls(function, "nothing")
        for number, parameter in enumerate(parameters):
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or not number:
                continue
            if parameter.name == "entropy" or "Entropy" in str(parameter.annotation):
                return cls(function, "entropy", keyword=parameter.kind is parameter.KEYWORD_ONLY)
            is_free = parameter.default is parameter.empty or parameter.default is None
            if parameter.kind is not parameter.KEYWORD_ONLY and number == 1 and is_free:
                return cls(function, "rng")
        return cls(function, "nothing")

    def run(self, data: object, seed: tuple[int, ...]) -> object:
        """What it returns or raises. SystemExit is an outcome, an interrupt is not."""
        given: Mapping[str, object] = {}
        beside: tuple[object, ...] = ()
        sequence = np.random.SeedSequence(int.from_bytes(hashlib.sha256(repr(seed).encode()).digest()))
        match self.second:
            case "entropy" if self.keyword:
                given = {"entropy": seeded(*seed)}
            case "entropy":
                beside = (seeded(*seed),)
            case "rng":
                beside = (np.random.default_rng(sequence.spawn(1)[0]),)
            case _:
                pass
        with seeded_globals(sequence):
            try:
                return self.call(copied(data), *beside, **given)
            except (Exception, SystemExit) as error:
                return RaisedCall(error)


def recorded(
    job: Job, data: object, seed: tuple[int, ...], forced: Pairing | None = None, push: Answer | None = None
) -> Run:
    """A run. `forced`: seen from this dataset; the units that only it has are in every batch. `push`: other answers."""
    if forced is None and push is None:
        with recording() as draws:
            output = job.run(data, seed)
        return Run(tuple(draws), output)

    def answer(number: int, call: Draw) -> Returned:
        if forced is not None and _is_batch(call, forced.left):
            return _with(call.output, forced.only_left)
        return call.output if push is None else push(number, call)

    return answered(job, data, seed, answer)


def replayed(
    job: Job,
    data: object,
    seed: tuple[int, ...],
    script: Run,
    pairing: Pairing | None = None,
    places: Mapping[int, int] | None = None,
) -> Run:
    """A run in which each call has the answer of the script. `pairing`: seen from the recorded dataset; where there are
    more units or fewer, each keeps its own coins. `places`: other answers of some calls, by number."""

    def answer(number: int, call: Draw) -> Returned:
        if places is not None and number in places:
            return places[number]
        if pairing is not None and number < len(script.draws):
            then = script.draws[number]
            if then.law == call.law and then.shape == (pairing.left,) and call.shape == (pairing.right,):
                if isinstance(call.law, Bernoulli):
                    return pairing.positions(then.output)
                if isinstance(call.law, Uniform):
                    return pairing.numbers(then.output, call.output)
        return scripted(script.draws, number, call)

    return answered(job, data, seed, answer)


def answered(job: Job, data: object, seed: tuple[int, ...], answer: Answer) -> Run:
    """A run whose calls are answered."""
    with answering(answer) as draws:
        output = job.run(data, seed)
    return Run(tuple(draws), output)


def _is_batch(call: Draw, units: int) -> bool:
    return isinstance(call.law, Bernoulli) and call.given and call.shape == (units,)


def _with(positions: Any, more: tuple[int, ...]) -> Returned:
    found: Returned = np.union1d(positions, np.array(more, dtype=np.int64)).astype(np.int64)
    return found
