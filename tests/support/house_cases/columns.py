"""Quantiles by halving and the most frequent categories, right and wrong. True losses by enumeration."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.accounting.guarantees import PureDP
from dpledger.audit.zoo.cases import Case
from dpledger.audit.zoo.implementations import Implementation, Numbers, Rng

__all__ = ["COLUMNS", "FrequentOnes", "TwoParts"]

Floats: TypeAlias = npt.NDArray[np.float64]
Rows: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class TwoParts(Implementation):
    """The second level of quantiles by halving: a place in each of two parts of a column, 0 to `last` below and the
    rest above, by its distance from the `shares` of the rows there. Published is between which of `edges` each is."""

    boundary: int
    last: int
    shares: tuple[Fraction, Fraction]
    exponent: float
    edges: tuple[int, ...]

    def law(self, data: Rows) -> Floats:
        """The probability of each pair."""
        low = self._part([x for x in data if x <= self.boundary], range(self.boundary + 1), self.shares[0])
        high = self._part([x for x in data if x > self.boundary], range(self.boundary, self.last + 1), self.shares[1])
        found: Floats = np.multiply.outer(low, high).reshape(-1)
        return found

    def _part(self, rows: Sequence[int], places: range, share: Fraction) -> Floats:
        aim = float(share) * len(rows)
        far = [max(sum(x < o for x in rows) - aim, aim - sum(x <= o for x in rows), 0.0) for o in places]
        weights = np.exp(-self.exponent * (np.array(far) - min(far)))
        found: Floats = np.zeros(len(self.edges) + 1)
        np.add.at(found, np.searchsorted(self.edges, places), weights / weights.sum())
        return found[found > 0]

    def __call__(self, data: Rows, size: int, rng: Rng) -> Numbers:
        law = self.law(data)
        return rng.choice(len(law), size=size, p=law)


@dataclass(frozen=True)
class FrequentOnes(Implementation):
    """The `k` most frequent categories in order, by exponential weights among those that are left."""

    k: int
    exponent: float

    def law(self, data: Sequence[int]) -> Mapping[tuple[int, ...], float]:
        """The probability of each order, of counts."""
        weights = np.exp(self.exponent * (np.array(data, dtype=float) - max(data)))
        found = {}
        for order in itertools.permutations(range(len(data)), self.k):
            left, chance = float(weights.sum()), 1.0
            for place in order:
                chance *= float(weights[place]) / left
                left -= float(weights[place])
            found[order] = chance
        return found

    def __call__(self, data: Sequence[int], size: int, rng: Rng) -> Numbers:
        law = self.law(data)
        return rng.choice([self.number(order) for order in law], size=size, p=list(law.values()))

    def number(self, order: Sequence[int]) -> int:
        """An order as one number."""
        return sum(place * 10**at for at, place in enumerate(order))


def _shown(about: str, mechanism: Any, pair: tuple[Any, Any], true_epsilon: float) -> Case:
    """Claimed at epsilon 1."""
    return Case(
        about=about, mechanism=mechanism, left=pair[0], right=pair[1], claim=PureDP(1), true_epsilon=true_epsilon
    )


_SHARES = (Fraction(1, 3), Fraction(1, 2))
_MOVED = ((0, 2, 62, 122), (2, 62, 63, 122))
_EDGES = (1, 62, 122)
_COUNTED = ((0, 3, 0), (0, 4, 0))

COLUMNS: Mapping[str, Case] = MappingProxyType(
    {
        "quantiles_in_two_parts": _shown(
            "a row leaves a part and enters another: 2 max(q, 1 - q) of the worst part are paid for, as claimed",
            TwoParts(62, 124, _SHARES, 3 / 8, _EDGES),
            _MOVED,
            0.8336759011,
        ),
        "quantiles_in_two_parts_as_if_added": _shown(
            "max(q, 1 - q) of the worst part are paid for, as if a row were in one part alone; at worst 1.75",
            TwoParts(62, 124, _SHARES, 3 / 4, _EDGES),
            _MOVED,
            1.6630163054,
        ),
        "frequent_ones": _shown(
            "the two most frequent of three, half of epsilon each, as claimed",
            FrequentOnes(2, 0.5),
            _COUNTED,
            0.7960783639,
        ),
        "frequent_ones_at_all_of_epsilon": _shown(
            "the two most frequent of three, each at all of epsilon; at worst 2",
            FrequentOnes(2, 1.0),
            _COUNTED,
            1.9106159197,
        ),
    }
)
"""Quantiles and frequent categories, right and wrong, by name."""
