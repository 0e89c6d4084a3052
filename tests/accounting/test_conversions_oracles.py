"""Each conversion against its definition at 60 digits: on the safe side, and close; and against published numbers."""

from collections.abc import Callable
from decimal import Decimal, localcontext

import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting.arithmetic import conversions as convert, outward
from dpledger.errors import ParameterError
from price_oracles import gdp_delta, least, mp, real

pytestmark = pytest.mark.sliced

MILLIONTH = Decimal("0.000001")


@pytest.mark.parametrize(
    ("rho", "optimal", "exact"),
    [
        ("0.01", "0.62169", "0.57506"),
        ("0.1", "2.14194", "1.99453"),
        ("0.5", "5.22153", "4.88655"),
        ("2", "11.6886", "10.99715"),
    ],
)
def test_the_published_epsilons_of_zcdp_and_of_the_gaussian(rho: str, optimal: str, exact: str) -> None:
    number, close = Decimal(rho), Decimal("0.00001")
    assert convert.epsilon_of_zcdp(number, MILLIONTH) == pytest.approx(Decimal(optimal), abs=close)
    mu = Decimal(str(mp.nstr(mp.sqrt(2 * real(rho)), 20)))
    assert convert.epsilon_of_gdp(mu, MILLIONTH) == pytest.approx(Decimal(exact), abs=close)


def test_the_published_order_of_a_boundary() -> None:
    assert convert.best_order_minus_one(Decimal("2.14194"), MILLIONTH) == pytest.approx(
        Decimal("10.658"), abs=Decimal("0.001")
    )


numbers = st.integers(1, 5000).map(lambda n: Decimal(n) / 500)
deltas = st.integers(1, 40).map(lambda n: Decimal(10) ** -n * 3)


@given(numbers, deltas)
@settings(max_examples=12, deadline=None)
def test_zcdp_becomes_the_best_of_all_orders(rho: Decimal, delta: Decimal) -> None:
    r, d = real(rho), real(delta)

    def at(more: object) -> object:
        k = real(more)
        return (1 + k) * r + (-mp.log(d) + k * mp.log(k / (1 + k)) - mp.log(1 + k)) / k

    best = max(least(at, 1e-6, 1e8), mp.mpf(0))
    assert best <= real(convert.epsilon_of_zcdp(rho, delta)) * (1 + real("1e-15"))
    assert real(convert.epsilon_of_zcdp(rho, delta)) <= best * (1 + real("1e-10")) + real("1e-11")


@given(numbers, numbers)
@settings(max_examples=40, deadline=None)
def test_the_delta_of_gdp_is_the_profile_of_the_gaussian(mu: Decimal, epsilon: Decimal) -> None:
    exact, found = gdp_delta(real(mu), real(epsilon)), real(convert.delta_of_gdp(mu, epsilon))
    assert exact <= found <= exact * (1 + real("1e-10")) + real("1e-59")


@given(numbers, deltas)
@settings(max_examples=8, deadline=None)
def test_the_epsilon_of_gdp_meets_its_delta_and_hardly_more(mu: Decimal, delta: Decimal) -> None:
    found = convert.epsilon_of_gdp(mu, delta)
    assert gdp_delta(real(mu), real(found)) <= real(delta)
    if found:
        assert gdp_delta(real(mu), real(found) * (1 - real("1e-9"))) > real(delta) * (1 - real("1e-6"))


@given(numbers, numbers, deltas)
@settings(max_examples=12, deadline=None)
def test_rdp_converts_by_its_formula(more: Decimal, divergence: Decimal, delta: Decimal) -> None:
    order = 1 + more
    epsilon = convert.epsilon_of_rdp(order, divergence, delta)
    k = real(more)
    exact = real(divergence) + (-mp.log(real(delta)) + k * mp.log(1 - 1 / (1 + k)) - mp.log(1 + k)) / k
    assert max(exact, mp.mpf(0)) <= real(epsilon) <= max(exact, mp.mpf(0)) * (1 + real("2e-11")) + real("1e-60")


@given(numbers, numbers)
@settings(max_examples=10, deadline=None)
def test_conversions_rise_with_what_they_convert(less: Decimal, extra: Decimal) -> None:
    more = less + extra
    rising: tuple[Callable[[Decimal], Decimal], ...] = (
        convert.zcdp_of_pure,
        convert.mu_squared_of_pure,
        convert.zcdp_of_gdp,
        lambda x: convert.rdp_of_pure(x, Decimal(3)),
        lambda x: convert.epsilon_of_zcdp(x, MILLIONTH),
        lambda x: convert.delta_of_gdp(x, Decimal(1)),
        lambda x: convert.epsilon_of_gdp(x, MILLIONTH),
    )
    for formula in rising:
        assert formula(less) <= formula(more)


def test_pure_to_gdp_to_approximate_never_beats_pure() -> None:
    for epsilon in ("0.1", "1", "4"):
        mu_squared = convert.mu_squared_of_pure(Decimal(epsilon))
        assert convert.delta_of_gdp(mu_squared.sqrt(), Decimal(epsilon)) > 0
        assert convert.zcdp_of_pure(Decimal(epsilon)) <= convert.zcdp_of_gdp(mu_squared.sqrt()) * Decimal("1.0000001")


def test_extremes_stay_on_the_safe_side() -> None:
    assert convert.delta_of_gdp(Decimal("1e-9"), Decimal(10)) > 0
    assert convert.delta_of_gdp(Decimal(10**6), Decimal(1)) == 1
    assert convert.epsilon_of_zcdp(Decimal(0), MILLIONTH) == 0


@pytest.mark.parametrize("delta", ["0", "1", "-1", "2"])
def test_a_conversion_needs_a_delta_between_zero_and_one(delta: str) -> None:
    for formula in (convert.epsilon_of_zcdp, convert.epsilon_of_gdp):
        with pytest.raises(ParameterError, match=r"delta: expected a number in \(0, 1\)"):
            formula(Decimal(1), Decimal(delta))


# ---- the Gaussian tail ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("x", ["-30", "-4", "0", "0.001", "1", "4.999", "5", "5.001", "12", "40", "1000"])
def test_the_gaussian_tail_lies_between_its_bounds(x: str) -> None:
    lower, upper = outward.normal_tail(Decimal(x))
    exact = mp.erfc(real(x) / mp.sqrt(2)) / 2
    assert real(lower) <= exact * (1 + real("1e-50"))
    assert exact * (1 - real("1e-50")) <= real(upper)
    assert real(upper) - real(lower) <= exact * real("1e-30")


@pytest.mark.parametrize("p", ["0.499999999999999999999", "0.1", "1e-3", "1e-20", "1e-89", "1e-95", "1e-1200"])
def test_the_quantile_of_a_tail_is_never_too_small(p: str) -> None:
    with localcontext(outward.context(Decimal(p))):
        x = real(outward.tail_quantile(-Decimal(p).ln()))
    tail = mp.erfc(x / mp.sqrt(2)) / 2
    assert tail <= real(p)
    assert tail >= real(p) * (1 - real("1e-9")) or real(p) < real("1e-90")


@given(st.decimals("1e-50", "1e17", allow_nan=False, allow_infinity=False))
@settings(max_examples=60, deadline=None)
def test_what_is_kept_is_on_its_side_and_has_twelve_digits(number: Decimal) -> None:
    above, below = outward.above(number), outward.below(number)
    assert below < number < above
    assert above <= number * (1 + Decimal("1.2e-11")) + Decimal("1e-60")
    assert max(len(kept.normalize().as_tuple().digits) for kept in (above, below)) <= 12
    assert outward.above(-number) >= -number


def test_an_exponential_never_vanishes() -> None:
    with localcontext(outward.context()):
        assert outward.exp(Decimal("-1e30")) > 0
        assert outward.tanh(Decimal("1e17")) <= 1
