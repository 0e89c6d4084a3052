"""Noise at every scale at once: a path in the scale whose value at each scale is Laplace, discrete or rounded.

From the finest scale upwards the path stands still but for jumps, independent of each other. With the place
c = scale (or 1 / (1 - e^(-1/scale)) of the discrete law), the next jump below place c is at c sqrt(U), U uniform; a
jump at c is a Laplace variable of scale c (or a geometric one with a fair sign, of ratio 1 - 1/c). So nothing has to be
known of the scales that will be asked for: the path is drawn once, and read. Jumps and places are functions of their
bits: float64 decides where it is certain, sums of two float64 where they are, exact arithmetic where not. A level is
computed only of entries that jumped since the last one. Proof: docs/proofs/noise.md, section 10.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.mechanisms.entropy import Entropy, Words
from dpledger.mechanisms.noise import doubles, pairs
from dpledger.mechanisms.noise.brackets import Bracket, Outward
from dpledger.mechanisms.noise.doubles import Doubles
from dpledger.mechanisms.noise.laws import DiscreteLaplace, RoundedLaplace, steps_per_scale
from dpledger.mechanisms.noise.refine import Lazy
from dpledger.mechanisms.noise.sampling import Cells, sample

__all__ = ["DiscretePath", "Finest", "LaplacePath", "path"]

Finest: TypeAlias = RoundedLaplace | DiscreteLaplace
"""The laws that a chain can end at."""

_Floats: TypeAlias = npt.NDArray[np.float64]
_Bools: TypeAlias = npt.NDArray[np.bool_]

_ONE, _HALF = Fraction(1), Fraction(1, 2)
_GUARD_DIGITS = 20

# docs/proofs/noise.md, section 10: the largest errors of the float path, where all prefixes are above the guard.
_SMALLEST_WORD = 2**44
_DEPTH_ERROR = 2.0**-41  # of a depth, for each uniform in it
_EDGE_ERROR = 2.0**-44
_LAPLACE_ERROR = 2.0**-37  # of a jump over its place, for each uniform in it and two more
_GEOMETRIC_ERROR = 2.0**-37
_MOST_ROUNDS = 2**8

# the same of sums of two float64
_PREFIX = 2.0**-64  # of a place, for each uniform in it, over that uniform
_DOUBLES = 2.0**-90  # of a jump
_REACH = 2.0**60  # steps: beyond, cells might not fit int64
_LEAST_PLACE = 1 + 2.0**-10  # of the discrete law


@dataclass(frozen=True, slots=True)
class _Round:
    """The next jump of every entry that still had one, or those of all rounds, one after another; `turns`: the round of
    each, from 0. In a round `entries` rise. The last jump of an entry lies below the finest scale and is none: `above`
    says which are. `depth`: ln(place / first place). `rough`: floats do not know."""

    entries: npt.NDArray[np.intp]
    turns: npt.NDArray[np.intp]
    words: Words  # [0]: how deep, [1]: how large, the lowest bit its sign
    depth: _Floats
    rough: _Bools
    above: _Bools


@dataclass(frozen=True, slots=True)
class _Jumps:
    """Jumps, in steps, as sums of two float64, and how far each errs at most."""

    sizes: Doubles
    unsure: _Floats


class _Path(ABC):
    """What both laws share: where the jumps are, between the scale of `finest` and the `first` that is read."""

    def __init__(self, finest: Decimal, first: Decimal, size: int, entropy: Entropy, coarse: float) -> None:
        self._first, self._size, self._entropy, self._coarse = first, size, entropy, coarse
        self._rounds: list[_Round] = []
        self._lazies: dict[tuple[int, int, int], Lazy] = {}
        entries: npt.NDArray[np.intp] = np.arange(size if first > finest else 0)
        depth: _Floats = np.zeros(len(entries))
        rough: _Bools = np.zeros(len(entries), dtype=np.bool_)
        while len(entries):
            words = entropy.words(2 * len(entries)).reshape(2, len(entries))
            depth = depth + 0.5 * np.log(np.maximum(words[0], np.uint64(1)).astype(np.float64) * 2.0**-64)
            rough = rough | (words < np.uint64(_SMALLEST_WORD)).any(axis=0)
            turns: npt.NDArray[np.intp] = np.full(len(entries), len(self._rounds))
            self._rounds.append(_Round(entries, turns, words, depth, rough, np.ones(len(entries), dtype=np.bool_)))
            above = self._deeper(self._rounds[-1], finest, than=False)
            self._rounds[-1] = replace(self._rounds[-1], above=above)
            entries, depth, rough = entries[above], depth[above], rough[above]
        self._all = _together(self._rounds)
        self._sizes = self._sizes_of(self._all)

    @abstractmethod
    def _ratio(self, scale: Decimal, at: Outward) -> Bracket:
        """The place of `scale` over the first place."""

    @abstractmethod
    def _log_ratio(self, scale: Decimal) -> float:
        """The logarithm of it, in floats."""

    @abstractmethod
    def _sizes_of(self, here: _Round) -> npt.NDArray[Any]:
        """The jumps."""

    def _read(self, scale: Decimal) -> _Bools:
        """Which of all jumps the path has made by this scale."""
        return self._all.above if scale == self._first else self._all.above & self._deeper(self._all, scale, than=True)

    def _deeper(self, here: _Round, scale: Decimal, *, than: bool) -> _Bools:
        """Whether each place is below that of `scale` (`than`), or above it."""
        edge = self._log_ratio(scale)
        unsure = self._coarse * ((here.turns + 1) * _DEPTH_ERROR + (1 + abs(edge)) * _EDGE_ERROR)
        result: _Bools = (here.depth < edge) == than
        for i in np.flatnonzero((~(np.abs(here.depth - edge) > unsure) | here.rough) & here.above):
            result[i] = self._exactly_deeper(int(here.turns[i]), int(here.entries[i]), scale) == than
        return result

    def _exactly_deeper(self, turn: int, entry: int, scale: Decimal) -> bool:
        uniforms = self._uniforms(turn, entry)
        while True:
            at = _arithmetic(uniforms)
            low, high = self._relative_place(at, uniforms)
            edge = self._ratio(scale, at)
            if high < edge.low:
                return True
            if low > edge.high:
                return False
            _refine(uniforms)

    def _uniforms(self, turn: int, entry: int) -> list[Lazy]:
        return [self._lazy(0, earlier, entry) for earlier in range(turn + 1)]

    def _lazy(self, row: int, turn: int, entry: int) -> Lazy:
        """The uniform number of a word, with the bits of it that were shown before."""
        key = (row, turn, entry)
        if key not in self._lazies:
            here = self._rounds[turn]
            word = int(here.words[row, np.searchsorted(here.entries, entry)])
            self._lazies[key] = _positive(Lazy(word >> row, 64 - row, self._entropy))
        return self._lazies[key]

    @staticmethod
    def _relative_place(at: Outward, uniforms: list[Lazy]) -> Bracket:
        """The place over the first place: the root of the product of the uniforms."""
        product = at.exact(_ONE)
        for uniform in uniforms:
            product = at.times(product, at.between(uniform.bounds()))
        return at.root(product)


class LaplacePath(_Path):
    """Real numbers, in steps of the grid, of which the nearest whole numbers are read."""

    def __init__(self, law: RoundedLaplace, first: Decimal, size: int, entropy: Entropy, coarse: float) -> None:
        self._top, self._end = Fraction(first) / Fraction(law.grid), steps_per_scale(law)
        self._words = entropy.words(size)
        self._bases: dict[int, Lazy] = {}
        self._made: _Bools | None = None
        self._cells: Cells = np.zeros(size, dtype=object)
        super().__init__(law.scale, first, size, entropy, coarse)

    def _ratio(self, scale: Decimal, at: Outward) -> Bracket:
        return at.exact(Fraction(scale) / Fraction(self._first))

    def _log_ratio(self, scale: Decimal) -> float:
        return math.log(Fraction(scale) / Fraction(self._first))

    def _sizes_of(self, here: _Round) -> npt.NDArray[Any]:
        return _signs(here.words[1]) * _exponentials(here.words[1]) * self._places(here)

    def _places(self, here: _Round) -> _Floats:
        places: _Floats = np.exp(here.depth) * float(self._top)
        return places

    def read(self, scale: Decimal) -> Cells:
        """The value at `scale` of every entry, as Python integers."""
        made = self._read(scale)
        moved = self._moved(made)
        self._made = made
        if len(self._rounds) <= _MOST_ROUNDS:
            for tier in (self._in_floats, self._in_doubles):
                if not moved.any():
                    break
                cells, sure = tier(made & moved[self._all.entries])
                sure &= moved
                self._cells[sure] = [int(cell) for cell in cells[sure]]
                moved &= ~sure
        for entry in np.flatnonzero(moved).tolist():
            self._cells[entry] = self._exactly(entry, self._all.turns[made & (self._all.entries == entry)].tolist())
        return self._cells.copy()

    def _moved(self, made: _Bools) -> _Bools:
        """Which entries have made other jumps than at the last level: of the others the value is the same number."""
        moved: _Bools = np.full(self._size, self._made is None)
        if self._made is not None:
            moved[self._all.entries[made != self._made]] = True
        return moved

    @cached_property
    def _ends(self) -> _Floats:
        """The finest level's value, in steps, and half a step."""
        base: _Floats = _signs(self._words) * _exponentials(self._words) * float(self._end) + 0.5
        return base

    @cached_property
    def _spreads(self) -> _Floats:
        """What each jump errs by, over `_LAPLACE_ERROR`."""
        spreads: _Floats = (self._all.turns + 2) * self._places(self._all)
        return spreads

    def _in_floats(self, made: _Bools) -> tuple[_Floats, _Bools]:
        """The cells of entries whose jumps these are, and which of them are certain."""
        steps, spread = self._ends.copy(), np.full(self._size, 2 * float(self._end))
        rough, chosen = self._words < np.uint64(_SMALLEST_WORD), np.flatnonzero(made)
        moved = self._all.entries[chosen]
        np.add.at(steps, moved, self._sizes[chosen])
        np.add.at(spread, moved, self._spreads[chosen])
        rough[moved[self._all.rough[chosen]]] = True
        unsure = self._coarse * (spread * _LAPLACE_ERROR + 2.0**-51)
        cells = np.floor(steps)
        return cells, (np.abs(steps - cells - 0.5) < 0.5 - unsure) & ~rough

    def _in_doubles(self, made: _Bools) -> tuple[npt.NDArray[np.int64], _Bools]:
        """The same, from sums of two float64."""
        base, *jumps = self._doubled
        steps, unsure = doubles.add(base.sizes, doubles.whole(np.full(self._size, 0.5))), base.unsure.copy()
        end = 0
        for here, jump in zip(self._rounds, jumps, strict=True):
            start, end = end, end + len(here.entries)
            jumped = made[start:end]
            moved = here.entries[jumped]
            if not len(moved):
                continue
            sizes = Doubles(jump.sizes.high[jumped], jump.sizes.low[jumped])
            total = doubles.add(Doubles(steps.high[moved], steps.low[moved]), sizes)
            steps.high[moved], steps.low[moved] = total
            unsure[moved] += jump.unsure[jumped]
        unsure = self._coarse * (unsure + 2.0**-50)
        below = np.floor(steps.high)
        rest = (steps.high - below) + steps.low
        more = np.floor(rest)
        sure = (np.abs(rest - more - 0.5) < 0.5 - unsure) & (np.abs(below) < _REACH)
        cells = np.where(sure, below, 0.0).astype(np.int64) + np.where(sure, more, 0.0).astype(np.int64)
        return cells, sure

    @cached_property
    def _doubled(self) -> list[_Jumps]:
        """The finest level's value, then the jumps of each round."""
        found = [self._jumps(self._words, doubles.from_fraction(self._end), np.zeros(self._size))]
        top, product = doubles.from_fraction(self._top), doubles.whole(np.ones(self._size))
        lost: _Floats = np.zeros(self._size)
        for here in self._rounds:
            uniform, entries = doubles.from_words(np.maximum(here.words[0], np.uint64(1))), here.entries
            deeper = doubles.times(Doubles(product.high[entries], product.low[entries]), uniform)
            product.high[entries], product.low[entries] = deeper
            lost[entries] += _PREFIX / uniform.high
            found.append(self._jumps(here.words[1], doubles.times(doubles.root(deeper), top), lost[entries]))
            found[-1].unsure[here.rough] = np.inf
        return found

    @staticmethod
    def _jumps(words: Words, places: Doubles, lost: _Floats) -> _Jumps:
        """Laplace variables of these words and scales; `lost`: the relative errors of the scales."""
        high, low, unsure = pairs.exponentials((words >> np.uint64(1)).astype(np.int64))
        sizes = doubles.times(doubles.two_sum(high, low), places)
        wide = places.high * (high * (lost + _DOUBLES) + unsure)
        return _Jumps(doubles.negated_where(words & np.uint64(1) == 1, sizes), wide)

    def _exactly(self, entry: int, turns: list[int]) -> int:
        if entry not in self._bases:
            self._bases[entry] = _positive(Lazy(int(self._words[entry]) >> 1, 63, self._entropy))
        base, sizes = self._bases[entry], {turn: self._lazy(1, turn, entry) for turn in turns}
        uniforms = self._uniforms(max(turns, default=-1), entry)
        while True:
            at = _arithmetic([base, *uniforms, *sizes.values()])
            total = _signed(at, _sign(self._words[entry]), at.times(_time(at, base), at.exact(self._end)))
            product = at.exact(self._top * self._top)
            for turn, uniform in enumerate(uniforms):
                product = at.times(product, at.between(uniform.bounds()))
                if turn in sizes:
                    jump = at.times(_time(at, sizes[turn]), at.root(product))
                    total = at.add(total, _signed(at, self._sign(turn, entry), jump))
            low, high = (math.floor(Fraction(end) + _HALF) for end in total)
            if low == high:
                return low
            _refine([base, *uniforms, *sizes.values()])

    def _sign(self, turn: int, entry: int) -> int:
        here = self._rounds[turn]
        return _sign(here.words[1, np.searchsorted(here.entries, entry)])


class DiscretePath(_Path):
    """Whole numbers."""

    def __init__(self, law: DiscreteLaplace, first: Decimal, base: Cells, entropy: Entropy, coarse: float) -> None:
        self._base = base
        super().__init__(law.scale, first, len(base), entropy, coarse)

    def _gap(self, scale: Decimal, at: Outward) -> Bracket:
        """1 - e^(-1/scale): one over the place."""
        return at.subtract(at.exact(_ONE), at.exp(at.negative(at.exact(1 / Fraction(scale)))))

    def _ratio(self, scale: Decimal, at: Outward) -> Bracket:
        return at.over(self._gap(self._first, at), self._gap(scale, at))

    def _log_ratio(self, scale: Decimal) -> float:
        return math.log(math.expm1(-1 / float(self._first)) / math.expm1(-1 / float(scale)))

    def _sizes_of(self, here: _Round) -> npt.NDArray[Any]:
        places = np.exp(here.depth) / -math.expm1(-1 / float(self._first))
        with np.errstate(divide="ignore", invalid="ignore"):  # at places near one, which floats do not decide
            rates = -np.log1p(-1 / places)
            steps = _exponentials(here.words[1]) / rates
            cells = np.floor(steps)
            unsure = self._coarse * (here.turns + 2) * _GEOMETRIC_ERROR * places / ((places - 1) * rates)
            sure = (np.abs(steps - cells - 0.5) < 0.5 - unsure) & ~here.rough & (places >= _LEAST_PLACE)
        found = np.zeros(len(cells), dtype=object)
        for i in np.flatnonzero(here.above):
            found[i] = 1 + (int(cells[i]) if sure[i] else self._exact_cell(int(here.turns[i]), int(here.entries[i])))
        return _signs(here.words[1]).astype(object) * found

    def _exact_cell(self, turn: int, entry: int) -> int:
        """floor(E / -ln(1 - 1/place))."""
        size, uniforms = self._lazy(1, turn, entry), self._uniforms(turn, entry)
        while True:
            at = _arithmetic([size, *uniforms])
            inverse = at.over(self._gap(self._first, at), self._relative_place(at, uniforms))
            ratio = at.subtract(at.exact(_ONE), inverse)
            if ratio.low > 0 and ratio.high < 1:
                steps = at.over(_time(at, size), at.negative(at.ln(ratio)))
                low, high = (math.floor(Fraction(end)) for end in steps)
                if low == high:
                    return low
            _refine([size, *uniforms])

    def read(self, scale: Decimal) -> Cells:
        """The value at `scale` of every entry, as Python integers."""
        found, made = self._base.astype(object), self._read(scale)
        np.add.at(found, self._all.entries[made], self._sizes[made])
        return found


def path(
    finest: Finest, first: Decimal, size: int, entropy: Entropy, *, coarse: float = 1.0
) -> LaplacePath | DiscretePath:
    """Independent paths, to be read at scales from `first` down to that of `finest`.

    `coarse` (at least 1) widens the error bounds, so that tests reach the exact path; the law is the same.
    """
    if isinstance(finest, RoundedLaplace):
        return LaplacePath(finest, first, size, entropy, coarse)
    return DiscretePath(finest, first, sample(finest, size, entropy), entropy, coarse)


def _together(rounds: list[_Round]) -> _Round:
    """The jumps of all rounds, one after another."""
    if not rounds:
        no_entries: npt.NDArray[np.intp] = np.zeros(0, dtype=np.intp)
        no_words: Words = np.zeros((2, 0), dtype=np.uint64)
        none: _Bools = np.zeros(0, dtype=np.bool_)
        return _Round(no_entries, no_entries, no_words, np.zeros(0), none, none)
    parts = ([getattr(here, name) for here in rounds] for name in _Round.__slots__)
    return _Round(*(np.concatenate(part, axis=-1) for part in parts))


def _exponentials(words: Words) -> _Floats:
    """-ln U, the upper 63 bits of each word being the first of U."""
    times: _Floats = -np.log(np.maximum(words >> np.uint64(1), np.uint64(1)).astype(np.float64) * 2.0**-63)
    return times


def _signs(words: Words) -> npt.NDArray[np.int64]:
    signs: npt.NDArray[np.int64] = 1 - 2 * (words & np.uint64(1)).astype(np.int64)
    return signs


def _sign(word: np.uint64) -> int:
    return 1 - 2 * (int(word) & 1)


def _signed(at: Outward, sign: int, x: Bracket) -> Bracket:
    return x if sign > 0 else at.negative(x)


def _time(at: Outward, uniform: Lazy) -> Bracket:
    """-ln U, of a positive U."""
    return at.negative(at.ln(at.between(uniform.bounds())))


def _positive(uniform: Lazy) -> Lazy:
    """The same, with so many bits that it is above zero."""
    while uniform.numerator == 0:
        uniform.refine()
    return uniform


def _arithmetic(uniforms: list[Lazy]) -> Outward:
    return Outward(max(uniform.bits for uniform in uniforms) + _GUARD_DIGITS)


def _refine(uniforms: list[Lazy]) -> None:
    for uniform in uniforms:
        uniform.refine()
