"""Draw one of a class, or of a representation, by costs: the cheaper, the likelier. Its place is what is kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from decimal import Decimal
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from dpledger.accounting.guarantees import BoundedRange
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.learning.error_counts import ErrorCounts
from dpledger.mechanisms.learning.hypotheses import Placed
from dpledger.mechanisms.learning.row_learner import RowLearner
from dpledger.mechanisms.learning.samples import LabeledSample
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.selection.choice import Choice

__all__ = ["Chooses", "ChoosesByRows", "Costs", "cheap", "in_places"]

Costs: TypeAlias = npt.NDArray[np.int64] | ErrorCounts
"""One for each of those in a row; or of segments of those that cost the same."""

Found = TypeVar("Found", bound=Placed)


def cheap(choice: Choice, costs: Costs, size: int, entropy: Entropy) -> list[int]:
    """The places of so many, drawn independently by e^(-exponent cost)."""
    if not isinstance(costs, ErrorCounts):
        return choice.many(-costs, size, entropy=entropy)
    totals = costs.by_errors()  # a cost by its weight, then one of those that cost so much, uniformly
    scores = -np.arange(len(totals), dtype=np.int64)  # of the least cost 0: only differences matter
    return [costs.ranked(totals, rank) for rank in choice.many(scores, size, entropy=entropy, counts=totals)]


def in_places(found: object, many: int) -> npt.NDArray[Any]:
    """Places among so many, as an array: int64 where it holds all of them."""
    return np.array(found, dtype=np.int64 if many <= 2**63 else object)


class Chooses(ABC, Generic[Found]):
    """Base of a record that draws one of `_many` by its `choice`."""

    __slots__ = ()

    @property
    @abstractmethod
    def choice(self) -> Choice:
        """What is drawn, by how far one unit moves a cost."""

    @abstractmethod
    def claim(self) -> BoundedRange:
        """A range of what the choice costs."""

    @abstractmethod
    def value_of(self, plain: int) -> Found:
        """The one at a place, as `plain_of` says it."""

    @property
    @abstractmethod
    def _many(self) -> int:
        """How many there are."""

    @property
    def exponent(self) -> Decimal:
        """How much less likely, as a logarithm, one more step of cost makes it."""
        return self.choice.exponent

    def parts(self) -> BoundedRange:
        """The one choice. What it is made among is there before the data, and is no part."""
        return self.claim()

    def plain_of(self, value: Found) -> int:
        """Its place: among what follows from the parameters."""
        return value.place

    def _released(self, costs: Costs, entropy: Entropy) -> Release[Found]:
        (place,) = cheap(self.choice, costs, 1, entropy)
        return Release(value=self.value_of(place), parts=self.parts())

    def _drawn(self, costs: Costs, size: int, entropy: Entropy) -> npt.NDArray[Any]:
        return in_places(cheap(self.choice, costs, size, entropy), self._many)


class ChoosesByRows(Chooses[Found], RowLearner):
    """Base of a record that draws by what labelled rows say."""

    __slots__ = ()

    @abstractmethod
    def _costs(self, taken: LabeledSample) -> Costs:
        """How bad each is on the rows that count."""

    def release(self, data: LabeledSample, *, entropy: Entropy) -> Release[Found]:
        """One of them."""
        return self._released(self._costs(self._taken(data, entropy)), entropy)

    def _sampled(self, taken: LabeledSample, size: int, entropy: Entropy) -> npt.NDArray[Any]:
        """Their places."""
        return self._drawn(self._costs(taken), size, entropy)
