"""The law of the best of K draws by counting, from nothing but the weights of K: no generating function.

A mechanism has outputs 0 < 1 < 2 < ..., the last of them the best. P(the best of k is y) comes from that of k - 1, draw
by draw. The last mass of a law is that of no output.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

__all__ = ["best_of", "enumerated", "hockey_stick", "negative_binomial", "pairs_within", "poisson", "renyi"]

Law = tuple[float, ...]


def negative_binomial(eta: float, gamma: float, most: int) -> Law:
    """P(K = k), k = 0 to `most`, of K given that it is at most `most`: weights (1 - gamma)^k Gamma(k + eta)/k!."""
    weights = [0.0, 1.0]
    for k in range(2, most + 1):
        weights.append(weights[-1] * (1 - gamma) * (k - 1 + eta) / k)
    whole = math.fsum(weights)
    return tuple(weight / whole for weight in weights)


def poisson(mean: float, most: int) -> Law:
    """P(K = k), k = 0 to `most`; what is missing publishes nothing."""
    weights = [math.exp(-mean)]
    for k in range(1, most + 1):
        weights.append(weights[-1] * mean / k)
    return tuple(weights)


def best_of(law: Sequence[float], trials: Law) -> Law:
    """The law of the best of K draws of `law`, and then the mass of nothing."""
    best = [0.0] * len(law)
    found = list(law)  # of one draw
    up_to = [math.fsum(law[: y + 1]) for y in range(len(law))]
    for weight in trials[1:]:
        best = [have + weight * now for have, now in zip(best, found, strict=True)]
        below = [math.fsum(found[:y]) for y in range(len(law))]
        found = [found[y] * up_to[y] + law[y] * below[y] for y in range(len(law))]  # no better, or it is
    return (*best, max(0.0, 1 - math.fsum(trials[1:])))


def enumerated(law: Sequence[float], trials: Law) -> Law:
    """`best_of` by every sequence of outputs: for few trials."""
    best = [0.0] * len(law)
    for k, weight in enumerate(trials[1:], start=1):
        for drawn in itertools.product(range(len(law)), repeat=k):
            best[max(drawn)] += weight * math.prod(law[output] for output in drawn)
    return (*best, max(0.0, 1 - math.fsum(trials[1:])))


def renyi(left: Law, right: Law, order: float) -> float:
    """D_order(left || right)."""
    terms = (x * (x / y) ** (order - 1) for x, y in zip(left, right, strict=True) if x)
    return math.log(math.fsum(terms)) / (order - 1)


def hockey_stick(left: Law, right: Law, epsilon: float) -> float:
    """The delta of the pair at `epsilon`."""
    factor = math.exp(epsilon)
    return math.fsum(max(0.0, x - factor * y) for x, y in zip(left, right, strict=True))


def pairs_within(ratio: Fraction, steps: int, outputs: int = 3) -> list[tuple[Law, Law]]:
    """All pairs of laws on a grid of `steps` whose masses are within `ratio` of each other, both ways."""
    laws = [parts for parts in itertools.product(range(1, steps), repeat=outputs) if sum(parts) == steps]
    return [
        (tuple(x / steps for x in one), tuple(y / steps for y in other))
        for one in laws
        for other in laws
        if one != other and all(x <= ratio * y and y <= ratio * x for x, y in zip(one, other, strict=True))
    ]
