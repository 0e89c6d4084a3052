"""What can be promised: the closed union of privacy guarantees, and how each may fail.

A guarantee is numbers only; the neighbouring relation stands beside it, in the scope or the document. Each is also a
leaf of the composition tree: a declared guarantee, priced by what it says. It answers for itself what it
means as an epsilon, what of a price it asks for, how it adds up with its like, how it is told in words.

>>> ApproxDP(epsilon=3, delta=1e-6)
ApproxDP(epsilon=Decimal('3'), delta=Decimal('0.000001'), kind='approx_dp')
>>> PureDP("-1")
Traceback (most recent call last):
...
dpledger.errors.ParameterError: PureDP.epsilon: expected a number that is not negative, got -1
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal, localcontext
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, TypeAlias, get_args, overload

from pydantic import Field, ValidationInfo, field_validator

from dpledger.accounting.arithmetic import outward
from dpledger.accounting.arithmetic.conversions import epsilon_of_gdp, epsilon_of_rdp, epsilon_of_zcdp
from dpledger.accounting.arithmetic.prices import Cost
from dpledger.decimals import INFINITY, ZERO, Number, multiply, round_up, subtract, text, total
from dpledger.errors import ImplausiblePromise, ParameterError
from dpledger.number_fields import Exact, Exacts, OpenProbability, Promise, PromisedProbability
from dpledger.schema import given, plain, record, tag

__all__ = [
    "GDP",
    "GUARANTEES",
    "RDP",
    "TOO_LARGE",
    "ZCDP",
    "AccuracyFailure",
    "ApproxDP",
    "BoundedRange",
    "Failure",
    "Grid",
    "Guarantee",
    "Need",
    "Point",
    "PrivacyCurve",
    "PrivacyFailure",
    "PureDP",
    "one_epsilon_an_order",
    "rising_orders",
    "warn_where_implausible",
    "words_of",
]


MOST_CURVE_POINTS = 4096
"""Points that a privacy curve may have."""

_FEW = 4  # numbers of a list that are written one by one
TOO_LARGE = Decimal(10**18)  # no decimal that is written down reaches it

Say: TypeAlias = Callable[[Decimal], str]
"""How a number is written."""


class Need(NamedTuple):
    """What a claim asks of a price: what it is, how much is claimed, and how much was found, None without a theorem."""

    name: str
    claimed: Decimal
    found: Decimal | None


class Point(NamedTuple):
    """(epsilon, delta)-DP."""

    epsilon: Decimal
    delta: Decimal


if TYPE_CHECKING:

    class Grid:
        """A field that holds a tuple of Decimals and takes any tuple of what `read` takes."""

        @overload
        def __get__(self, instance: None, owner: type) -> Grid: ...
        @overload
        def __get__(self, instance: object, owner: type) -> tuple[Decimal, ...]: ...
        def __get__(self, instance: object | None, owner: type) -> Any: ...
        def __set__(self, instance: object, value: tuple[Number, ...]) -> None: ...

else:
    Grid = tuple[Exact, ...]


# ---- what a guarantee answers for itself, and the nones of it by name -----------------------------------------------
#
# variant, registered     in words, and in those of the registry of deployments
# is_point                whether an epsilon and a delta are all that it says
# fails                   the delta that it lets fail, whatever it is read at
# own_delta               that at which it is an epsilon by itself; None where one is read from it at any
# epsilon_at(delta)       the epsilon that it means there
# points                  those of a privacy profile, where that is how it is said
# needs(price)            what it asks of a price in currencies that add up
# summand, sum_of         the guarantee as which it adds up with its like; None: as an epsilon and a delta alone
# in_words(say)           its numbers; an epsilon never stands without its delta


class _NeverFails:
    __slots__ = ()

    @property
    def fails(self) -> Decimal:
        return ZERO


class _ReadAtAnyDelta:
    __slots__ = ()

    @property
    def own_delta(self) -> None:
        return None


class _NoProfile:
    __slots__ = ()

    @property
    def points(self) -> tuple[Point, ...]:
        return ()


class _NoCurrency:
    __slots__ = ()

    def needs(self, price: Cost) -> tuple[Need, ...]:
        del price
        return ()


class _AddsUpAsEpsilon:
    __slots__ = ()

    @property
    def summand(self) -> None:
        return None


@record
class PureDP(_NeverFails, _NoProfile):
    """epsilon-differential privacy: P(S) <= e^epsilon Q(S) for every event S. Dwork et al. 2006.

    >>> round(dpl.compose((dpl.PureDP("0.1"), 3)).epsilon(0).upper, 4)
    0.3
    """

    epsilon: Promise
    kind: Literal["pure_dp"] = tag(default="pure_dp")

    variant: ClassVar[str] = "pure differential privacy"
    registered: ClassVar[str] = "Pure DP"
    is_point: ClassVar[bool] = True

    @property
    def own_delta(self) -> Decimal:
        return ZERO

    def epsilon_at(self, delta: Decimal) -> Decimal:
        """The epsilon that this means at `delta`; infinite where it means none there.

        Claim: it implies (result, delta)-DP, for a finite result. Source: its definition."""
        del delta
        return self.epsilon

    def needs(self, price: Cost) -> tuple[Need, ...]:
        return Need("epsilon", self.epsilon, price.pure), Need("delta", ZERO, price.delta)

    @property
    def summand(self) -> PureDP:
        return self

    @classmethod
    def sum_of(cls, parts: Sequence[PureDP]) -> tuple[Guarantee | None, ...]:
        """Source: Vadhan-Wang 2021."""
        return (_below_limit(cls, total(part.epsilon for part in parts)),)

    def in_words(self, say: Say) -> str:
        return f"ε = {say(self.epsilon)}, δ = 0"


@record
class ApproxDP(_NoCurrency, _AddsUpAsEpsilon):
    """(epsilon, delta)-differential privacy: P(S) <= e^epsilon Q(S) + delta for every event S. Dwork et al. 2006.

    >>> promised = dpl.ApproxDP(epsilon="0.5", delta="1e-7")
    >>> round(dpl.compose(promised, dpl.PureDP("0.1")).epsilon("1e-6").upper, 4)
    0.6
    """

    epsilon: Promise
    delta: PromisedProbability = given(default=Decimal(0))
    kind: Literal["approx_dp"] = tag(default="approx_dp")

    variant: ClassVar[str] = "approximate differential privacy"
    registered: ClassVar[str] = "Approximate DP"
    is_point: ClassVar[bool] = True

    @property
    def fails(self) -> Decimal:
        return self.delta

    @property
    def own_delta(self) -> Decimal:
        return self.delta

    @property
    def points(self) -> tuple[Point, ...]:
        return (Point(self.epsilon, self.delta),)

    def epsilon_at(self, delta: Decimal) -> Decimal:
        """The epsilon that this means at `delta`; infinite where it means none there.

        Claim: it implies (result, delta)-DP, for a finite result. Source: its definition."""
        return self.epsilon if delta >= self.delta else INFINITY

    def in_words(self, say: Say) -> str:
        return f"ε = {say(self.epsilon)}, δ = {say(self.delta)}"


@record
class ZCDP(_ReadAtAnyDelta, _NoProfile):
    """delta-approximate rho-zero-concentrated DP: the Renyi divergence of order a is at most a*rho, for every a > 1
    (after removing mass delta). Bun-Steinke 2016.

    >>> round(dpl.compose(dpl.ZCDP(rho="0.01")).epsilon("1e-6").upper, 4)
    0.6218
    """

    rho: Promise
    delta: PromisedProbability = given(default=Decimal(0))
    kind: Literal["zcdp"] = tag(default="zcdp")

    variant: ClassVar[str] = "zero-concentrated differential privacy"
    registered: ClassVar[str] = "Zero-concentrated DP"
    is_point: ClassVar[bool] = False

    @property
    def fails(self) -> Decimal:
        return self.delta

    def epsilon_at(self, delta: Decimal) -> Decimal:
        """The epsilon that this means at `delta`; infinite where it means none there.

        Claim: it implies (result, delta)-DP, for a finite result. Source: `epsilon_of_zcdp`."""
        return epsilon_of_zcdp(self.rho, subtract(delta, self.delta)) if delta > self.delta else INFINITY

    def needs(self, price: Cost) -> tuple[Need, ...]:
        return Need("rho", self.rho, price.rho), Need("delta", self.delta, price.delta)

    @property
    def summand(self) -> ZCDP | None:
        return None if self.delta else self  # with a delta it is not known to compose concurrently

    @classmethod
    def sum_of(cls, parts: Sequence[ZCDP]) -> tuple[Guarantee | None, ...]:
        """Source: Lyu 2022."""
        return (_below_limit(cls, total(part.rho for part in parts)),)

    def in_words(self, say: Say) -> str:
        return f"ρ = {say(self.rho)}" + (f", δ = {say(self.delta)}" if self.delta else "")


@record
class GDP(_NeverFails, _ReadAtAnyDelta, _NoProfile):
    """mu-Gaussian DP: at least as hard to tell apart as N(0,1) and N(mu,1). Dong-Roth-Su 2022.

    >>> round(dpl.compose(dpl.GDP(mu="0.5")).epsilon("1e-6").upper, 4)
    2.2541
    """

    mu: Promise
    kind: Literal["gdp"] = tag(default="gdp")

    variant: ClassVar[str] = "Gaussian differential privacy"
    registered: ClassVar[str] = "Custom"
    is_point: ClassVar[bool] = False

    def epsilon_at(self, delta: Decimal) -> Decimal:
        """The epsilon that this means at `delta`; infinite where it means none there.

        Claim: it implies (result, delta)-DP, for a finite result. Source: `epsilon_of_gdp`."""
        return epsilon_of_gdp(self.mu, delta) if delta or not self.mu else INFINITY

    def needs(self, price: Cost) -> tuple[Need, ...]:
        return Need("mu^2", multiply(self.mu, self.mu), price.mu_squared), Need("delta", ZERO, price.delta)

    @property
    def summand(self) -> GDP:
        return self

    @classmethod
    def sum_of(cls, parts: Sequence[GDP]) -> tuple[Guarantee | None, ...]:
        """Source: Vadhan-Zhang 2023."""
        return (_below_limit(cls, _root_of_squares(part.mu for part in parts)),)

    def in_words(self, say: Say) -> str:
        return f"μ = {say(self.mu)}"


def rising_orders(orders: tuple[Decimal, ...]) -> tuple[Decimal, ...]:
    """The orders of a Renyi grid; ValueError unless there are some, rising, each above 1."""
    if not orders or orders[0] <= 1 or any(b <= a for a, b in pairwise(orders)):
        raise ValueError("at least one order, rising, each above 1")
    return orders


def one_epsilon_an_order(epsilons: tuple[Decimal, ...], orders: tuple[Decimal, ...]) -> tuple[Decimal, ...]:
    """The epsilons of a Renyi grid; ValueError unless they are as many as its orders."""
    if len(epsilons) != len(orders):
        raise ValueError("as many epsilons as orders")
    return epsilons


@record
class RDP(_NeverFails, _ReadAtAnyDelta, _NoProfile):
    """Renyi DP on a grid: the divergence of order orders[i] is at most epsilons[i]. Orders rise, above 1.
    Mironov 2017.

    >>> round(dpl.compose(dpl.RDP(orders=(2, 16), epsilons=("0.01", "0.08"))).epsilon("1e-6").upper, 4)
    0.7517
    """

    orders: Grid
    epsilons: Grid
    kind: Literal["rdp"] = tag(default="rdp")

    if not TYPE_CHECKING:

        @field_validator("orders")
        @classmethod
        def _orders_rise_above_one(cls, orders):
            return rising_orders(orders)

        @field_validator("epsilons")
        @classmethod
        def _one_epsilon_an_order(cls, epsilons, info):
            return one_epsilon_an_order(epsilons, info.data.get("orders", epsilons))

    variant: ClassVar[str] = "Rényi differential privacy"
    registered: ClassVar[str] = "Renyi DP"
    is_point: ClassVar[bool] = False

    def epsilon_at(self, delta: Decimal) -> Decimal:
        """The epsilon that this means at `delta`; infinite where it means none there.

        Claim: it implies (result, delta)-DP, for a finite result. Source: `epsilon_of_rdp`."""
        grid = zip(self.orders, self.epsilons, strict=True)
        return min(epsilon_of_rdp(order, epsilon, delta) for order, epsilon in grid) if delta else INFINITY

    def needs(self, price: Cost) -> tuple[Need, ...]:
        grid = zip(self.orders, self.epsilons, strict=True)
        each = (Need(f"epsilon({text(order)})", most, price.rdp.get(order)) for order, most in grid)
        return (*each, Need("delta", ZERO, price.delta))

    @property
    def summand(self) -> RDP:
        return self

    @classmethod
    def sum_of(cls, parts: Sequence[RDP]) -> tuple[Guarantee | None, ...]:
        """At the orders that all of them name; all of them, where there is no such order. Source: Lyu 2022."""
        shared = set(parts[0].orders).intersection(*(part.orders for part in parts))
        if not shared:
            return tuple(parts)
        grids = [dict(zip(part.orders, part.epsilons, strict=True)) for part in parts]
        sums = {order: total(grid[order] for grid in grids) for order in sorted(shared)}
        return (None if max(sums.values()) >= TOO_LARGE else cls(tuple(sums), tuple(sums.values())),)

    def in_words(self, say: Say) -> str:
        points = [f"ε({text(order)}) = {say(at)}" for order, at in zip(self.orders, self.epsilons, strict=True)]
        return _some(points, "orders")


@record
class BoundedRange(_NeverFails, _NoProfile, _NoCurrency):
    """eta-bounded range: the privacy losses of one pair of neighbours lie in an interval of length eta.
    Dong-Durfee-Rogers 2020 (the exponential mechanism).

    >>> round(dpl.compose((dpl.BoundedRange(eta="0.1"), 20)).epsilon("1e-6").upper, 3)
    0.932
    """

    eta: Promise
    kind: Literal["bounded_range"] = tag(default="bounded_range")

    variant: ClassVar[str] = "bounded range"
    registered: ClassVar[str] = "Custom"
    is_point: ClassVar[bool] = False

    @property
    def own_delta(self) -> Decimal:
        return ZERO

    def epsilon_at(self, delta: Decimal) -> Decimal:
        """The epsilon that this means at `delta`; infinite where it means none there.

        Claim: it implies (result, delta)-DP, for a finite result. Source: Dong-Durfee-Rogers 2020: eta-DP."""
        del delta
        return self.eta

    @property
    def summand(self) -> PureDP:
        return PureDP(self.eta)

    def in_words(self, say: Say) -> str:
        return f"η = {say(self.eta)}"


@record
class PrivacyCurve(_NeverFails, _NoCurrency, _AddsUpAsEpsilon):
    """A privacy profile at some points, in either direction: delta(epsilons[i]) <= deltas[i]; epsilons rise from 0 or
    more. What is between follows by convexity. Zhu-Dong-Wang 2022; Doroshenko et al. 2022.

    `reached`, where it is known: delta(epsilons[i]) >= reached[i], in each direction. Without it the mechanism may be
    the worst that keeps the promise.

    >>> curve = dpl.PrivacyCurve(epsilons=(0, 1), deltas=("0.1", "1e-6"))
    >>> round(dpl.compose(curve).epsilon("1e-6").upper, 4)
    1.0
    """

    epsilons: Exacts
    deltas: Exacts
    reached: Exacts = given(default=())
    kind: Literal["privacy_curve"] = tag(default="privacy_curve")

    @field_validator("epsilons")
    @classmethod
    def _rise(cls, epsilons: tuple[Decimal, ...]) -> tuple[Decimal, ...]:
        if not 1 <= len(epsilons) <= MOST_CURVE_POINTS or any(b <= a for a, b in pairwise(epsilons)):
            raise ValueError(f"1 to {MOST_CURVE_POINTS} numbers that rise")
        return epsilons

    @field_validator("deltas")
    @classmethod
    def _are_probabilities(cls, deltas: tuple[Decimal, ...], info: ValidationInfo) -> tuple[Decimal, ...]:
        if len(deltas) != len(info.data.get("epsilons", deltas)) or any(delta > 1 for delta in deltas):
            raise ValueError("as many numbers in [0, 1] as epsilons")
        return deltas

    @field_validator("reached")
    @classmethod
    def _are_below(cls, reached: tuple[Decimal, ...], info: ValidationInfo) -> tuple[Decimal, ...]:
        ceilings = tuple(accumulate(info.data.get("deltas", reached), min))
        if reached and (len(reached) != len(ceilings) or any(a > b for a, b in zip(reached, ceilings, strict=False))):
            raise ValueError("nothing, or as many numbers as epsilons, each at most the deltas up to there")
        return reached

    variant: ClassVar[str] = "a privacy curve"
    registered: ClassVar[str] = "Custom"
    is_point: ClassVar[bool] = False

    @property
    def own_delta(self) -> Decimal:
        return min(self.deltas)

    @property
    def points(self) -> tuple[Point, ...]:
        return tuple(map(Point, self.epsilons, self.deltas))

    def epsilon_at(self, delta: Decimal) -> Decimal:
        """The epsilon that this means at `delta`; infinite where it means none there.

        Claim: it implies (result, delta)-DP, for a finite result. Source: its definition."""
        return next((at.epsilon for at in self.points if at.delta <= delta), INFINITY)

    def in_words(self, say: Say) -> str:
        return _some([f"δ({say(at.epsilon)}) = {say(at.delta)}" for at in self.points], "points")


Guarantee: TypeAlias = PureDP | ApproxDP | ZCDP | GDP | RDP | BoundedRange | PrivacyCurve
"""The closed union of guarantees; told apart by `kind`."""
GUARANTEES: tuple[type[Guarantee], ...] = get_args(Guarantee)
"""The classes of the union, for a value of which nothing is known yet."""

if not TYPE_CHECKING:
    Guarantee = Annotated[Guarantee, Field(discriminator="kind")]


LARGEST_DELTA = Decimal("0.01")
"""A delta of as much is hardly meant: (0, delta)-DP allows to publish each unit's data whole with probability delta."""


def warn_where_implausible(promise: Guarantee, field: str) -> None:
    """Warn (`ImplausiblePromise`) of a delta at which the promise protects hardly anybody."""
    if not isinstance(promise, GUARANTEES):
        raise ParameterError(field, promise, "a guarantee, like ApproxDP(1, '1e-6')")
    delta = promise.fails
    if delta >= LARGEST_DELTA:
        words = (
            f"{field}: a delta of {text(delta)} allows to publish the data of each unit, whole, with that probability; "
            "what is usual is far below one over the number of units, like 1e-6"
        )
        warnings.warn(words, ImplausiblePromise, stacklevel=3)


@record
class PrivacyFailure:
    """A part of a claim's delta and its cause; the parts of one mechanism add up to the delta of its claim."""

    delta: OpenProbability
    cause: Literal["approximation", "composition", "stability", "tail_conversion", "time_uniform_boundary", "numeric"]
    kind: Literal["privacy"] = tag(default="privacy")


@record
class AccuracyFailure:
    """With probability at most beta the stated utility fails. Never part of a delta."""

    beta: OpenProbability
    statement: str
    kind: Literal["accuracy"] = tag(default="accuracy")


Failure: TypeAlias = PrivacyFailure | AccuracyFailure

if not TYPE_CHECKING:
    Failure = Annotated[Failure, Field(discriminator="kind")]


def _below_limit(kind: Callable[[Decimal], Guarantee], amount: Decimal) -> Guarantee | None:
    """The sum of some guarantees; None where it is too large to be one."""
    return kind(amount) if amount < TOO_LARGE else None


def _root_of_squares(numbers: Iterable[Decimal]) -> Decimal:
    squares = total(multiply(number, number) for number in numbers)
    with localcontext(outward.context(squares)):
        root = squares.sqrt()
        return round_up(root) if root * root == squares else outward.above(root)


def _some(points: Sequence[str], what: str) -> str:
    """The first, the middle and the last of a list, and how many there are."""
    shown = sorted({0, len(points) // 2, len(points) - 1})
    told = ", ".join(points[place] for place in shown)
    return told if len(points) <= len(shown) else f"{told} ({len(points)} {what} in all)"


def words_of(guarantee: Guarantee) -> str:
    """A guarantee as people write it: its kind and numbers, of a long list its ends.

    >>> words_of(ApproxDP(1, "1e-6"))
    'approx_dp(epsilon=1, delta=0.000001)'
    """
    values = {name: value for name, value in plain(guarantee).items() if name != "kind"}
    return f"{guarantee.kind}({', '.join(f'{name}={_brief(value)}' for name, value in values.items())})"


def _brief(value: object) -> str:
    if isinstance(value, list) and len(value) > _FEW:
        return f"[{value[0]} .. {value[-1]}: {len(value)} in all]"
    return str(value)
