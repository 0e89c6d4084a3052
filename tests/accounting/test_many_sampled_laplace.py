"""Many distinct sampled Laplace losses as one bundle: within proven errors of exact transforms, and of one by one."""

import random
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting.composition import LaplaceLaw, PoissonSampled
from dpledger.accounting.engine import solve
from dpledger.accounting.engine.bundle import FEWEST_SAMPLED_LAPLACE, bundled
from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.engine.place import DECAY, Place
from dpledger.accounting.engine.sampled_laplace_bundle import BundledSampledLaplace
from dpledger.accounting.laws.gaussian import GaussianLoss
from dpledger.accounting.laws.law import Loss
from dpledger.accounting.laws.sampled_laplace import SampledLaplaceLoss
from dpledger.accounting.laws.subsampled import Direction
from dpledger.accounting.profile import compose
from engine_oracles import mp, real
from law_conformance import LawConformance

directions = pytest.mark.parametrize("direction", ["remove", "add"])


def laws(count: int, direction: Direction, seed: int, times: int = 20) -> tuple[tuple[SampledLaplaceLoss, int], ...]:
    rng = random.Random(seed)
    return tuple(
        (SampledLaplaceLoss(10 ** rng.uniform(-4, -0.2), 10 ** rng.uniform(-2, 0.8), direction), rng.randint(1, times))
        for _ in range(count)
    )


class Conformance(LawConformance):
    """Three laws, an integral over the density under Q for each."""

    numbers = (("0.1", "1", 2), ("0.3", "0.5", 1), ("0.02", "1.7", 3))
    tilts = (0.3, 2.5, 6.0)
    remove: bool

    @classmethod
    def transform(cls, z: Any) -> Any:
        w, product = z + 1 if cls.remove else -z, mp.mpf(1)
        for rate, epsilon, times in cls.numbers:
            q, e = real(rate), real(epsilon)

            def powered(x: Any, q: Any = q) -> Any:
                return mp.exp(w * mp.log(1 - q + q * mp.exp(x)))

            with mp.workdps(22):
                pieces = mp.linspace(-e, e, 3 + int(float(e) * abs(z.imag) / 6))
                between = mp.quad(lambda x, e=e, f=powered: mp.exp(-(e + x) / 2) / 4 * f(x), pieces)
            product *= (powered(-e) / 2 + mp.exp(-e) / 2 * powered(e) + between) ** times
        return product


def bundle_of(direction: Direction) -> BundledSampledLaplace:
    parts = tuple((SampledLaplaceLoss(float(q), float(e), direction), times) for q, e, times in Conformance.numbers)
    return BundledSampledLaplace(parts)


class TestRemove(Conformance):
    loss, remove = bundle_of("remove"), True


class TestAdd(Conformance):
    loss, remove = bundle_of("add"), False


@directions
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), tilt=st.floats(0.05, 40))
def test_the_transform_is_that_of_the_losses_one_by_one(direction: Direction, seed: int, tilt: float) -> None:
    parts = laws(8, direction, seed)
    bundle, single = BundledSampledLaplace(parts), Composed(parts)
    here, there = bundle.tilted(tilt).cumulants, single.tilted(tilt).cumulants
    assert abs(here.value - there.value) <= here.error + there.error
    assert here.error <= 20 * there.error + 1e-12
    assert here.mean == pytest.approx(there.mean, rel=1e-6, abs=1e-9)
    assert here.variance == pytest.approx(there.variance, rel=1e-6, abs=1e-9)
    above = bundle.log_moments(np.array([tilt]))
    assert there.value - there.error <= above[0] <= there.value + 4 * (here.error + there.error)
    assert bundle.largest >= single.largest * (1 - 1e-12)
    assert bundle.largest_down <= bundle.largest


@directions
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), tilt=st.floats(0.1, 15))
def test_the_nodes_are_those_of_the_losses_one_by_one(direction: Direction, seed: int, tilt: float) -> None:
    """Both are within their spread of the truth, so they are within both spreads of each other."""
    parts = laws(6, direction, seed)
    step, count = 0.125, 40
    bundle, single = BundledSampledLaplace(parts).tilted(tilt), Composed(parts).tilted(tilt)
    real_part, imaginary, spread = single.nodes(step, count)
    nodes = bundle.nodes(step, count, 1 << 24)
    moved = step * np.arange(count) * (bundle.cumulants.mean - single.cumulants.mean)  # the two centres differ a little
    apart = np.abs(np.exp(nodes.log_phi - (real_part + 1j * (imaginary - moved))) - 1)
    assert (apart <= np.expm1(nodes.spread + spread) * 1.01 + 1e-12 * np.abs(moved).max() + 1e-13).all()
    t = step * np.array([4, 16, 39])
    assert (bundle.log_decay(t) >= nodes.log_phi.real[[4, 16, 39]] - nodes.spread[[4, 16, 39]]).all()  # it is proven
    assert bundle.log_decay(t) == pytest.approx(single.log_decay(t), rel=0.1, abs=1e-9)  # and theirs, about


@directions
@pytest.mark.parametrize("seed", range(3))
def test_bounds_with_and_without_a_bundle_are_for_one_number(
    direction: Direction, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    composed = Composed((*laws(12, direction, seed, times=200), (GaussianLoss(0.05), 3)))
    assert len(bundled(composed).parts) == 2
    together = solve.finite_epsilon(composed, -14.0, -14.0)
    monkeypatch.setattr(solve, "bundled", lambda same: same)
    alone = solve.finite_epsilon(composed, -14.0, -14.0)
    assert max(together.lower, alone.lower) <= min(together.upper, alone.upper)
    assert together.relative_width() <= max(3e-4, 3 * alone.relative_width())


def test_few_losses_are_left_alone() -> None:
    few = Composed(laws(FEWEST_SAMPLED_LAPLACE - 1, "remove", 1))
    assert bundled(few) is few


@directions
def test_rows_of_a_place_are_those_of_the_losses_one_by_one(direction: Direction) -> None:
    losses: list[Loss] = [law for law, _ in laws(6, direction, 3)]
    place = Place.near(3.3, 0.1, 48, 0.0)
    together, alone = place.node_rows(losses), np.concatenate([place.node_rows([loss]) for loss in losses])
    n = place.count
    apart = np.abs(together[:, :n] - alone[:, :n])  # of log |phi|
    assert (apart <= 1.01 * np.expm1(together[:, 2 * n : 3 * n] + alone[:, 2 * n : 3 * n]) + 1e-12).all()
    assert (np.abs(together[:, -7] - alone[:, -7]) <= together[:, -5] + alone[:, -5]).all()
    assert (together[:, DECAY] == 0).all()
    assert place.decays(losses) == pytest.approx([place.decays([loss])[0] for loss in losses], rel=0.1, abs=1e-9)
    assert place.bound_rows(losses) == pytest.approx(np.concatenate([place.bound_rows([loss]) for loss in losses]))


def test_three_hundred_distinct_ones_are_one_composition() -> None:
    """Twenty runs of each: the whole costs at least each half, and at most both, delta shared."""
    rng = random.Random(8)
    steps = [
        PoissonSampled(LaplaceLaw(round(rng.uniform(0.1, 2), 4)), rate=round(rng.uniform(1e-3, 0.02), 5))
        for _ in range(300)
    ]
    start = time.process_time()
    whole = compose(dict.fromkeys(steps, 20)).epsilon("1e-6")
    assert time.process_time() - start < 10
    assert whole.upper - whole.lower < 1e-6 * whole.upper
    halves = [compose(dict.fromkeys(part, 20)).epsilon("1e-6") for part in (steps[:150], steps[150:])]
    assert all(half.lower <= whole.upper for half in halves)
    both = [compose(dict.fromkeys(part, 20)).epsilon("5e-7") for part in (steps[:150], steps[150:])]
    assert whole.lower <= sum(half.upper for half in both)
