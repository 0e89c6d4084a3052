"""Counts that come as dicts, texts, bytes, None, exceptions, decimals and fractions."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType

from dpledger.accounting.guarantees import PureDP
from dpledger.audit.zoo.cases import INFINITE, Case, Shown, family
from dpledger.audit.zoo.implementations import Implementation, Rng

__all__ = ["COUNTED"]


@dataclass(frozen=True)
class CountsByKey(Implementation):
    """How many rows, and how many of them are adults, each with half of epsilon. `exact`: adults without noise."""

    exact: bool

    def __call__(self, data: Sequence[int], rng: Rng) -> dict[str, float]:
        adults = sum(age >= 18 for age in data)
        return {
            "rows": len(data) + rng.laplace(scale=2.0),
            "adults": adults if self.exact else adults + rng.laplace(scale=2.0),
        }


@dataclass(frozen=True)
class CountInASentence(Implementation):
    """A noisy count in words. `total`: they also name how many rows there are."""

    total: bool

    def __call__(self, data: Sequence[int], rng: Rng) -> str:
        noisy = len(data) + rng.laplace()
        return f"{noisy} of {len(data)} rows" if self.total else f"about {noisy} rows"


@dataclass(frozen=True)
class CountAsJson(Implementation):
    """A noisy count as bytes of JSON."""

    scale: Decimal

    def __call__(self, data: Sequence[int], rng: Rng) -> bytes:
        return json.dumps({"rows": len(data) + rng.laplace(scale=float(self.scale)), "unit": "row"}).encode()


@dataclass(frozen=True)
class CountOrNone(Implementation):
    """A noisy count, or None below five. `exact`: the true count is what is compared."""

    exact: bool

    def __call__(self, data: Sequence[int], rng: Rng) -> float | None:
        noisy = len(data) + rng.laplace()
        compared = len(data) if self.exact else noisy
        return None if compared < 5 else float(noisy)


@dataclass(frozen=True)
class CountOfNumbers(Implementation):
    """A noisy count of the texts that are whole numbers. `strict`: any other text raises."""

    strict: bool

    def __call__(self, data: Sequence[str], rng: Rng) -> float:
        found = 0
        for text in data:
            try:
                int(text)
            except ValueError:
                if self.strict:
                    raise
            else:
                found += 1
        return found + float(rng.laplace())


@dataclass(frozen=True)
class AgesOfRows(Implementation):
    """A noisy count of rows; a row that lacks an age and one whose age is no number raise each in their own way."""

    def __call__(self, data: Sequence[Mapping[str, str]], rng: Rng) -> float:
        return len([int(row["age"]) for row in data]) + float(rng.laplace())


@dataclass(frozen=True)
class ReadRows(Implementation):
    """How many rows were read, with noise of this scale, if any: `stops` at the first that is missing, or skips it."""

    stops: bool
    scale: Decimal

    def __call__(self, data: Sequence[float | None], rng: Rng) -> list[float]:
        read = 0
        for value in data:
            if value is not None:
                read += 1
            elif self.stops:
                break
        return [read + rng.laplace(scale=float(self.scale))] if self.scale else [read]


@dataclass(frozen=True)
class RoundedCount(Implementation):
    """A count and noise as a whole number. `before`: the count is rounded to tens, to which noise for one is added."""

    before: bool

    def __call__(self, data: Sequence[int], rng: Rng) -> int:
        return round((round(len(data), -1) if self.before else len(data)) + rng.laplace())


@dataclass(frozen=True)
class CountAsDecimal(Implementation):
    """A noisy count in thousandths, claimed at 1/2. A scale of 1/2 takes epsilon for the scale."""

    scale: Decimal

    def __call__(self, data: Sequence[int], rng: Rng) -> Decimal:
        thousandths = round(1000 * (len(data) + float(rng.laplace(scale=float(self.scale)))))
        return Decimal(f"{thousandths}e-3")


@dataclass(frozen=True)
class ShareAsFraction(Implementation):
    """Of ten rows the share that is 1, with geometric noise. `one_sided`: noise that is never negative."""

    one_sided: bool

    def __call__(self, data: Sequence[int], rng: Rng) -> Fraction:
        stop = 1 - math.exp(-1)
        noise = int(rng.geometric(stop)) - (1 if self.one_sided else int(rng.geometric(stop)))
        return Fraction(sum(data) + noise, 10)


@dataclass(frozen=True)
class NonNegativeCount(Implementation):
    """A noisy count of at least 0. `redrawn`: noise is drawn again while it is negative, in place of a 0."""

    redrawn: bool

    def __call__(self, data: Sequence[int], rng: Rng) -> float:
        noisy = len(data) + float(rng.laplace())
        while self.redrawn and noisy < 0:
            noisy = len(data) + float(rng.laplace())
        return max(0.0, noisy)


_ROWS = (1,) * 5
_HALF = Decimal("0.5")

COUNTED: Mapping[str, Case] = MappingProxyType(
    {
        **family(
            ((34, 51, 16), (34, 16)),
            counts_in_a_dict=Shown("a dict of two counts, each with half of epsilon", CountsByKey(False), 1.0, 500),
            counts_in_a_dict_one_exact=Shown("one key of the dict has no noise", CountsByKey(True), INFINITE),
        ),
        **family(
            (_ROWS, _ROWS[1:]),
            count_in_a_sentence=Shown("a noisy count in words, with all digits", CountInASentence(False), 1.0),
            count_in_a_sentence_with_total=Shown("the words name the true total", CountInASentence(True), INFINITE),
            count_as_json=Shown("a noisy count as bytes of JSON", CountAsJson(Decimal(1)), 1.0),
            count_as_json_half_noise=Shown("the same with half of the noise", CountAsJson(_HALF), 2.0),
            count_or_none=Shown("None where the noisy count is below five", CountOrNone(False), 1.0),
            count_or_none_by_true_count=Shown("None where the true count is", CountOrNone(True), INFINITE),
        ),
        **family(
            (("1", "2", "three"), ("1", "2", "3")),
            texts_counted=Shown("a noisy count of texts that are numbers", CountOfNumbers(False), 1.0),
            raises_on_one_record=Shown("a text that is no number raises", CountOfNumbers(True), INFINITE),
        ),
        **family(
            (({"age": "34"}, {}), ({"age": "34"}, {"age": "?"})),
            exception_tells_of_one_record=Shown("KeyError or ValueError: a row decides", AgesOfRows(), INFINITE),
        ),
        **family(
            ((1.0, 2.0, 3.0, 4.0), (None, 2.0, 3.0, 4.0)),
            rows_read=Shown("how many rows are not missing, with noise", ReadRows(False, Decimal(1)), 1.0),
            rows_read_up_to_a_missing_one=Shown(
                "it stops at the first that is missing: a row moves it by all", ReadRows(True, Decimal(1)), 4.0
            ),
            rows_read_without_noise=Shown("and says where", ReadRows(True, Decimal(0)), INFINITE),
        ),
        **family(
            ((1,) * 15, (1,) * 14),
            rounded_after_noise=Shown("a noisy count as a whole number", RoundedCount(False), 1.0),
            rounded_before_noise=Shown("tens, and noise for one", RoundedCount(True), 10.0),
        ),
        **family(
            (_ROWS, _ROWS[1:]),
            claim=PureDP("0.5"),
            count_as_decimal=Shown("a noisy count in thousandths", CountAsDecimal(Decimal(2)), 0.5),
            scale_is_epsilon=Shown("epsilon was taken for the scale", CountAsDecimal(_HALF), 2.0),
        ),
        **family(
            ((1,) * 4 + (0,) * 6, (1,) * 3 + (0,) * 7),
            share_as_fraction=Shown("a share with geometric noise", ShareAsFraction(False), 1.0),
            share_as_fraction_one_sided=Shown("noise that is never negative", ShareAsFraction(True), INFINITE),
        ),
        **family(
            ((), (1,)),
            count_clamped_at_zero=Shown("a noisy count, at least 0", NonNegativeCount(False), 1.0),
            count_redrawn_below_zero=Shown(
                "drawn again while it is negative: how often is private", NonNegativeCount(True), 1.4898801256, 20_000
            ),
        ),
    }
)
"""Counts, right and wrong, by name."""
