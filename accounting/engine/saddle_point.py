"""The certified contour sum: two-sided bounds of delta(eps) from one vertical line.

With K the log moment generating function of the finite loss, c > 0, z = c + it:

    delta(eps) = (1/2 pi i) int M(z) e^{-z eps} / (z (z+1)) dz            along Re z = c
    step * sum over t = k step  =  sum_j delta(eps + jW) e^{cjW},  W = 2 pi / step    (an identity)

so the whole sum bounds delta from above, and less its aliases from below. What is left out (nodes beyond the last) and
what is rounded is bounded and added. With `mu_squared` > 0 the kernel is that of two smooth functions, one above and
one below (1 - e^-x)_+. Statements, proofs, sources: docs/proofs/engine.md, sections 1 to 3 and 6.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array, ComplexArray
from dpledger.accounting.engine.composed import TiltedComposition
from dpledger.accounting.laws.intervals import Interval

__all__ = ["SMOOTHED", "ChernoffBounds", "Contour", "decay_beyond", "horizon_of"]

Value = TypeVar("Value", float, Array)
SMOOTHED = 10.0  # deviations of the smoothing beyond which nothing is left of it: e^-50


@dataclass(frozen=True, slots=True, eq=False)
class ChernoffBounds:
    """Points c'', upper bounds `log_moments` of K(c'') and `log_bounds` of K(c'') + log kappa(c''): one Chernoff bound
    of delta for each."""

    c: Array
    log_moments: Array
    log_bounds: Array

    def log_delta(self, epsilon: float) -> float:
        """log of the best Chernoff bound. Claim: at least log delta(epsilon). Source: Canonne et al. 2020, Prop. 12."""
        bounds = self.log_bounds - self.c * (epsilon - 8 * UNIT * abs(epsilon)) + 8 * UNIT * np.abs(self.log_bounds)
        return float(bounds.min())

    def log_deltas(self, epsilons: Array) -> Array:
        """`log_delta` at each epsilon; infinite where there is no point."""
        raised = self.log_bounds + 8 * UNIT * np.abs(self.log_bounds)
        at = epsilons - 8 * UNIT * np.abs(epsilons)
        bounds: Array = np.min(raised - np.multiply.outer(at, self.c), axis=1, initial=math.inf)
        return bounds

    def epsilon(self, log_delta: float) -> float:
        """Claim: delta(result) <= e^log_delta. Source: Canonne et al. 2020, Proposition 12."""
        slack = 8 * UNIT * (np.abs(self.log_bounds) + abs(log_delta))
        return float(((self.log_bounds - log_delta + slack) / self.c).min())


def horizon_of(mu_squared: float, end: float) -> float:
    """Up to where decay is asked for, beyond nodes that end at `end`: the smoothing does the rest. Infinite where the
    smoothing is too little for that."""
    horizon = SMOOTHED / math.sqrt(mu_squared) if mu_squared else math.inf
    return horizon if end <= 0.7 * horizon else math.inf


def decay_beyond(tilted: TiltedComposition, end: float, mu_squared: float) -> float:
    """log of a bound R of |phi| from `end` on, good enough for what the truncation does with it.

    Claim: section 2's bounds of what is left out hold with it. Source: docs/proofs/engine.md, section 2 (horizon).
    """
    at, horizon = np.array([end]), horizon_of(mu_squared, end)
    everywhere = float(tilted.log_decay(at)[0])
    if horizon == math.inf:
        return everywhere
    near, far = float(tilted.log_decay(at, horizon)[0]), mu_squared / 2 * end * end - scalars.square(SMOOTHED) / 2
    return min(everywhere, float(elementary.logaddexp(near, far)) + 1e-9)


@dataclass(frozen=True, slots=True, eq=False)
class KernelLine:
    """The line Re z = c with its nodes, and what depends on them alone: the kernels, doubled for t > 0."""

    t: Array
    smooth: Array
    upper: ComplexArray
    lower: ComplexArray
    sizes: Array
    rounding: Array


@functools.lru_cache(maxsize=64)
def _line(c: float, step: float, count: int, mu_squared: float) -> KernelLine:
    t = step * np.arange(count, dtype=np.float64)
    z = c + 1j * t
    kernel = np.divide(2, elementary.times(z, z + 1), dtype=np.complex128)
    kernel[0] /= 2
    if mu_squared == 0:
        return KernelLine(t, np.zeros(count), kernel, kernel, elementary.modulus(kernel), np.full(count, 40 * UNIT))
    smooth = mu_squared / 2 * (c * (c + 1) - t * t)
    bump = np.full(count, 2 * mu_squared * scalars.exp(mu_squared / 8))
    bump[0] /= 2
    return KernelLine(
        t, smooth, kernel, kernel - bump, elementary.modulus(kernel) + bump, UNIT * (40 + 8 * np.abs(smooth))
    )


@functools.lru_cache(maxsize=64)
def _geometric(c: float, window: float, mu_squared: float, points: bytes) -> tuple[int, Array, Array]:
    """The number of the first of the points, which rise, above c; those points; log(e^{(c'' - c)W} - 1) of each, less
    what the smoothing adds to K."""
    every = np.frombuffer(points)
    first = int(np.searchsorted(every, c * (1 + 1e-9), side="right"))
    above = every[first:]
    gap = (above - c) * (window * (1 - 1e-9))
    smooth = (mu_squared / 2) * above * (above + 1) + 1e-9
    return first, above, gap + elementary.log(-elementary.expm1(-gap)) - smooth


class Contour:
    """The line Re z = c with `count` nodes a `step` apart, and all that its certificate needs."""

    __slots__ = (
        "_aliases",
        "_line",
        "_log_front",
        "_log_front_error",
        "_lower",
        "_position_size",
        "_rounding",
        "_shift",
        "_size",
        "_truncation",
        "_turning",
        "_upper",
        "c",
        "count",
        "mu_squared",
        "step",
        "window",
    )

    def __init__(
        self, tilted: TiltedComposition, chernoff: ChernoffBounds, *, step: float, count: int, mu_squared: float = 0.0
    ) -> None:
        self.c, self.step, self.count, self.mu_squared = tilted.c, step, count, mu_squared
        self.window = 2 * math.pi / step
        self._line = _line(self.c, step, count, mu_squared)
        self._set_nodes(tilted)
        self._truncation = self._truncations(decay_beyond(tilted, count * step, mu_squared))
        at = tilted.cumulants
        self._log_front = at.value - scalars.log(self.window)
        self._log_front_error = at.error + 8 * UNIT * (abs(at.value) + 8)
        self._aliases = self._alias_bounds(chernoff)

    def _set_nodes(self, tilted: TiltedComposition) -> None:
        line, mu2 = self._line, self.mu_squared
        real, imaginary, spread = tilted.nodes(self.step, self.count)
        exponents = real + line.smooth
        modulus = elementary.exp(np.minimum(exponents, 700.0))
        phases = elementary.from_polar(modulus, imaginary)
        kernel = elementary.times(phases, line.upper)
        self._upper = np.concatenate([kernel.real, -kernel.imag])
        self._turning: Array | None = None
        self._lower = self._upper
        if mu2:
            below = elementary.times(phases, line.lower)
            self._lower = np.concatenate([below.real, -below.imag])
        sizes = modulus * line.sizes
        spread = spread + line.rounding + (4 * UNIT) * (np.abs(imaginary) + np.abs(real))
        grown = sizes * elementary.expm1(np.minimum(spread, 1.0))
        if not spread.max() < 1:  # where phi all but vanishes: e^B - 1 <= e^B, joined to the logarithm of the modulus
            wild = spread >= 1
            grown[wild] = elementary.exp(
                np.minimum(elementary.log(2 * line.sizes[wild]) + exponents[wild] + spread[wild], 700.0)
            )
        self._size = float(sizes.sum()) * (1 + 1e-6)
        self._position_size = float(elementary.product(sizes, line.t)) * (1 + 1e-6)
        self._rounding = float(grown.sum()) * (1 + 1e-6) + UNIT * (self.count + 60) * self._size
        at, middle = tilted.cumulants, mu2 * (self.c + 0.5)
        self._shift = (at.mean + middle, tilted.absolute_mean + middle)

    def _truncations(self, log_decay: float) -> tuple[float, float]:
        """What the nodes from `count` on can add to the upper and take from the lower sum."""
        c, mu2, end = self.c, self.mu_squared, self.count * self.step
        front = 2 * scalars.exp(min(700.0, log_decay + mu2 / 2 * (c * (c + 1) - end * end))) * (1 + 1e-9)
        plain = 1 / (scalars.square(self.step) * (self.count - 0.5))
        if mu2 == 0:
            return front * plain, front * plain
        ratio = -scalars.expm1(-mu2 * end * self.step)
        reach = end * end * ratio
        if reach == 0:  # the smoothing decays too slowly for a float: it bounds nothing
            return front * plain, math.inf
        upper = front * min(plain, 1 / reach)
        return upper, upper + front * mu2 * scalars.exp(mu2 / 8) / ratio

    def _alias_bounds(self, chernoff: ChernoffBounds) -> ChernoffBounds:
        """log of the bound of the aliases at eps + jW, j >= 1, for each c'' above c, less its c'' eps."""
        first, c, less = _geometric(self.c, self.window, self.mu_squared, chernoff.c.tobytes())
        return ChernoffBounds(c, chernoff.log_moments[first:], chernoff.log_bounds[first:] - less)

    def _log_alias(self, epsilon: float) -> float:
        """Claim: at least the log of the aliases on both sides. Source: docs/proofs/engine.md, section 2."""
        ahead = self._aliases.log_delta(epsilon) if self._aliases.c.size else math.inf
        return float(elementary.logaddexp(self._log_behind(), ahead)) + 1e-9

    def _log_behind(self) -> float:
        gap = self.c * self.window * (1 - 1e-9)
        return -gap - scalars.log1p(-scalars.exp(-gap))

    def _phases(self, epsilon: float) -> Array:
        """Cosines and sines of t (sum of the means - eps), one after the other: a sum's real part is one product."""
        angles = self._line.t * (self._shift[0] - epsilon)
        sines, cosines = elementary.circle(angles)
        return np.concatenate([cosines, sines])

    def _turned(self) -> Array:
        """What the derivative of the sum is formed of, as `_upper` the sum."""
        if self._turning is None:
            cosines, sines = self._upper[: self.count], self._upper[self.count :]
            self._turning = np.concatenate([-self._line.t * sines, self._line.t * cosines])
        return self._turning

    def estimate(self, epsilon: float) -> tuple[float, float]:
        """log S(eps) and its derivative, uncertified; NaN where the sum is not positive."""
        phases = self._phases(epsilon)
        upper = float(elementary.product(self._upper, phases))
        if not upper > 0:
            return math.nan, -self.c
        turning = float(elementary.product(self._turned(), phases))
        return self._log_front - self.c * epsilon + scalars.log(upper), turning / upper - self.c

    def bounds(self, epsilon: float) -> Interval:
        """Bounds of log delta(epsilon), for any real epsilon.

        Claim: lower <= log delta(epsilon) <= upper. Source: docs/proofs/engine.md, sections 1 to 3 and 6.
        """
        phases = self._phases(epsilon)
        upper = float(elementary.product(self._upper, phases))
        lower = float(elementary.product(self._lower, phases)) if self.mu_squared else upper
        return Interval(self._log_least(lower, epsilon), self._log_most(upper, epsilon))

    def _errors(self, epsilon: Value) -> tuple[Value, Value, Value]:
        """The error of a sum; the front, logarithmically, and its error."""
        error = self._rounding + 6 * UNIT * (self._shift[1] + abs(epsilon)) * self._position_size
        at = self.c * epsilon
        return error, self._log_front - at, self._log_front_error + 8 * UNIT * abs(at)

    def _log_most(self, upper: float, epsilon: float) -> float:
        error, front, front_error = self._errors(epsilon)
        most = upper + error + self._truncation[0]
        return front + front_error + scalars.log(most) if 0 < most < math.inf else math.inf

    def _log_least(self, lower: float, epsilon: float) -> float:
        error, front, front_error = self._errors(epsilon)
        least = lower - error - self._truncation[1]
        if not least > 0:
            return -math.inf
        log_least = front - front_error + scalars.log(least)
        log_alias = self._log_alias(epsilon)
        if log_alias >= log_least:
            return -math.inf
        return log_least + scalars.log1p(-scalars.exp(log_alias - log_least)) - 1e-15 * abs(log_least)

    def _sums_at(self, epsilons: Array, *sums: Array) -> list[Array]:
        """Sums of the kind of `_upper` at each epsilon."""
        angles = np.multiply.outer(self._shift[0] - epsilons, self._line.t)
        (sines, cosines), n = elementary.circle(angles), self.count
        return [elementary.product(cosines, each[:n]) + elementary.product(sines, each[n:]) for each in sums]

    def estimates_at(self, epsilons: Array) -> tuple[Array, Array]:
        """`estimate` at each epsilon."""
        upper, turned = self._sums_at(epsilons, self._upper, self._turned())
        with np.errstate(divide="ignore", invalid="ignore"):
            values = self._log_front - self.c * epsilons + elementary.log(upper)
            slopes: Array = turned / upper - self.c
        return values, slopes

    def bounds_at(self, epsilons: Array) -> tuple[Array, Array]:
        """Lower and upper bounds of log delta at each epsilon: those of `bounds`, for many at once.

        Claim: lower[i] <= log delta(epsilons[i]) <= upper[i]. Source: docs/proofs/engine.md, sections 1 to 3 and 6.
        """
        sums = self._sums_at(epsilons, self._upper, *((self._lower,) if self.mu_squared else ()))
        error, front, front_error = self._errors(epsilons)
        most, least = sums[0] + error + self._truncation[0], sums[-1] - error - self._truncation[1]
        with np.errstate(divide="ignore", invalid="ignore"):
            log_upper = np.where((most > 0) & (most < math.inf), front + front_error + elementary.log(most), math.inf)
            log_least = front - front_error + elementary.log(least)
            log_alias = elementary.logaddexp(self._log_behind(), self._aliases.log_deltas(epsilons)) + 1e-9
            sound, less = (least > 0) & (log_alias < log_least), np.minimum(log_alias - log_least, 0.0)
            log_lower = log_least + elementary.log1p(-elementary.exp(less)) - 1e-15 * np.abs(log_least)
        return np.where(sound, log_lower, -math.inf), log_upper
