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
from dpledger.mechanisms.noise.pairs import Steps
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

    proposal: Steps
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
            proposal=Steps.of(Fraction(scale)),
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
def _steps(law: Law) -> Steps:
    return Steps.of(steps_per_scale(law))


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


def _laplace(steps: Steps, count: int, entropy: Entropy, widening: Widening) -> Cells:
    words = entropy.words(count)
    cells = _exponential_cells(steps, 0.5, words, entropy, widening)
    cells *= _signs(words)
    return cells


def _discrete_laplace(steps: Steps, count: int, entropy: Entropy, widening: Widening) -> Cells:
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


def _exponential_cells(steps: Steps, offset: float, words: Words, entropy: Entropy, widening: Widening) -> Cells:
    """floor(steps E + offset), E = -ln U, the upper 63 bits of each word being the first of U."""
    prefix, exponentials = _exponentials(words)
    cells, sure = floats.cells_of(exponentials, steps.near, offset, widening.coarse, np)
    sure &= prefix >= SMALLEST_PREFIX
    unsure = np.flatnonzero(~sure)
    cells[unsure] = 0.0
    whole: Cells = cells.astype(np.int64)
    if len(unsure) and steps.near <= pairs.REACH:
        found = pairs.exponential_cells(steps, offset, prefix.take(unsure))
        sure = found.sure(widening.fine)
        whole[unsure] = found.cells
        unsure = unsure[~sure]
    half = Fraction(offset)
    exact = [exponential_cell(steps.exact, half, Lazy(int(prefix[i]), BITS, entropy)) for i in unsure]
    return _patched(whole, unsure, exact)


def _exponentials(words: Words) -> tuple[_Ints, _Floats]:
    """The 63-bit prefixes and -ln of them as float64 (meaningless below `SMALLEST_PREFIX`)."""
    prefix = (words >> np.uint64(1)).view(np.int64)
    return prefix, floats.exponential(np.maximum(prefix, SMALLEST_PREFIX), np)


def _patched(whole: Cells, places: npt.NDArray[np.intp], exact: list[int]) -> Cells:
    """The cells along the last axis, those at `places` replaced by `exact`."""
    if not exact:
        return whole
    if max(map(abs, exact)) >= LIMIT:
        whole = whole.astype(object)
    whole[places] = exact
    return whole


def _gaussian(steps: Steps, count: int, entropy: Entropy, widening: Widening) -> Cells:
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
    factor, tolerance = floats.polar(clipped, steps.near, widening.coarse, np)
    variates = point.take(inside, axis=1)
    variates *= factor
    variates += 0.5
    cells, sure = floats.settled(variates, tolerance, np)
    certain = sure[0] & sure[1]
    certain &= squares == clipped
    unsure = np.flatnonzero(~certain)
    cells[:, unsure] = 0.0
    whole: Cells = cells.astype(np.int64)
    if not len(unsure):
        return whole.reshape(-1)
    return _finer_pairs(steps, whole, unsure, prefix[:, inside[unsure]], squares.take(unsure), entropy, widening)


def _within_edges(squares: _Floats) -> _Floats:
    clipped = np.maximum(squares, EDGE)
    return np.minimum(clipped, 1 - EDGE, out=clipped)


def _finer_pairs(
    steps: Steps,
    whole: Cells,
    unsure: npt.NDArray[np.intp],
    prefix: _Ints,
    squares: _Floats,
    entropy: Entropy,
    widening: Widening,
) -> Cells:
    """All pairs of cells, those at `unsure` by their `prefix`: by sums of two floats or exactly, or left out where it
    rejects."""
    left = np.arange(len(unsure))
    if steps.near <= pairs.REACH:
        clipped = _within_edges(squares)
        found = pairs.polar_cells(steps, prefix, clipped)
        certain = found.sure(widening.fine).all(axis=0) & (squares == clipped)
        whole[:, unsure] = found.cells
        left = np.flatnonzero(~certain)
    keep = np.ones(whole.shape[1], dtype=np.bool_)
    for place, (first, second) in zip(unsure[left], prefix[:, left].T.tolist(), strict=True):
        pair = polar_cells(steps.exact, Lazy(first, BITS, entropy), Lazy(second, BITS, entropy))
        keep[place] = pair is not None
        if pair is None:
            continue
        if max(map(abs, pair)) >= LIMIT:
            whole = whole.astype(object, copy=False)
        whole[0, place], whole[1, place] = pair
    return whole[:, keep].reshape(-1)


def _discrete_gaussian(by: _Rejection, count: int, entropy: Entropy, widening: Widening) -> Cells:
    """The accepted ones of `count` trials of the rejection."""
    proposals = _discrete_laplace(by.proposal, count, entropy, widening)
    prefix, exponentials = _exponentials(entropy.words(len(proposals)))
    distance = np.abs(proposals).astype(np.float64) - by.near_centre
    margins = floats.margin(exponentials, distance, by.near_halved)
    accepted = margins > 0
    sure = np.abs(margins) > widening.coarse * MARGIN_ERROR
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


def _signed_cell(steps: Steps, offset: float, entropy: Entropy, widening: Widening) -> tuple[int, int]:
    """floor(steps E + offset) and a sign, of one word."""
    word = int(entropy.words(1)[0])
    prefix, sign = word >> 1, 1 - 2 * (word & 1)
    exponential = floats.exponential(max(prefix, SMALLEST_PREFIX), math)
    cell, sure = floats.cells_of(exponential, steps.near, offset, widening.coarse, math)
    if sure and prefix >= SMALLEST_PREFIX:
        return cell, sign
    return exponential_cell(steps.exact, Fraction(offset), Lazy(prefix, BITS, entropy)), sign


def _one_discrete_laplace(steps: Steps, entropy: Entropy, widening: Widening) -> int:
    while True:
        magnitude, sign = _signed_cell(steps, 0.0, entropy, widening)
        if magnitude or sign > 0:
            return sign * magnitude


def _one_gaussian(steps: Steps, entropy: Entropy, widening: Widening) -> int:
    """The first variate of the first pair that is kept; the second is dropped."""
    while True:
        pair = _polar_pair(steps, entropy.words(2).view(np.int64).tolist(), entropy, widening)
        if pair is not None:
            return pair[0]


def _polar_pair(steps: Steps, prefix: list[int], entropy: Entropy, widening: Widening) -> tuple[int, int] | None:
    first, second = (number * UNIT for number in prefix)
    squares = first * first + second * second
    if squares >= 1 + EDGE:
        return None
    if EDGE <= squares <= 1 - EDGE:
        factor, tolerance = floats.polar(squares, steps.near, widening.coarse, math)
        cell, sure = floats.settled(first * factor + 0.5, tolerance, math)
        other, also = floats.settled(second * factor + 0.5, tolerance, math)
        if sure and also:
            return cell, other
    return polar_cells(steps.exact, *(Lazy(number, BITS, entropy) for number in prefix))


def _one_discrete_gaussian(by: _Rejection, entropy: Entropy, widening: Widening) -> int:
    while True:
        proposal = _one_discrete_laplace(by.proposal, entropy, widening)
        prefix = int(entropy.words(1)[0]) >> 1
        exponential = floats.exponential(max(prefix, SMALLEST_PREFIX), math)
        margin = floats.margin(exponential, abs(proposal) - by.near_centre, by.near_halved)
        if prefix >= SMALLEST_PREFIX and abs(margin) > widening.coarse * MARGIN_ERROR:
            kept = margin > 0
        else:
            kept = by.keeps(proposal, Lazy(prefix, BITS, entropy))
        if kept:
            return proposal
