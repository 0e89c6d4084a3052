"""All Renyi prices of a law in one call: each is its own, whichever others are asked for with it, and formed once."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import dpledger as dpl
from dpledger.accounting.arithmetic.floating import Array
from dpledger.accounting.composition import GaussianLaw, LaplaceLaw, PoissonSampled
from dpledger.accounting.families.discrete.gaussian_loss import DiscreteGaussianLoss
from dpledger.accounting.families.gaussian import sampled_price
from dpledger.accounting.families.gaussian.sampled import SampledGaussianLoss, rdp_both_ways
from dpledger.accounting.families.gaussian.sampled_price import MOST_PRICE_POINTS, divergences_upper
from dpledger.accounting.families.laplace import sampled
from dpledger.accounting.families.laplace.sampled import SampledLaplaceLoss
from dpledger.accounting.families.leaf_rules import Divergences
from dpledger.accounting.laws.law import Direction, excess
from dpledger.accounting.pricing import batches
from dpledger.accounting.pricing.costs import priced
from dpledger.accounting.pricing.pld import Drawn
from dpledger.relations import Relation
from price_oracles import Real, mp, real

pytestmark = pytest.mark.sliced

ADD = Relation.ADD_REMOVE
RATES = st.floats(-8, -0.02).map(lambda x: 10**x)
SIGMAS = st.floats(-2.5, 4).map(math.exp)
SOME_ORDERS = st.lists(st.floats(-2, 3).map(lambda x: 1 + 10**x), min_size=1, max_size=20)


@settings(deadline=None, max_examples=60)
@given(RATES, SIGMAS, SOME_ORDERS, st.data())
def test_a_price_does_not_depend_on_the_orders_beside_it(
    rate: float, sigma: float, orders: list[float], data: st.DataObject
) -> None:
    """Bit for bit: some of the orders, in any sequence, once or more often."""
    together = rdp_both_ways(rate, sigma, np.array(orders))
    chosen = data.draw(st.lists(st.integers(0, len(orders) - 1), min_size=1, max_size=6))
    again = rdp_both_ways(rate, sigma, np.array(orders)[chosen])
    for all_of_them, some in zip(together, again, strict=True):
        assert all_of_them[chosen].tobytes() == some.tobytes()


@settings(deadline=None, max_examples=100)
@given(st.floats(-3, 0.65).map(math.exp), st.integers(1, 9), SOME_ORDERS, st.data())
def test_nor_does_that_of_a_discrete_gaussian(
    sigma: float, shift: int, orders: list[float], data: st.DataObject
) -> None:
    """Sums over windows, one around the centre of each order; and each is what is known of its order alone."""
    law, asked = DiscreteGaussianLoss(sigma, shift), np.array(orders)
    chosen = data.draw(st.lists(st.integers(0, len(orders) - 1), min_size=1, max_size=6))
    assert law.rdp_upper(asked)[chosen].tobytes() == law.rdp_upper(asked[chosen]).tobytes()
    alone = [law.cumulants(c) for c in excess(asked).tolist()]
    assert law.log_moments(excess(asked)).tolist() == [at.value + at.error for at in alone]


@settings(deadline=None, max_examples=60)
@given(RATES, st.floats(-7, 3).map(math.exp), SOME_ORDERS, st.sampled_from(["add", "remove"]), st.data())
def test_nor_does_that_of_sampled_laplace_noise(
    rate: float, epsilon: float, orders: list[float], direction: Direction, data: st.DataObject
) -> None:
    """Orders whose rules have as many panels share a grid, and no sum."""
    law, asked = SampledLaplaceLoss(rate, epsilon, direction), np.array(orders)
    chosen = data.draw(st.lists(st.integers(0, len(orders) - 1), min_size=1, max_size=6))
    together = law.rdp_upper(asked)
    assert together[chosen].tobytes() == law.rdp_upper(asked[chosen]).tobytes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampled, "TOGETHER", 1)
        assert together.tobytes() == law.rdp_upper(asked).tobytes()


@pytest.mark.parametrize("together", [1, 1 << 20], ids=["each by itself", "all in one group"])
def test_a_price_does_not_depend_on_how_points_are_grouped(together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = np.arange(2.0, 65.0)
    usual = rdp_both_ways(0.01, 0.4, orders)
    monkeypatch.setattr(sampled_price, "TOGETHER", together)
    for found, other in zip(usual, rdp_both_ways(0.01, 0.4, orders), strict=True):
        assert found.tobytes() == other.tobytes()


def on_one_grid(rate: float, sigma: float, orders: Array) -> Array:
    """A twin: the bounds of K of all orders from one grid, which the largest of them chooses."""
    return SampledGaussianLoss(rate, sigma, "remove").log_moments(excess(orders))


def test_a_grid_that_orders_share_does_not_do() -> None:
    several = on_one_grid(0.01, 1.0, np.array([3.0, 64.0]))
    assert several[0] != on_one_grid(0.01, 1.0, np.array([3.0]))[0]


def moment(rate: str, sigma: str, w: float, step: Real) -> Real:
    """I(w), summed with 30 digits from far left to far right."""
    q, s, power = real(rate), real(sigma), mp.mpf(w)
    low, high = min(power, 0) * q - 14 * s, max(power, 1) + 14 * s
    points = (low + k * step for k in range(int((high - low) / step)))
    return step * mp.fsum(mp.npdf(x, 0, s) * (1 - q + q * mp.exp((x - mp.mpf(1) / 2) / s**2)) ** power for x in points)


@pytest.mark.parametrize("direction", ["add", "remove"])
@pytest.mark.parametrize(
    ("rate", "sigma", "order"),
    [("0.01", "1", 1.01), ("0.3", "0.3", 30.5), ("1e-6", "0.5", 40.5), ("0.05", "3", 200.25), ("0.9", "0.4", 25.5)],
)
def test_each_direction_against_a_sum_in_many_digits(rate: str, sigma: str, order: float, direction: Direction) -> None:
    """Small moments and such as no float holds (their logarithm is above 600), and powers far below 0."""
    w = order if direction == "remove" else 1 - order
    with mp.workdps(30):
        step = min(real(sigma) / 8, real(sigma) ** 2 / 5)
        total = moment(rate, sigma, w, step)
        assert abs(moment(rate, sigma, w, step / 2) / total - 1) < mp.mpf("1e-16")
        exact = mp.log(total) / (mp.mpf(order) - 1)
    (found,) = SampledGaussianLoss(float(rate), float(sigma), direction).rdp_upper(np.array([order])).tolist()
    assert exact <= found <= exact * (1 + mp.mpf("1e-8"))


def test_an_order_that_needs_too_many_points_has_no_bound_and_the_others_have() -> None:
    far = 1.0 + 1e8
    assert far / 0.7 > MOST_PRICE_POINTS
    together = divergences_upper(0.01, 1.0, np.array([far + 1, 3.0]), np.array([far, 2.0]))
    assert together[0] == math.inf
    assert together[1] == divergences_upper(0.01, 1.0, np.array([3.0]), np.array([2.0]))[0]
    law = PoissonSampled(GaussianLaw(1), rate="0.01")
    assert priced(law, ADD, (Decimal(10**9),)).rdp[Decimal(10**9)] == Decimal("5E+8")  # what the whole costs


@pytest.fixture
def formed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Decimal, ...]]:
    """The orders of each call that prices a batch."""
    asked: list[tuple[Decimal, ...]] = []
    divergences = batches._divergences

    def counted(drawn: Drawn, relation: Relation, orders: tuple[Decimal, ...]) -> Divergences:
        asked.append(orders)
        return divergences(drawn, relation, orders)

    monkeypatch.setattr(batches, "_divergences", counted)
    return asked


@pytest.mark.parametrize("leaf", [GaussianLaw("1.234567"), LaplaceLaw("0.1234567")], ids=lambda leaf: leaf.kind)
def test_what_was_priced_is_kept_by_law_and_order(
    leaf: GaussianLaw | LaplaceLaw, formed: list[tuple[Decimal, ...]]
) -> None:
    step = PoissonSampled(leaf, rate="0.0123")
    first = priced(step, ADD, (Decimal(2), Decimal(5)))
    both = priced(step, ADD, (Decimal(5), Decimal(3), Decimal(2)))
    assert formed == [(Decimal(2), Decimal(5)), (Decimal(3),)]
    assert all(both.rdp[order] == first.rdp[order] for order in first.rdp)


def test_what_is_kept_of_a_law_has_an_end(formed: list[tuple[Decimal, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "MOST_KEPT", 2)
    step = PoissonSampled(GaussianLaw("1.3579"), rate="0.0123")
    for _ in range(2):
        priced(step, ADD, (Decimal(2), Decimal(5)))
        priced(step, ADD, (Decimal(2), Decimal(7)))
    assert formed == [(Decimal(2), Decimal(5)), (Decimal(7),), (Decimal(7),)]


def test_a_run_is_priced_once_for_claim_check_and_gate(formed: list[tuple[Decimal, ...]]) -> None:
    """Of a law that nobody asked for before, no order is priced twice: the claim's in one call, the scope's in one."""
    scope = dpl.Ledger.in_memory().scope("work", unit="record", relation="add_remove", budget=dpl.ApproxDP(3, "1e-6"))
    run = dpl.DPSGD(rate="0.0123", steps=10, noise_multiplier="9.8765", clip_norm=1, dimension=2, expected_batch_size=1)
    with scope.open(run, np.zeros((20, 2))):
        pass
    assert len(formed) == 2
    every = [order for orders in formed for order in orders]
    assert len(every) == len(set(every))
