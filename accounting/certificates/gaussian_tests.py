"""Tests of distances by Gaussian noise, each for itself: no threshold is drawn, none is charged more than another.

A value at distance d is released if d + N(0, sigma^2), on the integers, is above the threshold; there are `max_queries`
tests whatever they answer. Source: docs/proofs/stability.md, section 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

from dpledger.accounting.arithmetic import outward
from dpledger.accounting.composition import DiscreteGaussianLaw, Repeated, Sequence
from dpledger.accounting.guarantees import ApproxDP, PrivacyCurve
from dpledger.accounting.planning.calibration import LEAST, MOST, least_that, meets
from dpledger.decimals import ZERO, in_own_context, multiply, round_down
from dpledger.errors import InfeasiblePlan, ParameterError
from dpledger.relations import Relation

__all__ = ["GaussianTestsLaw", "gaussian_distance", "gaussian_tests", "gaussian_tests_parts", "release_chance"]

HALF = Decimal("0.5")
DIGITS = 6  # of sigma
MOST_STEPS = 2**53 - 1  # a threshold is below it
_UNITS = 2**300  # in 1: a chance is rounded down to one of so many
LEAST_TAIL = Decimal("1e-60")  # of a probability that can be written


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianTestsLaw:
    """`delta_each`: the chance that a test releases a value at distance 0."""

    sigma: Decimal
    threshold: int
    max_queries: int
    delta_each: Decimal

    @property
    def delta_stability(self) -> Decimal:
        """The same of all tests together, from above."""
        return multiply(self.delta_each, self.max_queries)


@lru_cache(maxsize=64)
def gaussian_tests(
    epsilon: Decimal, delta: Decimal, max_queries: int, *, delta_split: Decimal = HALF
) -> GaussianTestsLaw:
    """The tests with the least noise, and then the least threshold, that keep (epsilon, delta); `delta_split` of delta
    is for composing them.

    Claim: `gaussian_tests_parts` of the result are (epsilon, delta)-DP under every relation. Source: the engine, and
    docs/proofs/stability.md, section 4. InfeasiblePlan where no noise or no threshold does that can be written.
    """
    if not 0 < delta < HALF:
        raise ParameterError("delta", delta, "a number in (0, 0.5): values are released with some probability")
    if not 0 < delta_split < 1:
        raise ParameterError("delta_split", delta_split, "a number in (0, 1)")
    composed = round_down(multiply(delta, delta_split))
    target = ApproxDP(epsilon, composed)

    def enough(sigma: Decimal) -> bool:
        return meets(Repeated(DiscreteGaussianLaw(sigma, 1), max_queries), target, relation=Relation.ADD_REMOVE)

    sigma = least_that(enough, within=(LEAST, MOST), digits=DIGITS) if composed else None
    if sigma is None:
        raise InfeasiblePlan(f"no Gaussian noise keeps epsilon {epsilon} and delta {composed} for {max_queries} tests")
    threshold = _threshold(sigma, max_queries, round_down(Fraction(delta) - Fraction(composed)))
    law = GaussianTestsLaw(
        sigma=sigma, threshold=threshold, max_queries=max_queries, delta_each=_each(sigma, threshold)
    )
    if not meets(gaussian_tests_parts(law), ApproxDP(epsilon, delta), relation=Relation.ADD_REMOVE):
        raise InfeasiblePlan(f"epsilon {epsilon} and delta {delta} leave no room for what the tests cost together")
    return law


def gaussian_tests_parts(law: GaussianTestsLaw) -> Repeated:
    """What the tests are made of, each a step of its own.

    Claim: the run is dominated by it, test by test. Source: docs/proofs/stability.md, section 4: which says, too, why
    the second part of a test is stated as a curve, of which no group is known."""
    test = Sequence((DiscreteGaussianLaw(law.sigma, 1), PrivacyCurve((ZERO,), (law.delta_each,))))
    return Repeated(test, law.max_queries)


def gaussian_distance(law: GaussianTestsLaw, beta: Decimal) -> int:
    """The distance from which on every value is released, for all tests at once, with probability at least 1 - beta.

    Claim: P(noise <= threshold - result) <= beta / max_queries. Source: docs/proofs/stability.md, section 4."""
    if not 0 < beta < 1:
        raise ParameterError("beta", beta, "a number in (0, 1)")
    with localcontext(outward.context(law.sigma)):
        each = beta / law.max_queries
        return law.threshold + 1 + (_reach(law.sigma, each) if each < HALF else 0)


def release_chance(law: GaussianTestsLaw, distance: int) -> Fraction:
    """The probability with which a test releases a value at this distance.

    Claim: within 10^-80 of it; 1 from where that is so near. Source: docs/proofs/groups.md, section 1."""
    tails = _tails(law.sigma)
    beyond = law.threshold - distance
    if beyond >= 0:
        return tails[beyond] if beyond < len(tails) else Fraction(0)
    return 1 - (tails[-beyond - 1] if -beyond <= len(tails) else Fraction(0))


@lru_cache(maxsize=16)
@in_own_context
def _tails(sigma: Decimal) -> tuple[Fraction, ...]:
    """The chance that noise on the integers is above 0, 1, 2, ..., up to where it is below 10^-90."""
    with localcontext(outward.context(sigma, digits=120)):
        square = sigma * sigma
        ratio, shrinks = (-1 / (2 * square)).exp(), (-1 / square).exp()
        masses = [Decimal(1)]
        for _ in range(int(21 * sigma) + 2):  # e^(-21^2 / 2) < 10^-95
            masses.append(masses[-1] * ratio)
            ratio *= shrinks
        sums = list(accumulate(reversed(masses)))[::-1]
        whole = 2 * sums[0] - 1
        return tuple(Fraction(int(one / whole * _UNITS), _UNITS) for one in sums[1:])


def _threshold(sigma: Decimal, tests: int, stability: Decimal) -> int:
    """The least threshold at which so many tests together fail at most with the chance `stability`."""
    with localcontext(outward.context(stability)):
        high = _reach(sigma, min(stability / tests, HALF))
    while multiply(_each(sigma, high), tests) > stability:
        high += 1
    while high > 1 and multiply(_each(sigma, high - 1), tests) <= stability:
        high -= 1
    if high > MOST_STEPS:
        raise InfeasiblePlan(f"a delta of {stability} for {tests} values needs a threshold of 2^53 or more")
    return high


@in_own_context
def _reach(sigma: Decimal, tail: Decimal) -> int:
    """Steps whose normal tail is at most this."""
    return int((sigma * outward.tail_quantile(-outward.ln(tail))).to_integral_value(rounding=ROUND_CEILING))


@lru_cache(maxsize=1024)
def _each(sigma: Decimal, threshold: int) -> Decimal:
    """The chance that noise on the integers is above the threshold, from above.

    Source: Canonne-Kamath-Steinke 2020, Proposition 25: it is at most the normal tail at the threshold."""
    with localcontext(outward.context(sigma, digits=120)):
        tail = max(outward.normal_tail(threshold / sigma)[1], LEAST_TAIL)
    return outward.above(tail)
