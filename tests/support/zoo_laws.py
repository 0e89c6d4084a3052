"""Losses of a pair from its laws: by enumeration, by shifts, on a line, and of Gaussians.

Shares no code with the zoo."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from audit_oracles import gaussian_epsilon
from dpledger.audit.zoo import Case

__all__ = [
    "LINE",
    "Oracle",
    "finite",
    "gaussian",
    "laplace",
    "laplace_above",
    "laplace_cells",
    "loss_of",
    "on_a_line",
    "shifted",
]

Floats: TypeAlias = npt.NDArray[np.float64]
Oracle: TypeAlias = Callable[[Case], float]
Law: TypeAlias = Mapping[Any, float]

LINE: Floats = np.linspace(-40, 60, 10_001)
"""Points in hundredths: ratios of Laplace densities are greatest on stretches, which hold some of them."""


def loss_of(left: Law, right: Law, delta: float = 0.0) -> float:
    """The epsilon of two laws on the same outcomes at a delta, the worse direction; infinite where none is enough."""
    keys = [*left.keys(), *(right.keys() - left.keys())]
    p, q = (np.array([law.get(key, 0.0) for key in keys]) for law in (left, right))
    return max(_one_way(p, q, delta), _one_way(q, p, delta))


def _one_way(p: Floats, q: Floats, delta: float) -> float:
    possible = q > 0
    if float(p[~possible].sum()) > delta:
        return math.inf
    if not delta:
        seen = p > 0
        return max(0.0, float(np.log(p[seen] / q[seen]).max()))

    def excess(epsilon: float) -> float:
        return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum()) - delta

    return 0.0 if excess(0.0) <= 0 else float(brentq(excess, 0.0, 60.0, xtol=1e-13))


def delta_of(shown: Case) -> float:
    """The delta that is claimed."""
    return float(getattr(shown.claim, "delta", None) or 0)


def finite(law: Callable[[Any, Any], Law]) -> Oracle:
    """By enumeration: `law` has the probability of each outcome of a mechanism on its data."""
    return lambda shown: loss_of(law(shown.mechanism, shown.left), law(shown.mechanism, shown.right), delta_of(shown))


def shifted(law: Callable[[Any, Any], tuple[Hashable, list[tuple[float, Any]]]]) -> Oracle:
    """In closed form: independent Laplace noise on some numbers. `law` has what is told beside them without noise, and
    the centre and scale of each. What is told, or a scale, that differs tells everything."""

    def loss(shown: Case) -> float:
        (told, left), (same, right) = (law(shown.mechanism, side) for side in (shown.left, shown.right))
        if told != same or [scale for _, scale in left] != [scale for _, scale in right]:
            return math.inf
        return sum(abs(a - b) / float(scale) for (a, scale), (b, _) in zip(left, right, strict=True))

    return loss


def on_a_line(law: Callable[[Any, Any], tuple[Mapping[Hashable, float], Floats]]) -> Oracle:
    """From densities: `law` has the probability of each single outcome and the density at each point of `LINE`, or
    several such rows. For pure claims."""

    def loss(shown: Case) -> float:
        laws = []
        for side in (shown.left, shown.right):
            atoms, density = law(shown.mechanism, side)
            outcomes: dict[Hashable, float] = dict(atoms)
            outcomes.update((("at", place), value) for place, value in enumerate(density.ravel().tolist()))
            laws.append(outcomes)
        return loss_of(laws[0], laws[1])

    return loss


def gaussian(precision: Callable[[Any], float]) -> Oracle:
    """Gaussian noise on the distance of two numbers, of this precision. Balle-Wang 2018."""

    def loss(shown: Case) -> float:
        left, right = (len(side) if isinstance(side, tuple) else side for side in (shown.left, shown.right))
        delta = delta_of(shown)
        mu = abs(left - right) * math.sqrt(precision(shown.mechanism))  # type: ignore[operator]
        return gaussian_epsilon(mu, delta) if delta else math.inf

    return loss


def laplace(points: Floats, scale: float = 1.0) -> Floats:
    """The density of Laplace noise."""
    found: Floats = np.exp(-np.abs(points) / scale) / (2 * scale)
    return found


def laplace_above(low: float, scale: float = 1.0) -> float:
    """How probable Laplace noise above `low` is."""
    return math.exp(-low / scale) / 2 if low >= 0 else 1 - math.exp(low / scale) / 2


def laplace_cells(centre: float, width: float, reach: int, scale: float = 1.0) -> dict[Hashable, float]:
    """How probable each whole multiple of `width` is, up to `reach` of them, as what a noisy number is rounded to."""
    edges = ((np.arange(-reach, reach + 2) - 0.5) * width - centre) / scale
    tails = np.exp(-np.abs(edges)) / 2  # beyond the edge, on the side of the edge
    low, high = edges[:-1], edges[1:]
    split = (low < 0) & (high > 0)
    masses = np.where(split, 1 - tails[:-1] - tails[1:], np.abs(np.diff(tails)))
    return dict(zip(range(-reach, reach + 1), masses.tolist(), strict=True))
