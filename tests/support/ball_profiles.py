"""Exact privacy profiles in ball arithmetic, quick enough for a hundred thousand questions.

A profile is a function from an epsilon to delta, both balls, for a pair in one direction. None of them shares code, a
quadrature or a contour with the engine: they are sums of normal tails, counts of outcomes, residues.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import flint

Ball = Any  # flint.arb
Profile = Callable[[Ball], Ball]
Pair = Sequence[tuple[Ball, Ball]]  # outcomes: (P mass, Q mass)

BITS = 240


class precision:
    """Balls of so many bits, inside a `with` block."""

    def __init__(self, bits: int = BITS) -> None:
        self.bits = bits

    def __enter__(self) -> None:
        self.before, flint.ctx.prec = flint.ctx.prec, self.bits

    def __exit__(self, *_: object) -> None:
        flint.ctx.prec = self.before


def ball(value: object) -> Ball:
    """What a float or an integer says exactly, what a decimal's text says to all bits."""
    return flint.arb(value) if isinstance(value, int | float) else flint.arb(str(value))


# ---- one mechanism --------------------------------------------------------------------------------------------------


def _below(x: Ball) -> Ball:
    """The standard normal mass below x."""
    return (-x / flint.arb(2).sqrt()).erfc() / 2


def gaussian(mu: Ball) -> Profile:
    """Balle and Wang 2018, Theorem 8."""
    return lambda at: _below(mu / 2 - at / mu) - at.exp() * _below(-mu / 2 - at / mu)


def bounded_range(eta: Ball) -> Profile:
    """The integral of the envelope's density against (1 - e^(eps - l))_+."""

    def delta(at: Ball) -> Ball:
        if at >= eta:
            return flint.arb(0)
        if at <= -eta:
            return -at.expm1()
        return (1 - ((at - eta) / 2).exp()) ** 2 / -(-eta).expm1()

    return delta


def sampled_gaussian(rate: Ball, sigma: Ball, direction: str) -> Profile:
    """P(L > eps) - e^eps Q(L > eps), from normal tails at the point where L = eps."""

    def crossing(gap: Ball) -> Ball:
        return sigma**2 * (gap / rate).log() + flint.arb(1) / 2

    def remove(at: Ball) -> Ball:
        gap = at.expm1() + rate
        if gap <= 0:
            return -at.expm1()
        x = crossing(gap)
        return rate * _below((1 - x) / sigma) - gap * _below(-x / sigma)

    def add(at: Ball) -> Ball:
        gap = (-at).expm1() + rate
        if gap <= 0:
            return flint.arb(0)
        x = crossing(gap)
        return at.exp() * (gap * _below(x / sigma) - rate * _below((x - 1) / sigma))

    return remove if direction == "remove" else add


# ---- Laplace, any number of times -----------------------------------------------------------------------------------


def laplace(e0: Ball, count: int) -> Profile:
    """`count` Laplace mechanisms, by residues.

    delta is the sum over j <= count of C(count, j) e^(-j e0) times (1/2 pi i) int g_j(z) e^(z a) dz, with
    g_j(z) = z^(j-1) (1+z)^(count-j-1) / (2z+1)^count and a = (count - 2j) e0 - eps. Where a <= 0 the line moves off to
    the right and nothing is left; where a > 0 it moves to the left, past a pole of order `count` at -1/2, one at 0 for
    j = 0, and one at -1 for j = count.
    """
    weights = [(ball(-j) * e0).exp() * math.comb(count, j) for j in range(count + 1)]

    def delta(at: Ball) -> Ball:
        total = flint.arb(0)
        for j, weight in enumerate(weights):
            a = (count - 2 * j) * e0 - at
            if a > 0:
                total += weight * _residues(count, j, a)
        return total

    return delta


def _residues(count: int, j: int, a: Ball) -> Ball:
    power, total = flint.arb(1), flint.arb(0)
    for coefficient in reversed(_series(count, j)):
        total += coefficient * power
        power *= a
    total *= (-a / 2).exp()
    if j == 0:
        total += 1
    if j == count:
        total -= (-a).exp()
    return total


@functools.cache
def _series(count: int, j: int) -> tuple[Any, ...]:
    """At k: the coefficient of u^k in z^(j-1) (1+z)^(count-j-1) / 2^count, z = u - 1/2, over (count - 1 - k)!."""
    half = flint.fmpq(1, 2)
    first = flint.fmpq_poly([-half, 1]) ** (j - 1) if j else flint.fmpq_poly([-(2 ** (k + 1)) for k in range(count)])
    behind = count - j - 1
    second = (
        flint.fmpq_poly([half, 1]) ** behind if behind >= 0 else flint.fmpq_poly([2 * (-2) ** k for k in range(count)])
    )
    product = first * second / flint.fmpq(2) ** count
    return tuple(flint.arb(product[k] / math.factorial(count - 1 - k)) for k in range(count))


# ---- finitely many outcomes -----------------------------------------------------------------------------------------


def approximate_pair(e0: Ball, delta0: Ball) -> Pair:
    """The worst case of (e0, delta0)-DP: Kairouz, Oh and Viswanath 2015, Theorem 3.3."""
    likely, unlikely = (1 - delta0) / (1 + (-e0).exp()), (1 - delta0) / (1 + e0.exp())
    both = [(likely, unlikely), (unlikely, likely)]
    return both if delta0 == 0 else [*both, (delta0, flint.arb(0)), (flint.arb(0), delta0)]


def sampled_pair(pair: Pair, rate: Ball) -> Pair:
    """((1-q) Q + q P, Q)."""
    return [((1 - rate) * q + rate * p, q) for p, q in pair]


def turned(pair: Pair) -> Pair:
    return [(q, p) for p, q in pair]


class Counted:
    """The product of pairs, each `count` times, outcome by outcome (equal ones together), as a profile."""

    def __init__(self, parts: Sequence[tuple[Pair, int]]) -> None:
        outcomes = [(flint.arb(1), flint.arb(1))]
        for pair, count in parts:
            powers = list(_powers(pair, count))
            outcomes = [(a * p, b * q) for a, b in outcomes for p, q in powers]
        self.infinite = sum((p for p, q in outcomes if q == 0), flint.arb(0))
        finite = sorted(((_log_ratio(p, q), p, q) for p, q in outcomes if q > 0 and p > 0), key=lambda o: -o[0])
        self.losses = [-loss for loss, _, _ in finite]
        self.outcomes = [(p, q) for _, p, q in finite]
        self.above = list(itertools.accumulate((p for p, _ in self.outcomes), initial=flint.arb(0)))
        self.beside = list(itertools.accumulate((q for _, q in self.outcomes), initial=flint.arb(0)))

    def __call__(self, at: Ball) -> Ball:
        """sum of (p - e^eps q)_+ : those clearly above eps at once, those near it one by one."""
        grown, middle = at.exp(), float(at)
        surely = bisect.bisect_left(self.losses, -(middle + 1e-9 * (1 + abs(middle))))
        perhaps = bisect.bisect_right(self.losses, -(middle - 1e-9 * (1 + abs(middle))))
        total = self.infinite + self.above[surely] - grown * self.beside[surely]
        for p, q in self.outcomes[surely:perhaps]:
            total += _positive(p - grown * q)
        return total


def _powers(pair: Pair, count: int) -> Iterator[tuple[Ball, Ball]]:
    """The outcomes of `count` runs of a pair that differ by more than order, each with its multiplicity."""
    if len(pair) == 1:
        p, q = pair[0]
        yield p**count, q**count
        return
    (p, q), rest = pair[0], pair[1:]
    for times in range(count + 1):
        ways = math.comb(count, times)
        a, b = ways * p**times, q**times * ways
        for c, d in _powers(rest, count - times):
            yield a * c, b * d


def _log_ratio(p: Ball, q: Ball) -> float:
    return float((p / q).log())


def _positive(value: Ball) -> Ball:
    if value > 0:
        return value
    return flint.arb(0) if value < 0 else value.max(flint.arb(0))


class Responses(Counted):
    """`count` randomised responses of `e0`: the binomial law, term by term."""

    def __init__(self, e0: Ball, count: int) -> None:
        p = 1 / (1 + (-e0).exp())
        odds, mass = (-e0).exp(), p**count
        self.infinite, self.losses, self.outcomes = flint.arb(0), [], []
        for tails in range(count + 1):
            loss = (count - 2 * tails) * e0
            self.losses.append(-float(loss))
            self.outcomes.append((mass, mass * (-loss).exp()))
            mass = mass * odds * (count - tails) / (tails + 1)
        self.above = list(itertools.accumulate((p for p, _ in self.outcomes), initial=flint.arb(0)))
        self.beside = list(itertools.accumulate((q for _, q in self.outcomes), initial=flint.arb(0)))

    def atoms(self, e0: Ball) -> list[tuple[Ball, Ball]]:
        """(loss, mass)."""
        count = len(self.outcomes) - 1
        return [((count - 2 * tails) * e0, p) for tails, (p, _) in enumerate(self.outcomes)]


# ---- together -------------------------------------------------------------------------------------------------------


def with_responses(smooth: Profile, e0: Ball, count: int) -> Profile:
    """A profile composed with `count` randomised responses: E smooth(eps - L)."""
    atoms = Responses(e0, count).atoms(e0)
    return lambda at: sum((mass * smooth(at - loss) for loss, mass in atoms), flint.arb(0))


def with_failures(finite: Profile, delta0: Ball, count: int) -> Profile:
    """A profile composed with `count` failures of probability delta0."""
    kept = (1 - delta0) ** count
    return lambda at: 1 - kept + kept * finite(at)


def larger(profiles: Sequence[Profile]) -> Profile:
    """The pointwise maximum: both directions."""

    def delta(at: Ball) -> Ball:
        first, *others = [profile(at) for profile in profiles]
        for other in others:
            first = first.max(other)
        return first

    return delta if len(profiles) > 1 else profiles[0]
