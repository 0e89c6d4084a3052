"""Very many runs of closed-form mechanisms: narrow, and where the central limit says."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import flint
import numpy as np
import pytest
from hypothesis import given, strategies as st

from ball_contours import Complex, Cumulants, Laplace, Line, OnLine, Patience, nodes
from ball_profiles import Ball, ball, precision
from dpledger.accounting.composition import (
    Composition,
    DiscreteGaussianLaw,
    DiscreteLaplaceLaw,
    GaussianLaw,
    LaplaceLaw,
    RandomizedResponseLaw,
    Repeated,
    Sequence,
)
from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.engine.solve import finite_epsilon
from dpledger.accounting.families.bounded_range.loss import BoundedRangeLoss
from dpledger.accounting.families.laplace.loss import LaplaceLoss
from dpledger.accounting.guarantees import ApproxDP, PureDP
from dpledger.accounting.laws.finite import approximate_pair
from dpledger.accounting.laws.law import decay_of_bounded
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


LEAVES = {
    "laplace": LaplaceLaw("0.1"),
    "slight laplace": LaplaceLaw("0.000001"),
    "response": RandomizedResponseLaw("0.1"),
    "three responses": RandomizedResponseLaw("0.1", k=3),
    "slight promise": PureDP("0.000001"),
    "nearly a promise": ApproxDP("0.1", "1e-20"),
    "discrete gaussian": DiscreteGaussianLaw(sigma="100", sensitivity="1"),
    "discrete laplace": DiscreteLaplaceLaw(scale="30", sensitivity="3"),
}


@pytest.mark.parametrize("runs", [10**9, 10**12])
@pytest.mark.parametrize("leaf", LEAVES.values(), ids=LEAVES.keys())
def test_the_most_runs_are_narrow_with_and_without_a_gaussian(leaf: Composition, runs: int) -> None:
    alone = compose(Repeated(leaf, times=runs)).epsilon("1e-6")
    mixed = compose(Sequence((Repeated(leaf, times=runs), GaussianLaw(noise_multiplier="1")))).epsilon("1e-6")
    assert alone.upper - alone.lower <= 1e-4 * alone.upper
    assert mixed.upper - mixed.lower <= 1e-6 * mixed.upper
    assert alone.lower < mixed.upper


def test_many_distinct_responses_are_narrow() -> None:
    several = [Repeated(RandomizedResponseLaw(f"0.{k}"), times=10**11 * k) for k in range(1, 5)]
    found = compose(Sequence(tuple(several))).epsilon("1e-6")
    assert found.upper - found.lower <= 1e-4 * found.upper


@dataclass(frozen=True)
class Atoms:
    """Losses with masses, in balls."""

    atoms: tuple[tuple[Ball, Ball], ...]

    def cumulants(self, c: float) -> Cumulants:
        weights = [float(mass) * math.exp(c * float(loss)) for loss, mass in self.atoms]
        mean = math.fsum(w * float(x) for w, (x, _) in zip(weights, self.atoms, strict=True)) / sum(weights)
        spread = math.fsum(w * (float(x) - mean) ** 2 for w, (x, _) in zip(weights, self.atoms, strict=True))
        return float(self.log_moment(c)), mean, spread / sum(weights)

    def transform(self, c: float, step: float, limits: Patience) -> Iterator[Complex]:
        return (self._moment(z) for z in nodes(c, step, limits))

    def log_moment(self, c: float) -> Ball:
        return self._moment(flint.acb(ball(c))).real.log()

    def _moment(self, z: Complex) -> Complex:
        return sum((mass * (z * loss).exp() for loss, mass in self.atoms), flint.acb(0))


@dataclass(frozen=True)
class Range(Laplace):
    """The envelope of a bounded range; `epsilon`: eta."""

    def _moment(self, z: Complex) -> Complex:
        eta, half = ball(self.epsilon), z + flint.arb(0.5)
        turned = (half * eta).exp() - (-half * eta).exp()
        return turned * (-eta / 2).exp() / (2 * half * -(-eta).expm1())


def responses(e0: str) -> Atoms:
    loss = ball(e0)
    likely = 1 / (1 + (-loss).exp())
    return Atoms(((loss, likely), (-loss, 1 - likely)))


IN_BALLS = {
    "laplace": lambda e0: (LaplaceLoss(float(e0)), Laplace(e0)),
    "range": lambda e0: (BoundedRangeLoss(float(e0)), Range(e0)),
    "response": lambda e0: (approximate_pair(float(e0), 0.0).loss(), responses(e0)),
}


@pytest.mark.parametrize("runs", [10**7, 10**9, 10**12])
@pytest.mark.parametrize("epsilon", ["0.1", "0.000001", "0.0123"])
@pytest.mark.parametrize("law", IN_BALLS.values(), ids=IN_BALLS.keys())
def test_very_many_runs_agree_with_ball_arithmetic(law: Any, epsilon: str, runs: int) -> None:
    """A point of the profile, in balls and on another line, lies between the ends found for it."""
    with precision():
        loss, oracle = law(epsilon)
        line = Line([(oracle, runs)], 5 / (float(epsilon) * math.sqrt(runs)))
        at = line.saddle_epsilon([runs])
        log_delta = float(OnLine(line, [runs])(ball(at)).log())
    found = finite_epsilon(Composed(((loss, runs),)), log_delta * (1 + 1e-13), log_delta * (1 - 1e-13))
    assert found.lower <= at <= found.upper
    assert found.upper - found.lower <= 3e-4 * found.upper


@pytest.mark.parametrize("law", IN_BALLS.values(), ids=IN_BALLS.keys())
def test_each_run_errs_in_proportion_to_what_it_does(law: Any) -> None:
    """K and log phi for 10^12 runs, times those: within 1e-6 of ball arithmetic, and within what they state."""
    for epsilon, runs in (("0.1", 1e12), ("0.000001", 1e12), ("1.5", 1e10)):
        with precision():
            loss, oracle = law(epsilon)
        c = 5 / (float(epsilon) * math.sqrt(runs))
        step = float(np.float32(0.7 / (float(epsilon) * math.sqrt(runs))))
        tilted = loss.tilted(c)
        at, found = tilted.cumulants, tilted.nodes(step, 16, 1 << 20)
        decay = tilted.log_decay(step * np.arange(16.0), 1 / float(epsilon))
        with precision():
            exact = oracle.log_moment(c)
            assert abs(exact - ball(at.value)) <= ball(at.error)
            assert at.error * runs < 1e-6
            for k, moment in enumerate(itertools.islice(oracle.transform(c, step, Patience()), 16)):
                if k == 0:  # 1, exactly
                    continue
                turned = moment.log() - exact - flint.acb(0, ball(step) * k * ball(at.mean))
                lost = turned - flint.acb(found.log_phi[k].real, found.log_phi[k].imag)
                assert abs(lost.exp() - 1) <= ball(found.spread[k]).expm1()
                assert found.spread[k] * runs < 1e-6
                assert turned.real <= ball(decay[k]) + flint.arb(1e-30)
                assert float(turned.real) * runs <= 0.3 * float(decay[k]) * runs + 1


@given(
    st.lists(st.tuples(st.floats(-1, 1), st.floats(0.01, 1)), min_size=2, max_size=6),
    st.floats(0.01, 3),
    st.floats(0.02, 1.57),
    st.floats(0, 1),
)
def test_bounded_losses_decay_up_to_the_horizon(
    atoms: list[tuple[float, float]], reach: float, horizon: float, share: float
) -> None:
    """|phi(s)| for any s between t and the horizon, whatever the atoms."""
    losses = reach * np.array([x for x, _ in atoms])
    masses = np.array([p for _, p in atoms])
    masses /= masses.sum()
    variance = float(masses @ (losses - masses @ losses) ** 2)
    end = horizon / reach
    t = np.linspace(0, end, 9)
    bounds = decay_of_bounded(reach, variance, t, end)
    for start, bound in zip(t, bounds, strict=True):
        s = start + share * (end - start)
        assert math.log(abs(masses @ np.exp(1j * s * losses)) + 1e-300) <= bound + 1e-12
    assert not decay_of_bounded(reach, variance, t, 1.6 / reach).any()
