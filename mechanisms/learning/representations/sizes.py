"""How many records are enough for those who choose among the hypotheses of a representation."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Protocol

from dpledger.accounting.arithmetic import outward
from dpledger.decimals import Number, multiply, read, round_down
from dpledger.errors import InfeasiblePlan
from dpledger.mechanisms.learning.theory.concepts import ConceptClass
from dpledger.mechanisms.learning.theory.needed_units import (
    SampleSize,
    ceiling,
    largest_of,
    natural_log,
    pairs_uc,
    uc_one,
)
from dpledger.mechanisms.plan import open_unit

__all__ = ["BoostedSize", "NearAll", "boosted_size", "realizable_size", "surrogate_size"]


class NearAll(Protocol):
    """Hypotheses, one of which is within `a` of any concept but with probability `b`."""

    @property
    def a(self) -> Decimal: ...

    @property
    def b(self) -> Decimal: ...

    @property
    def log_size(self) -> Decimal: ...


GAMMA = Decimal("0.25")
DIFFERENCES = Decimal("0.1")  # of alpha: what pairs may deviate by beyond the factor 1 + gamma
SHARES = {"best": Decimal("0.6"), "empirical": Decimal("0.2"), "near": Decimal("0.1"), "choice": Decimal("0.1")}
"""Of the rest of alpha: the deviation of all concepts, of the best one, twice the distance of the representation, and
what the choice may lose."""


def realizable_size(representation: NearAll, exponent: Decimal, alpha: Number, beta: Number) -> SampleSize:
    """Errors as scores, on data that a concept fits.

    Claim: ln(2|H|/beta)/r, r = alpha (1 - e^-l) - a (e^l - 1), l = min(exponent, ln(alpha/a)/2), where b is at most
    beta/2. Source: docs/proofs/learning_representations.md, section 2. InfeasiblePlan where b is larger."""
    target, risk = open_unit(alpha, "alpha"), open_unit(beta, "beta")
    near = representation.a
    _require(representation, near < target, target, risk, 2)
    _require_exponent(exponent)
    with localcontext(outward.context(target, risk, near, exponent)):
        least = min(exponent, outward.ln(target / near) / 2)
        gained = target * -outward.expm1(-least) - near * outward.expm1(least)
        needed = ceiling((representation.log_size + outward.ln(2 / risk)) / gained)
    return largest_of(
        (("choice", needed),),
        status="proved",
        target=f"an error of at most {target} where a concept fits, but with probability {risk}",
        bound="representation, realizable",
        inside=(("distance of the representation", near), ("but with probability", representation.b)),
    )


def surrogate_size(
    concepts: ConceptClass, representation: NearAll, exponent: Decimal, alpha: Number, beta: Number
) -> SampleSize:
    """Surrogates as scores, on any data.

    Claim: six events fail with probability at most beta/6 each, and (1 + gamma)(a1 + a1' + 2 a2 + a3) + b5 <= alpha.
    Source: docs/proofs/learning_representations.md, section 4; Li-Wang-Ye 2024, theorem 3.4. InfeasiblePlan where the
    representation is not an (a2, beta/6) one."""
    target, risk = open_unit(alpha, "alpha"), open_unit(beta, "beta")
    with localcontext(outward.context(target, risk)):
        beyond = round_down(DIFFERENCES * target)
        rest = (target - beyond) / (1 + GAMMA)
        shares = SHARES if representation.a else SHARES | {"near": Decimal(0), "choice": Decimal("0.2")}
        best, empirical, near, choice = (
            round_down(share * rest)
            for share in (shares["best"], shares["empirical"], shares["near"] / 2, shares["choice"])
        )
        sixth, logarithm = round_down(risk / 6), outward.ln(6 / risk)
    _require(representation, representation.a <= near, near, risk, 6)
    _require_exponent(exponent)
    card, vc, hypotheses = natural_log(concepts.size), concepts.vc, representation.log_size
    with localcontext(outward.context(target, risk, exponent)):
        terms = (
            ("deviation of all concepts", uc_one(best, sixth, ln_card=card, vc=vc)),
            ("deviation of the best", ceiling(logarithm / (2 * empirical * empirical))),
            *((("distance of the representation", ceiling(3 / near * logarithm)),) if near else ()),
            ("choice", ceiling((hypotheses + logarithm) / (exponent * choice))),
            (
                "differences of pairs",
                pairs_uc(GAMMA, beyond, sixth, ln_hypotheses=hypotheses, ln_card=card, vc=vc),
            ),
        )
    return largest_of(
        terms,
        status="conservative",
        target=f"an error of at most {target} above the best of the class, but with probability {risk}",
        bound="representation, agnostic",
        inside=(("distance of the representation", near), ("slack of the differences of pairs", GAMMA)),
    )


def _require(representation: NearAll, is_near: bool, near: Decimal, risk: Decimal, parts: int) -> None:
    """InfeasiblePlan unless the representation is near enough, but with a part of `risk`."""
    if not is_near or multiply(representation.b, parts) > risk:
        raise InfeasiblePlan(
            f"the representation has a = {representation.a:.4g} and b = {representation.b:.4g}; needed are at most "
            f"{near:.4g} and {risk}/{parts}"
        )


def _require_exponent(exponent: Decimal) -> None:
    if not exponent:
        raise InfeasiblePlan("the exponent that follows from epsilon is below 10^-60")


@dataclass(frozen=True, slots=True, kw_only=True)
class BoostedSize:
    """The size of a representation made of many: majorities of `rounds` hypotheses, one of each of `rounds` unions of
    `copies` draws. To list its hypotheses costs e^log_size."""

    rounds: int
    copies: int
    log_size: Decimal


def boosted_size(log_size: Number, a: Number, b: Number) -> BoostedSize:
    """What an (a, b)-representation costs that is boosted from (1/4, 1/4)-representations of this size.

    Claim: T = ceil(2 ln(1/a)/ln(4/3)) rounds of k = ceil(log_4(T/b)) copies are one, of size at most T (s + ln k).
    Source: docs/proofs/learning_representations.md, section 5; Li-Wang-Ye 2024, lemma 2.4."""
    size, near, missed = read(log_size, field="log_size"), open_unit(a, "a"), open_unit(b, "b")
    with localcontext(outward.context(size, near, missed)):
        rounds = ceiling(2 * -outward.ln(near) / outward.ln(Decimal(4) / 3))
        copies = ceiling(outward.ln(rounds / missed) / outward.ln(Decimal(4)))
        return BoostedSize(
            rounds=rounds, copies=copies, log_size=outward.above(rounds * (size + outward.ln(Decimal(copies))))
        )
