"""Sample sizes of learning a class, without privacy and with it.

>>> private_occam(1024, "0.5", "0.1", "0.05").needed, private_occam(1024, "1", "0.1", "0.05").needed
(248, 153)
>>> private_agnostic(1024, "0.5", "0.1", "0.05").needed
1986
>>> best = agnostic_plan(ThresholdClass(2**64), "0.5", "0.01", "0.05")
>>> best.needed, best.bound, best.others
(259439, 'uniform deviation and choice', (('agnostic exponential mechanism', 947144),))
>>> occam(1024, "0.1", "0.05").needed
95
"""

from __future__ import annotations

import dataclasses
from decimal import Decimal, localcontext

from dpledger.accounting.arithmetic import outward
from dpledger.decimals import Number, in_own_context, round_down, text, whole
from dpledger.errors import ParameterError
from dpledger.mechanisms.learning.theory.concepts import AnyClass, ThresholdClass
from dpledger.mechanisms.learning.theory.needed_units import (
    SampleSize,
    ceiling,
    largest_of,
    natural_log,
    uc_one,
)
from dpledger.mechanisms.plan import above_0, open_unit

__all__ = [
    "agnostic_plan",
    "class_size",
    "occam",
    "one_sided",
    "plan_item_proper",
    "private_agnostic",
    "private_occam",
]

MOST_CONCEPTS = 2 ** (2**20)
PARTS = 20  # of alpha, among which the deviations and the choice share it


def occam(size: int, alpha: Number, beta: Number) -> SampleSize:
    """Any consistent concept, without privacy.

    Claim: ln(|C|/beta) / -ln(1 - alpha) records. Source: Blumer et al. 1987; docs/proofs/learning_pac.md, "Occam"."""
    needed = _consistent(size, None, alpha, beta)
    return _realizable("Occam", alpha, beta, (("sampling", needed),))


def one_sided(alpha: Number, beta: Number) -> SampleSize:
    """The learners of points and thresholds that err to one side, without privacy.

    Claim: ln(1/beta) / -ln(1 - alpha) records. Source: docs/proofs/learning_pac.md, "Baselines"."""
    return _realizable("one-sided", alpha, beta, (("sampling", _consistent(1, None, alpha, beta)),))


def private_occam(size: int, exponent: Number, alpha: Number, beta: Number) -> SampleSize:
    """The exponential mechanism on realizable data, e^-exponent an error.

    Claim: ln(|C|/beta) / -ln(1 - alpha (1 - e^-exponent)) records; towards the bound of Occam as the exponent grows.
    Source: docs/proofs/learning_pac.md, "Private Occam"."""
    sampling = _consistent(size, None, alpha, beta)
    private = _consistent(size, above_0(exponent, "exponent"), alpha, beta)
    return _realizable("private Occam", alpha, beta, (("sampling", sampling), ("privacy", private)))


def private_agnostic(size: int, exponent: Number, alpha: Number, beta: Number) -> SampleSize:
    """The exponential mechanism on any data, e^-exponent an error.

    Claim: ln(|C|/beta) / (l alpha - l^2/2) records, l = min(exponent, alpha). Source: docs/proofs/learning_pac.md,
    "Agnostic"."""
    count, rate = class_size(size), above_0(exponent, "exponent")
    target, risk = open_unit(alpha, "alpha"), open_unit(beta, "beta")
    with localcontext(outward.context(target, risk, rate)):
        logarithm = outward.ln(count / risk)
        sampling = ceiling(2 * logarithm / (target * target))
        least = min(rate, target)
        private = ceiling(logarithm / (least * target - least * least / 2))
    terms = (("sampling", sampling), ("privacy", private))
    return largest_of(
        terms,
        status="proved",
        target=_above_best(target, risk),
        bound="agnostic exponential mechanism",
        inside=(("exponent of an error that is counted on", least),),
    )


def plan_item_proper(
    size: int, exponent: Number, alpha: Number, beta: Number, *, vc: int | None = None, thresholds: bool = False
) -> SampleSize:
    """The exponential mechanism on any data, where all concepts deviate little at once: better than a union over them
    where the class is large and its VC dimension small.

    Claim: with a1 + a2 + a3 = alpha the largest of uc(a1, beta/3), ln(3/beta)/(2 a2^2) and ln(3|C|/beta)/(exponent a3)
    records; the parts of alpha are chosen on a grid of alpha/20. `vc`: the dimension, where it is known; `thresholds`:
    of 1[x < u]. Source: docs/proofs/learning_pac.md, "Agnostic, at once"; Li-Wang-Ye 2024, theorem 3.4 with H = C."""
    count, rate = class_size(size), above_0(exponent, "exponent")
    target, risk = open_unit(alpha, "alpha"), open_unit(beta, "beta")
    with localcontext(outward.context(target, risk, rate)):
        third, logarithm = round_down(risk / 3), outward.ln(3 / risk)
        chosen = outward.ln(Decimal(count)) + logarithm
        parts = [round_down(target * part / PARTS) for part in range(PARTS)]
        ln_card = natural_log(count)
        every = {a: uc_one(parts[a], third, ln_card=ln_card, vc=vc, thresholds=thresholds) for a in range(1, PARTS - 1)}
        best = {b: ceiling(logarithm / (2 * parts[b] * parts[b])) for b in range(1, PARTS - 1)}
        choice = {c: ceiling(chosen / (rate * parts[c])) for c in range(1, PARTS - 1)}
    ways = [(a, b, PARTS - a - b) for a in every for b in best if a + b < PARTS]
    a, b, c = min(ways, key=lambda way: max(every[way[0]], best[way[1]], choice[way[2]]))
    terms = (
        ("deviation of all concepts", every[a]),
        ("deviation of the best", best[b]),
        ("choice", choice[c]),
    )
    return largest_of(
        terms,
        status="proved",
        target=_above_best(target, risk),
        bound="uniform deviation and choice",
        inside=(
            ("part of alpha for the deviation of all concepts", parts[a]),
            ("for the deviation of the best", parts[b]),
            ("for the choice", parts[c]),
        ),
    )


def agnostic_plan(concepts: AnyClass, exponent: Number, alpha: Number, beta: Number) -> SampleSize:
    """The exponential mechanism over a class, on any data: the least of the bounds that hold, by its name, with the
    others beside.

    Claim: as `private_agnostic` and `plan_item_proper`, each of which holds."""
    thresholds = isinstance(concepts, ThresholdClass) and not concepts.both_ways
    plans = (
        private_agnostic(concepts.size, exponent, alpha, beta),
        plan_item_proper(concepts.size, exponent, alpha, beta, vc=concepts.vc, thresholds=thresholds),
    )
    best = min(plans, key=lambda plan: plan.needed)
    return dataclasses.replace(best, others=tuple((plan.bound, plan.needed) for plan in plans if plan is not best))


def _consistent(size: int, exponent: Decimal | None, alpha: Number, beta: Number) -> int:
    """ln(|C|/beta) / -ln(1 - alpha (1 - e^-exponent))."""
    count, target, risk = class_size(size), open_unit(alpha, "alpha"), open_unit(beta, "beta")
    with localcontext(outward.context(target, risk, *(() if exponent is None else (exponent,)))):
        seen = target if exponent is None else target * -_expm1(exponent)
        return ceiling(outward.ln(count / risk) / -outward.ln1p(-seen))


@in_own_context
def _expm1(exponent: Decimal) -> Decimal:
    """e^-exponent - 1."""
    return outward.expm1(-exponent)


def _realizable(bound: str, alpha: Number, beta: Number, terms: tuple[tuple[str, int], ...]) -> SampleSize:
    error, risk = text(open_unit(alpha, "alpha")), text(open_unit(beta, "beta"))
    return largest_of(
        terms,
        status="proved",
        target=f"an error of at most {error}, but with probability {risk}, of a concept of the class",
        bound=bound,
    )


def _above_best(error: Decimal, risk: Decimal) -> str:
    return f"an error of at most {text(error)} above the best of the class, but with probability {text(risk)}"


def class_size(size: int) -> int:
    """How many concepts: from 1 to 2^(2^20)."""
    many = whole(size, field="size", least=1)
    if many > MOST_CONCEPTS:
        raise ParameterError("size", f"a number of {many.bit_length()} bits", "at most 2^(2^20)")
    return many
