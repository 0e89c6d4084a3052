"""Loss that is infinite with some probability m: delta of the whole from that of the finite part, and back.

delta = m + (1 - m) d.   docs/proofs/engine.md, sections 1 and 8.
"""

from __future__ import annotations

from dpledger.accounting.arithmetic import scalars
from dpledger.accounting.arithmetic.floating import UNIT, lowered, raised
from dpledger.accounting.laws.intervals import Interval

__all__ = ["AT_THE_MASS", "finite_part", "with_mass"]

AT_THE_MASS = 1e-14  # relative: nearer than this to the mass at infinity, a delta counts as equal to it


def finite_part(delta: float, mass: float, side: float) -> float:
    """(delta - m)/(1 - m), moved outward by more than its rounding; 0 for a lower value that is not clearly above 0."""
    if mass == 0:
        return delta
    if mass >= 1:
        return 0.0 if side < 0 else 1.0
    value = (delta - mass) / (1 - mass)
    error = 16 * UNIT * (delta + mass) / (1 - mass)
    if side > 0:
        return max(value, 0.0) + error
    return value - error if value > error and delta > mass * (1 + AT_THE_MASS) else 0.0


def with_mass(finite: Interval, log_finite: float) -> Interval:
    """m + (1 - m) d, m the mass at infinity, outward."""
    if log_finite == 0:
        return finite
    mass, kept = -scalars.expm1(log_finite), scalars.exp(log_finite)
    lower, upper = mass + kept * finite.lower, mass + kept * finite.upper
    return Interval(lowered(lower, 16 * UNIT), min(1.0, raised(upper, 16 * UNIT)))
