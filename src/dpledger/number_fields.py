"""Fields of records that hold an exact number: whatever `decimals.read` takes goes in, a Decimal comes out.

A type checker sees a descriptor that takes any `Number`; when a record is made, the same name is what pydantic checks
the value by.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, overload

from dpledger.decimals import Number, RoundsUp, float_up, read, whole_or_none

__all__ = [
    "Count",
    "Exact",
    "Exacts",
    "Noise",
    "OpenProbability",
    "OptionalPositive",
    "OptionalSigned",
    "OptionalSignedNumbers",
    "Positive",
    "Probability",
    "Promise",
    "Promised",
    "PromisedProbability",
    "Rate",
    "Signed",
    "Tally",
    "Whole",
]


class Promised(RoundsUp):
    """A number that a guarantee promises. Beside a float it counts as the least float that is not below it, so that
    what is computed from a promise is on its safe side; `float()` of it alone is the nearest one, as of any Decimal.

    >>> Promised("0.3") * 2.0, float(Promised("0.3")), Promised("0.3") * 2
    (0.6000000000000001, 0.3, Decimal('0.6'))
    """

    __slots__ = ()

    def __float__(self) -> float:
        return Decimal.__float__(self)

    def _beside_floats(self) -> float:
        return float_up(self.exact)


if TYPE_CHECKING:

    class Exact:
        """A field that holds a Decimal and takes whatever `read` takes."""

        @overload
        def __get__(self, instance: None, owner: type) -> Exact: ...
        @overload
        def __get__(self, instance: object, owner: type) -> Decimal: ...
        def __get__(self, instance: object | None, owner: type) -> Any: ...
        def __set__(self, instance: object, value: Number) -> None: ...

    class Exacts:
        """A field that holds a tuple of Decimals and takes a sequence of whatever `read` takes."""

        @overload
        def __get__(self, instance: None, owner: type) -> Exacts: ...
        @overload
        def __get__(self, instance: object, owner: type) -> tuple[Decimal, ...]: ...
        def __get__(self, instance: object | None, owner: type) -> Any: ...
        def __set__(self, instance: object, value: Sequence[Number]) -> None: ...

    class OptionalExact:
        """A field that holds a Decimal or None and takes whatever `read` takes, or None."""

        @overload
        def __get__(self, instance: None, owner: type) -> OptionalExact: ...
        @overload
        def __get__(self, instance: object, owner: type) -> Decimal | None: ...
        def __get__(self, instance: object | None, owner: type) -> Any: ...
        def __set__(self, instance: object, value: Number | None) -> None: ...

    class OptionalExacts:
        """A field that holds a tuple of Decimals or None."""

        @overload
        def __get__(self, instance: None, owner: type) -> OptionalExacts: ...
        @overload
        def __get__(self, instance: object, owner: type) -> tuple[Decimal, ...] | None: ...
        def __get__(self, instance: object | None, owner: type) -> Any: ...
        def __set__(self, instance: object, value: Sequence[Number] | None) -> None: ...

    OptionalPositive: TypeAlias = OptionalExact
    OptionalSigned: TypeAlias = OptionalExact
    OptionalSignedNumbers: TypeAlias = OptionalExacts
    Signed: TypeAlias = Exact
    Positive: TypeAlias = Exact
    Noise: TypeAlias = Exact
    Rate: TypeAlias = Exact
    Probability: TypeAlias = Exact
    Promise: TypeAlias = Exact
    PromisedProbability: TypeAlias = Exact
    OpenProbability: TypeAlias = Exact
    Whole: TypeAlias = int
    Count: TypeAlias = int
    Tally: TypeAlias = int
else:
    from pydantic import AfterValidator, BeforeValidator, Field

    def _checked(inside, expected):
        def check(number):
            if not inside(number):
                raise ValueError(expected)
            return number

        return AfterValidator(check)

    Exact = Annotated[Decimal, BeforeValidator(read)]
    Signed = Annotated[Decimal, BeforeValidator(lambda value: read(value, signed=True))]
    Exacts = tuple[Exact, ...]
    Positive = Annotated[Exact, _checked(lambda x: x > 0, "a number above 0")]
    Noise = Annotated[Exact, _checked(lambda x: x > 0, "a number above 0 (without noise, epsilon is infinite)")]
    OptionalPositive = Positive | None
    OptionalSigned = Signed | None
    OptionalSignedNumbers = tuple[Signed, ...] | None
    Rate = Annotated[Exact, _checked(lambda x: 0 < x <= 1, "a number in (0, 1]")]
    Probability = Annotated[Exact, _checked(lambda x: x < 1, "a number in [0, 1)")]
    Promise = Annotated[Exact, AfterValidator(Promised)]
    PromisedProbability = Annotated[Probability, AfterValidator(Promised)]
    OpenProbability = Annotated[Exact, _checked(lambda x: 0 < x < 1, "a number in (0, 1)")]
    Whole = Annotated[int, BeforeValidator(lambda value: value if (number := whole_or_none(value)) is None else number)]
    Count = Annotated[Whole, Field(strict=True, ge=1, le=10**12)]
    """How many times something is run: 1 to 10^12."""
    Tally = Annotated[Whole, Field(strict=True, ge=0, lt=2**53)]
    """How many times something happened."""
