"""One training, many canaries: each is in the data by a coin of the auditor's, who guesses from the model which were.

Under (epsilon, delta) the number of right guesses is hardly larger than that of as many coins, each right with
probability e^epsilon / (1 + e^epsilon), which is a test of the claim at each of its points. One training is cheap, and
weak: what m canaries can show ends at about log(m / 3), however much a training tells. `OneRun.words` says so before
anything is trained. Source: Steinke, Nasr and Jagielski, "Privacy auditing with one (1) training run", NeurIPS 2023.

>>> from dpledger.accounting.guarantees import ApproxDP
>>> from dpledger.audit.training.step_claims import step_claim
>>> plan = OneRun.planned(600, step_claim(ApproxDP(25, "0.00001")), alpha=Fraction(1, 20))
>>> round(plan.ceiling, 1) < 6, plan.can_refute
(True, False)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from dpledger import decimals
from dpledger.accounting.arithmetic.conversions import epsilon_of_gdp
from dpledger.audit.course.blocks import Evidence
from dpledger.audit.evidence.binomial import tail_at_least
from dpledger.audit.evidence.wealth import BudgetShare
from dpledger.audit.outcomes import Floats
from dpledger.audit.training.step_claims import StepClaim
from dpledger.errors import ParameterError

__all__ = ["FEWEST_CANARIES", "OneRun", "chance_of_guesses"]

FEWEST_CANARIES = 10
LARGEST = 64.0  # an epsilon that no number of canaries reaches
HALVINGS, ROUGHLY = 40, 12
SHARES = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)  # of the canaries that are guessed
DEVIATIONS = 1.2816  # of a normal, passed with probability 0.1
ROUNDING = 1 + 1e-6  # of a p-value, on the safe side


def chance_of_guesses(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """An upper bound on the probability of at least so many `right` guesses among `guesses`, where each of `canaries`
    is in by a fair coin and the training is (epsilon, delta)-DP for adding or removing one.

    Claim: at least that probability, for every way to guess whose number of guesses is fixed beforehand. Source:
        Steinke, Nasr and Jagielski 2023, theorem 5.2; of its probabilities P(v > X >= v - i) the tail P(X >= v - i) is
        taken, which is no smaller."""
    chance = 1 / (1 + math.exp(-epsilon))
    tail = tail_at_least(right, guesses, chance)
    if not delta:
        return min(1.0, tail * ROUNDING)
    apart = 0.0
    for more in range(1, right + 1):
        if 1 / more <= apart:  # a tail is at most 1
            break
        apart = max(apart, tail_at_least(right - more, guesses, chance) / more)
    return min(1.0, (tail + 2 * canaries * delta * apart) * ROUNDING)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRun:
    """What is fixed before a training with `canaries`: how many are guessed, and what that can show. `ceiling`: the
    largest epsilon, at the delta of the claim, that would be refuted if every guess were right. `expected`: that which
    is refuted with probability 0.9, if each canary shows as much as the claim lets it, one Gaussian score each."""

    canaries: int
    guesses: int
    claim: StepClaim
    alpha: Fraction
    ceiling: float
    expected: float

    @classmethod
    def planned(cls, canaries: int, claim: StepClaim, *, alpha: Fraction) -> OneRun:
        """The number of guesses with which most is expected of a training with half the noise that it claims.
        ParameterError for too few canaries."""
        if canaries < FEWEST_CANARIES:
            raise ParameterError("canaries", f"{canaries} canaries", f"at least {FEWEST_CANARIES}")
        delta, apart = float(claim.target.point.delta), _separation(claim)
        level = float(alpha)

        def shown(guesses: int, mu: float) -> float:
            return _refuted(canaries, guesses, _expected_right(canaries, guesses, mu), delta, level)

        tried = sorted({2 * max(1, round(share * canaries / 2)) for share in SHARES if share * canaries >= 2})
        guesses = min(max(tried, key=lambda one: (shown(one, 2 * apart), one)), canaries // 2 * 2)
        return cls(
            canaries=canaries,
            guesses=guesses,
            claim=claim,
            alpha=alpha,
            ceiling=_refuted(canaries, guesses, guesses, delta, level),
            expected=shown(guesses, apart),
        )

    @property
    def can_refute(self) -> bool:
        """Whether any outcome refutes the claim."""
        return self._falls(self.guesses)

    @property
    def words(self) -> str:
        """What it can show, for whoever is about to train."""
        point = self.claim.target.point
        said = (
            f"one training with {self.canaries:,} canaries, {self.guesses:,} of them guessed: at delta "
            f"{float(point.delta):.3g} it shows an epsilon of at most {self.ceiling:.3g}, however much the training "
            f"gives away, and about {self.expected:.3g} if it gives away all that is claimed "
            f"({float(point.epsilon):.3g})"
        )
        return said if self.can_refute else f"{said}; so it cannot refute this claim"

    def evidence(self, scores: npt.ArrayLike, included: npt.ArrayLike) -> Evidence:
        """What a training says. `scores`: of each canary, larger where it was more likely in the data; NaN counts as
        the least. `included`: which were."""
        numbers, inside = np.asarray(scores, dtype=np.float64), np.asarray(included, dtype=bool)
        right = _right(numbers, inside, self.guesses)
        delta, level = float(self.claim.target.point.delta), float(self.alpha)
        lower = _refuted(self.canaries, self.guesses, right, delta, level)
        fell = self._falls(right)
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
            blind=None if np.unique(numbers[np.isfinite(numbers)]).size > 1 else "all canaries had the same score",
            float_leak=None,
        )

    def _falls(self, right: int) -> bool:
        """Whether so many right guesses refute a point of the claim, each at its share of alpha."""
        points = (self.claim.target.point, *self.claim.target.knots)
        share = float(self.alpha) / len(points)
        return any(
            chance_of_guesses(
                self.canaries, self.guesses, right, decimals.float_up(point.epsilon), decimals.float_up(point.delta)
            )
            <= share
            for point in points
            if decimals.float_up(point.epsilon) <= LARGEST
        )


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
    """The mu at which a Gaussian score of each canary shows the claimed epsilon at its delta."""
    point = claim.target.point
    if not point.delta:
        return float(min(point.epsilon, Decimal(20)))
    low, high = 0.0, 40.0
    for _ in range(ROUGHLY):
        middle = (low + high) / 2
        if epsilon_of_gdp(decimals.round_up(middle), point.delta) < point.epsilon:
            low = middle
        else:
            high = middle
    return high


def _expected_right(canaries: int, guesses: int, apart: float) -> int:
    """How many guesses are right with probability 0.9, of scores N(apart, 1) of those that are in, and N(0, 1)."""
    quantiles = np.arange(1, canaries + 1) / (canaries + 1)
    # scores of one of each side, at even quantiles: enough for what is to be expected
    scores = np.concatenate([ndtri(quantiles), ndtri(quantiles) + apart])
    inside = np.repeat([False, True], canaries)
    share = _right(scores, inside, 2 * guesses) / (2 * guesses)
    return math.floor(guesses * share - DEVIATIONS * math.sqrt(guesses * share * (1 - share)))
