"""Tables of groups, as dicts, series and frames, and what is told of single rows."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from dpledger.accounting.guarantees import ApproxDP, PureDP
from dpledger.audit.zoo.cases import INFINITE, Case, Shown, family
from dpledger.audit.zoo.implementations import Implementation, Rng

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["GROUPED"]

CITIES = ("Lima", "Oslo", "Rome")


@dataclass(frozen=True)
class CountsByGroup(Implementation):
    """Noisy counts by city. `keys`: of all cities, or of those that occur; of those it keeps what is above the least
    noisy count that is shown."""

    keys: Literal["public", "of the data"]
    least: Decimal = Decimal("-Infinity")

    def __call__(self, data: Sequence[str], rng: Rng) -> dict[str, float]:
        least = float(self.least)
        cities = CITIES if self.keys == "public" else sorted(set(data))
        noisy = {city: data.count(city) + float(rng.laplace()) for city in cities}
        return {city: count for city, count in noisy.items() if count > least}


@dataclass(frozen=True)
class FrameOfCities(Implementation):
    """A frame of noisy counts. `exact`: with a column of true counts."""

    exact: bool

    def __call__(self, data: Sequence[str], rng: Rng) -> pd.DataFrame:
        import pandas as pd  # here: the zoo is listed without it

        counts = [data.count(city) for city in CITIES]
        columns = {"noisy": counts + rng.laplace(size=len(CITIES))}
        return pd.DataFrame(columns | ({"rows": counts} if self.exact else {}), index=list(CITIES))


@dataclass(frozen=True)
class LastRow(Implementation):
    """A frame of the last row alone, a number in [0, 10] with noise. `numbered`: it keeps its place in the index."""

    numbered: bool

    def __call__(self, data: Sequence[float], rng: Rng) -> pd.DataFrame:
        import pandas as pd  # here: the zoo is listed without it

        last = pd.DataFrame({"value": data}).tail(1) + rng.laplace(scale=10.0)
        return last if self.numbered else last.reset_index(drop=True)


@dataclass(frozen=True)
class VisitsByShop(Implementation):
    """A series of noisy counts of visits (user, shop), of which each user counts for at most `most`, by which the
    scale does not grow."""

    most: int

    def __call__(self, data: Sequence[tuple[str, str]], rng: Rng) -> pd.Series[float]:
        import pandas as pd  # here: the zoo is listed without it

        visits: Counter[str] = Counter()
        counted: Counter[str] = Counter()
        for user, city in data:
            counted[user] += 1
            visits[city] += counted[user] <= self.most
        return pd.Series({city: visits[city] + float(rng.laplace()) for city in CITIES})


@dataclass(frozen=True)
class LargeGroups(Implementation):
    """Groups of three and more, by a noisy count. `exact`: by the true one, which is shown."""

    exact: bool

    def __call__(self, data: Sequence[str], rng: Rng) -> dict[str, float]:
        counts = {city: data.count(city) + (0.0 if self.exact else float(rng.laplace())) for city in CITIES}
        return {city: count for city, count in counts.items() if count >= 3}


@dataclass(frozen=True)
class BloomReport(Implementation):
    """Eight bits of a Bloom filter with two hashes of a word, each flipped with probability `flip`: RAPPOR, once.

    Erlingsson-Pihur-Korolova 2014."""

    flip: Decimal

    def __call__(self, data: str, rng: Rng) -> tuple[bool, ...]:
        return tuple((bit in bits_of(data)) != (rng.random() < float(self.flip)) for bit in range(8))


def bits_of(word: str) -> set[int]:
    """Where two hashes of a word fall among eight bits."""
    return {hashlib.sha256(f"{salt}{word}".encode()).digest()[0] % 8 for salt in range(2)}


@dataclass(frozen=True)
class RowAtRandom(Implementation):
    """One of the rows, as it is: at epsilon 0, and at a delta of one by their number."""

    def __call__(self, data: Sequence[int], rng: Rng) -> int:
        return int(data[int(rng.integers(len(data)))])


@dataclass(frozen=True)
class SampledSum(Implementation):
    """A noisy sum of a random half of the rows. `told`: so is which half."""

    told: bool

    def __call__(self, data: Sequence[int], rng: Rng) -> dict[str, object]:
        drawn = [place for place in range(len(data)) if rng.random() < 0.5]
        noisy = sum(data[place] for place in drawn) + float(rng.laplace())
        return {"sum": noisy, "rows": drawn} if self.told else {"sum": noisy}


@dataclass(frozen=True)
class Pseudonyms(Implementation):
    """Names under a hash, in its order, beside a noisy count."""

    def __call__(self, data: Sequence[str], rng: Rng) -> tuple[list[str], float]:
        return sorted(hashlib.sha256(name.encode()).hexdigest()[:8] for name in data), len(data) + rng.laplace()


_ALONE = (("Rome", "Rome", "Oslo"), ("Rome", "Rome"))
_FEW, _MANY = tuple(range(20)), tuple(range(200))

GROUPED: Mapping[str, Case] = MappingProxyType(
    {
        **family(
            _ALONE,
            histogram_of_public_keys=Shown(
                "noisy counts of all cities that there are", CountsByGroup("public"), 1.0, 500
            ),
            histogram_of_own_keys=Shown("of those that somebody lives in", CountsByGroup("of the data"), INFINITE),
            frame_of_noisy_counts=Shown("a frame of noisy counts", FrameOfCities(False), 1.0, 500),
            frame_with_true_counts=Shown("with one column of true counts", FrameOfCities(True), INFINITE),
        ),
        **family(
            ((10.0, 0.0), (10.0,)),
            last_row=Shown("the last row as a frame, with noise", LastRow(False), 1.0),
            last_row_in_its_place=Shown("which keeps its place in the index", LastRow(True), INFINITE),
        ),
        **family(
            _ALONE,
            claim=ApproxDP(1, "0.01"),
            histogram_of_frequent_keys=Shown(
                "of cities that occur, those above a threshold for delta",
                CountsByGroup("of the data", Decimal("4.95")),
                0.0,
            ),
            histogram_of_rare_keys=Shown(
                "the threshold is for a delta of 0.07", CountsByGroup("of the data", Decimal(3)), INFINITE, 3_000
            ),
        ),
        **family(
            ((("a", "Rome"), ("b", "Rome"), ("b", "Oslo"), ("b", "Lima")), (("a", "Rome"),)),
            visits_one_of_each_user=Shown("visits, one of each user", VisitsByShop(1), 1.0, 500),
            visits_all_of_each_user=Shown("all visits, with noise for one of each user", VisitsByShop(3), 3.0),
        ),
        **family(
            (("Rome",) * 4, ("Rome",) * 3),
            groups_by_noisy_size=Shown("groups of three and more by noisy counts", LargeGroups(False), 1.0),
            groups_by_true_size=Shown("true counts where they are three and more", LargeGroups(True), INFINITE),
        ),
        **family(
            ("cat", "dog"),
            rappor=Shown(
                "bits of a Bloom filter, each with a quarter of epsilon",
                BloomReport(Decimal("0.43783")),
                0.9998943523,
                500,
            ),
            rappor_bit_by_bit=Shown("each bit with all of epsilon", BloomReport(Decimal("0.26895")), 3.9998254726),
        ),
        **family(
            (_MANY, (*_MANY[1:], -1)),
            claim=ApproxDP(1, "0.01"),
            row_at_random=Shown("one of two hundred rows, at a delta of 0.01", RowAtRandom(), 0.0, 500),
        ),
        **family(
            (_FEW, (*_FEW[1:], -1)),
            claim=ApproxDP(1, "0.01"),
            row_of_few_at_random=Shown("one of twenty: delta 0.05", RowAtRandom(), INFINITE, 2_000),
        ),
        **family(
            ((1, 0), (0, 0)),
            claim=PureDP("0.6201145070"),
            half_of_rows=Shown("a noisy sum of a random half, amplified", SampledSum(False), 0.6201145069),
            half_of_rows_told=Shown("and which half is told", SampledSum(True), 1.0, 15_000),
        ),
        **family(
            (("Anna", "Bo"), ("Bo",)),
            pseudonyms=Shown("names under a hash", Pseudonyms(), INFINITE),
        ),
    }
)
"""Groups, right and wrong, by name."""
