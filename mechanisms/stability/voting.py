"""Private answers by the votes of an ensemble: a class, where no unit's chunk decides it.

    models, one a chunk of units          one unit alters one model, so one vote on each query
    each query: votes -> winner, distance half the gap between the two largest counts
    distance + noise > W:  the winner, free;  else UNSTABLE, charged (`StableQueries`)

`SampleAndAggregate` hands its queries to the models as they are; `PrivateClassifier` reads them as rows like those that
were fitted. Models are trained once, in an `Ensemble`, which answers through a mechanism alone; what is asked adds
up over all mechanisms that are opened on it, as for any data. Source: Bassily-Thakkar-Thakurta 2018, Algorithm 4,
section 4.1, with half of the gap; proofs: docs/proofs/stability.md.

>>> import numpy as np
>>> from dpledger.mechanisms.entropy import seeded
>>> from dpledger.relations import Relation, Unit
>>> def halfway(rows, labels):
...     middle = rows.mean()
...     return lambda asked: (asked > middle).astype(int)
>>> rows, labels = np.arange(900.0), (np.arange(900) > 450).astype(int)
>>> private = Ensemble.fit(halfway, (rows, labels), 300, "slots")
>>> votes = PrivateClassifier(epsilon=1, delta="1e-6", cutoff=2, chunks=300).under(
...     Relation.REPLACE_ONE, Unit("record")
... )
>>> run = votes.open(private, entropy=seeded(3))
>>> run.ask(800.0), run.ask_many([20.0, 450.0])
(1, (0, UNSTABLE))
>>> run.close().value
StableCounts(asked=3, answered=2, unstable=1, halted=False)
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.stability.ensembles.asking import AsRows, AsTheyAre, EnsembleRun, QueryReading
from dpledger.mechanisms.stability.ensembles.ensemble import Ensemble
from dpledger.mechanisms.stability.ensembles.votes import MOST_CLASSES
from dpledger.mechanisms.stability.over_ensemble import VOTES, OverEnsemble
from dpledger.mechanisms.stability.stable_tests import StableTests, stable_tests
from dpledger.mechanisms.threshold.conversation import ThresholdTests
from dpledger.number_fields import Whole
from dpledger.schema import given, record, tag

__all__ = ["PrivateClassifier", "SampleAndAggregate", "Voting"]

_QUERIES = 1000  # for each unstable answer, where nobody says how many are planned


@record
class Voting(OverEnsemble):
    """What the mechanisms whose answers are classes have in common. `cutoff`: as in `StableQueries`. `classes`: C,
    public. `OverEnsemble` says what the others are."""

    cutoff: Annotated[Whole, Field(strict=True, ge=1, lt=2**31)] | None = given(default=None)
    classes: Annotated[Whole, Field(strict=True, ge=1, le=MOST_CLASSES)] = given(default=2)

    def _tests(self) -> StableTests:
        return stable_tests(
            self.epsilon,
            self.delta,
            self.cutoff,
            self.mode,
            max_queries=self.max_queries,
            share=self.share,
            delta_split=self.delta_split,
        )

    def _tests_planned(self) -> int:
        return self.max_queries or _QUERIES * (self.cutoff or 1)

    def _classes(self) -> int:
        return self.classes

    def _answers(self) -> dict[str, Any]:
        return {"classes": self.classes}

    def start(self, entropy: Entropy) -> ThresholdTests:
        """The tests of a run."""
        return self._tests().start(VOTES, entropy)

    def _opened(self, data: Ensemble, entropy: Entropy, reading: QueryReading) -> EnsembleRun:
        return EnsembleRun(self.start(entropy), data, self.distance, reading, self._around)


@record
class SampleAndAggregate(Voting):
    """What most models of chunks say, on each of a stream of queries, which the models are handed as they are; halt at
    the `cutoff`-th that is UNSTABLE. `Voting` says what the parameters are.
    An answer is the number of a class, from 0 on, or UNSTABLE.

    >>> dpl.stability.SampleAndAggregate(epsilon=1, delta="1e-6", cutoff=2, chunks=300).claim()
    ApproxDP(epsilon=Decimal('1'), delta=Decimal('0.000001'), kind='approx_dp')
    """

    kind: Literal["sample_and_aggregate"] = tag(default="sample_and_aggregate")

    def steps_to_grant(self) -> int | None:
        """In mode gaussian each query is a step: those that a ledger never granted come back. None in other modes."""
        return self._tests().steps_to_grant()

    def open(self, data: Ensemble, *, entropy: Entropy) -> EnsembleRun:
        """Begin a stream of queries. ParameterError where `inspect` has one."""
        self.inspect(data)
        return self._opened(data, entropy, AsTheyAre())


@record
class PrivateClassifier(Voting):
    """The class of each of a stream of rows, read as those were that were fitted; halt at the `cutoff`-th that is
    UNSTABLE. `Voting` says what the parameters are.
    An answer is the number of a class, from 0 on, or UNSTABLE.

    >>> dpl.stability.PrivateClassifier(epsilon=1, delta="1e-6", cutoff=2, chunks=300).claim()
    ApproxDP(epsilon=Decimal('1'), delta=Decimal('0.000001'), kind='approx_dp')
    """

    kind: Literal["private_classifier"] = tag(default="private_classifier")

    def steps_to_grant(self) -> int | None:
        """In mode gaussian each query is a step: those that a ledger never granted come back. None in other modes."""
        return self._tests().steps_to_grant()

    def open(self, data: Ensemble, *, entropy: Entropy) -> EnsembleRun:
        """Begin a stream of rows. ParameterError where `inspect` has one."""
        self.inspect(data)
        return self._opened(data, entropy, AsRows(data))
