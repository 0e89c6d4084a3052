"""AboveThreshold: which of a stream of queries is the first to reach a threshold. What came out says what it cost.

    W = threshold + noise(threshold_scale)
    for each query q:   q(data) + noise(query_scale) >= W:  ABOVE; halt
                        else:                               BELOW

Queries may be about hypotheses that were published, the model of the last round say, and may be chosen by the answers
so far. A run that found what it sought at its t-th query is charged no more than t tests cost, and one that found
nothing no more than its threshold does (`share` of epsilon); the query's own hypothesis is charged by whoever published
it. It is a sparse vector of one charged answer, with one threshold. Sources: Dwork-Roth 2014, Algorithm 1;
Ligett-Neel-Roth-Waggoner-Wu 2017, Algorithm 2; what a run costs: docs/proofs/sparse_vector.md, "Ex-post loss".

>>> from dpledger.accounting.pricing.costs import cost
>>> from dpledger.mechanisms.entropy import seeded
>>> first = AboveThreshold(epsilon=22, threshold=10, sensitivity=1)
>>> run = first.open([1] * 30, entropy=seeded(3))
>>> run.ask(lambda rows: len(rows) / 30), run.ask(len)
(<Outcome.BELOW: 'below'>, <Outcome.ABOVE: 'above'>)
>>> cost(first.parts(), Relation.ADD_REMOVE).pure, cost(run.close().parts, Relation.ADD_REMOVE).pure
(Decimal('22'), Decimal('11'))
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints

from dpledger.accounting.composition import SparseVectorLaw
from dpledger.accounting.guarantees import Failure, PureDP
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.protocol import UNSAID, fixed
from dpledger.mechanisms.threshold.sparse_vector import SparseVector
from dpledger.mechanisms.threshold.threshold_run import SparseVectorRun, ThresholdSide, queries_read_as
from dpledger.number_fields import OptionalPositive, Positive, Signed, Whole
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, given, record, tag

__all__ = ["AboveThreshold"]

# What a sparse vector says of itself and this mechanism does not: there is no choice.
_FIXED = ("delta", "cutoff", "mode", "charged")
_SHARED = ("epsilon", "threshold", "max_queries", "sensitivity", "share", "monotone", "grid", "missing")


@record
class AboveThreshold:
    """Answer BELOW to each of a stream of adaptively chosen queries until one is ABOVE the threshold; halt there.

    `epsilon`: the cap, for the whole stream. `threshold`: public, in the queries' units. `max_queries`: the run halts
    after as many. `sensitivity`: how far one unit moves every query, under the relation, the hypothesis that it is
    about being fixed; the caller vouches for it, `justification` says in one line why it holds. `share`: of epsilon, in
    (0, 1), on the threshold: what a run costs that never finds any. `monotone`: True declares that one unit moves all
    queries in one direction, so that they need half the noise. `grid`: a power of two to which queries are rounded;
    default: 1024 times finer than sensitivity and noise. `missing`: the side on which a query counts that is NaN. Data
    never raise.
    An answer is `Outcome.BELOW` or, at the end, `Outcome.ABOVE`; the value, at close, is their `Counts`.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> first = dpl.AboveThreshold(epsilon=20, threshold=10, sensitivity=1).open([1] * 30, entropy=seeded(3))
    >>> first.ask(lambda rows: 0), first.ask(len)
    (<Outcome.BELOW: 'below'>, <Outcome.ABOVE: 'above'>)
    """

    epsilon: Positive
    threshold: Signed
    sensitivity: Positive
    max_queries: Annotated[Whole, Field(strict=True, ge=1, le=10**12)] | None = given(default=None)
    share: Positive = given(default=Decimal("0.5"))
    monotone: Annotated[bool, Field(strict=True)] = given(default=False)
    grid: OptionalPositive = given(default=None)
    missing: ThresholdSide = given(default="below")
    justification: Annotated[str, StringConstraints(min_length=1, max_length=500)] = given(default=UNSAID)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["above_threshold"] = tag(default="above_threshold")

    def __post_init__(self) -> None:
        if not self.share < 1:
            raise ParameterError("share", self.share, "a number in (0, 1): the part of epsilon on the threshold")
        try:
            self._vector()
        except ParameterError as error:
            field = error.field.rpartition(".")[2]
            known = field if field in _SHARED else "epsilon"  # a scale, or the length of its noise
            raise ParameterError(known, error.value, error.expected) from None

    def under(self, relation: Relation, unit: Unit) -> Self:
        """The same mechanism for this relation and unit, its grid fixed. Every relation will do: the sensitivity is
        declared under it. ParameterError where a unit may have many rows and nobody declared it."""
        own_relation, own_unit = fixed(self.relation, self.unit, relation, unit)
        ready = self._vector().under(own_relation, own_unit)
        return dataclasses.replace(self, relation=own_relation, unit=own_unit, grid=ready.grid)

    def claim(self) -> PureDP:
        """epsilon, the cap, for the whole stream."""
        return PureDP(self.epsilon)

    def parts(self) -> SparseVectorLaw:
        """One sparse vector leaf of one charged answer, without an outcome: priced at its cap."""
        return self._vector().parts()

    def failures(self) -> tuple[Failure, ...]:
        """None: the loss is bounded at every outcome."""
        return ()

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with the scales and the grid that are used."""
        return {name: value for name, value in self._vector().parameters().items() if name not in _FIXED}

    def values_read_as(self) -> tuple[str, ...]:
        """What values of queries count as that are no ordinary numbers: of the parameters, never of the data."""
        return queries_read_as(self.missing)

    def open(self, data: object, *, entropy: Entropy) -> SparseVectorRun:
        """Begin a stream of queries on `data`, which is handed to each query as it is."""
        return self._vector().open(data, entropy=entropy)

    def _vector(self) -> SparseVector:
        """The sparse vector that it is."""
        same: dict[str, Any] = {name: getattr(self, name) for name in _SHARED}
        return SparseVector(
            cutoff=1,
            mode="single_threshold",
            charged="above",
            justification=self.justification,
            relation=self.relation,
            unit=self.unit,
            **same,
        )
