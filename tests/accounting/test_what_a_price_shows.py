"""What a price shows of a claim, currency by currency: against mpmath."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import mpmath
import pytest

from dpledger.accounting.arithmetic.prices import FREE, Cost
from dpledger.accounting.composition import Converted, Repeated, Sequence
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, PureDP
from dpledger.accounting.pricing.converting import keeps, orders_for, require_kept
from dpledger.errors import CannotCertify
from dpledger.relations import Relation

mp = mpmath.mp.clone()
mp.dps = 60
Real = Any  # an mpmath number

ADD, REPLACE, FLIP = Relation.ADD_REMOVE, Relation.REPLACE_ONE, Relation.LABEL_FLIP


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
