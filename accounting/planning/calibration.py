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
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, TypeAlias, TypeVar

from dpledger.accounting import rules
from dpledger.accounting.arithmetic import scalars
from dpledger.accounting.composable import Composable, tree_of
from dpledger.accounting.guarantees import (
    GUARANTEES,
    ApproxDP,
    Guarantee,
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

__all__ = [
    "Excess",
    "Seek",
    "calibrate",
    "calibrate_count",
    "excess_at",
    "excess_of",
    "least_that",
    "least_within",
    "meets",
    "most_that",
    "next_below",
]

Seek: TypeAlias = Literal["least", "most"]
"""`least`: a larger value is more private (noise). `most`: a smaller one is (a rate, a loss)."""
Excess: TypeAlias = Callable[[Decimal], float]
"""How much more a value costs than it may, as a logarithm, roughly: at most 0 exactly where the value holds. Infinite
where nothing but that is known."""
ONE, TWICE = Decimal(1), Decimal(2)
LEAST_EXCESS = 1e-300  # above 0
PAST = 1.1  # times as far as a slope says
PATIENCE = 3  # tries after which the ends have to be half as far apart
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
    return _excess(what, target, relation) <= 0


def _excess(what: Composable, target: Guarantee, relation: Relation | str | None) -> float:
    """How much more `what` costs than `target` allows: see `Excess`."""
    if not isinstance(target, GUARANTEES):
        raise ParameterError("target", target, "a guarantee, like ApproxDP(1, '1e-6')")
    if isinstance(target, ApproxDP):
        found = compose(what, relation=relation).epsilon(target.delta).upper
        return excess_of(Decimal.from_float(found), target.epsilon)
    tree, under, direction = tree_of(what, relation=relation)
    if direction is not None:
        raise ParameterError("direction", direction, f"both directions, for a target of {target.kind}")
    try:
        rules.check(target, tree, under)
    except ClaimTooSmall:
        return math.inf
    return -math.inf


def excess_of(cost: Decimal, most: Decimal) -> float:
    """That of what costs so much where it may cost `most`."""
    return excess_at(float(cost) / float(most) if float(most) else math.inf, holds=cost <= most)


def excess_at(share: float, *, holds: bool) -> float:
    """That of what takes such a share, about, of what it may."""
    log = scalars.log(share) if share > 0 else -math.inf
    return min(log, 0.0) if holds else max(log, LEAST_EXCESS)


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

    `make` gets a Decimal, and the caller gets one that, in arithmetic with a float (`z * 2.0`), counts as the next
    float on the safe side: above for "least" and below for "most"; `.exact` is a plain Decimal. `within`: where the
    value may lie, both ends above 0. Claim: `make(result)` meets the target, and for the next value of as many digits
    on the other side that could not be shown, or it is outside `within`. Assumes, for the second half only: more noise
    (a smaller rate) never costs more. Source: `meets`, at the result itself. Raises InfeasiblePlan if no value within
    does, ParameterError if the other way of seeking would be right; whatever `make` raises, but a TypeError, which is
    its cause.

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
    search = _Search(_Tried(lambda value: _excess(made(side(value)), target, relation)), values, seek)
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

    >>> dpl.planning.calibrate_count(lambda n: (dpl.GaussianLaw(10), n), dpl.ApproxDP(3, "1e-6"), within=(1, 1000))
    41
    """
    low, high = (whole(end, field="within", least=1, most=10**17) for end in _ends(within))
    if not low <= high:
        raise ParameterError("within", f"{low}, {high}", "two whole numbers, the smaller one first")
    warn_where_implausible(target, "target")
    made = _asked(make, "a function of one int")
    tried = _Tried(lambda value: _excess(made(int(value)), target, relation))
    search = _Search(tried, _Wholes(), _seek(seek))
    return int(search.run(Decimal(low), Decimal(high), target))


def least_that(holds: Callable[[Decimal], bool], *, within: tuple[Decimal, Decimal], digits: int) -> Decimal | None:
    """The least value within, to so many significant digits, that holds, where greater ones hold too; None where the
    greatest does not. The result was tried itself."""
    return least_within(lambda value: -math.inf if holds(value) else math.inf, within=within, digits=digits)


def least_within(
    excess: Excess,
    *,
    within: tuple[Decimal, Decimal],
    digits: int,
    start: Decimal = ONE,
    slope: float | None = None,
) -> Decimal | None:
    """`least_that`, of what has an excess of at most 0. The search starts at `start`, as far as that is within, and
    goes on by a factor of two, then by greater ones; by less, where `slope` says about how the excess changes with the
    logarithm of the value."""
    low, high = within
    values, at = _Decimals(digits), min(max(start, low), high)
    tried = _Tried(excess)
    known: Decimal | None = None
    holds = tried.holds(at)
    factor = _first_factor(tried.found[at], slope, digits)
    if holds:
        known = at
        while at != low and tried.holds(following := max(values.shrunk(at, factor), low)):
            known = at = following
            factor = _greater(factor)
        failed = max(values.shrunk(at, factor), low)
    else:
        failed = at
        while known is None:
            if failed == high:
                return None
            following = min(round_up(multiply(failed, factor), digits=digits), high)
            factor = _greater(factor)
            if tried.holds(following):
                known = following
            else:
                failed = following
    return low if known == low else tried.narrowed(values, known, failed)


def _first_factor(excess: float, slope: float | None, digits: int) -> Decimal:
    """By how much to go on from a value: a little further than to where the slope says that the excess is 0, so that
    this lies between the two."""
    if slope is None or not slope < 0 or not math.isfinite(excess):
        return TWICE
    far = max(PAST * abs(excess / slope), 10.0 ** (1 - digits))
    return min(round_up(scalars.exp(far), digits=MOST_DIGITS), TWICE) if far < 1 else TWICE


def _greater(factor: Decimal) -> Decimal:
    """Twice a factor of two and more; of one near 1 its square, which is twice as far."""
    return multiply(factor, TWICE if factor >= TWICE else round_up(factor, digits=DIGITS))


def next_below(value: Decimal, digits: int) -> Decimal:
    """The last decimal of so many significant digits that is less."""
    return _Decimals(digits).below(value)


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

    def above(self, value: Decimal) -> Decimal:
        """The next one."""
        return round_up(Fraction(value) * (1 + self._slight), digits=self.digits)

    def below(self, value: Decimal) -> Decimal:
        """The last one before."""
        return round_down(Fraction(value) * (1 - self._slight), digits=self.digits)

    @property
    def _slight(self) -> Fraction:
        return Fraction(1, 10 ** (self.digits + 2))

    def middle(self, low: Decimal, high: Decimal) -> Decimal:
        """About the geometric mean."""
        return round_down(math.sqrt(low) * math.sqrt(high), digits=self.digits)

    def near(self, value: float, *, upwards: bool) -> Decimal:
        """The one next to a number, above or below it."""
        return (round_up if upwards else round_down)(value, digits=self.digits)

    def shrunk(self, value: Decimal, factor: Decimal) -> Decimal:
        """About value / factor, below it."""
        return round_down(Fraction(value) / Fraction(factor))


@dataclass(frozen=True, slots=True)
class _Wholes:
    """Whole numbers."""

    def above(self, value: Decimal) -> Decimal:
        return add(value, ONE)

    def below(self, value: Decimal) -> Decimal:
        return subtract(value, ONE)

    def middle(self, low: Decimal, high: Decimal) -> Decimal:
        """The geometric mean, rounded down."""
        return Decimal(math.isqrt(int(low) * int(high)))

    def near(self, value: float, *, upwards: bool) -> Decimal:
        """The one next to a number, above or below it."""
        return Decimal((math.ceil if upwards else math.floor)(value))

    def shrunk(self, value: Decimal, factor: Decimal) -> Decimal:
        """About value / factor, below the value, 1 or more."""
        return Decimal(math.ceil(Fraction(value) / Fraction(factor)))


@dataclass(frozen=True, slots=True)
class _Tried:
    """An excess, and what it was found to be. Whether a value holds is what it says there and nothing else; its shape
    says where to look next."""

    excess: Excess
    found: dict[Decimal, float] = field(default_factory=dict)

    def holds(self, value: Decimal) -> bool:
        if value not in self.found:
            self.found[value] = self.excess(value)
        return self.found[value] <= 0

    def narrowed(self, values: _Decimals | _Wholes, good: Decimal, bad: Decimal) -> Decimal:
        """Between a value that holds and one that does not: a value that holds beside one that does not. By inverse
        quadratic interpolation; by halves where that does not get ahead."""
        widths: list[float] = []
        held, in_a_row, before = False, 0, bad  # what the last try said, and so many before it; the end that it moved
        while True:
            low, high = min(good, bad), max(good, bad)
            first, last = values.above(low), values.below(high)
            if first >= high or last <= low:
                return good
            widths.append(scalars.log(float(high)) - scalars.log(float(low)))
            root = self._root(good, bad, before)
            if root is None or (len(widths) > PATIENCE and widths[-1] > widths[-1 - PATIENCE] / 2):
                tried = values.middle(low, high)
            else:
                if in_a_row > 1:  # as far again, so that the other end follows
                    root += root - scalars.log(float(good if held else bad))
                root = min(max(root, scalars.log(float(low))), scalars.log(float(high)))
                tried = values.near(scalars.exp(root), upwards=good > bad)
            tried = min(max(tried, first), last)
            in_a_row = in_a_row + 1 if self.holds(tried) == held else 1
            held = self.holds(tried)
            before, good, bad = (good, tried, bad) if held else (bad, good, tried)

    def _root(self, good: Decimal, bad: Decimal, before: Decimal) -> float | None:
        """The logarithm of about where the excess is 0; None where that is not known."""
        places = dict.fromkeys((good, bad, before))
        points = [(scalars.log(float(place)), self.found[place]) for place in places]
        if not all(math.isfinite(height) for _, height in points[:2]):
            return None
        (start, above), (end, below) = points[:2]
        if len({height for _, height in points if math.isfinite(height)}) == 3:
            terms = (
                place * math.prod(other / (other - height) for _, other in points if other != height)
                for place, height in points
            )
            root = sum(terms)
            if min(start, end) < root < max(start, end):
                return root
        return start - above * (end - start) / (below - above)


@dataclass(frozen=True, slots=True)
class _Search:
    """A value that was shown to meet the target, beside one that was not."""

    tried: _Tried
    values: _Decimals | _Wholes
    seek: Seek

    def run(self, low: Decimal, high: Decimal, target: Guarantee) -> Decimal:
        private, costly = (high, low) if self.seek == "least" else (low, high)
        good, bad = private, costly
        start = self._start(low, high)
        if self.tried.holds(start):
            good, bad = self._walk(start, bad, found=True)
        else:
            bad, good = self._walk(start, good, found=False)
        if not self.tried.holds(good):
            if self.tried.holds(costly):
                raise self._other_way(private, costly)
            raise InfeasiblePlan(
                f"no value from {text(low)} to {text(high)} meets {_words(target)}: not even {text(good)} does"
            )
        if good == bad == costly != private and not self.tried.holds(private):
            raise self._other_way(private, costly)
        if good == bad:
            return good
        return self.tried.narrowed(self.values, good, bad)

    def _other_way(self, private: Decimal, costly: Decimal) -> ParameterError:
        other = "most" if self.seek == "least" else "least"
        expected = f"{other!r}: {text(costly)} meets the target and {text(private)} does not"
        return ParameterError("seek", self.seek, expected)

    def _start(self, low: Decimal, high: Decimal) -> Decimal:
        return min(max(ONE, low), high)

    def _walk(self, start: Decimal, end: Decimal, *, found: bool) -> tuple[Decimal, Decimal]:
        """From `start` towards `end`, by growing factors, as long as the answer stays `found`: the last two values. At
        the end both are the end."""
        at, factor = start, TWICE
        while at != end:
            following = min(multiply(at, factor), end) if end > at else max(self.values.shrunk(at, factor), end)
            if self.tried.holds(following) != found:
                return at, following
            at, factor = following, multiply(factor, TWICE)
        return end, end


def _words(target: Guarantee) -> str:
    if not target.is_point:
        return f"{target.kind} {text(target.epsilon_at(Decimal('1e-6')))} (as an epsilon at delta 1e-6)"
    epsilon = f"epsilon {text(target.epsilon_at(target.fails))}"
    return f"{epsilon} at delta {text(target.fails)}" if isinstance(target, ApproxDP) else epsilon
