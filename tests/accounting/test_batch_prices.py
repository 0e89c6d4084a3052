"""Renyi and zCDP prices of secret batches and shuffles: never below the divergence, close where the pair is known."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from amplification_oracles import allocated, randomised_response, shuffled
from dpledger.accounting.composition import (
    Composition,
    DiscreteGaussianLaw,
    DiscreteLaplaceLaw,
    GaussianLaw,
    LaplaceLaw,
    PmfPair,
    PoissonSampled,
    PostProcessed,
    RandomAllocation,
    RandomizedResponseLaw,
    Repeated,
    SampledWithoutReplacement,
    Sequence,
    Shuffled,
)
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, PureDP
from dpledger.accounting.kinds import JointGaussian
from dpledger.accounting.laws.concentration import rho_of
from dpledger.accounting.laws.draws import Poisson, Shuffle
from dpledger.accounting.laws.finite import FiniteLoss
from dpledger.accounting.pricing.batches import batch_rdp, batch_rho, one_leaf
from dpledger.accounting.pricing.pld import Drawn
from dpledger.accounting.rules import cost
from dpledger.relations import Relation
from price_oracles import Real, discrete_laplace, mp, randomized_response, real, renyi

pytestmark = pytest.mark.sliced

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
ORDERS = (Decimal("1.2"), Decimal(2), Decimal("5.5"), Decimal(40))
TWO = (Decimal(2),)
Pair = tuple[list[Real], list[Real]]


def sampled(pair: Pair, rate: str) -> Pair:
    """A Poisson sample of a pair: with the unit, without it."""
    q = real(rate)
    left, right = pair
    return [(1 - q) * b + q * a for a, b in zip(left, right, strict=True)], right


def worst(pair: Pair, order: Real) -> Real:
    """The larger divergence of both directions."""
    return max(renyi(pair[0], pair[1], order), renyi(pair[1], pair[0], order))


def discrete_gaussian(sigma: str, shift: int) -> Pair:
    masses = {k: mp.exp(-(mp.mpf(k) ** 2) / (2 * real(sigma) ** 2)) for k in range(-300, 301)}
    whole = sum(masses.values())
    inside = range(-200, 201)
    return [masses[k - shift] / whole for k in inside], [masses[k] / whole for k in inside]


LISTED = PmfPair(("0.6", "0.3", "0.1"), ("0.2", "0.3", "0.5"))
POISSON: list[tuple[Composition, Pair]] = [
    (PureDP(1), randomized_response(real("1"))),
    (LISTED, ([real("0.6"), real("0.3"), real("0.1")], [real("0.2"), real("0.3"), real("0.5")])),
    (DiscreteLaplaceLaw("1.5", 2), discrete_laplace(real("1.5"), 2, 90)),
]


@pytest.mark.parametrize("rate", ["0.01", "0.3", "0.9"])
@pytest.mark.parametrize(("leaf", "pair"), POISSON, ids=lambda one: getattr(one, "kind", ""))
def test_a_poisson_sample_costs_its_own_divergence(leaf: Composition, pair: Pair, rate: str) -> None:
    found = cost(PoissonSampled(leaf, rate=rate), ADD, orders=ORDERS)
    supremum = real(0)
    for order, price in found.rdp.items():
        exact = worst(sampled(pair, rate), real(order))
        assert price is not None
        assert exact <= real(price) <= exact * (1 + mp.mpf("1e-9"))
    for order in (1 + mp.mpf("1e-6"), *(mp.mpf("1.15") ** k for k in range(1, 60))):
        supremum = max(supremum, worst(sampled(pair, rate), order) / order)
    assert found.rho is not None
    assert supremum <= real(found.rho) <= supremum * mp.mpf("1.02")


@pytest.mark.parametrize("rate", ["0.01", "0.3"])
@pytest.mark.parametrize(("sigma", "shift"), [("3", 1), ("1", 1), ("8", 5)])
def test_a_sampled_discrete_gaussian_costs_little_more_than_its_divergence(sigma: str, shift: int, rate: str) -> None:
    tree = PoissonSampled(DiscreteGaussianLaw(sigma, shift), rate=rate)
    pair = sampled(discrete_gaussian(sigma, shift), rate)
    whole = cost(DiscreteGaussianLaw(sigma, shift), ADD, orders=ORDERS)
    for order, price in cost(tree, ADD, orders=ORDERS).rdp.items():
        full = whole.rdp[order]
        assert price is not None
        assert full is not None
        exact = worst(pair, real(order))
        assert exact <= real(price)
        assert price <= full
        if order == 2:
            assert real(price) <= exact * mp.mpf("1.05")


@pytest.mark.parametrize("rate", ["0.05", "0.5"])
@pytest.mark.parametrize("sigma", ["1.5", "4"])
def test_gaussians_without_replacement(sigma: str, rate: str) -> None:
    """One unit at -1 or at +1, all others at 0, in a batch with a chance of `rate`: a pair that is attained."""
    noise, y = real(sigma), real(rate)
    tree = SampledWithoutReplacement(GaussianLaw(sigma), population=100, batch=int(100 * Decimal(rate)))

    def density(centre: int, x: Real) -> Real:
        return (1 - y) * mp.npdf(x, 0, noise) + y * mp.npdf(x, centre, noise)

    for order, price in cost(tree, REPLACE, orders=(Decimal("1.5"), Decimal(6))).rdp.items():
        a = real(order)
        moment = mp.quad(
            lambda x, a=a: density(1, x) ** a * density(-1, x) ** (1 - a), mp.linspace(-9 * noise, 9 * noise, 7)
        )
        assert price is not None
        assert 0 < mp.log(moment) / (a - 1) <= real(price)
        poisson = cost(PoissonSampled(GaussianLaw(Decimal(sigma) / 2), rate=rate), ADD, orders=(order,)).rdp[order]
        assert poisson is not None
        assert poisson <= price <= Decimal("2.001") * poisson


def test_shuffled_responses_of_every_dataset_cost_no_more() -> None:
    randomiser = randomised_response(Fraction(3), 3)
    tree = Shuffled(RandomizedResponseLaw("1.0986122887", 3), users=4)
    found = cost(tree, REPLACE, orders=ORDERS)
    for others in product(range(3), repeat=3):
        laws = [shuffled(randomiser, (value, *others)) for value in range(3)]
        for left, right in product(laws, repeat=2):
            outcomes = sorted(set(left) | set(right))
            pair = [real(left.get(o, 0)) for o in outcomes], [real(right.get(o, 0)) for o in outcomes]
            for order, price in found.rdp.items():
                assert price is not None
                divergence = renyi(*pair, real(order)) if left != right else real(0)
                assert divergence <= real(price) * (1 + mp.mpf("1e-8"))
                assert found.rho is not None
                assert divergence / real(order) <= real(found.rho) * (1 + mp.mpf("1e-8"))


def test_an_allocated_response_costs_its_average() -> None:
    left, right = {0: Fraction(3, 4), 1: Fraction(1, 4)}, {0: Fraction(1, 4), 1: Fraction(3, 4)}
    tree = RandomAllocation(PmfPair(("0.75", "0.25"), ("0.25", "0.75")), steps=3)
    whole = cost(PmfPair(("0.75", "0.25"), ("0.25", "0.75")), ADD, orders=ORDERS)
    with_unit = allocated(left, right, 3)
    without = {outcome: right[outcome[0]] * right[outcome[1]] * right[outcome[2]] for outcome in with_unit}
    pair = [real(with_unit[o]) for o in with_unit], [real(without[o]) for o in with_unit]
    for order, price in cost(tree, ADD, orders=ORDERS).rdp.items():
        full = whole.rdp[order]
        assert price is not None
        assert full is not None
        assert worst(pair, real(order)) <= real(price) * (1 + mp.mpf("1e-9"))
        assert price < full


def test_several_gaussians_on_one_batch_are_one() -> None:
    parts = Sequence((Repeated(GaussianLaw(4), times=3), PostProcessed(GDP("0.25"))))
    assert one_leaf(parts, ADD) == JointGaussian(Fraction(1, 4))
    together, alone = (cost(PoissonSampled(of, rate="0.1"), ADD, orders=ORDERS) for of in (parts, GaussianLaw(2)))
    for order in ORDERS:
        assert together.rdp[order] == pytest.approx(alone.rdp[order], rel=Decimal("1e-9"))
    assert one_leaf(Sequence((GaussianLaw(1), LaplaceLaw(1))), ADD) is None
    assert one_leaf(Repeated(LaplaceLaw(1), times=2), ADD) is None


def test_what_has_no_price_of_its_own() -> None:
    for leaf in (ZCDP("0.1"), RDP((2,), ("0.1",))):
        assert one_leaf(leaf, ADD) is None
    unknown = Drawn(ApproxDP(1, "1e-6"), Poisson(Decimal("0.1")))
    assert (batch_rdp(unknown, ADD, TWO), batch_rho(unknown, ADD)) == ({Decimal(2): None}, None)
    assert batch_rdp(Drawn(GaussianLaw(1), Shuffle(10)), REPLACE, TWO) == {Decimal(2): None}
    beyond = Drawn(PureDP(50), Shuffle(10))  # what clones are listed for
    assert batch_rdp(beyond, REPLACE, TWO) == {Decimal(2): None}


@pytest.mark.parametrize("rate", ["0.5", "0.01", "1e-6"])
@pytest.mark.parametrize("epsilon", ["1e-4", "0.5", "4"])
def test_the_zcdp_price_of_a_sample_is_the_supremum_over_orders(epsilon: str, rate: str) -> None:
    """Above D_a / a at orders from 1 on, in both directions, and above the largest of these by less than 1 in 200."""
    pair = sampled(randomized_response(real(epsilon)), rate)
    found = batch_rho(Drawn(RandomizedResponseLaw(epsilon), Poisson(Decimal(rate))), ADD)
    assert found is not None
    with mp.workdps(50):
        orders = [1 + mp.mpf(10) ** (mp.mpf(k) / 20) for k in range(-160, 120)]
        largest = max(worst(pair, order) / order for order in orders)
    assert largest <= real(found) <= largest * (1 + mp.mpf("5e-3")) + mp.mpf("1e-15")


def test_a_loss_that_cannot_be_looked_at_everywhere_has_a_price() -> None:
    """Orders far out need a quadrature beyond the limit of work; there the largest loss bounds what is left."""
    price = cost(PoissonSampled(LaplaceLaw("0.5"), rate="0.000001"), ADD)
    assert price.rho is not None
    assert price.pure is not None
    assert price.rho <= price.pure


@given(data=st.data(), epsilon=st.sampled_from([0.1, 0.5, 1.0, 3.0]), count=st.integers(2, 7))
@settings(max_examples=60, deadline=None)
def test_what_is_left_at_infinity_costs_no_less_than_what_it_stands_for(
    data: st.DataObject, epsilon: float, count: int
) -> None:
    """A pair of an (epsilon, 0)-DP mechanism of which parts were moved to infinity, by a rounding or half of it."""
    shares = data.draw(st.lists(st.floats(0.01, 1), min_size=count, max_size=count))
    ratios = data.draw(st.lists(st.floats(-epsilon / 2, epsilon / 2), min_size=count, max_size=count))
    right = np.array(shares) / sum(shares)
    left = right * np.exp(ratios)
    left /= left.sum()  # moves each loss by epsilon/2 at most
    losses = np.log(left / right)
    moved = np.array(data.draw(st.lists(st.sampled_from([0.0, 1e-12, 1e-3, 0.5]), min_size=count, max_size=count)))
    moved[0] = max(moved[0], 1e-12)
    kept, infinite = left * (1 - moved), float((left * moved).sum())
    within = FiniteLoss(losses, kept, np.full(count, 1e-15), 1e-14, infinite, 1e-14).within(epsilon)
    orders = np.array([1.0001, 1.01, 1.5, 2.0, 8.0, 100.0])
    highest = losses.max()
    moments = [np.log((left * np.exp((order - 1) * (losses - highest))).sum()) for order in orders]
    exact = highest + np.array(moments) / (orders - 1)
    assert (within.rdp_upper(orders) >= exact - 1e-12).all()
    assert rho_of(within) >= (exact / orders).max() - 1e-12
    assert within.infinite_mass == 0


def test_a_sample_whose_moments_cannot_be_looked_at_costs_its_largest_loss() -> None:
    """K(c) <= c times the largest loss, so rho is at most that."""
    sampled = PoissonSampled(LaplaceLaw("3070.5"), rate="0.1")
    price = cost(sampled, Relation.ADD_REMOVE)
    assert price.rho is not None
    assert 1000 <= price.rho <= Decimal("3070.6")
