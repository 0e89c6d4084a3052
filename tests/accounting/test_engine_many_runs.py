"""Very many runs of closed-form mechanisms: narrow, and where the central limit says."""

from __future__ import annotations

import math
from statistics import NormalDist

import pytest

from dpledger.accounting.composition import Composition, LaplaceLaw, RandomizedResponseLaw, Repeated
from dpledger.accounting.profile import compose


def central(mean: float, variance: float, runs: int, delta: float) -> float:
    """Where a normal loss of this mean and variance a run has about that delta: within a deviation or so."""
    return runs * mean - NormalDist().inv_cdf(delta) * math.sqrt(runs * variance)


def moments(leaf: Composition) -> tuple[float, float]:
    e0 = 0.1
    if isinstance(leaf, LaplaceLaw):  # the two atoms, and (e0 - 2x)^2 against the density of x between
        between = math.fsum(
            (e0 - 2 * x) ** 2 * math.exp(-x) / 2 * e0 / 1000 for x in (e0 * (i + 0.5) / 1000 for i in range(1000))
        )
        mean = e0 + math.expm1(-e0)
        return mean, e0**2 * (1 + math.exp(-e0)) / 2 + between - mean**2
    return e0 * math.tanh(e0 / 2), e0**2 * (1 - math.tanh(e0 / 2) ** 2)


@pytest.mark.parametrize("runs", [10**4, 10**6, 10**8])
@pytest.mark.parametrize("leaf", [LaplaceLaw("0.1"), RandomizedResponseLaw("0.1")], ids=["laplace", "response"])
def test_very_many_runs_are_narrow(leaf: Composition, runs: int) -> None:
    found = compose(Repeated(leaf, times=runs)).epsilon("1e-6")
    assert found.upper - found.lower <= 3e-4 * found.upper
    mean, variance = moments(leaf)
    assert abs(found.upper - central(mean, variance, runs, 1e-6)) <= 1.5 * math.sqrt(runs * variance)
