"""What K and the nodes of a loss may miss, a contour's bounds own up to: at the worst of all that they may miss."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from dpledger.accounting.arithmetic.floating import Array, ComplexArray
from dpledger.accounting.engine.composed import Composed, TiltedComposition, log_kappa
from dpledger.accounting.engine.saddle_point import ChernoffBounds, Contour, _line
from dpledger.accounting.families.gaussian.loss import GaussianLoss
from dpledger.accounting.laws.law import Cumulants, Nodes, Tilted
from engine_oracles import gaussian_delta, mp

MU, RUNS = 1.0, 3
MISSED = 1e-6  # of each node, and of K: more than all roundings
Pattern = Callable[[ComplexArray], ComplexArray]
"""By which direction each node is off, from the terms of the sum that it is part of."""
PATTERNS: dict[str, Pattern] = {
    "less": lambda terms: -terms.conj() / np.abs(terms),
    "more": lambda terms: terms.conj() / np.abs(terms),
    "turned": lambda terms: np.full(terms.shape, 1j),
    "nothing": np.zeros_like,
}


@dataclass(frozen=True)
class Inexact:
    """A tilted Gaussian that misses its K by `moved`, and its nodes as a pattern says, at an epsilon of the sum."""

    honest: Tilted
    moved: float
    pattern: Pattern
    epsilon: float
    c: float

    @property
    def cumulants(self) -> Cumulants:
        at = self.honest.cumulants
        return Cumulants(at.value + self.moved, at.error + abs(self.moved) * (1 + 1e-9), at.mean, at.variance)

    def log_decay(self, t: Array, horizon: float = math.inf) -> Array:
        return self.honest.log_decay(t, horizon)

    def nodes(self, step: float, count: int, work: int) -> Nodes:
        found, t = self.honest.nodes(step, count, work), step * np.arange(count, dtype=np.float64)
        z = self.c + 1j * t
        exponents = RUNS * found.log_phi + 1j * t * (RUNS * self.cumulants.mean - self.epsilon)
        terms: ComplexArray = np.divide(np.exp(exponents), z * (z + 1), dtype=np.complex128)
        off = MISSED * self.pattern(terms)
        spread = found.spread + math.log1p(MISSED / (1 - MISSED)) * (1 + 1e-9)
        return Nodes(found.log_phi + np.log1p(off), spread)


def contour(c: float, moved: float, pattern: Pattern, epsilon: float, mu_squared: float) -> Contour:
    """Of a window and a number of nodes at which nothing else is missed."""
    part = GaussianLoss(MU * MU / RUNS)
    tilts = c * np.geomspace(0.5, 4, 16)
    log_moments = Composed(((part, RUNS),)).log_moments(tilts)
    chernoff = ChernoffBounds(tilts, log_moments, log_moments + log_kappa(tilts) + 1e-12)
    inexact = Inexact(part.tilted(c), moved, pattern, epsilon, c)
    step = float(np.float32(2 * math.pi / (20 * MU)))
    return Contour(
        TiltedComposition(c, ((inexact, RUNS),)),
        chernoff,
        step=step,
        count=int(10 / (MU * step)),
        mu_squared=mu_squared,
    )


@pytest.mark.parametrize("mu_squared", [0.0, 1e-9])
@pytest.mark.parametrize("moved", [-MISSED, 0.0, MISSED])
@pytest.mark.parametrize("name", PATTERNS)
def test_bounds_hold_and_are_hardly_wider_than_what_is_missed(name: str, moved: float, mu_squared: float) -> None:
    for c in (1.0, 4.0):
        for epsilon in (MU * MU * (c + 0.5) - 1.0, MU * MU * (c + 0.5), MU * MU * (c + 0.5) + 1.5):
            line = contour(c, moved, PATTERNS[name], epsilon, mu_squared)
            exact = mp.log(gaussian_delta(mp.mpf(MU), mp.mpf(epsilon)))
            found, ((lower,), (upper,)) = line.bounds(epsilon), line.bounds_at(np.array([epsilon]))
            assert found.lower <= exact <= found.upper
            assert lower <= exact <= upper
            burnt = cancelled(c, epsilon)
            room = 2.2 * RUNS * (MISSED * burnt + abs(moved)) + 4 * mu_squared * (c + 1) ** 2 * burnt + 1e-9 * burnt
            assert upper - lower <= 1.1 * room
            assert found.upper - found.lower <= 1.1 * room


def cancelled(c: float, epsilon: float) -> float:
    """How many times the sum its terms come to, without their signs."""
    t = np.linspace(0, 10 / MU, 2001)
    z = c + 1j * t
    terms = np.exp(-((MU * t) ** 2) / 2 + 1j * t * (MU * MU * (c + 0.5) - epsilon)) / (z * (z + 1))
    return float(np.abs(terms).sum() / terms.real.sum())


@pytest.mark.parametrize("mu_squared", [0.0, 1e-4, 2.0])
@pytest.mark.parametrize("c", [0.3, 40.0])
def test_a_kernel_owns_up_to_its_rounding(c: float, mu_squared: float) -> None:
    """Smoothed at a node: twice e^{mu^2 (z^2 + z)/2} / (z (z + 1)) in modulus, once where t = 0."""
    line = _line(c, 0.37, 30, mu_squared)
    for i, t in enumerate(line.t.tolist()):
        z = mp.mpc(c, t)
        smooth = mp.mpf(mu_squared) / 2 * (mp.mpf(c) * (mp.mpf(c) + 1) - mp.mpf(t) ** 2)
        exact = (2 if i else 1) / (z * (z + 1)) * mp.exp(smooth)
        found = mp.mpc(complex(line.upper[i])) * mp.exp(mp.mpf(float(line.smooth[i])))
        assert abs(found - exact) <= abs(exact) * mp.mpf(float(line.rounding[i]))
