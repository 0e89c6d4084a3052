"""Scores in bins of [0, 1]: a partition into equal bins, and its shift by half a bin, counted in whole numbers.

    plain      bin j of B: [j/B, (j + 1)/B), the last one closed at 1; answered by its middle, (2 j + 1)/(2 B)
    shifted    bin j of B - 1: [(2 j + 1)/(2 B), (2 j + 3)/(2 B)), the last one closed; answered by (2 j + 2)/(2 B)

What is in no shifted bin abstains there, NaN in both. So each inner edge of a plain bin is the middle of a shifted one.
The bin of a score is that of the float itself: its half is floor(2 B score), computed of its digits.

>>> scores = np.array([[0.1], [0.25], [0.5], [0.75], [1.0], [np.nan]])
>>> plain, shifted = bins_of(scores, 2)
>>> plain.ravel().tolist(), shifted.ravel().tolist()
([0, 0, 1, 1, 1, -1], [-1, 0, 0, 0, -1, -1])
>>> found = histograms(scores, np.array([2]), "halved")
>>> found.plain.tolist(), found.shifted.tolist()
([0.75], [0.5])
>>> found.plain_distances.tolist(), found.shifted_distances.tolist()
([0], [1])
>>> bins_of_width("0.3")
4
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dpledger.decimals import Number, read
from dpledger.errors import ParameterError
from dpledger.mechanisms.stability.ensembles.votes import ABSTAINS, Distance, winners

__all__ = ["FEWEST_BINS", "MOST_BINS", "Histograms", "bins_of", "bins_of_width", "histograms"]

Floats = npt.NDArray[np.float64]
Wholes = npt.NDArray[np.int64]

FEWEST_BINS = 2  # one bin would be answered by 1/2 whatever is asked
MOST_BINS = 10**6
_BLOCK = 2**18  # scores at a time: they stay in the cache
_DIGITS = 53  # bits of a double
_NEAR = 2.0**-30
_LOW = 27  # of them, multiplied apart: so that 2 B times either part stays below 2^63


@dataclass(frozen=True, slots=True, kw_only=True)
class Histograms:
    """Of each query the middle of the bin with most scores, and the distance of that, in both partitions."""

    plain: Floats
    plain_distances: Wholes
    shifted: Floats
    shifted_distances: Wholes


def bins_of_width(width: Number) -> int:
    """How many bins have this width, or the next smaller one of which a whole number fits: ceil(1/width).

    ParameterError for a width that leaves fewer than two, or more than a million.

    >>> dpl.stability.bins_of_width("0.3")
    4
    """
    asked = read(width, field="width")
    found = math.ceil(1 / Fraction(asked)) if asked > 0 else 0
    if not FEWEST_BINS <= found <= MOST_BINS:
        raise ParameterError("width", asked, f"a number from 1/{MOST_BINS} to below 1")
    return found


def bins_of(scores: npt.NDArray[Any], bins: int) -> tuple[Wholes, Wholes]:
    """The plain and the shifted bin of each score, from 0 to 1 or NaN; ABSTAINS where it is in none."""
    known = ~np.isnan(scores)
    halves, is_edge = _halves(np.where(known, scores, 0.0), bins)
    plain = np.minimum(halves // 2, bins - 1)
    shifted = (halves - 1) // 2
    shifted[(halves == 2 * bins - 1) & is_edge] = bins - 2
    shifted[shifted >= bins - 1] = ABSTAINS
    plain[~known] = ABSTAINS
    shifted[~known] = ABSTAINS
    return plain, shifted


def _halves(scores: Floats, bins: int) -> tuple[Wholes, npt.NDArray[np.bool_]]:
    """floor(2 B score), and whether that is 2 B score itself: by a product of floats, which is off by less than 2^-31,
    and of the digits where that leaves it open."""
    products = scores * (2.0 * bins)
    halves = products.astype(np.int64)
    is_edge = np.zeros(scores.shape, dtype=np.bool_)
    near = np.abs(products - np.rint(products)) < _NEAR
    if near.any():
        halves[near], is_edge[near] = _by_digits(scores[near], bins)
    return halves, is_edge


def _by_digits(scores: Floats, bins: int) -> tuple[Wholes, npt.NDArray[np.bool_]]:
    """The same in whole numbers. A score is m 2^-s with a whole m of 53 bits."""
    mantissas, exponents = np.frexp(scores)
    digits = np.ldexp(mantissas, _DIGITS).astype(np.int64)
    places = _DIGITS - exponents.astype(np.int64) - _LOW  # at least 25, since no score is above 1
    low = (digits & (2**_LOW - 1)) * (2 * bins)
    high = (digits >> _LOW) * (2 * bins) + (low >> _LOW)
    places = np.minimum(places, 62)  # beyond, nothing is left of what is below 2^48
    is_edge = ((low & (2**_LOW - 1)) == 0) & ((high & ((np.int64(1) << places) - 1)) == 0)
    return high >> places, is_edge


def histograms(scores: npt.NDArray[Any], bins: Wholes, distance: Distance) -> Histograms:
    """Which bins win, of scores[models, queries] in `bins` bins each query.

    Claim: where one model changes its scores, each distance moves by at most 1; where a winner changes, its distance is
    0 before and after. Source: docs/proofs/stability.md, sections 5 and 10."""
    queries = scores.shape[1]
    values = np.empty((2, queries))
    distances = np.empty((2, queries), dtype=np.int64)
    for count in np.unique(bins).tolist():
        alike = np.flatnonzero(bins == count)
        width = max(1, _BLOCK // max(1, len(scores)))
        for those in (alike[start : start + width] for start in range(0, len(alike), width)):
            for which, votes in enumerate(bins_of(scores[:, those], count)):
                found = winners(votes, count - which, distance)
                values[which, those] = (2 * found.values + 1 + which) / (2 * count)
                distances[which, those] = found.distances
    return Histograms(plain=values[0], plain_distances=distances[0], shifted=values[1], shifted_distances=distances[1])
