"""What a claim allows: edges, and the weights that may be bet on cells of outcomes.

A claim about P (left) and Q (right) is a list of edges (s_j, c_j), s rising: P(S) + s_j Q(not S) <= c_j for every event
S. An ex-post claim bounds the ratio in each stratum by a number of its own, and all breaches together by delta. Either
way the weights (a, b) of a cell that may be bet are a polygon whose vertices are sums theta >= 0 of fixed columns, and

    E_P a + E_Q b <= cost . theta        for every theta and every pair (P, Q) that keeps the claim.

Statement and proof: docs/proofs/audit.md 5.

>>> pure_or_approx(1.0, 0.0).slopes
(0.36787944117144233, 2.718281828459045)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpledger.audit.outcomes.structure import Floats
from dpledger.errors import ParameterError

__all__ = ["Claim", "Edges", "Regions", "StrataClaim", "pure_or_approx"]

UP = 1 + 2.0**-50  # costs are rounded up by this: more pairs keep the claim that is tested


@dataclass(frozen=True, slots=True)
class Edges:
    """A claim: P(S) + slope Q(not S) <= cost for every event S and every edge; slopes rise."""

    slopes: tuple[float, ...]
    costs: tuple[float, ...]

    def __post_init__(self) -> None:
        good = len(self.slopes) == len(self.costs) > 0 and all(map(math.isfinite, (*self.slopes, *self.costs)))
        if not good or min(self.slopes) <= 0 or list(self.slopes) != sorted(set(self.slopes)):
            raise ParameterError("slopes", self.slopes, "rising finite numbers above 0, each with a finite cost")

    @property
    def is_curve(self) -> bool:
        """Whether it says more than one epsilon at one delta."""
        return len(self.slopes) > 2

    @classmethod
    def of_points(cls, points: Sequence[tuple[float, float]]) -> Edges:
        """Edges of statements (epsilon, delta): P(S) <= e^epsilon Q(S) + delta both ways; of several at one slope the
        one with the least cost is kept.

        Claim: who keeps every statement keeps every edge. Source: docs/proofs/audit.md 5."""
        found: dict[float, float] = {}
        for epsilon, delta in points:
            ratio = math.exp(epsilon)
            for slope, cost in ((1 / ratio, 1 + delta / ratio), (ratio, ratio + delta)):
                found[slope] = min(found.get(slope, math.inf), cost * UP)
        slopes = sorted(found)
        return cls(tuple(slopes), tuple(found[slope] for slope in slopes))


@dataclass(frozen=True, slots=True)
class StrataClaim:
    """An ex-post claim: stratum i has P(o) <= e^epsilons[i] Q(o) both ways, but for a mass of delta over all strata;
    infinite where nothing is claimed."""

    epsilons: tuple[float, ...]
    delta: float

    @property
    def is_curve(self) -> bool:
        """It says nothing of a curve."""
        return False


Claim = Edges | StrataClaim


def pure_or_approx(epsilon: float, delta: float) -> Edges:
    """The claim of (epsilon, delta)-DP."""
    return Edges.of_points([(epsilon, delta)])


@dataclass(frozen=True, slots=True, eq=False)
class Regions:
    """Polygons of weights of several claims: columns `a`, `b` of the vertices float64[claims, strata, vertices, d], in
    units of cost 1 each; `slopes` float64[claims, strata, vertices - 1] of the sides between them."""

    a: Floats
    b: Floats
    slopes: Floats

    @classmethod
    def of(cls, claims: Sequence[Claim]) -> Regions:
        """The polygons of claims of one kind and, if edges, of one number of them."""
        made = [_of_edges(claim) if isinstance(claim, Edges) else _of_strata(claim) for claim in claims]
        a, b, slopes = (np.stack(parts) for parts in zip(*made, strict=True))
        kept = slice(2 if all(_pure(claim) for claim in claims) else 0, None)
        return cls(a[..., kept], b[..., kept], slopes)

    def __getitem__(self, chosen: npt.NDArray[np.int64]) -> Regions:
        return Regions(self.a[chosen], self.b[chosen], self.slopes[chosen])


def _of_edges(claim: Edges) -> tuple[Floats, Floats, Floats]:
    """theta = (A, B, k_1..k_J): vertex v has a = A + k_1 + .. + k_v, b = B + s_{v+1} k_{v+1} + .. + s_J k_J."""
    s, c = np.array(claim.slopes), np.array(claim.costs)
    count = s.size
    a, b = np.zeros((2, count + 1, count + 2))
    a[:, 0], b[:, 1] = 1, 1
    a[:, 2:] = np.tri(count + 1, count, -1)
    b[:, 2:] = (1 - a[:, 2:]) * s
    costs = np.concatenate([[1.0, 1.0], c])
    return (a / costs)[None], (b / costs)[None], s[None]


def _pure(claim: Claim) -> bool:
    """Whether edges do what A and B do for no more."""
    if isinstance(claim, StrataClaim):
        return False
    return min(claim.costs) <= UP and any(c <= s * UP * UP for s, c in zip(claim.slopes, claim.costs, strict=True))


def _of_strata(claim: StrataClaim) -> tuple[Floats, Floats, Floats]:
    """theta = (A, B, k, h): with l = A + G h, m = B + G k and G the largest ratio, the vertices of a stratum of ratio g
    are (l - g h, m + h), (l, m), (l + k, m - g k), and cost = l + m + delta (k + h)."""
    with np.errstate(over="ignore"):
        ratios = np.exp(np.array(claim.epsilons)) * UP
    bounded = np.isfinite(ratios)
    most = ratios[bounded].max() if bounded.any() else 1.0
    g = np.where(bounded, ratios, 1.0)
    one, room = np.ones_like(g), np.where(bounded, 1.0, 0.0)  # no room to move where nothing is claimed
    zero = np.zeros_like(g)
    low, m = np.stack([one, zero, zero, most * one], -1), np.stack([zero, one, most * one, zero], -1)
    h, k = np.stack([zero, zero, zero, room], -1), np.stack([zero, zero, room, zero], -1)
    a = np.stack([low - g[:, None] * h, low, low + k], 1)
    b = np.stack([m + h, m, m - g[:, None] * k], 1)
    costs = np.array([1.0, 1.0, most + claim.delta, most + claim.delta]) * UP
    return a / costs, b / costs, np.stack([1 / g, g], -1)
