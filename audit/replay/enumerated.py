"""Jobs that draw only a few coins: every way in which the coins fall, with its exact probability.

A coin may have a probability that depends on the data, and pay for it by its odds. Where there are few, nothing needs
to be guessed: the laws of the output on both datasets are known, and delta at the claim's epsilon with them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product

import numpy as np

from dpledger import decimals
from dpledger.accounting.guarantees import ApproxDP, Guarantee, PureDP, words_of
from dpledger.audit.replay.calls import RaisedCall, ReplayFinding
from dpledger.audit.replay.differences import same
from dpledger.audit.replay.running import Job, answered
from dpledger.mechanisms.noise import Bernoulli, Draw, ExpMinus, Uniform
from dpledger.mechanisms.noise.laws import rational
from dpledger.mechanisms.noise.randomness_log import Returned

__all__ = ["broken_by_coins"]

_MOST_LEAVES = 256  # of each dataset
_SLACK = 1 + Fraction(1, 2**40)  # of e^x in floats, twice


def broken_by_coins(job: Job, data: tuple[object, object], claim: Guarantee | None, seed: int) -> ReplayFinding | None:
    """The finding that the claim is broken; None where it holds on this pair, is none of (epsilon, delta), or where
    there are more than 256 ways.

    Claim: delta at the claim's epsilon, of the laws of the outputs, is more than the claim's. Source: enumeration, in
    exact fractions.
    """
    if not isinstance(claim, (PureDP, ApproxDP)):
        return None
    laws = [_law(job, side, (seed, 9)) for side in data]
    if laws[0] is None or laws[1] is None:
        return None
    odds, allowed = Fraction(math.exp(float(claim.epsilon))) * _SLACK, Fraction(claim.fails)
    delta = max(_beyond(laws[0], laws[1], odds), _beyond(laws[1], laws[0], odds))
    if delta <= allowed * _SLACK + (_SLACK - 1):
        return None
    public = f"by all ways in which its coins fall, {words_of(claim)} does not hold"
    told = f"{public}: delta is at least {float(delta):.6g} at epsilon {decimals.text(claim.epsilon)}"
    return ReplayFinding(kind="enumerated", accuses=True, call=None, words=told, public_words=public)


@dataclass(slots=True)
class _Law:
    """Outputs with their probabilities."""

    outputs: list[object] = field(default_factory=list)
    masses: list[Fraction] = field(default_factory=list)

    def add(self, output: object, mass: Fraction) -> None:
        for number, known in enumerate(self.outputs):
            if _alike(known, output):
                self.masses[number] += mass
                return
        self.outputs.append(output)
        self.masses.append(mass)

    def mass(self, output: object) -> Fraction:
        found = (mass for known, mass in zip(self.outputs, self.masses, strict=True) if _alike(known, output))
        return next(found, Fraction(0))


def _alike(one: object, other: object) -> bool:
    if isinstance(one, RaisedCall) and isinstance(other, RaisedCall):
        return one.name == other.name
    return same(one, other)


def _beyond(ours: _Law, theirs: _Law, odds: Fraction) -> Fraction:
    gaps = (mass - odds * theirs.mass(output) for output, mass in zip(ours.outputs, ours.masses, strict=True))
    return sum((gap for gap in gaps if gap > 0), start=Fraction(0))


def _law(job: Job, data: object, seed: tuple[int, ...]) -> _Law | None:
    """The law of its output; None where there are too many ways."""
    law, path, leaves = _Law(), [0], 0
    while path:
        leaves += 1
        ways: list[list[tuple[Returned, Fraction]]] = []
        if leaves > _MOST_LEAVES or not _follow(job, data, seed, path, ways, law):
            return None
        path = [*path, *[0] * len(ways)][: len(ways)]
        while path and path[-1] + 1 == len(ways[len(path) - 1]):
            path.pop()
        if path:
            path[-1] += 1
    return law


class _TooMany(Exception):
    pass


def _follow(
    job: Job,
    data: object,
    seed: tuple[int, ...],
    path: list[int],
    ways: list[list[tuple[Returned, Fraction]]],
    law: _Law,
) -> bool:
    """One run along the path, of first branches beyond it; whether it could be followed."""
    mass = Fraction(1)
    strange = False

    def answer(number: int, call: Draw) -> Returned:
        nonlocal mass, strange
        branches = None if strange or len(ways) >= _MOST_LEAVES else _branches(call)
        if branches is None:
            strange = True
            raise _TooMany
        ways.append(branches)
        output, chance = branches[path[number] if number < len(path) else 0]
        mass *= chance
        return output

    run = answered(job, data, seed, answer)
    if strange:
        return False
    law.add(run.output, mass)
    return True


def _branches(call: Draw) -> list[tuple[Returned, Fraction]] | None:
    """What a call may answer, with probabilities above 0; None where it is too much."""
    if isinstance(call.law, Uniform):
        k, (size,) = call.law.k, call.shape
        if k**size > _MOST_LEAVES:
            return None
        each = Fraction(1, k**size)
        return [(np.array(one, dtype=np.uint64), each) for one in product(range(k), repeat=size)]
    if not isinstance(call.law, Bernoulli) or call.size > _MOST_LEAVES.bit_length():
        return None
    if not call.shape:
        falls = _probability(call.value)
        return [(fell, chance) for fell, chance in ((False, 1 - falls), (True, falls)) if chance]
    own = isinstance(call.value, np.ndarray)  # of each its own probability
    all_falls = list(map(_probability, call.value if own else [call.value] * call.size))
    found: list[tuple[Returned, Fraction]] = []
    for fell in product((False, True), repeat=call.size):
        chances = (falls if one else 1 - falls for falls, one in zip(all_falls, fell, strict=True))
        chance = math.prod(chances, start=Fraction(1))
        if chance:
            found.append((np.flatnonzero(fell).astype(np.int64), chance))
    return found


def _probability(value: object) -> Fraction:
    if isinstance(value, ExpMinus):
        return Fraction(math.exp(-float(rational(value.exponent, field="exponent"))))
    assert isinstance(value, Fraction)
    return value
