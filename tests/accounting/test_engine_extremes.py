"""However extreme its parameters, a composition gets two valid bounds or an error of ours: never a crash."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting.composition import (
    Composition,
    GaussianLaw,
    LaplaceLaw,
    MixtureOfGaussiansLaw,
    PoissonSampled,
    Repeated,
    Sequence,
    Shuffled,
)
from dpledger.accounting.families.bounded_range.loss import BoundedRangeLoss
from dpledger.accounting.guarantees import GDP, ZCDP, ApproxDP, BoundedRange, PureDP
from dpledger.accounting.profile import compose
from dpledger.errors import DpledgerError

MAGNITUDES = st.tuples(st.integers(1, 9), st.integers(-60, 17)).map(lambda pair: f"{pair[0]}e{pair[1]}")
SMALL = st.tuples(st.integers(1, 9), st.integers(-60, -1)).map(lambda pair: f"{pair[0]}e{pair[1]}")
LEAVES: st.SearchStrategy[Composition] = st.one_of(
    MAGNITUDES.map(GaussianLaw),
    MAGNITUDES.map(GDP),
    MAGNITUDES.map(LaplaceLaw),
    MAGNITUDES.map(PureDP),
    MAGNITUDES.map(ZCDP),
    MAGNITUDES.map(BoundedRange),
    st.builds(ApproxDP, MAGNITUDES, SMALL),
)
SAMPLED: st.SearchStrategy[Composition] = st.builds(
    lambda leaf, rate: PoissonSampled(leaf, rate=rate), st.one_of(MAGNITUDES.map(GaussianLaw), LEAVES), SMALL
)
TREES: st.SearchStrategy[Composition] = st.one_of(
    LEAVES,
    SAMPLED,
    st.builds(lambda leaf, times: Repeated(leaf, times=times), LEAVES | SAMPLED, st.sampled_from([2, 10**6, 10**12])),
    st.lists(LEAVES | SAMPLED, min_size=2, max_size=3).map(lambda parts: Sequence(tuple(parts))),
)


@settings(max_examples=60, deadline=None)
@given(TREES, SMALL, MAGNITUDES)
def test_extreme_parameters_never_crash_the_engine(tree: Composition, delta: str, epsilon: str) -> None:
    try:
        profile = compose(tree)
        least, delta_bounds = profile.epsilon(delta), profile.delta(epsilon)
    except DpledgerError:
        return
    assert 0 <= least.lower <= least.upper
    assert 0 <= delta_bounds.lower <= delta_bounds.upper <= 1


@pytest.mark.parametrize("sigma", ["1e-60", "1e-50", "1e-40", "1e-15", "1e-9"])
def test_next_to_no_noise_costs_about_half_of_mu_squared(sigma: str) -> None:
    spent = compose(GaussianLaw(sigma)).epsilon("1e-5")
    mean = 0.5 / float(sigma) ** 2  # of the loss; its deviation, 1 / sigma, is far smaller
    assert spent.lower <= mean * (1 + 1e-6)
    assert mean * (1 - 1e-6) <= spent.upper < math.inf


@pytest.mark.parametrize("rate", ["0.1", "0.000001"])
def test_a_sampled_gaussian_with_next_to_no_noise_is_bounded_too(rate: str) -> None:
    spent = compose(PoissonSampled(GaussianLaw("1e-50"), rate=rate)).epsilon("1e-9")
    assert spent.lower <= spent.upper
    assert spent.upper > 1e90


ALMOST_SURE = MixtureOfGaussiansLaw(sigma=745, sensitivities=(1, 745), weights=("1e-60", "0.99999999999999999"))
CASES: dict[str, tuple[Composition, str, str]] = {
    "a shift that is all but sure": (Repeated(ALMOST_SURE, times=10**12), "add_remove", "1e-9"),
    "so many shuffles that half of delta costs nothing": (
        Repeated(Shuffled(PureDP(30), users=10**9), times=10**12),
        "replace_one",
        "0.5",
    ),
    "a rate and a loss that floats hardly tell from 0": (
        Sequence(
            (
                Repeated(PoissonSampled(GaussianLaw(10**9), rate="1e-30"), times=2),
                Repeated(PureDP("1e-60"), times=10**9),
            )
        ),
        "add_remove",
        "1e-30",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_once_was_a_crash_or_a_warning_of_numpy_is_bounded(name: str) -> None:
    tree, relation, delta = CASES[name]
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        profile = compose(tree, relation=relation)
        spent, shown = profile.epsilon(delta), profile.delta(1)
    assert 0 <= spent.lower <= spent.upper
    assert 0 <= shown.lower <= shown.upper <= 1


def test_the_tail_of_a_large_range_at_its_end_is_no_overflow() -> None:
    with np.errstate(over="raise"):
        tails = BoundedRangeLoss(1e9).profile().tails(np.array([-1e9, 0.0, 1e9]))
    assert np.all(tails.error <= 1)
