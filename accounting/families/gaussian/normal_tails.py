"""The profile of one Gaussian in closed form, for every mu^2 and epsilon that is a float.

    delta = phi(a) [R(a) - R(a + mu)],   a = epsilon/mu - mu/2,   R(t) = N(-t)/phi(t), Mills' ratio,

phi the normal density, N its distribution function: Balle-Wang 2018, Theorem 8, with e^epsilon phi(a + mu) = phi(a).
R(t) is the integral of e^{-ts - s^2/2} over s > 0. So R and G = -R' = 1 - tR are completely monotone: where mu is small
the difference is an integral of G, which the rules of Gauss and of Lobatto hold between them. docs/proofs/engine.md,
section 7.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dpledger.accounting.arithmetic import scalars
from dpledger.accounting.arithmetic.floating import UNIT
from dpledger.accounting.laws.intervals import Interval

__all__ = ["gaussian_delta", "gaussian_epsilon"]

_NO_DENSITY_FROM = 39.0  # phi is below every float from here on
_LEAST = 5e-324
_NEAR = 2.0  # below, R by erfc; above, by its continued fraction
_SMALL = 0.125  # mu up to which the difference of R is an integral
_ROOT = math.sqrt(math.pi / 2)
_STEPS = 60
_INNER, _OUTER = (math.sqrt(3 / 7 + sign * 2 / 7 * math.sqrt(1.2)) for sign in (-1, 1))
_GAUSS = tuple(
    (sign * x, (18 + more) / 72) for x, more in ((_INNER, math.sqrt(30)), (_OUTER, -math.sqrt(30))) for sign in (-1, 1)
)
_MIDDLE = math.sqrt(3 / 7)
_LOBATTO = ((-1.0, 0.05), (-_MIDDLE, 49 / 180), (0.0, 16 / 45), (_MIDDLE, 49 / 180), (1.0, 0.05))


def gaussian_delta(mu_squared: float, epsilon: float) -> Interval:
    """delta(epsilon), epsilon >= 0, of a Gaussian whose mu^2 is `mu_squared` within 4 UNIT.

    Claim: lower <= delta <= upper. Source: Balle-Wang 2018, Theorem 8; docs/proofs/engine.md, section 7.
    """
    low, high = _roots(mu_squared)
    return Interval(_profile(_place(epsilon, low, 1.0), low).lower, _profile(_place(epsilon, high, -1.0), high).upper)


def gaussian_epsilon(mu_squared: float, delta_down: float, delta_up: float) -> Interval:
    """The least epsilon >= 0 with delta(epsilon) <= delta, of a Gaussian whose mu^2 is `mu_squared` within 4 UNIT.

    Claim: the upper bound holds for every delta >= delta_down, the lower for every delta <= delta_up, both in (0, 1).
    Source: Balle-Wang 2018, Theorem 8; docs/proofs/engine.md, section 7.
    """
    low, high = _roots(mu_squared)
    if _profile(-high / 2, high).upper <= delta_down:
        return Interval(0.0, 0.0)
    above = _verified(high, delta_down, 1.0, lambda found: found.upper <= delta_down)
    below = _verified(low, delta_up, -1.0, lambda found: found.lower >= delta_up)
    return Interval(max(0.0, _epsilon(below, low, -1.0)), max(0.0, _epsilon(above, high, 1.0)))


def _roots(mu_squared: float) -> tuple[float, float]:
    """mu, from below and from above."""
    mu = math.sqrt(mu_squared)
    return mu * (1 - 8 * UNIT), mu * (1 + 8 * UNIT)


def _place(epsilon: float, mu: float, side: float) -> float:
    """epsilon/mu - mu/2, moved by more than its rounding."""
    shifts = epsilon / mu
    return math.inf if shifts == math.inf else shifts - mu / 2 + side * 4 * UNIT * (shifts + mu / 2)


def _epsilon(a: float, mu: float, side: float) -> float:
    """mu a + mu^2/2, moved by more than its rounding."""
    return mu * a + mu * mu / 2 + side * 4 * UNIT * (mu * abs(a) + mu * mu / 2)


# ---- from a to delta ------------------------------------------------------------------------------------------------


def _profile(a: float, mu: float) -> Interval:
    """Bounds of phi(a) [R(a) - R(a + mu)] for a >= -mu/2, but for a rounding; it falls in a and rises in mu."""
    if a >= _NO_DENSITY_FROM:
        return Interval(0.0, _LEAST)
    b = a + mu
    density = scalars.exp(-a * a / 2) / math.sqrt(2 * math.pi)
    error = (a * a + 64) * UNIT
    if mu <= _SMALL:
        lower, upper = (density * mu * side for side in _mean_slope(a, mu))
    elif a > 0:
        (least, most), (far_least, far_most) = _ratio(a)[0], _ratio(b)[0]
        lower, upper = density * (least - far_most), density * (most - far_least)
    else:
        least, most = _ratio(b)[0]
        missed = scalars.erfc(-a / math.sqrt(2)) / 2  # phi(a) R(a) is 1 - N(a)
        spread = missed * error + 2 * UNIT
        lower = 1 - missed - spread - density * most * (1 + error)
        return Interval(max(0.0, lower), min(1.0, 1 - missed + spread - density * least * (1 - error)))
    return Interval(max(0.0, lower * (1 - error) - 4 * _LEAST), min(1.0, upper * (1 + error) + 4 * _LEAST))


def _mean_slope(a: float, mu: float) -> tuple[float, float]:
    """Bounds of the mean of G from a to a + mu. G's even derivatives are positive: Gauss's rule errs downwards, that of
    Lobatto upwards (Davis-Rabinowitz 1984, section 2.7)."""
    lower = sum(weight * _ratio(a + mu * (1 + x) / 2)[1][0] for x, weight in _GAUSS)
    upper = sum(weight * _ratio(a + mu * (1 + x) / 2)[1][1] for x, weight in _LOBATTO)
    return lower * (1 - 32 * UNIT), upper * (1 + 32 * UNIT)


def _ratio(t: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """Bounds of R(t) and of G(t) = 1 - t R(t), for t above -0.1."""
    if t < _NEAR:
        value = _ROOT * scalars.exp(t * t / 2) * scalars.erfc(t / math.sqrt(2))
        product, error = t * value, 96 * UNIT
        slack = abs(product) * error + 2 * UNIT
        return (value * (1 - error), value * (1 + error)), (1 - product - slack, 1 - product + slack)
    depth = 12 + int(340 / (t * t))
    first, second = sorted((_continued(t, depth), _continued(t, depth + 1)))
    error = 4 * (depth + 4) * UNIT
    return (first[0] * (1 - error), second[0] * (1 + error)), (
        min(first[1], second[1]) * (1 - error),
        max(first[1], second[1]) * (1 + error),
    )


def _continued(t: float, depth: int) -> tuple[float, float]:
    """R(t) = 1/(t + 1/(t + 2/(t + 3/...))) cut after `depth` levels, and G(t) = R(t)/(t + 2/(t + 3/...)). Those of two
    neighbouring depths lie on both sides. Source: Feller 1968, VII.1 (Laplace)."""
    value = t
    for k in range(depth, 1, -1):
        value = t + k / value
    ratio = 1 / (t + 1 / value)
    return ratio, ratio / value


# ---- from delta to a ------------------------------------------------------------------------------------------------


def _verified(mu: float, delta: float, side: float, holds: Callable[[Interval], bool]) -> float:
    """A point at or beyond the root of delta, on the given side, where the profile `holds`; the end if none does."""
    root, found, slope = _root(mu, delta)
    if holds(found):
        return root
    gap = abs(found.upper - found.lower) / delta
    distance = 1.01 * gap / slope + 4 * UNIT * abs(root)
    for _ in range(_STEPS):
        at = root + side * distance
        if at <= -mu / 2:
            return -mu / 2
        if holds(_profile(at, mu)):
            return at
        distance *= 2
    return math.inf if side > 0 else -mu / 2


def _root(mu: float, delta: float) -> tuple[float, Interval, float]:
    """About where the profile is delta, its bounds there, and minus the slope of its logarithm.

    By Newton's method on the logarithm, which is concave, from a point that is not left of the root: for a > 0 the
    profile is at most e^{-a^2/2} and at most phi(a) mu. Nothing is claimed of it."""
    start = min(-2 * scalars.log(delta), -2 * (scalars.log(delta) - scalars.log(mu)) - scalars.log(2 * math.pi))
    a = math.sqrt(start) if start > 0 else 0.0
    slope = 1 + a
    for _ in range(_STEPS):
        found = _profile(a, mu)
        if found.lower <= delta <= found.upper or found.lower == 0:
            break
        slope = mu * scalars.exp(-a * a / 2) / math.sqrt(2 * math.pi) * _ratio(max(a + mu, 0.0))[0][0] / found.lower
        move = (scalars.log(found.lower) - scalars.log(delta)) / slope
        if a + move < -mu / 2:
            break
        a += move
    return a, found, slope
