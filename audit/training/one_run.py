"""One training, many canaries: each is in the data by a coin of the auditor's, who guesses from the model which were.

How many of so many guesses are right is rarely large if the training keeps its claim, which is a test of the claim, of
all its points at once (`guesses`). One training is cheap, and weak: what m canaries can show of one epsilon ends at
about log(m / 3), however much a training tells. `OneRun.words` says what it can show before anything is trained.

>>> from dpledger.accounting.guarantees import GDP, ApproxDP
>>> from dpledger.audit.training.step_claims import step_claim
>>> plan = OneRun.planned(600, step_claim(ApproxDP(25, "0.00001")), alpha=Fraction(1, 20))
>>> round(plan.ceiling, 1) < 6, plan.can_refute
(True, False)
>>> OneRun.planned(600, step_claim(GDP(1)), alpha=Fraction(1, 20)).factor < 2
True
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from scipy.special import bdtr, bdtrc, ndtr

from dpledger import decimals
from dpledger.accounting.arithmetic.conversions import epsilon_of_gdp
from dpledger.audit.course.blocks import Evidence
from dpledger.audit.evidence.binomial import tail_at_least
from dpledger.audit.evidence.wealth import BudgetShare
from dpledger.audit.outcomes import Floats
from dpledger.audit.tested.claims import DELTA_OF_CURVES
from dpledger.audit.training.guesses import beyond_the_curve, chance_of_guesses
from dpledger.audit.training.step_claims import StepClaim
from dpledger.errors import ParameterError

__all__ = ["FEWEST_CANARIES", "OneRun"]

FEWEST_CANARIES = 10
LARGEST = 64.0  # an epsilon that no number of canaries reaches
HALVINGS, ROUGHLY = 40, 12
SHARES = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0)  # of the canaries that are guessed
LIKELY = 0.9
BACKWARDS = 1e-4  # a chance of so many wrong guesses, of coins, at which the score is told to be backwards


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRun:
    """What is fixed before a training with `canaries`: how many are guessed, and what that can show. `needed`: so many
    right guesses refute the claim; None where none do. `factor`: noise too small by it is found with probability 0.9,
    if each canary has one Gaussian score that shows what the noise lets it; None where no factor up to 64 is.
    `ceiling`: the largest epsilon, at the delta of the claim, that would be refuted if every guess were right.
    `expected`: that which is refuted with probability 0.9 with the noise that is claimed."""

    canaries: int
    guesses: int
    claim: StepClaim
    alpha: Fraction
    needed: int | None
    factor: float | None
    ceiling: float
    expected: float

    @classmethod
    def planned(cls, canaries: int, claim: StepClaim, *, alpha: Fraction) -> OneRun:
        """The number of guesses with which the least lack of noise is found. ParameterError for too few canaries.

        Claim: if the training keeps its claim, `needed` guesses or more are right with probability at most alpha.
        Source: `chance_of_guesses` and `beyond_the_curve` bound one probability, so the better of them holds."""
        if canaries < FEWEST_CANARIES:
            raise ParameterError("canaries", f"{canaries} canaries", f"at least {FEWEST_CANARIES}")
        delta, apart, level = float(claim.target.point.delta), _separation(claim), float(alpha)
        points = _points(claim)
        tried = []
        for guesses in sorted({2 * max(1, round(share * canaries / 2)) for share in SHARES}):
            if guesses <= canaries:
                needed = _needed(canaries, guesses, points, level)
                factor = None if needed is None else _least_factor(canaries, guesses, needed, apart)
                tried.append((factor or math.inf, needed is None, -guesses, needed))
        least, _, fewest, needed = min(tried, key=lambda one: one[:3])
        return cls(
            canaries=canaries,
            guesses=-fewest,
            claim=claim,
            alpha=alpha,
            needed=needed,
            factor=None if math.isinf(least) else least,
            ceiling=_refuted(canaries, -fewest, -fewest, delta, level),
            expected=_refuted(canaries, -fewest, _expected_right(canaries, -fewest, apart), delta, level),
        )

    @property
    def can_refute(self) -> bool:
        """Whether any outcome refutes the claim."""
        return self.needed is not None

    @property
    def words(self) -> str:
        """What it can show, for whoever is about to train."""
        point = self.claim.target.point
        if not self.can_refute:
            able = "it cannot refute this claim"
        elif self.factor is None:
            able = f"the claim is refuted only if {self.needed:,} guesses are right"
        else:
            able = (
                f"the claim is refuted with probability 0.9 if the noise is too small by a factor of {self.factor:.3g}"
            )
        return (
            f"one training with {self.canaries:,} canaries, {self.guesses:,} of them guessed: {able}. At delta "
            f"{float(point.delta):.3g} it shows an epsilon of at most {self.ceiling:.3g}, however much the training "
            f"gives away, and about {self.expected:.3g} if it gives away all that is claimed "
            f"({float(point.epsilon):.3g})"
        )

    def evidence(self, scores: npt.ArrayLike, included: npt.ArrayLike) -> Evidence:
        """What a training says. `scores`: of each canary, larger where it was more likely in the data; NaN counts as
        the least. `included`: which were."""
        numbers, inside = np.asarray(scores, dtype=np.float64), np.asarray(included, dtype=bool)
        right = _right(numbers, inside, self.guesses)
        delta, level = float(self.claim.target.point.delta), float(self.alpha)
        lower = _refuted(self.canaries, self.guesses, right, delta, level)
        fell = self.needed is not None and right >= self.needed
        wealth = -math.log(level) if fell else 0.0
        return Evidence(
            alpha=self.alpha,
            trials=(int(inside.sum()), int((~inside).sum())),
            fell_after=self.canaries if fell else None,
            epsilon_lower=decimals.round_down(lower),
            log_wealth=wealth,
            path=((self.canaries, wealth, wealth),),
            budget=(BudgetShare(f"{right:,} of {self.guesses:,} guesses were right", self.alpha),),
            witness=None,
            power=None,  # what it could show is told beforehand
            rare_event=None,
            blind=_blind(numbers, inside),
            float_leak=None,
        )


def _points(claim: StepClaim) -> list[tuple[float, float]]:
    """All that is claimed, as (epsilon, delta), rounded up."""
    each = ((decimals.float_up(one.epsilon), decimals.float_up(one.delta)) for one in claim.target.points)
    return [(epsilon, delta) for epsilon, delta in each if epsilon <= LARGEST]


def _needed(canaries: int, guesses: int, points: list[tuple[float, float]], alpha: float) -> int | None:
    """The least number of right guesses that has a probability of at most alpha, whoever keeps the points."""

    def is_rare(right: int) -> bool:
        return beyond_the_curve(canaries, guesses, right, points, alpha) or any(
            chance_of_guesses(canaries, guesses, right, epsilon, delta) <= alpha for epsilon, delta in points
        )

    found = bisect_left(range(guesses + 1), True, key=is_rare)
    return found if found <= guesses else None


def _least_factor(canaries: int, guesses: int, needed: int, apart: float) -> float | None:
    """How much further apart the scores must be for so many right guesses with probability 0.9."""
    half = guesses // 2
    enough = float(bdtr(canaries - half, canaries, 0.5) - bdtr(half - 1, canaries, 0.5))  # are in, and enough are out

    def is_seen(factor: float) -> bool:
        return enough * _at_least(needed, canaries, guesses, apart * factor) >= LIKELY

    if not is_seen(LARGEST):
        return None
    low, high = 0.0, math.log(LARGEST)
    for _ in range(ROUGHLY):
        middle = (low + high) / 2
        if is_seen(math.exp(middle)):
            high = middle
        else:
            low = middle
    return math.exp(high)


def _blind(scores: Floats, inside: npt.NDArray[np.bool_]) -> str | None:
    """Why nothing could be found."""
    if np.unique(scores[np.isfinite(scores)]).size < 2:
        return "all canaries had the same score"
    canaries = scores.size // 2 * 2
    wrong = canaries - _right(scores, inside, canaries)
    if tail_at_least(wrong, canaries, 0.5) <= BACKWARDS:
        backwards = f"{wrong:,} of {canaries:,} guesses would be wrong, more than for coins"
        return f"{backwards}: a score must be larger where the canary was in the data, and this one is smaller"
    return None


def _right(scores: Floats, inside: npt.NDArray[np.bool_], guesses: int) -> int:
    """How many are right, where half of the guesses say that the highest scores are in, half that the lowest are
    out."""
    order = np.argsort(np.where(np.isnan(scores), -np.inf, scores), kind="stable")
    half = guesses // 2
    return int((~inside[order[:half]]).sum() + inside[order[len(order) - half :]].sum())


def _refuted(canaries: int, guesses: int, right: int, delta: float, alpha: float) -> float:
    """The largest epsilon, or a little less, that so many right guesses refute at `delta`; 0 where none is."""
    if chance_of_guesses(canaries, guesses, right, 0.0, delta) > alpha:
        return 0.0
    low, high = 0.0, LARGEST
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if chance_of_guesses(canaries, guesses, right, middle, delta) <= alpha:
            low = middle
        else:
            high = middle
    return low


def _separation(claim: StepClaim) -> float:
    """The mu at which a Gaussian score of each canary shows the claimed epsilon at its delta; at that of a curve where
    the claim has none."""
    point = claim.target.point
    low, high = 0.0, 40.0
    for _ in range(ROUGHLY):
        middle = (low + high) / 2
        if epsilon_of_gdp(decimals.round_up(middle), point.delta or DELTA_OF_CURVES) < point.epsilon:
            low = middle
        else:
            high = middle
    return high


def _share_right(canaries: int, guesses: int, apart: float) -> float:
    """The share of right guesses, of scores N(apart, 1) of those that are in, and N(0, 1) of the others."""
    share = guesses / canaries / 2  # of all scores, the highest and the lowest
    low, high = -10.0, 10.0 + apart
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if (ndtr(-middle) + ndtr(apart - middle)) / 2 > share:
            low = middle
        else:
            high = middle
    return min(1.0, float(ndtr(apart - high)) / 2 / share)


def _at_least(right: int, canaries: int, guesses: int, apart: float) -> float:
    """About the probability of so many right guesses."""
    return float(bdtrc(right - 1, guesses, _share_right(canaries, guesses, apart)))


def _expected_right(canaries: int, guesses: int, apart: float) -> int:
    """How many guesses are right with probability 0.9."""
    return bisect_left(range(guesses), True, key=lambda one: _at_least(one + 1, canaries, guesses, apart) < LIKELY)
