"""What the learners of labelled rows share: what they take, and how strict they are with it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from dpledger.accounting.guarantees import AccuracyFailure
from dpledger.decimals import text
from dpledger.errors import ContractViolation
from dpledger.mechanisms.callers import came_to
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.learning.domains import Domain, are_all_inside, check_rows_of, rows_read_as
from dpledger.mechanisms.learning.samples import (
    LabeledSample,
    capped,
    capped_as,
    check_units,
    labeled_sample,
    labels_read_as,
)
from dpledger.mechanisms.learning.theory.needed_units import SampleSize
from dpledger.mechanisms.numeric.one_shot import OneShot
from dpledger.mechanisms.numeric.rows import rows_of

__all__ = ["STRICT", "RowLearner", "fits_within"]

STRICT = "it is strict: any row or label outside what was declared ends the run at its full charge instead"


def fits_within(what: str, alpha: Decimal, beta: Decimal, plan: SampleSize) -> AccuracyFailure:
    """What is promised where a concept fits all examples, but with probability beta: how often `what` was learned errs
    at most."""
    enough = f"where one fits all examples and there are at least {plan.needed} independent ones"
    return AccuracyFailure(beta, f"{what} errs on more than {text(alpha)}, {enough}")


class RowLearner(OneShot, ABC):
    """Base of records with the field `strict`: whether a row or label outside what was declared is a ContractViolation,
    and not read as the nearest that is inside. Then the full charge stands, and what was seen, that it was raised, has
    no guarantee: for data that were checked where they came from."""

    __slots__ = ()

    strict: bool

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """The rows that it learns from."""

    @property
    def labels(self) -> int:
        """How many there are, from 0 on."""
        return 2

    @property
    def says(self) -> tuple[str, ...]:
        """What a hypothesis says beside its labels."""
        return ()

    def inspect(self, data: object) -> None:
        """ParameterError unless `data` are a LabeledSample with rows of the domain's kind and a label for each, and an
        id of a unit for each where one unit may have many rows."""
        check_rows_of(self.domain, data)
        check_units(labeled_sample(data), self.unit)

    def values_read_as(self) -> tuple[str, ...]:
        """What rows and labels count as that are no ordinary ones: of the parameters, never of the data."""
        read = *rows_read_as(self.domain), labels_read_as(self.labels), *capped_as(self.unit)
        return (*read, STRICT) if self.strict else read

    def sample(self, data: LabeledSample, size: int, entropy: Entropy) -> npt.NDArray[Any]:
        """The outputs of `size` independent releases, each with coins of its own for the rows that count."""
        self.inspect(data)
        if data.by_unit is None or data.by_unit.largest <= rows_of(self.unit) or not size:
            return self._sampled(self._taken(data, entropy), size, entropy)
        return np.concatenate([self._sampled(self._taken(data, entropy), 1, entropy) for _ in range(size)])

    @abstractmethod
    def _sampled(self, taken: LabeledSample, size: int, entropy: Entropy) -> npt.NDArray[Any]:
        """As `sample`, of rows that were taken."""

    def _taken(self, data: LabeledSample, entropy: Entropy) -> LabeledSample:
        """The rows that count, of a sample that is inspected: of each unit as many as one may have, where it says whose
        they are. ContractViolation, which names no row, where it is strict and some of them are outside."""
        self.inspect(data)
        taken = capped(data, rows_of(self.unit), entropy=entropy)
        if self.strict and came_to(lambda: are_all_inside(self.domain, taken, self.labels)) != (True,):
            raise ContractViolation(f"{type(self).__name__} is strict, and some row or label is not as was declared")
        return taken
