"""The parameter that certifiably meets a target: the least noise, or the most steps, rate or loss.

`make(value)` says what would be run; the search asks the engine, or the price rules, whether that provably meets the
target, and returns a value only if it was checked itself, on the certified side. Nothing is interpolated.

>>> from dpledger.accounting.composition import GaussianLaw
>>> noise = calibrate(lambda z: (GaussianLaw(z), 100), ApproxDP(1, "1e-6"))
>>> noise
Decimal('42.2468')
>>> calibrate_count(lambda steps: (GaussianLaw(noise), steps), ApproxDP(1, "1e-6"))
100
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, TypeAlias, TypeVar, assert_never

from dpledger.accounting import rules
from dpledger.accounting.arithmetic.conversions import epsilon_of
from dpledger.accounting.composable import Composable, tree_of
from dpledger.accounting.guarantees import (
    GDP,
    RDP,
    ZCDP,
    ApproxDP,
    BoundedRange,
    Guarantee,
    PrivacyCurve,
    PureDP,
    warn_where_implausible,
)
from dpledger.accounting.profile import compose
from dpledger.decimals import (
    Number,
    RoundsDown,
    RoundsUp,
    add,
    multiply,
    read,
    round_down,
    round_up,
    subtract,
    text,
    whole,
)
from dpledger.errors import ClaimTooSmall, InfeasiblePlan, ParameterError
from dpledger.relations import Relation
from dpledger.schema import one_of

__all__ = ["Seek", "calibrate", "calibrate_count", "least_that", "meets", "most_that"]

Seek: TypeAlias = Literal["least", "most"]
"""`least`: a larger value is more private (noise). `most`: a smaller one is (a rate, a loss)."""
ONE = Decimal(1)
DIGITS = 6
MOST_DIGITS = 12
LEAST, MOST = Decimal("1e-9"), Decimal("1e12")
MOST_COUNT = 10**12


def meets(what: Composable, target: Guarantee, *, relation: Relation | str | None = None) -> bool:
    """Whether `what` provably meets `target`.

    Claim: True only if it does. False says that no proof was found, which near the boundary may be the width of a
    certified bound. Source: for approx_dp docs/proofs/engine.md, for the rest rules.check. CannotCertify where no
    theorem covers `what` in the currency of the target.
    """
    match target:
        case ApproxDP(epsilon=epsilon, delta=delta):
            return Decimal.from_float(compose(what, relation=relation).epsilon(delta).upper) <= epsilon
        case PureDP() | ZCDP() | GDP() | RDP() | BoundedRange() | PrivacyCurve():
            tree, under, direction = tree_of(what, relation=relation)
            if direction is not None:
                raise ParameterError("direction", direction, f"both directions, for a target of {target.kind}")
            try:
                rules.check(target, tree, under)
            except ClaimTooSmall:
                return False
            return True
        case _:
            raise ParameterError("target", target, "a guarantee, like ApproxDP(1, '1e-6')")


def calibrate(
    make: Callable[[RoundsUp | RoundsDown], Composable],
    target: Guarantee,
    *,
    seek: Seek = "least",
    within: tuple[Number, Number] = (LEAST, MOST),
    digits: int = DIGITS,
    relation: Relation | str | None = None,
) -> RoundsUp | RoundsDown:
    """The least (or most) value, to `digits` significant digits, for which `make(value)` provably meets `target`.

    `make` gets a Decimal, and so does the caller: beside a float it counts as the float next to it on the safe side,
    above for "least" and below for "most" (`z * 2.0`); `.exact` is a plain Decimal. `within`: where it may lie, both
    ends above 0. Claim: `make(result)` meets the target, and for the next value of as many digits on the other side
    that could not be shown, or it is outside `within`. Assumes, for the second half only: more noise (a smaller rate)
    never costs more. Source: `meets`, at the result itself.
    Raises InfeasiblePlan where no value within does, ParameterError where the other way of seeking would be right;
    whatever `make` raises, but a TypeError, which is its cause.

    >>> dpl.calibrate(dpl.GaussianLaw, dpl.ApproxDP(1, "1e-6"), seek="least", within=(1, 10))
    Decimal('4.22468')
    """
    low, high = (read(end, field="within") for end in _ends(within))
    if not 0 < low <= high:
        raise ParameterError("within", f"{text(low)}, {text(high)}", "two numbers above 0, the smaller one first")
    warn_where_implausible(target, "target")
    values = _Decimals(whole(digits, field="digits", least=1, most=MOST_DIGITS))
    made = _asked(make, "a function of one number")
    seek = _seek(seek)
    side = RoundsUp if seek == "least" else RoundsDown
    search = _Search(lambda value: meets(made(side(value)), target, relation=relation), values, seek)
    return side(search.run(low, high, target))


def calibrate_count(
    make: Callable[[int], Composable],
    target: Guarantee,
    *,
    seek: Seek = "most",
    within: tuple[int, int] = (1, MOST_COUNT),
    relation: Relation | str | None = None,
) -> int:
    """The most (or least) whole number for which `make(number)` provably meets `target`: steps, releases, a cutoff.

    Claim, Assumes, Raises: as `calibrate`.

    >>> dpl.calibrate_count(lambda n: (dpl.GaussianLaw(10), n), dpl.ApproxDP(3, "1e-6"), within=(1, 1000))
    41
    """
    low, high = (whole(end, field="within", least=1, most=10**17) for end in _ends(within))
    if not low <= high:
        raise ParameterError("within", f"{low}, {high}", "two whole numbers, the smaller one first")
    warn_where_implausible(target, "target")
    made = _asked(make, "a function of one int")
    search = _Search(lambda value: meets(made(int(value)), target, relation=relation), _Wholes(), _seek(seek))
    return int(search.run(Decimal(low), Decimal(high), target))


def least_that(holds: Callable[[Decimal], bool], *, within: tuple[Decimal, Decimal], digits: int) -> Decimal | None:
    """The least value within, to so many significant digits, that holds, where greater ones hold too; None where the
    greatest does not. The result was tried itself. The search starts at 1, as far as that is within."""
    low, high = within
    values, at, factor = _Decimals(digits), min(max(ONE, low), high), 2
    known: Decimal | None = None
    if holds(at):
        known = at
        while at != low and holds(following := max(values.shrunk(at, factor), low)):
            known = at = following
            factor *= 2
        failed = max(values.shrunk(at, factor), low)
    else:
        failed = at
        while known is None:
            if failed == high:
                return None
            following = min(multiply(failed, factor), high)
            factor *= 2
            if holds(following):
                known = following
            else:
                failed = following
    if known == low:
        return low
    while (middle := values.between(failed, known)) is not None:
        failed, known = (failed, middle) if holds(middle) else (middle, known)
    return known


def most_that(holds: Callable[[int], bool], *, most: int, known: int = 0) -> int:
    """The most, up to `most`, that holds, where fewer hold too; `known`: a number that is known to hold, or 0, the
    answer where none does. The result was tried itself."""
    low, step = known, 1
    while low < most and holds(high := min(most, low + step)):
        low, step = high, 2 * step
    if low >= most:
        return low
    high = min(most, low + step)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


Value = TypeVar("Value")


def _asked(make: Callable[[Value], Composable], expected: str) -> Callable[[Value], Composable]:
    """`make`, a TypeError in which is told as what it is nearly always: a number of the wrong type."""
    if not callable(make):
        raise ParameterError("make", make, expected)

    def asked(value: Value) -> Composable:
        try:
            made = make(value)
        except TypeError as error:
            raise ParameterError("make", "one that raised a TypeError", expected) from error
        if isinstance(made, (float, int, str)) or made is None:
            raise ParameterError(
                "make", f"one that returns {type(made).__name__}", "a function whose value can be composed"
            )
        return made

    return asked


def _ends(within: object) -> tuple[Any, Any]:
    if not isinstance(within, (tuple, list)) or len(within) != 2:
        raise ParameterError("within", within, "two numbers, the smaller one first")
    return within[0], within[1]


def _seek(seek: object) -> Seek:
    return "least" if one_of(seek, ("least", "most"), field="seek") == "least" else "most"


@dataclass(frozen=True, slots=True)
class _Decimals:
    """Decimals of so many significant digits."""

    digits: int

    def between(self, low: Decimal, high: Decimal) -> Decimal | None:
        """One strictly between, near the geometric mean; None if there is none."""
        middle = math.sqrt(low) * math.sqrt(high)
        for rounded in (round_down, round_up):
            value = rounded(middle, digits=self.digits)
            if low < value < high:
                return value
        return None

    def shrunk(self, value: Decimal, factor: int) -> Decimal:
        """About value / factor, below it."""
        return round_down(Fraction(value) / factor)


@dataclass(frozen=True, slots=True)
class _Wholes:
    """Whole numbers."""

    def between(self, low: Decimal, high: Decimal) -> Decimal | None:
        """One strictly between, near the geometric mean; None if there is none."""
        middle = Decimal(math.floor(math.sqrt(low) * math.sqrt(high)))
        middle = min(max(middle, add(low, ONE)), subtract(high, ONE))
        return middle if low < middle < high else None

    def shrunk(self, value: Decimal, factor: int) -> Decimal:
        """About value / factor, below the value, 1 or more."""
        return Decimal(math.ceil(Fraction(value) / factor))


@dataclass(frozen=True, slots=True)
class _Search:
    """Bisection between a value that was shown to meet the target and one that was not."""

    holds: Callable[[Decimal], bool]
    values: _Decimals | _Wholes
    seek: Seek

    def run(self, low: Decimal, high: Decimal, target: Guarantee) -> Decimal:
        private, costly = (high, low) if self.seek == "least" else (low, high)
        good, bad = private, costly
        start = self._start(low, high)
        if self.holds(start):
            good, bad = self._walk(start, bad, found=True)
        else:
            bad, good = self._walk(start, good, found=False)
        if not self.holds(good):
            if self.holds(costly):
                raise self._other_way(private, costly)
            raise InfeasiblePlan(
                f"no value from {text(low)} to {text(high)} meets {_words(target)}: {text(good)} does not either"
            )
        if good == bad == costly != private and not self.holds(private):
            raise self._other_way(private, costly)
        if good == bad:
            return good
        while (middle := self.values.between(min(good, bad), max(good, bad))) is not None:
            good, bad = (middle, bad) if self.holds(middle) else (good, middle)
        return good

    def _other_way(self, private: Decimal, costly: Decimal) -> ParameterError:
        other = "most" if self.seek == "least" else "least"
        expected = f"{other!r}: {text(costly)} meets the target and {text(private)} does not"
        return ParameterError("seek", self.seek, expected)

    def _start(self, low: Decimal, high: Decimal) -> Decimal:
        return min(max(ONE, low), high)

    def _walk(self, start: Decimal, end: Decimal, *, found: bool) -> tuple[Decimal, Decimal]:
        """From `start` towards `end`, by growing factors, as long as the answer stays `found`: the last two values. At
        the end both are the end."""
        at, factor = start, 2
        while at != end:
            following = min(multiply(at, factor), end) if end > at else max(self.values.shrunk(at, factor), end)
            if self.holds(following) != found:
                return at, following
            at, factor = following, factor * 2
        return end, end


def _words(target: Guarantee) -> str:
    match target:
        case ApproxDP(epsilon=epsilon, delta=delta):
            return f"epsilon {text(epsilon)} at delta {text(delta)}"
        case PureDP(epsilon=epsilon):
            return f"epsilon {text(epsilon)}"
        case ZCDP() | GDP() | RDP() | BoundedRange() | PrivacyCurve():
            return f"{target.kind} {text(epsilon_of(target, Decimal('1e-6')))} (as an epsilon at delta 1e-6)"
        case _:
            assert_never(target)
