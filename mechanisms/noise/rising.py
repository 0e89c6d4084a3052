"""Rising places: several of one column at once, by how many rows lie between them, exactly.

Every tuple of places has a score: minus how many rows the parts between its places, in order, have too many or too few
of. A tuple is chosen by exponential weights among all of them, and handed out in order. Tuples are too many to race.
So a proposal is made stage by stage, with weights that are whole numbers, near those that sums over all that may follow
say in floats; and a coin corrects it, which falls with exactly the probability that is missing. docs/proofs/noise.md,
section 11. Source: Gillenwater-Joseph-Kulesza 2021, the law; the sampler is ours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise.bernoulli import Chance, tossed, uniform_below
from dpledger.mechanisms.noise.brackets import Bracket, Outward
from dpledger.mechanisms.noise.laws import ExponentialWeights, Sensitivity
from dpledger.mechanisms.noise.randomness_log import logged

__all__ = ["RisingPlaces", "Steps"]

Wholes: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]

FAR = Fraction(1, 2**64)
"""How often a tuple is proposed among all, however bad."""
_WEIGHT = 2.0**40  # of the likeliest candidate of a stage
_UNIT = 2.0**-50  # above the rounding of one operation, and of an exponential or a logarithm
_PROBES = 64


class Steps(Protocol):
    """How many rows lie at a place or below it, and where that rises: the places of rows from one rank to another, and
    how many rows lie below each, and below what follows."""

    def upto(self, place: int) -> int: ...
    def near(self, least: int, most: int) -> tuple[Wholes, Wholes]: ...


@dataclass(frozen=True, slots=True)
class _Segments:
    """Places in a row with as many rows at or below them: where each begins, how many places, how many rows."""

    starts: Wholes
    sizes: Wholes
    ranks: Wholes


@dataclass(frozen=True, slots=True, eq=False)
class _Tables:
    """Of what may follow, logarithms of sums of weights. `windows[j]`: the segments where place number j may be, from
    0; `runs[j][r - 1][k]`: of the places from number j on, r of them in segment k of its window. `total`: of all;
    `slack`: above all roundings."""

    runs: list[Floats]
    windows: list[slice]
    total: float
    slack: float


class RisingPlaces:
    """The choice of so many places of `column` from `first` to `last`, in order, for one law: prepared once, drawn any
    number of times.

    `shares`: of the rows, rising, in (0, 1). A tuple has the score -s sum |rows of part j - share of part j|, s the
    common denominator of the shares; `sensitivity`: by how much, in such steps, one unit moves any. Claim: `drawn` has
    weight e^(exponent score) on each tuple of places, exactly, and hands it out in order. Source: docs/proofs/noise.md,
    section 11.
    """

    def __init__(
        self,
        law: ExponentialWeights,
        column: Steps,
        shares: tuple[Fraction, ...],
        *,
        first: int,
        last: int,
        sensitivity: Sensitivity,
    ) -> None:
        self._law, self._column, self._first, self._last = law, column, first, last
        self._sensitivity, self._count = sensitivity, len(shares)
        self._rows = column.upto(last)
        self._scale = math.lcm(*(share.denominator for share in shares))
        gaps = [high - low for low, high in pairwise((Fraction(0), *shares, Fraction(1)))]
        self._aims = [int(gap * self._scale) * self._rows for gap in gaps]
        self._exponent = Fraction(law.exponent)
        places = last - first + 1
        reach = len(shares) * math.log(places) + math.log(FAR.denominator) + 1
        self._most = self._far(self._good(shares)) + math.ceil(reach / float(law.exponent) * (1 + 2.0**-30)) + 1
        radius = self._most // (2 * self._scale) + 2
        self._segments, windows = self._laid_out(shares, radius)
        self._tables = self._summed(windows)
        self._bound = Fraction(self._tables.total + self._tables.slack)
        self._probes = self._probed()

    def drawn(self, entropy: Entropy) -> tuple[int, ...]:
        """The places chosen, rising."""
        while True:
            found = self._anywhere(entropy) if tossed(FAR, entropy) else self._nearby(entropy)
            if found is not None:
                break
        told = logged(
            self._law,
            np.array(found, dtype=np.int64),
            value=self._probes,
            shape=(self._last - self._first + 1,) * self._count,
            sensitivity=self._sensitivity,
        )
        return tuple(told.tolist())

    # ---- scores -----------------------------------------------------------------------------------------------------

    def _far(self, places: tuple[int, ...]) -> int:
        """Minus the score of places in order, exactly."""
        return self._missed([self._column.upto(place) for place in places])

    def _missed(self, ranks: list[int]) -> int:
        parts = pairwise((0, *ranks, self._rows))
        return sum(
            abs((above - below) * self._scale - aim) for (below, above), aim in zip(parts, self._aims, strict=True)
        )

    def _good(self, shares: tuple[Fraction, ...]) -> tuple[int, ...]:
        """Places that are about the quantiles."""
        found = []
        for share in shares:
            rank = round(share * self._rows)
            places, ranks = self._column.near(max(rank - 1, 0), max(rank, 0))
            at = int(np.searchsorted(ranks[1:], rank))
            found.append(int(places[at]) if rank and at < len(places) else self._first)
        return tuple(found)

    def _probed(self) -> npt.NDArray[np.int64]:
        """The scores of some tuples that every column has: for the log."""
        width = self._last - self._first
        tuples = (
            sorted(self._first + width * (at * (2 * j + 1) % (_PROBES + 1)) // _PROBES for j in range(self._count))
            for at in range(1, _PROBES + 1)
        )
        return np.array([-self._far(tuple(places)) for places in tuples], dtype=np.int64)

    # ---- what may follow --------------------------------------------------------------------------------------------

    def _laid_out(self, shares: tuple[Fraction, ...], radius: int) -> tuple[_Segments, list[slice]]:
        """The segments with ranks within so many rows of some quantile, and which of them are near each."""
        found: list[tuple[Wholes, Wholes, Wholes]] = []
        ends = []
        for share in shares:
            middle = math.floor(share * self._rows)
            low, high = max(middle - radius, 0), min(middle + radius, self._rows)
            ends.append((low, high))
            found.append(self._between(low, high))
        starts, sizes, ranks = (np.concatenate(columns) for columns in zip(*found, strict=True))
        starts, kept = np.unique(starts, return_index=True)
        segments = _Segments(starts, sizes[kept], ranks[kept])
        windows = [
            slice(
                int(np.searchsorted(segments.ranks, low)),
                int(np.searchsorted(segments.ranks, high, side="right")),
            )
            for low, high in ends
        ]
        return segments, windows

    def _between(self, low: int, high: int) -> tuple[Wholes, Wholes, Wholes]:
        """Starts, sizes and ranks of the segments with ranks from `low` to `high`."""
        at, ranks = self._column.near(max(low - 1, 0), min(high + 1, self._rows))
        starts = np.concatenate(([self._first], at))
        sizes = np.diff(np.concatenate((starts, [self._last + 1])))
        known = (ranks >= low) & (ranks <= high) & (sizes > 0)
        known[0] &= ranks[0] == 0  # where it begins is not known otherwise
        known[-1] &= ranks[-1] == self._rows  # nor where this one ends
        return starts[known], sizes[known], ranks[known]

    def _summed(self, windows: list[slice]) -> _Tables:
        rate, count = float(self._law.exponent), self._count
        scaled = self._segments.ranks * self._scale
        logs = np.log(self._segments.sizes.astype(np.float64))
        last = scaled[windows[-1]]
        after = -rate * np.abs(self._rows * self._scale - last - self._aims[count])
        afters = [after]  # of numbers count, count - 1, ...: with so many chosen, the last of them there
        runs, largest = list[Floats](), float(np.abs(after).max())
        for number in reversed(range(count)):
            window = windows[number]
            parts = np.full((count - number, window.stop - window.start), -math.inf)
            for run in range(1, count - number + 1):
                final = windows[number + run - 1]
                common = slice(max(window.start, final.start), min(window.stop, final.stop))
                if common.start < common.stop:
                    constant = -rate * sum(self._aims[number + 1 : number + run]) - math.log(math.factorial(run))
                    follows = afters[count - number - run][_within(common, final)]
                    parts[run - 1, _within(common, window)] = run * logs[common] + constant + follows
            runs.append(parts)
            before = np.logaddexp.reduce(parts, axis=0)
            if number:
                here = windows[number - 1]
                after = _followed(scaled, before, here, window, aim=self._aims[number], rate=rate)
            else:
                after = before - rate * np.abs(scaled[window] - self._aims[0])
            afters.append(after)
            largest = max(largest, *(float(np.abs(one[np.isfinite(one)]).max(initial=0.0)) for one in (before, after)))
        total = float(np.logaddexp.reduce(after))
        largest += abs(total) + count * float(logs.max()) + rate * self._most + 1
        slack = 2 * (count + 1) * (len(logs) / _WEIGHT + 4 * (len(logs) + 100) * _UNIT * largest)
        return _Tables(runs[::-1], windows, total, slack)

    # ---- proposals --------------------------------------------------------------------------------------------------

    def _nearby(self, entropy: Entropy) -> tuple[int, ...] | None:
        """A proposal stage by stage: in which segment the next place is, and how many with it. None where the coin
        refuses it."""
        segments, odds = self._segments, Fraction(1)
        scaled, rate = segments.ranks * self._scale, float(self._law.exponent)
        number, segment, rank = 0, -1, 0
        chosen: list[tuple[int, int]] = []
        while number < self._count:
            window = self._tables.windows[number]
            later = slice(max(window.start, segment + 1), window.stop)
            parts = scaled[later] - rank * self._scale - self._aims[number]
            follows = self._tables.runs[number][:, _within(later, window)]
            at, inverse = _proposed(np.logaddexp.reduce(follows, axis=0) - rate * np.abs(parts), entropy)
            segment = later.start + at
            run, again = _proposed(follows[:, at], entropy)
            size = int(segments.sizes[segment])
            odds *= inverse * again * Fraction(size ** (run + 1), math.factorial(run + 1))
            chosen.append((segment, run + 1))
            number, rank = number + run + 1, int(segments.ranks[segment])
        far = self._missed([int(segments.ranks[at]) for at, many in chosen for _ in range(many)])
        if far >= self._most or not self._kept(far, odds, entropy):
            return None
        return tuple(
            place
            for at, many in chosen
            for place in _some(int(segments.starts[at]), int(segments.sizes[at]), many, entropy)
        )

    def _anywhere(self, entropy: Entropy) -> tuple[int, ...] | None:
        """A tuple among all; None unless it is as bad as no other proposal is, and the coin keeps it."""
        among = self._last - self._first + 1
        places = tuple(_some(self._first, among, self._count, entropy))
        far = self._far(places)
        odds = among**self._count * (1 - FAR) / (math.factorial(self._count) * FAR)
        return places if far >= self._most and self._kept(far, odds, entropy) else None

    def _kept(self, far: int, odds: Fraction, entropy: Entropy) -> bool:
        """A coin of probability odds e^-(exponent far + bound), which is at most 1."""
        return tossed(_missing(self._exponent * far + self._bound, odds), entropy)


def _within(part: slice, whole: slice) -> slice:
    """A part of a slice, by positions in it."""
    return slice(part.start - whole.start, part.stop - whole.start)


def _missing(exponent: Fraction, odds: Fraction) -> Chance:
    """odds e^-exponent, at most 1, at every precision."""

    def chance(at: Outward) -> Bracket:
        return at.exp(at.subtract(at.ln(at.exact(odds)), at.exact(exponent)))

    return chance


def _proposed(logs: Floats, entropy: Entropy) -> tuple[int, Fraction]:
    """One of some, with whole weights near e^logs, none below 1; and the inverse of its probability."""
    weights = np.floor(np.exp(logs - logs.max()) * _WEIGHT).astype(np.int64) + 1
    sums = np.cumsum(weights)
    total = int(sums[-1])
    at = int(np.searchsorted(sums, uniform_below(total, entropy), side="right"))
    return at, Fraction(total, int(weights[at]))


def _some(start: int, size: int, many: int, entropy: Entropy) -> list[int]:
    """So many of the places from `start` on, each as likely, rising."""
    return sorted(start + uniform_below(size, entropy) for _ in range(many))


def _followed(scaled: Wholes, logs: Floats, here: slice, there: slice, *, aim: int, rate: float) -> Floats:
    """For each i in `here` the logarithm of the sum, over the k > i in `there`, of e^(logs of k - rate |scaled[k] -
    scaled[i] - aim|): of those up to scaled[i] + aim, and of those beyond."""
    at, wanted = scaled[there], scaled[here]
    base = wanted[0]
    first = np.clip(np.arange(here.start, here.stop) + 1 - there.start, 0, len(at))
    middle = np.maximum(np.searchsorted(at, wanted + aim, side="right"), first)
    shifted = (at - base).astype(np.float64)
    mine = (wanted - base).astype(np.float64)
    rising = _Ranges(logs + rate * (shifted - aim))
    falling = logs - rate * (shifted - aim)
    beyond = np.append(np.logaddexp.accumulate(falling[::-1])[::-1], -math.inf)
    found: Floats = np.logaddexp(rising.of(first, middle) - rate * mine, beyond[middle] + rate * mine)
    return found


class _Ranges:
    """Logarithms of sums over ranges, without a difference: a range is the end of one block and the begin of the next,
    of blocks of every power of two."""

    def __init__(self, logs: Floats) -> None:
        self._logs, self._ends, self._begins = logs, list[Floats](), list[Floats]()
        width = 1
        while width < len(logs):
            padded = np.full(-(-len(logs) // width) * width, -math.inf)
            padded[: len(logs)] = logs
            blocks = padded.reshape(-1, width)
            self._begins.append(np.logaddexp.accumulate(blocks, axis=1).reshape(-1))
            self._ends.append(np.logaddexp.accumulate(blocks[:, ::-1], axis=1)[:, ::-1].reshape(-1))
            width *= 2

    def of(self, starts: Wholes, stops: Wholes) -> Floats:
        """Of the numbers from starts[i] up to, not with, stops[i]."""
        found = np.full(len(starts), -math.inf)
        last = stops - 1
        single = starts == last
        found[single] = self._logs[starts[single]]
        several = np.flatnonzero(starts < last)
        level = np.frexp((starts[several] ^ last[several]).astype(np.float64))[1] - 1
        for number in np.unique(level).tolist():
            mine = several[level == number]
            found[mine] = np.logaddexp(self._ends[number][starts[mine]], self._begins[number][last[mine]])
        return found
