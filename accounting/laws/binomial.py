"""How likely a binomial number is large, from both sides.

>>> lower, upper = at_least(10, Fraction(1, 2), 8)
>>> lower <= 56 / 1024 <= upper and upper - lower < 1e-9
True
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT
from dpledger.errors import CannotCertify

__all__ = ["at_least"]

MOST_TERMS = 1 << 21
_DEVIATIONS, _FEW = 14, 200  # numbers further from the mean than so many deviations and _FEW have a mass below 2e-39
_BEYOND = 1e-38


def at_least(trials: int, rate: Fraction, least: int) -> tuple[float, float]:
    """Bounds of P(Bin(trials, rate) >= least), 0 < rate < 1.

    Claim: lower <= the probability <= upper. Source: ratios of neighbouring masses; beyond, Bernstein's
    inequality. Raises CannotCertify where more than MOST_TERMS numbers are likely."""
    if least <= 0 or least > trials:
        return (1.0, 1.0) if least <= 0 else (0.0, 0.0)
    spread = math.ceil(_DEVIATIONS * math.sqrt(float(trials * rate * (1 - rate)))) + _FEW
    if spread > MOST_TERMS:
        raise CannotCertify(
            f"a batch whose size spreads over more than {MOST_TERMS} numbers has no certified bound here"
        )
    mean = math.floor(trials * rate)
    first, last = max(0, mean - spread), min(trials, mean + spread)
    numbers = np.arange(first, last, dtype=np.float64)
    rises = elementary.log((trials - numbers) / (numbers + 1)) + scalars.log(float(rate / (1 - rate)))
    logs = np.concatenate([[0.0], np.cumsum(rises)])
    error = 2 * UNIT * (logs.size + 8) * (float(np.abs(logs).max()) + 2 * float(np.abs(rises).max(initial=0.0)) + 16)
    masses = elementary.exp(logs - logs.max())
    whole, tail = float(masses.sum()), float(masses[max(0, min(least, last + 1) - first) :].sum())
    share, error = tail / whole, 2 * error + 2 * UNIT * (logs.size + 16)
    return max(0.0, share * (1 - error) - _BEYOND), min(1.0, share * (1 + error) + _BEYOND)
