"""Prices where numbers are as small or as large as decimals may be: above the truth, rising, and never another's error.

Truths are evaluated by mpmath from the definition, in as many digits as cancel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting.arithmetic import conversions as convert, prices
from dpledger.accounting.composition import (
    Composition,
    ExponentialLaw,
    Group,
    PmfPair,
    PoissonSampled,
    PostProcessed,
    RandomizedResponseLaw,
    Repeated,
    SampledWithoutReplacement,
    Sequence,
    Shuffled,
    SparseVectorLaw,
    SparseVectorOutcome,
)
from dpledger.accounting.families.declared.pmf_price import pmf_rdp
from dpledger.accounting.families.discrete.price import discrete_laplace_rho
from dpledger.accounting.families.laplace.price import laplace_mu_squared, laplace_rdp, laplace_rho
from dpledger.accounting.families.sparse_vector.scales import sparse_vector_law
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, BoundedRange, PureDP
from dpledger.accounting.profile import compose
from dpledger.accounting.rules import check, cost
from dpledger.decimals import add, multiply, negative
from dpledger.errors import CannotCertify, ClaimTooSmall
from dpledger.relations import Relation
from price_oracles import Real, mp, real

pytestmark = pytest.mark.sliced

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
ORDERS = (Decimal("1." + "0" * 40 + "1"), Decimal("1.001"), Decimal(2), Decimal("64.5"), Decimal("1e17"))
CLOSE = "2e-11"  # relative: twelve digits and the margin

epsilons = st.builds(
    lambda digits, exponent: Decimal(digits).scaleb(exponent), st.integers(1, 10**6), st.integers(-60, 12)
).filter(lambda number: number < 10**18)
"""From 1e-60 to 1e18, every power of ten as likely."""


@contextmanager
def digits(count: int) -> Iterator[None]:
    before, mp.dps = mp.dps, count
    try:
        yield
    finally:
        mp.dps = before


def assert_covers(found: Decimal, truth: Real, *, within: str = CLOSE) -> None:
    """`found` is at least the truth, and hardly more (the last place that a decimal has is 1e-60)."""
    assert truth <= real(found), mp.nstr(truth, 20)
    assert real(found) <= truth * (1 + real(within)) + real("1e-60"), mp.nstr(truth, 20)


# ---- the Gaussian price of a pure guarantee -------------------------------------------------------------------------


def tail_of(mu: Real) -> Real:
    """log P(N(0,1) > mu/2), also where the probability is below every float."""
    x = mu / 2
    if x < 30:
        return mp.log(mp.erfc(x / mp.sqrt(2)) / 2)
    fraction = x
    for k in range(400, 0, -1):
        fraction = x + k / fraction
    return -x * x / 2 - mp.log(2 * mp.pi) / 2 - mp.log(fraction)


def assert_is_the_mu_of(found: Decimal, log_mass: Real) -> None:
    """mu^2 is where the tail at mu/2 is e^log_mass: not less, and not more by 1e-5 (a Mills bound beyond 20)."""
    mu = mp.sqrt(real(found))
    assert tail_of(mu) <= log_mass
    assert tail_of(mu * (1 - real("1e-5")) - real("1e-29")) >= log_mass  # a square has 60 places


@given(epsilons)
@settings(max_examples=150, deadline=None)
def test_a_pure_guarantee_has_the_mu_of_its_vertex_at_every_size(epsilon: Decimal) -> None:
    with digits(200):
        e = real(epsilon)
        assert_is_the_mu_of(convert.mu_squared_of_pure(epsilon), -e - mp.log1p(mp.exp(-e)) if e < 10**6 else -e)
        assert_is_the_mu_of(laplace_mu_squared(epsilon), -e / 2 - mp.log(2))


@pytest.mark.parametrize("epsilon", ["1e9", "2.3e18", "2.4e18", "1e19", "1e40", "1e78"])
def test_beyond_the_exponents_of_decimals_the_price_goes_on_to_rise(epsilon: str) -> None:
    """About 8 epsilon: an epsilon that the price of a discrete Laplace may have."""
    for price in (
        convert.mu_squared_of_pure(Decimal(epsilon)),
        laplace_mu_squared(multiply(Decimal(epsilon), 2)),
    ):
        assert real("7.99") * real(epsilon) <= real(price) <= real("8.001") * real(epsilon)


RISING: dict[str, Callable[[Decimal], Decimal]] = {
    "zcdp_of_pure": convert.zcdp_of_pure,
    "rdp_of_pure": lambda epsilon: convert.rdp_of_pure(epsilon, Decimal("2.5")),
    "mu_squared_of_pure": convert.mu_squared_of_pure,
    "laplace_rho": laplace_rho,
    "laplace_rdp": lambda epsilon: laplace_rdp(epsilon, Decimal("2.5")),
    "laplace_mu_squared": laplace_mu_squared,
    "discrete_laplace_rho": lambda epsilon: discrete_laplace_rho(Decimal(1).scaleb(-12), multiply_up(epsilon)),
    "amplified": lambda epsilon: prices.amplified_epsilon(epsilon, Decimal("0.01")),
    "zcdp_of_gdp": convert.zcdp_of_gdp,
    "epsilon_of_zcdp": lambda rho: convert.epsilon_of_zcdp(rho, Decimal("1e-6")),
    "delta_of_gdp": lambda mu: convert.delta_of_gdp(mu, Decimal(2)),
    "epsilon_of_gdp": lambda mu: convert.epsilon_of_gdp(mu, Decimal("1e-6")),
    "zcdp_within": lambda epsilon: convert.zcdp_within(epsilon, Decimal("1e-6")),
}


def multiply_up(epsilon: Decimal) -> Decimal:
    """A whole sensitivity that rises with epsilon."""
    return Decimal(int(multiply(epsilon, 10**6)) + 1)


@pytest.mark.parametrize("name", RISING)
def test_a_price_rises_with_what_it_is_the_price_of(name: str) -> None:
    """Over all powers of ten and a little beside each, but for the last of twelve digits."""
    of = RISING[name]
    most = 17 if name not in ("zcdp_of_gdp", "delta_of_gdp", "epsilon_of_gdp") else 8
    places = sorted(Decimal(d).scaleb(e) for d in ("1", "1.0000001", "4.7") for e in range(-55, most))
    for (less, low), (more, high) in pairwise((place, of(place)) for place in places):
        assert multiply(low, 1 - Decimal("1e-11")) <= high, (less, low, more, high)


@given(epsilons, st.sampled_from(ORDERS))
@settings(max_examples=100, deadline=None)
def test_pure_and_laplace_prices_have_their_definition_at_every_size(epsilon: Decimal, order: Decimal) -> None:
    with digits(500):
        e, a = real(epsilon), real(order)
        assert_covers(convert.zcdp_of_pure(epsilon), e * mp.tanh(e / 2))
        assert_covers(laplace_rho(epsilon), e + mp.expm1(-e))
        lost = mp.log1p(mp.exp(-e)) - mp.log1p(mp.exp(-(2 * a - 1) * e))
        assert_covers(convert.rdp_of_pure(epsilon, order), e - lost / (a - 1))
        falling = (a - 1) / a * mp.exp(-(2 * a - 1) * e)
        assert_covers(laplace_rdp(epsilon, order), e + (mp.log1p(falling) + mp.log(a / (2 * a - 1))) / (a - 1))


# ---- a bounded range ------------------------------------------------------------------------------------------------


def probit(p: Real) -> Real:
    return -mp.sqrt(2) * mp.erfinv(1 - 2 * p)


@pytest.mark.parametrize("eta", ["1e-6", "0.1", "1", "4", "11", "40"])
def test_a_bounded_range_has_the_mu_of_its_worst_pair(eta: str) -> None:
    """The pairs with two outcomes whose log odds differ by eta: the worst of them is in the middle."""
    with digits(80):
        e = real(eta)
        worst = mp.mpf(0)
        for step in range(-40, 41):
            log_odds = e * step / 20
            p, q = 1 / (1 + mp.exp(-log_odds - e / 2)), 1 / (1 + mp.exp(-log_odds + e / 2))
            worst = max(worst, probit(p) - probit(q))
        for leaf in (BoundedRange(eta), ExponentialLaw(eta)):
            found = cost(leaf, ADD).mu_squared
            assert found is not None
            assert_covers(found, worst**2, within="1e-10")
            assert found < convert.mu_squared_of_pure(Decimal(eta))


def test_a_response_of_half_the_range_reaches_the_price() -> None:
    assert cost(BoundedRange(3), ADD).mu_squared == cost(PureDP("1.5"), ADD).mu_squared


# ---- groups of what has an outcome ----------------------------------------------------------------------------------


def sparse_vector(outcome: SparseVectorOutcome | None) -> SparseVectorLaw:
    law = sparse_vector_law(Decimal(1), Decimal("1e-9"), 3, "kov")
    values: dict[str, Any] = {name: getattr(law, name) for name in law.__dataclass_fields__}
    return SparseVectorLaw(**{**values, "outcome": outcome})


def test_a_group_takes_its_delta_from_the_cap_and_its_epsilon_from_the_outcome() -> None:
    cheap = sparse_vector(SparseVectorOutcome(closed_epochs=(), open_epoch=1, halted=False))
    planned, settled = (cost(Group(law, k=2, relation=ADD), REPLACE) for law in (sparse_vector(None), cheap))
    one = cost(cheap, ADD).pure
    assert one is not None
    assert settled.delta == planned.delta == prices.group_delta(Decimal(1), Decimal("1e-9"), 2)
    assert settled.pure == multiply(one, 2)
    assert planned.pure == 2


def test_a_group_of_several_leaves_too() -> None:
    cheap = sparse_vector(SparseVectorOutcome(closed_epochs=(), open_epoch=1, halted=False))
    inside = Sequence((PostProcessed(cheap), PureDP("0.5")))
    assert cost(Group(inside, k=3, relation=ADD), ADD).delta == prices.group_delta(Decimal("1.5"), Decimal("1e-9"), 3)


# ---- nothing but our own errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize(
    "tree",
    [
        PoissonSampled(GDP(0), rate="0.5"),
        PoissonSampled(Repeated(GDP(0), times=3), rate="1e-60"),
        PoissonSampled(Sequence((GDP(0), PostProcessed(GDP(0)))), rate="0.5"),
        SampledWithoutReplacement(GDP(0), population=10, batch=3),
    ],
    ids=lambda tree: str(tree)[:60],
)
def test_a_sample_of_nothing_costs_nothing(tree: Composition, order: Decimal) -> None:
    relation = REPLACE if isinstance(tree, SampledWithoutReplacement) else ADD
    assert cost(tree, relation, orders=(order,)).rdp[order] == 0


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("rare", ["0.3", "1e-9", "1e-60"])
def test_a_listed_pair_has_its_divergence_at_every_order(rare: str, order: Decimal) -> None:
    p = Decimal(rare)
    left, right = (p, add(Decimal(1), negative(p))), (Decimal("0.5"), Decimal("0.5"))
    with digits(400):
        a = real(order)

        def divergence(one: tuple[Decimal, ...], other: tuple[Decimal, ...]) -> Real:
            logs = [a * mp.log(real(x)) + (1 - a) * mp.log(real(y)) for x, y in zip(one, other, strict=True)]
            return (max(logs) + mp.log(mp.fsum(mp.exp(x - max(logs)) for x in logs))) / (a - 1)

        found = pmf_rdp(left, right, order)
        assert_covers(found, max(divergence(left, right), divergence(right, left)))
    assert found <= cost(PmfPair(left, right), ADD).pure  # type: ignore[operator]


@pytest.mark.parametrize("mu", ["0." + "1" * 31, "0." + "7" * 60, "0.1", "999999999999999999.9"])
def test_a_claim_with_many_digits_is_held_against_its_parts_like_any_other(mu: str) -> None:
    check(GDP(mu), GDP(mu), ADD)
    with pytest.raises(ClaimTooSmall, match=r"claimed mu\^2 "):
        check(GDP(mu), Sequence((GDP(mu), GDP(mu))), ADD)


@pytest.mark.parametrize("users", [2, 10**9])
@pytest.mark.parametrize("leaf", [PureDP("1e-45"), RandomizedResponseLaw("9e-10", k=3)], ids=str)
def test_shuffled_answers_that_tell_next_to_nothing_have_a_price_and_no_profile(leaf: Composition, users: int) -> None:
    tree = Shuffled(leaf, users=users)
    assert cost(tree, REPLACE, orders=(Decimal(2),)).pure is not None
    with pytest.raises(CannotCertify, match="local epsilons"):
        compose(tree, relation=REPLACE).epsilon("1e-30")


def test_shuffled_ranges_of_many_digits_have_a_profile() -> None:
    bounds = compose(Shuffled(BoundedRange("1e-8"), users=9), relation=REPLACE).epsilon("1e-30")
    assert 0 < bounds.upper <= 1.001e-8


def test_renyi_orders_that_no_float_tells_from_one_are_refused_in_words() -> None:
    with pytest.raises(CannotCertify, match="state one above"):
        compose(RDP(("1." + "0" * 58 + "1",), (1,)), relation=ADD).epsilon("1e-6")


@pytest.mark.parametrize("times", [1, 5])
def test_a_zcdp_that_may_fail_nearly_always_promises_nothing(times: int) -> None:
    """1 - delta is less than floats tell from 0."""
    bounds = compose(Repeated(ZCDP("0.1", "0." + "9" * 25), times=times), relation=ADD).epsilon("0.5")
    assert (bounds.lower, bounds.upper) == (0, float("inf"))


@given(st.integers(1, 10**11), st.integers(2, 50), st.integers(10**11, 10**12))
def test_a_group_of_any_rho_loses_its_square_at_every_order(digits: int, k: int, order: int) -> None:
    """Also where the product has more digits than a price: rounded up, by a unit of the twelfth digit at most."""
    rho, at = Decimal(digits).scaleb(-10), Decimal(order).scaleb(-10)
    found = cost(Group(ZCDP(rho), k=k, relation=ADD), ADD, orders=(at,))
    exact, price = multiply(multiply(rho, k * k), at), found.rdp[at]
    assert found.rho == multiply(rho, k * k)
    assert price is not None
    assert exact <= price <= multiply(exact, Decimal(1 + 2e-11))
