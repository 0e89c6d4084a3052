"""The randomness log: what was asked of the noise functions and what they answered, recorded and replayed.

Every noise function passes what it drew through `logged`. So an audit sees each primitive call, in order: `recording`
keeps what was passed and returned, `replaying` hands the same outputs to a run on other data, `answering` those of
one's choice. Such a log is for data of one's own making: it holds exact values, and replayed noise is known noise. So
what is run for a ledger is `unrecorded`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from dpledger.errors import PolicyError
from dpledger.mechanisms.noise.laws import AnyLaw, ExpMinus, Sensitivity

__all__ = ["Draw", "Passed", "Returned", "answering", "logged", "recording", "replaying", "scripted", "unrecorded"]

Passed: TypeAlias = int | Fraction | ExpMinus | npt.NDArray[Any] | tuple[npt.NDArray[Any], npt.NDArray[Any]]
"""What a noise function is given: whole numbers of steps, the scores of a choice (and how many each stands for), the
probability of a coin, how many numbers a uniform one is among."""

Returned: TypeAlias = int | npt.NDArray[Any]
"""What a noise function answers: noisy numbers, the place chosen, how a coin fell (of many: the positions of those that
did)."""

Answer = TypeVar("Answer", bound=Returned)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Draw:
    """One call of a noise function: what was declared and what was passed and returned. For audits on data of their own
    making: it holds the exact value, which no ledger and no log file may hold.

    `shape`: of the variates; of a choice, how many there were to choose from. `value`, `output`: as passed and returned
    (arrays are copies). `sensitivity`: None of a coin or an answer, whose law says all. `given`: whether what follows
    is private whatever was drawn here (which units a batch holds, to which chunk one is dealt, whether a stable value
    is released), but with the probability of the promise's delta."""

    law: AnyLaw
    sensitivity: Sensitivity | None
    value: Any = field(repr=False)
    output: Any = field(repr=False)
    shape: tuple[int, ...] = ()
    given: bool = False

    @property
    def size(self) -> int:
        """How many variates; of a choice, how many there were to choose from."""
        return math.prod(self.shape)


@dataclass(slots=True)
class _Log:
    draws: list[Draw] = field(default_factory=list)
    answer: Callable[[int, Draw], Returned] | None = None


_LOG: ContextVar[_Log | None] = ContextVar("dpledger_noise_log", default=None)
_UNRECORDED: ContextVar[bool] = ContextVar("dpledger_noise_unrecorded", default=False)


def logged(
    law: AnyLaw,
    fresh: Answer,
    *,
    value: Passed,
    shape: tuple[int, ...],
    sensitivity: Sensitivity | None = None,
    given: bool = False,
) -> Answer:
    """What a noise function returns that drew `fresh`: that, or in a replay what the log answers. It is written down
    if a log is kept.

    It is drawn in a replay too, so that whatever else reads the entropy reads the same."""
    log = _LOG.get()
    if log is None:
        return fresh
    call = Draw(law=law, sensitivity=sensitivity, value=_copy(value), output=_copy(fresh), shape=shape, given=given)
    if log.answer is not None:
        call = replace(call, output=_copy(log.answer(len(log.draws), call)))
    log.draws.append(call)
    output: Answer = _copy(call.output)
    return output


@contextmanager
def recording() -> Iterator[list[Draw]]:
    """Keep every call of a noise function by this thread (or task) in the list that it yields, in order."""
    with _on(_Log()) as log:
        yield log.draws


@contextmanager
def replaying(script: Sequence[Draw]) -> Iterator[list[Draw]]:
    """As `recording`, but the n-th call returns the n-th output of `script` as long as it has the law and the shape of
    that call; a call that the script does not hold draws afresh. The entropy advances as in the recorded run. Compare
    the lists to see where two runs part."""
    kept = tuple(script)
    with answering(lambda number, call: scripted(kept, number, call)) as draws:
        yield draws


@contextmanager
def answering(answer: Callable[[int, Draw], Returned]) -> Iterator[list[Draw]]:
    """As `recording`, but a call returns `answer(number, call)`: its number, from 0, and the call with what was drawn
    afresh as its output."""
    with _on(_Log(answer=answer)) as log:
        yield log.draws


def scripted(script: Sequence[Draw], number: int, call: Draw) -> Returned:
    """What the script holds for this call; what was drawn afresh where it holds nothing that fits."""
    then = script[number] if number < len(script) else call
    fits = then.law == call.law and then.shape == call.shape and type(then.output) is type(call.output)
    output: Returned = then.output if fits else call.output
    return output


@contextmanager
def unrecorded() -> Iterator[None]:
    """What runs in this context (or in a function that it decorates) is in no log: PolicyError if one is kept, and
    for whoever would begin one inside, like a query that the caller wrote."""
    if _LOG.get() is not None:
        raise PolicyError(
            "the noise is being recorded or replayed: a log would hold the exact values, or the noise would be "
            "known, so nothing is released, and nothing more is spent. Leave `recording` or `replaying` first; to "
            "audit a mechanism, call the mechanism itself, on data that you made up"
        )
    token = _UNRECORDED.set(True)
    try:
        yield
    finally:
        _UNRECORDED.reset(token)


@contextmanager
def _on(log: _Log) -> Iterator[_Log]:
    if _UNRECORDED.get():
        raise PolicyError("no noise is recorded or replayed inside a release: a log would hold the exact values")
    token = _LOG.set(log)
    try:
        yield log
    finally:
        _LOG.reset(token)


def _copy(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_copy, value))
    return value.copy() if isinstance(value, np.ndarray) else value
