"""The price of every leaf, against the definition of its currency at 60 digits: never below it, and close."""

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting.arithmetic.prices import Cost
from dpledger.accounting.composition import (
    Composition,
    DiscreteGaussianLaw,
    DiscreteLaplaceLaw,
    GaussianLaw,
    LaplaceLaw,
    PoissonSampled,
)
from dpledger.accounting.families.gaussian.sampled import rdp_both_ways
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, BoundedRange, PureDP
from dpledger.accounting.rules import cost
from dpledger.errors import CannotCertify, ParameterError
from dpledger.relations import Relation
from price_oracles import (
    Real,
    discrete_laplace,
    gaussian_mu,
    mp,
    randomized_response,
    real,
    renyi,
    renyi_laplace,
)

ADD = Relation.ADD_REMOVE
ORDERS = (Decimal("1.5"), Decimal(2), Decimal("9.35642719303"), Decimal(200))


def price(tree: Composition, relation: Relation = ADD) -> Cost:
    return cost(tree, relation, orders=ORDERS)


def known(number: Decimal | None) -> Decimal:
    assert number is not None
    return number


def assert_just_above(found: Decimal | None, exact: Real, *, within: str = "2e-11") -> None:
    """The price is at least the exact value, and the margin is all that it is above it."""
    upper = real(known(found))
    assert exact <= upper <= exact * (1 + real(within)) + real("1e-60")


EPSILONS = ["0.001", "0.1", "0.5", "1", "3", "10", "40"]


# ---- pure DP --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_a_pure_leaf_has_the_renyi_divergence_of_randomized_response(epsilon: str) -> None:
    found = price(PureDP(epsilon))
    assert (found.pure, found.delta) == (Decimal(epsilon), Decimal(0))
    for order in ORDERS:
        assert_just_above(found.rdp[order], renyi(*randomized_response(real(epsilon)), real(order)))


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_a_pure_leaf_is_no_closer_than_a_gaussian_of_its_mu(epsilon: str) -> None:
    e = real(epsilon)
    assert_just_above(price(PureDP(epsilon)).mu_squared, gaussian_mu(1 / (1 + mp.exp(e))) ** 2)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_rho_of_a_pure_leaf_bounds_every_order_and_is_reached_at_order_one(epsilon: str) -> None:
    e, rho = real(epsilon), known(price(PureDP(epsilon)).rho)
    assert_just_above(rho, e * mp.tanh(e / 2))
    for order in ("1.0001", "1.1", "2", "7", "50", "1000"):
        assert renyi(*randomized_response(e), real(order)) <= real(order) * real(rho)


def test_the_published_numbers_of_pure_dp() -> None:
    one, three = price(PureDP(1)), price(PureDP(3))
    assert known(one.rho) == pytest.approx(Decimal("0.4621172"), abs=Decimal("1e-7"))
    assert known(one.mu_squared).sqrt() == pytest.approx(Decimal("1.2320354"), abs=Decimal("1e-7"))
    assert known(three.rho) == pytest.approx(Decimal("2.7154448"), abs=Decimal("1e-7"))
    assert known(three.mu_squared).sqrt() == pytest.approx(Decimal("3.3406837"), abs=Decimal("1e-7"))


def test_an_approximate_leaf_carries_its_delta_beside_the_pure_prices() -> None:
    pure, approximate = price(PureDP(1)), price(ApproxDP(1, "1e-6"))
    assert approximate.delta == Decimal("0.000001")
    assert (approximate.pure, approximate.rho, approximate.rdp) == (pure.pure, pure.rho, pure.rdp)
    assert approximate.mu_squared is None
    assert price(ApproxDP(1)) == pure


@settings(max_examples=60, deadline=None)
@given(st.decimals("1e-60", "1e17", allow_nan=False, allow_infinity=False))
def test_no_epsilon_is_too_small_or_too_large_to_price(epsilon: Decimal) -> None:
    leaf = PureDP(Decimal(f"{epsilon:.10g}")) if epsilon > Decimal("1e-45") else PureDP("1e-50")
    found, laplace = price(leaf), price(LaplaceLaw(leaf.epsilon))
    for one in (found, laplace):
        assert 0 < known(one.rho) <= leaf.epsilon
        assert known(one.mu_squared) > 0
        assert all(0 < known(one.rdp[order]) <= leaf.epsilon for order in ORDERS)
    assert known(laplace.rho) <= known(found.rho)


# ---- Laplace --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", ["0.01", "0.5", "1", "3", "10"])
def test_a_laplace_leaf_has_the_divergence_of_its_densities(epsilon: str) -> None:
    found, e = price(LaplaceLaw(epsilon)), real(epsilon)
    for order in ORDERS[:3]:
        assert_just_above(found.rdp[order], renyi_laplace(e, real(order)))
    assert_just_above(found.rho, e - 1 + mp.exp(-e))
    assert_just_above(found.mu_squared, gaussian_mu(mp.exp(-e / 2) / 2) ** 2)


def test_the_published_numbers_of_laplace() -> None:
    found = price(LaplaceLaw(1))
    assert known(found.rho) == pytest.approx(Decimal("0.3678794"), abs=Decimal("1e-7"))
    assert known(found.mu_squared).sqrt() == pytest.approx(Decimal("1.0300640"), abs=Decimal("1e-7"))


@pytest.mark.parametrize(("scale", "shift"), [("2", 1), ("2", 2), ("0.5", 3), ("7.5", 4), ("3", 30)])
def test_a_discrete_laplace_leaf_has_the_divergence_of_its_masses(scale: str, shift: int) -> None:
    found = price(DiscreteLaplaceLaw(scale, shift))
    pair = discrete_laplace(real(scale), shift, 60 * int(float(scale) + 1))
    for order in ORDERS[:3]:
        assert_just_above(found.rdp[order], renyi(*pair, real(order)), within="1e-10")
    for text in ("1.001", "1.3", "4", "30"):
        assert renyi(*pair, real(text)) <= real(text) * real(known(found.rho))
    divergence = mp.fsum(p * mp.log(p / q) for p, q in zip(*pair, strict=True))
    assert_just_above(found.rho, divergence, within="1e-10")


@pytest.mark.parametrize(("scale", "parts"), [("2", (1, 1)), ("0.4", (1, 2, 3)), ("5", (2, 9))])
def test_a_vector_of_integers_costs_no_more_than_their_sum_on_one_axis(scale: str, parts: tuple[int, ...]) -> None:
    whole = price(DiscreteLaplaceLaw(scale, sum(parts)))
    each = [price(DiscreteLaplaceLaw(scale, part)) for part in parts]
    slack = Decimal("1.0000000001")
    assert sum(known(one.rho) for one in each) <= known(whole.rho) * slack
    assert sum(known(one.mu_squared) for one in each) <= known(whole.mu_squared) * slack
    for order in ORDERS:
        assert sum(known(one.rdp[order]) for one in each) <= known(whole.rdp[order]) * slack


def test_a_fine_grid_costs_what_the_continuum_costs() -> None:
    fine, ideal = price(DiscreteLaplaceLaw(10**6, 10**6)), price(LaplaceLaw(1))
    assert known(fine.rho) == pytest.approx(known(ideal.rho), rel=Decimal("1e-9"))
    assert known(price(DiscreteLaplaceLaw(1, 1)).rho) == known(price(PureDP(1)).rho)


def test_a_discrete_laplace_leaf_needs_a_whole_sensitivity() -> None:
    with pytest.raises(ParameterError, match=r"sensitivity: expected a whole number .* got .*1\.5"):
        price(DiscreteLaplaceLaw(1, "1.5"))


# ---- Gaussian -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("relation", "shift"),
    [(ADD, 1), (Relation.ZERO_OUT, 1), (Relation.REPLACE_ONE, 2), (Relation.LABEL_FLIP, 2)],
)
def test_a_gaussian_moves_by_one_contribution_or_by_two(relation: Relation, shift: int) -> None:
    found = price(GaussianLaw("3"), relation)
    exact = real(shift) ** 2 / 9
    assert found.pure is None
    assert_just_above(found.mu_squared, exact, within="1e-38")
    assert_just_above(found.rho, exact / 2)
    for order in ORDERS:
        assert_just_above(found.rdp[order], real(order) * exact / 2)


def test_gdp_zcdp_and_the_discrete_gaussian_are_priced_by_definition() -> None:
    assert price(GDP("0.5")).mu_squared == Decimal("0.25")
    assert price(GDP("0.5")).rho == Decimal("0.125")
    assert (price(ZCDP("0.1", "1e-9")).rho, price(ZCDP("0.1", "1e-9")).delta) == (Decimal("0.1"), Decimal("1e-9"))
    assert price(ZCDP("0.1")).rdp[Decimal(2)] == Decimal("0.2")
    found = price(DiscreteGaussianLaw(sigma=2, sensitivity=1))
    assert (found.pure, found.rho, found.mu_squared) == (None, Decimal("0.125"), None)


def test_a_bounded_range_is_pure_and_concentrated() -> None:
    found = price(BoundedRange(2))
    assert (found.pure, found.rho, found.mu_squared) == (Decimal(2), Decimal("0.5"), price(PureDP(1)).mu_squared)
    assert price(BoundedRange(40)).rho == price(PureDP(40)).rho


# ---- Renyi DP -------------------------------------------------------------------------------------------------------


def test_a_renyi_grid_is_interpolated_from_above_and_ends_where_it_ends() -> None:
    epsilon = real("0.7")
    grid = ("1.5", "2", "4", "16")
    divergences = [renyi(*randomized_response(epsilon), real(order)) for order in grid]
    leaf = RDP(grid, tuple(str(mp.nstr(value * (1 + real("1e-15")), 20)) for value in divergences))
    asked = tuple(Decimal(order) for order in ("1.2", "1.5", "1.7", "3", "9", "16", "17"))
    found = cost(leaf, ADD, orders=asked).rdp
    assert found[Decimal(17)] is None
    for order in asked[:-1]:
        assert renyi(*randomized_response(epsilon), real(order)) <= real(known(found[order]))
    assert known(found[Decimal("1.5")]) == leaf.epsilons[0]
    assert known(found[Decimal("1.2")]) <= leaf.epsilons[0] * Decimal("1.00000000001")


def test_orders_that_are_no_renyi_orders_are_refused() -> None:
    for order in ("1", "0.5", "NaN", "Infinity"):
        with pytest.raises(ParameterError, match="Renyi orders above 1"):
            cost(PureDP(1), ADD, orders=(Decimal(order),))


# ---- sampling -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", ["0.000001", "0.01", "0.3", "0.999"])
@pytest.mark.parametrize("epsilon", ["0.00001", "0.5", "3", "60"])
def test_a_sampled_pure_leaf_is_amplified(rate: str, epsilon: str) -> None:
    found = price(PoissonSampled(ApproxDP(epsilon, "1e-5"), rate=rate))
    assert_just_above(found.pure, mp.log(1 + real(rate) * mp.expm1(real(epsilon))))
    assert_just_above(found.delta, real(rate) * real("1e-5"))


@pytest.mark.parametrize(("rate", "truth"), [("0.1", "0.75"), ("0.5", "0.9")])
def test_amplification_covers_a_mechanism_that_is_enumerated(rate: str, truth: str) -> None:
    """A bit that is in the batch is answered truly with probability `truth`; otherwise a fair coin answers."""
    q, p = real(rate), real(truth)
    epsilon = -mp.log(2 * (1 - p))
    found = price(PoissonSampled(PureDP(mp.nstr(epsilon * (1 + real("1e-14")), 18)), rate=rate))
    mixture = [1 - q + q * 2 * p, 1 - q + q * 2 * (1 - p)]  # against the fair coin
    assert max(abs(mp.log(ratio)) for ratio in mixture) <= real(known(found.pure)) < epsilon


def test_a_sampled_gaussian_costs_its_certified_divergence_and_else_what_the_whole_costs() -> None:
    found, all_of_it = price(PoissonSampled(GaussianLaw(4), rate="0.15")), price(GaussianLaw(4))
    assert (found.pure, found.rho, found.mu_squared) == (None, all_of_it.rho, all_of_it.mu_squared)
    divergences = np.maximum(*rdp_both_ways(0.15, 4.0, np.array(ORDERS, dtype=np.float64)))
    for order, certified in zip(ORDERS, map(Decimal, divergences.tolist()), strict=True):
        assert certified <= known(found.rdp[order]) <= certified * Decimal("1.00000000001")
        whole = price(GaussianLaw(4)).rdp[order]
        assert known(found.rdp[order]) <= known(whole)


def test_a_sampled_gdp_leaf_costs_what_the_gaussian_of_its_mu_costs() -> None:
    assert price(PoissonSampled(GDP("0.25"), rate="0.1")) == price(PoissonSampled(GaussianLaw(4), rate="0.1"))


def test_amplification_is_only_for_the_relation_it_is_proved_for() -> None:
    gaussian, laplace = PoissonSampled(GaussianLaw(4), rate="0.1"), PoissonSampled(LaplaceLaw(1), rate="0.1")
    assert price(gaussian, Relation.ZERO_OUT) == price(gaussian)
    for tree, relation in [
        (laplace, Relation.ZERO_OUT),
        (laplace, Relation.REPLACE_ONE),
        (laplace, Relation.LABEL_FLIP),
    ]:
        with pytest.raises(CannotCertify, match=relation.value):
            price(tree, relation)


def test_everyone_in_the_batch_is_no_sampling() -> None:
    assert price(PoissonSampled(LaplaceLaw(1), rate=1)) == price(LaplaceLaw(1))
