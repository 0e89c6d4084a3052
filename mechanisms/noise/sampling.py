"""The laws as functions of fair bits, many variates at once or one by one.

Three tiers decide in which cell a variate lies, each the same and each certain: float64 (`floats`), for those it leaves
open sums of two float64 (`pairs`), and for what is left exact arithmetic on as many bits as it takes (`refine`). How
many words are drawn depends on the noise alone. Proof: docs/proofs/noise.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt

from dpledger.mechanisms.entropy import Entropy, Words
from dpledger.mechanisms.noise import floats, pairs
from dpledger.mechanisms.noise.floats import BITS, EDGE, MARGIN_ERROR, SMALLEST_PREFIX, UNIT
from dpledger.mechanisms.noise.laws import (
    DiscreteGaussian,
    DiscreteLaplace,
    Law,
    RoundedGaussian,
    RoundedLaplace,
    steps_per_scale,
)
from dpledger.mechanisms.noise.pairs import ScaledSteps
from dpledger.mechanisms.noise.refine import Lazy, exponential_cell, exponential_exceeds, polar_cells

__all__ = ["LIMIT", "Cells", "Widening", "sample", "sample_one"]

Cells: TypeAlias = npt.NDArray[Any]
"""Whole numbers: int64, or Python integers in an object array where one of them reaches LIMIT."""

LIMIT = 2**62
"""int64 arrays hold numbers below this, so that the sum of two never wraps."""

_Floats: TypeAlias = npt.NDArray[np.float64]
_Ints: TypeAlias = npt.NDArray[np.int64]

_CHUNK = 2**14  # variates at a time: the arrays stay in the cache of one core


@dataclass(frozen=True, slots=True)
class Widening:
    """By how much (at least 1) the error bounds of the two float tiers are widened, so that tests reach the next one:
    the law is the same."""

    coarse: float = 1.0
    fine: float = 1.0


_AS_PROVED = Widening()


@dataclass(frozen=True, slots=True)
class _Rejection:
    """A discrete Gaussian by rejection from a discrete Laplace. Source: Canonne-Kamath-Steinke 2020, algorithm 3: y of
    scale t = floor(sigma) + 1 is kept if an exponential exceeds (|y| - sigma^2/t)^2 / (2 sigma^2).

    `rate`: how many of the words of the proposals lead to a variate, about.
    """

    proposal: ScaledSteps
    centre: Fraction
    halved: Fraction
    near_centre: float
    near_halved: float
    rate: float

    @classmethod
    def of(cls, sigma: Fraction) -> _Rejection:
        scale = math.floor(sigma) + 1
        centre, halved = sigma * sigma / scale, 1 / (2 * sigma * sigma)
        mass = max(1 + 2 * math.exp(-float(halved)), float(sigma) * math.sqrt(2 * math.pi))  # of all exp(-k^2 halved)
        fit = mass * math.tanh(0.5 / scale) * math.exp(-float(centre) / (2 * scale))
        return cls(
            proposal=ScaledSteps.of(Fraction(scale)),
            centre=centre,
            halved=halved,
            near_centre=float(centre),
            near_halved=float(halved),
            rate=fit * _geometric_rate(float(scale)),
        )

    def keeps(self, proposal: int, uniform: Lazy) -> bool:
        """Whether -ln(uniform) exceeds the threshold of `proposal`, exactly."""
        return exponential_exceeds((abs(proposal) - self.centre) ** 2 * self.halved, uniform)


def _geometric_rate(scale: float) -> float:
    """How many signed geometric variates are not minus zero."""
    return (1 + math.exp(-1 / max(scale, 1e-3))) / 2


@lru_cache(maxsize=1024)
def _steps(law: Law) -> ScaledSteps:
    return ScaledSteps.of(steps_per_scale(law))


@lru_cache(maxsize=1024)
def _rejection(law: DiscreteGaussian) -> _Rejection:
    return _Rejection.of(steps_per_scale(law))


# ---- many ----------------------------------------------------------------------------------------------------------


def sample(law: Law, size: int, entropy: Entropy, *, widening: Widening = _AS_PROVED) -> Cells:
    """`size` independent draws from `law`, in steps of its grid: int64[size], or objects where one does not fit."""
    match law:
        case RoundedLaplace():
            return _chunked(size, lambda count: _laplace(_steps(law), count, entropy, widening))
        case RoundedGaussian():
            return _collected(size, 0.785, lambda count: _gaussian(_steps(law), count, entropy, widening))
        case DiscreteLaplace():
            steps = _steps(law)
            rate = _geometric_rate(steps.near)
            return _collected(size, rate, lambda count: _discrete_laplace(steps, count, entropy, widening))
        case DiscreteGaussian():
            by = _rejection(law)
            return _collected(size, by.rate, lambda count: _discrete_gaussian(by, count, entropy, widening))
        case _:
            assert_never(law)


def _chunked(size: int, batch: Callable[[int], Cells]) -> Cells:
    if size <= _CHUNK:
        return batch(size)
    return np.concatenate([batch(min(_CHUNK, size - start)) for start in range(0, size, _CHUNK)])


def _collected(size: int, rate: float, batch: Callable[[int], Cells]) -> Cells:
    """The first `size` variates that batches of trials accept. `rate`: roughly how many of the trials are."""
    found: list[Cells] = []
    missing = size
    while missing > 0:
        trials = min(_CHUNK, int((missing + 3 * (missing * (1 - rate)) ** 0.5) / rate) + 2)
        accepted = batch(trials)
        found.append(accepted[:missing])
        missing -= len(found[-1])
    if len(found) == 1:
        return found[0]
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)


def _laplace(steps: ScaledSteps, count: int, entropy: Entropy, widening: Widening) -> Cells:
    words = entropy.words(count)
    cells = _exponential_cells(steps, 0.5, words, entropy, widening)
    cells *= _signs(words)
    return cells


def _discrete_laplace(steps: ScaledSteps, count: int, entropy: Entropy, widening: Widening) -> Cells:
    """The accepted ones of `count` trials: a geometric variate floor(steps E) with a fair sign, without -0."""
    words = entropy.words(count)
    magnitude, signs = _exponential_cells(steps, 0.0, words, entropy, widening), _signs(words)
    accepted = np.flatnonzero((magnitude > 0) | (signs > 0))
    magnitude *= signs
    return magnitude.take(accepted)


def _signs(words: Words) -> _Ints:
    """1 or -1, by the lowest bit of each word."""
    signs: _Ints = 1 - 2 * (words & np.uint64(1)).view(np.int64)
    return signs


def _exponential_cells(steps: ScaledSteps, offset: float, words: Words, entropy: Entropy, widening: Widening) -> Cells:
    """floor(steps E + offset), E = -ln U, the upper 63 bits of each word being the first of U."""
    prefix, logarithms = _logarithms(words)
    cells, sure = floats.cells_of(logarithms, steps.near, offset, widening.coarse, np)
    sure &= prefix >= SMALLEST_PREFIX
    unsure = np.flatnonzero(~sure)
    cells[unsure] = 0.0
    whole: Cells = cells.astype(np.int64)
    if not len(unsure):
        return whole
    return _with(whole, unsure, _finer_cells(steps, offset, prefix.take(unsure), entropy, widening))


def _finer_cells(steps: ScaledSteps, offset: float, prefix: _Ints, entropy: Entropy, widening: Widening) -> Cells:
    """What `_exponential_cells` leaves open: by sums of two floats, and exactly where those are not certain either."""
    cells, left = np.zeros(len(prefix), dtype=np.int64), np.arange(len(prefix))
    if steps.near <= pairs.REACH:
        found = pairs.exponential_cells(steps, offset, prefix)
        cells, left = found.cells, np.flatnonzero(~found.sure(widening.fine))
    if not len(left):
        return cells
    uniforms = [Lazy(number, BITS, entropy) for number in prefix[left].tolist()]
    return _with(
        cells, left, _whole([exponential_cell(steps.exact, Fraction(offset), uniform) for uniform in uniforms])
    )


def _with(cells: Cells, places: npt.NDArray[np.intp], finer: Cells) -> Cells:
    """The cells, those at `places` (of the last axis) replaced; objects if `finer` are."""
    if finer.dtype == object:
        cells = cells.astype(object)
    cells[..., places] = finer
    return cells


def _whole(numbers: list[Any]) -> Cells:
    """int64, or objects where one of the numbers is too large."""
    whole = np.array(numbers, dtype=object)
    return whole if max(map(abs, whole.flat)) >= LIMIT else whole.astype(np.int64)


def _logarithms(words: Words) -> tuple[_Ints, _Floats]:
    """The 63-bit prefixes and ln of them as float64 (meaningless below `SMALLEST_PREFIX`)."""
    prefix = (words >> np.uint64(1)).view(np.int64)
    return prefix, floats.logarithm(np.maximum(prefix, SMALLEST_PREFIX), np)


def _gaussian(steps: ScaledSteps, count: int, entropy: Entropy, widening: Widening) -> Cells:
    """The accepted ones of `count` variates (an even number is tried) of the polar method, in the order tried: the
    first of each pair, then the second of each."""
    tried = (count + 1) // 2
    prefix = entropy.words(2 * tried).view(np.int64).reshape(2, tried)
    point = prefix * UNIT
    squares = point[0] * point[0]
    squares += point[1] * point[1]
    inside = np.flatnonzero(squares < 1 + EDGE)
    squares = squares.take(inside)
    clipped = _within_edges(squares)
    factor, room = floats.polar(clipped, steps.near, widening.coarse, np)
    variates = point.take(inside, axis=1)
    variates *= factor
    variates += 0.5
    cells, sure = floats.settled(variates, room, np)
    certain = sure[0] & sure[1]
    certain &= squares == clipped
    unsure = np.flatnonzero(~certain)
    cells[:, unsure] = 0.0
    whole: Cells = cells.astype(np.int64)
    if not len(unsure):
        return whole.reshape(-1)
    finer, kept = _finer_pairs(steps, prefix[:, inside[unsure]], squares.take(unsure), entropy, widening)
    whole = _with(whole, unsure, finer)
    return (whole if kept.all() else np.delete(whole, unsure[~kept], axis=1)).reshape(-1)


def _within_edges(squares: _Floats) -> _Floats:
    clipped = np.maximum(squares, EDGE)
    return np.minimum(clipped, 1 - EDGE, out=clipped)


def _finer_pairs(
    steps: ScaledSteps, prefix: _Ints, squares: _Floats, entropy: Entropy, widening: Widening
) -> tuple[Cells, npt.NDArray[np.bool_]]:
    """The pairs of cells that float64 leaves open, and which are not rejected: by sums of two floats, and exactly
    where those are not certain either."""
    cells, kept = np.zeros(prefix.shape, dtype=np.int64), np.ones(len(squares), dtype=np.bool_)
    left = np.arange(len(squares))
    if steps.near <= pairs.REACH:
        clipped = _within_edges(squares)
        found = pairs.polar_cells(steps, prefix, clipped)
        cells = found.cells
        left = np.flatnonzero(~(found.sure(widening.fine).all(axis=0) & (squares == clipped)))
    if not len(left):
        return cells, kept
    points = [[Lazy(number, BITS, entropy) for number in point] for point in prefix[:, left].T.tolist()]
    exact = [polar_cells(steps.exact, *point) for point in points]
    kept[left] = [pair is not None for pair in exact]
    return _with(cells, left, _whole([pair or (0, 0) for pair in exact]).T), kept


def _discrete_gaussian(by: _Rejection, count: int, entropy: Entropy, widening: Widening) -> Cells:
    """The accepted ones of `count` trials of the rejection."""
    proposals = _discrete_laplace(by.proposal, count, entropy, widening)
    prefix, logarithms = _logarithms(entropy.words(len(proposals)))
    distance = np.abs(proposals).astype(np.float64) - by.near_centre
    excess = floats.excess(logarithms, distance, by.near_halved)
    accepted = excess < 0
    sure = np.abs(excess) > widening.coarse * MARGIN_ERROR
    sure &= prefix >= SMALLEST_PREFIX
    for i in np.flatnonzero(~sure):
        accepted[i] = by.keeps(int(proposals[i]), Lazy(int(prefix[i]), BITS, entropy))
    return proposals.take(np.flatnonzero(accepted))


# ---- one -----------------------------------------------------------------------------------------------------------


def sample_one(law: Law, entropy: Entropy, *, widening: Widening = _AS_PROVED) -> int:
    """One draw from `law`, in steps of its grid: the same functions of the same bits as those of `sample`, tried one
    after another, without arrays."""
    match law:
        case RoundedLaplace():
            magnitude, sign = _signed_cell(_steps(law), 0.5, entropy, widening)
            return sign * magnitude
        case RoundedGaussian():
            return _one_gaussian(_steps(law), entropy, widening)
        case DiscreteLaplace():
            return _one_discrete_laplace(_steps(law), entropy, widening)
        case DiscreteGaussian():
            return _one_discrete_gaussian(_rejection(law), entropy, widening)
        case _:
            assert_never(law)


def _signed_cell(steps: ScaledSteps, offset: float, entropy: Entropy, widening: Widening) -> tuple[int, int]:
    """floor(steps E + offset) and a sign, of one word."""
    word = int(entropy.words(1)[0])
    prefix, sign = word >> 1, 1 - 2 * (word & 1)
    logarithm = floats.logarithm(max(prefix, SMALLEST_PREFIX), math)
    cell, sure = floats.cells_of(logarithm, steps.near, offset, widening.coarse, math)
    if not sure or prefix < SMALLEST_PREFIX:
        cell = int(_finer_cells(steps, offset, np.array([prefix]), entropy, widening)[0])
    return cell, sign


def _one_discrete_laplace(steps: ScaledSteps, entropy: Entropy, widening: Widening) -> int:
    while True:
        magnitude, sign = _signed_cell(steps, 0.0, entropy, widening)
        if magnitude or sign > 0:
            return sign * magnitude


def _one_gaussian(steps: ScaledSteps, entropy: Entropy, widening: Widening) -> int:
    """The first variate of the first pair that is kept; the second is dropped."""
    while True:
        cell = _first_of_pair(steps, entropy.words(2).view(np.int64), entropy, widening)
        if cell is not None:
            return cell


def _first_of_pair(steps: ScaledSteps, prefix: _Ints, entropy: Entropy, widening: Widening) -> int | None:
    first, second = (number * UNIT for number in prefix.tolist())
    squares = first * first + second * second
    if squares >= 1 + EDGE:
        return None
    if EDGE <= squares <= 1 - EDGE:
        factor, room = floats.polar(squares, steps.near, widening.coarse, math)
        cell, sure = floats.settled(first * factor + 0.5, room, math)
        if sure:
            return int(cell)
    cells, kept = _finer_pairs(steps, prefix.reshape(2, 1), np.array([squares]), entropy, widening)
    return int(cells[0, 0]) if kept[0] else None


def _one_discrete_gaussian(by: _Rejection, entropy: Entropy, widening: Widening) -> int:
    while True:
        proposal = _one_discrete_laplace(by.proposal, entropy, widening)
        prefix = int(entropy.words(1)[0]) >> 1
        logarithm = floats.logarithm(max(prefix, SMALLEST_PREFIX), math)
        excess = floats.excess(logarithm, abs(proposal) - by.near_centre, by.near_halved)
        if prefix >= SMALLEST_PREFIX and abs(excess) > widening.coarse * MARGIN_ERROR:
            kept = excess < 0
        else:
            kept = by.keeps(proposal, Lazy(prefix, BITS, entropy))
        if kept:
            return proposal
