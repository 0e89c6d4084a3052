"""Scores of the bits of doubles: what a value as a number hides.

Only the low bits may tell (Mironov 2012, On significance of the least significant bits for differential privacy): the
doubles that `x + noise` can reach depend on x. So do a sign of zero, the payload of a NaN, a parity of many coins.

>>> from dpledger.audit.outcomes.encoding import encode
>>> found = encode([0.5, 0.75, -0.0])
>>> Grain(Place("output")).of(found).tolist(), Kind(Place("output")).of(found).tolist()
([-1.0, -2.0, inf], [3.0, 3.0, 1.0])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.audit.features.score import Cells, Number, Place, codes, edges_below, listed, table
from dpledger.audit.outcomes.structure import Floats, Outcomes

__all__ = ["Bit", "Grain", "GrainByValue", "Kind", "LowBits", "Parity", "Pattern", "Payload", "Residue", "bits_of"]

Words: TypeAlias = npt.NDArray[np.uint64]
Bit: TypeAlias = Literal["sign", "high", "last", "odd"]
"""Which bit of a number: its sign, whether it is above a threshold, its lowest mantissa bit, whether it is odd."""

_MANTISSA = np.uint64(2**52 - 1)
_IMPLICIT = np.uint64(2**52)
_EXPONENT = np.uint64(0x7FF0000000000000)
_QUIET = np.uint64(0x7FF8000000000000)
_KINDS = ("a negative number", "-0.0", "0.0", "a positive number", "-inf", "inf", "NaN", "NaN with a sign or payload")
_TRAILING_ZEROS = np.array([3, 0, 1, 0, 2, 0, 1, 0])  # of a word that ends in these three bits
_BY_TOP_BITS = np.repeat([3.0, 0.0], 2**11)  # by sign and exponent; -1 where the mantissa says which
_BY_TOP_BITS[[0, 2**11 - 1, 2**11, 2**12 - 1]] = -1
VALUE_CELLS = 16
FINE = -24  # the exponent of a grid below which it is that of doubles, not of what is counted or rounded


def _words(numbers: Floats) -> Words:
    return np.ascontiguousarray(numbers).view(np.uint64)


def _sorts(numbers: Floats, words: Words) -> Floats:
    """The place of each number in `_KINDS`."""
    negative = (words >> np.uint64(63)).astype(bool)
    cells = np.where(negative, 0, 3)
    cells = np.where(numbers == 0, np.where(negative, 1, 2), cells)
    cells = np.where(np.isinf(numbers), np.where(negative, 4, 5), cells)
    return np.where(np.isnan(numbers), np.where(words == _QUIET, 6, 7), cells).astype(np.float64)


def _grain(numbers: Floats) -> Floats:
    """The exponent of the lowest set bit of a double; inf of 0, NaN of what is not finite."""
    words = _words(numbers)
    exponent = ((words & _EXPONENT) >> np.uint64(52)).astype(np.int64)
    mantissa = (words & _MANTISSA) | np.where(exponent > 0, _IMPLICIT, np.uint64(0))
    lowest = (mantissa & (~mantissa + np.uint64(1))).astype(np.float64)  # a power of two
    zeros = np.frexp(lowest)[1] - 1
    grain = np.where(mantissa == 0, np.inf, zeros + np.maximum(exponent, 1) - 1075)
    return np.where(exponent == 2047, np.nan, grain)


@dataclass(frozen=True, slots=True)
class Grain(Number):
    """The largest k such that a number is a multiple of 2^k."""

    place: Place

    @property
    def of_bits(self) -> bool:
        return True

    def of(self, outcomes: Outcomes) -> Floats:
        return _grain(self.place.of(outcomes))

    @property
    def words(self) -> str:
        return f"largest k for which 2^k divides {self.place.words}"


@dataclass(frozen=True, slots=True)
class GrainByValue(Cells):
    """In which of 16 ranges a number lies, and how many of its lowest bits are 0 (0, 1, 2, more)."""

    place: Place
    edges: tuple[float, ...]

    @property
    def of_bits(self) -> bool:
        return True

    @property
    def categories(self) -> int:
        return 4 * VALUE_CELLS

    def of(self, outcomes: Outcomes) -> Floats:
        numbers = self.place.of(outcomes)
        zeros = _TRAILING_ZEROS[(_words(numbers) & np.uint64(7)).astype(np.intp)]
        return codes(4 * edges_below(np.array(self.edges), numbers) + zeros, ~np.isnan(numbers))

    @property
    def words(self) -> str:
        return f"range and trailing zero bits of {self.place.words}"

    def category(self, code: int) -> str:
        ends = ("-inf", *(f"{edge:.4g}" for edge in self.edges), "inf")
        count = code % 4
        return (
            f"({ends[code // 4]}, {ends[code // 4 + 1]}] with {count if count < 3 else '3 or more'} trailing zero bits"
        )


@dataclass(frozen=True, slots=True)
class Kind(Cells):
    """The sign of a number, zero or not, infinite or not; two cells of NaN."""

    place: Place

    @property
    def categories(self) -> int:
        return len(_KINDS)

    def of(self, outcomes: Outcomes) -> Floats:
        numbers = self.place.of(outcomes)
        words = _words(numbers)
        cells = _BY_TOP_BITS.take((words >> np.uint64(52)).view(np.int64))
        (rare,) = np.nonzero(cells < 0)
        cells[rare] = _sorts(numbers[rare], words[rare])
        return cells

    @property
    def words(self) -> str:
        return f"sort of {self.place.words}"

    def category(self, code: int) -> str:
        return _KINDS[code]

    def public_category(self, code: int) -> str:
        return _KINDS[code]


@dataclass(frozen=True, slots=True)
class Payload(Number):
    """The sign and payload of a NaN as a whole number; not defined for a number."""

    place: Place

    def of(self, outcomes: Outcomes) -> Floats:
        numbers = self.place.of(outcomes)
        words = _words(numbers)
        payload = (words & _MANTISSA).astype(np.float64) + (words >> np.uint64(63)).astype(np.float64) * 2.0**52
        return np.where(np.isnan(numbers), payload, np.nan)

    @property
    def words(self) -> str:
        return f"payload of {self.place.words}"


@dataclass(frozen=True, slots=True)
class LowBits(Cells):
    """The three lowest bits of the mantissa."""

    place: Place

    @property
    def of_bits(self) -> bool:
        return True

    @property
    def categories(self) -> int:
        return 8

    def of(self, outcomes: Outcomes) -> Floats:
        return (_words(self.place.of(outcomes)) & np.uint64(7)).astype(np.float64)

    @property
    def words(self) -> str:
        return f"three lowest bits of {self.place.words}"

    def category(self, code: int) -> str:
        return f"{code:03b}"


@dataclass(frozen=True, slots=True)
class Residue(Cells):
    """Of a number that is a multiple of 2^exponent: how many times modulo 8; the last cell is no multiple."""

    place: Place
    exponent: int

    @property
    def of_bits(self) -> bool:
        return self.exponent < FINE

    @property
    def categories(self) -> int:
        return 9

    def of(self, outcomes: Outcomes) -> Floats:
        numbers = self.place.of(outcomes)
        with np.errstate(all="ignore"):
            times = np.ldexp(numbers, -self.exponent)
            residue = np.mod(times, 8.0)
            return np.where(np.isnan(numbers), np.nan, np.where(residue == np.floor(residue), residue, 8.0))

    @property
    def words(self) -> str:
        unit = "" if self.exponent == 0 else f" / 2^{self.exponent}"
        return f"{self.place.words}{unit} modulo 8"

    def category(self, code: int) -> str:
        return str(code) if code < 8 else "no whole number"


def bits_of(numbers: Floats, bit: Bit, thresholds: tuple[float, ...]) -> npt.NDArray[np.bool_]:
    """One bit of each number: bool[runs, places]."""
    with np.errstate(all="ignore"):
        match bit:
            case "sign":
                found = np.signbit(numbers)
            case "high":
                found = numbers > np.array(thresholds)
            case "last":
                found = (_words(numbers) & np.uint64(1)).astype(bool)
            case "odd":
                found = np.mod(np.floor(numbers), 2.0) == 1
    return np.asarray(found, dtype=np.bool_)


_BITS: dict[Bit, str] = {"sign": "signs", "high": "high bits", "last": "lowest bits", "odd": "odd numbers"}


@dataclass(frozen=True, slots=True)
class Parity(Cells):
    """Whether an odd number of some numbers have a bit."""

    places: tuple[Place, ...]
    bit: Bit
    thresholds: tuple[float, ...] = ()

    @property
    def of_bits(self) -> bool:
        return self.bit == "last"

    @property
    def categories(self) -> int:
        return 2

    def of(self, outcomes: Outcomes) -> Floats:
        numbers = table(outcomes, self.places)
        odd = np.bitwise_xor.reduce(bits_of(numbers, self.bit, self.thresholds), axis=1)
        return np.asarray(odd, dtype=np.float64)

    @property
    def words(self) -> str:
        return f"parity of the {_BITS[self.bit]} of {listed(self.places)}"

    def category(self, code: int) -> str:
        return "odd" if code else "even"


@dataclass(frozen=True, slots=True)
class Pattern(Cells):
    """Which of at most six numbers have a bit."""

    places: tuple[Place, ...]
    bit: Bit
    thresholds: tuple[float, ...] = ()

    @property
    def of_bits(self) -> bool:
        return self.bit == "last"

    @property
    def categories(self) -> int:
        return int(2 ** len(self.places))

    def of(self, outcomes: Outcomes) -> Floats:
        found = bits_of(table(outcomes, self.places), self.bit, self.thresholds)
        return np.asarray(np.einsum("ij,j->i", found.astype(np.float64), 2.0 ** np.arange(len(self.places))))

    @property
    def words(self) -> str:
        return f"{_BITS[self.bit]} of {listed(self.places)}"

    def category(self, code: int) -> str:
        return format(code, f"0{len(self.places)}b")[::-1]
