"""What the learners of labelled rows share: what they take, and how strict they are with it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from decimal import Decimal

from dpledger.accounting.guarantees import AccuracyFailure
from dpledger.decimals import text
from dpledger.errors import ContractViolation
from dpledger.mechanisms.learning.domains import Domain, are_all_inside, check_rows_of, rows_read_as
from dpledger.mechanisms.learning.samples import LABELS_READ_AS, LabeledSample
from dpledger.mechanisms.learning.theory.planning import SampleSize
from dpledger.mechanisms.numeric.one_shot import OneShot

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

    def inspect(self, data: object) -> None:
        """ParameterError unless `data` are a LabeledSample with rows of the domain's kind and a label for each."""
        check_rows_of(self.domain, data)

    def values_read_as(self) -> tuple[str, ...]:
        """What rows and labels count as that are no ordinary ones: of the parameters, never of the data."""
        return (*rows_read_as(self.domain), LABELS_READ_AS, *((STRICT,) if self.strict else ()))

    def _taken(self, data: LabeledSample) -> LabeledSample:
        """The sample, inspected; ContractViolation, which names no row, where it is strict and some are outside."""
        self.inspect(data)
        if self.strict and not are_all_inside(self.domain, data):
            raise ContractViolation(f"{type(self).__name__} is strict, and some row or label is not as was declared")
        return data
