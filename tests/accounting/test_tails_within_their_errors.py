"""Bounds of a profile by tails: they hold wherever tails and thresholds lie within their errors, and are no wider."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting.arithmetic.floating import Array
from dpledger.accounting.laws.tails import TINY, TailProfile, Tails
from engine_oracles import gaussian_delta, mp

MU = 0.8


def tail(loss: float, mu: float) -> float:
    """P(L > loss) of a Gaussian with this shift; under Q with the shift turned round."""
    return float(mp.ncdf(mp.mpf(mu) / 2 - mp.mpf(loss) / abs(mu)))


def profile(error: float, slack: float, signs: tuple[float, float, float]) -> TailProfile:
    """Tails of a Gaussian that miss P, Q and the threshold by these parts of what they say."""

    def tails(points: Array) -> Tails:
        at = (points + signs[2] * slack).tolist()
        left = np.array([tail(loss, MU) for loss in at]) / (1 + signs[0] * error)
        right = np.array([tail(loss, -MU) for loss in at]) / (1 + signs[1] * error)
        return Tails(left, right, np.full(points.shape, error * (1 + 1e-9)))

    return TailProfile(tails, lambda points: np.full(points.shape, slack), -math.inf, 3.0)


side = st.sampled_from([-1.0, 0.0, 1.0])
SIZES = [(1e-3, 0.0), (0.0, 1e-3), (1e-4, 1e-4), (0.0, 0.0)]


@pytest.mark.parametrize(("error", "slack"), SIZES)
@given(signs=st.tuples(side, side, side), loss=st.floats(-2, 2.9))
@settings(max_examples=40, deadline=None)
def test_what_is_above_holds_and_adds_no_more_than_it_must(
    error: float, slack: float, signs: tuple[float, float, float], loss: float
) -> None:
    (found,) = profile(error, slack, signs).above(np.array([loss])).tolist()
    exact = float(gaussian_delta(mp.mpf(MU), mp.mpf(loss)))
    left, near = tail(loss, MU), math.exp(loss) * tail(loss, -MU)
    density = math.exp(-((MU / 2 - loss / MU) ** 2) / 2)
    assert exact <= found
    assert found <= exact + 2.01 * error * (left + near) + 2.1 * slack * (near + 3 * slack * density) + 1e-13


@pytest.mark.parametrize(("error", "slack"), SIZES)
@given(signs=st.tuples(side, side, side), loss=st.floats(-2, 2.9))
@settings(max_examples=40, deadline=None)
def test_lines_lie_below_and_touch_nearly(
    error: float, slack: float, signs: tuple[float, float, float], loss: float
) -> None:
    heights, falls = profile(error, slack, signs).lines(np.array([loss]))
    height, fall = float(heights[0]), float(falls[0])
    for other in (loss - 0.5, loss - 0.01, loss, loss + 0.01, loss + 0.5, -20.0):
        assert height - fall * math.exp(other) <= gaussian_delta(mp.mpf(MU), mp.mpf(other)) + 1e-15
    at = loss + signs[2] * slack
    assert height >= tail(at, MU) * (1 - 2.01 * error) - 1e-15
    assert fall <= tail(at, -MU) * (1 + 2.01 * error) + 1e-15


def test_nothing_is_left_at_the_largest_loss() -> None:
    found = profile(1e-3, 1e-3, (1.0, -1.0, 0.0)).above(np.array([2.999, 3.0, 5.0]))
    assert found[0] > 0
    assert not found[1:].any()


def test_tails_may_miss_what_underflows() -> None:
    """By TINY: P by so much too little and Q too much, or the other way."""

    def of(left: float, right: float) -> TailProfile:
        tails = Tails(np.array([left]), np.array([right]), np.zeros(1))
        return TailProfile(lambda points: tails, np.zeros_like, -math.inf, math.inf)

    (found,) = of(0.0, TINY).above(np.zeros(1)).tolist()
    assert TINY * (1 - 1e-9) <= found <= 3 * TINY
    (height,), (fall,) = of(2 * TINY, 0.0).lines(np.zeros(1))
    assert 0 < height <= TINY * (1 + 1e-9)
    assert TINY * (1 - 1e-9) <= fall <= 2 * TINY
