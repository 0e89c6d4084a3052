"""Values of a stream of queries, each released if no near dataset has another; paying only for those that are not.

    W = threshold + noise                               (target_charging, gaussian: W = threshold)
    each query (value, distance), until `cutoff` were unstable:
        distance + noise > W:  the value, free
        else:                  UNSTABLE, charged; then a fresh W (single_threshold keeps the first)

It is a sparse vector over the distances, with one more thing to pay for: the chance that a value passes though a
neighbour has another. Mode gaussian tests every distance for itself and pays for each, whatever comes out. The caller
vouches for each distance: one unit moves it by at most 1, and it is 0 on both of two neighbours that have different
values. Sources: Bassily-Thakkar-Thakurta 2018, Algorithm 3; proofs: docs/proofs/sparse_vector.md, "Released values",
and docs/proofs/stability.md.

>>> from dpledger.mechanisms.entropy import seeded
>>> from dpledger.mechanisms.stability.answers import SideBySide
>>> votes = StableQueries(epsilon=1, delta="1e-6", cutoff=3, justification="half the lead over the second, less one")
>>> run = votes.open({"a": 900, "b": 20}, entropy=seeded(3))
>>> def winner(counts):
...     second, first = sorted(counts, key=counts.get)
...     return first, max(0, (counts[first] - counts[second] - 1) // 2)
>>> run.ask(winner)
'a'
>>> run.ask_many(SideBySide(["c", "d"], [0, float("inf")]))
(UNSTABLE, 'd')
>>> run.close().value
StableCounts(asked=3, answered=2, unstable=1, halted=False)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field

from dpledger.accounting.composition import Composition
from dpledger.accounting.guarantees import ApproxDP, Failure
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.protocol import UNSAID, check_declared, fixed
from dpledger.mechanisms.stability.answers import DISTANCES_READ_AS, SideBySide
from dpledger.mechanisms.stability.distances import (
    Justification,
    grouped,
    grouped_claim,
    grouped_failures,
    steps_between,
)
from dpledger.mechanisms.stability.stable_run import QueriesOn, StableQuery, StableRun
from dpledger.mechanisms.stability.stable_tests import MOST_QUERIES, StableMode, StableTests, stable_tests
from dpledger.number_fields import OpenProbability, OptionalPositive, Positive, Whole
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, given, plain, record, tag

__all__ = ["StableBatch", "StableQueries"]

StableBatch: TypeAlias = "list[Any] | tuple[Any, ...] | SideBySide"
"""Many queries: each a `StableQuery`; or their values and distances side by side."""


@record
class StableQueries:
    """Answer each of a stream of adaptively chosen queries with its value, or UNSTABLE; halt at the `cutoff`-th.

    `epsilon`, `delta`: in total, for the whole stream; delta in (0, 0.5). `cutoff`: answers UNSTABLE, at least 1; none
    in mode gaussian. `max_queries`: the run halts after as many, if given; modes paper and gaussian need it. `mode`:
    how the noise is set (`auto`: the one that releases from the least distance on, for `max_queries` queries, or 1000
    an answer UNSTABLE). `share`: of epsilon, in (0, 1), what the threshold gets in mode single_threshold; None: best.
    `delta_split`: of delta, in (0, 1), what composing the tests may use (single_threshold, basic: none; paper: half).
    `distance_relation`: under which distances are counted; default: the scope's. Where it is another, the claim is that
    of a group, and says so. `justification`: one line that says why the distances keep their contract.
    An answer is a query's value as it is, or UNSTABLE; the value, at close, a `StableCounts`, whole numbers from 0 on.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> votes = dpl.stability.StableQueries(epsilon=1, delta="1e-6", cutoff=3)
    >>> run = votes.open({"a": 900, "b": 20}, entropy=seeded(3))
    >>> run.ask(lambda counts: ("a", (counts["a"] - counts["b"] - 1) // 2))
    'a'
    """

    epsilon: Positive
    delta: OpenProbability
    cutoff: Annotated[Whole, Field(strict=True, ge=1, lt=2**31)] | None = given(default=None)
    max_queries: Annotated[Whole, Field(strict=True, ge=1, le=MOST_QUERIES)] | None = given(default=None)
    mode: StableMode = given(default="auto")
    share: OptionalPositive = given(default=None)
    delta_split: OpenProbability = given(default=Decimal("0.5"))
    distance_relation: Relation | None = given(default=None)
    justification: Justification = given(default=UNSAID)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["stable_queries"] = tag(default="stable_queries")

    def __post_init__(self) -> None:
        self._tests()
        if self.mode == "gaussian" and self._steps() is not None:
            raise ParameterError(
                "distance_relation",
                self.distance_relation,
                "the scope's own relation in mode gaussian: no theorem gives it for several steps of another",
            )
        self.claim()

    def under(self, relation: Relation, unit: Unit) -> Self:
        """The same mechanism for this relation and unit, its mode fixed. RelationError where the distances are counted
        under a relation of which a step of this is not known to be a few; ParameterError where a unit may have many
        rows and nobody said why the distances hold for all of them."""
        own_relation, own_unit = fixed(self.relation, self.unit, relation, unit)
        check_declared(1, self.justification, own_unit)
        counted = self.distance_relation or own_relation
        steps_between(counted, own_relation)
        changes: dict[str, Any] = {"mode": self._tests().mode, "distance_relation": counted}
        if changes["mode"] != "single_threshold":
            changes["share"] = None
        return dataclasses.replace(self, relation=own_relation, unit=own_unit, **changes)

    def claim(self) -> ApproxDP:
        """(epsilon, delta) for the whole stream; for several steps of the distances' relation, that of so many."""
        return grouped_claim(self.epsilon, self.delta, self._steps())

    def parts(self) -> Composition:
        """One sparse vector that releases values, without an outcome; in mode gaussian its tests, each with the chance
        that it releases what a neighbour does not have. In a group where the distances' relation is not the scope's."""
        return self._grouped(self._tests().parts())

    def failures(self) -> tuple[Failure, ...]:
        """Delta by its causes: composing the tests, and releasing what a neighbour does not have."""
        return grouped_failures(self.epsilon, self.delta, self._tests().failures(), self._steps())

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with the mode, the scales and the threshold that are used."""
        values = {
            "epsilon": self.epsilon,
            "delta": self.delta,
            **self._tests().parameters(),
            "share": self.share,
            "delta_split": self.delta_split,
            "distance_relation": self.distance_relation,
            "justification": self.justification,
        }
        result: dict[str, Plain] = plain(values)
        return result

    def values_read_as(self) -> tuple[str, ...]:
        """What values and distances count as that are no ordinary ones: of the parameters, never of the data."""
        return (
            "a query is handed the data as they are; its value is released as it is, also NaN, or not at all",
            DISTANCES_READ_AS,
        )

    def steps_to_grant(self) -> int | None:
        """In mode gaussian each query is a step: those that a ledger never granted come back. None in other modes."""
        return self._tests().steps_to_grant()

    def open(self, data: object, *, entropy: Entropy) -> StableRun[StableQuery, StableBatch]:
        """Begin a stream of queries on `data`, which is handed to each query as it is."""
        tests = self._tests().start(self.justification, entropy)
        return StableRun(tests, QueriesOn(data), parts=self._grouped)

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

    def _steps(self) -> int | None:
        return steps_between(self.distance_relation, self.relation)

    def _grouped(self, parts: Composition) -> Composition:
        return grouped(parts, self._steps(), self.distance_relation)
