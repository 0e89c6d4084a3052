"""What a mixture of Renyi orders (F6) comes to: one epsilon for all its accounts.

Each boundary j has an order 1 + l_j, a delta d_j and an account T_j; X is the sum of pure prices. With

    M(L) = sum_j d_j e^{l_j (L - T_j)},      the reading is the largest L + log(1 - M(L)) over 0 < L <= X, M(L) < 1,

at least 0. That is the least e at which sum_j d_j e^{l_j (e - T_j + y)} >= 1 - e^-y for every y in (0, X - e]: put
L = e + y. It is concave in L, and rises while h(L) = M(L) + M'(L) - 1 < 0, so that one root of a convex function that
rises is all there is to find.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal, localcontext
from typing import NamedTuple

from dpledger.accounting.arithmetic import outward
from dpledger.accounting.arithmetic.conversions import boundary_offset
from dpledger.accounting.filters.kinds import Boundary
from dpledger.decimals import INFINITY, ZERO, add, in_own_context, magnitude, own_context

__all__ = ["Share", "best_alone", "mixture_epsilon", "shares"]

ONE = Decimal(1)
HALF = Decimal("0.5")
DIGITS = 40  # of every number below, beyond those before the point
ROUNDING = Decimal("1e-28")  # above the rounding errors of a reading, relative to 1 + L: they stay below 1e-32
MISSED = Decimal("1e-28")  # of the maximum, relative to 1 + L: what a reading may leave to its last bound
NEAR = Decimal("1e-9")  # of h, where the search in few digits ends: one more step leaves the square of it
NEAR_DIGITS = 18  # what one word holds: ten times as fast as twice as many
MOST_STEPS = 200


class Share(NamedTuple):
    """A boundary as it is read: its order less one, and its part of a delta."""

    more: Decimal
    delta: Decimal

    def alone(self, total: Decimal) -> Decimal:
        """The epsilon of this account by itself."""
        return add(total, boundary_offset(self.more, self.delta))


class _Known(NamedTuple):
    """An account with a price."""

    more: Decimal
    delta: Decimal
    total: Decimal


@dataclass(frozen=True, slots=True)
class _At:
    """M and h at one L, and the slope of h."""

    mass: Decimal
    h: Decimal
    slope: Decimal


def mixture_epsilon(shared: Sequence[Share], totals: Sequence[Decimal], pure: Decimal) -> Decimal:
    """The reading of the accounts `totals` (one a boundary) and the sum `pure`, each infinite where it has no price.

    Claim: result is at least the number of the module's docstring, and above it by less than 1e-27 (1 + result).
    Source: docs/proofs/filters.md, "F6".
    """
    known = [_Known(*one, total) for one, total in zip(shared, totals, strict=True) if not total.is_infinite()]
    simple = best_alone(shared, totals, pure)
    if not known or not simple:
        return simple
    with localcontext(own_context(_digits(known, simple))):
        return min(simple, _largest(known, pure, min(one.more for one in known)))


def best_alone(shared: Sequence[Share], totals: Sequence[Decimal], pure: Decimal) -> Decimal:
    """The least of `pure` and what each account is by itself, at least 0: never below what the mixture comes to."""
    return max(ZERO, min(pure, *(one.alone(total) for one, total in zip(shared, totals, strict=True))))


@in_own_context
def _largest(known: Sequence[_Known], pure: Decimal, least: Decimal) -> Decimal:
    """The largest L + log(1 - M(L)), from above; infinite where Newton's method does not get there.

    From the right it falls towards the root of h. At a p near it concavity leaves at most |h(p)|/(1 - M(p)) a step. The
    slope of h is at least `least` (1 + h), which is above least / 2 between p and the root: at most 2 |h(p)|/least
    steps."""
    start = min(pure, *(one.total + _reach(one.more, one.delta) for one in known))
    level = min(pure, _near_root(known, start, least))
    here = _at(known, level)
    missed = ZERO
    if level < pure or here.h > 0:
        for _ in range(MOST_STEPS):
            missed = 2 * here.h**2 / (least * (1 - here.mass))
            if abs(here.h) < HALF and here.mass < 1 and missed <= MISSED * (1 + abs(level)):
                break
            level = min(pure, level - here.h / here.slope)
            here = _at(known, level)
        else:
            return INFINITY
    return max(ZERO, level + outward.ln(1 - here.mass) + missed + ROUNDING * (1 + abs(level)))


@functools.lru_cache(maxsize=1024)
def _reach(more: Decimal, delta: Decimal) -> Decimal:
    """By how much L is above the total of a boundary where its term of h is 1."""
    with localcontext(own_context(DIGITS)):
        return -outward.ln(delta * (1 + more)) / more


@in_own_context
def _near_root(known: Sequence[_Known], start: Decimal, least: Decimal) -> Decimal:
    """A level near the root of h, found in few digits, so that few levels are looked at in many; `start`, unless h is
    seen to fall to 0 from there."""
    level = start
    with localcontext(own_context(NEAR_DIGITS)):
        for step in range(MOST_STEPS):
            here = _at(known, level)
            if step == 0 and here.h < 0:
                break
            level -= here.h / here.slope
            if abs(here.h) <= NEAR * min(least, ONE):
                return level
    return start


@in_own_context
def _at(known: Sequence[_Known], level: Decimal) -> _At:
    masses = [one.delta * (one.more * (level - one.total)).exp() for one in known]
    both = [mass * (1 + one.more) for mass, one in zip(masses, known, strict=True)]
    slope = sum((mass * one.more for mass, one in zip(both, known, strict=True)), ZERO)
    return _At(sum(masses, ZERO), sum(both, ZERO) - 1, slope)


def _digits(known: Sequence[_Known], simple: Decimal) -> int:
    """As many as the exponents need before their point, and 1 - M > l/(1+l) behind it."""
    level = max(0, simple.adjusted(), *(magnitude(one.total).adjusted() for one in known))
    orders = [one.more.adjusted() for one in known]
    return DIGITS + level + max(0, *orders) + 2 * max(0, *(-order for order in orders))


def shares(boundaries: Sequence[Boundary], delta: Decimal) -> tuple[Share, ...]:
    """`delta` (above 0) shared out as the boundaries share theirs, each part rounded down."""
    whole = add(*(one.delta_boundary for one in boundaries))
    if delta == whole:
        return tuple(Share(one.order_minus_one, one.delta_boundary) for one in boundaries)
    with localcontext(own_context(DIGITS, ROUND_FLOOR)):
        return tuple(Share(one.order_minus_one, one.delta_boundary * delta / whole) for one in boundaries)
