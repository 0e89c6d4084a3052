"""Exact numbers: parse, format, round up, round down, add; the only place where a decimal meets a float.

A promise (epsilon, delta, rho, a noise multiplier) is a decimal number below 10^18 with at most 60 digits after the
point. Its one text is `(0|[1-9][0-9]{0,17})(\\.[0-9]{0,59}[1-9])?`, with a leading `-` only where a field is signed and
`inf` only where a field says so. Sums are exact.

A number is taken in every type, exactly, or refused: text with or without an exponent; int, Decimal and Fraction as
they are; a float (and numpy's float64, which is one) as its shortest decimal, so 0.1 is one tenth; any other number of
numpy's (float16, float32, longdouble, whole numbers) as the binary value that it holds, so float32(0.1) is
0.100000001490116119384765625. What has no finite decimal (a third) or more digits than the profile is refused: whoever
writes it knows which way to round. A truth value is no number, and neither is an array of one. Where a number must be
whole it is an int or numpy's; a float is none, even where its value is.

No number depends on the caller's decimal context, nor on `decimal.DefaultContext`: whatever rounds does so in an
`own_context`, or in a function `in_own_context`, which such code alone calls. tests/support/decimal_contexts.py, a
plugin of the type checker, refuses anything else.

>>> text(read("1e-9"))
'0.000000001'
>>> text(add(read("0.1"), read("0.2")))
'0.3'
>>> text(round_up(1 / 3)), text(round_down(1 / 3))
('0.333333333334', '0.333333333333')
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable
from decimal import (
    MAX_EMAX,
    MIN_EMIN,
    ROUND_CEILING,
    ROUND_FLOOR,
    ROUND_HALF_EVEN,
    Context,
    Decimal,
    DivisionByZero,
    InvalidOperation,
    Overflow,
    localcontext,
)
from fractions import Fraction
from numbers import Integral, Rational, Real
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from dpledger.errors import ParameterError, shown

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "INFINITY",
    "ZERO",
    "Number",
    "RoundsDown",
    "RoundsUp",
    "add",
    "exact",
    "float_down",
    "float_up",
    "in_own_context",
    "is_whole",
    "magnitude",
    "multiply",
    "negative",
    "own_context",
    "parse",
    "read",
    "round_down",
    "round_up",
    "subtract",
    "text",
    "total",
    "whole",
    "whole_or_none",
]

Number: TypeAlias = "Decimal | str | int | float | Fraction | np.integer[Any] | np.floating[Any]"

DIGITS_AFTER_POINT = 60
DIGITS_BEFORE_POINT = 18
SIGNIFICANT = 12  # digits kept of a transcendental number; the price of the rounding is below 10^-11 of the number
ZERO = Decimal(0)
INFINITY = Decimal("Infinity")

_WIRE = re.compile(r"(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{0,59}[1-9])?", re.ASCII)
_INPUT = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?", re.ASCII)
_LONGEST_INPUT = 1000
_MOST_BITS = 1 << 15  # of a numerator or a denominator: a longdouble has 2^14
_ANY = "a number (text, int, float, Decimal, Fraction, or a scalar of numpy)"


def own_context(digits: int, rounding: str = ROUND_HALF_EVEN) -> Context:
    """A context of so many digits of which nothing comes from the caller's, nor from `decimal.DefaultContext`."""
    return Context(
        prec=digits,
        rounding=rounding,
        Emin=MIN_EMIN,
        Emax=MAX_EMAX,
        capitals=1,
        clamp=0,
        flags=[],
        traps=[InvalidOperation, DivisionByZero, Overflow],
    )


Function = TypeVar("Function", bound=Callable[..., Any])


def in_own_context(function: Function) -> Function:
    """Marks a function that computes in the context which its caller, like everything here, has set for itself."""
    return function


_WIDE = own_context(4000)  # wide enough that no sum or product in range is rounded


def read(value: Number, *, field: str = "number", signed: bool = False, infinite: bool = False) -> Decimal:
    """The exact decimal that `value` says, if a promise may be so. Raises ParameterError, naming `field` and the value,
    for NaN, for an infinity unless `infinite`, for a negative unless `signed`, for more digits than the profile holds,
    and for anything that is not a number."""
    if type(value) is float and 1e-40 < value < 1e17:  # at most 17 digits: of the profile, whatever the field
        return Decimal(repr(value)).normalize(_WIDE)
    number = INFINITY if infinite and _is_inf(value) else exact(value, field=field)
    if number.is_nan():
        raise ParameterError(field, value, "a number (this is not one)")
    if number.is_infinite():
        if infinite and number > 0:
            return INFINITY
        raise ParameterError(field, value, "a finite number")
    if number < 0 and not signed:
        raise ParameterError(field, value, "a number that is not negative")
    return _in_profile(number, field, value)


def _is_inf(value: Number) -> bool:
    return isinstance(value, str) and value == "inf"


def exact(value: Number, *, field: str = "number") -> Decimal:
    """The exact decimal that `value` says, of any size and sign; NaN and the infinities of float and Decimal too.
    Raises ParameterError, naming `field` and the value, for anything that is no number or has no finite decimal."""
    match value:
        case bool():
            raise ParameterError(field, value, _ANY)
        case Decimal():
            return value if type(value) is Decimal else Decimal(value)
        case float():
            return Decimal(repr(float(value)))
        case str():
            if len(value) > _LONGEST_INPUT or not _INPUT.fullmatch(value):
                raise ParameterError(field, value, "a decimal number, like 0.5 or 1e-6")
            return Decimal(value)
        case int() if value.bit_length() <= _MOST_BITS:
            return Decimal(value)
        case Real():
            return _of_ratio(value, field)
        case _:
            raise ParameterError(field, value, _ANY)


def _of_ratio(value: Real, field: str) -> Decimal:
    """The decimal of a whole number, a fraction, or a binary floating-point number of any width."""
    try:
        numerator, denominator = _ratio(value)
    except Exception:  # NaN and infinity have none, and a class that calls itself a number may fail in its own way
        word = str(value).lower() if type(value).__module__ == "numpy" else ""
        if word in {"nan", "inf", "-inf"}:
            return Decimal(word)
        raise ParameterError(field, type(value).__name__, _ANY) from None
    if max(numerator.bit_length(), denominator.bit_length()) > _MOST_BITS:
        raise ParameterError(field, value, "a number that can be written in some thousand digits")
    twos = (denominator & -denominator).bit_length() - 1
    rest, fives = denominator >> twos, 0
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    if rest != 1:
        raise ParameterError(field, value, "a finite decimal (round a cost up, a cap down: nothing is rounded here)")
    places = max(twos, fives)
    sign, digits, _ = Decimal(numerator * 2 ** (places - twos) * 5 ** (places - fives)).as_tuple()
    return Decimal((sign, digits, -places))


def _ratio(value: Real) -> tuple[int, int]:
    if isinstance(value, Integral):
        return operator.index(value), 1
    if isinstance(value, Rational):
        return operator.index(value.numerator), operator.index(value.denominator)
    numerator, denominator = value.as_integer_ratio()  # type: ignore[attr-defined]  # numpy's floats have it
    return operator.index(numerator), operator.index(denominator)


def whole(value: object, *, field: str = "number", least: int = 0, most: int | None = None) -> int:
    """`value` as Python's own int: an int or a whole number of numpy's. ParameterError, naming `field`, for any other
    type (a float is none, even where its value is whole), and unless least <= value <= most."""
    number = whole_or_none(value)
    if number is None or number < least or (most is not None and number > most):
        raise ParameterError(
            field,
            shown(value),
            f"a whole number {f'of at least {least}' if most is None else f'from {least} to {most}'}",
        )
    return number


def whole_or_none(value: object) -> int | None:
    """`value` as Python's own int where it is a whole number of Python's or numpy's; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        return None
    try:
        return operator.index(value)
    except Exception:  # numpy's time spans call themselves whole numbers
        return None


def _in_profile(number: Decimal, field: str, given: object) -> Decimal:
    if not number:
        return ZERO
    if number.adjusted() >= DIGITS_BEFORE_POINT:
        raise ParameterError(field, given, "a number below 10^18")
    short = number.normalize(_WIDE)
    exponent = short.as_tuple().exponent
    if short != number or (isinstance(exponent, int) and -exponent > DIGITS_AFTER_POINT):
        raise ParameterError(field, given, "at most 60 digits after the point (round a cost up, a cap down)")
    return short


def parse(wire: str, *, field: str = "number", signed: bool = False, infinite: bool = False) -> Decimal:
    """The decimal whose one text is `wire`; ParameterError for any other spelling."""
    if infinite and wire == "inf":
        return INFINITY
    body = wire[1:] if signed and wire.startswith("-") else wire
    if not _WIRE.fullmatch(body) or (body == "0" and body != wire):
        raise ParameterError(field, wire, "a decimal in its one form, like 0.5")
    return Decimal(wire).normalize(_WIDE) if body != "0" else ZERO


def text(number: Decimal) -> str:
    """The one text of `number` (which `read` or `parse` gave). The inverse of `parse`."""
    if number.is_infinite() and number > 0:
        return "inf"
    if number.is_nan() or number.is_infinite():
        raise ParameterError("number", number, "a number that has a text")
    return format(_in_profile(number, "number", number), "f")


def add(*numbers: Decimal) -> Decimal:
    """The exact sum; infinite if one of the numbers is."""
    return total(numbers)


def total(numbers: Iterable[Decimal]) -> Decimal:
    """The exact sum of any number of decimals; infinite if one of them is."""
    result = ZERO
    for number in numbers:
        result = _WIDE.add(result, number)
    return result


def subtract(left: Decimal, right: Decimal) -> Decimal:
    """left - right, exactly."""
    return _WIDE.subtract(left, right)


def multiply(number: Decimal, factor: Decimal | int) -> Decimal:
    """number * factor, exactly (the product may need more digits than the profile holds: then round it up or down)."""
    return _WIDE.multiply(number, Decimal(factor))


def negative(number: Decimal) -> Decimal:
    """-number, exactly."""
    return number.copy_negate() if number else ZERO


def magnitude(number: Decimal) -> Decimal:
    """|number|, exactly."""
    return number.copy_abs()


def is_whole(number: Decimal) -> bool:
    """Whether the (finite) number is a whole one."""
    return number == number.to_integral_value(ROUND_FLOOR)


def round_up(value: float | Decimal | Fraction, *, digits: int = SIGNIFICANT) -> Decimal:
    """The least decimal with `digits` significant digits, and at most 60 after the point, that is not below `value`.

    Claim: round_up(x) >= x, for every finite x. Infinity stays infinity; NaN is a ParameterError.
    """
    return _rounded(value, digits, ROUND_CEILING)


def round_down(value: float | Decimal | Fraction, *, digits: int = SIGNIFICANT) -> Decimal:
    """The greatest such decimal that is not above `value`. Claim: round_down(x) <= x, for every finite x."""
    return _rounded(value, digits, ROUND_FLOOR)


def _rounded(value: float | Decimal | Fraction, digits: int, rounding: str) -> Decimal:
    match value:
        case Fraction(numerator=numerator, denominator=denominator):
            number = own_context(digits + 5, rounding).divide(Decimal(numerator), Decimal(denominator))
        case Decimal():
            number = value
        case _:
            number = Decimal.from_float(value)
    if number.is_nan():
        raise ParameterError("number", value, "a number (this is not one)")
    if number.is_infinite():
        return number
    if not number:
        return ZERO
    place = max(number.adjusted() - digits + 1, -DIGITS_AFTER_POINT)
    with localcontext(_WIDE):
        rounded = number.quantize(Decimal(1).scaleb(place), rounding=rounding)
        return rounded.normalize() if rounded else ZERO


def float_up(number: Decimal) -> float:
    """The least float that is not below `number`."""
    nearest = float(number)
    if math.isinf(nearest) or Decimal.from_float(nearest) >= number:
        return nearest
    return math.nextafter(nearest, math.inf)


def float_down(number: Decimal) -> float:
    """The greatest float that is not above `number`."""
    nearest = float(number)
    if nearest == math.inf and not number.is_infinite():
        return math.nextafter(math.inf, 0)
    if Decimal.from_float(nearest) <= number:
        return nearest
    return math.nextafter(nearest, -math.inf)


def _mixed(name: str) -> tuple[Any, Any]:
    """An operator of a decimal and its mirror image, which beside a float, or numpy's numbers, compute in floats."""
    operate = getattr(operator, name)
    alone, mirrored = getattr(Decimal, f"__{name}__"), getattr(Decimal, f"__r{name}__")

    def forward(self: _MixesWithFloats, other: Any) -> Any:
        return operate(self._beside_floats(), other) if _is_binary(other) else alone(self, other)

    def backward(self: _MixesWithFloats, other: Any) -> Any:
        return operate(other, self._beside_floats()) if _is_binary(other) else mirrored(self, other)

    return forward, backward


def _is_binary(value: object) -> bool:
    return isinstance(value, float) or hasattr(value, "dtype")


class _MixesWithFloats(Decimal):
    """A decimal that may be computed with beside floats: it then counts as `float(self)`, on the safe side of `exact`.

    An answer of the library; what is given to it may be any `Number`."""

    __slots__ = ()
    __array_ufunc__ = None  # numpy's numbers and arrays leave an operator to us

    __add__, __radd__ = _mixed("add")
    __sub__, __rsub__ = _mixed("sub")
    __mul__, __rmul__ = _mixed("mul")
    __truediv__, __rtruediv__ = _mixed("truediv")
    __floordiv__, __rfloordiv__ = _mixed("floordiv")
    __mod__, __rmod__ = _mixed("mod")
    __pow__, __rpow__ = _mixed("pow")

    def _beside_floats(self) -> float:
        return float(self)

    @property
    def exact(self) -> Decimal:
        """The number itself, as a plain Decimal."""
        return Decimal(self)


class RoundsUp(_MixesWithFloats):
    """A number of which more is safe: as a float it is the least one that is not below it.

    >>> RoundsUp("0.1") * 2.0, RoundsUp("0.1").exact * 2
    (0.2, Decimal('0.2'))
    """

    __slots__ = ()

    def __float__(self) -> float:
        return float_up(self.exact)


class RoundsDown(_MixesWithFloats):
    """A number of which less is safe: as a float it is the greatest one that is not above it."""

    __slots__ = ()

    def __float__(self) -> float:
        return float_down(self.exact)
