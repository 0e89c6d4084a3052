"""Many variates at once: float64 decides almost all of them, with a bound on its error; exact arithmetic the rest.

The float path is believed only where the interval [y - tolerance, y + tolerance] lies inside one cell. The tolerances
are derived in docs/proofs/noise.md from four facts: add, multiply, divide and square root are correctly rounded (IEEE
754); so is the conversion of an int64; `numpy.log` is within 2^-46, relatively (64 units in the last place; its makers
aim at 4, and the tests measure it); and the known prefix of a uniform has 63 bits. How many words are drawn depends on
the noise alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt

from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise.laws import (
    DiscreteGaussian,
    DiscreteLaplace,
    Law,
    RoundedGaussian,
    RoundedLaplace,
    steps_per_scale,
)
from dpledger.mechanisms.noise.refine import Lazy, exponential_cell, exponential_exceeds, polar_cells

__all__ = ["LIMIT", "Cells", "sample"]

Cells: TypeAlias = npt.NDArray[Any]
"""Whole numbers: int64, or Python integers in an object array where one of them reaches LIMIT."""

LIMIT = 2**62
"""int64 arrays hold numbers below this, so that the sum of two never wraps."""

_Floats: TypeAlias = npt.NDArray[np.float64]
_Ints: TypeAlias = npt.NDArray[np.int64]

_BITS = 63  # of a uniform's prefix
_UNIT = 2.0**-_BITS
_CHUNK = 2**14  # variates at a time: the arrays stay in the cache of one core
_HALF = Fraction(1, 2)

# docs/proofs/noise.md, section 3: the largest errors of the float path, where the guards below hold.
_SMALLEST_PREFIX = 2**43  # exponential: U >= 2^-20
_EXPONENTIAL_ERROR = 2.0**-41
_MARGIN_ERROR = 2.0**-40  # exponential minus threshold
_EDGE = 2.0**-20  # polar: 2^-20 <= S <= 1 - 2^-20
_NORMAL_ERROR = 2.0**-39
_ROUNDING = 2.0**-51  # adding one half, and taking the fraction


def sample(law: Law, size: int, entropy: Entropy, *, coarse: float = 1.0) -> Cells:
    """`size` independent draws from `law`, in steps of its grid: int64[size], or objects where one does not fit.

    `coarse` (at least 1) widens the error bounds, so that tests reach the exact path; the law is the same.
    """
    ratio = steps_per_scale(law)
    match law:
        case RoundedLaplace():
            return _chunked(size, lambda count: _laplace(ratio, count, entropy, coarse))
        case RoundedGaussian():
            return _collected(size, 0.78, lambda count: _gaussian(ratio, count, entropy, coarse))
        case DiscreteLaplace():
            rate = (1 + math.exp(-1 / max(float(ratio), 1e-3))) / 2
            return _collected(size, rate, lambda count: _discrete_laplace(ratio, count, entropy, coarse))
        case DiscreteGaussian():
            return _collected(size, 0.7, lambda count: _discrete_gaussian(ratio, count, entropy, coarse))
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
        trials = min(_CHUNK, int(missing / rate + 3 * missing**0.5) + 2)
        accepted = batch(trials)
        found.append(accepted[:missing])
        missing -= len(found[-1])
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)


def _laplace(ratio: Fraction, count: int, entropy: Entropy, coarse: float) -> Cells:
    words = entropy.words(count)
    result: Cells = _exponential_cells(ratio, _HALF, words, entropy, coarse) * _signs(words)
    return result


def _discrete_laplace(ratio: Fraction, count: int, entropy: Entropy, coarse: float) -> Cells:
    """The accepted ones of `count` trials: a geometric variate floor(ratio E) with a fair sign, without -0."""
    words = entropy.words(count)
    magnitude, signs = _exponential_cells(ratio, Fraction(0), words, entropy, coarse), _signs(words)
    signed: Cells = magnitude * signs
    return signed.take(np.flatnonzero((magnitude > 0) | (signs > 0)))


def _signs(words: npt.NDArray[np.uint64]) -> _Ints:
    """1 or -1, by the lowest bit of each word."""
    signs: _Ints = 1 - 2 * (words & np.uint64(1)).view(np.int64)
    return signs


def _exponential_cells(
    ratio: Fraction, offset: Fraction, words: npt.NDArray[np.uint64], entropy: Entropy, coarse: float
) -> Cells:
    """floor(ratio E + offset), E = -ln U, the upper 63 bits of each word being the first of U."""
    prefix, exponential = _exponentials(words)
    scale = float(ratio)
    exponential *= scale
    if offset:
        exponential += float(offset)
    cells, sure = _settled(exponential, coarse * (scale * _EXPONENTIAL_ERROR + float(offset) * _ROUNDING))
    sure &= prefix >= _SMALLEST_PREFIX
    unsure = np.flatnonzero(~sure)
    exact = [exponential_cell(ratio, offset, Lazy(int(prefix[i]), _BITS, entropy)) for i in unsure]
    return _patched(cells, unsure, exact)


def _exponentials(words: npt.NDArray[np.uint64]) -> tuple[_Ints, _Floats]:
    """The 63-bit prefixes and -ln of them as float64 (meaningless below `_SMALLEST_PREFIX`)."""
    prefix = (words >> np.uint64(1)).view(np.int64)
    uniform = prefix.astype(np.float64)
    uniform *= _UNIT
    np.maximum(uniform, _UNIT, out=uniform)
    np.log(uniform, out=uniform)
    np.negative(uniform, out=uniform)
    return prefix, uniform


def _settled(y: _Floats, tolerance: float) -> tuple[_Floats, npt.NDArray[np.bool_]]:
    """floor(y), and whether it is the same for every number within `tolerance` of y (never where y is not finite).
    Overwrites y."""
    cells = np.floor(y)
    y -= cells
    y -= 0.5
    np.abs(y, out=y)
    return cells, y < 0.5 - tolerance


def _patched(cells: _Floats, unsure: npt.NDArray[np.intp], exact: list[int]) -> Cells:
    """The cells as integers, those at `unsure` replaced by `exact`."""
    cells[unsure] = 0.0
    whole: Cells = cells.astype(np.int64)
    if not exact:
        return whole
    if max(map(abs, exact)) >= LIMIT:
        whole = whole.astype(object)
    whole[unsure] = exact
    return whole


def _gaussian(ratio: Fraction, count: int, entropy: Entropy, coarse: float) -> Cells:
    """The accepted ones of `count` variates (an even number is tried) of the polar method, in the order tried: the
    first of each pair, then the second of each."""
    pairs = (count + 1) // 2
    prefix = entropy.words(2 * pairs).view(np.int64).reshape(2, pairs)
    point = prefix.astype(np.float64)
    point *= _UNIT
    squares = point[0] * point[0]
    squares += point[1] * point[1]
    tried = np.flatnonzero(squares < 1 + _EDGE)
    squares = squares.take(tried)
    variates = point.take(tried, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):  # only at points that are not inside
        variates *= _polar_factors(squares, float(ratio))
        variates += 0.5
        cells, sure = _settled(variates, coarse * (float(ratio) * _NORMAL_ERROR + _ROUNDING))
    sure &= (squares >= _EDGE) & (squares <= 1 - _EDGE)
    unsure = np.flatnonzero(~(sure[0] & sure[1]))
    if not len(unsure):
        return cells.reshape(-1).astype(np.int64)
    return _with_exact_pairs(cells, unsure, prefix[:, tried[unsure]], ratio, entropy)


def _polar_factors(squares: _Floats, ratio: float) -> _Floats:
    """ratio * sqrt(-2 ln s / s)."""
    factor = np.log(squares)
    factor /= squares
    factor *= -2.0
    np.sqrt(factor, out=factor)
    factor *= ratio
    return factor


def _with_exact_pairs(
    cells: _Floats, unsure: npt.NDArray[np.intp], prefix: _Ints, ratio: Fraction, entropy: Entropy
) -> Cells:
    """All pairs of cells; those at `unsure` are computed exactly from their `prefix`, or left out where it rejects."""
    keep = np.ones(cells.shape[1], dtype=np.bool_)
    exact: list[tuple[int, int]] = []
    for place, (first, second) in zip(unsure, prefix.T.tolist(), strict=True):
        pair = polar_cells(ratio, Lazy(first, _BITS, entropy), Lazy(second, _BITS, entropy))
        keep[place] = pair is not None
        exact.append(pair or (0, 0))
    cells[:, unsure] = 0.0
    whole: Cells = cells.astype(np.int64)
    if max(max(map(abs, pair)) for pair in exact) >= LIMIT:
        whole = whole.astype(object)
    whole[:, unsure] = np.array(exact, dtype=whole.dtype).T
    return whole[:, keep].reshape(-1)


def _discrete_gaussian(sigma: Fraction, count: int, entropy: Entropy, coarse: float) -> Cells:
    """The accepted ones of `count` trials. Source: Canonne-Kamath-Steinke 2020, algorithm 3: a discrete Laplace y of
    scale t = floor(sigma) + 1 is kept if an exponential exceeds (|y| - sigma^2/t)^2 / (2 sigma^2)."""
    scale = math.floor(sigma) + 1
    proposals = _discrete_laplace(Fraction(scale), count, entropy, coarse)
    prefix, exponential = _exponentials(entropy.words(len(proposals)))
    centre, halved = sigma * sigma / scale, 1 / (2 * sigma * sigma)

    threshold = np.abs(proposals).astype(np.float64)
    threshold -= float(centre)
    threshold *= threshold
    threshold *= float(halved)
    exponential -= threshold
    accepted = exponential > 0
    sure = np.abs(exponential, out=exponential) > coarse * _MARGIN_ERROR
    sure &= prefix >= _SMALLEST_PREFIX
    for i in np.flatnonzero(~sure):
        exact = (abs(int(proposals[i])) - centre) ** 2 * halved
        accepted[i] = exponential_exceeds(exact, Lazy(int(prefix[i]), _BITS, entropy))
    return proposals.take(np.flatnonzero(accepted))
