"""Populations on which a learner's contract is tried.

A population is finitely many examples with whole weights, so that every error is an exact fraction.

>>> from dpledger.mechanisms.learning.theory.concepts import ThresholdClass
>>> halves = Population("halves", ((0, 1), (1, 0)), (1, 1))
>>> halves.least_error(ThresholdClass(2)), noisy(halves, "0.25").least_error(ThresholdClass(2))
(Fraction(0, 1), Fraction(1, 4))
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import assert_never

import numpy as np

from dpledger.decimals import Number, read
from dpledger.errors import ParameterError
from dpledger.mechanisms.learning.baselines import parity_learner
from dpledger.mechanisms.learning.hypotheses import Hypothesis
from dpledger.mechanisms.learning.samples import LabeledSample, UserSample
from dpledger.mechanisms.learning.theory.concepts import (
    MOST_POINTS,
    ConceptClass,
    FiniteClass,
    ParityClass,
    PointClass,
    ThresholdClass,
    class_from,
)
from dpledger.mechanisms.learning.theory.vc import vc_dim
from dpledger.mechanisms.numeric.one_shot import ShortText
from dpledger.mechanisms.plan import open_unit
from dpledger.number_fields import Whole
from dpledger.schema import record

__all__ = ["Population", "hard_populations", "noisy"]

MOST_WEIGHT = 10**7
FINEST = 10**4  # the denominator of a mass


@record
class Population:
    """Examples (point, label), each with a whole weight: one is drawn with probability weight / total. The weights add
    up to at most 10^7.

    >>> halves = dpl.learning.Population("halves", ((0, 1), (1, 0)), (1, 1))
    >>> halves.least_error(dpl.learning.ThresholdClass(2))
    Fraction(0, 1)
    """

    name: ShortText
    examples: tuple[tuple[Whole, Whole], ...]
    weights: tuple[Whole, ...]

    def __post_init__(self) -> None:
        if len(self.examples) != len(self.weights) or any(weight < 0 for weight in self.weights):
            raise ParameterError("weights", f"{len(self.weights)} weights", "a weight of at least 0 for each example")
        if not 0 < sum(self.weights) <= MOST_WEIGHT:
            raise ParameterError("weights", sum(self.weights), f"a sum from 1 to {MOST_WEIGHT}")
        if any(label not in (0, 1) or not 0 <= point < 2**64 for point, label in self.examples):
            raise ParameterError("examples", "another example", "points from 0 to 2^64 - 1, labels 0 and 1")

    @property
    def whole(self) -> LabeledSample:
        """Every example as often as it weighs."""
        return self.repeated(self.weights)

    def repeated(self, counts: tuple[int, ...]) -> LabeledSample:
        """A sample with so many of each example."""
        points = np.array([x for x, _ in self.examples], dtype=np.uint64)
        labels = np.array([y for _, y in self.examples], dtype=np.uint8)
        return LabeledSample(np.repeat(points, counts), np.repeat(labels, counts))

    def drawn(self, size: int, rng: np.random.Generator) -> LabeledSample:
        """`size` independent examples. Their order says nothing, so they are sorted."""
        chances = np.array(self.weights, dtype=np.float64) / sum(self.weights)
        return self.repeated(tuple(rng.multinomial(size, chances).tolist()))

    def users(self, size: int, examples: int, rng: np.random.Generator) -> UserSample:
        """`size` users with so many independent examples each."""
        chances = np.array(self.weights, dtype=np.float64) / sum(self.weights)
        drawn = rng.choice(len(self.examples), size=(size, examples), p=chances)
        points, labels = zip(*self.examples, strict=True)
        return UserSample(np.array(points, dtype=np.uint64)[drawn], np.array(labels, dtype=np.uint8)[drawn])

    def error(self, hypothesis: Hypothesis) -> Fraction:
        """The probability of a mistake, exactly."""
        said = hypothesis.predict([x for x, _ in self.examples]).tolist()
        mistakes = [w for (_, y), w, label in zip(self.examples, self.weights, said, strict=True) if label != y]
        return Fraction(sum(mistakes), sum(self.weights))

    def least_error(self, concepts: ConceptClass) -> Fraction:
        """That of the best concept of the class, exactly. WorkLimit where none of many parities fits."""
        if isinstance(concepts, ParityClass) and self._fits_parity(concepts):
            return Fraction(0)
        counted = concepts.errors(self.whole)
        standing = counted.errors[np.asarray(counted.counts > 0, dtype=bool)]
        return Fraction(int(standing.min()), sum(self.weights))

    def _fits_parity(self, concepts: ParityClass) -> bool:
        """Whether some parity labels every example that may be drawn."""
        heard = [one for one, weight in zip(self.examples, self.weights, strict=True) if weight]
        return parity_learner(concepts, LabeledSample([x for x, _ in heard], [y for _, y in heard])) is not None


def hard_populations(concepts: ConceptClass, alpha: Number) -> tuple[Population, ...]:
    """Populations that tell good learners of the class from others, labelled by concepts: uniform; all mass on one
    point; alpha, a little less and a little more on one critical point; 1 - 8 alpha on one point of a shattered set and
    the rest on the others (Anthony-Bartlett 1999, section 5.2).

    >>> [population.name for population in dpl.learning.hard_populations(dpl.learning.ThresholdClass(4), "0.2")][:2]
    ['uniform, target 0', 'all on 0, target 0']
    """
    if class_from(concepts, "concepts").points > MOST_POINTS:
        raise ParameterError("concepts", f"parities of {concepts.points.bit_length() - 1} bits", "at most 2^64 points")
    part = Fraction(open_unit(alpha, "alpha"))
    points, shattered = _points(concepts), _shattered(concepts)
    found = []
    for place in _targets(concepts, points):
        found += list(_labelled(concepts, place, points, shattered, part))
    return tuple(found)


def noisy(population: Population, rate: Number) -> Population:
    """The same population with that part of each example's weight on the other label."""
    part = Fraction(read(rate, field="rate"))
    if not 0 <= part <= 1:
        raise ParameterError("rate", rate, "a number in [0, 1]")
    kept = [w * (part.denominator - part.numerator) for w in population.weights]
    turned = [w * part.numerator for w in population.weights]
    others = tuple((x, 1 - y) for x, y in population.examples)
    return Population(f"{population.name}, noise {part}", (*population.examples, *others), (*kept, *turned))


def _labelled(
    concepts: ConceptClass, place: int, points: tuple[int, ...], shattered: tuple[int, ...], alpha: Fraction
) -> Iterator[Population]:
    """The populations of one target."""

    def population(name: str, weights: dict[int, int]) -> Population:
        labels = concepts.predict(place, list(weights)).tolist()
        shared = math.gcd(*weights.values())
        reduced = tuple(weight // shared for weight in weights.values())
        return Population(f"{name}, target {place}", tuple(zip(weights, labels, strict=True)), reduced)

    yield population("uniform", dict.fromkeys(points, 1))
    for critical in points:
        yield population(f"all on {critical}", {critical: 1})
        others = [x for x in points if x != critical]
        for factor in (Fraction(95, 100), Fraction(105, 100)) if others else ():
            mass = min((alpha * factor).limit_denominator(FINEST), Fraction(1))
            each = Fraction(mass.denominator * len(others))
            weights = dict.fromkeys(others, mass.denominator - mass.numerator)
            yield population(f"{mass} on {critical}", {critical: int(mass * each), **weights})
    spread = (8 * alpha).limit_denominator(FINEST)
    if len(shattered) > 1 and 0 < spread < 1:
        first, *rest = shattered
        heavy = (1 - spread) / spread * len(rest)  # in weights of the others
        yield population("shattered", {first: heavy.numerator, **dict.fromkeys(rest, heavy.denominator)})


def _points(concepts: ConceptClass) -> tuple[int, ...]:
    """Up to six points of the domain, its ends among them."""
    last = concepts.points - 1
    return tuple(sorted({last * step // 5 for step in range(6)}))


def _targets(concepts: ConceptClass, points: tuple[int, ...]) -> tuple[int, ...]:
    """Concepts that differ on those points."""
    match concepts:
        case PointClass():
            return points
        case ThresholdClass():
            below = (0, *(point + 1 for point in points))
            return (*below, *(concepts.points + 1 + u for u in below)) if concepts.both_ways else below
        case ParityClass():
            return tuple(sorted({0, *points}))
        case FiniteClass():
            return tuple(sorted({(concepts.size - 1) * step // 5 for step in range(6)}))
        case _:
            assert_never(concepts)


def _shattered(concepts: ConceptClass) -> tuple[int, ...]:
    """Points that the class shatters."""
    match concepts:
        case PointClass() | ThresholdClass():
            return ()
        case ParityClass():
            return tuple(1 << bit for bit in range(concepts.dimension))
        case FiniteClass():
            return vc_dim(concepts.matrix).witness
        case _:
            assert_never(concepts)
