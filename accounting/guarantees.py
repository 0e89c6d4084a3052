"""What can be promised: the closed union of privacy guarantees, and how each may fail.

A guarantee is numbers only; the neighbouring relation stands beside it, in the scope or the document. Each is also a
leaf of the composition tree: a declared guarantee, priced by what it says.

>>> ApproxDP(epsilon=3, delta=1e-6)
ApproxDP(epsilon=Decimal('3'), delta=Decimal('0.000001'), kind='approx_dp')
>>> PureDP("-1")
Traceback (most recent call last):
...
dpledger.errors.ParameterError: PureDP.epsilon: expected a number that is not negative, got -1
"""

from __future__ import annotations

import warnings
from decimal import Decimal
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, overload

from pydantic import Field, ValidationInfo, field_validator

from dpledger.decimals import Number, text
from dpledger.errors import ImplausiblePromise, ParameterError
from dpledger.number_fields import Exact, Exacts, OpenProbability, Promise, PromisedProbability
from dpledger.schema import given, plain, record, tag

__all__ = [
    "GDP",
    "RDP",
    "ZCDP",
    "AccuracyFailure",
    "ApproxDP",
    "BoundedRange",
    "Failure",
    "Grid",
    "Guarantee",
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


@record
class PureDP:
    """epsilon-differential privacy: P(S) <= e^epsilon Q(S) for every event S. Dwork et al. 2006.

    >>> round(dpl.compose((dpl.PureDP("0.1"), 3)).epsilon(0).upper, 4)
    0.3
    """

    epsilon: Promise
    kind: Literal["pure_dp"] = tag(default="pure_dp")


@record
class ApproxDP:
    """(epsilon, delta)-differential privacy: P(S) <= e^epsilon Q(S) + delta for every event S. Dwork et al. 2006.

    >>> promised = dpl.ApproxDP(epsilon="0.5", delta="1e-7")
    >>> round(dpl.compose(promised, dpl.PureDP("0.1")).epsilon("1e-6").upper, 4)
    0.6
    """

    epsilon: Promise
    delta: PromisedProbability = given(default=Decimal(0))
    kind: Literal["approx_dp"] = tag(default="approx_dp")


@record
class ZCDP:
    """delta-approximate rho-zero-concentrated DP: the Renyi divergence of order a is at most a*rho, for every a > 1
    (after removing mass delta). Bun-Steinke 2016.

    >>> round(dpl.compose(dpl.ZCDP(rho="0.01")).epsilon("1e-6").upper, 4)
    0.6218
    """

    rho: Promise
    delta: PromisedProbability = given(default=Decimal(0))
    kind: Literal["zcdp"] = tag(default="zcdp")


@record
class GDP:
    """mu-Gaussian DP: at least as hard to tell apart as N(0,1) and N(mu,1). Dong-Roth-Su 2022.

    >>> round(dpl.compose(dpl.GDP(mu="0.5")).epsilon("1e-6").upper, 4)
    2.2541
    """

    mu: Promise
    kind: Literal["gdp"] = tag(default="gdp")


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
class RDP:
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


@record
class BoundedRange:
    """eta-bounded range: the privacy losses of one pair of neighbours lie in an interval of length eta.
    Dong-Durfee-Rogers 2020 (the exponential mechanism).

    >>> round(dpl.compose((dpl.BoundedRange(eta="0.1"), 20)).epsilon("1e-6").upper, 3)
    0.932
    """

    eta: Promise
    kind: Literal["bounded_range"] = tag(default="bounded_range")


@record
class PrivacyCurve:
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


Guarantee: TypeAlias = PureDP | ApproxDP | ZCDP | GDP | RDP | BoundedRange | PrivacyCurve
"""The closed union of guarantees; told apart by `kind`."""

if not TYPE_CHECKING:
    Guarantee = Annotated[Guarantee, Field(discriminator="kind")]


LARGEST_DELTA = Decimal("0.01")
"""A delta of as much is hardly meant: (0, delta)-DP allows to publish each unit's data whole with probability delta."""


def warn_where_implausible(promise: Guarantee, field: str) -> None:
    """Warn (`ImplausiblePromise`) of a delta at which the promise protects hardly anybody."""
    match promise:
        case ApproxDP(delta=delta) | ZCDP(delta=delta):
            pass
        case PureDP() | GDP() | RDP() | BoundedRange() | PrivacyCurve():
            return
        case _:
            raise ParameterError(field, promise, "a guarantee, like ApproxDP(1, '1e-6')")
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
