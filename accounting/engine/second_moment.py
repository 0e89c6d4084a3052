"""A lower bound that needs no contour: the second moment of e^{cL}.

Where losses are large and nearly certain, or end in atoms that no smoothing resolves, a contour may know the upper end
only. Then the mass near the mean says how much is lost at least: for every c > 0 and 0 < theta < 1

    P(L > l) >= (1 - theta)^2 e^{2 K(c) - K(2c)},   l = (K(c) + log theta)/c,   delta(l - a) >= (1 - e^{-a}) P(L > l)

It is sharp to a few deviations of L. Source: Paley-Zygmund 1932 (Cauchy-Schwarz); docs/proofs/engine.md, section 8.
"""

from __future__ import annotations

import math

from dpledger.accounting.arithmetic import scalars
from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.laws.intervals import Interval
from dpledger.errors import WorkLimit

__all__ = ["moment_epsilon"]

_HALVINGS = 12  # of the tilt, from where the second moment tells as little as delta
_STILL = 1e-9  # a tilt that hardly moves the moments
_LEAST = 1e-300
_MOMENT_ERROR = 1e-12


def moment_epsilon(composed: Composed, down: float, up: float) -> Interval:  # noqa: ARG001 - a lower bound only
    """A lower bound of the least epsilon >= 0 with d(epsilon) <= delta, d the profile of the finite loss.

    Claim: the lower bound holds for every delta <= up. Source: the module.
    """
    lower = 0.0
    try:
        still = composed.moments(_STILL)
    except WorkLimit:
        return Interval(lower, composed.largest)
    spread = max(math.sqrt(max(still.variance, 0.0)), _STILL * abs(still.mean), _LEAST)
    c = math.sqrt(1 - scalars.log(up)) / spread
    doubled = _moment(composed, 2 * c)
    for _ in range(_HALVINGS):
        here = _moment(composed, c)
        lower = max(lower, _epsilon(c, here[0], 2 * here[0] - doubled[1] - scalars.log(up)))
        c, doubled = c / 2, here
    return Interval(lower, composed.largest)


def _moment(composed: Composed, c: float) -> tuple[float, float]:
    """Bounds of K(c)."""
    try:
        at = composed.tilted(c).cumulants
    except (WorkLimit, ArithmeticError, ValueError):  # a tilt too steep for the quadrature, or for floats
        return -math.inf, math.inf
    error = at.error + _MOMENT_ERROR * abs(at.value)
    return at.value - error, at.value + error


def _epsilon(c: float, log_moment: float, log_room: float) -> float:
    """l - a, where (1 - theta)^2 and 1 - e^{-a} make up for e^{log_room}, which is above 1, in three equal parts."""
    if not log_room > 0:
        return 0.0
    part = scalars.exp(-(log_room - _MOMENT_ERROR * (1 + log_room)) / 3)
    if not 0 < part < 1:
        return 0.0
    log_theta = scalars.log1p(-part)
    slack = _MOMENT_ERROR * (abs(log_moment) + abs(log_theta) + 1)
    return (log_moment + log_theta - slack) / c + log_theta - _MOMENT_ERROR * abs(log_theta)
