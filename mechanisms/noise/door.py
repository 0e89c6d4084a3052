"""The one door of noise: `draw` adds a declared law to whole numbers, and can be recorded and replayed.

A mechanism turns its statistic into whole numbers of steps, says how far one unit may move them and why, and calls
`draw`; there is no other way to noise. So an audit sees every primitive call: `recording` keeps what was passed and
returned, `replaying` hands the same outputs to a run on other data. Such a tape is for data of one's own making: it
holds exact values, and replayed noise is known noise. So what is run for a ledger is `unrecorded`.

>>> from dpledger.mechanisms.entropy import seeded
>>> from dpledger.mechanisms.noise.laws import DiscreteLaplace, Sensitivity
>>> one = Sensitivity(1, "l1", "a record changes a count by one")
>>> with recording() as draws:
...     noisy = draw(DiscreteLaplace(scale=2), 100, sensitivity=one, entropy=seeded(1))
>>> draws[0].value, draws[0].output == noisy
(100, True)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from dpledger.errors import ParameterError, PolicyError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise.laws import (
    DiscreteGaussian,
    DiscreteLaplace,
    Law,
    RoundedGaussian,
    RoundedLaplace,
    Sensitivity,
)
from dpledger.mechanisms.noise.sampling import LIMIT, Cells, sample, sample_one

__all__ = ["Draw", "draw", "recording", "replaying", "unrecorded"]

_LAWS = (DiscreteLaplace, DiscreteGaussian, RoundedLaplace, RoundedGaussian)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Draw:
    """One call of `draw`: what was declared and what was passed and returned. For audits on data of their own making:
    it holds the exact value, and neither the ledger nor a log may see it.

    `size`: how many variates. `value`, `output`: as passed and returned (arrays are copies)."""

    law: Law
    sensitivity: Sensitivity
    value: int | Cells = field(repr=False)
    output: int | Cells = field(repr=False)
    size: int


@dataclass(slots=True)
class _Tape:
    draws: list[Draw] = field(default_factory=list)
    script: Sequence[Draw] = ()


_TAPE: ContextVar[_Tape | None] = ContextVar("dpledger_noise_tape", default=None)
_UNRECORDED: ContextVar[bool] = ContextVar("dpledger_noise_unrecorded", default=False)


@overload
def draw(law: Law, value: int, *, sensitivity: Sensitivity, entropy: Entropy) -> int: ...
@overload
def draw(law: Law, value: npt.NDArray[Any], *, sensitivity: Sensitivity, entropy: Entropy) -> Cells: ...
def draw(law: Law, value: int | Cells, *, sensitivity: Sensitivity, entropy: Entropy) -> int | Cells:
    """`value` plus independent noise of `law` on each entry, exactly; in whole steps of `law.grid`.

    `value`: an int, or an array of integers (int64, or Python integers in an object array) of any shape.
    Returns the same shape: an int for an int; int64, or an object array of Python integers where a sum does not fit,
    so nothing ever wraps. `sensitivity`: what one unit may change, for the record. Raises ParameterError for a `law`,
    `sensitivity` or `value` of another type; never because of a number.
    Source: docs/proofs/noise.md.
    """
    if not isinstance(law, _LAWS):
        raise ParameterError("law", type(law).__name__, "a noise law, like DiscreteLaplace(scale=2)")
    if not isinstance(sensitivity, Sensitivity):
        raise ParameterError("sensitivity", type(sensitivity).__name__, "a Sensitivity with norm and justification")
    tape = _TAPE.get()
    if tape is None:
        return _added(law, value, entropy)
    fresh = _added(law, value, entropy)  # drawn in a replay too, so that whatever else reads the entropy reads the same
    output = _scripted(tape, law, fresh)
    tape.draws.append(
        Draw(law=law, sensitivity=sensitivity, value=_copy(value), output=_copy(output), size=int(np.size(output)))
    )
    return output


@contextmanager
def recording() -> Iterator[list[Draw]]:
    """Keep every `draw` of this thread (or task) in the list that it yields, in order."""
    with _taped(_Tape()) as tape:
        yield tape.draws


@contextmanager
def replaying(script: Sequence[Draw]) -> Iterator[list[Draw]]:
    """As `recording`, but the n-th call returns the n-th output of `script` as long as it has the law and the shape of
    that call; a call that the script does not hold draws afresh. The entropy advances as in the recorded run. Compare
    the lists to see where two runs part."""
    with _taped(_Tape(script=tuple(script))) as tape:
        yield tape.draws


@contextmanager
def unrecorded() -> Iterator[None]:
    """What runs in this context (or in a function that it decorates) is on no tape: PolicyError if one is on, and for
    whoever would put one on inside, like a query that the caller wrote."""
    if _TAPE.get() is not None:
        raise PolicyError(
            "the noise is being recorded or replayed: a tape would hold the exact values, or the noise would be known, "
            "so nothing is released, and nothing more is spent. Leave `recording` or `replaying` first; to audit a "
            "mechanism, call the mechanism itself, on data of your own making"
        )
    token = _UNRECORDED.set(True)
    try:
        yield
    finally:
        _UNRECORDED.reset(token)


@contextmanager
def _taped(tape: _Tape) -> Iterator[_Tape]:
    if _UNRECORDED.get():
        raise PolicyError("no noise is recorded or replayed inside a release: a tape would hold the exact values")
    token = _TAPE.set(tape)
    try:
        yield tape
    finally:
        _TAPE.reset(token)


def _scripted(tape: _Tape, law: Law, fresh: int | Cells) -> int | Cells:
    """What the script holds for this call; `fresh` where it holds nothing that fits."""
    position = len(tape.draws)
    if position >= len(tape.script):
        return fresh
    then = tape.script[position]
    if then.law != law or np.shape(then.output) != np.shape(fresh):
        return fresh
    return _copy(then.output)


def _copy(value: int | Cells) -> int | Cells:
    return value.copy() if isinstance(value, np.ndarray) else int(value)


def _added(law: Law, value: int | Cells, entropy: Entropy) -> int | Cells:
    if isinstance(value, np.ndarray):
        values = _whole(value)
        noise = sample(law, values.size, entropy).reshape(values.shape)
        return _sum(values, noise)
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return int(value) + sample_one(law, entropy)
    raise ParameterError("value", type(value).__name__, "whole numbers of steps: an int or an array of integers")


def _whole(values: Cells) -> Cells:
    if values.dtype.kind == "i":
        return values.astype(np.int64, copy=False)
    if values.dtype.kind == "u" or (values.dtype.kind == "O" and all(type(item) is int for item in values.flat)):
        return values.astype(object)
    raise ParameterError("value", f"an array of {values.dtype}", "an array of whole numbers of steps")


def _sum(values: Cells, noise: Cells) -> Cells:
    """values + noise. Two int64 numbers below LIMIT in size do not wrap; all else is added as Python integers."""
    small = values.dtype != object and noise.dtype != object and (not values.size or _largest(values) < LIMIT)
    total: Cells = values + noise if small else values.astype(object) + noise.astype(object)
    if small or not total.size or not -(2**63) <= total.min() <= total.max() < 2**63:
        return total
    return total.astype(np.int64)


def _largest(values: Cells) -> int:
    return max(abs(int(values.min())), abs(int(values.max())))
