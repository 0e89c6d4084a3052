"""How small the least error of a class is, by whether few users err often: one bit, and two searches by such bits.

>>> import numpy as np
>>> from dpledger.mechanisms.entropy import seeded
>>> from dpledger.mechanisms.learning.theory.concepts import ThresholdClass
>>> estimator = MinimumErrorEstimator(ThresholdClass(1023), resolution="0.1", epsilon=1)
>>> placed = estimator.under(Relation.REPLACE_ONE, Unit("user", max_contributions=100))
>>> placed.plan("0.05").needed
159
>>> x = np.random.default_rng(1).integers(0, 1023, (400, 100))
>>> found = placed.release(UserSample(x, x < 300), entropy=seeded(1)).value
>>> found.low, found.high, found.middle
(Decimal('0'), Decimal('0.1625'), Decimal('0.08125'))
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Literal, assert_never

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dpledger.accounting.composition import Composition, Repeated
from dpledger.accounting.guarantees import PureDP
from dpledger.decimals import Number, add, exact, multiply, round_down, round_up
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.learning.samples import UserSample
from dpledger.mechanisms.learning.theory.concepts import OneClass
from dpledger.mechanisms.learning.theory.needed_units import SampleSize
from dpledger.mechanisms.learning.theory.users.estimator_sizes import ErrorSearch, estimator_plan, rounds_for
from dpledger.mechanisms.learning.theory.users.gap import GRID_BITS, BinomialGap
from dpledger.mechanisms.learning.users.guesses import (
    MOVED,
    STEPS,
    GuessScan,
    LeastError,
    Tested,
    Told,
    excess_at,
    fraction_of,
    in_users,
    moved_by,
)
from dpledger.mechanisms.learning.users.mistakes import Mistakes, for_users, is_below_half, mistakes_in
from dpledger.mechanisms.learning.users.reading import ReadsUsers
from dpledger.mechanisms.noise import DiscreteLaplace, Sensitivity, draw
from dpledger.mechanisms.numeric.rows import rows_of
from dpledger.mechanisms.protocol import Release
from dpledger.number_fields import OpenProbability, Positive, Probability
from dpledger.relations import Relation, Unit, one_way
from dpledger.schema import Plain, given, plain, record, tag

__all__ = ["LeastError", "MinErrorTest", "MinimumErrorEstimator", "Tested"]

ONE, HALF = Decimal(1), Decimal("0.5")
FINEST = exact(Fraction(1, 2**40))
FINEST_SCAN = exact(Fraction(1, 2**12))  # each guess below one half is a test


@record
class MinErrorTest(ReadsUsers):
    """Answer whether the least error of a class is at most `guess` rather than at least `guess + resolution`.

    Counts the users whom every concept fails often: the fewest with more than `level` mistakes, less a fraction
    `threshold` of all users, plus noise, at most 0. True without a look at the data where guess + resolution >= 1. Data
    are a UserSample with as many examples a user as the unit may contribute; `strict`: see `RowLearner`.

    Noise is of scale 1/epsilon; max(threshold, 1 - threshold)/epsilon under add_remove and zero_out, where the fewest
    users and all users move together. Under the other relations that is not enough. Published as a mean over the users
    under add_remove, where that mean and its noise give their number away (Li-Wang-Ye 2024, lemma C.1); centred, as
    here, it is sound.

    Claim: epsilon-DP, whatever a user holds. Source: docs/proofs/learning_users.md, section 3.
    The value is True or False.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> test = dpl.learning.MinErrorTest(dpl.learning.ThresholdClass(8), guess="0.2", resolution="0.2", epsilon=1)
    >>> test = test.under(dpl.Relation.REPLACE_ONE, dpl.Unit("user", max_contributions=20))
    >>> x = np.random.default_rng(1).integers(0, 8, (300, 20))
    >>> test.release(dpl.learning.UserSample(x, x < 3), entropy=seeded(1)).value
    True
    """

    concept_class: OneClass
    guess: Probability
    resolution: OpenProbability
    epsilon: Positive
    strict: Annotated[bool, Field(strict=True)] = given(default=False)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["min_error_test"] = tag(default="min_error_test")

    def __post_init__(self) -> None:
        for_users(self.concept_class)
        _check_noise(self.epsilon, self.epsilon)

    def claim(self) -> PureDP:
        """The epsilon asked for."""
        return PureDP(self.epsilon)

    def parts(self) -> Composition:
        """The one answer."""
        return self.claim()

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with the level, the threshold and the sensitivity as they are used."""
        gap, values = self._gap, {"guess": self.guess, "resolution": self.resolution, "epsilon": self.epsilon}
        if gap is not None:
            values |= {"level": gap.level, "threshold": fraction_of(gap), "sensitivity": self._moved(gap)}  # type: ignore[dict-item]
        result: dict[str, Plain] = plain(
            {
                "concept_class": self.concept_class.described(),
                "examples": rows_of(self.unit),
                "strict": self.strict,
                "justification": MOVED,
                **values,
            }
        )
        return result

    @property
    def _points(self) -> int:
        return for_users(self.concept_class).points

    def release(self, data: UserSample, *, entropy: Entropy) -> Release[bool]:
        """Whether it is at most `guess`."""
        return Release(value=bool(self.sample(data, 1, entropy)[0]), parts=self.parts())

    def sample(self, data: UserSample, size: int, entropy: Entropy) -> npt.NDArray[np.bool_]:
        """So many independent answers."""
        mistakes = mistakes_in(self.concept_class, self._taken(data))
        return np.array([self._answered(mistakes, entropy).passed for _ in range(size)], dtype=np.bool_)

    def _answered(self, mistakes: Mistakes, entropy: Entropy) -> Tested:
        """The test, of users that were read."""
        gap = self._gap
        if gap is None:
            return Tested(self.guess, 0, ONE, passed=True)
        law, moved = self._noise(gap)
        excess = excess_at(gap, mistakes.beyond(gap.level).least, mistakes.users)
        noisy = draw(law, excess, sensitivity=moved, entropy=entropy)
        return Tested(self.guess, gap.level, fraction_of(gap), passed=noisy <= 0)

    @property
    def _gap(self) -> BinomialGap | None:
        """The laws of mistakes that are told apart; None where the answer is known."""
        upper = add(self.guess, self.resolution)
        return None if upper >= 1 else BinomialGap(rows_of(self.unit), self.guess, upper)

    def _noise(self, gap: BinomialGap) -> tuple[DiscreteLaplace, Sensitivity]:
        steps = moved_by(gap, one_way=one_way(self.relation))
        return _law(steps, self.epsilon), Sensitivity(steps, "l1", MOVED)

    def _moved(self, gap: BinomialGap) -> Decimal:
        """By how many users one user moves the number that noise is added to."""
        return in_users(int(self._noise(gap)[1].value))


@record
class MinimumErrorEstimator(ReadsUsers):
    """Find the least error of a class within 2 `resolution`, by tests of guesses at it.

    `search`: by "bisection" T = ceil(log2(1/resolution)) of them, each a `MinErrorTest` with epsilon/T at the middle of
    what is left; by "scan" of 0, resolution, 2 resolution, ... one after another, with one noisy threshold for all,
    until one passes: up to 1/resolution tests, but all of epsilon for each, so that it needs fewer users from about
    T = 9 on, and what it did not use of epsilon is given back. Under add_remove and zero_out a scan looks at all
    guesses beforehand, for the sensitivity. With `below_half` the search begins with [0, 1/2]: the class must hold
    both constants or the complement of every concept. Data as of a `MinErrorTest`. The tests, with their levels, are
    part of the answer.

    Of the published proof (Li-Wang-Ye 2024, lemma 4.5): levels of a bisection depend on the data through earlier tests,
    so that a union over T tests is not enough; plans here take one over all levels that the search may come to.

    Claim: T (epsilon/T)-DP answers, chosen one after another; of a scan one sparse vector of epsilon.
    Source: docs/proofs/learning_users.md, section 3; Dwork-Roth 2014, algorithm 1.
    The value has `low`, `high` and `middle`, each in [0, 1].

    >>> from dpledger.mechanisms.entropy import seeded
    >>> estimator = dpl.learning.MinimumErrorEstimator(dpl.learning.ThresholdClass(8), resolution="0.2", epsilon=1)
    >>> estimator = estimator.under(dpl.Relation.REPLACE_ONE, dpl.Unit("user", max_contributions=20))
    >>> x = np.random.default_rng(1).integers(0, 8, (300, 20))
    >>> found = estimator.release(dpl.learning.UserSample(x, x < 3), entropy=seeded(1)).value
    >>> float(found.low), float(found.high)
    (0.0, 0.325)
    >>> thresholds = dpl.learning.ThresholdClass(8)
    >>> scan = dpl.learning.MinimumErrorEstimator(thresholds, resolution="0.2", epsilon=1, search="scan")
    >>> scan = scan.under(dpl.Relation.REPLACE_ONE, dpl.Unit("user", max_contributions=20))
    >>> found = scan.release(dpl.learning.UserSample(x, x < 3), entropy=seeded(1)).value
    >>> float(found.low), float(found.high), len(found.tests)
    (0.0, 0.2, 1)
    """

    concept_class: OneClass
    resolution: Annotated[OpenProbability, Field(ge=FINEST)]
    epsilon: Positive
    below_half: Annotated[bool, Field(strict=True)] = given(default=False)
    search: ErrorSearch = given(default="bisection")
    strict: Annotated[bool, Field(strict=True)] = given(default=False)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["minimum_error_estimator"] = tag(default="minimum_error_estimator")

    def __post_init__(self) -> None:
        known = for_users(self.concept_class)
        if self.below_half and not is_below_half(known):
            expected = "False: the class holds neither both constants nor the complement of every concept"
            raise ParameterError("below_half", True, expected)
        if self.below_half and self.resolution >= HALF:
            raise ParameterError("resolution", self.resolution, "a number below 1/2: the least error is at most that")
        self._check_search()

    @property
    def rounds(self) -> int:
        """How many tests there are; of a scan at most."""
        match self.search:
            case "bisection":
                return rounds_for(self.resolution) - (1 if self.below_half else 0)
            case "scan":
                return self._scan.most
            case _:
                assert_never(self.search)

    @property
    def each(self) -> Decimal:
        """The epsilon of each test of a bisection: a part of the whole, rounded down; of a scan that of all of them."""
        match self.search:
            case "bisection":
                share = round_down(Fraction(self.epsilon) / self.rounds)
            case "scan":
                share = self.epsilon
            case _:
                assert_never(self.search)
        if not share:
            raise ParameterError("epsilon", self.epsilon, f"at least {self.rounds} times 10^-60")
        return share

    def claim(self) -> PureDP:
        """What all tests cost: epsilon, but for rounding."""
        match self.search:
            case "bisection":
                return PureDP(multiply(self.each, self.rounds))
            case "scan":
                return PureDP(self.epsilon)
            case _:
                assert_never(self.search)

    def parts(self) -> Composition:
        """The tests; of a scan one sparse vector leaf, without an outcome: priced at its cap."""
        match self.search:
            case "bisection":
                return Repeated(PureDP(self.each), times=self.rounds)
            case "scan":
                return self._scan.law
            case _:
                assert_never(self.search)

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with the number of tests and what each is noised by."""
        result: dict[str, Plain] = plain(
            {
                "concept_class": self.concept_class.described(),
                "examples": rows_of(self.unit),
                "strict": self.strict,
                "resolution": self.resolution,
                "epsilon": self.epsilon,
                "below_half": self.below_half,
                "search": self.search,
                "tests": self.rounds,
                "justification": MOVED,
                **self._noises(),
            }
        )
        return result

    @property
    def _points(self) -> int:
        return for_users(self.concept_class).points

    def release(self, data: UserSample, *, entropy: Entropy) -> Release[LeastError]:
        """An interval, and the tests that led to it."""
        found, parts = self._found(mistakes_in(self.concept_class, self._taken(data)), entropy)
        return Release(value=found, parts=parts)

    def plain_of(self, value: LeastError) -> Told:
        """The interval and its tests."""
        return value.told()

    def value_of(self, plain: Told) -> LeastError:
        """The interval, as `plain_of` says it."""
        return LeastError.retold(plain)

    def searched(self, mistakes: Mistakes, entropy: Entropy) -> LeastError:
        """The search, among users that were read."""
        return self._found(mistakes, entropy)[0]

    def _found(self, mistakes: Mistakes, entropy: Entropy) -> tuple[LeastError, Composition]:
        """What was found, and what it cost: of a scan, the tests that it came to."""
        match self.search:
            case "bisection":
                return self._bisected(mistakes, entropy), self.parts()
            case "scan":
                return self._scan.searched(mistakes, entropy)
            case _:
                assert_never(self.search)

    def _bisected(self, mistakes: Mistakes, entropy: Entropy) -> LeastError:
        low, high = Decimal(0), self._top
        tests: list[Tested] = []
        for _ in range(self.rounds):
            middle = multiply(add(low, high), HALF)
            tests.append(self._test(middle)._answered(mistakes, entropy))
            low, high = (low, middle) if tests[-1].passed else (middle, high)
        return LeastError(low, min(ONE, add(high, self.resolution)), tuple(tests))

    def plan(self, beta: Number) -> SampleSize:
        """How many users are enough for the interval to hold the least error, but with probability beta."""
        known = for_users(self.concept_class)
        return estimator_plan(known, rows_of(self.unit), self.resolution, self.epsilon, beta, self.search)

    @property
    def _top(self) -> Decimal:
        """What the least error is at most, whatever the data."""
        return HALF if self.below_half else ONE

    @property
    def _scan(self) -> GuessScan:
        return GuessScan(
            examples=rows_of(self.unit),
            resolution=self.resolution,
            epsilon=self.epsilon,
            top=self._top,
            one_way=one_way(self.relation),
        )

    def _noises(self) -> dict[str, object]:
        match self.search:
            case "bisection":
                return {"epsilon_of_each": self.each, "sensitivity": 1}
            case "scan":
                scan = self._scan
                scales = {"threshold_scale": scan.law.threshold_scale, "query_scale": scan.law.query_scale}
                return {**scales, "sensitivity": in_users(scan.moved)}
            case _:
                assert_never(self.search)

    def _check_search(self) -> None:
        """ParameterError, before anything is spent, where a search is too long or its noise is not drawn."""
        match self.search:
            case "bisection":
                _check_noise(self.each, self.epsilon)
            case "scan":
                if self.resolution < FINEST_SCAN:
                    raise ParameterError("resolution", self.resolution, f"at least {FINEST_SCAN}, of a scan")
                self._scan.check()
            case _:
                assert_never(self.search)

    def _test(self, guess: Decimal) -> MinErrorTest:
        return MinErrorTest(
            concept_class=self.concept_class,
            guess=guess,
            resolution=self.resolution,
            epsilon=self.each,
            relation=self.relation,
            unit=self.unit,
        )


def _law(steps: int, epsilon: Decimal) -> DiscreteLaplace:
    return DiscreteLaplace(scale=round_up(Fraction(steps) / Fraction(epsilon)))


def _check_noise(each: Decimal, epsilon: Decimal) -> None:
    """ParameterError, before anything is spent, where the noise of a test is beyond what can be drawn."""
    try:
        _law(STEPS, each)
    except ParameterError:
        raise ParameterError("epsilon", epsilon, f"more: noise of scale 2^{GRID_BITS}/{each} is not drawn") from None
