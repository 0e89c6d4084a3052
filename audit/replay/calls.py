"""Two runs call by call: one recorded on one dataset, one replayed on a neighbour with the same answers.

Until two runs part, all that was drawn is the same on both. So whatever differs of a call's law, scale, shape or
declared sensitivity depends on data that nobody published, and a value may differ by what was declared and no more.

    moved        a value moved further than declared, in its norm, in exact fractions
    law          another law, another scale, another shape, another declared sensitivity
    flow         a call on one dataset that the other has not
    raised       one raised, or another error
    returned     a value that leaves without a draw
    answers      more answers at random changed than the claim pays for
    coin         a coin whose probability depends on the data: never an accusation by itself

Coins may be what protects (a run that fails now and then, a probability that depends on the data): what follows them
may differ in a correct mechanism. Then the same findings accuse nobody (`ReplayFinding.accuses`), unless the coins say
by `given` that the rest is private whatever fell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dpledger import decimals
from dpledger.accounting.guarantees import Guarantee, PureDP
from dpledger.audit.outcomes import name_of_error
from dpledger.audit.replay.differences import OutputDifference, differences
from dpledger.audit.replay.rows import Pairing
from dpledger.mechanisms.noise import (
    AnyLaw,
    Bernoulli,
    Draw,
    ExponentialWeights,
    PermuteAndFlipChoice,
    RandomizedAnswer,
    Refinement,
    Sensitivity,
    Uniform,
)

__all__ = [
    "Kind",
    "RaisedCall",
    "ReplayFinding",
    "Run",
    "compared",
    "counted_choices",
    "grid_of",
    "still",
    "unpaired",
    "used",
]

Kind = Literal["moved", "law", "flow", "raised", "returned", "answers", "coin", "enumerated"]
COINS = (Bernoulli, Uniform)
SMALL = 2**62


@dataclass(frozen=True, slots=True)
class RaisedCall:
    """What a run raised."""

    error: BaseException

    @property
    def name(self) -> str:
        """Its type."""
        return name_of_error(self.error)


@dataclass(frozen=True, slots=True)
class Run:
    """One run: its calls of noise functions, and what it returned or raised."""

    draws: tuple[Draw, ...]
    output: object


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayFinding:
    """One difference between two runs on neighbours.

    `call`: the number of the call, from 1; None: of what came back. `accuses`: whether a correct mechanism has none
    like it. `words`: for whoever made up the data; `public_words`: without any number that depends on them. `moved`,
    `declared`: of a value, in the units of its law's scale; of an l2 norm `moved` is rounded down. `path`: of what came
    back."""

    kind: Kind
    accuses: bool
    call: int | None
    words: str
    public_words: str
    moved: Fraction | None = None
    declared: Decimal | None = None
    path: str | None = None


def compared(
    first: Run,
    second: Run,
    claim: Guarantee | None = None,
    *,
    pairing: Pairing | None = None,
    known_places: bool = False,
    wild: int | None = None,
) -> tuple[ReplayFinding, ...]:
    """What differs, in order, until the runs part. `pairing`: by which units have the same coins on both, seen from the
    first. `known_places`: the places of choices among segments mean the same on both. `wild`: the number of the call
    from which on randomness of the mechanism's own decides, if it does."""
    found: list[ReplayFinding] = []
    protected = False  # by coins, by places that mean another candidate there, or by noise that is in no log
    for number, (ours, theirs) in enumerate(zip(first.draws, second.draws, strict=False)):
        protected = protected or (wild is not None and number >= wild)
        parted = _parted(ours, theirs, pairing)
        if parted is not None:
            found.append(_finding("law", parted, number, accuses=not protected and not _unit_coins(ours, theirs)))
            return tuple(found)
        found += _of_call(ours, theirs, number, claim, accuses=not protected)
        protected = protected or _hides(ours, known_places)
    protected = protected or wild is not None
    if len(first.draws) != len(second.draws):
        number = min(len(first.draws), len(second.draws))
        fewer, more = sorted((len(first.draws), len(second.draws)))
        words = f"there are {fewer} calls on one of the two datasets and {more} on the other"
        public = "made on one of the two datasets alone"
        return (*found, _finding("flow", public, number, accuses=not protected, told=words))
    return (*found, *_of_outputs(first.output, second.output, accuses=not protected))


def unpaired(first: Run, second: Run, pairing: Pairing | None) -> tuple[int, int] | None:
    """How many coins the first call tosses on each side whose units are not paired; None where the runs do not part
    there."""
    for ours, theirs in zip(first.draws, second.draws, strict=False):
        if _parted(ours, theirs, pairing) is not None:
            return (ours.shape[0], theirs.shape[0]) if _unit_coins(ours, theirs) and ours.law == theirs.law else None
    return None


def counted_choices(run: Run) -> list[tuple[int, int]]:
    """The choices among segments: number of the call, how many places there are."""
    return [(number, draw.shape[0]) for number, draw in enumerate(run.draws) if isinstance(draw.value, tuple)]


def used(first: Run, second: Run, pairing: Pairing | None) -> list[Fraction]:
    """What share of the declared sensitivity each call's value moved by, as far as the runs go together."""
    shares: list[Fraction] = []
    for ours, theirs in zip(first.draws, second.draws, strict=False):
        if _parted(ours, theirs, pairing) is not None:
            break
        if ours.sensitivity is not None:
            shares.append(_moved(ours, theirs).least / Fraction(ours.sensitivity.value))
    return shares


def still(first: Run, second: Run, pairing: Pairing | None) -> tuple[int, ...]:
    """The calls that were given the same value on both, as far as the runs go together; coins are none of them."""
    found: list[int] = []
    for number, (ours, theirs) in enumerate(zip(first.draws, second.draws, strict=False)):
        if _parted(ours, theirs, pairing) is not None:
            break
        if isinstance(ours.law, RandomizedAnswer):
            moved = bool(np.any(_answers(ours.law, ours.value) != _answers(ours.law, theirs.value)))
        else:
            moved = isinstance(ours.law, COINS) or _moved(ours, theirs).least > 0
        found += [] if moved else [number]
    return tuple(found)


# ---- one call -------------------------------------------------------------------------------------------------------


def _finding(
    kind: Kind,
    public: str,
    number: int | None,
    *,
    accuses: bool,
    told: str = "",
    moved: Fraction | None = None,
    declared: Decimal | None = None,
    path: str | None = None,
) -> ReplayFinding:
    at = "" if number is None else f"call {number + 1}: "
    words = f"{at}{told or public}"
    call = None if number is None else number + 1
    return ReplayFinding(
        kind=kind,
        accuses=accuses,
        call=call,
        words=words,
        public_words=f"{at}{public}",
        moved=moved,
        declared=declared,
        path=path,
    )


def _parted(ours: Draw, theirs: Draw, pairing: Pairing | None) -> str | None:
    """Why two calls cannot have the same answer."""
    if ours.law != theirs.law:
        if ours.law.kind != theirs.law.kind:
            return f"{' on one of the two datasets and '.join(sorted((ours.law.kind, theirs.law.kind)))} on the other"
        return f"the scale of {ours.law.kind} depends on the data"
    units = None if pairing is None else ((pairing.left,), (pairing.right,))
    if ours.shape != theirs.shape and not (_unit_coins(ours, theirs) and (ours.shape, theirs.shape) == units):
        return f"how many numbers {ours.law.kind} is drawn for depends on the data"
    return None


def _unit_coins(ours: Draw, theirs: Draw) -> bool:
    """Whether they are coins, or numbers, one for each unit, of which there are not as many on both."""
    return (
        isinstance(ours.law, COINS) and ours.law.kind == theirs.law.kind and len(ours.shape) == len(theirs.shape) == 1
    )


def _hides(draw: Draw, known_places: bool) -> bool:
    """Whether what follows may differ in a correct mechanism."""
    if isinstance(draw.law, COINS):
        return not draw.given
    return isinstance(draw.value, tuple) and not known_places


def _of_call(ours: Draw, theirs: Draw, number: int, claim: Guarantee | None, *, accuses: bool) -> list[ReplayFinding]:
    if isinstance(ours.law, Bernoulli):
        public = "the probability of a coin depends on the data, and nothing in the log pays for that"
        return [] if np.array_equal(ours.value, theirs.value) else [_finding("coin", public, number, accuses=False)]
    if isinstance(ours.law, Uniform):
        return []
    if isinstance(ours.law, RandomizedAnswer):
        return _of_answers(ours.law, ours.value, theirs.value, number, claim, accuses=accuses)
    if ours.sensitivity != theirs.sensitivity:
        public = "the declared sensitivity, or its justification, depends on the data"
        return [_finding("law", public, number, accuses=accuses)]
    return _of_value(ours, theirs, number, accuses=accuses)


def _of_value(ours: Draw, theirs: Draw, number: int, *, accuses: bool) -> list[ReplayFinding]:
    moved, declared = _moved(ours, theirs), ours.sensitivity
    name = ours.law.kind
    if declared is None:
        public = f"{name} is given a value that depends on the data, and no sensitivity is declared"
        return [_finding("moved", public, number, accuses=accuses)] if moved.least else []
    if not moved.exceeds(declared):
        return []
    bound = f"{decimals.text(declared.value)} in {declared.norm} is declared"
    public = f"the value given to {name} moved further than declared: {bound}"
    told = f"the value given to {name} moved by {float(moved.least):.6g}, and {bound}"
    return [_finding("moved", public, number, accuses=accuses, told=told, moved=moved.least, declared=declared.value)]


def _of_answers(
    law: RandomizedAnswer, ours: Any, theirs: Any, number: int, claim: Guarantee | None, *, accuses: bool
) -> list[ReplayFinding]:
    """Each answer that changed costs the law's epsilon: a pure claim of less is refuted by them."""
    changed = int(np.count_nonzero(_answers(law, ours) != _answers(law, theirs)))
    if not isinstance(claim, PureDP) or Fraction(law.epsilon) * changed <= Fraction(claim.epsilon):
        return []
    each = f"each costs {decimals.text(law.epsilon)}, the claim is {decimals.text(claim.epsilon)}"
    public = f"more random answers changed than the claim pays for: {each}"
    told = f"{changed} random answers changed: {each}"
    return [_finding("answers", public, number, accuses=accuses, told=told)]


def _answers(law: RandomizedAnswer, value: Any) -> npt.NDArray[Any]:
    found: npt.NDArray[Any] = np.clip(np.atleast_1d(np.asarray(value)).astype(object), 0, law.k - 1)
    return found


# ---- how far a value moved ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Distance:
    """`least`: how far, rounded down where it is a root. `squared`: of an l2 norm its square, exactly."""

    least: Fraction
    squared: Fraction | None = None

    def exceeds(self, declared: Sensitivity) -> bool:
        """Whether it is more than declared, exactly."""
        bound = Fraction(declared.value)
        return self.least > bound if self.squared is None else self.squared > bound**2


def _moved(ours: Draw, theirs: Draw) -> _Distance:
    """How far the value moved, in the norm that is declared (l1 where none is), in the units of the law's scale."""
    if isinstance(ours.law, (ExponentialWeights, PermuteAndFlipChoice)):
        return _Distance(_scores_moved(ours.value, theirs.value))
    step, gap = Fraction(grid_of(ours.law)), _gap(ours.value, theirs.value)
    match "l1" if ours.sensitivity is None else ours.sensitivity.norm:
        case "linf":
            return _Distance(step * int(max(gap, default=0)))
        case "l2":
            squared = step**2 * sum(int(one) ** 2 for one in gap)
            return _Distance(_root(squared), squared)
        case _:
            return _Distance(step * sum(map(int, gap)))


def _gap(ours: Any, theirs: Any) -> npt.NDArray[Any]:
    """How far each entry moved, in steps; those that did not are left out. Whole numbers of any size."""
    left, right = (np.atleast_1d(np.asarray(value)).reshape(-1) for value in (ours, theirs))
    if left.dtype != object and right.dtype != object and left.size and right.size:
        changed = np.flatnonzero(left != right)
        left, right = left[changed], right[changed]
    gap: npt.NDArray[Any] = np.abs(left.astype(object) - right.astype(object))
    return gap


def grid_of(law: AnyLaw) -> Decimal:
    """The width of a step."""
    inner = law.finest if isinstance(law, Refinement) else law
    grid: Decimal = getattr(inner, "grid", Decimal(1))
    return grid


def _root(square: Fraction) -> Fraction:
    bits = 2**64
    return Fraction(math.isqrt(square.numerator * bits**2 // square.denominator), bits)


def _scores_moved(ours: Any, theirs: Any) -> Fraction:
    """Half of how much further one score moved than another: a choice knows differences alone.

    Of segments it is a lower bound: no way of matching candidates brings two rows of scores closer than matching them
    in order."""
    if isinstance(ours, tuple):
        gaps = _in_order(*ours, *theirs)
    else:
        gaps = [int(one) - int(other) for one, other in zip(ours, theirs, strict=True)]
    return Fraction(max(gaps) - min(gaps), 2)


def _in_order(
    ours: Sequence[int], many_ours: Sequence[int], theirs: Sequence[int], many_theirs: Sequence[int]
) -> list[int]:
    """The gaps between the scores of two rows of segments, matched in order."""
    left = sorted((int(score), int(many)) for score, many in zip(ours, many_ours, strict=True) if many)
    right = sorted((int(score), int(many)) for score, many in zip(theirs, many_theirs, strict=True) if many)
    gaps: list[int] = []
    while left and right:
        (one, several), (other, others) = left[-1], right[-1]
        gaps.append(one - other)
        common = min(several, others)
        left[-1:] = [(one, several - common)] if several > common else []
        right[-1:] = [(other, others - common)] if others > common else []
    return gaps


# ---- what came back -------------------------------------------------------------------------------------------------


def _of_outputs(ours: object, theirs: object, *, accuses: bool) -> list[ReplayFinding]:
    if isinstance(ours, RaisedCall) or isinstance(theirs, RaisedCall):
        return _of_errors(ours, theirs, accuses=accuses)
    return [_of_difference(one, accuses=accuses) for one in differences(ours, theirs)]


def _of_difference(found: OutputDifference, *, accuses: bool) -> ReplayFinding:
    why = ", though every draw is the same" if found.seen else ""
    told, public = found.words + why, found.public_words + why
    return _finding("returned", public, None, accuses=accuses and found.seen, told=told, path=found.path)


def _of_errors(ours: object, theirs: object, *, accuses: bool) -> list[ReplayFinding]:
    names = [one.name if isinstance(one, RaisedCall) else "nothing" for one in (ours, theirs)]
    if names[0] != names[1]:
        public = f"it raised {' on one of the two datasets and '.join(sorted(names))} on the other"
        return [_finding("raised", public, None, accuses=accuses)]
    if isinstance(ours, RaisedCall) and isinstance(theirs, RaisedCall) and str(ours.error) != str(theirs.error):
        return [_finding("raised", f"the text of {names[0]} depends on the data", None, accuses=False)]
    return []
