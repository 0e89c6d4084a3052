"""The ways to run what is audited: one call a run, or many runs a call. Whatever a call does is an outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np

from dpledger.audit.outcomes import Outputs, Raised, name_of_error
from dpledger.audit.sampling.limits import TooLong, within
from dpledger.audit.sampling.seeds import Side, Streams
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.protocol import Mechanism, Sampled

__all__ = [
    "Batched",
    "Batches",
    "Calls",
    "Releases",
    "Sampler",
    "Samples",
    "Single",
    "Unaided",
    "all_raised",
    "listed",
    "outcome",
    "whole_batch",
    "without_error",
]

Name: TypeAlias = tuple[int, Side, int]
"""Of a run, or of the first one of a batch: the seed, its side, its number."""


@dataclass(frozen=True, slots=True)
class Single:
    """A function f(data, rng) -> output, called once a run, each with a generator of its own."""

    call: ClassVar = "f(data, rng)"
    function: Callable[[Any, np.random.Generator], object]

    def once(self, data: object, streams: Streams, words: Sequence[int], name: Name) -> object:
        del name
        return self.function(data, streams.begin(words))


@dataclass(frozen=True, slots=True)
class Unaided:
    """A function f(data) -> output, called once a run, that draws its noise itself."""

    call: ClassVar = "f(data)"
    function: Callable[[Any], object]

    def once(self, data: object, streams: Streams, words: Sequence[int], name: Name) -> object:
        del streams, words, name
        return self.function(data)


@dataclass(frozen=True, slots=True)
class Releases:
    """A mechanism that is released once a run: its outputs are whole releases."""

    call: ClassVar = "release(data, entropy=entropy)"
    mechanism: Mechanism[Any, object]

    def once(self, data: object, streams: Streams, words: Sequence[int], name: Name) -> object:
        del streams, words
        return self.mechanism.release(data, entropy=seeded(*name))


@dataclass(frozen=True, slots=True)
class Batched:
    """A function f(data, size, rng) -> array or list of `size` outputs."""

    call: ClassVar = "f(data, size, rng)"
    function: Callable[[Any, int, np.random.Generator], Any]

    def many(self, data: object, size: int, streams: Streams, words: Sequence[int], name: Name) -> Outputs:
        del name
        rng = streams.begin(words)
        return whole_batch(lambda: self.function(data, size, rng), size)


@dataclass(frozen=True, slots=True)
class Samples:
    """A mechanism that draws many releases at once."""

    call: ClassVar = "sample(data, size, entropy)"
    mechanism: Sampled[Any]

    def many(self, data: object, size: int, streams: Streams, words: Sequence[int], name: Name) -> Outputs:
        del streams, words
        entropy = seeded(*name)
        return whole_batch(lambda: self.mechanism.sample(data, size, entropy), size)


Calls: TypeAlias = Single | Unaided | Releases
Batches: TypeAlias = Batched | Samples
Sampler: TypeAlias = Calls | Batches
"""The closed union of ways to run what is audited."""


def whole_batch(run: Callable[[], Any], size: int) -> Outputs:
    """The outputs of a batch. One that raises cannot be split into outcomes of single runs, so it is refused."""
    try:
        outputs = run()
    except Exception as error:
        raise ParameterError(
            "mechanism",
            f"a batch that raised {type(error).__name__}",
            "batches that do not raise; audit single runs, f(data, rng), where an exception is an outcome",
        ) from error
    runs = listed(outputs)
    if runs is None or len(runs) != size:
        shape = np.shape(outputs) if isinstance(outputs, np.ndarray) else type(outputs).__name__
        raise ParameterError("mechanism", f"a batch of {shape}", f"an array or list of {size} outputs")
    return runs


def listed(outputs: Any) -> Outputs | None:
    """Runs, one an item or a row, of a list, an array, a series, a frame or a tensor; None of anything else."""
    try:
        if hasattr(outputs, "detach"):
            outputs = outputs.detach().cpu()
        for given in ("to_numpy", "numpy"):
            outputs = getattr(outputs, given)() if hasattr(outputs, given) else outputs
    except (TypeError, RuntimeError):  # numbers that numpy does not know, such as bfloat16
        return None
    if isinstance(outputs, np.ndarray):
        return outputs if outputs.ndim else None
    return outputs if isinstance(outputs, Sequence) and not isinstance(outputs, (str, bytes)) else None


def outcome(
    run: Callable[[], object], *, each_seconds: float | None = None, texts: bool = False, keeps: bool = False
) -> object:
    """What a run gave, or what it raised: everything but the user's own interrupt, so SystemExit as well. The text of
    an exception may hold data, so it is an outcome only where that is asked for (`texts`). `keeps`: the exception
    itself, which is no part of the outcome."""
    try:
        return run() if each_seconds is None else within(each_seconds, run)
    except KeyboardInterrupt:
        raise
    except TooLong:
        return Raised(f"TooLong: ran longer than {each_seconds:g} s")
    except BaseException as error:
        kept = error if keeps and isinstance(error, Exception) else None
        return Raised(name_of_error(error), _text_of(error) if texts else None, kept)


def all_raised(first: Raised, outputs: Iterable[object]) -> bool:
    """Whether all of these raised, as the first one did."""
    return all(isinstance(output, Raised) and output == first for output in outputs)


def without_error(output: object) -> object:
    """An outcome without what is kept beside it: an exception may hold where and when it was raised."""
    return replace(output, error=None) if isinstance(output, Raised) else output


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # the exception's own code
        return "unprintable"
