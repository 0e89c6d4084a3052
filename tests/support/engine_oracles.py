"""Oracles for the composition engine that share no code with it: closed forms and sums at 50 digits, exact
enumeration, and the contour integral in ball arithmetic on another line."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import flint
import mpmath

DIGITS = 60
mp = mpmath.mp.clone()
mp.dps = DIGITS

Real = Any  # an mpmath number
Pair = Sequence[tuple[Real, Real]]  # outcomes: (P mass, Q mass)


def real(value: object) -> Real:
    """A number at 60 digits, from its decimal text."""
    return mp.mpf(str(value))


# ---- profiles of one mechanism --------------------------------------------------------------------------------------


def gaussian_delta(mu: Real, epsilon: Real) -> Real:
    """Balle-Wang 2018, Theorem 8."""
    if mu == 0:
        return mp.mpf(0) if epsilon >= 0 else -mp.expm1(epsilon)
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


def laplace_delta(e0: Real, epsilon: Real) -> Real:
    """Integrated from the two densities, for any real epsilon."""
    if epsilon >= e0:
        return mp.mpf(0)
    if epsilon <= -e0:
        return -mp.expm1(epsilon)
    return -mp.expm1((epsilon - e0) / 2)


def bounded_range_delta(eta: Real, epsilon: Real) -> Real:
    """The integral of the envelope's density against (1 - e^(eps - l))_+."""
    if epsilon >= eta:
        return mp.mpf(0)
    if epsilon <= -eta:
        return -mp.expm1(epsilon)
    return (1 - mp.exp((epsilon - eta) / 2)) ** 2 / -mp.expm1(-eta)


def sampled_gaussian_delta(rate: Real, sigma: Real, epsilon: Real, direction: str) -> Real:
    """P(L > eps) - e^eps Q(L > eps), from the normal distribution function and the point where L = eps."""
    if direction == "remove":
        if mp.exp(epsilon) <= 1 - rate:
            return -mp.expm1(epsilon)
        x = sigma**2 * mp.log((mp.expm1(epsilon) + rate) / rate) + mp.mpf(1) / 2
        return rate * mp.ncdf((1 - x) / sigma) + (1 - rate - mp.exp(epsilon)) * mp.ncdf(-x / sigma)
    gap = mp.exp(-epsilon) - 1 + rate
    if gap <= 0:
        return mp.mpf(0)
    x = sigma**2 * mp.log(gap / rate) + mp.mpf(1) / 2
    return (1 - mp.exp(epsilon) * (1 - rate)) * mp.ncdf(x / sigma) - mp.exp(epsilon) * rate * mp.ncdf((x - 1) / sigma)


# ---- finite distributions -------------------------------------------------------------------------------------------


def finite_delta(pairs: Sequence[tuple[Pair, int]], epsilon: Real) -> Real:
    """sup_S P(S) - e^eps Q(S) of the product of every pair, each `count` times: outcome by outcome."""
    outcomes: list[tuple[Real, Real]] = [(mp.mpf(1), mp.mpf(1))]
    for pair, count in pairs:
        for _ in range(count):
            outcomes = _collected((a * p, b * q) for a, b in outcomes for p, q in pair)
    grown = mp.exp(epsilon)
    return mp.fsum(p - grown * q for p, q in outcomes if p > grown * q)


def _collected(outcomes: Any) -> list[tuple[Real, Real]]:
    """Outcomes with one likelihood ratio as one; those of almost one ratio stay apart."""
    table: dict[tuple[str, str], list[Real]] = {}
    for p, q in outcomes:
        key = (mp.nstr(p, 45), mp.nstr(q, 45))
        if key in table:
            table[key][2] += 1
        else:
            table[key] = [p, q, 1]
    return [(p * n, q * n) for p, q, n in table.values()]


def randomised_response(e0: Real, delta0: Real = 0) -> Pair:
    """The worst case of (e0, delta0)-DP."""
    likely = (1 - delta0) / (1 + mp.exp(-e0))
    unlikely = (1 - delta0) / (1 + mp.exp(e0))
    both = [(likely, unlikely), (unlikely, likely)]
    return [*both, (mp.mpf(delta0), mp.mpf(0)), (mp.mpf(0), mp.mpf(delta0))] if delta0 else both


def binomial_delta(e0: Real, count: int, epsilon: Real) -> Real:
    """delta of `count` randomised responses: Kairouz-Oh-Viswanath 2015, Theorem 3.3."""
    p = 1 / (1 + mp.exp(-e0))
    terms = []
    for heads in range(count + 1):
        loss = (2 * heads - count) * e0
        if loss > epsilon:
            terms.append(mp.binomial(count, heads) * p**heads * (1 - p) ** (count - heads) * -mp.expm1(epsilon - loss))
    return mp.fsum(terms)


def mixed_delta(smooth: Any, atoms: Sequence[tuple[Real, Real]], epsilon: Real) -> Real:
    """The profile of `smooth` (a function of eps) composed with a loss of the given (value, mass)."""
    return mp.fsum(mass * smooth(epsilon - value) for value, mass in atoms)


def response_atoms(e0: Real, count: int) -> list[tuple[Real, Real]]:
    """(loss, mass) of `count` randomised responses."""
    p = 1 / (1 + mp.exp(-e0))
    return [((2 * k - count) * e0, mp.binomial(count, k) * p**k * (1 - p) ** (count - k)) for k in range(count + 1)]


# ---- the sampled Gaussian -------------------------------------------------------------------------------------------


def sampled_moment(rate: Real, sigma: Real, order: int) -> Real:
    """The Renyi divergence of whole order, remove: the binomial sum of Mironov-Talwar-Zhang 2019, section 3.3."""
    with mp.workdps(max(DIGITS, int(order * 0.7) + DIGITS)):
        terms = (
            mp.binomial(order, k) * (1 - rate) ** (order - k) * rate**k * mp.exp(mp.mpf(k * (k - 1)) / (2 * sigma**2))
            for k in range(order + 1)
        )
        return mp.log(mp.fsum(terms)) / (order - 1)


@dataclass(frozen=True)
class SampledTransform:
    """I(w) = E_{N(0,s^2)} e^{w L} for complex w in ball arithmetic: the trapezoid rule, far finer than needed."""

    rate: str
    sigma: str

    def __call__(self, powers: Sequence[Any]) -> list[Any]:
        with _precision(300):
            q, s2 = flint.arb(self.rate), flint.arb(self.sigma) ** 2
            s = float(self.sigma)
            largest = max(abs(float(w.real)) for w in powers)
            frequency = max(abs(float(w.imag)) for w in powers)
            step = min(0.2 * s, 3.0 * s * s / (20 + 1.2 * frequency)) / (1 + largest / 200)
            reach = 17 * s
            count = int((largest + 2 * reach) / step) + 1
            total = [flint.acb(0) for _ in powers]
            for i in range(count + 1):
                x = flint.arb(-reach - (largest if float(powers[0].real) < 0 else 0)) + flint.arb(step) * i
                loss = (1 - q + q * ((x - flint.arb(1) / 2) / s2).exp()).log()
                weight = (-(x * x) / (2 * s2)).exp()
                for j, w in enumerate(powers):
                    total[j] += (w * loss).exp() * weight
            scale = flint.arb(step) / (2 * flint.arb.pi() * s2).sqrt()
            return [value * scale for value in total]


class _precision:
    def __init__(self, bits: int) -> None:
        self.bits = bits

    def __enter__(self) -> None:
        self.before, flint.ctx.prec = flint.ctx.prec, self.bits

    def __exit__(self, *_: object) -> None:
        flint.ctx.prec = self.before


def composed_sampled_delta(
    parts: Sequence[tuple[str, str, int]], epsilon: float, direction: str, *, c: float, window: float, nodes: int
) -> Any:
    """delta of Poisson-sampled Gaussians (rate, sigma, count), by the contour sum at 300 bits on the line Re z = c.

    Another c, a wider window and more nodes than the engine's: its aliases are below e^(-c window)."""
    with _precision(300):
        step = 2 * flint.arb.pi() / flint.arb(window)
        lines = [flint.acb(flint.arb(c), step * k) for k in range(nodes)]
        logs = [flint.acb(0) for _ in lines]
        for rate, sigma, count in parts:
            powers = [z + 1 if direction == "remove" else -z for z in lines]
            for k, value in enumerate(SampledTransform(rate, sigma)(powers)):
                logs[k] += value.log() * count
        total = flint.arb(0)
        for k, (z, log_m) in enumerate(zip(lines, logs, strict=True)):
            term = ((log_m - z * flint.arb(epsilon)).exp() / (z * (z + 1))).real
            total += term if k == 0 else 2 * term
        return total / flint.arb(window)


def ball(value: Any) -> float:
    """The middle of a ball, as a float."""
    return float(value.mid())


def all_counts(limit: int, kinds: int) -> list[tuple[int, ...]]:
    """Every tuple of `kinds` counts from 1 to `limit`."""
    return list(itertools.product(range(1, limit + 1), repeat=kinds))


# ---- what a sound interval looks like -------------------------------------------------------------------------------


FARTHEST = 1e5
"""An epsilon beyond every loss in the tests: what is left of delta there is the mass at infinity."""


def holds_epsilon(lower: float, upper: float, profile: Any, delta: Real) -> bool:
    """Whether the least epsilon >= 0 with profile(eps) <= delta lies in [lower, upper]."""
    below_ok = lower <= 0 or profile(mp.mpf(min(lower, FARTHEST))) >= delta
    above_ok = upper == float("inf") or profile(mp.mpf(upper)) <= delta
    return bool(below_ok and above_ok and lower <= upper)


def holds_delta(lower: float, upper: float, exact: Real) -> bool:
    """Whether an exact delta lies in [lower, upper]."""
    return bool(mp.mpf(lower) <= exact <= mp.mpf(upper))


class _Balls:
    """Between mpmath numbers and balls."""

    def __call__(self, value: Any) -> Any:
        return mp.mpc(_decimal(value.real), _decimal(value.imag))

    def to_ball(self, value: Any) -> Any:
        z = mp.mpc(value)
        with _precision(300):
            return flint.acb(flint.arb(mp.nstr(z.real, DIGITS)), flint.arb(mp.nstr(z.imag, DIGITS)))


def _decimal(value: Any) -> Real:
    return mp.mpf(value.mid().str(DIGITS, radius=False))


flint_number = _Balls()
"""Read a ball as an mpmath number."""
