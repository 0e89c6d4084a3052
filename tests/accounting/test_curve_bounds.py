"""Losses beside Renyi curves: the best of four hundred Chernoff bounds, of which few are formed."""

import math
from decimal import Decimal

import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting.arithmetic.floating import Array
from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.engine.renyi import CurveBounds, curve_bounds
from dpledger.accounting.families.gaussian.loss import GaussianLoss
from dpledger.accounting.families.gaussian.sampled import SampledGaussianLoss
from dpledger.accounting.families.laplace.loss import LaplaceLoss
from dpledger.accounting.laws.law import Loss
from dpledger.accounting.laws.renyi_curves import ConcentratedCurve, ListedCurve, RenyiCurve
from dpledger.decimals import ZERO
from threads import Meeting, together


def rho(value: str) -> RenyiCurve:
    return ConcentratedCurve(Decimal(value), ZERO)


def exactly(*numbers: str) -> tuple[Decimal, ...]:
    return tuple(map(Decimal, numbers))


CURVES: list[tuple[tuple[RenyiCurve, int], ...]] = [
    ((rho("0.01"), 3),),
    ((ListedCurve(exactly("2", "4", "32"), exactly("0.1", "0.15", "0.9")), 2),),
    ((rho("0.001"), 1), (ListedCurve(exactly("1.5", "8"), exactly("0.02", "0.3")), 1)),
]
LOSSES: list[Loss] = [SampledGaussianLoss(0.01, 1.0, "remove"), LaplaceLoss(0.1), GaussianLoss(0.02)]
counts = st.lists(st.integers(0, 500), min_size=3, max_size=3).filter(any)


class Counting:
    """A composition that counts how often K is formed."""

    def __init__(self, composed: Composed) -> None:
        self.composed, self.asked = composed, 0

    def log_moments(self, c: Array) -> Array:
        self.asked += 1
        return self.composed.log_moments(c)


@settings(max_examples=20, deadline=None)
@given(counts, st.sampled_from(CURVES), st.floats(-60, -0.5), st.floats(0, 6))
def test_the_best_bound_is_found_among_few(
    times: list[int], curves: tuple[tuple[RenyiCurve, int], ...], log_delta: float, epsilon: float
) -> None:
    losses = tuple((loss, count) for loss, count in zip(LOSSES, times, strict=True) if count)
    counting = Counting(Composed(losses))
    few = CurveBounds(counting, curves)  # type: ignore[arg-type]
    found, asked = (few.epsilon(log_delta), few.log_delta(epsilon)), counting.asked
    every = CurveBounds(counting, curves)  # type: ignore[arg-type]
    for i in range(every._c.size):
        if not every._learnt.known[i]:
            every._learnt = every._learn(every._learnt, i)
    assert found == pytest.approx((every.epsilon(log_delta), every.log_delta(epsilon)), rel=1e-9, abs=1e-12)
    assert asked <= 80 < counting.asked


@pytest.mark.parametrize("runs", [1, 30])
def test_curves_of_gaussians_beside_gaussians(runs: int) -> None:
    """(mu^2/2)-zCDP is what a Gaussian promises: the bound beside its curve is the Chernoff bound of both."""
    both = curve_bounds(Composed(((GaussianLoss(0.04), runs),)), ((rho("0.02"), runs),))
    whole = curve_bounds(None, ((rho("0.02"), 2 * runs),))
    assert both.epsilon(-12.0) == pytest.approx(whole.epsilon(-12.0), rel=1e-9)
    whole_rho = 0.04 * runs
    assert whole.epsilon(-12.0) <= whole_rho + 2 * math.sqrt(12 * whole_rho)


class Slow(Counting):
    """One that lets another thread catch up while K is formed."""

    def __init__(self, composed: Composed) -> None:
        super().__init__(composed)
        self.meeting = Meeting()

    def log_moments(self, c: Array) -> Array:
        self.meeting.wait()
        return super().log_moments(c)


def test_threads_that_share_chernoff_bounds_find_the_bound_that_one_finds() -> None:
    """Bounds are kept from one composition to the next. A number that another thread is about to form is not known."""
    composed, curves = Composed(((LaplaceLoss(0.1), 200),)), CURVES[0]
    alone, shared = CurveBounds(composed, curves), CurveBounds(Slow(composed), curves)  # type: ignore[arg-type]
    found = together(lambda: shared.epsilon(-12.0), lambda: shared.epsilon(-12.0))
    assert found == pytest.approx([alone.epsilon(-12.0)] * 2, rel=1e-9)
