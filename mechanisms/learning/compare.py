"""What privacy costs a learner of a class, as a table of sample sizes.

>>> from dpledger.mechanisms.learning.theory.concepts import ThresholdClass
>>> for row in compare_private_nonprivate(ThresholdClass(1023), "0.1", "0.05", 1):
...     print(row.learner, row.needed, row.status)
without privacy 29 proved
exponential mechanism 248 proved
exponential mechanism, monotone 153 proved
lower bound, pure DP 100 order
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import assert_never

from dpledger.decimals import Number, read
from dpledger.errors import InfeasiblePlan, ParameterError
from dpledger.mechanisms.learning.recommended import Asked, plan
from dpledger.mechanisms.learning.theory.concepts import (
    ConceptClass,
    FiniteClass,
    ParityClass,
    PointClass,
    ThresholdClass,
    class_from,
)
from dpledger.mechanisms.learning.theory.needed_units import natural_log
from dpledger.mechanisms.plan import Status, open_unit
from dpledger.relations import Relation
from dpledger.schema import flag

__all__ = ["Compared", "compare_private_nonprivate"]


@dataclass(frozen=True, slots=True)
class Compared:
    """One learner and how many records it needs; `order`: constants left out, for comparison only."""

    learner: str
    needed: int
    status: Status
    note: str


def compare_private_nonprivate(
    concepts: ConceptClass,
    alpha: Number,
    beta: Number,
    epsilon: Number,
    *,
    agnostic: bool = False,
    delta: Number | None = None,
) -> tuple[Compared, ...]:
    """Records needed without privacy, by the exponential mechanism (monotone: under add_remove), by learners that know
    the class, and of which order it must or may be otherwise. Realizable, or `agnostic`. With `delta` also the order
    for points at (epsilon, delta)-DP.

    Source: `sizes`; Beimel-Brenner-Kasiviswanathan-Nissim 2014 (points); Feldman-Xiao 2014 (thresholds);
    Kasiviswanathan et al. 2011 (parities).

    >>> rows = dpl.planning.compare_private_nonprivate(dpl.learning.ThresholdClass(1023), "0.1", "0.05", 1)
    >>> [(row.learner, row.needed) for row in rows[:2]]
    [('without privacy', 29), ('exponential mechanism', 248)]
    """
    loss, anything = read(epsilon, field="epsilon"), flag(agnostic, field="agnostic")
    class_from(concepts, "concepts")
    if not loss > 0:
        raise ParameterError("epsilon", epsilon, "a number above 0")
    target, risk = open_unit(alpha, "alpha"), open_unit(beta, "beta")
    free = plan(concepts, target, risk, agnostic=anything)
    rows = [Compared("without privacy", free.needed, "proved", "fewest errors" if anything else _fitted_by(concepts))]
    for name, relation, where in (
        ("exponential mechanism", Relation.REPLACE_ONE, "any relation"),
        ("exponential mechanism, monotone", Relation.ADD_REMOVE, "add_remove or zero_out"),
    ):
        found = plan(concepts, target, risk, epsilon=loss, relation=relation, agnostic=anything)
        rows.append(Compared(name, found.needed, "proved", f"{where}; {found.binding} binds"))
    miss = None if delta is None else open_unit(delta, "delta")
    asked = Asked(concepts, 1, target, risk, loss, Relation.REPLACE_ONE, realizable=not anything)
    return (*rows, *_structured(asked), *_orders(concepts, target, loss, miss))


def _structured(asked: Asked) -> Iterator[Compared]:
    """The learners that know the class, where some number is enough."""
    for learner, planned in asked.structured():
        with suppress(InfeasiblePlan):
            found = planned()
            yield Compared(learner, found.needed, found.status, f"replace_one; {found.binding} binds")


def _fitted_by(concepts: ConceptClass) -> str:
    """By which concept, without privacy, where one fits."""
    match concepts:
        case PointClass() | ThresholdClass(both_ways=False):
            return "whatever the domain"
        case ParityClass() | FiniteClass() | ThresholdClass():
            return "any consistent one"
        case _:
            assert_never(concepts)


def _orders(concepts: ConceptClass, alpha: Decimal, epsilon: Decimal, delta: Decimal | None) -> tuple[Compared, ...]:
    """What is known up to constants, with d the bits of a point."""
    d = max(1, (concepts.points - 1).bit_length())
    rate = Fraction(alpha) * Fraction(epsilon)
    grows, constant = math.ceil(d / rate), math.ceil(1 / rate)
    match concepts:
        case PointClass():
            pure = (
                Compared("proper, pure DP", grows, "order", "d/(alpha epsilon): grows with the domain"),
                Compared("improper, pure DP", constant, "order", "1/(alpha epsilon), by a representation"),
            )
            if delta is None:
                return pure
            stable = math.ceil(Fraction(natural_log(1 / Fraction(delta))) / rate)
            return (*pure, Compared("proper, approximate DP", stable, "order", "log(1/delta)/(alpha epsilon)"))
        case ThresholdClass():
            return (Compared("lower bound, pure DP", grows, "order", "d/(alpha epsilon), improper ones too"),)
        case ParityClass():
            return (Compared("pure DP, efficient", grows, "order", "d/(alpha epsilon), by elimination"),)
        case FiniteClass():
            return ()
        case _:
            assert_never(concepts)
