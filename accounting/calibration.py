"""The parameter that certifiably meets a target: the least noise, or the most steps, rate or loss.

`make(value)` says what would be run; the search asks the engine, or the price rules, whether that provably meets the
target, and returns a value only if it was checked itself, on the certified side. Nothing is interpolated.

>>> from dpledger.accounting.composition import GaussianLaw, Repeated
>>> noise = calibrate(lambda z: Repeated(GaussianLaw(z), times=100), ApproxDP(1, "1e-6"))
>>> noise
Decimal('42.2468')
>>> calibrate_count(lambda steps: Repeated(GaussianLaw(noise), times=steps), ApproxDP(1, "1e-6"))
100
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Literal, TypeAlias, assert_never

from dpledger.accounting import rules
from dpledger.accounting.composable import Composable, tree_of
from dpledger.accounting.conversions import epsilon_of
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, BoundedRange, Guarantee, PrivacyCurve, PureDP
from dpledger.accounting.profile import compose
from dpledger.decimals import Number, read, round_down, round_up, text
from dpledger.errors import ClaimTooSmall, InfeasiblePlan, ParameterError
from dpledger.relations import Relation

__all__ = ["Seek", "calibrate", "calibrate_count", "meets"]

Seek: TypeAlias = Literal["least", "most"]
"""`least`: a larger value is more private (noise). `most`: a smaller one is (a rate, a loss)."""
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
            return Decimal(compose(what, relation=relation).epsilon(delta).upper) <= epsilon
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
            assert_never(target)


def calibrate(
    make: Callable[[Decimal], Composable],
    target: Guarantee,
    *,
    seek: Seek = "least",
    within: tuple[Number, Number] = (LEAST, MOST),
    digits: int = DIGITS,
    relation: Relation | str | None = None,
) -> Decimal:
    """The least (or most) value, to `digits` significant digits, for which `make(value)` provably meets `target`.

    `within`: where it may lie, both ends above 0. Claim: `make(result)` meets the target, and for the next value of as
    many digits on the other side that could not be shown, or it is outside `within`. Assumes, for the second half
    only: more noise (a smaller rate) never costs more. Source: `meets`, at the result itself.
    Raises InfeasiblePlan where no value within does; whatever `make` raises.
    """
    low, high = (read(end, field="within") for end in within)
    if not 0 < low <= high:
        raise ParameterError("within", f"{text(low)}, {text(high)}", "two numbers above 0, the smaller one first")
    if type(digits) is not int or not 1 <= digits <= MOST_DIGITS:
        raise ParameterError("digits", digits, f"a whole number from 1 to {MOST_DIGITS}")
    search = _Search(lambda value: meets(make(value), target, relation=relation), _Decimals(digits), seek)
    return search.run(low, high, target)


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
    """
    low, high = within
    if type(low) is not int or type(high) is not int or not 1 <= low <= high:
        raise ParameterError("within", f"{low}, {high}", "two whole numbers from 1 on, the smaller one first")
    search = _Search(lambda value: meets(make(int(value)), target, relation=relation), _Wholes(), seek)
    return int(search.run(Decimal(low), Decimal(high), target))


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
        return round_down(value / factor)


@dataclass(frozen=True, slots=True)
class _Wholes:
    """Whole numbers."""

    def between(self, low: Decimal, high: Decimal) -> Decimal | None:
        """One strictly between, near the geometric mean; None if there is none."""
        middle = Decimal(math.floor(math.sqrt(low) * math.sqrt(high)))
        middle = min(max(middle, low + 1), high - 1)
        return middle if low < middle < high else None

    def shrunk(self, value: Decimal, factor: int) -> Decimal:
        """About value / factor, below the value, 1 or more."""
        return (value / factor).to_integral_value(ROUND_CEILING)


@dataclass(frozen=True, slots=True)
class _Search:
    """Bisection between a value that was shown to meet the target and one that was not."""

    holds: Callable[[Decimal], bool]
    values: _Decimals | _Wholes
    seek: Seek

    def run(self, low: Decimal, high: Decimal, target: Guarantee) -> Decimal:
        good, bad = (high, low) if self.seek == "least" else (low, high)
        start = self._start(low, high)
        if self.holds(start):
            good, bad = self._walk(start, bad, found=True)
        else:
            bad, good = self._walk(start, good, found=False)
        if not self.holds(good):
            raise InfeasiblePlan(
                f"no value from {text(low)} to {text(high)} meets {_words(target)}: {text(good)} does not either"
            )
        if good == bad:
            return good
        while (middle := self.values.between(min(good, bad), max(good, bad))) is not None:
            good, bad = (middle, bad) if self.holds(middle) else (good, middle)
        return good

    def _start(self, low: Decimal, high: Decimal) -> Decimal:
        return min(max(Decimal(1), low), high)

    def _walk(self, start: Decimal, end: Decimal, *, found: bool) -> tuple[Decimal, Decimal]:
        """From `start` towards `end`, by growing factors, as long as the answer stays `found`: the last two values. At
        the end both are the end."""
        at, factor = start, 2
        while at != end:
            following = min(at * factor, end) if end > at else max(self.values.shrunk(at, factor), end)
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
        case _:
            return f"{target.kind} {text(epsilon_of(target, Decimal('1e-6')))} (as an epsilon at delta 1e-6)"
