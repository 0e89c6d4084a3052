"""The contour integral of a composition in ball arithmetic: another line, another step, another quadrature than the
engine's, so many nodes that what is left out is beyond 20 digits, and aliases bounded in balls.

    delta(eps) + aliases = (1/W) sum_k M(c + ik 2 pi/W) e^(-z eps) / (z (z+1))

It tests how the engine accounts for its errors, at counts that nothing else reaches; the identity itself is tested by
`ball_profiles`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import flint
import numpy as np

from ball_profiles import Ball, ball

Complex = Any  # flint.acb
QUADRATURE = 75.0  # the error of a transform is below e^-QUADRATURE, relative
LEFT_OUT = 1e-24  # nodes end where eight in a row are below this share of the largest
ALIASES = 1e-17  # the window is made for this share of delta
BLOCK = 32  # nodes at once, by one product of matrices
FURTHER = (1.3, 1.7, 2.3, 3.2)  # multiples of the tilt at which aliases are bounded


@dataclass(frozen=True)
class Patience:
    """How much work a line may be: `nodes` on it, `points` of each quadrature."""

    nodes: int = 350
    points: int = 1500


class Unresolved(Exception):
    """The oracle itself does not know the answer to 14 digits: another question is to be asked."""


@dataclass(frozen=True)
class SampledGaussian:
    """A Poisson-sampled Gaussian in one direction; rate and noise multiplier as decimals."""

    rate: str
    sigma: str
    direction: str

    def _signed(self, c: float) -> tuple[float, float]:
        """The power w of the density ratio, and the sign of the loss."""
        return (c + 1, 1.0) if self.direction == "remove" else (-c, -1.0)

    def cumulants(self, c: float) -> Cumulants:
        rate, sigma = float(self.rate), float(self.sigma)
        w, sign = self._signed(c)
        x = np.linspace(-10 * sigma + min(w, 0), 10 * sigma + max(w, 0), 1001)
        loss = np.logaddexp(math.log1p(-rate), math.log(rate) + (x - 0.5) / sigma**2)
        exponents = w * loss - x * x / (2 * sigma**2)
        weights = np.exp(exponents - exponents.max())
        total = float(weights.sum())
        mean = float(weights @ loss) / total
        value = float(exponents.max()) + math.log(total * (x[1] - x[0]) / (sigma * math.sqrt(2 * math.pi)))
        return value, sign * mean, float(weights @ (loss - mean) ** 2) / total

    def quadrature(self, c: float, frequency: float, points: int) -> tuple[list[Ball], list[Ball], float]:
        """Weights of e^(c loss) under P, losses, and a bound of the relative error at frequencies up to the given."""
        rate, variance = ball(self.rate), ball(self.sigma) ** 2
        sigma = float(self.sigma)
        w, sign = self._signed(c)
        step, error = _step(sigma, w, frequency)
        reach = sigma * math.sqrt(2 * (QUADRATURE + 12))
        low, high = -reach + min(w, 0.0), reach + max(w, 0.0)
        if high - low > points * step:
            raise Unresolved("a quadrature of too many points")
        weights, losses = [], []
        for k in range(math.floor(low / step), math.ceil(high / step) + 1):
            x = ball(k) * ball(step)
            loss = (1 - rate + rate * ((x - flint.arb(1) / 2) / variance).exp()).log()
            weights.append((ball(w) * loss - x * x / (2 * variance)).exp())
            losses.append(loss if sign > 0 else -loss)
        scale = ball(step) / (2 * flint.arb.pi() * variance).sqrt()
        return [weight * scale for weight in weights], losses, error

    def transform(self, c: float, step: float, limits: Patience) -> Iterator[Complex]:
        """E e^(zL) at z = c + i k step, k = 0, 1, ...: each point's turn is multiplied on."""
        weights, losses, error = self.quadrature(c, step * limits.nodes, limits.points)
        turns = [flint.acb(0, ball(step) * loss).exp() for loss in losses]
        slack = sum(weights, flint.arb(0)) * error
        radius = flint.acb(flint.arb(0, slack), flint.arb(0, slack))
        powers = [[flint.acb(1)] * len(turns)]
        for _ in range(BLOCK):
            powers.append([power * turn for power, turn in zip(powers[-1], turns, strict=True)])
        columns = flint.acb_mat(list(map(list, zip(*powers[:BLOCK], strict=True))))
        terms = [flint.acb(weight) for weight in weights]
        for _ in range(0, limits.nodes, BLOCK):
            yield from (value + radius for value in (flint.acb_mat([terms]) * columns).entries())
            terms = [term * leap for term, leap in zip(terms, powers[BLOCK], strict=True)]

    def log_moment(self, c: float) -> Ball:
        weights, _, error = self.quadrature(c, 0.0, Patience().points)
        total = sum(weights, flint.arb(0))
        return (total + flint.arb(0, total * error)).log()


def _step(sigma: float, w: float, frequency: float) -> tuple[float, float]:
    """A step of the trapezoid rule and its relative error: Trefethen and Weideman 2014, Theorem 5.1, on strips of
    half width a < pi sigma^2, where |e^((w+it) L(x+ia))| <= e^(w L(x) + t a/sigma^2), or cos(a/2sigma^2)^w times it for
    a negative power; the tails left out are below e^-QUADRATURE too."""
    a = math.pi * sigma**2 * np.geomspace(1e-4, 0.9, 120)
    growth = a**2 / (2 * sigma**2) + frequency * a / sigma**2
    if w < 0:
        growth = growth + w * np.log(np.cos(a / (2 * sigma**2)))
    steps = 2 * math.pi * a / (growth + math.log(4) + QUADRATURE)
    exact = float(np.float32(min(float(steps.max()), 0.7 * sigma)))
    return exact, 4 * math.exp(-QUADRATURE)


@dataclass(frozen=True)
class Laplace:
    """Symmetric: one direction is the other. `epsilon`: sensitivity over scale, a decimal."""

    epsilon: str

    def cumulants(self, c: float) -> Cumulants:
        below, middle, above = (float(self.log_moment(c * (1 + d))) for d in (-1e-3, 0.0, 1e-3))
        return middle, (above - below) / (2e-3 * c), max((above - 2 * middle + below) / (1e-3 * c) ** 2, 0.0)

    def transform(self, c: float, step: float, limits: Patience) -> Iterator[Complex]:
        return map(self._moment, nodes(c, step, limits))

    def log_moment(self, c: float) -> Ball:
        return self._moment(flint.acb(ball(c))).real.log()

    def _moment(self, z: Complex) -> Complex:
        e0 = ball(self.epsilon)
        return ((1 + z) * (z * e0).exp() + z * (-(1 + z) * e0).exp()) / (2 * z + 1)


@dataclass(frozen=True)
class Gaussian:
    """`sigma`: the noise multiplier, a decimal."""

    sigma: str

    def cumulants(self, c: float) -> Cumulants:
        squared = float(self.sigma) ** -2
        return squared * c * (c + 1) / 2, squared * (c + 0.5), squared

    def transform(self, c: float, step: float, limits: Patience) -> Iterator[Complex]:
        return ((z * (z + 1) / (2 * ball(self.sigma) ** 2)).exp() for z in nodes(c, step, limits))

    def log_moment(self, c: float) -> Ball:
        return ball(c) * (ball(c) + 1) / (2 * ball(self.sigma) ** 2)


Cumulants: TypeAlias = tuple[float, float, float]
"""K, K', K'', roughly: to choose a line by."""
Law: TypeAlias = SampledGaussian | Laplace | Gaussian


def nodes(c: float, step: float, limits: Patience) -> Iterator[Complex]:
    """c + i k step, k = 0, 1, ..."""
    return (flint.acb(ball(c), ball(step) * k) for k in range(limits.nodes))


def cumulants(parts: Sequence[tuple[Law, int]], c: float) -> Cumulants:
    """Of a composition."""
    each = [(law.cumulants(c), count) for law, count in parts]
    k, mean, variance = (sum(count * at[i] for at, count in each) for i in range(3))
    return k, mean, variance


def saddle(parts: Sequence[tuple[Law, int]], log_delta: float) -> float:
    """The tilt of the best Chernoff bound of epsilon at delta, roughly, by bisection."""
    low, high = 1e-2, 1e4
    while high / low > 1.05:
        c = math.sqrt(low * high)
        k, mean, _ = cumulants(parts, c)
        low, high = (c, high) if c * mean - k + math.log1p(c) + log_delta < 0 else (low, c)
    return low


class Line:
    """Re z = c with the logarithms of the transforms of some laws at its nodes, enough for counts of about `parts`, and
    their log moments to the right of it, for the aliases."""

    def __init__(self, parts: Sequence[tuple[Law, int]], c: float, limits: Patience | None = None) -> None:
        self.c, self.limits, self.laws = c, limits or Patience(), tuple(law for law, _ in parts)
        self.known = [law.cumulants(c) for law in self.laws]
        self.step = _spacing(parts, c)
        self.z: list[Complex] = []
        self.logs: list[list[Complex]] = []
        self._fill([0.6 * count for _, count in parts])
        self.beyond = [(c * times, [law.log_moment(c * times) for law in self.laws]) for times in FURTHER]

    def _fill(self, counts: Sequence[float]) -> None:
        small, first = 0, 0.0
        place = self.c, self.step, self.limits
        for z, *moments in zip(nodes(*place), *(law.transform(*place) for law in self.laws), strict=False):
            self.z.append(z)
            self.logs.append([moment.log() for moment in moments])
            size = sum(n * float(log.real) for n, log in zip(counts, self.logs[-1], strict=True))
            first = size if len(self.z) == 1 else first
            small = small + 1 if size - first < math.log(LEFT_OUT) else 0
            if small == 8:
                return
        raise Unresolved("the transform does not die out")

    def saddle_epsilon(self, counts: Sequence[int]) -> float:
        """The epsilon whose best tilt is the line's, roughly."""
        mean = sum(n * at[1] for n, at in zip(counts, self.known, strict=True))
        return mean - 1 / self.c + 1 / (1 + self.c)


def _spacing(parts: Sequence[tuple[Law, int]], c: float) -> float:
    """The step of a line whose window leaves aliases below the share wanted."""
    k, mean, variance = cumulants(parts, c)
    epsilon = mean - 1 / c + 1 / (1 + c)
    log_delta = k - c * epsilon - math.log1p(c) - c * math.log1p(1 / c)
    digits = -math.log(ALIASES) + 6
    ahead = [(cumulants(parts, c * n)[0] - c * n * epsilon - log_delta + digits) / (c * n - c) for n in FURTHER]
    window = max((digits - log_delta) / c, min(ahead), 6 * math.sqrt(variance))
    return float(np.float32(2 * math.pi / window))


class OnLine:
    """The profile of a line's laws, so many times each, near its saddle; `Unresolved` where the line is no good."""

    def __init__(self, line: Line, counts: Sequence[int]) -> None:
        self.line = line
        self.window = 2 * flint.arb.pi() / ball(line.step)
        self.kernels = [self._kernel(k, counts) for k in range(len(line.z))]
        if not all(abs(kernel) < LEFT_OUT * abs(self.kernels[0]) for kernel in self.kernels[-4:]):
            raise Unresolved("the transform has not died out")
        self.moments = [(c, _weighted(each, counts)) for c, each in line.beyond]

    def _kernel(self, k: int, counts: Sequence[int]) -> Complex:
        z, logs = self.line.z[k], self.line.logs[k]
        kernel = sum((log * n for log, n in zip(logs, counts, strict=True)), flint.acb(0)).exp() / (z * (z + 1))
        return 2 * kernel if k else kernel

    def __call__(self, at: Ball) -> Ball:
        """delta, with its aliases in the radius."""
        c = ball(self.line.c)
        turn, phase, total = flint.acb(0, -at * ball(self.line.step)).exp(), flint.acb(1), flint.arb(0)
        for kernel in self.kernels:
            total += (kernel * phase).real
            phase *= turn
        value = total * (-c * at).exp() / self.window
        aliases = self._aliases(at)
        if not aliases < 1e-14 * value or not value.rad() < 1e-14 * value:
            raise Unresolved("aliases or roundings are not small")
        return (value - aliases).union(value)

    def _aliases(self, at: Ball) -> Ball:
        """delta <= 1 on one side, Chernoff's bound at c'' > c on the other, with a constant below 1."""
        c = ball(self.line.c)
        ahead = [
            (moment - ball(far) * at).exp() / ((ball(far) - c) * self.window).expm1() for far, moment in self.moments
        ]
        return 1 / (c * self.window).expm1() + min(ahead, key=float)


def _weighted(values: Sequence[Ball], counts: Sequence[int]) -> Ball:
    return sum((value * n for value, n in zip(values, counts, strict=True)), flint.arb(0))
