"""Exact numbers: one text for each value, nothing is lost, rounding goes to the stated side."""

import copy
import math
import pickle
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import dpledger as dpl
from dpledger import decimals
from dpledger.decimals import RoundsDown, RoundsUp, exact, read
from dpledger.errors import ParameterError

PROFILE = st.decimals(min_value=0, max_value=10**17, places=12, allow_nan=False, allow_infinity=False)
FLOATS = st.floats(min_value=1e-300, max_value=1e300)


@given(PROFILE)
def test_parse_is_the_inverse_of_text(number: Decimal) -> None:
    wire = decimals.text(decimals.read(number))
    assert decimals.parse(wire) == number
    assert decimals.text(decimals.parse(wire)) == wire


@pytest.mark.parametrize(
    "wire",
    ["01", "1.0", ".5", "5.", "+1", "1e3", "1_0", " 1", "1\n", "-0", "-1", "NaN", "inf", "١", "0.00", "", "1" * 19],
)
def test_each_number_has_one_text(wire: str) -> None:
    with pytest.raises(ParameterError):
        decimals.parse(wire)


def test_a_sign_or_an_infinity_is_read_only_where_a_field_says_so() -> None:
    assert decimals.parse("-1.5", signed=True) == Decimal("-1.5")
    assert decimals.parse("inf", infinite=True) == decimals.INFINITY
    with pytest.raises(ParameterError):
        decimals.parse("-0", signed=True)


@pytest.mark.parametrize(
    ("given_", "number"),
    [
        ("1e-9", "0.000000001"),
        (0.1, "0.1"),
        (1, "1"),
        ("007.50", "7.5"),
        (np.float64(0.3), "0.3"),
        (np.int64(4), "4"),
        ("1E2", "100"),
    ],
)
def test_people_may_write_numbers_as_they_do(given_: decimals.Number, number: str) -> None:
    assert decimals.text(decimals.read(given_)) == number


@pytest.mark.parametrize(
    "bad",
    [
        float("nan"), float("inf"), -1, "-1", "1_0", "0x1", "", "１", "1e-61", 10**18, "1e18", True, None, b"1",
        "9" * 300, Decimal("NaN"), [1],
    ],
)  # fmt: skip
def test_what_is_no_promise_is_refused_with_its_field_and_value(bad: object) -> None:
    with pytest.raises(ParameterError) as caught:
        decimals.read(bad, field="epsilon")  # type: ignore[arg-type]
    assert caught.value.field == "epsilon"
    assert caught.value.value in str(caught.value) or len(caught.value.value) > 100


@given(st.lists(PROFILE, max_size=30))
def test_sums_are_exact(numbers: list[Decimal]) -> None:
    assert Fraction(decimals.total(numbers)) == sum(map(Fraction, numbers), Fraction(0))


@given(FLOATS, st.integers(min_value=1, max_value=20))
def test_rounding_stays_on_its_side_and_close(value: float, digits: int) -> None:
    down, up = decimals.round_down(value, digits=digits), decimals.round_up(value, digits=digits)
    assert Fraction(down) <= Fraction(value) <= Fraction(up)
    assert Fraction(up) - Fraction(down) <= max(Fraction(value) * Fraction(10) ** (1 - digits), Fraction(1, 10**60))


@given(st.fractions(min_value=0, max_value=10**9))
def test_rounding_of_fractions_stays_on_its_side(value: Fraction) -> None:
    assert Fraction(decimals.round_down(value)) <= value <= Fraction(decimals.round_up(value))


@given(PROFILE)
def test_floats_enclose_a_decimal(number: Decimal) -> None:
    low, high = decimals.float_down(number), decimals.float_up(number)
    assert Decimal(low) <= number <= Decimal(high)
    assert high <= np.nextafter(low, np.inf)


def test_nan_is_never_rounded_to_a_number() -> None:
    for rounding in (decimals.round_up, decimals.round_down):
        with pytest.raises(ParameterError):
            rounding(float("nan"))


# ---- decimals beside floats -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [RoundsUp, RoundsDown])
@given(value=st.decimals(allow_nan=False, allow_infinity=False, places=30, min_value=0, max_value=10**9))
def test_an_answer_counts_as_a_float_on_its_safe_side(kind: type[RoundsUp | RoundsDown], value: Decimal) -> None:
    answer = kind(value)
    assert answer == value
    assert type(answer.exact) is Decimal
    assert answer.exact == value
    side = 1 if kind is RoundsUp else -1
    assert (Decimal.from_float(float(answer)) - value) * side >= 0
    assert pickle.loads(pickle.dumps(answer)) == answer
    assert type(pickle.loads(pickle.dumps(answer))) is kind
    assert type(copy.copy(answer)) is kind


def test_an_answer_mixes_with_floats_and_arrays() -> None:
    tenth = RoundsUp("0.1")
    assert [tenth * 2.0, 2.0 * tenth, tenth + 1.0, 1.0 - tenth, 1.0 / tenth, tenth**2.0] == [
        0.2, 0.2, 1.1, 0.9, 10.0, 0.1**2.0,
    ]  # fmt: skip
    assert tenth * 2 == Decimal("0.2")
    assert tenth + Decimal("0.1") == Decimal("0.2")
    for left, right in ((tenth, np.array([1.0, 2.0])), (np.array([1.0, 2.0]), tenth)):
        product = left * right
        assert product.dtype == np.float64
        assert product.tolist() == [0.1, 0.2]
    assert np.float64(2) * tenth == 0.2
    assert np.asarray([tenth], dtype=float)[0] == 0.1
    assert math.sqrt(RoundsUp("0.25")) == 0.5
    assert read(tenth) == Decimal("0.1")
    assert type(exact(tenth)) is Decimal


PROMISES: dict[str, Callable[[Any], Any]] = {
    "PureDP.epsilon": lambda number: dpl.PureDP(number).epsilon,
    "ApproxDP.epsilon": lambda number: dpl.ApproxDP(number, "1e-6").epsilon,
    "ApproxDP.delta": lambda number: dpl.ApproxDP(1, number).delta,
    "ZCDP.rho": lambda number: dpl.ZCDP(number).rho,
    "GDP.mu": lambda number: dpl.GDP(number).mu,
    "BoundedRange.eta": lambda number: dpl.BoundedRange(number).eta,
    "what a mechanism claims": lambda number: dpl.Laplace(sensitivity=1, epsilon=number).claim().epsilon,
}


@pytest.mark.parametrize("name", PROMISES)
@given(number=st.decimals(min_value="1e-12", max_value="0.999", places=20, allow_nan=False))
def test_a_promise_mixes_with_floats_and_is_never_understated(name: str, number: Decimal) -> None:
    """Alone it is the Decimal that it always was, and `float` gives the nearest float, as what is computed does."""
    promised = PROMISES[name](number)
    assert promised == number
    assert repr(promised) == repr(Decimal(promised))
    assert float(promised) == float(number)
    for at_least in (promised * 1.0, 1.0 * promised, np.float64(1) * promised, (promised * np.ones(2))[1]):
        assert isinstance(at_least, float)
        assert Decimal.from_float(float(at_least)) >= number
        assert at_least <= math.nextafter(float(number), 1)
    assert promised * 2 == number * 2
    assert type(promised.exact) is type(promised * 2) is Decimal
    assert type(copy.deepcopy(promised)) is type(pickle.loads(pickle.dumps(promised))) is type(promised)
