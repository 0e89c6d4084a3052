"""The least value with which a plan would be admitted, as the least noise of a training, in the best of `ways`.

>>> from dpledger.accounting import filters
>>> from dpledger.accounting.composition import GaussianLaw
>>> from dpledger.accounting.guarantees import ApproxDP
>>> from dpledger.accounting.planning.ways import Level
>>> from dpledger.relations import Relation
>>> rule = filters.opened_by(ApproxDP(1, "1e-6"))
>>> empty = (Level(rule, Relation.ADD_REMOVE, filters.opening(rule)),)
>>> found = least(empty, GaussianLaw, within=(Decimal(1), Decimal(100)), digits=3)
>>> admits(empty, GaussianLaw(found.value), found.tail_delta)
True
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from decimal import Decimal
from typing import NamedTuple, TypeAlias

from dpledger.accounting import certified, filters
from dpledger.accounting.arithmetic import scalars
from dpledger.accounting.composition import Composition
from dpledger.accounting.filters import BasicFilter, EitherFilter
from dpledger.accounting.planning.calibration import ONE, excess_at, excess_of, least_within, next_below
from dpledger.accounting.planning.ways import (
    PARTS,
    Levels,
    admits,
    after,
    chosen_tail_delta,
    holds,
    pieces,
    searched,
    sixteenth,
    ways,
)
from dpledger.decimals import multiply, subtract
from dpledger.errors import CannotCertify

__all__ = ["Least", "Make", "least", "others"]

DIGITS_OF_OTHERS = 3
DIGITS_OF_A_GUESS = 3
BESIDE_A_GUESS = Decimal("1.01")

Make: TypeAlias = Callable[[Decimal], Composition]


class Least(NamedTuple):
    """The least value that is admitted, and the tail_delta to ask with."""

    value: Decimal
    tail_delta: Decimal


def least(levels: Levels, make: Make, *, within: tuple[Decimal, Decimal], digits: int) -> Least | None:
    """The least value, to so many digits, for which the levels admit `make(value)`, in the best of `ways`: the one that
    the scope would choose, where no other needs less; None where no value within is admitted in any.

    Claim: `admits(levels, make(result.value), result.tail_delta)`. Assumes, for least alone: a greater value never
    costs more; where a tail_delta needs no less than the next larger one, or is refused, smaller ones are no better."""
    best, is_past, refused = None, False, PARTS
    for way in sorted({sixteenth(levels), *pieces(levels), PARTS}, reverse=True):
        if is_past and way != PARTS:
            continue
        most, start = (within[1], ONE) if best is None else (next_below(best.value, digits),) * 2
        if most < within[0]:
            break
        if best is not None and way != PARTS and not admits(levels, make(best.value), way):
            is_past, refused = True, way
            continue
        value = _least_in(levels, make, way, (within[0], most), digits, start=start)
        is_past = best is not None and value is None
        best = best if value is None else Least(value, way)
        if value is not None and _is_whole(levels, way):
            return best
    if best is None:
        return None
    tree = make(best.value)
    if sixteenth(levels) <= refused and certified.has_profile_price(tree, levels[0].relation):
        return best
    own = chosen_tail_delta(levels, tree)  # where it needs no more, it keeps delta for others
    return best._replace(tail_delta=own) if admits(levels, tree, own) else best


def _excess(levels: Levels, tree: Composition, tail_delta: Decimal) -> float:
    """How much more than the levels admit it takes (`calibration.Excess`)."""
    try:
        charged = after(tuple(searched(level, tail_delta) for level in levels), tree, tail_delta)
    except CannotCertify:
        return math.inf
    share = max(filters.used(level.filter, level.sums) for level in charged)
    return excess_at(share, holds=all(map(holds, charged)))


def _is_whole(levels: Levels, tail_delta: Decimal) -> bool:
    """Whether it is all of a budget's delta, by the rule that each of the levels may fix with its first charge. Then
    the profile itself is asked for (epsilon, delta), and no other way needs less, but for the width of certified
    bounds: one that admits the tree proves no more than that of it."""
    return all(level.instead is not None and tail_delta > level.delta_left for level in levels)


def others(levels: Levels, make: Make, best: Least, *, most: Decimal) -> dict[Decimal, Decimal | None]:
    """What other ways than that of `least` would need, by their tail_delta, to three digits: the way that the scope
    would choose, all of delta that is left, the parts; None where no value up to `most` does."""
    tried = ways(levels, make(best.value))
    compared = (way for way in dict.fromkeys((*tried[:2], tried[-1])) if way != best.tail_delta)
    within = best.value, most
    return {way: _least_in(levels, make, way, within, DIGITS_OF_OTHERS, start=best.value) for way in compared}


def _least_in(
    levels: Levels, make: Make, way: Decimal, within: tuple[Decimal, Decimal], digits: int, *, start: Decimal
) -> Decimal | None:
    def excess(value: Decimal) -> float:
        return _excess(levels, make(value), way)

    guess, slope = _guess(levels, make, way, within, start) or (start, None)
    return least_within(excess, within=within, digits=digits, start=guess, slope=slope)


def _guess(
    levels: Levels, make: Make, way: Decimal, within: tuple[Decimal, Decimal], start: Decimal
) -> tuple[Decimal, float] | None:
    """About the least value, and the slope of the excess there, where the charged scope has an epsilon and an estimate
    of what is charged takes far less than its price; else None."""
    level = searched(levels[0], way)
    if not isinstance(level.filter, BasicFilter | EitherFilter):
        return None
    left = subtract(level.filter.epsilon, level.sums["pure"][0])

    @functools.cache
    def excess(value: Decimal) -> float:
        found = certified.rough_epsilon(make(value), level.relation, way)
        return math.inf if found is None else excess_of(Decimal.from_float(found), left)

    try:
        if left <= 0 or excess(start) == math.inf:
            return None
        found = least_within(excess, within=within, digits=DIGITS_OF_A_GUESS, start=start)
        if found is None:
            return None
        beside = multiply(found, BESIDE_A_GUESS)
        return found, (excess(beside) - excess(found)) / scalars.log(float(BESIDE_A_GUESS))
    except CannotCertify:
        return None
