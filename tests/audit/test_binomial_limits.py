"""Clopper-Pearson limits: exact coverage by enumeration, and the safe side of every tail."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings, strategies as st

from audit_oracles import exact_pmf, exact_tail, fifty_digit_tail, normal_lower_limit
from dpledger.audit.evidence.binomial import lower_limit, tail_at_least, tail_at_most, upper_limit
from dpledger.errors import ParameterError

ALPHAS = st.sampled_from([0.3, 0.05, 0.0125, 1e-6, 1e-12])


@settings(deadline=None, max_examples=150)
@given(trials=st.integers(1, 40), data=st.data(), alpha=ALPHAS)
def test_a_limit_keeps_the_exact_tail_below_alpha_and_hardly_wastes_any(
    trials: int, data: st.DataObject, alpha: float
) -> None:
    hits = data.draw(st.integers(0, trials))
    lower, upper = lower_limit(hits, trials, alpha), upper_limit(hits, trials, alpha)
    assert exact_tail(hits, trials, Fraction(lower)) <= alpha or hits == 0
    assert 1 - exact_tail(hits + 1, trials, Fraction(upper)) <= alpha or hits == trials
    assert hits == 0 or exact_tail(hits, trials, Fraction(lower) * Fraction(1 + 1e-6)) > alpha
    beyond = Fraction(upper) - (1 - Fraction(upper)) / 10**6 - Fraction(1, 10**12)
    assert hits == trials or 1 - exact_tail(hits + 1, trials, beyond) > alpha


@pytest.mark.parametrize("alpha", [0.2, 0.05, 0.001])
@pytest.mark.parametrize("trials", [1, 7, 24])
def test_the_exact_coverage_of_both_limits_is_at_least_promised(trials: int, alpha: float) -> None:
    lower = [Fraction(lower_limit(k, trials, alpha)) for k in range(trials + 1)]
    upper = [Fraction(upper_limit(k, trials, alpha)) for k in range(trials + 1)]
    for p in (Fraction(i, 40) for i in range(41)):
        assert sum(exact_pmf(k, trials, p) for k in range(trials + 1) if lower[k] > p) <= alpha
        assert sum(exact_pmf(k, trials, p) for k in range(trials + 1) if upper[k] < p) <= alpha


def test_the_normal_limit_breaks_the_same_promise() -> None:
    p, trials = Fraction(1, 40), 24
    misses = sum(exact_pmf(k, trials, p) for k in range(trials + 1) if normal_lower_limit(k, trials, 1.645) > p)
    assert misses <= Fraction(1, 20)  # its lower limit is far too low where p is small,
    high = 1 - p
    misses = sum(exact_pmf(k, trials, high) for k in range(trials + 1) if normal_lower_limit(k, trials, 1.645) > high)
    assert misses > Fraction(1, 2)  # and far too high where p is large


@pytest.mark.parametrize(
    ("hits", "trials", "p"),
    [
        (1, 10**6, 1e-8),
        (40, 10**6, 1.5e-5),
        (501_000, 10**6, 0.5),
        (999_990, 10**6, 0.99997),
        (10**6, 10**6, 0.99999),
        (500_100_000, 10**9, 0.5),
        (1_050, 10**9, 1e-6),
        (30, 10**12, 1e-11),
    ],
)
def test_the_tail_is_an_upper_bound_and_tight(hits: int, trials: int, p: float) -> None:
    bound, truth = tail_at_least(hits, trials, p), fifty_digit_tail(hits, trials, p)
    assert truth <= bound <= truth * (1 + 3e-8)


@settings(deadline=None, max_examples=200)
@given(trials=st.integers(1, 60), data=st.data(), p=st.floats(0, 1))
def test_both_tails_bound_the_exact_ones(trials: int, data: st.DataObject, p: float) -> None:
    hits = data.draw(st.integers(0, trials))
    assert tail_at_least(hits, trials, p) >= exact_tail(hits, trials, Fraction(p))
    assert tail_at_most(hits, trials, p) >= 1 - exact_tail(hits + 1, trials, Fraction(p)) - Fraction(1, 2**80)


def test_more_hits_never_lower_a_limit() -> None:
    limits = [lower_limit(k, 50, 0.05) for k in range(51)]
    assert limits == sorted(limits)
    assert limits[0] == 0
    assert upper_limit(50, 50, 0.05) == 1


@pytest.mark.parametrize(
    ("hits", "trials", "alpha", "field"),
    [
        (-1, 10, 0.05, "hits"),
        (11, 10, 0.05, "hits"),
        (0, 0, 0.05, "trials"),
        (1, 10**13, 0.05, "trials"),
        (1, 10, 0.0, "alpha"),
        (1, 10, 1.0, "alpha"),
        (1, 10, math.nan, "alpha"),
    ],
)
def test_bad_input_is_named(hits: int, trials: int, alpha: float, field: str) -> None:
    with pytest.raises(ParameterError) as error:
        lower_limit(hits, trials, alpha)
    assert error.value.field == field
