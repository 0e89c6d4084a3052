"""What a search for an answer that is good enough shares, whose statistic and error are the caller's own.

A statistic is published ever more exactly; a noisy check of how wrong each answer is says when to stop. Both are
functions of the data, whose sensitivities the caller declares: `Doubling` and `NoiseReduction` differ in what is drawn.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dpledger.decimals import text
from dpledger.errors import ContractViolation, ParameterError
from dpledger.mechanisms.callers import came_to
from dpledger.mechanisms.numeric import Laplace
from dpledger.mechanisms.numeric.grid import (
    TotalMap,
    check_map,
    check_number,
    check_number_or_vector,
    number_or_vector_to_steps,
)
from dpledger.mechanisms.numeric.one_shot import Vouched
from dpledger.mechanisms.protocol import check_declared
from dpledger.mechanisms.refinement.gradual_run import Answer
from dpledger.mechanisms.threshold.sparse_vector import SparseVector
from dpledger.mechanisms.threshold.threshold_run import Number
from dpledger.relations import Relation, Unit

__all__ = ["Judged", "Search", "error_of", "named"]

_FROM_WHICH = "a number from which follows"


@dataclass(frozen=True, slots=True)
class Judged:
    """What a search runs on: a statistic, and how wrong a published answer is, on the same data.

    `error`: of every fixed published answer its sensitivity is declared by the mechanism; it must not tell anybody
    anything on its own.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> private = dpl.ex_post.Judged(1234.0, lambda published: abs(published - 1234.0))
    >>> search = dpl.ex_post.Doubling(
    ...     first="0.01", rounds=8, sensitivity=1, error_sensitivity=1, accepts=20, check_epsilon=2
    ... )
    >>> search.release(private, entropy=seeded(1)).value.accepted
    True
    """

    value: object
    error: Callable[[Any], Number]


class Search(Vouched, ABC):
    """Base of records with these fields: a search over a `Judged`, whose checks end it with the first error below
    `accepts`."""

    __slots__ = ()

    accepts: Decimal
    check_epsilon: Decimal
    share: Decimal | None
    error_sensitivity: Decimal
    dimension: int
    bound: Decimal
    missing: Decimal

    def under(self, relation: Relation, unit: Unit) -> Self:
        """As `Vouched.under`, for both sensitivities."""
        placed = super().under(relation, unit)
        check_declared(self.error_sensitivity, self.justification, unit)
        return placed

    def inspect(self, data: object) -> None:
        """ParameterError unless `data` are a `Judged` of one number or, where the dimension is above 1, of a vector."""
        if not isinstance(data, Judged):
            raise ParameterError("data", type(data).__name__, "Judged(value, error)")
        check_number_or_vector(data.value, self.dimension)

    def values_read_as(self) -> tuple[str, ...]:
        """What values that are not ordinary numbers count as: by the parameters, never by the data."""
        error = "NaN counts as too large an error; any other non-number ends the search at its full charge"
        return (*self._map.words(), error)

    @property
    def _map(self) -> TotalMap:
        return TotalMap(grid=self._grid, bound=self.bound, missing=self.missing)

    @property
    @abstractmethod
    def _grid(self) -> Decimal:
        """The grid as it is used."""

    @abstractmethod
    def _checks(self) -> SparseVector | Laplace:
        """What tests the errors."""

    def _tests(self, rounds: int) -> SparseVector:
        """Tests of so many errors with one threshold: below it is the one answer that is charged, and ends the
        search."""
        return SparseVector(
            epsilon=self.check_epsilon,
            cutoff=1,
            threshold=self.accepts,
            mode="single_threshold",
            max_queries=rounds,
            share=self.share,
            sensitivity=self.error_sensitivity,
            justification=self.justification,
            missing="above",
        )

    def _require_checks(self) -> None:
        """ParameterError for a grid, a share or an epsilon that nothing can be published or checked with."""
        check_map(self._grid, self.bound, self.missing)
        if self.share is not None and not self.share < 1:
            raise ParameterError("share", text(self.share), "a part of check_epsilon, in (0, 1)")
        with named("check_epsilon", self.check_epsilon):
            self._checks()

    def _stated(self) -> dict[str, object]:
        """The parameters that every search has, with the grid as it is used and those of the checks."""
        return {
            "share": self.share,
            "checks": self._checks().parameters(),
            "sensitivity": self.sensitivity,
            "error_sensitivity": self.error_sensitivity,
            "dimension": self.dimension,
            "grid": self._grid,
            "bound": self.bound,
            "missing": self.missing,
            "justification": self.justification,
        }

    def _steps(self, value: object) -> npt.NDArray[Any]:
        """The statistic in whole steps of the grid."""
        return number_or_vector_to_steps(value, self._map, self.dimension)

    def _answer(self, published: npt.NDArray[np.float64]) -> Answer:
        """What is published, as it is handed out: a number where the statistic is one."""
        return float(published[0]) if self.dimension == 1 else published

    def _automatic(self) -> dict[str, Any]:
        return {"grid": self._grid}


@contextmanager
def named(field: str, value: Decimal) -> Iterator[None]:
    """What is refused in here is refused by the name of this parameter."""
    try:
        yield
    except ParameterError as error:
        expected = f"{_FROM_WHICH} {error.expected.removeprefix(_FROM_WHICH).lstrip()}"
        raise ParameterError(field, text(value), expected) from None


def error_of(data: Judged, published: Answer) -> Number:
    """The error of a published answer. What went wrong is not told, nor kept on what is raised: it may depend on a
    unit."""

    def judged() -> Number:
        error = data.error(published.copy() if isinstance(published, np.ndarray) else published)
        check_number(error)
        return error

    found = came_to(judged)
    if found is None:
        raise ContractViolation(
            "the error of an answer raised or is no number: the search is charged in full. "
            "Try it on public or made-up data to see why"
        )
    return found[0]
