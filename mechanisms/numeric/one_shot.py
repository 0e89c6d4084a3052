"""What mechanisms share that answer once and never fail: how they are put under a relation and a unit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, Protocol, Self

import numpy as np
import numpy.typing as npt
from pydantic import StringConstraints

from dpledger.accounting.guarantees import Failure
from dpledger.accounting.planning.calibration import DIGITS, LEAST, MOST, least_that
from dpledger.decimals import Number, read
from dpledger.errors import InfeasiblePlan, ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.protocol import check_declared, fixed, sampled_of
from dpledger.relations import Relation, Unit

__all__ = ["OfRows", "OneShot", "ShortText", "Vouched", "derived", "exactly_one", "least_epsilon", "one_by_one"]

ShortText = Annotated[str, StringConstraints(min_length=1, max_length=500)]
"""One line in words, kept in the record."""


class OneShot:
    """Base of a record with the fields `relation` and `unit`. `_automatic` names the fields that `under` fixes."""

    __slots__ = ()

    relation: Relation | None
    unit: Unit | None

    def under(self, relation: Relation, unit: Unit) -> Self:
        """The same mechanism for this relation and unit, with every automatic parameter fixed. RelationError if it
        names others."""
        own_relation, own_unit = fixed(self.relation, self.unit, relation, unit)
        placed = self._with(relation=own_relation, unit=own_unit)
        return placed._with(**placed._automatic())

    def failures(self) -> tuple[Failure, ...]:
        """None: the claim has no delta."""
        return ()

    def _automatic(self) -> dict[str, Any]:
        return {}

    def _with(self, **changes: Any) -> Self:
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]  # each subclass is a dataclass


class Vouched(OneShot):
    """Base of those whose sensitivity the caller vouches for: with the fields `sensitivity` and `justification`.

    Assumes: the sensitivity holds for the number as it was computed. The rounding errors of a sum of floats depend on
    every row and on their order; a sum of whole numbers (`ClippedMean` has one) has none.
    """

    __slots__ = ()

    sensitivity: Decimal | int
    justification: str

    def under(self, relation: Relation, unit: Unit) -> Self:
        """As `OneShot.under`; ParameterError where a unit may have many rows and nobody declared the sensitivity."""
        placed = super().under(relation, unit)
        check_declared(self.sensitivity, self.justification, unit)
        return placed


def derived(number: Decimal, **cause: object) -> Decimal:
    """`number`, which follows from the parameter named in `cause`; ParameterError, naming that parameter and its value,
    if it is zero or leaves the profile of decimals."""
    ((field, value),) = cause.items()
    try:
        result = read(number)
    except ParameterError as error:
        raise ParameterError(field, str(value), f"a number that leads to {error.expected}") from None
    if not result:
        raise ParameterError(field, str(value), "a number that leads to one of at least 10^-60")
    return result


def exactly_one(**options: object) -> None:
    """Raise ParameterError, naming the first option, unless exactly one of them is not None."""
    names = list(options)
    chosen = [name for name, value in options.items() if value is not None]
    if len(chosen) != 1:
        raise ParameterError(names[0], " and ".join(chosen) or "neither", "exactly one of " + " and ".join(names))


def one_by_one(mechanism: Any, data: object, size: int, entropy: Entropy) -> npt.NDArray[Any]:
    """The values of so many releases, as `sample` gives them: each with coins of its own for the rows that count."""
    runs = (mechanism.release(data, entropy=entropy).value for _ in range(size))
    return np.array([sampled_of(mechanism, value)[-1] for value in runs])


@dataclasses.dataclass(frozen=True, slots=True)
class OfRows:
    """A mechanism whose error depends on how many rows there are, for a number of rows that is public."""

    within: Callable[[Number, int], float]
    rows: int

    def interval(self, confidence: Number, /) -> float:
        """How far off the answer is at most with this probability, for so many rows."""
        return self.within(confidence, self.rows)


class Estimates(Protocol):
    """A mechanism whose answer comes with an interval."""

    def interval(self, confidence: Number, /) -> float:
        """Half of its width."""
        ...


def least_epsilon(make: Callable[[Decimal], Estimates], error: Number, confidence: Number) -> Decimal:
    """The least epsilon, to six digits, with which the answer is within `error` with that probability at least.

    Claim: the interval of `make(result)` says so. InfeasiblePlan where that of none up to 10^12 does."""
    target = read(error, field="error")
    if not target > 0:
        raise ParameterError("error", target, "a number above 0")
    found = least_that(
        lambda epsilon: Decimal.from_float(make(epsilon).interval(confidence)) <= target,
        within=(LEAST, MOST),
        digits=DIGITS,
    )
    if found is None:
        raise InfeasiblePlan(f"no epsilon keeps the answer within {target}: its rounding is too coarse")
    return found
