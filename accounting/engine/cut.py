"""The smooth cut: for many sampled Gaussians of a small rate, where one large loss among many rules the tail.

Then E e^{cL} is ruled by outcomes far beyond what matters at this delta, and every exponential bound is loose. Take
away most of what lies beyond a point X, by a factor chi on both densities:

    delta_chi(eps) <= delta(eps) <= delta_chi(eps) + sum T_i E_{P_i}(1 - chi_i)

where delta_chi is the profile of the measures chi P, chi Q, of mass below 1, which the contour takes as any other.
Direction remove only: in the direction add the loss is bounded. docs/proofs/engine.md, section 10.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.engine.floating import UNIT
from dpledger.accounting.engine.solve import WIDTH, Interval, finite_epsilon
from dpledger.accounting.engine.tilt import saddle_for_delta
from dpledger.accounting.laws.law import Loss
from dpledger.accounting.laws.sampled_curve import loss_curve, quadrature_step
from dpledger.accounting.laws.subsampled import DIGITS, MOST_POINTS, Cut, SampledGaussianLoss
from dpledger.errors import WorkLimit

__all__ = ["cut_epsilon", "mass_cut_away"]

LOST = 2e-6  # of delta: what the cuts may take away in all
STEEPNESS = 3.5  # chi falls so many times faster than e^{wL} rises at the tilt aimed at
ROUNDS = 4


def cut_epsilon(composed: Composed, down: float, up: float) -> Interval:
    """Bounds of the least epsilon >= 0 with d(epsilon) <= delta, from a cut of every loss that can be cut.

    Claim: the upper bound holds for every delta >= down, the lower for every delta <= up. Source:
    docs/proofs/engine.md, section 10.
    """
    whole = Interval(0.0, composed.largest)
    if not any(_can_be_cut(loss) for loss, _ in composed.parts):
        return whole
    try:
        cut = _placed(composed, down)
        lost = sum(count * mass_cut_away(loss) for loss, count in cut.parts if isinstance(loss, SampledGaussianLoss))
        left = down - lost * (1 + 1e-9)
        if not left > 0:
            return whole
        log_up = math.log(up)
        return finite_epsilon(cut, math.log(left) - 1e-13, log_up + 2 * UNIT * abs(log_up))
    except WorkLimit:
        return whole


def _can_be_cut(loss: Loss) -> bool:
    return isinstance(loss, SampledGaussianLoss) and loss.direction == "remove"


def _placed(composed: Composed, delta: float) -> Composed:
    """Cuts that fit the tilt which the cut losses themselves ask for: found by repetition. Any cut is valid."""
    tilt = saddle_for_delta(composed, math.log(delta), WIDTH).c
    for _ in range(ROUNDS):
        parts = tuple((_cut(loss, count, tilt, delta / len(composed.parts)), count) for loss, count in composed.parts)
        cut = Composed(parts)
        wanted = saddle_for_delta(cut, math.log(delta), WIDTH, most=0.8 * STEEPNESS * (tilt + 1) - 1).c
        if wanted <= 1.1 * tilt:
            return cut
        tilt = wanted
    return cut


def _cut(loss: Loss, count: int, tilt: float, delta: float) -> Loss:
    if not isinstance(loss, SampledGaussianLoss) or loss.direction != "remove":
        return loss
    width = loss.sigma**2 / (STEEPNESS * (tilt + 1))
    point = _quantile(loss, LOST * delta / count)
    for _ in range(40):
        made = replace(loss, cut=Cut(point, width))
        if count * mass_cut_away(made) <= LOST * delta:
            return made
        point += 2 * width
    return made


def _quantile(loss: SampledGaussianLoss, mass: float) -> float:
    """Where P(x > X) is about `mass`, or above: from the tail bound e^{-y^2/2} of each normal."""
    far = math.sqrt(2 * max(0.0, math.log(max(loss.rate / mass, 1.0))))
    near = math.sqrt(2 * max(0.0, math.log(1 / mass)))
    return max(1 + loss.sigma * far, loss.sigma * near) * 0.9


def mass_cut_away(loss: SampledGaussianLoss) -> float:
    """E_P(1 - chi), rounded up: 0 without a cut.

    Claim: at least the mass. Source: docs/proofs/engine.md, sections 4 and 10: 1 - chi is chi mirrored, so the strip
    bounds of chi hold for it.
    """
    if loss.cut is None:
        return 0.0
    digits = DIGITS + 40
    step = quadrature_step(loss.sigma, 1.0, 0.0, digits, cut_width=loss.cut.width)
    reach = loss.sigma * math.sqrt(2 * (digits + 600))
    low, high = -reach, 1 + reach
    if not (high - low) / step < MOST_POINTS:
        raise WorkLimit(f"the mass beyond a cut needs more than {MOST_POINTS} points")
    x = np.arange(math.floor(low / step), math.ceil(high / step) + 1, dtype=np.float64) * step
    curve = loss_curve(loss.rate, loss.sigma, x)
    removed = -np.logaddexp(0.0, (loss.cut.point - x) / loss.cut.width)
    exponents = curve.values - x * x / (2 * loss.sigma**2) + removed
    total = float(np.sum(np.exp(exponents))) * step / (loss.sigma * math.sqrt(2 * math.pi))
    return total * (1 + 1e-9) + 2 * math.exp(-digits - 600)
