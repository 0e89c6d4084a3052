"""What a pair of distributions costs, outcome by outcome."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

from dpledger.accounting.arithmetic import outward
from dpledger.decimals import ZERO, in_own_context, round_up, subtract, total

__all__ = ["pmf_epsilon", "pmf_failure", "pmf_rdp"]

ONE = Decimal(1)


WIDE_DIGITS = 40  # kept of a ratio of masses
Masses: TypeAlias = tuple[Decimal, ...]


def pmf_failure(left: Masses, right: Masses) -> Decimal:
    """The larger of the masses that only one side has."""
    only_left = total(p for p, q in zip(left, right, strict=True) if not q)
    only_right = total(q for p, q in zip(left, right, strict=True) if not p)
    return max(only_left, only_right)


@lru_cache(maxsize=256)
def pmf_epsilon(left: Masses, right: Masses) -> Decimal:
    """The largest finite |log left/right|, rounded up.

    Claim: P(S) <= e^result Q(S) + pmf_failure, and the same turned round, for every event S. Source: Dwork-Roth 2014,
    section 2.3 (the sum over outcomes).
    """
    ratios = [Fraction(p) / Fraction(q) for p, q in zip(left, right, strict=True) if p and q]
    largest = max((max(ratio, 1 / ratio) for ratio in ratios), default=Fraction(1))
    if largest == 1:
        return ZERO
    with localcontext(outward.context(Decimal("1e-60"))):
        above_one = round_up(largest - 1, digits=WIDE_DIGITS)
        return outward.above(outward.ln1p(above_one))


@lru_cache(maxsize=1024)
def pmf_rdp(left: Masses, right: Masses, order: Decimal) -> Decimal:
    """The larger of the two Renyi divergences of this order, for a pair without mass on one side only.

    Claim: at least D(left || right) and D(right || left). Source: Mironov 2017, Definition 3.
    """
    more = subtract(order, ONE)
    with localcontext(outward.context(Decimal("1e-60"), more)):
        losses = [(outward.ln(p / q), p, q) for p, q in zip(left, right, strict=True) if p]
        forward = _log_moment([(outward.ln(p) + more * loss) for loss, p, _ in losses])
        back = _log_moment([(outward.ln(q) - more * loss) for loss, _, q in losses])
        exact = max(forward, back, ZERO) / more
    return min(outward.above(exact), pmf_epsilon(left, right))


@in_own_context
def _log_moment(logs: list[Decimal]) -> Decimal:
    """log sum e^x, the largest term taken out: the terms themselves may be beyond every decimal."""
    largest = max(logs)
    return largest + outward.ln(sum((outward.exp(x - largest) for x in logs), ZERO))
