"""Bounded ranges run several times: the lower bound is that of mechanisms that exist, and close to the worst."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from dpledger.accounting.composition import GaussianLaw, Repeated, Sequence
from dpledger.accounting.families.bounded_range.loss import range_pair
from dpledger.accounting.guarantees import BoundedRange, PureDP
from dpledger.accounting.profile import compose
from engine_oracles import mp
from range_oracle import worst_epsilon

pytestmark = pytest.mark.sliced


@given(eta=st.floats(1e-6, 30), position=st.floats(0.01, 0.99))
def test_two_losses_in_the_range(eta: float, position: float) -> None:
    pair = range_pair(eta, position)
    high, low = pair.losses
    assert high - low == pytest.approx(eta, rel=1e-12)
    for masses in (pair.left, pair.right):
        assert math.fsum(masses) == pytest.approx(1, abs=1e-12)
    for loss, p, q in zip(pair.losses, pair.left, pair.right, strict=True):
        assert abs(mp.log(mp.mpf(p) / mp.mpf(q)) - mp.mpf(loss)) <= mp.mpf(
            4 * pair.mass_error + 2 * max(pair.loss_errors)
        )


@pytest.mark.parametrize(
    ("eta", "runs", "delta"), [(0.14, 12, 2e-8), (0.024, 5, 6e-7), (1.5, 18, 1e-5), (0.1, 2, 1e-5), (0.5, 50, 1e-6)]
)
def test_below_is_near_the_worst_position(eta: float, runs: int, delta: float) -> None:
    at = compose(Repeated(BoundedRange(str(eta)), times=runs)).epsilon(delta)
    worst = worst_epsilon(eta, runs, delta)
    assert 0.999 * worst <= at.lower <= worst * 1.03  # one position each time is not the worst
    assert worst <= at.upper <= 1.03 * worst


def test_several_bounded_ranges_beside_others_are_a_few_percent_wide() -> None:
    for other in (GaussianLaw(2), Repeated(PureDP("0.1"), times=10)):
        at = compose(Sequence((Repeated(BoundedRange("0.3"), times=5), other))).epsilon("1e-6")
        assert at.upper - at.lower <= 0.08 * at.upper
