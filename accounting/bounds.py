"""Two numbers with the truth between them, and what they are where a number is asked for.

>>> spent = Bounds(1.25, 1.5)
>>> lower, upper = spent
>>> spent[1], upper, f"{spent:.1f}"
(1.5, 1.5, '[1.2, 1.5]')
>>> spent < 2, spent <= 1
(True, False)
>>> spent < 1.4
Traceback (most recent call last):
    ...
dpledger.errors.CannotCertify: [1.25, 1.5] < 1.4 is not known: 1.4 lies between the bounds; compare .lower or .upper
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from typing import ClassVar

from dpledger.decimals import Number, exact, float_down, float_up, own_context
from dpledger.errors import CannotCertify, ParameterError

__all__ = ["Bounds"]

_FORMAT = re.compile(r"(?:\.([0-9]{1,3}))?([efg%]?)", re.ASCII)
_MOST_DIGITS = 2000  # a float has fewer than 1,100, and up to 999 after the point are asked for


@dataclass(frozen=True, slots=True)
class Bounds:
    """lower <= truth <= upper. `upper` (and `lower`) may be infinite; neither is NaN.

    It unpacks (`lower, upper = bounds`), has two items, and is written with both ends rounded outward
    (`f"{bounds:.3f}"`). `<`, `<=`, `>` and `>=`, with a number or with other bounds, are answered where every truth
    between the ends gives the same answer; else CannotCertify. `==` asks for the same two ends.

    The truth of a leaf that only promises (a declared guarantee, a sparse vector's claim) is its promise: what the
    worst mechanism that keeps it would cost.

    >>> import dpledger as dpl
    >>> spent = dpl.compose(dpl.Laplace(sensitivity=1, epsilon=1)).epsilon("1e-5")
    >>> spent < 1, f"{spent:.4f}"
    (True, '[0.9999, 1.0000]')
    """

    __array_ufunc__: ClassVar[None] = None  # numpy's scalars leave a comparison to us

    lower: float
    upper: float

    def __post_init__(self) -> None:
        for name, outward in (("lower", float_down), ("upper", float_up)):
            given = getattr(self, name)
            if not isinstance(given, float):
                number = exact(given, field=f"Bounds.{name}")
                object.__setattr__(self, name, math.nan if number.is_nan() else outward(number))
        if not self.lower <= self.upper:
            raise ParameterError("Bounds", f"{self.lower}, {self.upper}", "two numbers, lower and upper, in this order")

    def __iter__(self) -> Iterator[float]:
        return iter((self.lower, self.upper))

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> float:
        return (self.lower, self.upper)[index]

    def __lt__(self, other: Bounds | Number) -> bool:
        low, high = _ends(other)
        return self._known("<", other, _end(self.upper) < low, _end(self.lower) >= high)

    def __le__(self, other: Bounds | Number) -> bool:
        low, high = _ends(other)
        return self._known("<=", other, _end(self.upper) <= low, _end(self.lower) > high)

    def __gt__(self, other: Bounds | Number) -> bool:
        low, high = _ends(other)
        return self._known(">", other, _end(self.lower) > high, _end(self.upper) <= low)

    def __ge__(self, other: Bounds | Number) -> bool:
        low, high = _ends(other)
        return self._known(">=", other, _end(self.lower) >= high, _end(self.upper) < low)

    def _known(self, sign: str, other: Bounds | Number, always: bool, never: bool) -> bool:
        """Whether the comparison holds for every truth within; CannotCertify where for some and not for others."""
        if always == never:
            shown = str(other) if not isinstance(other, Bounds) else f"[{other.lower!r}, {other.upper!r}]"
            why = "the bounds overlap" if isinstance(other, Bounds) else f"{shown} lies between the bounds"
            own = f"[{self.lower!r}, {self.upper!r}]"
            raise CannotCertify(f"{own} {sign} {shown} is not known: {why}; compare .lower or .upper")
        return always

    def __format__(self, spec: str) -> str:
        """`.3f`, `.3e`, `.3g` and `.1%`, each end rounded outward; nothing: `str`. ParameterError for another one."""
        if not spec:
            return str(self)
        found = _FORMAT.fullmatch(spec)
        if found is None:
            raise ParameterError("format", spec, "a format of numbers, like .3f, .3e, .3g or .1%")
        digits, kind = int(found[1] or 6), found[2] or "g"
        low, high = _written(self.lower, digits, kind, ROUND_FLOOR), _written(self.upper, digits, kind, ROUND_CEILING)
        return f"[{low}, {high}]"


def _end(value: float) -> Decimal:
    return Decimal.from_float(value)


def _ends(other: Bounds | Number) -> tuple[Decimal, Decimal]:
    """Both ends of what is compared with, exactly."""
    if isinstance(other, Bounds):
        return _end(other.lower), _end(other.upper)
    number = Decimal.from_float(float(other)) if isinstance(other, float) else exact(other, field="other")
    if number.is_nan():
        raise ParameterError("other", other, "a number (this is not one)")
    return number, number


def _written(value: float, digits: int, kind: str, rounding: str) -> str:
    """A float with so many digits, rounded to one side."""
    number = Decimal.from_float(value)
    if not number.is_finite():
        return str(value)
    match kind:
        case "f" | "%":
            places = digits + 2 * (kind == "%")
            with localcontext(own_context(_MOST_DIGITS, rounding)):
                return format(number.quantize(Decimal((0, (1,), -places))), f".{digits}{kind}")
        case _:
            kept = max(1, digits + (kind == "e"))
            with localcontext(own_context(kept, rounding)) as context:
                return format(context.create_decimal(number), f".{digits}{kind}")
