"""What nodes cost in each currency: against exact fractions and mpmath."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import mpmath
import pytest
from hypothesis import given, strategies as st

from dpledger.accounting import composition, filters
from dpledger.accounting.arithmetic.prices import FREE, Cost
from dpledger.accounting.composition import (
    Composition,
    GaussianLaw,
    Group,
    LaplaceLaw,
    Parallel,
    PoissonSampled,
    Repeated,
    Sequence,
)
from dpledger.accounting.guarantees import GDP, ZCDP, ApproxDP, PureDP
from dpledger.accounting.pricing import costs
from dpledger.accounting.pricing.costs import cost, priced
from dpledger.errors import CannotCertify, ParameterError
from dpledger.relations import Relation

mp = mpmath.mp.clone()
mp.dps = 60
Real = Any  # an mpmath number

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
ORDERS = (Decimal("1.7"), Decimal(3), Decimal(40))
ULP = Fraction(1, 10**11)  # relative: of the twelve digits that are kept
long = st.integers(1, 10**30).map(lambda n: Decimal(n).scaleb(-29))  # of more digits than are kept
small = st.integers(1, 300).map(lambda n: Decimal(n) / 100)


def number(value: Decimal | Fraction) -> Real:
    exact = Fraction(value)
    return mp.mpf(exact.numerator) / exact.denominator


def is_least_above(found: Decimal | None, exact: Fraction) -> bool:
    assert found is not None
    return exact <= Fraction(found) <= exact * (1 + ULP)


# ---- nodes ----------------------------------------------------------------------------------------------------------


@given(rho=long, k=st.integers(2, 30))
def test_a_group_pays_the_square_of_its_size_in_zcdp_and_every_order(rho: Decimal, k: int) -> None:
    """Rounded up where the digits do not suffice: never below the exact product."""
    found = cost(Group(ZCDP(rho), k=k, relation=ADD), ADD, orders=ORDERS)
    assert found.pure is None is found.mu_squared
    assert is_least_above(found.rho, Fraction(rho) * k * k)
    for order in ORDERS:
        assert is_least_above(found.rdp[order], Fraction(rho) * k * k * Fraction(order))


@given(mu=small, epsilon=long, k=st.integers(2, 30))
def test_a_group_pays_the_square_in_gdp_and_its_size_in_epsilon(mu: Decimal, epsilon: Decimal, k: int) -> None:
    gaussian = cost(Group(GDP(mu), k=k, relation=ADD), ADD)
    assert is_least_above(gaussian.mu_squared, Fraction(mu) ** 2 * k * k)
    assert is_least_above(gaussian.rho, Fraction(mu) ** 2 * k * k / 2)
    pure = cost(Group(PureDP(epsilon), k=k, relation=ADD), ADD)
    assert is_least_above(pure.pure, Fraction(epsilon) * k)
    assert pure.delta == 0


@given(epsilon=small, k=st.integers(2, 12), places=st.integers(12, 20))
def test_the_delta_of_a_group_is_the_sum_of_its_steps(epsilon: Decimal, k: int, places: int) -> None:
    """Vadhan 2017, Lemma 2.2: delta (1 + e^epsilon + ... + e^{(k-1) epsilon})."""
    delta = Decimal(3).scaleb(-places)
    exact = number(delta) * mp.fsum(mp.exp(number(epsilon) * step) for step in range(k))
    tree = Group(ApproxDP(epsilon, delta), k=k, relation=ADD)
    if exact >= 1:
        with pytest.raises(CannotCertify, match="delta of 1 or more"):
            cost(tree, ADD)
        return
    found = cost(tree, ADD, orders=ORDERS)
    assert exact <= number(found.delta) <= exact * (1 + mp.mpf("1e-11"))
    assert is_least_above(found.pure, Fraction(epsilon) * k)
    assert (found.rho, found.mu_squared, *found.rdp.values()) == (None,) * 5


@pytest.mark.parametrize("part", [ApproxDP(1, "1e-6"), ZCDP("0.1"), GDP(1), GaussianLaw(2), PureDP("0.3")])
def test_a_group_of_one_costs_what_it_holds(part: Composition) -> None:
    assert cost(Group(part, k=1, relation=ADD), ADD, orders=ORDERS) == cost(part, ADD, orders=ORDERS)


def currencies(price: Cost) -> list[Decimal | None]:
    return [price.pure, price.delta, price.rho, price.mu_squared, *price.rdp.values()]


PARTS = (PureDP("0.9"), ApproxDP("0.2", "1e-5"), GaussianLaw(3), ZCDP("0.02"), GDP("1.1"), LaplaceLaw("0.4"))


@pytest.mark.parametrize("left", PARTS, ids=lambda part: part.kind)
@pytest.mark.parametrize("right", PARTS, ids=lambda part: part.kind)
def test_parallel_parts_cost_the_greater_and_a_sequence_the_sum(left: Composition, right: Composition) -> None:
    """In each currency by itself; a currency that one has no price in has none."""
    each = [currencies(priced(part, ADD, ORDERS)) for part in (left, right)]
    beside = currencies(priced(Parallel((left, right)), ADD, ORDERS))
    after = currencies(priced(Sequence((left, right)), ADD, ORDERS))
    twice = currencies(priced(Repeated(left, times=7), ADD, ORDERS))
    for a, b, greater, total, many in zip(*each, beside, after, twice, strict=True):
        if a is None or b is None:
            assert greater is None is total
        else:
            assert greater == max(a, b)
            assert is_least_above(total, Fraction(a) + Fraction(b))
        assert many is None if a is None else is_least_above(many, Fraction(a) * 7)


def test_only_what_was_started_of_a_sequence_and_of_runs_is_paid() -> None:
    parts = (PureDP("0.5"), PureDP("0.25"), PureDP(4))
    for done in range(4):
        assert cost(Sequence(parts, done=done), ADD).pure == sum((Decimal("0.5"), Decimal("0.25"), Decimal(4))[:done])
        assert cost(Repeated(PureDP("0.5"), times=3, done=done), ADD).pure == done * Decimal("0.5")
    assert cost(Sequence(parts, done=0), ADD, orders=ORDERS).rdp == dict.fromkeys(ORDERS, Decimal(0))
    with pytest.raises(ParameterError, match="at most 3"):
        cost(Repeated(PureDP(1), times=3, done=4), ADD)
    with pytest.raises(ParameterError, match="orders"):
        cost(PureDP(1), ADD, orders=(Decimal(1),))


@given(epsilon=small, percent=st.integers(1, 99))
def test_a_sample_has_the_amplified_epsilon_and_its_share_of_delta(epsilon: Decimal, percent: int) -> None:
    rate = Decimal(percent) / 100
    exact = mp.log1p(number(rate) * mp.expm1(number(epsilon)))
    subset = composition.SampledWithoutReplacement(PureDP(epsilon), population=100, batch=percent)
    shares = PoissonSampled(PureDP(epsilon), rate=rate), ADD
    for tree, relation in (shares, (subset, REPLACE)):
        found = cost(tree, relation).pure
        assert found is not None
        assert exact <= number(found) <= exact * (1 + mp.mpf("1e-11"))
    declared = cost(PoissonSampled(ApproxDP(epsilon, "1e-7"), rate=rate), ADD)
    assert declared.delta == Decimal("1e-7") * rate
    assert declared.pure == cost(shares[0], ADD).pure
    assert declared.mu_squared is None


def test_a_sample_of_everything_is_the_whole_and_others_need_a_theorem() -> None:
    part = ApproxDP(1, "1e-6")
    assert cost(PoissonSampled(part, rate=1), REPLACE) == cost(part, REPLACE)
    assert cost(composition.SampledWithoutReplacement(part, population=9, batch=9), REPLACE) == cost(part, REPLACE)
    with pytest.raises(CannotCertify, match="no theorem prices a Poisson sample"):
        cost(PoissonSampled(part, rate="0.5"), REPLACE)
    with pytest.raises(CannotCertify, match="under replace_one only"):
        cost(composition.SampledWithoutReplacement(part, population=9, batch=3), ADD)
    with pytest.raises(CannotCertify, match="under replace_one only"):
        cost(composition.Shuffled(PureDP(1), users=9), ADD)
    zcdp = cost(PoissonSampled(ZCDP("0.1"), rate="0.5"), ADD)
    assert zcdp.rho == Decimal("0.1")


def test_what_a_batch_costs_is_never_more_than_the_whole() -> None:
    """Shuffled by one user, or allocated to the one step there is, it is the whole; k of several steps cost k times."""
    assert cost(composition.Shuffled(LaplaceLaw(1), users=1), REPLACE) == cost(LaplaceLaw(1), REPLACE)
    assert cost(composition.RandomAllocation(GaussianLaw(2), steps=1), ADD) == cost(GaussianLaw(2), ADD)
    gaussian = cost(GaussianLaw(2), ADD, orders=ORDERS)
    once = cost(composition.RandomAllocation(GaussianLaw(2), steps=4), ADD, orders=ORDERS)
    for order in ORDERS:
        whole, shared = gaussian.rdp[order], once.rdp[order]
        assert whole is not None is not shared
        assert shared <= whole
    twice = cost(composition.RandomAllocation(GaussianLaw(2), steps=8, k=2), ADD, orders=ORDERS)
    assert twice.rdp == {order: 2 * (once.rdp[order] or 0) for order in ORDERS}
    all_steps = cost(composition.RandomAllocation(GaussianLaw(2), steps=2, k=2), ADD, orders=ORDERS)
    assert all_steps.rho == 2 * (gaussian.rho or 0)
    assert cost(composition.PostProcessed(GaussianLaw(2)), ADD) == cost(GaussianLaw(2), ADD)


def test_what_stays_is_no_more_than_what_the_price_leaves_and_than_what_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of what a filter counts beside a price, the less of both; nothing comes in that was not reserved."""
    left = {"a": Decimal(5), "b": Decimal(1)}
    counted = {"a": Decimal(3), "b": Decimal(2), "c": Decimal(9)}
    monkeypatch.setattr(filters, "settle", lambda *_: left)
    anything: Any = None
    assert costs._left(anything, anything, FREE, counted) == {"a": Decimal(3), "b": Decimal(1)}
    assert costs._left(anything, anything, FREE, {}) == left


def test_an_amount_too_large_to_write_has_no_coordinate() -> None:
    large = filters.TOO_LARGE
    assert costs._written({"a": large, "b": large - 1}) == {"b": large - 1}
