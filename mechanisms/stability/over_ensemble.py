"""What all mechanisms over an ensemble have in common, whatever they answer: parameters, parts, relations, data."""

from __future__ import annotations

import dataclasses
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints

from dpledger.accounting.composition import Composition
from dpledger.accounting.guarantees import ApproxDP, Failure
from dpledger.errors import ImplausiblePromise, InfeasiblePlan, ParameterError
from dpledger.mechanisms.protocol import fixed
from dpledger.mechanisms.stability.distances import grouped, grouped_claim, grouped_failures
from dpledger.mechanisms.stability.ensembles.chunkers import Hashed, by_relation, described, moved
from dpledger.mechanisms.stability.ensembles.ensemble import FEWEST_CHUNKS, MOST_CHUNKS, Ensemble
from dpledger.mechanisms.stability.ensembles.votes import Distance
from dpledger.mechanisms.stability.stable_tests import MOST_QUERIES, StableMode, StableTests
from dpledger.number_fields import OpenProbability, OptionalPositive, Positive, Whole
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, given, plain, record

__all__ = ["ASSUMES", "READ_AS", "VOTES", "OverEnsemble", "check_ensemble"]

ASSUMES = (
    "the learner keeps nothing from one chunk to the next, and nothing that it, the plan or a salt holds was computed "
    "of the private units"
)
"""What the guarantee takes from the caller, as the record says it."""
VOTES = "a unit is in one chunk and alters one vote, which moves half the gap by at most 1"

READ_AS = (
    "of a row, an entry that is not a finite number, also NaN or a missing one, counts as the number `missing` of the "
    "ensemble; in columns of words it is a word",
    "a row whose label is no class (of scores: no number), also NaN or a missing one, is left out",
    "a model that raises, or answers with none of them, abstains",
)
"""What rows, labels and votes count as, for receipts."""

_BETA = Decimal("0.05")


@record
class OverEnsemble(ABC):
    """What the mechanisms over the votes of an ensemble have in common.

    `epsilon`, `delta`: in total, for all queries; delta in (0, 0.5). `chunks`: k, public, at least 3. `max_queries`,
    `mode`, `share`, `delta_split`: as in `StableQueries`. `chunker`: slots, random, Hashed(salt), or auto: random under
    add_remove, slots else. `distance`: "halved" or "exact". `learner`: what is fitted, in words, for the record.

    Data: an `Ensemble` with these chunks, chunker and answers. Raises InfeasiblePlan where so few chunks could not
    make themselves heard even if all of them agreed; warns, as ImplausiblePromise, where not even an answer on which
    all agree is sure.
    """

    epsilon: Positive
    delta: OpenProbability
    chunks: Annotated[Whole, Field(strict=True, ge=1, le=MOST_CHUNKS)]
    max_queries: Annotated[Whole, Field(strict=True, ge=1, le=MOST_QUERIES)] | None = given(default=None)
    mode: StableMode = given(default="auto")
    share: OptionalPositive = given(default=None)
    delta_split: OpenProbability = given(default=Decimal("0.5"))
    chunker: Literal["auto", "slots", "random"] | Hashed = given(default="auto")
    distance: Distance = given(default="halved")
    learner: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = given(default=None)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)

    def __post_init__(self) -> None:
        if self.relation is not None and self.chunker != "auto":
            moved(self.chunker, self.relation)
        if self.mode == "gaussian" and self._steps() is not None:
            raise ParameterError(
                "mode", "gaussian", "a mode with a cutoff: two chunks may change, and no theorem tells"
            )
        self._check_chunks()
        self.claim()

    def _check_chunks(self) -> None:
        if self.chunks < FEWEST_CHUNKS:
            raise InfeasiblePlan(f"{self.chunks} chunks have no majority that one of them does not decide: at least 3")
        tests, reach = self._tests(), (self.chunks - 1) // 2
        threshold = tests.threshold
        if reach < threshold:
            raise InfeasiblePlan(
                f"{self.chunks} chunks that all agree are at distance {reach}, below the threshold {threshold} of this "
                "epsilon, delta, cutoff and mode, and would be answered less often than not: at least "
                f"{2 * threshold + 1} chunks"
            )
        needed = tests.required_distance(self._tests_planned(), _BETA)
        if reach < needed and self.relation is None:
            warnings.warn(
                f"{self.chunks} chunks that all agree are at distance {reach}: even they are not sure to be answered "
                f"(from {needed} on, so with {2 * needed + 1} chunks, but for a chance of {_BETA})",
                ImplausiblePromise,
                stacklevel=5,
            )

    def under(self, relation: Relation, unit: Unit) -> Self:
        """The same mechanism for this relation and unit, its mode and chunker fixed. RelationError where the chunker
        bounds nothing under it."""
        own_relation, own_unit = fixed(self.relation, self.unit, relation, unit)
        changes: dict[str, Any] = {
            "mode": self._tests().mode,
            "chunker": by_relation(own_relation) if self.chunker == "auto" else self.chunker,
        }
        if changes["mode"] != "single_threshold":
            changes["share"] = None
        return dataclasses.replace(self, relation=own_relation, unit=own_unit, **changes)

    def claim(self) -> ApproxDP:
        """(epsilon, delta) for all queries; where two chunks may change, that of a group of two."""
        return grouped_claim(self.epsilon, self.delta, self._steps())

    def parts(self) -> Composition:
        """Those of `StableQueries`; in a group of two units of add_remove where two chunks may change."""
        return self._around(self._tests().parts())

    def values_read_as(self) -> tuple[str, ...]:
        """What rows, labels and votes count as that are no ordinary ones: of the parameters, never of the data."""
        return READ_AS

    def failures(self) -> tuple[Failure, ...]:
        """Delta by its causes: composing the tests, and answering what a neighbour's models do not."""
        return grouped_failures(self.epsilon, self.delta, self._tests().failures(), self._steps())

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with the mode, the scales and the threshold that are used."""
        values = {
            "epsilon": self.epsilon,
            "delta": self.delta,
            **self._tests().parameters(),
            "share": self.share,
            "delta_split": self.delta_split,
            "chunks": self.chunks,
            **({"chunker": "auto"} if self.chunker == "auto" else described(self.chunker)),
            **self._answers(),
            "distance": self.distance,
            "learner": self.learner,
            "justification": VOTES,
            "assumes": ASSUMES,
        }
        result: dict[str, Plain] = plain(values)
        return result

    def inspect(self, data: object) -> None:
        """ParameterError where the data are no ensemble, or one with other chunks, chunker or answers; or where a unit
        may have many rows, and nothing says which are whose. All of that is public."""
        check_ensemble(data, chunks=self.chunks, chunker=self.chunker, classes=self._classes(), unit=self.unit)

    @abstractmethod
    def _tests(self) -> StableTests:
        """The tests that are run."""

    @abstractmethod
    def _tests_planned(self) -> int:
        """How many tests are planned, or are to be thought of where nobody says."""

    @abstractmethod
    def _classes(self) -> int | None:
        """The classes of an ensemble that suits; None: its models answer with scores."""

    @abstractmethod
    def _answers(self) -> dict[str, Any]:
        """The parameters that say what an answer is."""

    def _steps(self) -> int | None:
        """How many units of add_remove one of the scope's is for the chunks; None: as many as one changes a chunk."""
        if self.relation is None or self.chunker == "auto":
            return None
        chunks = moved(self.chunker, self.relation)
        return chunks if chunks > 1 else None

    def _around(self, parts: Composition) -> Composition:
        """The parts of the run, of what its tests are."""
        return grouped(parts, self._steps(), Relation.ADD_REMOVE)


def check_ensemble(data: object, *, chunks: int, chunker: object, classes: int | None, unit: Unit | None) -> None:
    """ParameterError where the data are no ensemble, or one with other chunks, chunker or answers; or where a unit may
    have many rows, and nothing says which are whose. All of that is public."""
    if not isinstance(data, Ensemble):
        raise ParameterError("data", type(data).__name__, "an Ensemble, fitted on the private units")
    for field, fitted, asked in (
        ("chunks", data.chunks, chunks),
        ("chunker", data.chunker, chunker),
        ("classes", data.classes, classes),
    ):
        if fitted != asked:
            got, expected = (
                "scores (classes=None)" if field == "classes" and value is None else f"{field} {value}"
                for value in (fitted, asked)
            )
            raise ParameterError("data", f"an ensemble of {got}", f"an Ensemble of {expected}")
    if unit is not None and unit.max_contributions > 1 and not data.whole_units:
        name, most = unit.name, unit.max_contributions
        raise ParameterError(
            "data",
            f"an ensemble that was not told whose its rows are, where one {name} may have {most}",
            f"an Ensemble.fit(..., ids=), or grouped=True where each item holds everything of one {name}",
        )
