"""Bets: whatever their parameters are, their mean is at most the cost for every pair that keeps the claim, and the
parameters that are found grow as fast as the information limit allows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import laplace, norm

from dpledger.audit.evidence.edges import Claim, Edges, Regions, StrataClaim, pure_or_approx
from dpledger.audit.evidence.projection import project, weights
from dpledger.errors import ParameterError
from edges_oracle import gaussian_profile, largest_mean_by_edges
from strata_oracle import largest_mean

Rng = np.random.Generator
SOLVED = 2e-6  # what the linear programmes may be off


def any_edges(rng: Rng) -> Edges:
    """A claim, sometimes pure, sometimes one of many points."""
    points = [(rng.uniform(0, 3), rng.choice([0.0, 10 ** rng.uniform(-6, -0.5)])) for _ in range(rng.integers(1, 4))]
    return Edges.of_points(points)


def any_strata(rng: Rng) -> StrataClaim:
    epsilons = np.sort(rng.uniform(0.05, 3, rng.integers(1, 4)))
    return StrataClaim((*epsilons.tolist(), math.inf), float(rng.choice([0.0, 10 ** rng.uniform(-5, -1)])))


def largest(a: np.ndarray, b: np.ndarray, claim: Claim, strata: np.ndarray) -> float:
    if isinstance(claim, Edges):
        return largest_mean_by_edges(a, b, claim.slopes, claim.costs)
    return largest_mean(a, b, np.array(claim.epsilons)[strata], claim.delta)


@pytest.mark.sliced
@pytest.mark.parametrize("kind", [any_edges, any_strata])
def test_no_pair_that_keeps_a_claim_has_a_larger_mean_than_the_cost(kind: object) -> None:
    """1,000 random claims, cells and parameters, half of them far from the best, some with unequal numbers."""
    rng = np.random.default_rng(1)
    for trial in range(500):
        claim = any_edges(rng) if kind is any_edges else any_strata(rng)
        size = int(rng.integers(2, 7))
        strata = rng.integers(0, len(claim.epsilons), size) if isinstance(claim, StrataClaim) else np.zeros(size, int)
        of_cells = strata[None] if isinstance(claim, StrataClaim) else None
        p, q = (rng.dirichlet(np.full(size, 0.5))[None] + 1e-12 for _ in range(2))
        regions = Regions.of([claim])
        if trial % 2:
            theta = rng.gamma(0.3, size=(1, regions.a.shape[3])) + 1e-14
            left, right = weights(regions, theta, p, q, of_cells)
            shares = (1.0, 1.0)
        else:
            n, m = ((1, 1), (2, 1), (1, 10))[trial // 2 % 3]
            shares = (2 * n / (n + m), 2 * m / (n + m))
            bets = project(regions, p, q, runs=1_000, strata=of_cells, shares=shares)
            left, right = bets.left, bets.right
        mean = largest(shares[0] * np.exp(left[0]), shares[1] * np.exp(right[0]), claim, strata)
        assert mean <= 2 + SOLVED, (claim, p, q)


def test_a_claim_that_is_too_small_is_seen_by_the_oracle() -> None:
    """The oracle can fail: bets on epsilon 0.9 have a larger mean over pairs that keep 1."""
    p, q = np.array([[0.73, 0.27]]), np.array([[0.27, 0.73]])
    bets = project(Regions.of([pure_or_approx(0.8, 0.0)]), p, q, runs=1_000)
    slopes, costs = pure_or_approx(1.0, 0.0).slopes, pure_or_approx(1.0, 0.0).costs
    assert largest_mean_by_edges(np.exp(bets.left[0]), np.exp(bets.right[0]), slopes, costs) > 2.01


def cells(left: Any, right: Any, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Masses of the cells between edges: float64[1, cells] each, none 0."""
    sides = (np.diff(np.concatenate([[0.0], law.cdf(edges), [1.0]])) for law in (left, right))
    p, q = (np.maximum(side, 1e-25)[None] for side in sides)
    return p, q


MU = 0.26805  # of the Gaussian with (1, 1e-5), to five digits


@pytest.mark.parametrize(
    ("claim", "left", "right", "pairs"),
    [
        (pure_or_approx(1, 0), laplace(1, 0.5), laplace(0, 0.5), 34),
        (pure_or_approx(1 / 1.1, 0), laplace(1), laplace(0), 2_619),
        (pure_or_approx(1, 1e-5), norm(2 * MU), norm(0), 2_984),
        (gaussian_profile(1.0), norm(1.1), norm(0), 1_420),
    ],
)  # fmt: skip
def test_the_limits_of_the_specification(claim: Edges, left: object, right: object, pairs: int) -> None:
    p, q = cells(left, right, np.linspace(-9, 10, 4_001))
    growth = project(Regions.of([claim]), p, q, runs=10**6).growth[0]
    assert math.log(20) / growth == pytest.approx(pairs, rel=0.02)


def test_together_are_one_test() -> None:
    """Ten strata that each break their claim by as much add up."""
    claim = StrataClaim((*np.linspace(0.1, 1.0, 10), math.inf), 0.0)
    each = np.repeat(1 / 10, 10)
    odds = np.exp(np.array(claim.epsilons[:-1]) * 1.5)
    p = np.concatenate([each * odds / (1 + odds), each / (1 + odds), [1e-9]])[None]
    q = np.concatenate([each / (1 + odds), each * odds / (1 + odds), [1e-9]])[None]
    strata = np.array([*range(10), *range(10), 10])[None]
    whole = project(Regions.of([claim]), p, q, runs=10**5, strata=strata).growth[0]
    alone = 0.0
    for one in range(10):
        kept = StrataClaim((claim.epsilons[one], math.inf), 0.0)
        alone = max(
            alone, project(Regions.of([kept]), p, q, runs=10**5, strata=np.where(strata == one, 0, 1)).growth[0]
        )
    assert whole > 2 * alone > 0


def test_who_keeps_the_claim_is_not_bet_against() -> None:
    p, q = np.array([[0.6, 0.4]]), np.array([[0.4, 0.6]])
    bets = project(Regions.of([pure_or_approx(1, 0)]), p, q, runs=1_000)
    assert bets.growth[0] == 0
    assert not bets.left.any()
    assert not bets.right.any()


@pytest.mark.parametrize("slopes", [(), (1.0, 1.0), (2.0, 1.0), (0.0,), (math.inf,)])
def test_edges_that_are_none_are_refused(slopes: tuple[float, ...]) -> None:
    with pytest.raises(ParameterError):
        Edges(slopes, (1.0,) * len(slopes))
