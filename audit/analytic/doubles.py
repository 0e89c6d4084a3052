"""Which doubles a mechanism can reach: noise that is drawn and added in floating point reaches others on a neighbour.

`x + noise` is rounded to a double, so the doubles that can come out depend on x (Mironov 2012, On significance of the
least significant bits for differential privacy). One word of 64 bits decides most noise. Given a double, a search over
words says whether any of them gives just that, on the left data and on the right. The audit is of that answer. It is
a function of the output, so what is promised of the output is promised of it, and nothing rests on the search: one that
misses a word costs power.

>>> def noisy(value, rng):
...     return value + rng.laplace()
>>> Reach.of(noisy, 0.25).holds(noisy(0.25, np.random.default_rng(1)))
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from dpledger.accounting.guarantees import Guarantee
from dpledger.audit.experiment import audit_mechanism
from dpledger.audit.results.verdict import AuditResult
from dpledger.audit.tested.subjects import Settings, claim_of, name_of, require_unguarded
from dpledger.decimals import Number
from dpledger.errors import ParameterError
from dpledger.relations import Relation, Unit

__all__ = ["Reach", "audit_doubles"]

Noisy: TypeAlias = Callable[[Any, np.random.Generator], Any]
Answer: TypeAlias = Literal["within reach of both", "of left alone", "of right alone", "of neither"]
"""Which of the two datasets a double is within reach of."""

_MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645  # of PCG64 (O'Neill 2014)
_INVERSE = pow(_MULTIPLIER, -1, 2**128)
_INCREMENT = 0x5851F42D4C957F2D14057B7EF767814F
LOW = 11  # bits of a word that a double of 53 bits does not use; the ziggurats of numpy choose a layer by them
HIGH = 3  # bits that the ziggurat of normal noise does not use
PLACES = 2 ** (64 - LOW - HIGH)  # of a piece
NEAR = 8  # places beside the one that is looked for: elementary functions are monotone but for their last digit
PROBED = 3  # places by which two pieces are told apart
TRIED = 32  # low bits by which it is told whether any matter


@dataclass(frozen=True, slots=True)
class _Piece:
    """Words that differ in their middle bits, along which noise rises or falls. `first`, `last`: the places between
    which one word is enough, and what it gives there."""

    high: int
    low: int
    first: tuple[int, float]
    last: tuple[int, float]

    def may_hold(self, number: float) -> bool:
        ends = self.first[1], self.last[1]
        return min(ends) <= number <= max(ends)


@dataclass(frozen=True, slots=True)
class _Source:
    """A mechanism on one dataset, as a function of one word of randomness."""

    mechanism: Noisy
    data: object
    rng: np.random.Generator = field(default_factory=lambda: np.random.Generator(np.random.PCG64(0)))

    def at(self, high: int, place: int, low: int) -> float | None:
        """What a word gives; None where it takes more or fewer than one, or the output is no float."""
        word = high << (64 - HIGH) | place << LOW | low
        bits = self.rng.bit_generator
        state = {"state": (word - _INCREMENT) * _INVERSE % 2**128, "inc": _INCREMENT}
        bits.state = {"bit_generator": "PCG64", "state": state, "has_uint32": 0, "uinteger": 0}
        try:
            output = self.mechanism(self.data, self.rng)
        except Exception:  # whatever the code of others does
            return None
        after: Any = bits.state
        is_one = after["state"]["state"] == word and not after["has_uint32"]
        return float(output) if is_one and isinstance(output, float) and not math.isnan(output) else None

    def pieces(self) -> Iterator[_Piece]:
        """Of all words; no two that give the same."""
        rng = np.random.default_rng(0)
        places = [int(one) for one in rng.integers(PLACES, size=PROBED)]
        tried = {self.at(0, places[0], int(low)) for low in rng.integers(2**LOW, size=TRIED)}
        seen: set[tuple[float | None, ...]] = set()
        for high in range(2**HIGH):
            for low in range(2**LOW if len(tried) > 1 else 1):
                told = tuple(self.at(high, place, low) for place in places)
                found = [(place, value) for place, value in zip(places, told, strict=True) if value is not None]
                if found and told not in seen:
                    seen.add(told)
                    yield _Piece(
                        high, low, self._end(high, low, 0, *found[0]), self._end(high, low, PLACES - 1, *found[0])
                    )

    def _end(self, high: int, low: int, end: int, place: int, value: float) -> tuple[int, float]:
        """The place nearest to `end`, and its value, up to which from `place` on one word is enough."""
        at_end = self.at(high, end, low)
        if at_end is not None:
            return end, at_end
        while abs(end - place) > 1:
            middle = (end + place) // 2
            told = self.at(high, middle, low)
            if told is None:
                end = middle
            else:
                place, value = middle, told
        return place, value


@dataclass(frozen=True, slots=True)
class Reach:
    """The doubles that a mechanism gives on one dataset from one word of randomness."""

    source: _Source
    pieces: tuple[_Piece, ...]

    @classmethod
    def of(cls, mechanism: Noisy, data: object) -> Reach:
        """`mechanism`: f(data, rng) that gives one float and draws its noise from `rng`, a generator of numpy."""
        source = _Source(mechanism, data)
        return cls(source, tuple(source.pieces()))

    def holds(self, number: float) -> bool:
        """Whether a word is found that gives exactly this double."""
        return any(self._meets(piece, number) for piece in self.pieces if piece.may_hold(number))

    def _meets(self, piece: _Piece, number: float) -> bool:
        (start, low), (end, high) = piece.first, piece.last
        share = (number - low) / (high - low) if math.isfinite(high - low) and high != low else 0.5
        guess = start + int(share * (end - start))
        ends = max(start, guess - NEAR), min(end, guess + NEAR)
        if not self._is_between(piece, *ends, number):
            rises = high >= low
            while end - start > 2 * NEAR:
                middle = (start + end) // 2
                value = self.source.at(piece.high, middle, piece.low)
                if value is None:
                    return False
                start, end = (middle, end) if (value < number) == rises else (start, middle)
            ends = max(piece.first[0], start - NEAR), min(piece.last[0], end + NEAR)
        return any(self.source.at(piece.high, place, piece.low) == number for place in range(ends[0], ends[1] + 1))

    def _is_between(self, piece: _Piece, start: int, end: int, number: float) -> bool:
        values = [self.source.at(piece.high, place, piece.low) for place in (start, end)]
        found = [value for value in values if value is not None]
        return len(found) == 2 and min(found) <= number <= max(found)


@dataclass(frozen=True, slots=True)
class _Told:
    """The mechanism, of whose output only that is told which of the two datasets it is within reach of (a class, so
    that it travels to other processes)."""

    mechanism: Noisy
    left: Reach
    right: Reach

    @property
    def kind(self) -> str:
        return name_of(self.mechanism)

    @property
    def __wrapped__(self) -> Noisy:
        return self.mechanism

    def __call__(self, data: object, rng: np.random.Generator) -> object:
        output = self.mechanism(data, rng)
        return self.answer(output) if isinstance(output, float) and math.isfinite(output) else "no finite number"

    def answer(self, number: float) -> Answer:
        match self.left.holds(number), self.right.holds(number):
            case True, True:
                return "within reach of both"
            case True, False:
                return "of left alone"
            case False, True:
                return "of right alone"
            case _:
                return "of neither"


def audit_doubles(
    mechanism: Noisy,
    left: object,
    right: object,
    claim: Guarantee,
    *,
    trials: int = 1_000,
    confidence: Number = "0.95",
    delta: Number | None = None,
    relation: Relation | str = Relation.ADD_REMOVE,
    unit: Unit | str = "record",
    stop_at_violation: bool = True,
    seed: int | None = None,
    jobs: int = 1,
    progress: bool = True,
) -> AuditResult:
    """Audit which doubles `mechanism` reaches: of each output, whether any word of randomness gives exactly that double
    on the left data, and on the right.

    `mechanism`: a function f(data, rng) that gives one float, draws its noise from `rng`, a generator of numpy, and
    does not alter its data. Most noise of numpy takes one word of 64 bits for most draws; what takes more is "of
    neither". All else is as in `audit_mechanism`, whose result it gives.
    ParameterError where one word is never enough, on either side, since then nothing can be searched.

    Claim: that of `audit_mechanism`: the answer is a function of the output, whatever the search finds.
        Source: docs/proofs/audit.md 6. Assumes: `left` and `right` are neighbours; runs are independent.

    >>> def noisy(value, rng):  # as a number it keeps epsilon 1; its last bits give the value away
    ...     return value + rng.laplace()
    >>> found = dpl.analytic.audit_doubles(noisy, 0.0, 1.0, dpl.PureDP(1), seed=1, progress=False)
    >>> found.verdict, found.trials < 50
    ('violation', True)
    """
    require_unguarded(mechanism)
    if not callable(mechanism):
        raise ParameterError("mechanism", type(mechanism).__name__, "a function f(data, rng) that gives one float")
    Settings.read(trials=trials, confidence=confidence, delta=delta, seed=seed, jobs=jobs)
    claim_of(claim)
    told = _Told(mechanism, Reach.of(mechanism, left), Reach.of(mechanism, right))
    if not (told.left.pieces and told.right.pieces):
        wanted = "a function f(data, rng) that gives one float, from one number that it draws from rng"
        raise ParameterError("mechanism", "one word of randomness is never all that it takes", wanted)
    return audit_mechanism(
        told,
        left,
        right,
        claim,
        trials=trials,
        confidence=confidence,
        delta=delta,
        relation=relation,
        unit=unit,
        stop_at_violation=stop_at_violation,
        seed=seed,
        jobs=jobs,
        progress=progress,
    )
