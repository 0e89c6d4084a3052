"""Votes that answer every query: for nothing where the winner is far ahead, else by a noisy maximum, which is paid for.

    each query: votes -> winner, distance; the test of a `PrivateClassifier` on the distance
    the test passes:  the winner, free
    it fails, charged:  the class with most votes under Gaussian noise, charged too; halt at the `cutoff`-th

That a query was far is published: the run is the run of the tests beside at most `cutoff` maxima, whose noise may as
well be drawn before the first query. Source: docs/proofs/stability.md, section 12.

>>> import numpy as np
>>> from dpledger.mechanisms.entropy import seeded
>>> from dpledger.relations import Relation, Unit
>>> def halfway(rows, labels):
...     middle = rows.mean()
...     return lambda asked: (asked > middle).astype(int)
>>> rows, labels = np.arange(900.0), (np.arange(900) > 450).astype(int)
>>> private = Ensemble.fit(halfway, (rows, labels), 300, "slots")
>>> far = PrivateClassifier(epsilon=1, delta="1e-6", cutoff=2, chunks=300)
>>> run = HybridVotes(far, sigma=20).under(Relation.REPLACE_ONE, Unit("record")).open(private, entropy=seeded(3))
>>> run.ask(800.0), run.ask_many([20.0, 450.0])
(1, (0, 0))
>>> run.close().value
HybridCounts(asked=3, free=2, paid=1, halted=False)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from dpledger.accounting.composition import Composition, Sequence
from dpledger.accounting.guarantees import ZCDP, Failure
from dpledger.accounting.rules import cost
from dpledger.decimals import round_up
from dpledger.errors import ParameterError, RelationError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.protocol import fixed
from dpledger.mechanisms.stability.ensembles.asking import AboutRows, AsRows, taken
from dpledger.mechanisms.stability.ensembles.chunkers import moved
from dpledger.mechanisms.stability.ensembles.ensemble import Ensemble, votes_of
from dpledger.mechanisms.stability.ensembles.votes import counts, winners
from dpledger.mechanisms.stability.noisy_votes import NoisyVotes
from dpledger.mechanisms.stability.voting import PrivateClassifier
from dpledger.mechanisms.threshold.conversation import OneTestAQuery
from dpledger.number_fields import Positive
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, given, plain, record, tag

__all__ = ["HybridCounts", "HybridVotes"]


@record
class HybridVotes:
    """The class of each of a stream of rows, never UNSTABLE: free where the models are far from another answer, else
    the class with most votes under noise.

    `of`: the tests, a `PrivateClassifier` with a cutoff: so many answers are paid for, then the run halts. `sigma`: of
    the noise on the votes of each class, where an answer is paid for.
    Claim: rho of the tests and cutoff/sigma^2, at the delta of the tests. Nothing comes back: tests and maxima are
    priced together by their rho, an account of squares. An answer is the number of a class, from 0 on.

    >>> far = dpl.stability.PrivateClassifier(epsilon=1, delta="1e-6", cutoff=10, chunks=4000)
    >>> dpl.stability.HybridVotes(far, sigma=40).claim()
    ZCDP(rho=Decimal('0.468367157261'), delta=Decimal('0.000001'), kind='zcdp')
    """

    of: PrivateClassifier
    sigma: Positive
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["hybrid_votes"] = tag(default="hybrid_votes")

    def __post_init__(self) -> None:
        if self.of.cutoff is None:
            raise ParameterError("of", "tests without a cutoff", "one with a cutoff, which bounds the paid answers")
        chunker, relation = self.of.chunker, self.of.relation
        if relation is not None and chunker != "auto" and moved(chunker, relation) > 1:
            raise RelationError(
                f"two chunks may change under {relation.value} as they are dealt, and no theorem prices tests "
                "and maxima together then: deal them by slots, or take PrivateClassifier"
            )
        self.claim()

    def under(self, relation: Relation, unit: Unit) -> Self:
        """The same mechanism, and its tests, for this relation and unit. RelationError as of `of`, and where
        two chunks may change."""
        own_relation, own_unit = fixed(self.relation, self.unit, relation, unit)
        placed = self.of.under(relation, unit)
        return dataclasses.replace(self, of=placed, relation=own_relation, unit=own_unit)

    @property
    def maxima(self) -> NoisyVotes:
        """The answers that are paid for."""
        tests, cutoff = self.of, self.of.cutoff
        assert cutoff is not None, "checked"
        return NoisyVotes(self.sigma, tests.chunks, cutoff, tests.classes)

    @property
    def classes(self) -> int:
        """How many there are: public."""
        return self.of.classes

    @property
    def max_queries(self) -> int | None:
        """How many may be asked, if that is bounded."""
        return self.of.max_queries

    def claim(self) -> ZCDP:
        """rho of all that is drawn, and the delta of the tests."""
        price = cost(self.parts(), self.relation or Relation.ADD_REMOVE)
        assert price.rho is not None, "an epsilon and Gaussians have one"
        return ZCDP(round_up(price.rho), price.delta)

    def parts(self) -> Composition:
        """The tests, and as many maxima as may be paid for."""
        return self.beside(self.of.parts())

    def failures(self) -> tuple[Failure, ...]:
        """Those of the tests."""
        return self.of.failures()

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, those of the tests inside."""
        result: dict[str, Plain] = plain({"of": {"kind": self.of.kind, **self.of.parameters()}, "sigma": self.sigma})
        return result

    def values_read_as(self) -> tuple[str, ...]:
        """As the tests say."""
        return self.of.values_read_as()

    def inspect(self, data: object) -> None:
        """As the tests do."""
        self.of.inspect(data)

    def open(self, data: Ensemble, *, entropy: Entropy) -> HybridRun:
        """Begin a stream of rows. ParameterError where `inspect` has one."""
        self.inspect(data)
        return HybridRun(self, data, entropy)

    def beside(self, tested: Composition) -> Composition:
        """The parts of a run whose tests are, or came to, these."""
        return Sequence((tested, self.maxima.parts()))


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridCounts:
    """What a run answered, in numbers: all of it is known to whoever got the answers."""

    asked: int
    free: int
    paid: int
    halted: bool


class HybridRun(AboutRows[int, HybridCounts], OneTestAQuery[Any, Any, int, HybridCounts]):
    """The conversation of a `HybridVotes`. An answer is a class."""

    what = "a run over an ensemble"
    contract: ClassVar[str] = "the ensemble could not vote"

    def __init__(self, mechanism: HybridVotes, ensemble: Ensemble, entropy: Entropy) -> None:
        super().__init__(mechanism.of.start(entropy))
        self._mechanism, self._maxima = mechanism, mechanism.maxima
        self._ensemble, self._entropy = ensemble, entropy
        self._reading = AsRows(ensemble)

    def _read(self, query: Any) -> tuple[int, Any]:
        distances, read = self._voted(query)
        return int(distances[0]), read

    def _read_many(self, queries: Any) -> tuple[npt.NDArray[np.int64], Any]:
        return self._voted(taken(queries, 0, self._left(len(queries))))

    def _voted(self, queries: Any) -> tuple[npt.NDArray[np.int64], Any]:
        votes = votes_of(self._ensemble, queries)
        found = winners(votes, self._mechanism.classes, self._mechanism.of.distance)
        return found.distances, (found.values, counts(votes, self._mechanism.classes))

    def _answer(self, passed: bool, read: Any, /) -> int:
        return self._answers(np.array([passed]), read)[0]

    def _answers(self, passed: npt.NDArray[np.bool_], read: Any, /) -> tuple[int, ...]:
        values, votes = read
        answers = values[: len(passed)].copy()
        for place in np.flatnonzero(~passed):
            answers[place] = self._maxima.winner(votes[place], self._entropy)
        return tuple(answers.tolist())

    def _told(self) -> HybridCounts:
        paid = self._tests.charged
        return HybridCounts(asked=self.asked, free=self.asked - paid, paid=paid, halted=self.halted)

    def _parts(self, tested: Composition) -> Composition:
        return self._mechanism.beside(tested)
