"""Thresholds, learned privately by statistical queries that follow the answers: a noisy search by halves.

    v = how often x >= mid and y = 1:  above tau, and the threshold is above mid
    w = how often x <  mid and y = 0:  above tau, and it is at mid or below
    neither:                           it is mid

Asked is the sum of psi - tau over all records: whether it is above 0 tells whether the mean is above tau, and needs no
number of records, which may be private. Source: Haghtalab 2020, CS6781, lecture 25, section 3. Proofs:
docs/proofs/learning_queries.md, section 5.

>>> from dpledger.mechanisms.entropy import seeded
>>> learner = PrivateSQThresholdLearner(1023, epsilon=4).under(Relation.REPLACE_ONE, Unit())
>>> learner.queries, learner.plan().needed
(20, 4061)
>>> rows = LabeledSample([300] * 1000 + [301] * 1000, [1] * 1000 + [0] * 1000)
>>> learner.release(rows, entropy=seeded(1)).value.params
{'place': '301'}
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dpledger.accounting.composition import Composition
from dpledger.accounting.guarantees import Failure, PureDP
from dpledger.decimals import text
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.learning.domains import NumberedPoints
from dpledger.mechanisms.learning.hypotheses import Concept
from dpledger.mechanisms.learning.queries.oracle import StatisticalQueryOracle
from dpledger.mechanisms.learning.queries.query_run import RowQuery
from dpledger.mechanisms.learning.row_learner import RowLearner, fits_within
from dpledger.mechanisms.learning.samples import LabeledSample, labels_of, points_of
from dpledger.mechanisms.learning.theory.concepts import MOST_POINTS, ThresholdClass
from dpledger.mechanisms.learning.theory.needed_units import SampleSize
from dpledger.mechanisms.protocol import Release
from dpledger.number_fields import OpenProbability, Positive, Whole
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, given, plain, record, tag

__all__ = ["PrivateSQThresholdLearner", "searched"]

_FINEST = 10**9  # the denominator of tau
_CHAINS = 2


@record
class PrivateSQThresholdLearner(RowLearner):
    """Learn a threshold 1[x < u] on {0..points-1}, where one fits all examples, by at most 2 ceil(log2(points+1))
    statistical queries: epsilon-DP.

    `alpha`, `beta`: where there are as many examples as `plan` says, the threshold errs on at most alpha of them, but
    with probability beta. All queries are charged, also those that the search did not need: who runs `searched` on an
    oracle pays for those that were asked. `strict`: see `RowLearner`.
    The value is a hypothesis: its `predict(rows)` gives uint8[rows], 0 or 1.

    >>> learner = dpl.learning.PrivateSQThresholdLearner(1023, epsilon=4)
    >>> learner.queries
    20
    """

    points: Annotated[Whole, Field(strict=True, ge=1, le=MOST_POINTS)]
    epsilon: Positive
    alpha: OpenProbability = given(default=Decimal("0.1"))
    beta: OpenProbability = given(default=Decimal("0.05"))
    strict: Annotated[bool, Field(strict=True)] = given(default=False)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["private_sq_threshold"] = tag(default="private_sq_threshold")

    def __post_init__(self) -> None:
        if not self.tolerance:
            raise ParameterError("alpha", self.alpha, "a number of at least 2e-9")
        _ = self.oracle

    @property
    def domain(self) -> NumberedPoints:
        """The rows that it learns from."""
        return NumberedPoints(self.points)

    @property
    def tolerance(self) -> Fraction:
        """tau, half of alpha: a ratio of whole numbers of at most ten digits."""
        half = Fraction(self.alpha) / 2
        return half if half.denominator <= _FINEST else Fraction(int(half * _FINEST), _FINEST)

    @property
    def queries(self) -> int:
        """The most queries of a search."""
        return 2 * self.points.bit_length()

    @property
    def oracle(self) -> StatisticalQueryOracle:
        """The oracle that it asks: sums of q psi - p, for tau = p/q."""
        least = self.tolerance
        return StatisticalQueryOracle(
            epsilon=self.epsilon,
            queries=self.queries,
            mode="uniform",
            values="whole",
            low=-least.numerator,
            high=least.denominator - least.numerator,
            chains=_CHAINS,
            relation=self.relation,
            unit=self.unit,
        )

    def claim(self) -> PureDP:
        """epsilon, for all queries together. Claim: as that of the oracle; the answer is computed from its answers.
        Source: docs/proofs/learning_queries.md, sections 1 and 5."""
        return self.oracle.claim()

    def parts(self) -> Composition:
        """Those of the oracle."""
        return self.oracle.parts()

    def failures(self) -> tuple[Failure, ...]:
        """What is promised of the answer; the claim itself has no delta."""
        return (fits_within("the threshold", self.alpha, self.beta, self.plan()),)

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with the noise of its queries, of q psi - p for tau = p/q, and the records that the promise
        needs."""
        asked = self.oracle.parameters()
        values = {
            "points": str(self.points),
            "epsilon": self.epsilon,
            "alpha": self.alpha,
            "beta": self.beta,
            "strict": self.strict,
            "queries": self.queries,
            "tau": {"p": self.tolerance.numerator, "q": self.tolerance.denominator},
            "needed": str(self.plan().needed),
            **{name: asked[name] for name in ("scale", "sensitivity", "justification")},
        }
        result: dict[str, Plain] = plain(values)
        return result

    def plan(self) -> SampleSize:
        """How many records are enough for alpha and beta where a threshold fits."""
        asked = self.oracle.plan(Decimal(self.tolerance.numerator), self.beta)
        what = f"an error of at most {text(self.alpha)}, but with probability {text(self.beta)}, where a threshold fits"
        return dataclasses.replace(asked, target=what, bound=f"threshold by {self.queries} statistical queries")

    def release(self, data: LabeledSample, *, entropy: Entropy) -> Release[Concept]:
        """The threshold that the search ends at."""
        place = self._found(self.oracle, self._read(self._taken(data, entropy)), entropy)
        return Release(value=self.value_of(place), parts=self.parts())

    def plain_of(self, value: Concept) -> int:
        """The place of the threshold: its class follows from the parameters."""
        return value.place

    def value_of(self, plain: int) -> Concept:
        """The threshold at a place, as `plain_of` says it."""
        return Concept(ThresholdClass(self.points), plain)

    def _sampled(self, taken: LabeledSample, size: int, entropy: Entropy) -> npt.NDArray[Any]:
        """Their places."""
        read, oracle = self._read(taken), self.oracle
        found = [self._found(oracle, read, entropy) for _ in range(size)]
        return np.array(found, dtype=np.int64 if self.points < 2**63 else object)

    def _read(self, taken: LabeledSample) -> LabeledSample:
        """The records that are no null record, as points and labels."""
        rows = points_of(taken.x, self.points)
        return LabeledSample(rows.points[rows.known], labels_of(taken.y)[rows.known])

    def _found(self, oracle: StatisticalQueryOracle, read: LabeledSample, entropy: Entropy) -> int:
        least = self.tolerance
        run = oracle.begun(read, entropy)

        def above(indicator: RowQuery) -> bool:
            def centred(x: npt.NDArray[Any], y: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
                hit: npt.NDArray[np.int64] = indicator(x, y).astype(np.int64)
                return hit * least.denominator - least.numerator

            answer = run.ask(centred)
            assert isinstance(answer, int)
            return answer > 0

        return searched(self.points, above)


def searched(points: int, above: Callable[[RowQuery], bool]) -> int:
    """The threshold, 0 to `points`, that a search by halves ends at. `above`: whether the answer to an indicator is
    above tau; it is asked at most 2 ceil(log2(points+1)) times.

    >>> rows = np.arange(10)
    >>> searched(10, lambda psi: psi(rows, rows < 4).mean() > 0.05)
    4
    """
    low, high = 0, points
    while low < high:
        middle = (low + high) // 2
        if above(_beyond(middle)):
            low = middle + 1
        elif above(_before(middle)):
            high = middle
        else:
            return middle
    return low


def _beyond(place: int) -> RowQuery:
    """Whether a threshold at `place` would be too low for a record."""
    return lambda x, y: (np.asarray(x) >= np.uint64(place)) & (np.asarray(y) == 1)


def _before(place: int) -> RowQuery:
    """Whether it would be too high."""
    return lambda x, y: (np.asarray(x) < np.uint64(place)) & (np.asarray(y) == 0)
