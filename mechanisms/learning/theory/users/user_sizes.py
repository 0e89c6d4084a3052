"""How many users are enough to learn from, each with m examples.

>>> from dpledger.mechanisms.learning.theory.concepts import ThresholdClass
>>> proper_users(ThresholdClass(1024), 100, "0.1", "0.1", epsilon=1).needed
1099
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction

from dpledger.accounting.arithmetic import outward
from dpledger.decimals import Number, add, multiply, read, round_down, text, whole
from dpledger.errors import InfeasiblePlan, ParameterError
from dpledger.mechanisms.learning.theory.concepts import FiniteClass, PointClass, ThresholdClass
from dpledger.mechanisms.learning.theory.needed_units import (
    SampleSize,
    ceiling,
    feasible,
    largest_of,
    natural_log,
    pairs_uc,
    users_of_examples,
)
from dpledger.mechanisms.learning.theory.users.estimator_sizes import (
    MOST_EXAMPLES,
    Richness,
    estimator_users,
    rounds_for,
)
from dpledger.mechanisms.learning.theory.users.gap import gap_worst
from dpledger.mechanisms.plan import open_unit

__all__ = [
    "proper_users",
    "proper_users_for",
    "surrogate_users",
    "surrogate_users_for",
]

HALF = Decimal("0.5")
RESOLUTIONS = tuple(Fraction(f) for f in ("1/16", "1/12", "1/8", "1/6", "1/5", "1/4", "3/10", "7/20"))
SHARES = tuple(
    (Decimal(a), Decimal(b)) for a, b in ((".5", ".2"), (".6", ".2"), (".4", ".2"), (".5", ".3"), (".3", ".15"))
)
MARGINS = tuple(Decimal(f) for f in ("0.2", "0.3", "0.4", "0.5"))  # of alpha
PAIRS = ((Decimal("0.25"), Decimal("0.2")), (Decimal(1), Decimal("0.3")))
"""gamma, and what pairs may differ by beyond the factor 1 + gamma, of all they may differ by."""
FIFTH = Decimal("0.2")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """What a plan is for."""

    richness: Richness
    m: int
    alpha: Decimal
    beta: Decimal
    estimating: Decimal
    exponent: Decimal


def proper_users(
    concept_class: FiniteClass | PointClass | ThresholdClass,
    examples: int,
    alpha: Number,
    beta: Number,
    *,
    epsilon: Number,
    share: Number = HALF,
    monotone: bool = False,
) -> SampleSize:
    """How many users a `UserLevelProperLearner` needs, with the resolution and the margin that ask for the fewest.

    `share`: of epsilon, for the estimate of the least error. `monotone`: the relation is add_remove or zero_out.
    Claim: an error of at most alpha above the best of the class but with probability beta, if `gap_worst` is what it is
    certified to be. Source: docs/proofs/learning_users.md, section 4."""
    target = _target(concept_class, examples, alpha, beta, epsilon, share, monotone=monotone)
    return _fewest(_proper_plans(target))


def proper_users_for(
    concept_class: FiniteClass | PointClass | ThresholdClass,
    examples: int,
    beta: Number,
    *,
    epsilon: Number,
    share: Number,
    monotone: bool,
    resolution: Decimal,
    margin: Decimal,
) -> SampleSize:
    """As `proper_users`, for a resolution and a margin that are there: alpha is 2 resolution + margin."""
    alpha = add(margin, multiply(resolution, 2))
    target = _target(concept_class, examples, alpha, beta, epsilon, share, monotone=monotone)
    return _fewest(feasible(_proper_at(target, resolution, margin)))


def _target(
    concepts: FiniteClass | PointClass | ThresholdClass,
    examples: int,
    alpha: Number,
    beta: Number,
    epsilon: Number,
    share: Number,
    *,
    monotone: bool,
    moved: int = 1,
) -> _Target:
    loss, part = read(epsilon, field="epsilon"), open_unit(share, "share")
    if not loss > 0:
        raise ParameterError("epsilon", loss, "a number above 0")
    with localcontext(outward.context(loss, part)):
        estimating, choosing = round_down(loss * part), round_down(loss - loss * part)
        exponent = round_down(choosing / (moved if monotone else 2 * moved))
    if not (estimating and exponent):
        raise InfeasiblePlan(f"a share of epsilon = {loss} is below 10^-60")
    return _Target(
        richness=Richness.of(concepts),
        m=whole(examples, field="examples", least=1, most=MOST_EXAMPLES),
        alpha=open_unit(alpha, "alpha"),
        beta=open_unit(beta, "beta"),
        estimating=estimating,
        exponent=exponent,
    )


def _proper_plans(target: _Target) -> Iterator[SampleSize]:
    for part in RESOLUTIONS:
        resolution = round_down(part * Fraction(target.alpha))
        margin = round_down(Fraction(target.alpha) - 2 * Fraction(resolution))
        yield from feasible(_proper_at(target, resolution, margin))


def _proper_at(target: _Target, resolution: Decimal, margin: Decimal) -> Iterator[SampleSize]:
    gap, m, richness = gap_worst(target.m, margin), target.m, target.richness
    levels = min(m, 2 ** rounds_for(resolution))
    quarter = round_down(Fraction(target.beta) / 4)
    if not round_down(gap):
        return
    estimating = estimator_users(richness, m, resolution, target.estimating, quarter)
    for best, empirical in SHARES:
        with localcontext(outward.context(target.beta, target.exponent, gap)):
            deviation, choice = best * gap, (1 - best - empirical) * gap
            terms = (
                ("estimate of the least error", estimating),
                ("deviation of all concepts", richness.deviation(round_down(deviation), quarter, levels=levels, m=m)),
                ("deviation of the best", ceiling(outward.ln(4 * levels / target.beta) / (2 * (empirical * gap) ** 2))),
                ("choice", ceiling(outward.ln(4 * richness.size / target.beta) / (target.exponent * choice))),
            )
        yield _plan(target, terms, "users, proper", (("resolution", resolution), ("margin", margin)))


def surrogate_users(
    concept_class: PointClass,
    examples: int,
    alpha: Number,
    beta: Number,
    *,
    epsilon: Number,
    share: Number = HALF,
    monotone: bool = False,
    most_bits: int | None = None,
) -> SampleSize:
    """How many users a `UserLevelSurrogateLearner` of hashed points needs, with the resolution, the margin, the
    distance and the bits of the hash that ask for the fewest. With `most_bits` no hash has more. One with as many bits
    as a point is no smaller than the class, which a `UserLevelProperLearner` learns from fewer users.

    Claim: an error of at most alpha above the best of the class but with probability beta, if `gap_worst` is what it is
    certified to be. Source: docs/proofs/learning_users.md, section 5; Li-Wang-Ye 2024, theorem 4.6."""
    target = _target(concept_class, examples, alpha, beta, epsilon, share, monotone=monotone, moved=2)
    widths = [(round_down(part * Fraction(target.alpha)), width) for part in RESOLUTIONS[:6] for width in MARGINS]
    plans = [
        plan
        for resolution, width in widths
        for plan in feasible(_surrogate_at(target, resolution, multiply(target.alpha, width)))
    ]
    fits = [plan for plan in plans if most_bits is None or dict(plan.inside)["bits"] <= most_bits]
    if plans and not fits:
        bits = min(dict(plan.inside)["bits"] for plan in plans)
        raise InfeasiblePlan(
            f"a hash of {bits} bits would be needed, and none has more than {most_bits}: "
            "learn the class itself, with a UserLevelProperLearner"
        )
    return _fewest(fits)


def surrogate_users_for(
    concept_class: PointClass,
    examples: int,
    alpha: Number,
    beta: Number,
    *,
    epsilon: Number,
    share: Number,
    monotone: bool,
    moved: int,
    resolution: Decimal,
    margin: Decimal,
    hypotheses: int,
    distance: Decimal,
    missed: Decimal,
) -> SampleSize:
    """As `surrogate_users`, for a resolution, a margin and hypotheses that are there, the nearest of which is farther
    than `distance` with probability `missed`. InfeasiblePlan where the hash is too
    coarse, or where 2 resolution + margin leave nothing of alpha."""
    target = _target(concept_class, examples, alpha, beta, epsilon, share, monotone=monotone, moved=moved)
    plans = list(feasible(_surrogate_at(target, resolution, margin, hypotheses)))
    near = [plan for plan in plans if dict(plan.inside)["distance"] >= distance]
    if not near or 8 * Fraction(missed) > Fraction(target.beta):
        raise InfeasiblePlan("the hash is too coarse, or 2 resolution + margin leave nothing of alpha")
    return _fewest(near)


def _surrogate_at(
    target: _Target, resolution: Decimal, margin: Decimal, many: int | None = None
) -> Iterator[SampleSize]:
    m, richness, rest = target.m, target.richness, Fraction(target.alpha) - 2 * Fraction(resolution) - Fraction(margin)
    if rest <= 0:
        return
    quarter, eighth = round_down(Fraction(target.beta) / 4), round_down(Fraction(target.beta) / 8)
    levels = min(m, 2 ** rounds_for(resolution))
    estimating = estimator_users(richness, m, resolution, target.estimating, quarter)
    for gamma, accepted in PAIRS:
        with localcontext(outward.context(target.beta, target.exponent, round_down(rest))):
            differ = -outward.expm1(m * outward.ln1p(-round_down(rest)))
            slack = min(gap_worst(m, margin), (1 - accepted) * differ / (1 + gamma))
            if not slack > 0:
                return
            best, empirical, near, choice = (part * slack for part in (HALF, FIFTH, FIFTH / 4, FIFTH))
            distance = round_down(-outward.expm1(outward.ln1p(-near) / m))
            cells = _bits(distance, target.beta) if many is None else (many - 1).bit_length()
            logarithm, hypotheses = outward.ln(8 / target.beta), natural_log(2**cells if many is None else many)
            terms = (
                ("estimate of the least error", estimating),
                ("deviation of all concepts", richness.deviation(round_down(best), eighth, levels=levels, m=m)),
                ("deviation of the best", ceiling((logarithm + outward.ln(Decimal(levels))) / (2 * empirical**2))),
                ("distance of the representation", ceiling(3 / near * logarithm)),
                ("choice", ceiling((hypotheses + logarithm) / (target.exponent * choice))),
                (
                    "differences of pairs",
                    pairs_uc(
                        gamma,
                        round_down(accepted * differ),
                        eighth,
                        ln_hypotheses=hypotheses,
                        ln_card=natural_log(richness.size),
                        vc=richness.vc,
                        m=m,
                    ),
                ),
            )
        inside = (("resolution", resolution), ("margin", margin), ("distance", distance), ("bits", Decimal(cells)))
        yield _plan(target, terms, "users, surrogate", inside)


def _bits(distance: Decimal, beta: Decimal) -> int:
    """How many bits a hash needs to be near but with probability beta/8."""
    return (math.ceil(8 / (Fraction(distance) * Fraction(beta))) - 1).bit_length()


def _plan(
    target: _Target, terms: tuple[tuple[str, int], ...], bound: str, inside: tuple[tuple[str, Decimal], ...]
) -> SampleSize:
    return largest_of(
        terms,
        status="certified",
        target=f"an error of at most {text(target.alpha)} above the best of the class, but with probability "
        f"{text(target.beta)}",
        bound=bound,
        units=users_of_examples(target.m),
        inside=inside,
    )


def _fewest(plans: Iterable[SampleSize]) -> SampleSize:
    found = min(plans, key=lambda plan: plan.needed, default=None)
    if found is None:
        raise InfeasiblePlan("no resolution tells the errors apart")
    return found
