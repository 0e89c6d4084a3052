"""Learn a threshold from users with many examples each, by halving an interval.

>>> import numpy as np
>>> from dpledger.mechanisms.entropy import seeded
>>> learner = UserLevelThresholdLearner(ThresholdClass(2**20), epsilon=1, alpha="0.1")
>>> learner = learner.under(Relation.REPLACE_ONE, Unit("user", max_contributions=100))
>>> learner.plan().needed
21251
>>> x = np.random.default_rng(1).integers(0, 2**20, (3000, 100))
>>> found = learner.release(UserSample(x, x < 2**18), entropy=seeded(1)).value
>>> abs(found.place / 2**18 - 1) < 0.4
True
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import Field, PlainValidator

from dpledger.accounting.composition import Composition, Repeated, Sequence
from dpledger.accounting.guarantees import BoundedRange, PureDP
from dpledger.decimals import Number, add, round_down
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.learning.domains import NumberedPoints
from dpledger.mechanisms.learning.hypotheses import Concept
from dpledger.mechanisms.learning.samples import UserSample
from dpledger.mechanisms.learning.theory.concepts import ThresholdClass
from dpledger.mechanisms.learning.theory.needed_units import SampleSize
from dpledger.mechanisms.learning.theory.users.gap import BinomialGap
from dpledger.mechanisms.learning.theory.users.median_sizes import LEAST_MASS, mass_gap
from dpledger.mechanisms.learning.theory.users.threshold_sizes import (
    Comparison,
    Halving,
    Split,
    comparisons_in,
    each_round,
    planned_halving,
    threshold_users,
)
from dpledger.mechanisms.learning.users.comparisons import LeastCount, comparison_law, least_of
from dpledger.mechanisms.learning.users.guesses import Told
from dpledger.mechanisms.learning.users.least_error import LeastError, MinimumErrorEstimator
from dpledger.mechanisms.learning.users.middles import MOVED, PointsByUser
from dpledger.mechanisms.learning.users.reading import ReadsUsers, users_of
from dpledger.mechanisms.learning.users.sweep import ThresholdCounts, ThresholdSweeps
from dpledger.mechanisms.numeric.rows import rows_of
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.selection.choice import Choice
from dpledger.number_fields import OpenProbability, OptionalPositive, Positive
from dpledger.relations import Relation, Unit, one_way
from dpledger.schema import Plain, given, plain, record, tag

__all__ = ["LearnedThreshold", "Round", "UserLevelThresholdLearner"]

Side: TypeAlias = Literal["left", "here", "right"]

_MOVED = "a user makes more mistakes than the level, or has more points than it on a side, once or not at all"


def _thresholds(value: object) -> ThresholdClass:
    if not isinstance(value, ThresholdClass):
        raise ParameterError("concept_class", type(value).__name__, "ThresholdClass(points)")
    return value


@dataclass(frozen=True, slots=True)
class Round:
    """A place, and where thresholds make the fewest mistakes: to the left of it, to the right, or `here`. `heard`: the
    noisy counts of users, where these are published."""

    place: int
    side: Side
    heard: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LearnedThreshold:
    """A threshold, and how it was found: the search for the least error of one, then the rounds."""

    concept: Concept
    least_error: LeastError
    rounds: tuple[Round, ...]

    def __str__(self) -> str:
        return str(self.concept)

    @property
    def place(self) -> int:
        """Where it stands in the class: 1[x < u] at u, 1[x >= u] after all of these."""
        return self.concept.place

    def predict(self, x: object) -> npt.NDArray[np.uint8]:
        """Its label of each row of `x`."""
        return self.concept.predict(x)

    @property
    def params(self) -> Mapping[str, Plain]:
        """Its place, in text: it may be beyond every word."""
        return self.concept.params

    @property
    def output_in_class(self) -> bool:
        """It is one of the class."""
        return self.concept.output_in_class


@record
class UserLevelThresholdLearner(ReadsUsers):
    """Learn a threshold, on any data, from users with m examples each. Li-Wang-Ye 2024, algorithm 1 and theorem 5.2.

    First the least error of a threshold is estimated. Then, in rounds, a place in the middle of an interval is chosen
    (`UserLevelMedian`), and of the counts of users with many mistakes the least one: left of the place, right of it, or
    there. What it chose is the next interval, of three quarters of the mass. Before the rounds, of a class with both
    directions, the one is chosen whose best threshold has the least count.

    `concept_class`: a ThresholdClass. Data are a UserSample with as many examples a user as the unit may contribute;
    `strict`: see `RowLearner`.
    `alpha`: by how much the error may be above the least; `beta`: how likely it may be more. `resolution` of the
    estimate, `margin` between the errors that the counts tell apart: the planner's choice where they are not given;
    what 2 resolution + margin leave of alpha is the mass at which rounds end. `estimate_share` and `median_share` of
    epsilon; comparisons have the rest. `comparison`: `sharp` (permute-and-flip), `noisy_max` (noise on each count, of
    which only the place of the least is published), `paper` (three noisy counts, which are published; not
    those of the directions).

    Under add_remove and zero_out all counts move in one direction, and choices are twice as sharp; under label_flip
    medians cost nothing. Of the published proof: the level of the counts depends on the data through the estimate, so
    that its union bound must hold for all levels that may come out; and the medians need a known bound of the mass.
    Claim: epsilon-DP, whatever a user holds. Source: docs/proofs/learning_median.md.
    The value is a hypothesis: its `predict(rows)` gives uint8[rows], 0 or 1.

    >>> learner = dpl.learning.UserLevelThresholdLearner(dpl.learning.ThresholdClass(64), epsilon=1, alpha="0.2")
    >>> learner.claim()
    PureDP(epsilon=Decimal('1'), kind='pure_dp')
    """

    concept_class: Annotated[ThresholdClass, PlainValidator(_thresholds)]
    epsilon: Positive
    alpha: OpenProbability
    beta: OpenProbability = given(default=Decimal("0.1"))
    comparison: Comparison = given(default="sharp")
    estimate_share: OpenProbability = given(default=Decimal("0.25"))
    median_share: OpenProbability = given(default=Decimal("0.25"))
    resolution: OptionalPositive = given(default=None)
    margin: OptionalPositive = given(default=None)
    strict: Annotated[bool, Field(strict=True)] = given(default=False)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["user_level_threshold_learner"] = tag(default="user_level_threshold_learner")

    def __post_init__(self) -> None:
        split = self.split
        if self.resolution is not None and self.margin is not None and not self._left > LEAST_MASS:
            raise ParameterError("margin", self.margin, f"with 2 x {self.resolution} less than alpha = {self.alpha}")
        if not (split.estimating and split.halving and split.comparing):
            raise ParameterError("epsilon", self.epsilon, "more: each share of it is rounded down to 60 places")
        if self.resolution is not None and self.margin is not None:
            self._check_laws(self.halving)

    @property
    def user_domain(self) -> NumberedPoints:
        """The points that examples are."""
        return NumberedPoints(self.concept_class.points)

    @property
    def split(self) -> Split:
        """Epsilon in three."""
        return Split.of(self.epsilon, self.estimate_share, self.median_share)

    @property
    def halving(self) -> Halving:
        """What a run is made of."""
        if self.resolution is None or self.margin is None:
            return planned_halving(self.plan())
        return Halving(resolution=self.resolution, margin=self.margin, remaining=self._left)

    @property
    def estimator(self) -> MinimumErrorEstimator:
        """The search for the least error."""
        return MinimumErrorEstimator(
            concept_class=self.concept_class,
            resolution=self.halving.resolution,
            epsilon=self.split.estimating,
            relation=self.relation,
            unit=self.unit,
        )

    def claim(self) -> PureDP:
        """Epsilon; without the share of the medians under label_flip."""
        split = self.split
        free = self.relation is Relation.LABEL_FLIP
        return PureDP(add(split.estimating, split.comparing) if free else self.epsilon)

    def parts(self) -> Composition:
        """The estimator's; the medians, one a round; the comparisons, one a round and one of two directions."""
        halving = self.halving
        median = BoundedRange(0 if self.relation is Relation.LABEL_FLIP else self._choosing(halving))
        comparison, times = PureDP(self._comparing(halving)), comparisons_in(halving.rounds, self.concept_class)
        medians, comparisons = Repeated(median, times=halving.rounds), Repeated(comparison, times=times)
        return Sequence((self.estimator.parts(), medians, comparisons))

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with how epsilon is split and which bounds of the mass the rounds begin with."""
        halving, split = self.halving, self.split
        result: dict[str, Plain] = plain(
            {
                "concept_class": self.concept_class.described(),
                "examples": rows_of(self.unit),
                "strict": self.strict,
                "epsilon": self.epsilon,
                "epsilon_estimate": split.estimating,
                "epsilon_medians": split.halving,
                "epsilon_comparisons": split.comparing,
                "comparison": self.comparison,
                "alpha": self.alpha,
                "resolution": halving.resolution,
                "margin": halving.margin,
                "remaining": halving.remaining,
                "mass_bounds": list(halving.bounds),
                "sensitivity": 1,
                "justification": _MOVED,
            }
        )
        return result

    @property
    def _points(self) -> int:
        return self.concept_class.points

    def release(self, data: UserSample, *, entropy: Entropy) -> Release[LearnedThreshold]:
        """A threshold, and how it was found."""
        return Release(value=self._read(data).learned(entropy), parts=self.parts())

    def plain_of(self, value: LearnedThreshold) -> tuple[int, Told, tuple[tuple[int, str, tuple[int, ...]], ...]]:
        """The place, the search for the least error and the rounds."""
        rounds = tuple((one.place, one.side, one.heard) for one in value.rounds)
        return value.place, value.least_error.told(), rounds

    def value_of(self, plain: tuple[int, Told, tuple[tuple[int, Side, tuple[int, ...]], ...]]) -> LearnedThreshold:
        """The threshold and how it was found, as `plain_of` says it."""
        place, told, rounds = plain
        made = tuple(Round(*one) for one in rounds)
        return LearnedThreshold(Concept(self.concept_class, place), LeastError.retold(told), made)

    def sampled_of(self, value: LearnedThreshold) -> int:
        """The place of the threshold, as `sample` gives it."""
        return value.place

    def sample(self, data: UserSample, size: int, entropy: Entropy) -> npt.NDArray[Any]:
        """The thresholds of `size` independent releases."""
        run = self._read(data)
        found = [run.learned(entropy).place for _ in range(size)]
        return np.array(found, dtype=np.int64 if self.concept_class.size <= 2**63 else object)

    def plan(self, beta: Number | None = None) -> SampleSize:
        """How many users are enough for an error of at most alpha above the least, but with probability beta (default:
        its own). InfeasiblePlan where no resolution or margin leaves anything of alpha."""
        return threshold_users(
            self.concept_class,
            rows_of(self.unit),
            self.alpha,
            self.beta if beta is None else beta,
            epsilon=self.epsilon,
            comparison=self.comparison,
            estimate_share=self.estimate_share,
            median_share=self.median_share,
            resolution=self.resolution,
            margin=self.margin,
            monotone=one_way(self.relation),
        )

    def _check_laws(self, halving: Halving) -> None:
        """ParameterError, before anything is spent, where a step's share of epsilon is too small to draw by."""
        _ = self.estimator
        try:
            self._choice(halving)
            comparison_law(self.comparison, self._comparing(halving), monotone=one_way(self.relation))
        except ParameterError:
            expected = f"more: its share in each of {halving.rounds} rounds is too small to draw by"
            raise ParameterError("epsilon", self.epsilon, expected) from None

    def _choosing(self, halving: Halving) -> Decimal:
        """What a median may spend."""
        return each_round(self.split.halving, halving.rounds)

    def _comparing(self, halving: Halving) -> Decimal:
        """What a comparison may spend."""
        return each_round(self.split.comparing, comparisons_in(halving.rounds, self.concept_class))

    def _choice(self, halving: Halving) -> Choice:
        """Of a median."""
        return Choice.weighing(self._choosing(halving), moved=1, why=MOVED, monotone=one_way(self.relation))

    @property
    def _left(self) -> Decimal:
        """What of alpha is left for the last interval."""
        assert self.resolution is not None, "asked for where both are there"
        assert self.margin is not None, "asked for where both are there"
        return round_down(Fraction(self.alpha) - 2 * Fraction(self.resolution) - Fraction(self.margin))

    def _automatic(self) -> dict[str, Any]:
        halving = self.halving
        return {"resolution": halving.resolution, "margin": halving.margin}

    def _read(self, data: UserSample) -> _Run:
        self._taken(data)
        halving, users = self.halving, users_of(data, self.concept_class.points)
        return _Run(
            learner=self,
            estimator=self.estimator,
            levels=tuple(mass_gap(users.examples, mass).level for mass in halving.bounds),
            choice=self._choice(halving),
            comparing=self._comparing(halving),
            monotone=one_way(self.relation),
            sweeps=ThresholdSweeps.of(self.concept_class, users),
            points=PointsByUser.of(users.points),
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class _Run:
    """Users that were read, and what is done with them. `levels`: of the median of each round."""

    learner: UserLevelThresholdLearner
    estimator: MinimumErrorEstimator
    levels: tuple[int, ...]
    choice: Choice
    comparing: Decimal
    monotone: bool
    sweeps: ThresholdSweeps
    points: PointsByUser

    def learned(self, entropy: Entropy) -> LearnedThreshold:
        """One run."""
        concepts, margin = self.learner.concept_class, self.learner.halving.margin
        least = self.estimator.searched(self.sweeps, entropy)
        above = add(least.high, margin)
        if above >= 1:
            return LearnedThreshold(Concept(concepts, 0), least, ())
        level = BinomialGap(rows_of(self.learner.unit), least.high, above).level
        ways = [sweep.users_above(level) for sweep in self.sweeps.ways]
        low, high, path = 0, concepts.points, list[Round]()
        way = self._least([counts.least(low, high) for counts in ways], entropy).place if len(ways) > 1 else 0
        for level in self.levels:
            if low == high:
                break
            w = self.points.sides(low, high, more_than=level).drawn(self.choice, entropy)
            path.append(self._compared(ways[way], low, w, high, entropy))
            low, high = _around(low, w, high)[path[-1].side]
        return LearnedThreshold(Concept(concepts, way * (concepts.points + 1) + low), least, tuple(path))

    def _compared(self, counts: ThresholdCounts, low: int, w: int, high: int, entropy: Entropy) -> Round:
        standing = {side: (first, last) for side, (first, last) in _around(low, w, high).items() if first <= last}
        found = self._least([counts.least(first, last) for first, last in standing.values()], entropy)
        return Round(w, list(standing)[found.place], found.heard)

    def _least(self, counts: list[int], entropy: Entropy) -> LeastCount:
        comparison = self.learner.comparison
        return least_of(counts, comparison, self.comparing, monotone=self.monotone, entropy=entropy)


def _around(low: int, w: int, high: int) -> dict[Side, tuple[int, int]]:
    return {"left": (low, w - 1), "here": (w, w), "right": (w + 1, high)}
