"""How many users a middle of an interval needs, and by how much the mass on its sides is sure to fall.

>>> [str(bound) for bound in shrinking("0.4")]
['1', '0.75', '0.5625', '0.421875']
>>> median_size(2**20, "0.5", 1, "0.1", m=25).needed
1379
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction

from dpledger.accounting.arithmetic import outward
from dpledger.decimals import Number, read, round_up, text, whole
from dpledger.errors import InfeasiblePlan, ParameterError
from dpledger.mechanisms.learning.theory.concepts import MOST_POINTS
from dpledger.mechanisms.learning.theory.needed_units import SampleSize, ceiling, largest_of, users_of_examples
from dpledger.mechanisms.learning.theory.users.gap import BinomialGap
from dpledger.mechanisms.plan import above_0, open_unit

__all__ = ["LEAST_MASS", "mass_gap", "median_size", "shrinking"]

HALF, THREE_QUARTERS = Fraction(1, 2), Fraction(3, 4)
LEAST_MASS = Decimal("1e-58")  # of which half and three quarters are two numbers of 60 digits


def mass_gap(examples: int, mass: Number) -> BinomialGap:
    """How well a user's points tell a side of half the mass from one of three quarters. The level: with more points
    than so many on a side a user counts there.

    Source: Li-Wang-Ye 2024, lemma 5.1."""
    most = Fraction(_mass(mass))
    return BinomialGap(examples, round_up(most * HALF), round_up(most * THREE_QUARTERS))


def shrinking(target: Number) -> tuple[Decimal, ...]:
    """The bounds of the mass before each round, until three quarters of the last are at most `target`.

    Claim: each is at least three quarters of the one before, and depends on `target` alone."""
    goal = open_unit(target, "target")
    if goal < LEAST_MASS:
        raise ParameterError("target", goal, f"a number in (0, 1), at least {LEAST_MASS}")
    return tuple(_bounds(goal))


def _bounds(goal: Decimal) -> Iterator[Decimal]:
    bound = Decimal(1)
    while bound > goal:
        yield bound
        bound = round_up(Fraction(bound) * THREE_QUARTERS)


def median_size(points: int, exponent: Number, mass: Number, beta: Number, *, m: int) -> SampleSize:
    """Users of m examples each, of whom the sides of an interval of at most that mass are weighed, e^-exponent a user.

    Claim: but for beta both sides have at most three quarters of `mass`, for all intervals at once: (2/(lambda D))
    ln(2(N+1)/beta) and (32 g/D^2) ln(2(N+1)^2/beta) users, D the gap and g the chance of the heavier side.
    Source: docs/proofs/learning_median.md, "Halving"; Li-Wang-Ye 2024, lemma 5.1."""
    size, rate = whole(points, field="points", least=1, most=MOST_POINTS), above_0(exponent, "exponent")
    risk, gap = open_unit(beta, "beta"), mass_gap(m, mass)
    apart, heavy = gap.lower, gap.chance(gap.high)[1]
    if not apart:
        raise InfeasiblePlan(f"a mass of {text(gap.low)} is not told from one of {text(gap.high)}")
    with localcontext(outward.context(rate, risk, apart)):
        chosen = ceiling(2 * outward.ln(2 * (size + 1) / risk) / (rate * apart))
        sampled = ceiling(32 * heavy * outward.ln(2 * (size + 1) ** 2 / risk) / (apart * apart))
    terms = (("sampling", sampled), ("selection", chosen))
    return largest_of(
        terms,
        status="proved",
        target=f"at most {text(gap.high)} of mass on either side, but with probability {text(risk)}",
        bound="user-level median",
        units=users_of_examples(m),
    )


def _mass(mass: Number) -> Decimal:
    most = read(mass, field="mass")
    if not LEAST_MASS <= most <= 1:
        raise ParameterError("mass", mass, f"a number in (0, 1], at least {LEAST_MASS}")
    return most
