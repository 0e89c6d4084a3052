"""What nodes cost in each currency, and what a price shows of a claim: against exact fractions and mpmath."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import mpmath
import pytest
from hypothesis import given, strategies as st

from dpledger.accounting import filters
from dpledger.accounting.arithmetic.prices import FREE, Cost
from dpledger.accounting.composition import (
    Composition,
    Converted,
    GaussianLaw,
    Group,
    LaplaceLaw,
    Parallel,
    PoissonSampled,
    PostProcessed,
    RandomAllocation,
    Repeated,
    SampledWithoutReplacement,
    Sequence,
    Shuffled,
)
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, PureDP
from dpledger.accounting.pricing import costs
from dpledger.accounting.pricing.converting import keeps, orders_for, require_kept
from dpledger.accounting.pricing.costs import cost, priced
from dpledger.errors import CannotCertify, ParameterError
from dpledger.relations import Relation

mp = mpmath.mp.clone()
mp.dps = 60
Real = Any  # an mpmath number

ADD, REPLACE, FLIP = Relation.ADD_REMOVE, Relation.REPLACE_ONE, Relation.LABEL_FLIP
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
    subset = SampledWithoutReplacement(PureDP(epsilon), population=100, batch=percent)
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
    assert cost(SampledWithoutReplacement(part, population=9, batch=9), REPLACE) == cost(part, REPLACE)
    with pytest.raises(CannotCertify, match="no theorem prices a Poisson sample"):
        cost(PoissonSampled(part, rate="0.5"), REPLACE)
    with pytest.raises(CannotCertify, match="under replace_one only"):
        cost(SampledWithoutReplacement(part, population=9, batch=3), ADD)
    with pytest.raises(CannotCertify, match="under replace_one only"):
        cost(Shuffled(PureDP(1), users=9), ADD)
    zcdp = cost(PoissonSampled(ZCDP("0.1"), rate="0.5"), ADD)
    assert zcdp.rho == Decimal("0.1")


def test_what_a_batch_costs_is_never_more_than_the_whole() -> None:
    """Shuffled by one user, or allocated to the one step there is, it is the whole; k of several steps cost k times."""
    assert cost(Shuffled(LaplaceLaw(1), users=1), REPLACE) == cost(LaplaceLaw(1), REPLACE)
    assert cost(RandomAllocation(GaussianLaw(2), steps=1), ADD) == cost(GaussianLaw(2), ADD)
    gaussian = cost(GaussianLaw(2), ADD, orders=ORDERS)
    once = cost(RandomAllocation(GaussianLaw(2), steps=4), ADD, orders=ORDERS)
    for order in ORDERS:
        whole, shared = gaussian.rdp[order], once.rdp[order]
        assert whole is not None is not shared
        assert shared <= whole
    twice = cost(RandomAllocation(GaussianLaw(2), steps=8, k=2), ADD, orders=ORDERS)
    assert twice.rdp == {order: 2 * (once.rdp[order] or 0) for order in ORDERS}
    all_steps = cost(RandomAllocation(GaussianLaw(2), steps=2, k=2), ADD, orders=ORDERS)
    assert all_steps.rho == 2 * (gaussian.rho or 0)
    assert cost(PostProcessed(GaussianLaw(2)), ADD) == cost(GaussianLaw(2), ADD)


# ---- what a price shows ---------------------------------------------------------------------------------------------


def of_zcdp(rho: Real, delta: Real) -> Real:
    """The least over orders of the conversion of Canonne-Kamath-Steinke 2020."""

    def at(order: Real) -> Real:
        return order * rho + mp.log(1 / delta) / (order - 1) + mp.log1p(-1 / order) - mp.log(order) / (order - 1)

    rough = 1 + mp.sqrt(mp.log(1 / delta) / rho)
    return min(at(1 + (rough - 1) * mp.mpf(2) ** (mp.mpf(k) / 400)) for k in range(-400, 401))


def of_gdp(mu: Real, delta: Real) -> Real:
    def excess(epsilon: Real) -> Real:
        near, far = (mp.erfc((epsilon / mu + side * mu / 2) / mp.sqrt(2)) / 2 for side in (-1, 1))
        return near - mp.exp(epsilon) * far - delta

    low, high = mp.mpf(0), mp.mpf(60)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return high


def of_order(order: Real, divergence: Real, delta: Real) -> Real:
    return divergence + mp.log1p(-1 / order) - (mp.log(delta) + mp.log(order)) / (order - 1)


NOTHING: dict[str, Any] = {"pure": None, "rho": None, "mu_squared": None}
SHOWN: list[tuple[dict[str, Any], Callable[[Real], Real]]] = [
    ({"pure": Decimal("0.7")}, lambda _: mp.mpf("0.7")),
    ({"rho": Decimal("0.1")}, lambda delta: of_zcdp(mp.mpf("0.1"), delta)),
    ({"mu_squared": Decimal("0.3")}, lambda delta: of_gdp(mp.sqrt(mp.mpf("0.3")), delta)),
    ({"rdp": {Decimal(6): Decimal("0.4")}}, lambda delta: of_order(mp.mpf(6), mp.mpf("0.4"), delta)),
]


@pytest.mark.parametrize(("price", "epsilon"), SHOWN, ids=["pure", "rho", "mu", "rdp"])
@pytest.mark.parametrize("lost", ["0", "4e-7"])
def test_each_currency_shows_an_epsilon_and_no_less(
    price: dict[str, Any], epsilon: Callable[[Real], Real], lost: str
) -> None:
    """What the price itself fails at is taken off delta; with nothing left of it only a pure price shows anything."""
    found = Cost(**(NOTHING | price), delta=Decimal(lost))
    exact = epsilon(mp.mpf("1e-6") - mp.mpf(lost))
    above, below = (Decimal(mp.nstr(exact * (1 + mp.mpf(side) / 10**5), 20)) for side in (1, -1))
    assert keeps(found, ApproxDP(above, "1e-6"))
    assert not keeps(found, ApproxDP(below, "1e-6"))
    if Decimal(lost):
        assert keeps(found, ApproxDP(above * 1000, lost)) == (found.pure is not None)
        assert not keeps(found, ApproxDP(above * 1000, "3e-7"))


@pytest.mark.parametrize("number_", range(len(SHOWN)))
def test_the_best_of_all_currencies_counts(number_: int) -> None:
    """Beside prices that show nothing of use, and orders without a price."""
    large: dict[str, Any] = {
        "pure": Decimal(90),
        "rho": Decimal(90),
        "mu_squared": Decimal(900),
        "rdp": {Decimal(6): Decimal(90)},
    }
    price, epsilon = SHOWN[number_]
    found = Cost(**(large | price))
    exact = epsilon(mp.mpf("1e-6"))
    assert keeps(found, ApproxDP(Decimal(mp.nstr(exact * mp.mpf("1.00001"), 20)), "1e-6"))
    assert not keeps(found, ApproxDP(Decimal(mp.nstr(exact * mp.mpf("0.99999"), 20)), "1e-6"))
    nothing = Cost(pure=None, rho=None, mu_squared=None, rdp={Decimal(6): None})
    assert not keeps(nothing, ApproxDP(100, "0.1"))
    assert keeps(FREE, PureDP(0))


def test_a_claim_in_a_currency_asks_for_the_price_in_it() -> None:
    price = Cost(pure=Decimal("0.5"), rho=Decimal("0.125"), mu_squared=None, rdp={Decimal(2): Decimal("0.25")})
    for claim, kept in (
        (PureDP("0.5"), True),
        (PureDP("0.49"), False),
        (ZCDP("0.125"), True),
        (ZCDP("0.124"), False),
        (GDP(100), False),
        (RDP((2,), ("0.25",)), True),
        (RDP((2,), ("0.24",)), False),
        (RDP((2, 3), ("0.25", 9)), False),
    ):
        assert keeps(price, claim) is kept, claim
    failing = Cost(pure=Decimal("0.5"), rho=None, mu_squared=None, delta=Decimal("1e-9"))
    assert not keeps(failing, PureDP("0.5"))
    assert keeps(failing, ApproxDP("0.5", "1e-9"))


@pytest.mark.parametrize("inner", [ADD, REPLACE, FLIP])
@pytest.mark.parametrize("outer", [ADD, REPLACE, FLIP])
def test_a_conversion_covers_its_own_relation_and_a_flip_of_what_is_replaced(inner: Relation, outer: Relation) -> None:
    tree = Converted(PureDP(1), PureDP(1), relation=inner)
    price = Cost(pure=Decimal(1), rho=None, mu_squared=None)
    if inner is outer or (inner, outer) == (REPLACE, FLIP):
        require_kept(tree, outer, price)
        with pytest.raises(CannotCertify, match="no conversion"):
            require_kept(tree, outer, Cost(pure=Decimal("1.1"), rho=None, mu_squared=None))
    else:
        with pytest.raises(CannotCertify, match="use a group"):
            require_kept(tree, outer, price)


def test_orders_are_those_of_the_claim_or_else_of_the_parts() -> None:
    tree = Sequence((RDP((2, 4), (1, 1)), Repeated(RDP((3, 4), (1, 2)), times=2), PureDP(1)))
    assert orders_for(RDP((7,), (1,)), tree) == (Decimal(7),)
    assert orders_for(ApproxDP(1, "1e-6"), tree) == (Decimal(2), Decimal(3), Decimal(4))
    assert orders_for(ApproxDP(1, "1e-6"), PureDP(1)) == ()


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
