"""Binomial tails, votes and sample sizes of plans against exact sums that share no code."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from functools import partial

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from dpledger.errors import InfeasiblePlan, ParameterError, WorkLimit
from dpledger.mechanisms.binomial_tails import tail_above, tail_up_to
from dpledger.mechanisms.stability.plans.counting import (
    divided,
    fewest_votes,
    quantile,
    wrong_beyond,
)
from dpledger.mechanisms.stability.plans.sample_sizes import (
    Agnostic,
    FromFunction,
    Realizable,
    log_sauer,
)

pytestmark = pytest.mark.sliced

THIRD = Fraction(1, 3)
CHANCES = st.decimals("1e-9", "0.999999999", places=9)


def exact_tail(trials: int, chance: Decimal, count: int) -> Fraction:
    """P(Bin > count), by whole numbers."""
    p = Fraction(chance)
    return sum(
        (
            math.comb(trials, hits) * p**hits * (1 - p) ** (trials - hits)
            for hits in range(max(count + 1, 0), trials + 1)
        ),
        Fraction(0),
    )


@settings(deadline=None, max_examples=150)
@given(st.integers(1, 60), CHANCES, st.data())
def test_a_tail_is_the_exact_sum_from_above(trials: int, chance: Decimal, data: st.DataObject) -> None:
    count = data.draw(st.integers(-2, trials + 1))
    exact, found = exact_tail(trials, chance, count), Fraction(tail_above(trials, chance, count))
    assert exact <= found <= exact * (1 + Fraction(1, 10**11))
    assert Fraction(tail_up_to(trials, chance, count)) >= 1 - exact


@pytest.mark.parametrize(
    ("trials", "chance", "count"),
    [(10**6, "0.3", 302_000), (10**9, "1e-7", 150), (10**9, "0.25", 250_050_000), (10**12, "0.5", 500_003_000_000)],
)
def test_tails_of_many_trials_are_the_incomplete_beta_function(trials: int, chance: str, count: int) -> None:
    """A continued fraction (Lentz) in fifty digits: no sum over the terms."""
    with mpmath.workdps(50):
        p = mpmath.mpf(chance)
        a, b = mpmath.mpf(count + 1), mpmath.mpf(trials - count)
        front = mpmath.exp(
            mpmath.loggamma(a + b) - mpmath.loggamma(a) - mpmath.loggamma(b) + a * mpmath.log(p) + b * mpmath.log1p(-p)
        )
        value, d = mpmath.mpf(1), mpmath.mpf(0)
        c, f = mpmath.mpf(1), mpmath.mpf(1)
        for step in range(1, 20000):
            half = step // 2
            term = (
                half * (b - half) * p / ((a + step - 1) * (a + step))
                if step % 2 == 0
                else -(a + half) * (a + b + half) * p / ((a + step - 1) * (a + step))
            )
            d, c = 1 / (1 + term * d), 1 + term / c
            f *= c * d
            if abs(c * d - 1) < mpmath.mpf(10) ** -40:
                break
        value = front / (a * f)
        found = mpmath.mpf(str(tail_above(trials, Decimal(chance), count)))
        assert 0 <= found / value - 1 < 1e-7


def test_no_tail_underflows() -> None:
    assert 0 < tail_above(10**6, Decimal("0.5"), 10**6 - 1) < Decimal("1e-300000")
    assert divided(Decimal("1e-60"), 10**9) > 0
    with pytest.raises(WorkLimit):
        tail_above(10**13, Decimal("0.5"), 1)


@settings(deadline=None, max_examples=100)
@given(st.integers(1, 50), CHANCES, st.decimals("1e-6", "0.9", places=6))
@example(100, Decimal("1"), Decimal("0.1"))
def test_a_quantile_is_the_least_count(trials: int, chance: Decimal, failure: Decimal) -> None:
    found = quantile(trials, chance, failure)
    assert exact_tail(trials, chance, found) <= Fraction(failure)
    if found > 0 and chance < 1:
        assert exact_tail(trials, chance, found - 1) > Fraction(failure) * (1 - Fraction(1, 10**10))


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 10**6),
    st.decimals("1e-9", "0.9", places=9),
    st.sampled_from([THIRD, Fraction(2, 5), Fraction(1, 2)]),
)
def test_the_fewest_votes_are_the_first_that_keep_the_tail(queries: int, failure: Decimal, dissent: Fraction) -> None:
    found = fewest_votes(queries, failure, dissent=dissent, least=3)
    keeps = [
        exact_tail(k, Decimal("0.25"), math.floor(dissent * k)) * queries <= Fraction(failure) for k in range(3, 60)
    ]
    first = next((k for k, enough in enumerate(keeps, start=3) if enough), None)
    assert found >= 60 if first is None else found == first
    assert tail_above(found, Decimal("0.25"), math.floor(dissent * found)) <= divided(failure, queries)
    assert found <= math.ceil(math.log(queries / failure) / (2 * (dissent - Fraction(1, 4)) ** 2)) + 3


def test_enough_votes_are_not_enough_one_more() -> None:
    """Why the number that is taken is checked itself, and not the least that would do."""
    tail = partial(exact_tail, chance=Decimal("0.25"))
    assert tail(9, count=3) < tail(10, count=3)
    failure = Decimal("0.17")
    assert fewest_votes(1, failure, dissent=THIRD, least=9) == 9
    assert fewest_votes(1, failure, dissent=THIRD, least=10) == 12
    assert fewest_votes(1, failure, dissent=THIRD, least=9, skips_thirds=True) % 3
    with pytest.raises(InfeasiblePlan, match="1/4"):
        fewest_votes(1, failure, dissent=Fraction(1, 4), least=3)
    with pytest.raises(InfeasiblePlan, match="at most 1048576"):
        fewest_votes(1, failure, dissent=Fraction(1, 4) + Fraction(1, 10**6), least=3)


@given(st.integers(1, 12), st.integers(1, 12), st.sampled_from([THIRD, Fraction(1, 4), Fraction(2, 5)]), st.data())
def test_few_mistakes_spoil_few_queries(models: int, queries: int, dissent: Fraction, data: st.DataObject) -> None:
    """Lemma 4.2, on any table of mistakes."""
    row = st.lists(st.booleans(), min_size=queries, max_size=queries)
    table = np.array(data.draw(st.lists(row, min_size=models, max_size=models)))
    mistakes = int(table.sum(axis=1).max())
    spoilt = sum(int(wrong) > dissent * models for wrong in table.sum(axis=0))
    assert spoilt <= wrong_beyond(mistakes, dissent)


# ---- sample sizes ---------------------------------------------------------------------------------------------------


def sauer(dimension: int, points: int) -> int:
    return sum(math.comb(points, i) for i in range(dimension + 1))


@given(st.integers(0, 40), st.integers(1, 400))
def test_the_logarithm_of_sauers_sum_is_from_above(dimension: int, points: int) -> None:
    with mpmath.workdps(40):
        exact = mpmath.log(sauer(dimension, points))
        slack = mpmath.mpf(str(log_sauer(dimension, points))) - exact
        narrow = exact * mpmath.mpf("2e-11") + mpmath.mpf("1e-12")
        assert 0 <= slack <= (mpmath.log(2) * (1 + mpmath.mpf("1e-9")) if 2 * dimension >= points else narrow)


def realizable_by_hand(a: Fraction, b: Fraction, dimension: int, samples: int) -> bool:
    """2 S(V, 2N) 2^(-aN/2) <= b and N >= 8/a, in whole numbers: both sides to the power 2 q, a = p/q."""
    p, q = a.numerator, a.denominator
    labellings = 2 * sauer(dimension, 2 * samples)
    return samples * p >= 8 * q and (labellings * b.denominator) ** (2 * q) <= b.numerator ** (2 * q) * 2 ** (
        p * samples
    )


@settings(deadline=None, max_examples=25)
@given(st.sampled_from(["0.1", "0.2", "0.5", "0.05"]), st.sampled_from(["0.05", "0.001", "0.3"]), st.integers(1, 5))
def test_a_consistent_learners_size_is_the_least_that_blumers_bound_allows(a: str, b: str, dimension: int) -> None:
    size = Realizable(dimension)
    found = size.needed(Decimal(a), Decimal(b))
    by_hand = partial(realizable_by_hand, Fraction(a), Fraction(b), dimension)
    assert by_hand(found)
    assert not any(by_hand(samples) for samples in range(found))


@pytest.mark.parametrize(
    ("a", "b", "dimension", "needed"),
    [
        (".1", ".05", 1, 291),
        (".1", ".01", 1, 342),
        (".01", ".01", 1, 4132),
        (".1", ".01", 10, 2128),
        (".05", ".001", 3, 1748),
    ],
)
def test_known_sizes_of_consistent_learners(a: str, b: str, dimension: int, needed: int) -> None:
    assert Realizable(dimension).needed(Decimal(a), Decimal(b)) == needed


@pytest.mark.parametrize(
    ("a", "b", "dimension", "needed"),
    [(".1", ".05", 1, 50923), (".1", ".01", 1, 56400), (".1", ".01", 10, 406294), (".2", ".05", 3, 28341)],
)
def test_known_sizes_of_risk_minimisers(a: str, b: str, dimension: int, needed: int) -> None:
    size = Agnostic(dimension)
    assert size.needed(Decimal(a), Decimal(b)) == needed
    with mpmath.workdps(40):
        tails = [4 * sauer(dimension, 2 * n) * mpmath.exp(-n * mpmath.mpf(a) ** 2 / 32) for n in (needed, needed - 1)]
        assert tails[0] <= mpmath.mpf(b) < tails[1]


SIZES = st.sampled_from([Realizable(1), Realizable(7), Agnostic(1), Agnostic(4)])


@settings(deadline=None, max_examples=40)
@given(SIZES, st.decimals("0.001", "0.9", places=3), st.decimals("1e-9", "0.5", places=9), st.integers(1, 10**6))
def test_both_ways_round_are_one(
    size: Realizable | Agnostic, accuracy: Decimal, failure: Decimal, samples: int
) -> None:
    needed = size.needed(accuracy, failure)
    assert size.accuracy(needed, failure) <= accuracy < size.accuracy(needed - 1, failure)
    assert size.accuracy(samples + 1, failure) <= size.accuracy(samples, failure)
    assert size.accuracy(samples, failure) <= size.accuracy(samples, failure / 2)


@given(st.integers(0, 10**9))
def test_a_callers_own_size_is_asked_for_the_least_accuracy_that_it_allows(samples: int) -> None:
    known = FromFunction(lambda accuracy, failure: math.ceil(100 / Fraction(accuracy)))
    found = known.accuracy(samples, Decimal("0.1"))
    assert known.needed(found, Decimal("0.1")) <= max(samples, 100)
    assert float(found) == pytest.approx(min(1, 100 / max(samples, 1)), rel=1e-6)


def test_failures_below_every_double_count() -> None:
    tiny = divided(Decimal("1e-60"), 10**18)
    assert Realizable(1).accuracy(10**9, divided(tiny, 10**250)) < Decimal("1e-5")
    assert Agnostic(10**6).accuracy(10**12, tiny) < Decimal("0.1")
    with pytest.raises(InfeasiblePlan, match="10\\^18"):
        Agnostic(1).needed(Decimal("1e-12"), tiny)
    with pytest.raises(ParameterError, match="accuracy"):
        Realizable(1).needed(Decimal("1"), tiny)
