"""Prices from the certified profile: never below the exact moments of the good part, close to them, and three twins
that are below, each of which these tests tell from the rule."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting import certified
from dpledger.accounting.arithmetic.floating import Array
from dpledger.accounting.certified import certified_cost, certified_rho, cheaper_cost, has_profile_price, is_plan
from dpledger.accounting.composition import (
    Composition,
    GaussianLaw,
    LaplaceLaw,
    Parallel,
    PmfPair,
    PoissonSampled,
    RandomizedResponseLaw,
    Repeated,
    Selected,
    Sequence,
)
from dpledger.accounting.engine import saddle_point
from dpledger.accounting.engine.composed import TiltedComposition
from dpledger.accounting.guarantees import ZCDP, ApproxDP
from dpledger.accounting.pricing import truncated
from dpledger.accounting.pricing.costs import priced
from dpledger.accounting.pricing.truncated import chord_integral, divergence_upper, line_upper, places
from dpledger.accounting.profile import compose
from dpledger.accounting.trials import NegativeBinomialTrials
from dpledger.decimals import float_down
from dpledger.errors import CannotCertify, ParameterError
from dpledger.relations import Relation
from price_oracles import mp

pytestmark = pytest.mark.sliced

ADD_REMOVE = Relation.ADD_REMOVE
ORDERS = (Decimal("1.05"), Decimal(2), Decimal("7.5"), Decimal(30))
Real = Any  # an mpmath number
Moment = Callable[[Real, Real], Real]
"""E_V[min(dU/dV, e^c)^a] of one direction, exactly, from (c, a)."""


def gaussian(mu: Real) -> tuple[Moment, ...]:
    def moment(c: Real, a: Real) -> Real:
        at = c / mu + mu / 2  # where the loss is c, on V's axis
        return mp.exp(a * (a - 1) * mu**2 / 2) * mp.ncdf(at - a * mu) + mp.exp(a * c) * mp.ncdf(-at)

    return (moment,)


def laplace(epsilon: Real) -> tuple[Moment, ...]:
    def moment(c: Real, a: Real) -> Real:
        def inside(x: Real) -> Real:
            return mp.exp(-abs(x)) / 2 * mp.exp(a * min(abs(x) - abs(x - epsilon), c))

        kinks = sorted({0, epsilon, (c + epsilon) / 2})
        return mp.quad(inside, [-mp.inf, *kinks, mp.inf])

    return (moment,)


def finite(left: list[Real], right: list[Real]) -> tuple[Moment, ...]:
    def one_way(top: list[Real], bottom: list[Real]) -> Moment:
        def moment(c: Real, a: Real) -> Real:
            terms = (q * min(p / q, mp.exp(c)) ** a for p, q in zip(top, bottom, strict=True) if q)
            return mp.fsum(terms)

        return moment

    return one_way(left, right), one_way(right, left)


def sampled_gaussian(sigma: Real, rate: Real) -> tuple[Moment, ...]:
    def ratio(x: Real) -> Real:
        return 1 - rate + rate * mp.exp((2 * x - 1) / (2 * sigma**2))

    def removed(c: Real, a: Real) -> Real:
        kink = sigma**2 * mp.log((mp.exp(c) - 1 + rate) / rate) + mp.mpf(1) / 2
        inside = lambda x: mp.npdf(x, 0, sigma) * min(ratio(x), mp.exp(c)) ** a  # noqa: E731
        return mp.quad(inside, [-30 * sigma, 0, kink, kink + 10 * sigma, kink + 40 * sigma])

    def added(c: Real, a: Real) -> Real:
        inside = lambda x: mp.npdf(x, 0, sigma) * ratio(x) * min(1 / ratio(x), mp.exp(c)) ** a  # noqa: E731
        below = mp.exp(-c) - 1 + rate
        kink = -30 * sigma if below <= 0 else sigma**2 * mp.log(below / rate) + mp.mpf(1) / 2
        return mp.quad(inside, sorted({-40 * sigma, kink, mp.mpf(0), mp.mpf(1), 20 * sigma, 50 * sigma}))

    return removed, added


def randomized_response(epsilon: str) -> tuple[list[Real], list[Real]]:
    yes = 1 / (1 + mp.exp(-mp.mpf(epsilon)))
    return [yes, 1 - yes], [1 - yes, yes]


def exact_price(moments: tuple[Moment, ...], c: Decimal, order: Decimal) -> Real:
    """The Renyi divergence of the good part, of the worse direction."""
    bound, a = mp.mpf(float_down(c)), mp.mpf(str(order))
    return max(mp.log(moment(bound, a)) / (a - 1) for moment in moments)


PAIRS: dict[str, tuple[Composition, tuple[Moment, ...]]] = {
    "gaussian": (GaussianLaw(2), gaussian(mp.mpf(1) / 2)),
    "gaussians": (Repeated(GaussianLaw(10), times=9), gaussian(mp.mpf(3) / 10)),
    "laplace": (LaplaceLaw(1), laplace(mp.mpf(1))),
    "randomized response": (RandomizedResponseLaw(1), finite(*randomized_response("1"))),
    "pmf pair": (
        PmfPair(
            (Decimal("0.9"), Decimal("0.09"), Decimal("0.01")), (Decimal("0.8"), Decimal("0.199"), Decimal("0.001"))
        ),
        finite([mp.mpf("0.9"), mp.mpf("0.09"), mp.mpf("0.01")], [mp.mpf("0.8"), mp.mpf("0.199"), mp.mpf("0.001")]),
    ),
    "sampled gaussian": (PoissonSampled(GaussianLaw(1), rate="0.1"), sampled_gaussian(mp.mpf(1), mp.mpf("0.1"))),
}


@pytest.mark.parametrize("tail_delta", ["1e-7", "0.001", "0.05"])
@pytest.mark.parametrize("name", PAIRS)
def test_a_price_is_above_the_exact_one_and_close_to_it(name: str, tail_delta: str) -> None:
    tree, moments = PAIRS[name]
    price = certified_cost(tree, ADD_REMOVE, Decimal(tail_delta), ORDERS)
    assert price.pure is not None
    assert price.delta == Decimal(tail_delta)
    for order in ORDERS:
        exact, found = exact_price(moments, price.pure, order), price.rdp[order]
        assert found is not None
        assert 0 <= found <= price.pure
        assert mp.mpf(str(found)) >= exact
        if tail_delta == "1e-7":
            assert mp.mpf(str(found)) <= exact * mp.mpf("1.04")


@given(
    masses=st.lists(st.tuples(st.integers(1, 1000), st.integers(0, 1000)), min_size=2, max_size=5).filter(
        lambda rows: sum(q for _, q in rows) > 0
    ),
    tail=st.integers(1, 200),
    order=st.sampled_from(ORDERS),
)
@settings(max_examples=60)
def test_no_pair_costs_more_than_its_price(masses: list[tuple[int, int]], tail: int, order: Decimal) -> None:
    """Also with mass that only one side has, where that is within tail_delta."""
    size = 1 << 10
    left, right = _shares([p for p, _ in masses], size), _shares([q for _, q in masses], size)
    exact_left, exact_right = ([Decimal(p) / size for p in side] for side in (left, right))
    tree = PmfPair(tuple(exact_left), tuple(exact_right))
    tail_delta = Decimal(tail) / 1000
    try:
        price = certified_cost(tree, ADD_REMOVE, tail_delta, (order,))
    except CannotCertify:
        assert max(_missing(left, right), _missing(right, left)) / size >= tail_delta
        return
    moments = finite([mp.mpf(p) / size for p in left], [mp.mpf(q) / size for q in right])
    assert price.pure is not None
    assert price.rdp[order] is not None
    assert mp.mpf(str(price.rdp[order])) >= exact_price(moments, price.pure, order)
    c = mp.mpf(str(price.pure))
    for top, bottom in ((left, right), (right, left)):
        lost = mp.fsum(max(p - mp.exp(c) * q, 0) for p, q in zip(top, bottom, strict=True)) / size
        assert lost <= mp.mpf(str(tail_delta))


def _shares(weights: list[int], size: int) -> list[int]:
    """Whole numbers in these proportions that add up to `size`."""
    shares = [weight * size // sum(weights) for weight in weights]
    shares[weights.index(max(weights))] += size - sum(shares)
    return shares


def _missing(top: list[int], bottom: list[int]) -> Decimal:
    return Decimal(sum(p for p, q in zip(top, bottom, strict=True) if not q))


def test_prices_rise_with_the_order_and_fall_with_the_delta() -> None:
    tree = Repeated(PoissonSampled(GaussianLaw(1), rate="0.01"), times=50)
    deltas = [Decimal(text) for text in ("1e-9", "1e-6", "1e-3", "0.1")]
    prices = [certified_cost(tree, ADD_REMOVE, delta, ORDERS) for delta in deltas]
    pures = [price.pure for price in prices if price.pure is not None]
    assert pures == sorted(pures, reverse=True)
    assert len(pures) == 4
    for price in prices:
        renyi = [price.rdp[order] for order in ORDERS]
        assert renyi == sorted(one for one in renyi if one is not None)


def test_rare_large_losses_cost_a_delta_and_no_moment() -> None:
    """What the second table of the specification is made of: 100 steps at a rate of 0.001."""
    tree = Repeated(PoissonSampled(GaussianLaw(1), rate="0.001"), times=100)
    order = Decimal(28)
    parts, whole = priced(tree, ADD_REMOVE, (order,)), certified_cost(tree, ADD_REMOVE, Decimal("3e-8"), (order,))
    by_parts, by_profile = parts.rdp[order], whole.rdp[order]
    assert by_parts is not None
    assert by_profile is not None
    assert by_parts > 600
    assert by_profile < Decimal("0.003")


def test_disjoint_parts_cost_the_largest_of_them() -> None:
    weak, strong = GaussianLaw(4), GaussianLaw(2)
    both = certified_cost(Parallel((weak, strong)), ADD_REMOVE, Decimal("1e-5"), ORDERS)
    assert both == certified_cost(strong, ADD_REMOVE, Decimal("1e-5"), ORDERS)


@pytest.mark.parametrize("chance", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("tail_delta", ["0.01", "0.05", "0.2"])
def test_a_coin_that_deals_a_unit_mixes_cases_and_good_parts(tail_delta: str, chance: float) -> None:
    """The good part of the mixture is the mixture of theirs, in both directions."""
    first, second = PmfPair(("0.5", "0.3", "0.2"), ("0.2", "0.3", "0.5")), PmfPair(("0.1", "0.9"), ("0.01", "0.99"))
    parts = Parallel((Repeated(first, times=2), Repeated(second, times=2)), by="unit")
    price = certified_cost(parts, ADD_REMOVE, Decimal(tail_delta), ORDERS)
    with_first, without_first, with_second, without_second = (
        np.outer(masses, masses).ravel()
        for pair in (first, second)
        for masses in (np.array([float(mass) for mass in side]) for side in (pair.left, pair.right))
    )
    nobody = np.outer(without_first, without_second)
    dealt = (np.outer(with_first, without_second), np.outer(without_first, with_second))
    mixed = chance * dealt[0] + (1 - chance) * dealt[1]
    most = np.exp(float(price.pure or 0))
    removed = [np.minimum(one, most * nobody) for one in dealt]
    added = [np.minimum(nobody, most * one) for one in dealt]
    for (one, other), law, under in ((removed, mixed, nobody), (added, nobody, mixed)):
        good = chance * one + (1 - chance) * other
        assert np.all(good <= law * (1 + 1e-12))
        assert np.all(good <= most * under * (1 + 1e-12))
        assert 1 - good.sum() <= float(tail_delta) + 1e-12
        for order, divergence in price.rdp.items():
            a = float(order)
            moment = np.sum(good**a * under ** (1 - a))
            assert np.log(moment) / (a - 1) <= float(divergence or 0) + 1e-12


def test_what_shows_nothing_costs_nothing() -> None:
    free = certified_cost(LaplaceLaw("0.001"), ADD_REMOVE, Decimal("0.1"), ORDERS)
    assert free.pure == 0
    assert set(free.rdp.values()) == {Decimal(0)}


# ---- a line in the order --------------------------------------------------------------------------------------------

EVERY_ORDER = [1 + mp.mpf(2) ** (mp.mpf(k) / 4) for k in range(-40, 45)]


def exact_line(moments: tuple[Moment, ...], c: Decimal) -> Real:
    """The largest D_a / a of the good part over many orders."""
    return max(exact_price(moments, c, Decimal(mp.nstr(a, 30))) / a for a in EVERY_ORDER)


@pytest.mark.parametrize("tail_delta", ["1e-7", "0.001", "0.05"])
@pytest.mark.parametrize("name", ["gaussian", "gaussians", "randomized response", "pmf pair"])
def test_a_line_is_above_the_exact_divergence_of_every_order_and_close_to_it(name: str, tail_delta: str) -> None:
    tree, moments = PAIRS[name]
    pure = certified_cost(tree, ADD_REMOVE, Decimal(tail_delta), ()).pure
    assert pure is not None
    found, exact = certified_rho(tree, ADD_REMOVE, Decimal(tail_delta)), exact_line(moments, pure)
    assert mp.mpf(str(found)) >= exact
    if tail_delta == "1e-7":
        assert mp.mpf(str(found)) <= exact * mp.mpf("1.04")


STEPS: dict[str, tuple[Composition, str, str]] = {
    "noise 1": (Repeated(PoissonSampled(GaussianLaw(1), rate="0.01"), times=1000), "1e-6", "0.107"),
    "noise 0.8": (Repeated(PoissonSampled(GaussianLaw("0.8"), rate="0.005"), times=500), "1e-6", "0.061"),
    "noise 2": (Repeated(PoissonSampled(GaussianLaw(2), rate="0.05"), times=1000), "1e-6", "0.384"),
    "noise 1.1": (Repeated(PoissonSampled(GaussianLaw("1.1"), rate="0.001"), times=2000), "1e-7", "0.0015"),
}


@pytest.mark.parametrize("name", STEPS)
def test_training_has_a_price_in_rho(name: str) -> None:
    """Above what is certified at each order, by little, and far below the parts, whose rare losses rule every order."""
    tree, tail, most = STEPS[name]
    found = certified_rho(tree, ADD_REMOVE, Decimal(tail))
    orders = tuple(Decimal(f"{1 + 2.0 ** (k / 4):.6f}") for k in range(-16, 30))
    whole = certified_cost(tree, ADD_REMOVE, Decimal(tail), orders)
    reached = max((price or Decimal(0)) / order for order, price in whole.rdp.items())
    assert reached * Decimal("0.999999") <= found <= min(Decimal(most), reached * Decimal("1.05"))
    parts = priced(tree, ADD_REMOVE, ()).rho
    assert parts is None or parts > 100 * found


def lines_of(c: float, jump: float) -> Callable[[float], float]:
    """A divergence that jumps from nearly nothing to c at the order 1 + jump."""
    return lambda more: c if more >= jump else c * 1e-6


@pytest.mark.parametrize("jump", [0.001, 0.3, 2.9, 40.0])
def test_a_jump_between_two_orders_is_found(jump: float) -> None:
    """By halving no more than its width needs. The twin reads the line at the orders that it asked, and is below the
    truth by the whole jump."""
    divergence, halved = lines_of(2.0, jump), list[float]()

    def spied(more: float) -> float:
        halved.append(more)
        return divergence(more)

    exact = 2.0 / (1 + jump)
    assert exact <= line_upper(spied, 2.0) <= exact * 1.003
    assert len(halved) < 30
    asked = [1 + 2.0**-6 * 1.5**k for k in range(40)]
    twin = max(divergence(order - 1) / order for order in asked)
    assert twin < exact


@pytest.mark.parametrize("c", [1e-9, 0.5, 30.0])
def test_a_line_covers_orders_beyond_those_that_are_asked(c: float) -> None:
    """A divergence that only nears c far out: a twin that stops before is below it."""

    def divergence(more: float) -> float:
        return c * more / (more + 1e4)

    exact = max(divergence(more) / (1 + more) for more in [10.0 ** (k / 100) for k in range(1000)])
    assert exact <= line_upper(divergence, c) <= exact * 1.03
    assert max(divergence(more) / (1 + more) for more in (1.0, 2.0, 8.0)) < exact


def test_nothing_that_is_lost_has_a_line_of_nothing() -> None:
    assert certified_rho(LaplaceLaw("0.001"), ADD_REMOVE, Decimal("0.1")) == 0
    assert line_upper(lambda _: 0.0, 0.0) == 0


# ---- from parts or from the profile ---------------------------------------------------------------------------------


def test_the_cheaper_price_counts_currency_by_currency() -> None:
    tree = Repeated(LaplaceLaw("0.01"), times=100)
    tail = Decimal("1e-6")
    parts, whole = priced(tree, ADD_REMOVE, ORDERS), certified_cost(tree, ADD_REMOVE, tail, ORDERS)
    best = cheaper_cost(tree, ADD_REMOVE, tail, ORDERS)
    assert best.pure == whole.pure
    assert best.delta == tail
    assert (best.rho, best.mu_squared) == (parts.rho, parts.mu_squared)
    for order in ORDERS:
        cheaper = min(price for price in (parts.rdp[order], whole.rdp[order]) if price is not None)
        assert best.rdp[order] == cheaper


def test_parts_with_a_delta_of_their_own_give_no_price() -> None:
    """Theirs is another good part."""
    tree = Sequence((ApproxDP("0.1", "1e-9"), LaplaceLaw("0.1")))
    best = cheaper_cost(tree, ADD_REMOVE, Decimal("1e-6"), ORDERS)
    whole = certified_cost(tree, ADD_REMOVE, Decimal("1e-6"), ORDERS)
    assert (best.pure, best.delta, best.rho) == (whole.pure, Decimal("1e-6"), None)


def test_what_is_a_plan_and_what_the_profile_prices_unasked() -> None:
    step = PoissonSampled(GaussianLaw(1), rate="0.01")
    assert is_plan(Repeated(step, times=2))
    assert is_plan(Sequence((step, LaplaceLaw(1))))
    assert is_plan(Selected(ZCDP("0.05"), NegativeBinomialTrials(eta=1, gamma="0.2")))
    assert not is_plan(step)
    assert not is_plan(Repeated(step, times=1))
    assert has_profile_price(Repeated(step, times=2), ADD_REMOVE)
    assert not has_profile_price(Repeated(LaplaceLaw(1), times=2), ADD_REMOVE)  # a pure price: it may come back
    assert not has_profile_price(Repeated(ZCDP("0.1"), times=2), ADD_REMOVE)  # no pair


@pytest.mark.parametrize("tail_delta", ["0", "1", "-0.1"])
def test_a_tail_delta_is_a_probability(tail_delta: str) -> None:
    with pytest.raises(ParameterError, match="tail_delta"):
        certified_cost(LaplaceLaw(1), ADD_REMOVE, Decimal(tail_delta), ())


def test_more_mass_at_infinity_than_tail_delta_has_no_price() -> None:
    with pytest.raises(CannotCertify, match="at every epsilon, more than that may fail"):
        certified_cost(ApproxDP(1, "0.01"), ADD_REMOVE, Decimal("0.001"), ())


# ---- the quadrature, and its twins ----------------------------------------------------------------------------------


def _line(x: Array) -> Array:
    """A profile that is a line in e^x, 0 from 1 on."""
    line: Array = np.maximum(0.0, (np.exp(1.0) - np.exp(x)) / (np.exp(1.0) + 1))
    return line


def _in_x(x: Array, delta: Array, b: float) -> float:
    """The twin: trapezoids in x."""
    return float(np.trapezoid(np.exp(b * x) * delta, x))


def _integral_of_line(b: float) -> float:
    e, at = mp.e, mp.mpf(b)
    return float((e * mp.expm1(at) / at - mp.expm1(at + 1) / (at + 1)) / (e + 1))


@pytest.mark.parametrize("b", [0.3, 1.7, 9.0, 40.0, -1.3, -2.7, -31.0])
def test_a_line_is_integrated_as_it_is(b: float) -> None:
    exact = _integral_of_line(b)
    found = chord_integral(places(1.0), _line(places(1.0)), b)
    assert exact * (1 - 1e-13) <= found <= exact * (1 + 1e-9)


@pytest.mark.parametrize("b", [0.3, 1.7, 9.0])
def test_trapezoids_in_x_are_no_bound(b: float) -> None:
    x = places(1.0)
    assert _in_x(x, _line(x), b) < _integral_of_line(b) * (1 - 1e-5)


ORDER_MINUS_ONE = 5.0


def _response(x: Array) -> Array:
    """The profile of randomised response at an epsilon of 1."""
    return _line(x)


def _exact_response(c: float) -> float:
    left, right = randomized_response("1")
    moment = finite(left, right)[0]
    return float(mp.log(moment(mp.mpf(c), mp.mpf(1 + ORDER_MINUS_ONE))) / ORDER_MINUS_ONE)


def test_the_second_integral_counts() -> None:
    """The twin leaves delta' out."""
    x = places(0.9)
    delta = _response(x)
    rule = divergence_upper(x, delta, delta, float(delta[-1]), ORDER_MINUS_ONE)
    twin = divergence_upper(x, delta, np.zeros_like(delta), float(delta[-1]), ORDER_MINUS_ONE)
    exact = _exact_response(0.9)
    assert twin < exact * 0.999 < exact <= rule <= exact * 1.02


def test_what_lies_beyond_c_counts() -> None:
    """Of the second integral: the twin sees delta' fall to 0 at c, so that nothing is left beyond."""
    x = places(0.9)
    delta = _response(x)
    cut = np.where(x < x[-1], delta, 0.0)
    rule = divergence_upper(x, delta, delta, float(delta[-1]), ORDER_MINUS_ONE)
    twin = divergence_upper(x, delta, cut, float(delta[-1]), ORDER_MINUS_ONE)
    assert twin < _exact_response(0.9) <= rule


def test_the_last_term_takes_the_lower_end() -> None:
    """The twin takes the upper end: what is taken away must not be more than there is."""
    x = places(0.9)
    delta = _response(x)
    wide = delta.copy()
    wide[-1] *= 1.5
    exact = _exact_response(0.9)
    rule = divergence_upper(x, wide, delta, float(delta[-1]), ORDER_MINUS_ONE)
    dropped = divergence_upper(x, wide, delta, 0.0, ORDER_MINUS_ONE)
    twin = divergence_upper(x, wide, delta, float(wide[-1]), ORDER_MINUS_ONE)
    assert twin < exact <= rule <= dropped


@pytest.mark.parametrize("excess", [1e-60, 1e-17, 1e-16, 1e-12, 1e-7])
def test_an_order_that_doubles_do_not_tell_from_1_has_the_price_of_one_above_it(excess: float) -> None:
    """The limit is the Kullback-Leibler divergence, tanh(1/2) here; at an order of 1 itself 0 would be divided by 0."""
    x = places(1.0)
    delta = _response(x)
    near, above = (divergence_upper(x, delta, delta, 0.0, more) for more in (excess, 1e-5))
    assert np.tanh(0.5) <= near <= above <= np.tanh(0.5) * 1.02


def test_more_points_gain_little(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = Repeated(PoissonSampled(GaussianLaw(1), rate="0.01"), times=60)
    few = certified_cost(tree, ADD_REMOVE, Decimal("1e-8"), ORDERS)
    certified._kept.cache_clear()
    monkeypatch.setattr(truncated, "POINTS", 1000)
    many = certified_cost(tree, ADD_REMOVE, Decimal("1e-8"), ORDERS)
    certified._kept.cache_clear()
    for order in ORDERS:
        fine, coarse = many.rdp[order], few.rdp[order]
        assert fine is not None
        assert coarse is not None
        assert fine <= coarse <= fine * Decimal("1.03")


def test_points_are_those_of_the_rule() -> None:
    x = places(2.5)
    assert x.size == 101
    assert x[0] == 0
    assert x[-1] == 2.5
    assert x[1] == pytest.approx(2.5e-4)
    ratios = x[2:] / x[1:-1]
    assert np.allclose(ratios, ratios[0], rtol=1e-12)
    assert places(0.0).tolist() == [0.0]


@pytest.mark.parametrize(
    ("noise", "rate", "steps"),
    [("2", "0.01", 2), ("5", "0.01", 4), ("1", "0.2", 2), ("1", "0.01", 10), ("0.6", "0.01", 40)],
)
def test_few_steps_take_no_long_contour_and_no_layers(
    noise: str, rate: str, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes: list[int] = []
    made = saddle_point.Contour._set_nodes

    def counted(self: saddle_point.Contour, tilted: TiltedComposition) -> None:
        nodes.append(self.count)
        made(self, tilted)

    monkeypatch.setattr(saddle_point.Contour, "_set_nodes", counted)
    tree = Repeated(PoissonSampled(GaussianLaw(noise), rate=rate), times=steps)
    found = certified_cost(tree, ADD_REMOVE, Decimal("1e-6"), ORDERS)
    assert sum(nodes) <= 2000
    assert found.pure is not None
    at = compose(tree).epsilon("1e-6")
    assert Decimal(at.lower) <= found.pure <= Decimal(at.lower) * Decimal("1.000002")
