"""What a parity learned from a random part of the examples loses, run once or again and again.

One run says FAIL with probability `fail` whatever the data are; otherwise it keeps each example with probability `rate`
and releases a uniform one of the parities that fit those kept, or FAIL where none does. The bounds of one run are
attained by samples of a single example. Proofs: docs/proofs/learning_parity.md.

>>> half = Decimal("0.5")
>>> one_run(Decimal("0.25"), half, Relation.REPLACE_ONE), one_run(Decimal("0.25"), half, Relation.ADD_REMOVE)
(Decimal('0.510825623767'), Decimal('0.287682072453'))
>>> until_success(Decimal("0.25"), half, Relation.REPLACE_ONE)
Decimal('0.798507696219')
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from typing import assert_never

from dpledger.accounting.arithmetic import outward
from dpledger.decimals import in_own_context, multiply, negative, round_down, subtract
from dpledger.errors import ParameterError
from dpledger.relations import Relation

__all__ = [
    "capped_delta",
    "first_of_runs",
    "greatest_rate",
    "one_run",
    "until_success",
]

ONE = Decimal(1)
HALVINGS = 48  # of an interval whose ends differ by a factor of two: 14 digits


@dataclass(frozen=True, slots=True)
class _Losses:
    """Logarithms of how far one example moves what a run shows: `solution`, the probability of one parity; `gained`,
    how far that may rise while FAIL gets likelier too; `fewer`, that of no FAIL; `failed`, that of FAIL."""

    solution: Decimal
    gained: Decimal
    fewer: Decimal
    failed: Decimal


def one_run(rate: Decimal, fail: Decimal, relation: Relation) -> Decimal:
    """The epsilon of one run, from above.

    Claim: one run is (result)-DP and, but for the rounding, no less. replace_one, label_flip:
    max(log((1+p)/(1-p)), log(1-p+p/phi)); add_remove, zero_out (a null example fits every parity):
    max(-log(1-p), log(1-p+p/phi)).
    Source: docs/proofs/learning_parity.md, section 1; Kasiviswanathan et al. 2011, section 4, for the mechanism.
    """
    with localcontext(_context(rate, fail)):
        losses = _losses(rate, fail, relation)
        return outward.above(max(losses.solution, losses.failed))


def first_of_runs(rate: Decimal, fail: Decimal, runs: int, relation: Relation) -> Decimal:
    """The epsilon of the first parity that so many runs find, without saying which run found it; FAIL if none does.

    Claim: that release is (result)-DP. Source: docs/proofs/learning_parity.md, section 2.
    """
    with localcontext(_context(rate, fail)):
        losses = _losses(rate, fail, relation)
        again = min((runs - 1) * losses.failed, losses.fewer)
        return outward.above(max(runs * losses.failed, losses.solution, losses.gained + again))


def until_success(rate: Decimal, fail: Decimal, relation: Relation) -> Decimal:
    """The epsilon of runs that go on until one finds a parity, or until a coin that is tossed after each FAIL stops
    them; whatever the coin's probability is.

    Claim: that release is (result)-DP. Source: docs/proofs/learning_parity.md, section 3; Liu-Talwar 2019.
    """
    with localcontext(_context(rate, fail)):
        losses = _losses(rate, fail, relation)
        return outward.above(max(losses.failed, losses.gained) + losses.fewer)


def capped_delta(epsilon: Decimal, stop: Decimal, runs: int) -> Decimal:
    """The delta of an `until_success` of this epsilon that says FAIL after so many runs at the latest, from above; may
    be 1 or more.

    Claim: it is (epsilon, result)-DP, result = e^epsilon (1 - stop)^runs.
    Source: docs/proofs/learning_parity.md, section 4.
    """
    with localcontext(outward.context(epsilon, stop, subtract(ONE, stop))):
        return outward.above(outward.exp(epsilon + runs * outward.ln1p(-stop)))


def greatest_rate(epsilon: Decimal, priced: Callable[[Decimal], Decimal]) -> Decimal:
    """The greatest rate, to a dozen digits, whose price is at most `epsilon`. `priced` rises with the rate.

    Claim: priced(result) <= epsilon, and 0 < result < 1. ParameterError where no rate that can be written is so small.
    """
    high = min(epsilon, ONE)
    while not (rate := round_down(multiply(high, Decimal("0.5")))) or priced(rate) > epsilon:
        if not rate:
            raise ParameterError("epsilon", epsilon, "an epsilon from which follows a rate of at least 10^-60")
        high = rate
    low = rate
    with localcontext(outward.context(high)):
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if priced(middle) <= epsilon else (low, middle)
    return round_down(low)


@in_own_context
def _losses(rate: Decimal, fail: Decimal, relation: Relation) -> _Losses:
    """Of one run, in the context that is current."""
    gained, fewer = outward.ln1p(rate), negative(outward.ln1p(-rate))
    failed = outward.ln1p(rate * (1 - fail) / fail)
    if _exchanges(relation):
        return _Losses(solution=gained + fewer, gained=gained + fewer, fewer=fewer, failed=failed)
    return _Losses(solution=fewer, gained=gained, fewer=fewer, failed=failed)


def _exchanges(relation: Relation) -> bool:
    """Whether a neighbour has another equation in place of one, and not one more or less."""
    match relation:
        case Relation.REPLACE_ONE | Relation.LABEL_FLIP:
            return True
        case Relation.ADD_REMOVE | Relation.ZERO_OUT:
            return False
        case _:
            assert_never(relation)


def _context(rate: Decimal, fail: Decimal) -> Context:
    return outward.context(rate, fail, subtract(ONE, rate), subtract(ONE, fail))
