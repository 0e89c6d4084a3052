"""Events: sets of outcomes, each with a predicate on outcomes and on single outputs, and words.

An event is what tells two datasets apart. `words` names it in full; `public_words` is what may leave the auditor's
desk: it keeps thresholds, and leaves out a value or a text that was itself an output.

>>> event = Above(Coordinate(0), 0.5)
>>> event.contains(0.7, width=1), event.contains(None, width=1), event.words
(True, False, 'output > 0.5')
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.audit.outcomes import Floats, Outcomes, encode, head_of
from dpledger.audit.strata import Stated, Stratum
from dpledger.errors import ParameterError

__all__ = [
    "Above",
    "AtMost",
    "Coordinate",
    "Equals",
    "Event",
    "Feature",
    "Headed",
    "InStratum",
    "Labelled",
    "NotANumber",
    "Outside",
    "Row",
    "Spread",
    "Total",
    "Within",
]

Hits: TypeAlias = npt.NDArray[np.bool_]


class Feature(Protocol):
    """A number computed from each run: `of` gives float64[runs], NaN where it is undefined."""

    def of(self, values: Floats) -> Floats: ...
    @property
    def words(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Coordinate:
    """One of the numbers of an output. `width` (how many there are) only makes the words read well."""

    place: int
    width: int = 1

    def of(self, values: Floats) -> Floats:
        return values[:, self.place]

    @property
    def words(self) -> str:
        return "output" if self.width == 1 else f"output[{self.place}]"


@dataclass(frozen=True, slots=True)
class Total:
    """The sum of the numbers of an output."""

    def of(self, values: Floats) -> Floats:
        with np.errstate(all="ignore"):
            result: Floats = values.sum(axis=1)
            return result

    @property
    def words(self) -> str:
        return "sum(output)"


@dataclass(frozen=True, slots=True)
class Spread:
    """The euclidean length of an output."""

    def of(self, values: Floats) -> Floats:
        with np.errstate(all="ignore"):
            result: Floats = np.sqrt(np.square(values).sum(axis=1))
            return result

    @property
    def words(self) -> str:
        return "|output|"


@dataclass(frozen=True, slots=True)
class _Event(ABC):
    """What all events share."""

    @abstractmethod
    def holds(self, outcomes: Outcomes) -> Hits:
        """Whether the event happened, for each run: bool[runs]."""

    def count(self, outcomes: Outcomes) -> int:
        """In how many runs the event happened."""
        return int(np.count_nonzero(self.holds(outcomes)))

    def contains(self, output: object, *, width: int = 1) -> bool:
        """Whether one output of the mechanism lies in the event. `width`: how many numbers an output usually is."""
        single: Sequence[object] = [output]
        return bool(self.holds(encode(single, width))[0])

    @property
    @abstractmethod
    def words(self) -> str:
        """The event in words."""

    @property
    def public_words(self) -> str:
        """The words without any value that was an output."""
        return self.words


@dataclass(frozen=True, slots=True)
class Above(_Event):
    """The feature is above a threshold."""

    feature: Feature
    threshold: float

    def holds(self, outcomes: Outcomes) -> Hits:
        return self.feature.of(outcomes.values) > self.threshold

    @property
    def words(self) -> str:
        return f"{self.feature.words} > {self.threshold!r}"


@dataclass(frozen=True, slots=True)
class AtMost(_Event):
    """The feature is at or below a threshold."""

    feature: Feature
    threshold: float

    def holds(self, outcomes: Outcomes) -> Hits:
        return self.feature.of(outcomes.values) <= self.threshold

    @property
    def words(self) -> str:
        return f"{self.feature.words} <= {self.threshold!r}"


@dataclass(frozen=True, slots=True)
class Within(_Event):
    """The feature lies in (low, high]."""

    feature: Feature
    low: float
    high: float

    def holds(self, outcomes: Outcomes) -> Hits:
        numbers = self.feature.of(outcomes.values)
        result: Hits = (numbers > self.low) & (numbers <= self.high)
        return result

    @property
    def words(self) -> str:
        return f"{self.low!r} < {self.feature.words} <= {self.high!r}"


@dataclass(frozen=True, slots=True)
class Outside(_Event):
    """The feature is a number outside (low, high]: both tails at once, where a fault of scale shows."""

    feature: Feature
    low: float
    high: float

    def holds(self, outcomes: Outcomes) -> Hits:
        numbers = self.feature.of(outcomes.values)
        result: Hits = (numbers <= self.low) | (numbers > self.high)
        return result

    @property
    def words(self) -> str:
        return f"{self.feature.words} <= {self.low!r} or > {self.high!r}"


@dataclass(frozen=True, slots=True)
class Equals(_Event):
    """The feature has exactly one value."""

    feature: Feature
    value: float

    def holds(self, outcomes: Outcomes) -> Hits:
        result: Hits = self.feature.of(outcomes.values) == self.value
        return result

    @property
    def words(self) -> str:
        return f"{self.feature.words} == {self.value!r}"

    @property
    def public_words(self) -> str:
        return f"{self.feature.words} equals one certain value"


@dataclass(frozen=True, slots=True)
class Row(_Event):
    """All numbers of an output are exactly these."""

    values: tuple[float, ...]

    def holds(self, outcomes: Outcomes) -> Hits:
        result: Hits = (outcomes.values == np.array(self.values)).all(axis=1)
        return result

    @property
    def words(self) -> str:
        return "output == (" + ", ".join(f"{value!r}" for value in self.values) + ")"

    @property
    def public_words(self) -> str:
        return "output equals one certain row of numbers"


@dataclass(frozen=True, slots=True)
class NotANumber(_Event):
    """The feature is NaN although the run gave numbers."""

    feature: Feature

    def holds(self, outcomes: Outcomes) -> Hits:
        missing = np.isnan(self.feature.of(outcomes.values))
        return missing if outcomes.labels is None else missing & (outcomes.labels == "")

    @property
    def words(self) -> str:
        return f"{self.feature.words} is NaN"


@dataclass(frozen=True, slots=True)
class Labelled(_Event):
    """The output carries exactly this label (see `outcomes`)."""

    label: str

    def holds(self, outcomes: Outcomes) -> Hits:
        if outcomes.labels is None:
            return np.zeros(len(outcomes), dtype=np.bool_)
        result: Hits = outcomes.labels == self.label
        return result

    @property
    def words(self) -> str:
        return f"outcome is {self.label!r}"

    @property
    def public_words(self) -> str:
        return f"outcome is one certain {head_of(self.label)!r}"


@dataclass(frozen=True, slots=True)
class Headed(_Event):
    """The output is of this kind: it raised a type of exception, has another length, is text, None, and so on."""

    head: str

    def holds(self, outcomes: Outcomes) -> Hits:
        if outcomes.labels is None:
            return np.zeros(len(outcomes), dtype=np.bool_)
        return np.fromiter((head_of(label) == self.head for label in outcomes.labels), np.bool_, len(outcomes))

    @property
    def words(self) -> str:
        return f"outcome is of the kind {self.head!r}"


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

    def contains(self, output: object, *, width: int = 1) -> bool:
        given = np.asarray([output]) if self.stated.batched else [output]
        return bool(self.holds(self.stated.outcomes(given, width))[0])

    @property
    def words(self) -> str:
        return self.stratum.words + ("" if self.part is None else f" and {self.part.words}")

    @property
    def public_words(self) -> str:
        return self.stratum.words + ("" if self.part is None else f" and {self.part.public_words}")


Event: TypeAlias = Above | AtMost | Within | Outside | Equals | Row | NotANumber | Labelled | Headed | InStratum
"""The closed union of events."""
