"""Scores that put an outcome in one of a few cells: its labels, equal values, order, what equals an input.

>>> from dpledger.audit.outcomes.encoding import encode
>>> kind = Label("output", ("None", "text"))
>>> kind.of(encode([None, "a", 1.5])).tolist(), kind.category(2)
([0.0, 1.0, 2.0], 'anything else')
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, permutations

import numpy as np
import numpy.typing as npt

from dpledger.audit.features.score import Cells, Place, codes, listed, table
from dpledger.audit.outcomes.structure import ABSENT, ROOT, Floats, Outcomes

__all__ = ["EqualPairs", "Extreme", "Label", "Matches", "Order", "RepeatedValues", "Rows"]


@dataclass(frozen=True, slots=True)
class Label(Cells):
    """Which of some labels a path has; the last cell is any other. `chief`: it is one of a few, and outputs are no
    numbers."""

    path: str
    known: tuple[str, ...]
    chief: bool = False

    @property
    def primary(self) -> bool:
        return self.chief

    @property
    def categories(self) -> int:
        return len(self.known) + 1

    def of(self, outcomes: Outcomes) -> Floats:
        places = {label: float(code) for code, label in enumerate(self.known)}
        other = float(len(self.known))
        found = outcomes.labels.get(self.path)
        if found is None:
            same = "" if self.path in outcomes.numbers else ABSENT
            return np.full(len(outcomes), places.get(same, other))
        return np.array([places.get(label, other) for label in found], dtype=np.float64)

    @property
    def words(self) -> str:
        return f"kind of {self.path}" if self.path.startswith(ROOT) else self.path

    def category(self, code: int) -> str:
        return "anything else" if code == len(self.known) else repr(self.known[code] or "a plain number")

    def public_category(self, code: int) -> str:
        label = "" if code == len(self.known) else self.known[code]
        if label.startswith("raises ") or label in ("None", "text", "int", ABSENT):
            return self.category(code)
        return "one certain kind" if self.path.startswith(ROOT) else "one certain text"


@dataclass(frozen=True, slots=True)
class RepeatedValues(Cells):
    """Which of some values a number has (ascending); the last cell is any other."""

    place: Place
    values: tuple[float, ...]

    @property
    def categories(self) -> int:
        return len(self.values) + 1

    def of(self, outcomes: Outcomes) -> Floats:
        numbers, values = self.place.of(outcomes), np.array(self.values)
        cells = np.minimum(np.searchsorted(values, numbers), len(values) - 1)
        return codes(np.where(values[cells] == numbers, cells, len(values)), ~np.isnan(numbers))

    @property
    def words(self) -> str:
        return f"value of {self.place.words}"

    def category(self, code: int) -> str:
        return "anything else" if code == len(self.values) else repr(self.values[code])


@dataclass(frozen=True, slots=True)
class Rows(Cells):
    """Which of some rows a few numbers are, all of them; the last cell is any other."""

    places: tuple[Place, ...]
    rows: tuple[tuple[float, ...], ...]

    @property
    def categories(self) -> int:
        return len(self.rows) + 1

    def of(self, outcomes: Outcomes) -> Floats:
        numbers = table(outcomes, self.places)
        found = np.full(len(numbers), float(len(self.rows)))
        for code, row in enumerate(self.rows):
            found[(numbers == np.array(row)).all(axis=1)] = code
        return found

    @property
    def words(self) -> str:
        return f"row of {listed(self.places)}"

    def category(self, code: int) -> str:
        return "anything else" if code == len(self.rows) else repr(self.rows[code])


@dataclass(frozen=True, slots=True)
class Matches(Cells):
    """Whether some of the numbers are numbers of the left data alone, of the right data alone, of both."""

    places: tuple[Place, ...]
    left: tuple[float, ...]
    right: tuple[float, ...]
    both: tuple[float, ...]

    @property
    def categories(self) -> int:
        return 8

    def of(self, outcomes: Outcomes) -> Floats:
        numbers = table(outcomes, self.places)
        cells = np.zeros(len(numbers), dtype=np.int64)
        for weight, values in ((1, self.left), (2, self.right), (4, self.both)):
            if values:
                cells += weight * np.isin(numbers, np.array(values)).any(axis=1)
        return cells.astype(np.float64)

    @property
    def words(self) -> str:
        return f"what {listed(self.places)} has in common with the data"

    def category(self, code: int) -> str:
        names = ("the left data alone", "the right data alone", "both data")
        held = [name for bit, name in enumerate(names) if code >> bit & 1]
        return f"a number of {' and of '.join(held)}" if held else "nothing"

    def public_category(self, code: int) -> str:
        return self.category(code)


@dataclass(frozen=True, slots=True)
class Order(Cells):
    """In which order a few numbers are, the smallest first; equal ones in that of their places."""

    places: tuple[Place, ...]

    @property
    def categories(self) -> int:
        return len(self._orders)

    @property
    def _orders(self) -> list[tuple[int, ...]]:
        return list(permutations(range(len(self.places))))

    def of(self, outcomes: Outcomes) -> Floats:
        numbers, count = table(outcomes, self.places), len(self.places)
        weights = count ** np.arange(count)
        of_order = np.zeros(count**count, dtype=np.int64)
        of_order[np.array(self._orders) @ weights] = np.arange(self.categories)
        found = of_order[np.argsort(numbers, axis=1, kind="stable") @ weights]
        return codes(found, _whole(numbers))

    @property
    def words(self) -> str:
        return f"order of {listed(self.places)}"

    def category(self, code: int) -> str:
        return " <= ".join(self.places[place].words for place in self._orders[code])

    def public_category(self, code: int) -> str:
        return " <= ".join(f"number {place}" for place in self._orders[code])


@dataclass(frozen=True, slots=True)
class Extreme(Cells):
    """Which of some numbers is the largest, or the smallest: the first of them."""

    places: tuple[Place, ...]
    largest: bool = True

    @property
    def categories(self) -> int:
        return len(self.places)

    def of(self, outcomes: Outcomes) -> Floats:
        numbers = table(outcomes, self.places)
        found = np.argmax(numbers if self.largest else -numbers, axis=1)
        return codes(found, _whole(numbers))

    @property
    def words(self) -> str:
        return f"{'largest' if self.largest else 'smallest'} of {listed(self.places)}"

    def category(self, code: int) -> str:
        return self.places[code].words

    def public_category(self, code: int) -> str:
        return f"number {code}"


@dataclass(frozen=True, slots=True)
class EqualPairs(Cells):
    """Which of at most four numbers are equal to each other."""

    places: tuple[Place, ...]

    @property
    def categories(self) -> int:
        return int(2 ** len(self._pairs))

    @property
    def _pairs(self) -> list[tuple[int, int]]:
        return list(combinations(range(len(self.places)), 2))

    def of(self, outcomes: Outcomes) -> Floats:
        numbers = table(outcomes, self.places)
        cells = sum(2**bit * (numbers[:, one] == numbers[:, other]) for bit, (one, other) in enumerate(self._pairs))
        return np.asarray(cells, dtype=np.float64)

    @property
    def words(self) -> str:
        return f"equal numbers among {listed(self.places)}"

    def category(self, code: int) -> str:
        equal = [pair for bit, pair in enumerate(self._pairs) if code >> bit & 1]
        return " and ".join(f"number {one} == number {other}" for one, other in equal) or "none"

    def public_category(self, code: int) -> str:
        return self.category(code)


def _whole(numbers: Floats) -> npt.NDArray[np.bool_]:
    """Which rows hold no NaN."""
    return np.asarray(~np.isnan(numbers).any(axis=1), dtype=np.bool_)
