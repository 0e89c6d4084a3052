"""An exponential race: which candidate has the least random time, exactly, in float64 where that is certain.

Candidate i has the logarithm of a random time, ln t_i + exponent gap_i, where gap_i is how far its score is below the
best, and the least wins. Exponential times choose by exponential weights, uniform ones by permute-and-flip. A candidate
that stands for m alike ones has the least of m times; which of them it was is uniform. The errors of the float path are
bounded in docs/proofs/noise.md, section 9. One word is drawn a candidate: how many does not depend on the scores.

>>> from dpledger.mechanisms.entropy import seeded
>>> race(PermuteAndFlipChoice(exponent=50), np.array([1, 9, 3]), None, seeded(0))
1
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt

from dpledger.mechanisms.entropy import Entropy, Words
from dpledger.mechanisms.noise.brackets import Bracket, Outward
from dpledger.mechanisms.noise.laws import ExponentialWeights, PermuteAndFlipChoice, Weighted
from dpledger.mechanisms.noise.refine import Lazy

__all__ = ["race"]

_Floats: TypeAlias = npt.NDArray[np.float64]
_Whole: TypeAlias = npt.NDArray[Any]  # int64, uint64, or Python integers

_BITS = 64
_UNIT = 2.0**-_BITS
_CHUNK = 2**16  # candidates at a time
_BEYOND = 2.0**900  # gaps and multiplicities of the float path stay below
_SMALL = 2.0**-8  # below it log1p keeps the accuracy of U, above it log that of 1 - U
_TOP = 2.0**-20  # 1 - U of the float path is at least this
_LEAST_WORD = 2**8

# docs/proofs/noise.md, section 9: the largest errors of the float path.
_FIXED_ERROR = 2.0**-39
_RELATIVE_ERROR = 2.0**-44  # of each of the terms that are added
_PREFIX_ERROR = 2.0  # over the prefix


@dataclass(slots=True)
class _Runner:
    place: int
    gap: int
    count: int
    uniform: Lazy


def race(law: Weighted, scores: _Whole, counts: _Whole | None, entropy: Entropy, *, coarse: float = 1.0) -> int:
    """The place among `scores` of the winner. At least one candidate; `counts`: how many each stands for, or None.

    `coarse` (at least 1) widens the error bounds, so that tests reach the exact path; the law is the same.
    """
    best = int(scores.max() if counts is None else scores[counts > 0].max())
    places, words = _leaders(law, scores, counts, best, entropy, coarse)
    if len(places) == 1:
        return int(places[0])
    runners = [
        _Runner(
            place, best - int(scores[place]), 1 if counts is None else int(counts[place]), Lazy(word, _BITS, entropy)
        )
        for place, word in zip(places.tolist(), words.tolist(), strict=True)
    ]
    return _photo_finish(law, runners)


def _leaders(
    law: Weighted, scores: _Whole, counts: _Whole | None, best: int, entropy: Entropy, coarse: float
) -> tuple[npt.NDArray[np.intp], Words]:
    """The places of those who may have won, and their words."""
    ceiling, found = np.inf, []
    for start in range(0, len(scores), _CHUNK):
        part = slice(start, start + _CHUNK)
        words = entropy.words(len(scores[part]))
        low, high = _keys(law, _gaps(scores[part], best), None if counts is None else counts[part], words, coarse)
        ceiling = min(ceiling, float(high.min()))
        near = np.flatnonzero((low <= ceiling) & (low < np.inf))
        found.append((near + start, words[near], low[near]))
    places, prefixes, lows = (np.concatenate(columns) for columns in zip(*found, strict=True))
    ahead = lows <= ceiling
    return places[ahead], prefixes[ahead]


def _gaps(scores: _Whole, best: int) -> _Floats:
    """best - score; `_BEYOND` where it is beyond. Of those above the best, whom nobody stands for, any number."""
    if scores.dtype == object:
        return np.array([min(max(best - score, 0), _BEYOND) for score in scores], dtype=np.float64)
    gaps: _Floats = (scores.dtype.type(best) - scores).view(np.uint64).astype(np.float64)  # modulo 2^64 it is exact
    return gaps


def _keys(law: Weighted, gaps: _Floats, counts: _Whole | None, words: Words, coarse: float) -> tuple[_Floats, _Floats]:
    """Bounds of the logarithms of the times. Infinite ones where floats do not know, or nobody runs."""
    behind = gaps * float(law.exponent)
    known = np.maximum(words, np.uint64(_LEAST_WORD))
    many = None if counts is None else _multiplicities(counts)
    match law:
        case ExponentialWeights():
            logarithm = np.log(_exponentials(known))
            size = np.abs(logarithm)
            if many is not None:
                fewer = np.log(many)
                logarithm -= fewer
                size += fewer
        case PermuteAndFlipChoice():
            times = known.astype(np.float64) * _UNIT if many is None else -np.expm1(-_exponentials(known) / many)
            logarithm = np.log(times)
            size = np.abs(logarithm)
        case _:
            assert_never(law)
    unsure = coarse * (_FIXED_ERROR + _RELATIVE_ERROR * (size + behind) + _PREFIX_ERROR / known.astype(np.float64))
    key = logarithm + behind
    low, high = key - unsure, key + unsure
    low[words < np.uint64(_LEAST_WORD)] = -np.inf
    high[(words >= np.uint64(2**_BITS - 2**44)) | (gaps >= _BEYOND)] = np.inf
    if counts is not None and many is not None:
        low[many >= _BEYOND], high[many >= _BEYOND] = -np.inf, np.inf
        nobody = counts == 0
        low[nobody], high[nobody] = np.inf, np.inf
    return low, high


def _multiplicities(counts: _Whole) -> _Floats:
    """The counts as floats, nobody as one; `_BEYOND` where it is beyond."""
    if counts.dtype == object:
        return np.array([min(max(int(m), 1), _BEYOND) for m in counts], dtype=np.float64)
    return np.maximum(counts, 1).astype(np.float64)


def _exponentials(words: Words) -> _Floats:
    """-ln(1 - U), the words being the first bits of U; less than it where 1 - U is below `_TOP`."""
    times: _Floats = -np.log(np.maximum((~words).astype(np.float64) * _UNIT, _TOP))
    small = np.flatnonzero(words < np.uint64(int(_SMALL * 2**_BITS)))
    times[small] = -np.log1p(words[small].astype(np.float64) * -_UNIT)
    return times


def _photo_finish(law: Weighted, runners: list[_Runner]) -> int:
    """The winner among these, in exact arithmetic: those who cannot have won leave, the others show more bits."""
    while True:
        keys = [_key(law, runner) for runner in runners]
        ceiling = min(key.high for key in keys)
        runners = [runner for runner, key in zip(runners, keys, strict=True) if key.low <= ceiling]
        if len(runners) == 1:
            return runners[0].place
        for runner in runners:
            runner.uniform.refine()


def _key(law: Weighted, runner: _Runner) -> Bracket:
    """The logarithm of a time."""
    bits, digits = runner.uniform.bits, runner.count.bit_length() // 3
    large = digits > bits  # a uniform time is then its exponential one, to twice the precision of U
    at = Outward(bits + 20 + (0 if large else digits))
    low, high = runner.uniform.bounds()
    time = at.over(at.negative(at.ln(at.between((1 - high, 1 - low)))), at.exact(Fraction(runner.count)))
    match law:
        case ExponentialWeights():
            logarithm = at.ln(time)
        case PermuteAndFlipChoice() if large:  # t e^-t <= 1 - e^-t <= t
            logarithm = at.subtract(at.ln(time), Bracket(Decimal(0), time.high))
        case PermuteAndFlipChoice():
            logarithm = at.ln(at.subtract(at.exact(Fraction(1)), at.exp(at.negative(time))))
        case _:
            assert_never(law)
    return at.add(logarithm, at.exact(Fraction(law.exponent) * runner.gap))
