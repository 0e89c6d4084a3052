"""A delta near and below the least normal float, where roundings are absolute; an epsilon beyond every float."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dpledger.accounting.composition import ExponentialLaw, GaussianLaw, PmfPair, PoissonSampled, Repeated, Sequence
from dpledger.accounting.engine.infinite_mass import with_mass
from dpledger.accounting.guarantees import ApproxDP, BoundedRange, PureDP
from dpledger.accounting.profile import compose
from engine_oracles import mp


def binomial_delta(runs: int, epsilon: str) -> Any:
    """delta of the pair ((0.9, 0.1), (0.999999, 0.000001)), run several times: the binomial sum."""
    p, q, ratio = mp.mpf("0.1"), mp.mpf("0.000001"), mp.exp(mp.mpf(epsilon))
    excesses = (
        mp.binomial(runs, k) * (p**k * (1 - p) ** (runs - k) - ratio * q**k * (1 - q) ** (runs - k))
        for k in range(runs + 1)
    )
    return mp.fsum(excess for excess in excesses if excess > 0)


@pytest.mark.parametrize("epsilon", ["3000", "3600", "3660", "3670", "3680", "3684.13", "3684.136"])
def test_an_enumeration_holds_what_underflows(epsilon: str) -> None:
    profile = compose(Repeated(PmfPair(left=("0.9", "0.1"), right=("0.999999", "0.000001")), 320), direction="remove")
    exact = binomial_delta(320, epsilon)
    for bounds in (profile.delta(epsilon), *profile.deltas([epsilon])):
        assert mp.mpf(bounds.lower) <= exact <= mp.mpf(bounds.upper)
        assert bounds.upper - bounds.lower <= 1e-9 * float(exact) + 1e-318


def test_what_is_below_every_float_is_not_zero() -> None:
    """The greatest loss of the whole is above this epsilon: delta is 1e-879."""
    pair = PmfPair(("0.999999282002", "7.17998E-7"), ("0.999999999748", "2.52E-10"))
    profile = compose(Sequence((Repeated(pair, times=300), PureDP("0.0006036"))), direction="remove")
    epsilon = "1248.901790837244"
    for bounds in (profile.delta(epsilon), *profile.deltas([epsilon])):
        assert bounds.lower == 0 < bounds.upper <= 1e-310


def test_beyond_the_greatest_loss_delta_is_zero() -> None:
    assert compose(Repeated(PureDP("0.1"), times=10)).delta("1.01") == compose(PureDP("0.1")).delta(2)
    assert compose(PureDP("0.1")).delta(2).upper == 0


@pytest.mark.parametrize("mass", [1e-307, 3e-310, 7e-320, 5e-323])
def test_a_failure_below_the_normal_floats(mass: float) -> None:
    lower, upper = map(float, with_mass(np.array(mass), np.array(mass), -mass))
    with mp.workdps(700):
        exact = -mp.expm1(-mp.mpf(mass)) + mp.exp(-mp.mpf(mass)) * mp.mpf(mass)
        assert mp.mpf(lower) < exact < mp.mpf(upper)


@pytest.mark.parametrize("eta", ["1400", "1e5", "1e12"])
@pytest.mark.parametrize("times", [2, 10, 1000])
@pytest.mark.parametrize("law", [BoundedRange, ExponentialLaw])
def test_a_wide_bounded_range_runs_more_than_once(
    law: type[BoundedRange | ExponentialLaw], eta: str, times: int
) -> None:
    bounds = compose(Repeated(law(eta), times=times)).epsilon("1e-5")
    assert 0.5 * float(eta) * times < bounds.lower < bounds.upper <= float(eta) * times * (1 + 1e-15)


@pytest.mark.parametrize("alpha", ["1e-9", "0.25", "0.5", "0.75", "0.999"])
def test_the_trade_off_where_the_other_direction_loses_mass(alpha: str) -> None:
    """P is outcome 0 for sure, Q either: the best test that rejects with alpha under Q reaches min(1, 2 alpha)."""
    pair = compose(PmfPair(left=("1", "0"), right=("0.5", "0.5")), direction="remove")
    bounds, exact = pair.tradeoff(alpha), max(0.0, 1 - 2 * float(alpha))
    assert bounds.lower <= exact + 1e-12
    assert bounds.upper >= exact - 1e-12
    assert bounds.upper - bounds.lower <= 1e-6
    rate = pair.true_positives(alpha)
    assert rate.lower - 1e-12 <= 1 - exact <= rate.upper + 1e-12


def test_a_mass_at_infinity_that_rounds_to_one() -> None:
    """A hundred failures of 0.999 leave nothing that a float tells from 1."""
    steps = Repeated(PoissonSampled(GaussianLaw(1), rate="0.01"), times=1000)
    profile = compose(Sequence((steps, Repeated(ApproxDP(1, "0.999"), times=100))))
    for bounds in profile.epsilons(["1e-5", "0.9", "0.999"] * 4):
        assert bounds.upper == math.inf


def test_a_lattice_that_would_be_too_fine_is_laid_out_as_fine_as_may_be() -> None:
    steps = Repeated(PoissonSampled(GaussianLaw("0.835858"), rate="5.09457678324e-9"), times=340065)
    bounds = compose(steps, direction="remove").epsilon("5.40119e-15")
    assert 2e-6 < bounds.lower < bounds.upper < 1e-4
