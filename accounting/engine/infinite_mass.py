"""Loss that is infinite with some probability m: delta of the whole from that of the finite part, and back.

delta = m + (1 - m) d.   docs/proofs/engine.md, sections 1 and 8.
"""

from __future__ import annotations

import numpy as np

from dpledger.accounting.arithmetic import scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array, rounded_out

__all__ = ["AT_THE_MASS", "finite_parts", "with_mass"]

AT_THE_MASS = 1e-14  # relative: nearer than this to the mass at infinity, a delta counts as equal to it


def finite_parts(down: Array, up: Array, mass: float) -> tuple[Array, Array]:
    """(delta - m)/(1 - m) of deltas from `down` to `up`, moved outward by more than its rounding; 0 for a lower value
    that is not clearly above 0."""
    if mass == 0:
        return down, up
    if mass >= 1:
        return np.zeros_like(down), np.ones_like(up)
    below, above = ((delta - mass) / (1 - mass) for delta in (down, up))
    error = 16 * UNIT * (up + mass) / (1 - mass)
    clear = (below > error) & (down > mass * (1 + AT_THE_MASS))
    return np.where(clear, below - error, 0.0), np.maximum(above, 0.0) + error


def with_mass(lower: Array, upper: Array, log_finite: float) -> tuple[Array, Array]:
    """m + (1 - m) d, m the mass at infinity, outward."""
    if log_finite == 0:
        return lower, upper
    mass, kept = -scalars.expm1(log_finite), scalars.exp(log_finite)
    return rounded_out(mass + kept * lower, mass + kept * upper)
