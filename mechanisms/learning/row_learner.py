"""What the learners of labelled rows share: what they take, and how strict they are with it."""

from __future__ import annotations

from abc import ABC, abstractmethod

from dpledger.errors import ContractViolation
from dpledger.mechanisms.learning.domains import Domain, are_all_inside, check_rows_of
from dpledger.mechanisms.learning.samples import LabeledSample
from dpledger.mechanisms.numeric.one_shot import OneShot

__all__ = ["RowLearner"]


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

    def _taken(self, data: LabeledSample) -> LabeledSample:
        """The sample, inspected; ContractViolation, which names no row, where it is strict and some are outside."""
        self.inspect(data)
        if self.strict and not are_all_inside(self.domain, data):
            raise ContractViolation(f"{type(self).__name__} is strict, and some row or label is not as was declared")
        return data
