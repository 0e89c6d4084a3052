"""`release` is what is audited: whether `sample`, from which an audit draws, gives what `release` gives.

A mechanism may have a right `sample` and a raw `release`. So its first runs go through `release`, and `sample` has to
give the same values from the same entropy; where the two read their entropy in another order (a rejection loop draws
one at a time, or many), from the same noise, by the log. Whatever cannot be shown to be equal is no stand-in, and
`release` itself is audited.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpledger.audit.sampling.ways import Releases, Sampler, Samples
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.noise import recording, replaying
from dpledger.mechanisms.noise.randomness_log import Draw
from dpledger.mechanisms.protocol import sampled_of

__all__ = ["RELEASED", "agrees", "released"]

RELEASED = 64  # runs of each side that go through `release`


def released(sampler: Sampler, left: object, right: object, seed: int) -> tuple[Sampler, str | None]:
    """How to run it, so that `release` is what is audited; and where that is not by `sample`, why."""
    if not isinstance(sampler, Samples):
        return sampler, None
    for data in (left, right):
        unlike = agrees(sampler.mechanism, data, seed=seed)
        if unlike is not None:
            mechanism: Any = sampler.mechanism
            return Releases(mechanism), f"{unlike}: release was audited, one run a call"
    return sampler, None


def agrees(mechanism: Any, data: object, *, seed: int, runs: int = RELEASED) -> str | None:
    """How `release` and `sample` of a mechanism differ on these data, in words that hold no output; None where the
    first `runs` releases are what `sample` gives.

    Whatever either raises is a difference, unless both raise alike."""
    differing = sum(not _is_same(mechanism, data, (seed, run)) for run in range(runs))
    if not differing:
        return None
    kind = type(mechanism).__name__
    return f"{kind}.release and {kind}.sample differ in {differing} of {runs} runs from the same entropy"


def _is_same(mechanism: Any, data: object, name: tuple[int, int]) -> bool:
    try:
        with recording() as released:
            value = mechanism.release(data, entropy=seeded(*name)).value
    except Exception as error:
        return _raises_alike(mechanism, data, name, error)
    try:
        with recording() as sampled:
            (row,) = mechanism.sample(data, 1, seeded(*name))
        if is_value(mechanism, value, row):
            return True
        script = _aligned(released, sampled)
        if script is None:
            return False
        with replaying(script):
            (row,) = mechanism.sample(data, 1, seeded(*name))
    except Exception:
        return False
    return is_value(mechanism, value, row)


def _raises_alike(mechanism: Any, data: object, name: tuple[int, int], raised: Exception) -> bool:
    try:
        mechanism.sample(data, 1, seeded(*name))
    except Exception as error:
        return type(error) is type(raised)
    return False


def is_value(mechanism: object, value: object, row: object) -> bool:
    """Whether a row of `sample` is the value of a release: number by number, or as the mechanism writes it there."""
    return any(_equal(form, row) for form in sampled_of(mechanism, value))


def _equal(form: object, row: object) -> bool:
    try:
        if isinstance(row, np.ndarray) or isinstance(form, np.ndarray):
            return bool(np.array_equal(np.asarray(form), np.asarray(row)))
        return bool(form == row) or (form != form and row != row)
    except Exception:  # values of the mechanism's own making that cannot be compared
        return False


def _aligned(released: Sequence[Draw], sampled: Sequence[Draw]) -> list[Draw] | None:
    """The draws of a release, each in the shape in which `sample` makes it; None where those are other draws: another
    law, or other values that noise was added to."""
    if len(released) != len(sampled):
        return None
    found = []
    for one, other in zip(released, sampled, strict=True):
        if one.law != other.law or one.size != other.size or not _equal(np.ravel(one.value), np.ravel(other.value)):
            return None
        output = np.reshape(one.output, other.shape) if other.shape else np.ravel(one.output)[0]
        found.append(dataclasses.replace(one, output=output, shape=other.shape))
    return found
