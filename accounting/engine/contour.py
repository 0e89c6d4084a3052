"""The certified contour sum: two-sided bounds of delta(eps) from one vertical line.

With K the log moment generating function of the finite loss, c > 0, z = c + it:

    delta(eps) = (1/2 pi i) int M(z) e^{-z eps} / (z (z+1)) dz            along Re z = c
    step * sum over t = k step  =  sum_j delta(eps + jW) e^{cjW},  W = 2 pi / step    (an identity)

so the whole sum bounds delta from above, and less its aliases from below. What is left out (nodes beyond the last) and
what is rounded is bounded and added. With `mu_squared` > 0 the kernel is that of two smooth functions, one above and
one below (1 - e^-x)_+. Statements, proofs, sources: docs/proofs/engine.md, sections 1 to 3 and 6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpledger.accounting.engine.composed import TiltedComposition
from dpledger.accounting.engine.floating import UNIT, Array

__all__ = ["Contour", "Ladder", "LogBounds"]


@dataclass(frozen=True, slots=True, eq=False)
class Ladder:
    """Points c'', upper bounds `log_moments` of K(c'') and `log_bounds` of K(c'') + log kappa(c''): one Chernoff bound
    of delta for each."""

    c: Array
    log_moments: Array
    log_bounds: Array

    def log_delta(self, epsilon: float) -> float:
        """log of the best Chernoff bound. Claim: at least log delta(epsilon). Source: Canonne et al. 2020, Prop. 12."""
        slack = 8 * UNIT * (np.abs(self.log_bounds) + np.abs(self.c * epsilon))
        return float(np.min(self.log_bounds - self.c * epsilon + slack))

    def epsilon(self, log_delta: float) -> float:
        """Claim: delta(result) <= e^log_delta. Source: Canonne et al. 2020, Proposition 12."""
        slack = 8 * UNIT * (np.abs(self.log_bounds) + abs(log_delta))
        return float(np.min((self.log_bounds - log_delta + slack) / self.c))


@dataclass(frozen=True, slots=True)
class LogBounds:
    """log of a lower (-inf: none) and an upper bound of delta."""

    lower: float
    upper: float


class Contour:
    """The line Re z = c with `count` nodes a `step` apart, and all that its certificate needs."""

    __slots__ = (
        "_aliases",
        "_kernel_lower",
        "_kernel_upper",
        "_log_front",
        "_log_front_error",
        "_position_size",
        "_rounding",
        "_shift",
        "_size",
        "_t",
        "_truncation",
        "c",
        "count",
        "mu_squared",
        "step",
        "window",
    )

    def __init__(
        self, tilted: TiltedComposition, ladder: Ladder, *, step: float, count: int, mu_squared: float = 0.0
    ) -> None:
        self.c, self.step, self.count, self.mu_squared = tilted.c, step, count, mu_squared
        self.window = 2 * math.pi / step
        self._t = step * np.arange(count, dtype=np.float64)
        self._set_nodes(tilted)
        self._truncation = self._truncations(float(tilted.log_decay(np.array([count * step]))[0]))
        at = tilted.cumulants
        self._log_front = at.value - math.log(self.window)
        self._log_front_error = at.error + 8 * UNIT * (abs(at.value) + 8)
        self._aliases = self._alias_ladder(ladder)

    def _set_nodes(self, tilted: TiltedComposition) -> None:
        c, t, mu2 = self.c, self._t, self.mu_squared
        real, imaginary, spread = tilted.nodes(self.step, self.count)
        z = c + 1j * t
        kernel = 1 / (z * (z + 1))
        smooth = mu2 / 2 * (c * (c + 1) - t * t)
        modulus = np.exp(np.minimum(real + smooth, 700.0))
        weights = np.where(t > 0, 2.0, 1.0) * modulus
        phases = weights * (np.cos(imaginary) + 1j * np.sin(imaginary))
        bump = mu2 * math.exp(mu2 / 8)
        self._kernel_upper = phases * kernel
        self._kernel_lower = phases * (kernel - bump)
        sizes = weights * (np.abs(kernel) + bump)
        spread = spread + UNIT * (40 + 8 * np.abs(smooth) + 4 * np.abs(imaginary) + 4 * np.abs(real))
        grown = np.where(spread < 1, sizes * np.expm1(np.minimum(spread, 1.0)), 0.0)
        wild = spread >= 1  # where phi all but vanishes: e^B - 1 <= e^B, joined to the logarithm of the modulus
        if wild.any():
            log_sizes = np.log(2 * (np.abs(kernel[wild]) + bump)) + real[wild] + smooth[wild] + spread[wild]
            grown[wild] = np.exp(np.minimum(log_sizes, 700.0))
        self._size = float(np.sum(sizes)) * (1 + 1e-6)
        self._position_size = float(np.sum(sizes * t)) * (1 + 1e-6)
        self._rounding = float(np.sum(grown)) * (1 + 1e-6) + UNIT * (self.count + 60) * self._size
        at = tilted.cumulants
        self._shift = (at.mean + mu2 * (c + 0.5), tilted.absolute_mean + mu2 * (c + 0.5))

    def _truncations(self, log_decay: float) -> tuple[float, float]:
        """What the nodes from `count` on can add to the upper and take from the lower sum."""
        c, mu2, end = self.c, self.mu_squared, self.count * self.step
        front = 2 * math.exp(min(700.0, log_decay + mu2 / 2 * (c * (c + 1) - end * end))) * (1 + 1e-9)
        plain = 1 / (self.step**2 * (self.count - 0.5))
        if mu2 == 0:
            return front * plain, front * plain
        ratio = -math.expm1(-mu2 * end * self.step)
        reach = end * end * ratio
        if reach == 0:  # the smoothing decays too slowly for a float: it bounds nothing
            return front * plain, math.inf
        upper = front * min(plain, 1 / reach)
        return upper, upper + front * mu2 * math.exp(mu2 / 8) / ratio

    def _alias_ladder(self, ladder: Ladder) -> Ladder:
        """log of the bound of the aliases at eps + jW, j >= 1, for each c'' above c, less its c'' eps."""
        above = ladder.c > self.c * (1 + 1e-9)
        c = ladder.c[above]
        gap = (c - self.c) * self.window * (1 - 1e-9)
        log_geometric = np.where(gap > 40, gap, np.log(np.expm1(np.minimum(gap, 40.0))))
        smooth = self.mu_squared * c * (c + 1) / 2
        return Ladder(c, ladder.log_moments[above], ladder.log_bounds[above] + smooth - log_geometric + 1e-9)

    def _log_alias(self, epsilon: float) -> float:
        """Claim: at least the log of the aliases on both sides. Source: docs/proofs/engine.md, section 2."""
        gap = self.c * self.window * (1 - 1e-9)
        behind = -gap - math.log1p(-math.exp(-gap))
        ahead = self._aliases.log_delta(epsilon) if self._aliases.c.size else math.inf
        return float(np.logaddexp(behind, ahead)) + 1e-9

    def _sums(self, epsilon: float) -> tuple[float, float, float]:
        """The upper and the lower sum, and the derivative of the upper one's logarithm with e^{-c eps} in front."""
        angles = self._t * (self._shift[0] - epsilon)
        phases = np.cos(angles) + 1j * np.sin(angles)
        terms = self._kernel_upper * phases
        upper = float(np.sum(terms.real))
        lower = upper if self.mu_squared == 0 else float((self._kernel_lower @ phases).real)
        slope = -(self.c * upper - float(self._t @ terms.imag)) / upper if upper > 0 else -self.c
        return upper, lower, slope

    def estimate(self, epsilon: float) -> tuple[float, float]:
        """log S(eps) and its derivative, uncertified; NaN where the sum is not positive."""
        upper, _, slope = self._sums(epsilon)
        if not upper > 0:
            return math.nan, slope
        return self._log_front - self.c * epsilon + math.log(upper), slope

    def bounds(self, epsilon: float) -> LogBounds:
        """Bounds of log delta(epsilon), for any real epsilon.

        Claim: lower <= log delta(epsilon) <= upper. Source: docs/proofs/engine.md, sections 1 to 3 and 6.
        """
        upper, lower, _ = self._sums(epsilon)
        error = self._rounding + 4 * UNIT * (self._shift[1] + abs(epsilon)) * self._position_size
        front = self._log_front - self.c * epsilon
        front_error = self._log_front_error + 8 * UNIT * abs(self.c * epsilon)
        most, least = upper + error + self._truncation[0], lower - error - self._truncation[1]
        log_upper = front + front_error + math.log(most) if 0 < most < math.inf else math.inf
        if not least > 0:
            return LogBounds(-math.inf, log_upper)
        log_least = front - front_error + math.log(least)
        log_alias = self._log_alias(epsilon)
        if log_alias >= log_least:
            return LogBounds(-math.inf, log_upper)
        return LogBounds(log_least + math.log1p(-math.exp(log_alias - log_least)) - 1e-15 * abs(log_least), log_upper)
