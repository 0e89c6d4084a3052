"""Secret batches: each unit is in with probability exactly `rate`, independently, and nobody is told which.

A uniform number in [0, 1) is compared with the decimal rate from its highest bits down; 64 bits decide all but one
case in 2^64, and where they do not, 64 more are drawn. So the probability is the decimal itself, not a float near it.

>>> from dpledger.mechanisms.entropy import seeded
>>> poisson_batch(Decimal(1), 4, entropy=seeded(0)).tolist()
[0, 1, 2, 3]
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.mechanisms.entropy import Entropy

__all__ = ["Positions", "poisson_batch"]

Positions: TypeAlias = npt.NDArray[np.int64]
"""Positions of units in the data, rising."""

_WORD = 2**64
_BLOCK = 2**18  # units at a time: the words and the comparison stay in the cache


def poisson_batch(rate: Decimal, units: int, *, entropy: Entropy) -> Positions:
    """The positions, rising, of a batch that holds each of `units` units independently with probability `rate`.

    `rate`: in (0, 1], used exactly. At rate 1 nothing is drawn.
    Source: lazily refined uniforms; Knuth and Yao 1976.
    """
    if rate == 1:
        return np.arange(units, dtype=np.int64)
    blocks = [start + _drawn(Fraction(rate), min(_BLOCK, units - start), entropy) for start in range(0, units, _BLOCK)]
    return np.concatenate(blocks) if blocks else np.zeros(0, dtype=np.int64)


def _drawn(rate: Fraction, units: int, entropy: Entropy) -> Positions:
    first, rest = divmod(rate * _WORD, 1)
    words = entropy.words(units)
    inside = words < np.uint64(first)
    for unit in np.flatnonzero(words == np.uint64(first)):
        inside[unit] = _uniform_below(rest, entropy)
    return np.flatnonzero(inside).astype(np.int64, copy=False)


def _uniform_below(rate: Fraction, entropy: Entropy) -> bool:
    """Whether a fresh uniform number in [0, 1) is below `rate`, itself in [0, 1)."""
    while rate:
        first, rate = divmod(rate * _WORD, 1)
        word = int(entropy.words(1)[0])
        if word != first:
            return word < first
    return False
