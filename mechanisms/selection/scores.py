"""Candidates and their scores: what the mechanisms that choose by scores have in common.

A score is a number that the caller computed, on the data, for each candidate; it becomes whole steps of a grid, and the
noise is of that grid. Where many candidates in a row have one score, `Segments` says so, and costs what they are.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dpledger.accounting.arithmetic import scalars
from dpledger.accounting.composition import Composition
from dpledger.decimals import Number, read
from dpledger.errors import ParameterError, RelationError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import Weighted, exponent_for
from dpledger.mechanisms.numeric.grid import TotalMap, check_map, check_vector, default_grid, on_grid, vector_to_steps
from dpledger.mechanisms.numeric.one_shot import ShortText, Vouched, derived
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.selection.choice import Choice
from dpledger.number_fields import Whole
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, plain

__all__ = ["Candidates", "Chosen", "ScoredChoice", "Segments", "check_candidates", "planned", "usable_under"]

Candidates: TypeAlias = tuple[ShortText, ...] | Annotated[Whole, Field(strict=True, ge=1, lt=2**53)]
"""Public: the names of the candidates, or how many they are."""
Chosen: TypeAlias = str | int
"""A candidate's name, or its place where candidates have no names."""

_SLACK = 1 + 2.0**-40  # for rounding
_MONOTONE = (Relation.ADD_REMOVE, Relation.ZERO_OUT)
_ROW = "a list, a tuple or an array of numbers, of one axis"


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Segments:
    """Scores of candidates that stand in a row: the first counts[0] of them have scores[0], the next counts[1] have
    scores[1], and so on.

    Both are data, and every pair of rows says something: a count is read to the nearest whole number of at least 0,
    what is no number as 0; what goes beyond the last candidate is dropped, and a candidate that no segment reaches has
    the score `missing`. Raises ParameterError unless both are rows, equally long.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> place = dpl.ExponentialMechanism(candidates=1000, epsilon=1, sensitivity=1)
    >>> scores = dpl.learning.Segments(scores=[0, 90, 0], counts=[500, 3, 497])
    >>> place.release(scores, entropy=seeded(1)).value
    500
    """

    scores: object
    counts: object

    def __post_init__(self) -> None:
        for field, row in (("scores", self.scores), ("counts", self.counts)):
            if not isinstance(row, (list, tuple)) and not (isinstance(row, np.ndarray) and row.ndim == 1):
                raise ParameterError(field, type(row).__name__, _ROW)
        if len(self) != len(self.counts):  # type: ignore[arg-type]  # a row
            raise ParameterError("counts", "another number of counts than scores", "a count for each score")

    def __len__(self) -> int:
        return len(self.scores)  # type: ignore[arg-type]  # a row


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoicePlan:
    """What is used. `sensitivity` is that of the scores rounded to the grid; `exponent` is of one step of it."""

    grid: Decimal
    sensitivity: Decimal
    exponent: Decimal


@functools.lru_cache(maxsize=512)
def planned(epsilon: Decimal, sensitivity: Decimal, grid: Decimal | None, monotone: bool) -> ChoicePlan:
    """Claim: exponent times the steps that one unit moves a score, twice where not monotone, is at most epsilon, for
    the values in the plan. Source: `noise.exponent_for`; rounding to the grid: docs/proofs/noise.md, section 5."""
    if grid is None:
        scale = Fraction(sensitivity) / Fraction(epsilon)
        grid = default_grid(epsilon=scale, sensitivity=Fraction(sensitivity))
    moved = on_grid(sensitivity, grid)
    steps = derived(Decimal(int(Fraction(moved) / Fraction(grid))), sensitivity=sensitivity)
    exponent = derived(exponent_for(epsilon, sensitivity=steps, monotone=monotone), epsilon=epsilon)
    return ChoicePlan(grid=grid, sensitivity=moved, exponent=exponent)


def check_candidates(candidates: tuple[str, ...] | int) -> None:
    """Raise ParameterError unless there is a candidate, and no name twice."""
    if isinstance(candidates, tuple) and not 0 < len(set(candidates)) == len(candidates):
        raise ParameterError("candidates", str(list(candidates)), "at least one name, each once")


def usable_under(relation: Relation) -> None:
    """Raise RelationError where scores may move in both directions, whatever is declared of them."""
    if relation not in _MONOTONE:
        raise RelationError(
            f"under {relation.value} a unit that is changed may raise some scores and lower others: leave out monotone"
        )


class ScoredChoice(Vouched, ABC):
    """Base of a record that chooses one of its candidates by their scores, by the law `law`."""

    __slots__ = ()

    candidates: Candidates
    epsilon: Decimal
    sensitivity: Decimal
    monotone: bool
    grid: Decimal | None
    bound: Decimal
    missing: Decimal
    justification: str

    def __post_init__(self) -> None:
        check_candidates(self.candidates)
        check_map(self._plan.grid, self.bound, self.missing)
        if self.monotone and self.relation is not None:
            usable_under(self.relation)

    @property
    @abstractmethod
    def law(self) -> Weighted:
        """How it is chosen, by scores in whole steps of the grid."""

    @abstractmethod
    def parts(self) -> Composition:
        """The leaf of the choice."""

    def under(self, relation: Relation, unit: Unit) -> Self:
        """As `Vouched.under`; RelationError where scores are declared monotone and need not be."""
        placed = super().under(relation, unit)
        if self.monotone:
            usable_under(relation)
        return placed

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with the grid that is used and the exponent, of one step of it."""
        plan = self._plan
        values = {
            "candidates": self.candidates,
            "epsilon": self.epsilon,
            "sensitivity": self.sensitivity,
            "monotone": self.monotone,
            "grid": plan.grid,
            "exponent": plan.exponent,
            "bound": self.bound,
            "missing": self.missing,
            "justification": self.justification,
        }
        if self.monotone:
            values["assumes"] = "a unit that is added moves all scores in one direction, or leaves them"
        result: dict[str, Plain] = plain(values)
        return result

    def values_read_as(self) -> tuple[str, ...]:
        """What values that are not ordinary numbers count as: by the parameters, never by the data."""
        return self._map.words()

    def inspect(self, data: object) -> None:
        """ParameterError unless `data` are a score for each candidate, or `Segments` where candidates have no names."""
        if isinstance(data, Segments):
            if isinstance(self.candidates, tuple):
                raise ParameterError("data", "Segments", "a score for each of the candidates, which have names")
        else:
            check_vector(data, self._many)

    def release(self, data: object, *, entropy: Entropy) -> Release[Chosen]:
        """The name of the chosen candidate, or its place where candidates have no names."""
        self.inspect(data)
        scores, counts = self._steps(data)
        place = self._choice.one(scores, counts=counts, entropy=entropy)
        return Release(value=self._named(place), parts=self.parts())

    def sample(self, data: object, size: int, entropy: Entropy) -> npt.NDArray[np.int64]:
        """`size` independent releases of the same data: the places of the candidates."""
        self.inspect(data)
        scores, counts = self._steps(data)
        places = self._choice.many(scores, size, counts=counts, entropy=entropy)
        return np.array(places, dtype=np.int64)

    def sampled_of(self, value: Chosen) -> int:
        """The place of a candidate, as `sample` gives it."""
        return self.candidates.index(str(value)) if isinstance(self.candidates, tuple) else int(value)

    def loss(self, beta: Number) -> float:
        """How far below the best score that of the chosen one is at most, with a probability of at least 1 - beta:
        ln(candidates / beta) / exponent, and the rounding to the grid. Of accuracy, never of privacy.

        Source: McSherry-Talwar 2007; of permute-and-flip McKenna-Sheldon 2020, which is never worse.
        """
        miss = read(beta, field="beta")
        if not 0 < miss < 1:
            raise ParameterError("beta", beta, "a number in (0, 1)")
        steps = scalars.log(self._many / float(miss)) / float(self._plan.exponent)
        return (steps * _SLACK + 1) * float(self._plan.grid)

    @property
    def _plan(self) -> ChoicePlan:
        return planned(self.epsilon, self.sensitivity, self.grid, self.monotone)

    @property
    def _many(self) -> int:
        return len(self.candidates) if isinstance(self.candidates, tuple) else self.candidates

    def _automatic(self) -> dict[str, Any]:
        return {"grid": self._plan.grid}

    def _named(self, place: int) -> Chosen:
        return self.candidates[place] if isinstance(self.candidates, tuple) else place

    @property
    def _map(self) -> TotalMap:
        return TotalMap(grid=self._plan.grid, bound=self.bound, missing=self.missing)

    def _steps(self, data: object) -> tuple[npt.NDArray[Any], list[int] | None]:
        """Scores in whole steps of the grid, and how many candidates have each; None where it is one."""
        how = self._map
        if not isinstance(data, Segments):
            return vector_to_steps(data, how, self._many), None
        scores = [*vector_to_steps(data.scores, how, len(data)).tolist(), how.absent]
        fits = all(-(2**63) <= score < 2**63 for score in scores)
        return np.array(scores, dtype=np.int64 if fits else object), _filled(data, self._many)

    @property
    def _choice(self) -> Choice:
        steps = Fraction(self._plan.sensitivity) / Fraction(self._plan.grid)
        return Choice(self.law, int(steps), self.justification)


def _filled(data: Segments, many: int) -> list[int]:
    """How many candidates each segment has, and how many none: `many` in all."""
    how = TotalMap(grid=Decimal(1), bound=Decimal(2**53), missing=Decimal(0))
    left, counts = many, []
    for said in vector_to_steps(data.counts, how, len(data)).tolist():
        counts.append(min(max(said, 0), left))
        left -= counts[-1]
    return [*counts, left]
