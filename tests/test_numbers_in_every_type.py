"""A number is taken in every type, everywhere, exactly; what is no number, or has no finite decimal, nowhere."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import dpledger as dpl
from dpledger import decimals
from dpledger.errors import ParameterError
from public_surface import DOORS

WIDE = 60  # digits after the point


def in_every_type(number: Decimal) -> Iterator[object]:
    """The same number, in all the types that hold it exactly."""
    yield from (number, format(number, "f"), f"{number:e}", Fraction(number))
    if number == int(number):
        yield from (int(number), np.int64(number))
    yield from (kind(number) for kind in (float, np.float64) if Decimal(repr(float(number))) == number)
    for kind in (np.float32, np.float16, np.longdouble):
        with np.errstate(over="ignore"):
            held = kind(number)
        if np.isfinite(held) and Fraction(*held.as_integer_ratio()) == Fraction(number):
            yield held


RECORDS = [name for name, door in DOORS.items() if inspect.isclass(door.call) and dataclasses.is_dataclass(door.call)]


def decimal_fields(made: object) -> Iterator[str]:
    for part in dataclasses.fields(made):  # type: ignore[arg-type]
        if isinstance(getattr(made, part.name), Decimal):
            yield part.name


@pytest.mark.parametrize("name", RECORDS)
def test_every_decimal_field_takes_every_type(name: str) -> None:
    door = DOORS[name]
    made = door.call(**door.good)
    for parameter in decimal_fields(made):
        for same in in_every_type(getattr(made, parameter)):
            assert door.call(**{**door.good, parameter: same}) == made, (parameter, type(same))


HALF = Decimal("0.5")
PROFILE = dpl.compose(dpl.GaussianLaw(1))
FUNCTIONS: dict[str, Callable[[Any], object]] = {
    "delta of a profile": PROFILE.epsilon,
    "epsilon of a profile": PROFILE.delta,
    "deltas of a profile": lambda x: PROFILE.epsilons([x]),
    "alpha": PROFILE.tradeoff,
    "prior": lambda x: PROFILE.posterior(x, "0.1"),
    "false positives": PROFILE.true_positives,
    "accountant": lambda x: dpl.Accountant(x).delta,
    "confidence": dpl.Laplace(sensitivity=1, epsilon=1).interval,
    "within": lambda x: dpl.calibrate(dpl.LaplaceLaw, dpl.PureDP("0.4"), seek="most", within=("0.1", x)),
    "bounds": lambda x: dpl.planning.Bounds(0.0, x),
    "epochs": lambda x: dpl.planning.dpsgd_plan(1000, x, 500, dpl.ZCDP(1), dimension=10),
    "spent": lambda x: (
        dpl.Ledger.in_memory().scope("a", unit="record", relation="add_remove", budget=dpl.PureDP(1)).spent(x)
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_takes_every_type(name: str) -> None:
    answers = [FUNCTIONS[name](same) for same in in_every_type(HALF)]
    assert len(answers) >= 8
    assert answers == answers[:1] * len(answers)


WHOLE: dict[str, Callable[[Any], object]] = {
    "a count": lambda n: dpl.compose((dpl.LaplaceLaw("0.1"), n)).epsilon(0),
    "times": lambda n: dpl.Repeated(dpl.LaplaceLaw(1), times=n),
    "users": lambda n: dpl.Shuffled(dpl.LaplaceLaw(1), users=n),
    "k": lambda n: dpl.Group(dpl.LaplaceLaw(1), k=n, relation=dpl.Relation.ADD_REMOVE),
    "steps of a plan": lambda n: dpl.DPSGD(**{**DOORS["DPSGD"].good, "steps": n}),
    "dimension": lambda n: dpl.Gaussian(sensitivity=1, sigma=1, dimension=n),
    "cutoff": lambda n: dpl.SparseVector(20, n, 10, sensitivity=1),
    "sensitivity of whole numbers": lambda n: dpl.Geometric(n, epsilon=1),
    "rows of a unit": lambda n: dpl.Unit("user", n),
    "points of a curve": PROFILE.curve,
    "digits": lambda n: dpl.calibrate(dpl.LaplaceLaw, dpl.PureDP(1), seek="most", within=("0.1", 2), digits=n),
    "an end": lambda n: dpl.planning.calibrate_count(
        lambda m: (dpl.LaplaceLaw("0.1"), m), dpl.PureDP(1), within=(1, n)
    ),
    "units": lambda n: dpl.planning.dpsgd_plan(n, 1, 2, dpl.ZCDP(1), dimension=n),
    "appended": lambda n: dpl.Accountant("1e-5").append(dpl.LaplaceLaw("0.1"), n),
}


@pytest.mark.parametrize("name", WHOLE)
def test_every_whole_number_may_be_of_numpy_and_nothing_else(name: str) -> None:
    take = WHOLE[name]
    assert take(np.int64(3)) == take(np.uint8(3)) == take(3)
    for bad in (True, np.True_, 3.0, np.float64(3), "3", Decimal(3), Fraction(3), np.timedelta64(3), np.array(3), None):
        with pytest.raises(ParameterError):
            take(bad)


@given(st.integers(-(2**40), 2**40), st.integers(0, 40))
def test_a_binary_number_is_what_it_holds(mantissa: int, places: int) -> None:
    for kind in (np.float32, np.longdouble):
        held = np.ldexp(kind(mantissa), -places)
        assert Fraction(decimals.exact(held)) == Fraction(*held.as_integer_ratio())


def test_a_narrow_float_is_not_the_decimal_that_it_looks_like() -> None:
    assert dpl.PureDP(np.float32(0.1)).epsilon == Decimal("0.100000001490116119384765625")
    assert dpl.PureDP(np.float64(0.1)) == dpl.PureDP(0.1) == dpl.PureDP("0.1")
    with pytest.raises(ParameterError, match="at most 60 digits after the point"):
        dpl.PureDP(np.longdouble("0.1"))


@given(st.fractions(min_value=0, max_value=10))
def test_a_fraction_is_taken_exactly_or_refused(number: Fraction) -> None:
    finite = 10**WIDE % number.denominator == 0
    if finite:
        assert Fraction(dpl.PureDP(number).epsilon) == number
    else:
        with pytest.raises(ParameterError, match=r"finite decimal|at most 60 digits"):
            dpl.PureDP(number)


@pytest.mark.parametrize("digits", [61, 5000, 10**5])
def test_no_digit_is_rounded_away_before_it_is_counted(digits: int) -> None:
    """A coefficient wider than any context, and an exponent below all of them, are seen as they are."""
    for number in (Decimal("0.1" + "0" * digits + "1"), Decimal(f"1E-{digits}"), Decimal("1E-99999999")):
        with pytest.raises(ParameterError, match="at most 60 digits after the point"):
            dpl.PureDP(number)
    assert dpl.PureDP(Decimal("0.1" + "0" * digits)).epsilon == Decimal("0.1")
    with pytest.raises(ParameterError, match=r"below 10\^18"):
        dpl.PureDP(Decimal(f"1E+{10**8 + digits}"))
