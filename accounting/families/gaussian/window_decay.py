"""How fast the transform of a window of a sampled Gaussian decays: by moving the line of integration off the real axis,
where every outcome beyond x turns by an angle of at least that at x. docs/proofs/engine.md, section 11."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import Array
from dpledger.accounting.families.gaussian.sampled_grid import Pair
from dpledger.accounting.laws.law import Tilted

__all__ = ["TiltedCut", "log_decay_of_window"]

_HEIGHTS = elementary.geometric(1e-4, 0.49, 48)  # of the strip's half width
_BEFORE = elementary.geometric(1.0, 16.0, 7)  # widths before the start


class TiltedCut(Tilted, Protocol):
    """A cut sampled Gaussian tilted at `c`."""

    @property
    def law(self) -> Pair: ...
    @property
    def c(self) -> float: ...


def log_decay_of_window(tilted: TiltedCut, t: Array) -> Array:
    """Claim: at least log |phi(s)| for every s >= t. Source: docs/proofs/engine.md, section 11 (decay)."""
    law, at = tilted.law, tilted.cumulants
    cut, variance, power = law.cut, scalars.square(law.sigma), law.power(tilted.c)
    assert cut is not None
    assert cut.start > -math.inf
    x = (cut.start - _BEFORE * cut.width)[::-1]
    curve = law.curve(x)
    rises = (cut.start - x) / scalars.square(cut.width) - np.maximum(x, 0.0) / variance
    log_terms = power * curve.values - x * x / (2 * variance) + cut.log_kept(x)
    log_shares = log_terms - scalars.log(law.sigma * math.sqrt(2 * math.pi)) - (at.value - at.error) + 1e-6
    log_before = np.where(rises > 0, log_shares - elementary.log(np.where(rises > 0, rises, 1.0)), math.inf)
    heights = _HEIGHTS * (math.pi * variance)
    v, s = heights / variance, curve.slopes[:, None]
    sines, cosines = elementary.circle(v)
    angles = elementary.arctan2(s * sines, 1 - s + s * cosines) * (1 - 1e-9)
    spent = heights * heights / 2 * (1 / variance + 1 / scalars.square(cut.width))
    turned = elementary.logaddexp(-np.multiply.outer(t, angles), log_before[:, None])
    bounds: Array = np.min(turned + spent, axis=(1, 2)) * (1 - 1e-9) + 1e-9
    return np.minimum(bounds, 0.0)
