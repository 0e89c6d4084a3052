"""The class with the most votes of an ensemble, under noise: every query is answered and paid for.

    GNMax:       votes of each class + N(0, sigma^2);  the class with the most
    Confident:   first, the most votes of a class + N(0, threshold_sigma^2) >= threshold;  else UNSTABLE, and no maximum

One unit alters one model, whose vote moves two counts by one each: two discrete Gaussians of sensitivity 1, rho =
1/sigma^2 a query; the largest count moves by one, rho = 1/(2 threshold_sigma^2) a test. Where nearly all models agree
the distance test of `PrivateClassifier` answers for nothing; where they do not, this is cheaper by far. Source:
Papernot et al. 2018, section 4; docs/proofs/stability.md, section 11.

>>> NoisyVotes(sigma=40, chunks=250, max_queries=100).claim()
ZCDP(rho=Decimal('0.0625'), delta=Decimal('0'), kind='zcdp')
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, StringConstraints

from dpledger.accounting.composition import Composition, DiscreteGaussianLaw, Repeated, Sequence
from dpledger.accounting.guarantees import ZCDP, Failure
from dpledger.accounting.rules import cost
from dpledger.decimals import multiply
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import DiscreteGaussian, Sensitivity, draw
from dpledger.mechanisms.protocol import fixed
from dpledger.mechanisms.stability.answers import UNSTABLE, StableAnswer, StableCounts
from dpledger.mechanisms.stability.distances import grouped
from dpledger.mechanisms.stability.ensembles.asking import AboutRows, AsRows, taken
from dpledger.mechanisms.stability.ensembles.chunkers import Hashed, by_relation, described, moved
from dpledger.mechanisms.stability.ensembles.ensemble import FEWEST_CHUNKS, MOST_CHUNKS, Ensemble, votes_of
from dpledger.mechanisms.stability.ensembles.votes import MOST_CLASSES, counts
from dpledger.mechanisms.stability.over_ensemble import ASSUMES, READ_AS, check_ensemble
from dpledger.mechanisms.stability.stable_tests import MOST_QUERIES
from dpledger.mechanisms.threshold.conversation import OneTestAQuery
from dpledger.number_fields import OptionalPositive, Positive, Tally, Whole
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, given, plain, record, tag

__all__ = ["NoisyVotes"]

MOVES = "a unit is in one chunk and alters one vote, which leaves one class for another"
TESTED = "a unit alters one vote, and the largest count by at most one"
ROOT_2 = Decimal("1.41421356238")  # from above

Queries = Annotated[Whole, Field(strict=True, ge=1, le=MOST_QUERIES)]


@record
class NoisyVotes:
    """The class with the most votes, under Gaussian noise, for each of a stream of rows (GNMax).

    `sigma`: of the noise on the votes of each class. `chunks`: as many as the ensemble has. `max_queries`: how many may
    be asked, at most. `classes`: public. With `threshold` (in votes) and `threshold_sigma`, Confident-GNMax: a query
    whose largest count does not pass the noisy threshold is UNSTABLE and pays for the test alone; of the others at most
    `max_answers` are answered, then the run halts. `chunker`, `learner`: as of `PrivateClassifier`.
    Claim: rho = max_queries/sigma^2; Confident: max_queries/(2 threshold_sigma^2) + max_answers/sigma^2. Without a
    threshold, queries that a ledger never granted come back. Two units of add_remove where two chunks may change.
    An answer is the number of a class, from 0 on, or UNSTABLE. Ties go to the smallest class.

    >>> dpl.stability.NoisyVotes(sigma=40, chunks=250, max_queries=300).claim().rho
    Decimal('0.1875')
    >>> confident = dpl.stability.NoisyVotes(
    ...     sigma=40, chunks=250, max_queries=300, threshold=200, threshold_sigma=100, max_answers=50
    ... )
    >>> confident.claim().rho
    Decimal('0.04625')
    """

    sigma: Positive
    chunks: Annotated[Whole, Field(strict=True, ge=FEWEST_CHUNKS, le=MOST_CHUNKS)]
    max_queries: Queries
    classes: Annotated[Whole, Field(strict=True, ge=1, le=MOST_CLASSES)] = given(default=2)
    threshold: Tally | None = given(default=None)
    threshold_sigma: OptionalPositive = given(default=None)
    max_answers: Queries | None = given(default=None)
    chunker: Literal["auto", "slots", "random"] | Hashed = given(default="auto")
    learner: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = given(default=None)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["noisy_votes"] = tag(default="noisy_votes")

    def __post_init__(self) -> None:
        confident = {
            "threshold": self.threshold,
            "threshold_sigma": self.threshold_sigma,
            "max_answers": self.max_answers,
        }
        missing = [name for name, value in confident.items() if value is None]
        if 0 < len(missing) < len(confident):
            raise ParameterError(missing[0], "nothing", "all of threshold, threshold_sigma and max_answers, or none")
        if self.max_answers is not None and self.max_answers > self.max_queries:
            raise ParameterError("max_answers", self.max_answers, f"at most max_queries, {self.max_queries}")
        if self.relation is not None and self.chunker != "auto":
            moved(self.chunker, self.relation)
        self.claim()

    def under(self, relation: Relation, unit: Unit) -> Self:
        """The same mechanism for this relation and unit, its chunker fixed. RelationError where the chunker bounds
        nothing under it."""
        own_relation, own_unit = fixed(self.relation, self.unit, relation, unit)
        chunker = by_relation(own_relation) if self.chunker == "auto" else self.chunker
        return dataclasses.replace(self, relation=own_relation, unit=own_unit, chunker=chunker)

    def claim(self) -> ZCDP:
        """The sum of rho of all draws."""
        rho = cost(self.parts(), self.relation or Relation.ADD_REMOVE).rho
        assert rho is not None, "Gaussians have one"
        return ZCDP(rho)

    def parts(self) -> Composition:
        """Two discrete Gaussians a query; Confident: one for each test, and two for each answer."""
        noisy = self._around(Repeated(DiscreteGaussianLaw(self.sigma, 1), times=2))
        if self.threshold_sigma is None or self.max_answers is None:
            return Repeated(noisy, times=self.max_queries)
        test = self._around(DiscreteGaussianLaw(self.threshold_sigma, 1))
        return Sequence((Repeated(test, times=self.max_queries), Repeated(noisy, times=self.max_answers)))

    def steps_to_grant(self) -> int | None:
        """Each query is a step; None with a threshold, where a query may pay for its test alone."""
        return self.max_queries if self.threshold is None else None

    def failures(self) -> tuple[Failure, ...]:
        """None: the claim has no delta."""
        return ()

    def parameters(self) -> Mapping[str, Plain]:
        """All of them."""
        values = {
            "sigma": self.sigma,
            "chunks": self.chunks,
            "max_queries": self.max_queries,
            "classes": self.classes,
            "threshold": self.threshold,
            "threshold_sigma": self.threshold_sigma,
            "max_answers": self.max_answers,
            **({"chunker": "auto"} if self.chunker == "auto" else described(self.chunker)),
            "learner": self.learner,
            "justification": MOVES,
            "assumes": ASSUMES,
        }
        result: dict[str, Plain] = plain(values)
        return result

    def values_read_as(self) -> tuple[str, ...]:
        """What rows, labels and votes count as that are no ordinary ones: of the parameters, never of the data."""
        return READ_AS

    def inspect(self, data: object) -> None:
        """ParameterError where the data are no ensemble that suits, by what is public."""
        check_ensemble(data, chunks=self.chunks, chunker=self.chunker, classes=self.classes, unit=self.unit)

    def open(self, data: Ensemble, *, entropy: Entropy) -> MaximumRun:
        """Begin a stream of rows. ParameterError where `inspect` has one."""
        self.inspect(data)
        return MaximumRun(_Maxima(self, entropy), data)

    def winner(self, votes: npt.NDArray[np.int64], entropy: Entropy) -> int:
        """The class with the most of these votes, under noise."""
        return int(np.argmax(draw(DiscreteGaussian(self.sigma), votes, sensitivity=self.votes_moved, entropy=entropy)))

    @property
    def votes_moved(self) -> Sensitivity:
        """How far one unit moves the votes of all classes, in l2."""
        return Sensitivity(multiply(ROOT_2, self._chunks_moved), "l2", MOVES)

    @property
    def largest_moved(self) -> Sensitivity:
        """How far one unit moves the largest count."""
        return Sensitivity(self._chunks_moved, "linf", TESTED)

    @property
    def _chunks_moved(self) -> int:
        return 1 if self.relation is None or self.chunker == "auto" else moved(self.chunker, self.relation)

    def _around(self, parts: Composition) -> Composition:
        """In a group where two chunks may change."""
        return grouped(parts, self._chunks_moved if self._chunks_moved > 1 else None, Relation.ADD_REMOVE)


class _Maxima:
    """The draws of a run and their count."""

    def __init__(self, mechanism: NoisyVotes, entropy: Entropy) -> None:
        self._mechanism, self._entropy = mechanism, entropy
        self.planned = mechanism.parts()
        self.asked = 0
        self.answered = 0

    @property
    def charged(self) -> int:
        return self.answered

    @property
    def left(self) -> int:
        return self._mechanism.max_queries - self.asked

    @property
    def halted(self) -> bool:
        return not self.left or self.answered == self._mechanism.max_answers

    def ended(self) -> Composition:
        """The parts, with the queries that were asked where each is a step."""
        plan = self.planned
        return dataclasses.replace(plan, done=self.asked) if isinstance(plan, Repeated) else plan

    def winner(self, votes: npt.NDArray[np.int64]) -> int:
        """The class with the most votes, under noise."""
        return self._mechanism.winner(votes, self._entropy)

    def test(self, largest: int, /) -> bool:
        """Whether a query with so many votes for one class is answered: each is, where there is no threshold."""
        mechanism, passed = self._mechanism, True
        self.asked += 1
        if mechanism.threshold is not None and mechanism.threshold_sigma is not None:
            law, moves = DiscreteGaussian(mechanism.threshold_sigma), mechanism.largest_moved
            passed = draw(law, largest, sensitivity=moves, entropy=self._entropy) >= mechanism.threshold
        self.answered += passed
        return passed

    def test_many(self, largest: npt.NDArray[Any], /) -> npt.NDArray[np.bool_]:
        """The same of many, up to the one that halts the run."""
        passed: list[bool] = []
        for votes in largest.tolist():
            if self.halted:
                break
            passed.append(self.test(votes))
        return np.array(passed, dtype=np.bool_)


class MaximumRun(AboutRows[StableAnswer, StableCounts], OneTestAQuery[Any, Any, StableAnswer, StableCounts]):
    """The conversation of a `NoisyVotes`. An answer is a class, or UNSTABLE."""

    what = "a run over noisy votes"
    contract: ClassVar[str] = "the ensemble could not vote"

    def __init__(self, maxima: _Maxima, ensemble: Ensemble) -> None:
        super().__init__(maxima)
        self._maxima, self._ensemble = maxima, ensemble
        self._reading = AsRows(ensemble)

    def _read(self, query: Any) -> tuple[int, Any]:
        votes = self._counted(query)[0]
        return int(votes.max()), votes

    def _read_many(self, queries: Any) -> tuple[npt.NDArray[Any], Any]:
        votes = self._counted(taken(queries, 0, self._left(len(queries))))
        return votes.max(axis=1), votes

    def _counted(self, queries: Any) -> npt.NDArray[np.int64]:
        assert self._ensemble.classes is not None, "inspected: models name classes"
        return counts(votes_of(self._ensemble, queries), self._ensemble.classes)

    def _answer(self, passed: bool, read: Any, /) -> StableAnswer:
        return self._maxima.winner(read) if passed else UNSTABLE

    def _answers(self, passed: npt.NDArray[np.bool_], read: Any, /) -> tuple[StableAnswer, ...]:
        return tuple(self._answer(bool(one), votes) for one, votes in zip(passed, read, strict=False))

    def _told(self) -> StableCounts:
        asked, answered = self._maxima.asked, self._maxima.answered
        return StableCounts(asked=asked, answered=answered, unstable=asked - answered, halted=self.halted)
