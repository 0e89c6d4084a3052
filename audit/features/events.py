"""Events: sets of outcomes, each with a predicate on outcomes and on single outputs, and words.

An event is what tells two datasets apart: a set of values, or a cell, of one score. `words` names it in full;
`public_words` is what may leave the auditor's desk: it keeps thresholds, and leaves out a value, a key or a text that
was itself an output.

>>> from dpledger.audit.features.coordinates import Value
>>> from dpledger.audit.features.score import Place
>>> event = Above(Value(Place('output["mean"]')), 0.5)
>>> event.contains({"mean": 0.7}), event.contains(None), event.words, event.public_words
(True, False, 'output["mean"] > 0.5', 'output[...] > 0.5')
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.audit.features.score import Score
from dpledger.audit.outcomes.encoding import encode
from dpledger.audit.outcomes.structure import Outcomes
from dpledger.audit.strata import Stated, Stratum
from dpledger.errors import ParameterError

__all__ = ["Above", "AtMost", "Equals", "Event", "InCategory", "InStratum", "Outside", "Undefined", "Within"]

Hits: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Event(ABC):
    """What all events share."""

    @abstractmethod
    def holds(self, outcomes: Outcomes) -> Hits:
        """Whether the event happened, for each run: bool[runs]."""

    def count(self, outcomes: Outcomes) -> int:
        """In how many runs the event happened."""
        return int(np.count_nonzero(self.holds(outcomes)))

    def contains(self, output: object) -> bool:
        """Whether one output of the mechanism lies in the event."""
        single: Sequence[object] = [output]
        return bool(self.holds(encode(single))[0])

    @property
    @abstractmethod
    def words(self) -> str:
        """The event in words."""

    @property
    @abstractmethod
    def public_words(self) -> str:
        """The words without any value that was an output or an input."""


@dataclass(frozen=True, slots=True)
class Above(_Event):
    """The score is above a threshold."""

    score: Score
    threshold: float

    def holds(self, outcomes: Outcomes) -> Hits:
        return np.asarray(self.score.of(outcomes) > self.threshold)

    @property
    def words(self) -> str:
        return f"{self.score.words} > {_short(self.threshold)}"

    @property
    def public_words(self) -> str:
        return f"{self.score.public_words} > {_short(self.threshold)}"


@dataclass(frozen=True, slots=True)
class AtMost(_Event):
    """The score is at or below a threshold."""

    score: Score
    threshold: float

    def holds(self, outcomes: Outcomes) -> Hits:
        return np.asarray(self.score.of(outcomes) <= self.threshold)

    @property
    def words(self) -> str:
        return f"{self.score.words} <= {_short(self.threshold)}"

    @property
    def public_words(self) -> str:
        return f"{self.score.public_words} <= {_short(self.threshold)}"


@dataclass(frozen=True, slots=True)
class Within(_Event):
    """The score lies in (low, high]."""

    score: Score
    low: float
    high: float

    def holds(self, outcomes: Outcomes) -> Hits:
        numbers = self.score.of(outcomes)
        return np.asarray((numbers > self.low) & (numbers <= self.high))

    @property
    def words(self) -> str:
        return f"{_short(self.low)} < {self.score.words} <= {_short(self.high)}"

    @property
    def public_words(self) -> str:
        return f"{_short(self.low)} < {self.score.public_words} <= {_short(self.high)}"


@dataclass(frozen=True, slots=True)
class Outside(_Event):
    """The score is a number outside (low, high]: both tails at once, where a fault of scale shows."""

    score: Score
    low: float
    high: float

    def holds(self, outcomes: Outcomes) -> Hits:
        numbers = self.score.of(outcomes)
        return np.asarray((numbers <= self.low) | (numbers > self.high))

    @property
    def words(self) -> str:
        return f"{self.score.words} <= {_short(self.low)} or > {_short(self.high)}"

    @property
    def public_words(self) -> str:
        return f"{self.score.public_words} <= {_short(self.low)} or > {_short(self.high)}"


@dataclass(frozen=True, slots=True)
class Equals(_Event):
    """The score has exactly one value."""

    score: Score
    value: float

    def holds(self, outcomes: Outcomes) -> Hits:
        return np.asarray(self.score.of(outcomes) == self.value)

    @property
    def words(self) -> str:
        return f"{self.score.words} == {self.value!r}"

    @property
    def public_words(self) -> str:
        return f"{self.score.public_words} equals one certain value"


@dataclass(frozen=True, slots=True)
class InCategory(_Event):
    """The score is in one of a few of its cells (ascending codes)."""

    score: Score
    codes: tuple[int, ...]

    def holds(self, outcomes: Outcomes) -> Hits:
        return np.isin(self.score.of(outcomes), self.codes)

    @property
    def words(self) -> str:
        return f"{self.score.words}: {' or '.join(map(self.score.category, self.codes))}"

    @property
    def public_words(self) -> str:
        cells = dict.fromkeys(map(self.score.public_category, self.codes))
        return f"{self.score.public_words}: {' or '.join(cells)}"


@dataclass(frozen=True, slots=True)
class Undefined(_Event):
    """The outcome has no such number: it is NaN, or of another kind."""

    score: Score

    def holds(self, outcomes: Outcomes) -> Hits:
        return np.isnan(self.score.of(outcomes))

    @property
    def words(self) -> str:
        return f"{self.score.words} is no number"

    @property
    def public_words(self) -> str:
        return f"{self.score.public_words} is no number"


@dataclass(frozen=True, slots=True)
class InStratum(_Event):
    """The outcome is in a stratum of an ex-post claim, and in `part`, if given. `contains` takes what a run gave: a
    whole release, where the record says what was lost."""

    stated: Stated
    stratum: Stratum
    part: Event | None = None

    def holds(self, outcomes: Outcomes) -> Hits:
        if outcomes.losses is None:
            raise ParameterError("outcomes", "no claimed losses", "outcomes that were read with the ex-post claim")
        inside = self.stratum.holds(outcomes.losses)
        return inside if self.part is None else inside & self.part.holds(outcomes)

    def contains(self, output: object) -> bool:
        given = np.asarray([output]) if self.stated.batched else [output]
        losses = self.stated.losses(given)
        return bool(self.holds(replace(encode(given), losses=losses))[0])

    @property
    def words(self) -> str:
        return self.stratum.words + ("" if self.part is None else f" and {self.part.words}")

    @property
    def public_words(self) -> str:
        return self.stratum.words + ("" if self.part is None else f" and {self.part.public_words}")


Event: TypeAlias = Above | AtMost | Within | Outside | Equals | InCategory | Undefined | InStratum
"""The closed union of events."""


def _short(threshold: float) -> str:
    """A threshold in words: the digits that a reader needs, and fewer than an output that it may be."""
    return f"{threshold:.6g}"
