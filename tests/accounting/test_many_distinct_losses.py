"""Many distinct losses as one bundle: the same numbers as one by one, within proven errors, and sound."""

import random
import time
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting.composition import (
    Composition,
    DiscreteLaplaceLaw,
    GaussianLaw,
    LaplaceLaw,
    PoissonSampled,
    Repeated,
    Sequence,
)
from dpledger.accounting.engine import covering, solve
from dpledger.accounting.engine.composed import Composed, bundled
from dpledger.accounting.families.gaussian.sampled import FEWEST, BundledGaussians, SampledGaussianLoss
from dpledger.accounting.families.laplace.loss import LaplaceLoss
from dpledger.accounting.guarantees import ApproxDP, PureDP
from dpledger.accounting.laws.law import Direction
from dpledger.accounting.profile import compose

pytestmark = pytest.mark.sliced

directions = pytest.mark.parametrize("direction", ["remove", "add"])


def laws(count: int, direction: Direction, seed: int, times: int = 20) -> tuple[tuple[SampledGaussianLoss, int], ...]:
    rng = random.Random(seed)
    return tuple(
        (SampledGaussianLoss(10 ** rng.uniform(-4, -0.5), rng.uniform(0.5, 5), direction), rng.randint(1, times))
        for _ in range(count)
    )


@directions
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6), tilt=st.floats(0.05, 40))
def test_the_transform_is_that_of_the_losses_one_by_one(direction: Direction, seed: int, tilt: float) -> None:
    parts = laws(8, direction, seed)
    bundle, single = BundledGaussians(parts), Composed(parts)
    here, there = bundle.tilted(tilt).cumulants, single.tilted(tilt).cumulants
    assert abs(here.value - there.value) <= here.error + there.error
    assert here.error <= 20 * there.error + 1e-12
    assert here.mean == pytest.approx(there.mean, rel=1e-6, abs=1e-9)
    assert here.variance == pytest.approx(there.variance, rel=1e-6, abs=1e-9)
    above = bundle.log_moments(np.array([tilt, 2 * tilt]))
    assert (above >= single.log_moments(np.array([tilt, 2 * tilt])) - 4 * there.error - 1e-9).all()
    assert above[0] >= there.value - there.error
    assert bundle.largest >= single.largest * (1 - 1e-12)


@directions
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6), tilt=st.floats(0.1, 15))
def test_the_nodes_are_those_of_the_losses_one_by_one(direction: Direction, seed: int, tilt: float) -> None:
    """Both are within their spread of the truth, so they are within both spreads of each other."""
    parts = laws(6, direction, seed)
    step, count = 0.125, 40
    bundle, single = BundledGaussians(parts).tilted(tilt), Composed(parts).tilted(tilt)
    real, imaginary, spread = single.nodes(step, count)
    nodes = bundle.nodes(step, count, 1 << 24)
    moved = step * np.arange(count) * (bundle.cumulants.mean - single.cumulants.mean)  # the two centres differ a little
    apart = np.abs(np.exp(nodes.log_phi - (real + 1j * (imaginary - moved))) - 1)
    assert (apart <= np.expm1(nodes.spread + spread) * 1.01 + 1e-12 * np.abs(moved).max() + 1e-13).all()
    t = step * np.array([4, 16, 39])
    assert (bundle.log_decay(t) >= nodes.log_phi.real[[4, 16, 39]] - nodes.spread[[4, 16, 39]]).all()  # it is proven
    assert (bundle.log_decay(t) <= 0.8 * single.log_decay(t) + 1e-9).all()  # and not much less than theirs


@directions
@pytest.mark.parametrize("seed", range(4))
def test_bounds_with_and_without_a_bundle_are_for_one_number(
    direction: Direction, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    composed = Composed((*laws(FEWEST + 6, direction, seed, times=200), (LaplaceLoss(0.05), 3)))
    assert len(bundled(composed).parts) == 2
    log_delta = -14.0
    together = solve.finite_epsilon(composed, log_delta, log_delta)
    monkeypatch.setattr(solve, "bundled", lambda same: same)
    alone = solve.finite_epsilon(composed, log_delta, log_delta)
    assert max(together.lower, alone.lower) <= min(together.upper, alone.upper)
    assert together.relative_width() <= max(3e-4, 3 * alone.relative_width())


@directions
@pytest.mark.parametrize("seed", range(2))
def test_deltas_with_and_without_a_bundle_are_for_one_number(
    direction: Direction, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    composed = Composed((*laws(FEWEST + 6, direction, seed, times=200), (LaplaceLoss(0.05), 3)))
    together = covering.alone(covering.contours, composed, 2.5)
    monkeypatch.setattr(covering, "bundled", lambda same: same)
    alone = covering.alone(covering.contours, composed, 2.5)
    assert max(together.lower, alone.lower) <= min(together.upper, alone.upper)
    assert together.relative_width() <= max(1e-3, 3 * alone.relative_width())


def test_a_bundle_against_arbitrary_precision() -> None:
    """Thirty distinct losses, both ends confirmed in ball arithmetic, which forms each transform by itself."""
    rng = random.Random(5)
    steps = [
        PoissonSampled(GaussianLaw(round(rng.uniform(0.9, 2), 3)), rate=round(rng.uniform(0.002, 0.02), 4))
        for _ in range(30)
    ]
    tree = Sequence(tuple(Repeated(step, times=40) for step in steps))
    found = compose(tree, direction="remove").epsilon("1e-6")
    checked = compose(tree, direction="remove", verify="arb").epsilon("1e-6")
    assert checked.lower <= found.lower <= found.upper <= checked.upper
    assert checked.upper - checked.lower <= 1e-6 * found.upper


@pytest.mark.parametrize(
    "leaf",
    [
        lambda i: PureDP(f"{0.001 + i * 1e-6:.8f}"),
        lambda i: ApproxDP(f"{0.01 + i * 1e-5:.8f}", "1e-12"),
        lambda i: LaplaceLaw(f"{0.01 + i * 1e-5:.8f}"),
        lambda i: DiscreteLaplaceLaw(f"{20 + i * 0.01:.6f}", 1),
    ],
)
def test_a_thousand_distinct_leaves_without_noise_curves(leaf: Callable[[int], Composition]) -> None:
    """Narrow; how long it takes, the benchmarks say."""
    tree = Sequence(tuple(leaf(i) for i in range(1000)))
    found = compose(tree).epsilon("1e-8")
    assert found.upper - found.lower < 2e-4 * found.upper


@pytest.mark.slow
def test_ten_thousand_distinct_leaves_without_noise_curves() -> None:
    tree = Sequence(tuple(LaplaceLaw(f"{0.002 + i * 1e-6:.8f}") for i in range(10_000)))
    start = time.process_time()
    found = compose(tree).epsilon("1e-8")
    assert time.process_time() - start < 15
    assert found.upper - found.lower < 2e-4 * found.upper


def test_few_losses_are_left_alone() -> None:
    few = Composed(laws(FEWEST - 1, "remove", 1))
    assert bundled(few) is few


@pytest.mark.slow
def test_a_thousand_distinct_mechanisms_in_moderate_time() -> None:
    """A generous limit: the benchmark says how fast it is."""
    rng = random.Random(2)
    leaves = [
        PoissonSampled(GaussianLaw(round(rng.uniform(0.8, 4), 6)), rate=round(rng.uniform(1e-4, 0.02), 7))
        for _ in range(1000)
    ]
    tree: Composition = Sequence(tuple(Repeated(leaf, times=20) for leaf in leaves))
    start = time.process_time()
    found = compose(tree).epsilon("1e-5")
    assert time.process_time() - start < 5
    assert found.upper - found.lower < 1e-4 * found.upper
