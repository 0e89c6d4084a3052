"""Bounded ranges run several times: between what adaptive adversaries reach, each computed exactly, and no more."""

from __future__ import annotations

import math
import random
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting.composition import GaussianLaw, Repeated, Sequence
from dpledger.accounting.guarantees import BoundedRange
from dpledger.accounting.laws.finite import FinitePair
from dpledger.accounting.laws.range_runs import MOST_RUNS, dominating_runs, range_runs
from dpledger.accounting.profile import compose

Floats: TypeAlias = npt.NDArray[np.float64]


def profile_of(pair: FinitePair, epsilon: float) -> float:
    """delta of a finite pair, as its floats say."""
    gaps = epsilon - np.array(pair.losses)
    return pair.only_left + math.fsum((np.array(pair.left) * -np.expm1(np.minimum(gaps, 0.0))).tolist())


def reached(eta: float, runs: int, epsilon: Floats, positions: int = 200) -> Floats:
    """The most that adversaries reach who put all but the last interval at one of many positions; the last as is worst
    there. By recursion, no lattice."""
    if runs == 1:
        inside = np.clip(epsilon, -eta, eta)
        once = np.expm1((inside - eta) / 2) ** 2 / -math.expm1(-eta)
        return np.where(epsilon < -eta, -np.expm1(np.minimum(epsilon, 0.0)), np.where(epsilon > eta, 0.0, once))
    t = np.linspace(0, eta, positions + 1)
    likely = np.exp(t) * np.expm1(eta - t) / math.expm1(eta)
    above, below = np.subtract.outer(epsilon, t), np.subtract.outer(epsilon, t - eta)
    after = [reached(eta, runs - 1, gaps.ravel(), positions).reshape(gaps.shape) for gaps in (above, below)]
    best: Floats = (likely * after[0] + (1 - likely) * after[1]).max(axis=-1)
    return best


@pytest.mark.parametrize("eta", [0.001, 0.3, 2.0, 9.0])
@pytest.mark.parametrize(("runs", "positions"), [(2, 2000), (3, 300), (4, 40)])
def test_between_the_bounds_is_what_adversaries_reach(eta: float, runs: int, positions: int) -> None:
    bracket = range_runs(eta, runs)
    assert bracket is not None
    for share in (-0.3, 0.0, 0.1, 0.35, 0.65, 0.95 if runs < 4 else 0.5):  # near 1 few positions reach anything
        epsilon = share * runs * eta
        (exact,) = reached(eta, runs, np.array([epsilon]), positions).tolist()
        above, below = profile_of(bracket.above, epsilon), profile_of(bracket.below, epsilon)
        missed = (eta / positions) ** 2 * (runs - 1) + (runs - 1) * 4 / positions**2  # by the oracle's own positions
        assert below <= exact * (1 + missed)
        assert exact <= above * (1 + 1e-10)
        assert above - below <= (3e-2 if share > 0.9 else 3e-3) * above


class Adversary:
    """Places each interval at random, by what was seen: a tree of 2^runs outcomes."""

    def __init__(self, seed: int, eta: float, runs: int) -> None:
        chance = random.Random(seed)
        lean = chance.choice([0.3, 0.5, 0.7])
        self.outcomes: list[tuple[float, float]] = [(1.0, 0.0)]  # (P mass, loss)
        for _ in range(runs):
            grown = []
            for mass, loss in self.outcomes:
                t = eta * min(1.0, max(0.0, chance.gauss(lean, 0.15)))
                likely = math.exp(t) * math.expm1(eta - t) / math.expm1(eta)
                grown += [(mass * likely, loss + t), (mass * (1 - likely), loss + t - eta)]
            self.outcomes = grown

    def delta(self, epsilon: float) -> float:
        return math.fsum(mass * -math.expm1(epsilon - loss) for mass, loss in self.outcomes if loss > epsilon)


@given(seed=st.integers(0, 10**6), eta=st.floats(0.01, 4), runs=st.integers(2, 9))
@settings(max_examples=60, deadline=None)
def test_no_adaptive_adversary_is_above(seed: int, eta: float, runs: int) -> None:
    bracket = range_runs(eta, runs)
    assert bracket is not None
    adversary = Adversary(seed, eta, runs)
    for share in (-0.4, 0.0, 0.1, 0.3, 0.6, 0.9):
        epsilon = share * runs * eta
        assert adversary.delta(epsilon) <= profile_of(bracket.above, epsilon) * (1 + 1e-10) + 1e-15


@given(eta=st.floats(1e-4, 6), runs=st.integers(2, MOST_RUNS))
@settings(max_examples=15, deadline=None)
def test_the_pairs_are_symmetric_ordered_and_close(eta: float, runs: int) -> None:
    bracket = range_runs(eta, runs)
    assert bracket is not None
    for share in np.linspace(-0.3, 0.95, 9).tolist():
        epsilon = share * runs * eta
        above, below = (profile_of(pair, epsilon) for pair in (bracket.above, bracket.below))
        assert below <= above * (1 + 1e-12)
        turned = profile_of(bracket.above.turned(), epsilon)
        assert turned == pytest.approx(above, rel=1e-9, abs=1e-14)


@pytest.mark.parametrize(
    ("eta", "runs", "delta", "width"),
    [
        ("0.4", 2, "1e-6", 1e-3),
        ("0.4", 10, "1e-6", 2e-4),
        ("1", 10, "1e-6", 2e-4),
        ("0.1", 64, "1e-6", 3e-3),
        ("2", 20, "1e-5", 1e-3),
        ("0.1", 1000, "1e-6", 1.2e-2),
        ("0.001", 10**6, "1e-6", 1.2e-2),
        ("30", 10, "1e-6", 2e-3),
    ],
)
def test_epsilon_is_narrow(eta: str, runs: int, delta: str, width: float) -> None:
    found = compose(Repeated(BoundedRange(eta), times=runs)).epsilon(delta)
    assert 0 < found.upper - found.lower <= width * found.upper


@pytest.mark.parametrize("runs", [2, 40, 64, 65, 66, 200])
def test_blocks_are_all_the_runs(runs: int) -> None:
    """The largest loss of all together is eta times the runs; the standard deviation that of eta/2 each, nearly."""
    blocks = dominating_runs(0.2, runs)
    assert math.fsum(count * loss.largest for loss, count in blocks) == pytest.approx(0.2 * runs, rel=1e-9)
    variance = math.fsum(count * loss.cumulants(1e-9).variance for loss, count in blocks)
    assert 0.97 <= variance / (runs * 0.01) <= 1.05 + 0.3 / math.sqrt(min(runs, MOST_RUNS))


def test_too_wide_to_be_laid_out_is_bounded_all_the_same() -> None:
    assert range_runs(100.0, 10) is None
    found = compose(Repeated(BoundedRange(100), times=10)).epsilon("1e-6")
    assert 500 <= found.lower <= found.upper <= 1000


def test_beside_others_the_upper_bound_stays_above_every_order() -> None:
    """The lower end is that of fixed positions; two orders of a list are one list."""
    ranges, noise = Repeated(BoundedRange("0.3"), times=5), GaussianLaw(2)
    first, last = (compose(Sequence(parts)).epsilon("1e-6") for parts in ((ranges, noise), (noise, ranges)))
    assert first == last
    assert first.upper - first.lower <= 0.03 * first.upper
