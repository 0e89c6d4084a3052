"""Oracles for sampled, shuffled and allocated mechanisms that share no code with the engine: every dataset, every coin
and every output listed, with exact fractions; and integrals at 30 digits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from engine_oracles import mp

Masses = dict[Any, Fraction]
Randomiser = Sequence[Masses]
"""For each input, the law of the output."""


def hockey_stick(left: Masses, right: Masses, ratio: Fraction) -> Fraction:
    """sup_S left(S) - ratio right(S)."""
    outcomes = left.keys() | right.keys()
    zero = Fraction(0)
    return sum((max(zero, left.get(o, zero) - ratio * right.get(o, zero)) for o in outcomes), zero)


def listed(left: Sequence[Fraction], right: Sequence[Fraction]) -> tuple[Masses, Masses]:
    """A pair as two laws of the index."""
    return dict(enumerate(left)), dict(enumerate(right))


def mixture(parts: Sequence[tuple[Fraction, Masses]]) -> Masses:
    """The law of a part chosen with these weights."""
    mixed: Masses = {}
    for weight, law in parts:
        for outcome, mass in law.items():
            mixed[outcome] = mixed.get(outcome, Fraction(0)) + weight * mass
    return mixed


def product(laws: Sequence[Masses]) -> Masses:
    """Independent outcomes, as a tuple."""
    joint: Masses = {(): Fraction(1)}
    for law in laws:
        joint = {(*seen, o): p * q for seen, p in joint.items() for o, q in law.items()}
    return joint


def randomised_response(odds: Fraction, k: int) -> Randomiser:
    """Answers among k values; the true one is `odds` times as likely as any other."""
    whole = odds + k - 1
    return [{y: (odds if y == x else Fraction(1)) / whole for y in range(k)} for x in range(k)]


def subset_sampled(of: Callable[[tuple[int, ...]], Masses], data: Sequence[int], batch: int) -> Masses:
    """What `of` shows of a uniformly random set of `batch` of the data."""
    batches = list(itertools.combinations(range(len(data)), batch))
    weight = Fraction(1, len(batches))
    return mixture([(weight, of(tuple(data[i] for i in chosen))) for chosen in batches])


def shuffled(randomiser: Randomiser, data: Sequence[int]) -> Masses:
    """The law of the multiset of outputs, one randomiser a user."""
    law: Masses = {(): Fraction(1)}
    for value in data:
        step: Masses = {}
        for seen, p in law.items():
            for output, q in randomiser[value].items():
                key = tuple(sorted((*seen, output)))
                step[key] = step.get(key, Fraction(0)) + p * q
        law = step
    return law


def allocated(with_unit: Masses, without: Masses, steps: int) -> Masses:
    """Outputs of all steps; the unit is in one of them."""
    places = [product([with_unit if i == j else without for i in range(steps)]) for j in range(steps)]
    return mixture([(Fraction(1, steps), place) for place in places])


def gaussian_allocation_delta(sigma: Any, epsilon: Any, direction: str) -> Any:
    """1 out of 2 steps with Gaussian noise: the second coordinate in closed form, the first by quadrature.

    remove: the mean under Q of ((Y1 + Y2)/2 - e^eps)_+, Y_i = e^{(x_i - 1/2)/sigma^2}; add:
    of (1 - e^eps (Y1 + Y2)/2)_+.
    """
    grown = mp.exp(epsilon)

    def call(strike: Any) -> Any:
        """E(Y - strike)_+."""
        if strike <= 0:
            return 1 - strike
        x = sigma**2 * mp.log(strike) + mp.mpf(1) / 2
        return mp.ncdf((1 - x) / sigma) - strike * mp.ncdf(-x / sigma)

    def put(strike: Any) -> Any:
        """E(strike - Y)_+."""
        if strike <= 0:
            return mp.mpf(0)
        x = sigma**2 * mp.log(strike) + mp.mpf(1) / 2
        return strike * mp.ncdf(x / sigma) - mp.ncdf((x - 1) / sigma)

    def inner(x: Any) -> Any:
        y = mp.exp((x - mp.mpf(1) / 2) / sigma**2)
        value = call(2 * grown - y) / 2 if direction == "remove" else grown / 2 * put(2 / grown - y)
        return value * mp.npdf(x, 0, sigma)

    kink = 2 * grown if direction == "remove" else 2 / grown
    at = sigma**2 * mp.log(kink) + mp.mpf(1) / 2
    cuts = sorted({-12 * sigma, -4 * sigma, mp.mpf(0), 4 * sigma, 1 + 12 * sigma, 1 + 20 * sigma, at})
    return mp.quad(inner, [cut for cut in cuts if -12 * sigma <= cut <= 1 + 20 * sigma])


def multisets(size: int, values: int) -> list[tuple[int, ...]]:
    """Every multiset of `size` out of range(values)."""
    return list(itertools.combinations_with_replacement(range(values), size))


def lognormal_mean_moment(sigma: float, steps: int, order: int) -> float:
    """E_Q[W^order] of the average W of `steps` ratios with E Y^k = e^{k(k-1)/(2 sigma^2)}: order 2 and 3, by hand."""
    second, third = math.exp(1 / sigma**2), math.exp(3 / sigma**2)
    if order == 2:
        return 1 + (second - 1) / steps
    return (steps * third + 3 * steps * (steps - 1) * second + steps * (steps - 1) * (steps - 2)) / steps**3
