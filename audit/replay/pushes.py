"""Noise that is pushed: recordings in which some answers are others than were drawn, to see what they decide.

Noise that covers a value decides, with it, what follows. Luck need not show that: at epsilon 12 noise is 0 nearly
always. Pushed by what it is drawn for it shows, however rare it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dpledger.audit.replay.calls import COINS, RaisedCall, ReplayFinding, Run, grid_of
from dpledger.audit.replay.differences import differences, same
from dpledger.audit.replay.running import Answer
from dpledger.mechanisms.noise import Draw, ExponentialWeights, PermuteAndFlipChoice, RandomizedAnswer
from dpledger.mechanisms.noise.randomness_log import Returned

__all__ = ["PUSHES", "push", "varies"]

EVEN = ((1, 0), (-1, 0), (0, 1), (0, -1))  # all entries alike: sensitivities, and steps beside them
UNEVEN = (2, 2, 2, 8, 8, 8, 50, 50)  # each entry for itself, by at most so many sensitivities
PUSHES = len(EVEN) + len(UNEVEN)
MOST_COMPARED = 10**4  # differences of two outputs


def push(calls: Iterable[int], number: int) -> Answer:
    """Answers of which those of some calls, by number, are pushed in the way of this number."""
    pushed = frozenset(calls)
    generator = np.random.default_rng(number)

    def answer(place: int, call: Draw) -> Returned:
        output: Returned = call.output
        return _pushed(call, number, generator) if place in pushed else output

    return answer


def _pushed(call: Draw, number: int, generator: np.random.Generator) -> Returned:
    output: Returned = call.output
    if isinstance(call.law, COINS):
        return output
    if isinstance(call.law, (ExponentialWeights, PermuteAndFlipChoice)):
        if isinstance(output, np.ndarray):  # places that rise
            return output
        return (int(output) + 1 + number) % call.shape[0]
    if isinstance(call.law, RandomizedAnswer):
        answers = call.law.k
        return _moved(output, lambda many: generator.integers(0, answers, many), answers)
    wide = 1
    if call.sensitivity is not None:
        wide = max(1, math.ceil(Fraction(call.sensitivity.value) / Fraction(grid_of(call.law))))
    if number < len(EVEN):
        widths, steps = EVEN[number]
        return _moved(output, lambda many: [widths * wide + steps] * many)
    most = UNEVEN[number - len(EVEN)]
    return _moved(output, lambda many: [int(wide * one) for one in generator.uniform(-most, most, many)])


def _moved(
    output: Returned, by: Callable[[int], Sequence[int] | npt.NDArray[np.int64]], modulus: int | None = None
) -> Returned:
    """Each entry moved by so many steps; int64 where it was and all fit."""
    entries = np.asarray(output, dtype=object).reshape(-1)
    found = [int(one) + int(step) for one, step in zip(entries, by(entries.size), strict=True)]
    if modulus is not None:
        found = [one % modulus for one in found]
    if not isinstance(output, np.ndarray):
        return found[0]
    fits = output.dtype != object and all(-(2**63) <= one < 2**63 for one in found)
    return np.array(found, dtype=output.dtype if fits else object).reshape(output.shape)


def varies(finding: ReplayFinding, run: Run, other: Run) -> bool:
    """Whether what a finding is about is another in another recording of the same dataset."""
    if finding.path is not None:
        return finding.path in {one.path for one in differences(run.output, other.output, most=MOST_COMPARED)}
    if finding.call is None:
        return _raised(run) != _raised(other)
    ours, theirs = (one.draws[finding.call - 1 : finding.call] for one in (run, other))
    if len(ours) != len(theirs) or not ours or finding.kind == "flow":
        return len(ours) != len(theirs)
    (mine,), (its,) = ours, theirs
    if (mine.law, mine.shape, mine.sensitivity) != (its.law, its.shape, its.sensitivity):
        return True
    return finding.kind != "law" and not same(mine.value, its.value)


def _raised(run: Run) -> str | None:
    return run.output.name if isinstance(run.output, RaisedCall) else None
