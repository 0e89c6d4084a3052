"""How many users learn a threshold by halving an interval, each with m examples.

>>> from dpledger.mechanisms.learning.theory.concepts import ThresholdClass
>>> found = threshold_users(ThresholdClass(2**20), 100, "0.1", "0.1", epsilon=1)
>>> found.needed, dict(found.inside)["rounds"]
(21251, Decimal('11'))
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Literal, TypeAlias, assert_never

from dpledger.accounting.arithmetic import outward
from dpledger.decimals import Number, read, round_down, round_up, text, whole
from dpledger.errors import InfeasiblePlan, ParameterError
from dpledger.mechanisms.learning.theory.concepts import ThresholdClass
from dpledger.mechanisms.learning.theory.needed_units import (
    SampleSize,
    ceiling,
    feasible,
    largest_of,
    users_of_examples,
)
from dpledger.mechanisms.learning.theory.users.estimator_sizes import Richness, estimator_users, rounds_for
from dpledger.mechanisms.learning.theory.users.gap import gap_worst
from dpledger.mechanisms.learning.theory.users.median_sizes import LEAST_MASS, median_size, shrinking
from dpledger.mechanisms.noise import exponent_for
from dpledger.mechanisms.plan import open_unit

__all__ = [
    "Comparison",
    "Halving",
    "Split",
    "comparisons_in",
    "each_round",
    "noise_scale",
    "planned_halving",
    "threshold_users",
]

Comparison: TypeAlias = Literal["paper", "noisy_max", "sharp"]
"""How the least of three counts is found: by three noisy counts, each of which may be published; by the least noisy
count, of which only the place is published; by permute-and-flip."""

RESOLUTIONS = tuple(Fraction(f) for f in ("1/16", "1/12", "1/8", "1/6", "1/5", "1/4", "3/10"))
MARGINS = tuple(Fraction(f) for f in ("1/5", "3/10", "2/5", "1/2", "3/5", "7/10"))
SHARES = tuple((Decimal(a), Decimal(b)) for a, b in ((".4", ".15"), (".3", ".1"), (".5", ".2")))
MOST_ROUNDS = 200
LEAST_SHARE = Decimal("2e-60")  # of epsilon, half of which is an exponent


@dataclass(frozen=True, slots=True, kw_only=True)
class Halving:
    """What a run is made of: an estimate within `resolution`, levels that tell errors `margin` apart, and rounds until
    the mass of the interval is at most `remaining`. The excess is 2 resolution + margin + remaining."""

    resolution: Decimal
    margin: Decimal
    remaining: Decimal

    @property
    def bounds(self) -> tuple[Decimal, ...]:
        """The bound of the mass before each round."""
        return shrinking(self.remaining)

    @property
    def rounds(self) -> int:
        """How many rounds at most."""
        return len(self.bounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Epsilon in three: for the estimate, for all medians, for all comparisons."""

    estimating: Decimal
    halving: Decimal
    comparing: Decimal

    @classmethod
    def of(cls, epsilon: Number, estimate_share: Number, median_share: Number) -> Split:
        """What these shares leave goes to comparisons; rounded down. ParameterError where nothing is left."""
        loss = read(epsilon, field="epsilon")
        if not loss > 0:
            raise ParameterError("epsilon", loss, "a number above 0")
        first, second = open_unit(estimate_share, "estimate_share"), open_unit(median_share, "median_share")
        rest = 1 - Fraction(first) - Fraction(second)
        if not rest > 0:
            raise ParameterError("median_share", second, f"a share that, with {first}, leaves some for comparisons")
        parts = (round_down(Fraction(loss) * share) for share in (Fraction(first), Fraction(second), rest))
        return cls(**dict(zip(("estimating", "halving", "comparing"), parts, strict=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """What a plan is for."""

    concepts: ThresholdClass
    m: int
    alpha: Decimal
    beta: Decimal
    comparison: Comparison
    split: Split
    monotone: bool


def each_round(epsilon: Decimal, rounds: int) -> Decimal:
    """What one of so many rounds may spend of epsilon."""
    return round_down(Fraction(epsilon) / rounds)


def comparisons_in(rounds: int, concepts: ThresholdClass) -> int:
    """One of three counts a round, and first one of the two directions, where the class has both."""
    return rounds + concepts.both_ways


def noise_scale(comparison: Comparison, epsilon: Decimal, *, monotone: bool) -> Decimal:
    """By how much, for every ln(3/beta), the count that is found may be above the least (for noise and one half more:
    half as much is the scale). `epsilon`: of one comparison.

    Source: docs/proofs/learning_median.md, "Privacy of the threshold learner"."""
    match comparison:
        case "paper":
            return round_up(Fraction(6) / Fraction(epsilon))
        case "noisy_max":
            return round_up(Fraction(2 if monotone else 4) / Fraction(epsilon))
        case "sharp":
            return round_up(1 / Fraction(exponent_for(epsilon, sensitivity=1, monotone=monotone)))
        case _:
            assert_never(comparison)


def threshold_users(
    concept_class: ThresholdClass,
    examples: int,
    alpha: Number,
    beta: Number,
    *,
    epsilon: Number,
    comparison: Comparison = "sharp",
    estimate_share: Number = Decimal("0.25"),
    median_share: Number = Decimal("0.25"),
    resolution: Number | None = None,
    margin: Number | None = None,
    monotone: bool = False,
) -> SampleSize:
    """How many users a `UserLevelThresholdLearner` needs, with the resolution and the margin (where none is given) that
    ask for the fewest. `monotone`: the relation is add_remove or zero_out.

    Claim: an error of at most alpha above the best threshold but with probability beta, if `gap_worst` is what it is
    certified to be. About ten times as many as were seen to be needed.
    Source: docs/proofs/learning_median.md; Li-Wang-Ye 2024, theorem 5.2. InfeasiblePlan where nothing is left of
    alpha."""
    target = _Target(
        concepts=concept_class,
        m=whole(examples, field="examples", least=1),
        alpha=open_unit(alpha, "alpha"),
        beta=open_unit(beta, "beta"),
        comparison=comparison,
        split=Split.of(epsilon, estimate_share, median_share),
        monotone=monotone,
    )
    return _fewest(target, _given(resolution, "resolution"), _given(margin, "margin"))


@lru_cache(maxsize=256)
def _fewest(target: _Target, resolution: Decimal | None, margin: Decimal | None) -> SampleSize:
    halvings = _halvings(target.alpha, resolution, margin)
    plans = (plan for halving in halvings for plan in feasible(_at(target, halving)))
    found = min(plans, key=lambda plan: plan.needed, default=None)
    if found is None:
        raise InfeasiblePlan(
            f"nothing of alpha = {target.alpha} is left for the last interval, or no number of users is enough: "
            "take a smaller resolution or margin, or a larger alpha or epsilon"
        )
    return found


def planned_halving(plan: SampleSize) -> Halving:
    """What a plan chose."""
    inside = dict(plan.inside)
    return Halving(resolution=inside["resolution"], margin=inside["margin"], remaining=inside["remaining"])


def _given(value: Number | None, field: str) -> Decimal | None:
    return None if value is None else open_unit(value, field)


def _halvings(alpha: Decimal, resolution: Decimal | None, margin: Decimal | None) -> Iterator[Halving]:
    resolutions = [round_down(part * Fraction(alpha)) for part in RESOLUTIONS] if resolution is None else [resolution]
    margins = [round_down(part * Fraction(alpha)) for part in MARGINS] if margin is None else [margin]
    for a in resolutions:
        for b in margins:
            left = Fraction(alpha) - 2 * Fraction(a) - Fraction(b)
            if (rest := round_down(max(left, Fraction(0)))) > LEAST_MASS:
                yield Halving(resolution=a, margin=b, remaining=rest)


def _at(target: _Target, halving: Halving) -> Iterator[SampleSize]:
    """The plans of one halving, one for each way to share the gap."""
    concepts, rounds, m = target.concepts, halving.rounds, target.m
    richness, comparisons = Richness.of(concepts), comparisons_in(rounds, concepts)
    choosing, comparing = each_round(target.split.halving, rounds), each_round(target.split.comparing, comparisons)
    if rounds > MOST_ROUNDS or min(target.split.estimating, choosing, comparing) < LEAST_SHARE:
        return
    levels = min(m, 2 ** rounds_for(halving.resolution))
    eighth, quarter = round_down(Fraction(target.beta) / 8), round_down(Fraction(target.beta) / 4)
    estimating = estimator_users(richness, m, halving.resolution, target.split.estimating, quarter)
    exponent = exponent_for(choosing, sensitivity=1, monotone=target.monotone)
    risk = round_down(Fraction(target.beta) / (4 * rounds))
    medians = max(median_size(concepts.points, exponent, mass, risk, m=m).needed for mass in halving.bounds)
    scale = noise_scale(target.comparison, comparing, monotone=target.monotone)
    gap = gap_worst(m, halving.margin)
    for uniform, single in SHARES:
        with localcontext(outward.context(target.beta, scale, gap)):
            lost = comparisons * (scale * outward.ln(24 * comparisons / target.beta) + (target.comparison != "sharp"))
            deviation = richness.deviation(round_down(uniform * gap), eighth, levels=levels, m=m)
            terms = (
                ("estimate of the least error", estimating),
                ("deviation of all thresholds", deviation),
                ("deviation of the best", ceiling(outward.ln(8 * levels / target.beta) / (2 * (single * gap) ** 2))),
                ("comparisons", ceiling(lost / ((1 - uniform - single) * gap))),
                ("medians", medians),
            )
        yield _plan(target, halving, terms)


def _plan(target: _Target, halving: Halving, terms: tuple[tuple[str, int], ...]) -> SampleSize:
    return largest_of(
        terms,
        status="conservative",
        target=f"an error of at most {text(target.alpha)} above the best threshold, but with probability "
        f"{text(target.beta)}",
        bound=f"users, thresholds ({target.comparison})",
        units=users_of_examples(target.m),
        inside=(
            ("resolution", halving.resolution),
            ("margin", halving.margin),
            ("remaining", halving.remaining),
            ("rounds", Decimal(halving.rounds)),
        ),
    )
