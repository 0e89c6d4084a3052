"""Bounds of K in closed form: above the truth by quadrature in mpmath, and above K of the rule, for any parameters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from dpledger.accounting.laws.closed_moments import RemovedMoments, added_moment
from dpledger.accounting.laws.gaussian import GaussianLoss
from dpledger.accounting.laws.subsampled import SampledGaussianLoss
from engine_oracles import mp


def moment(rate: float, sigma: float, power: float) -> Any:
    """E (1 - q + q e^{(x - 1/2)/s^2})^w, x from N(0, s^2), by quadrature."""
    q, s = mp.mpf(rate), mp.mpf(sigma)
    with mp.workdps(25):
        ends = [mp.mpf(k) for k in range(-14, 15 + math.ceil(max(power, 0) / sigma), 2)]
        return mp.quad(lambda x: (1 - q + q * mp.exp((s * x - 0.5) / s**2)) ** power * mp.npdf(x), ends)


TILTS = np.array([0.3, 1.0, 3.0, 5.7])


@pytest.mark.parametrize(("rate", "sigma"), [(0.01, 1.0), (0.3, 0.7), (1e-5, 3.0), (0.9, 2.0), (0.02, 0.9)])
def test_they_are_above_the_truth_and_exact_at_whole_tilts_of_remove(rate: float, sigma: float) -> None:
    (removed,) = RemovedMoments(TILTS).rows([SampledGaussianLoss(rate, sigma, "remove")])
    for c, bound in zip(TILTS.tolist(), removed.tolist(), strict=True):
        truth = mp.log(moment(rate, sigma, c + 1))
        assert bound >= truth - 1e-20
        if c == int(c):
            assert bound <= truth * (1 + 1e-10) + 1e-18
    for c in TILTS.tolist():
        law = SampledGaussianLoss(rate, sigma, "add")
        truth = mp.log(moment(rate, sigma, -c))
        assert truth - 1e-20 <= added_moment(law, c) <= -c * math.log1p(-rate) * (1 + 1e-9)


def test_a_small_rate_leaves_the_chi_squared_divergence() -> None:
    assert added_moment(SampledGaussianLoss(1e-6, 2.0, "add"), 3.0) == pytest.approx(6e-12 * math.expm1(0.25), rel=1e-4)


@given(
    rate=st.floats(1e-12, 1 - 1e-12),
    sigma=st.floats(1e-3, 1e6),
    c=st.floats(1e-12, 15.0),
)
def test_no_parameters_give_less_than_the_rule_knows(rate: float, sigma: float, c: float) -> None:
    for law, bound in (
        (removed := SampledGaussianLoss(rate, sigma, "remove"), RemovedMoments(np.array([c])).rows([removed])[0, 0]),
        (added := SampledGaussianLoss(rate, sigma, "add"), added_moment(added, c)),
    ):
        assert bound >= 0
        if sigma > 0.05 and bound < math.inf:
            at = law.tilted(c).cumulants
            assert bound >= at.value - at.error


def test_where_there_is_none_they_are_infinite() -> None:
    steep = SampledGaussianLoss(0.5, 0.01, "remove")
    assert (RemovedMoments(TILTS).rows([steep]) == math.inf).any()
    assert (RemovedMoments(20 * TILTS).rows([steep]) == math.inf).all()
    assert added_moment(steep, 1.0) == math.inf
    assert added_moment(GaussianLoss(1.0), 1.0) == math.inf
    assert added_moment(SampledGaussianLoss(1 - 1e-15, 1.0, "add"), 1.0) == math.inf
