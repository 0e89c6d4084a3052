"""Secret batches: each unit is in with probability exactly `rate`, independently, and nobody is told which.

They are coins of `noise.sampled`: of the decimal itself, not of a float near it, and in the log like all noise.

>>> from dpledger.mechanisms.entropy import seeded
>>> poisson_batch(Decimal(1), 4, entropy=seeded(0)).tolist()
[0, 1, 2, 3]
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np

from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import Positions, sampled

__all__ = ["Positions", "poisson_batch"]


def poisson_batch(rate: Decimal, units: int, *, entropy: Entropy) -> Positions:
    """The positions, rising, of a batch that holds each of `units` units independently with probability `rate`.

    `rate`: in (0, 1], used exactly. At rate 1 nothing is drawn.
    Source: docs/proofs/noise.md, section 8.
    """
    if rate == 1:
        return np.arange(units, dtype=np.int64)
    return sampled(rate, units, entropy=entropy, given=True)
