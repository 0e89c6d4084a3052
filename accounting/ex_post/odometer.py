"""An odometer: a running bound of the loss of everything so far, valid wherever the analyst stops.

Each charge counts in one currency, `pure` (X) or `rho` (S), and its delta; which currency, its price before it runs
decides, by constants that are fixed before the first release. The reading is

    U = X + S + psi(2 S)       psi: a boundary in time (`boundaries`); U = X while S is 0

>>> odometer = Odometer("linear", tuning=1, delta_boundary="1e-6")
>>> counted = spend(odometer, Cost(pure=None, rho=Decimal("0.5"), mu_squared=None))
>>> read(odometer, [counted]).epsilon_upper
Decimal('5.75652176977')
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, assert_never

from pydantic import model_validator

from dpledger.accounting.arithmetic import outward
from dpledger.accounting.arithmetic.prices import Cost
from dpledger.accounting.ex_post.boundaries import (
    LinearBoundary,
    MixtureBoundary,
    TimeUniformBoundary,
    height,
)
from dpledger.decimals import INFINITY, ZERO, add, multiply, round_up, total
from dpledger.errors import ParameterError
from dpledger.number_fields import OpenProbability, Positive, Probability
from dpledger.schema import given, record

__all__ = ["Odometer", "OdometerReading", "Spend", "read", "spend"]


@record
class Odometer:
    """The constants of an odometer: the boundary, what it may fail (`delta_boundary`), and what the deltas of the
    charges may add up to before nothing is known any more (`delta_sum`). The two stay below 1 together.

    `tuning`: twice the sum of rho at which the reading is to be best.

    >>> odometer = dpl.ex_post.Odometer(boundary="mixture", tuning="0.01", delta_boundary="1e-7", delta_sum="1e-7")
    >>> budget = dpl.ApproxDP(3, "1e-6")
    >>> book = dpl.Ledger.in_memory()
    >>> scope = book.scope("rows", unit="record", relation="add_remove", budget=budget, odometer=odometer)
    >>> receipt = scope.release(dpl.Laplace(sensitivity=1, epsilon="0.1"), 40)
    >>> round(scope.account().odometer().epsilon_upper, 4)
    Decimal('0.1000')
    """

    boundary: Literal["linear", "mixture"]
    tuning: Positive
    delta_boundary: OpenProbability
    delta_sum: Probability = given(default=ZERO)

    if not TYPE_CHECKING:

        @model_validator(mode="after")
        def _leaves_room(self):
            if not self.delta < 1:
                raise ParameterError("delta_sum", self.delta_sum, "a number below 1 - delta_boundary")
            return self

    @property
    def delta(self) -> Decimal:
        """What a reading may fail, all in all."""
        return add(self.delta_boundary, self.delta_sum)


@dataclass(frozen=True, slots=True)
class Spend:
    """What one charge counts: `pure` or `rho`, the other 0; both infinite without a price. And its delta."""

    pure: Decimal
    rho: Decimal
    delta: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class OdometerReading:
    """What an odometer shows: the transcript so far is (epsilon_upper, delta)-bounded in the integrated ex-post sense.
    It is no DP guarantee. Infinite: unknown. `pure`, `rho`, `delta_charged`: the sums that it was read from."""

    odometer: Odometer
    epsilon_upper: Decimal
    delta: Decimal
    pure: Decimal
    rho: Decimal
    delta_charged: Decimal


def spend(odometer: Odometer, reserved: Cost, settled: Cost | None = None) -> Spend:
    """What a charge counts that was reserved at the price `reserved`, and has settled at `settled` (None: not yet).

    It counts in rho where a line that touches at `tuning` rises less by it than by its pure price. It stays in that
    currency, and its delta never falls."""
    currency = _currency(odometer, reserved)
    cap, known = _in(currency, reserved), None if settled is None else _in(currency, settled)
    amount = INFINITY if cap is None else cap if known is None else min(cap, known)
    delta = reserved.delta
    match currency:
        case "pure":
            return Spend(amount, ZERO, delta)
        case "rho":
            return Spend(ZERO, amount, delta)
        case _:
            assert_never(currency)


Currency = Literal["pure", "rho"]


def _in(currency: Currency, cost: Cost) -> Decimal | None:
    return cost.pure if currency == "pure" else cost.rho


def _currency(odometer: Odometer, cost: Cost) -> Currency:
    if cost.rho is None:
        return "pure"
    return "rho" if cost.pure is None or multiply(cost.rho, _steepness(odometer)) < cost.pure else "pure"


@lru_cache(maxsize=64)
def _steepness(odometer: Odometer) -> Decimal:
    """By how much S + psi(2 S) rises with S on the line that touches at `tuning`. Any constant is sound."""
    with localcontext(outward.context(odometer.tuning, odometer.delta_boundary)):
        return outward.above(1 + (-2 * outward.ln(odometer.delta_boundary) / odometer.tuning).sqrt())


def read(odometer: Odometer, spent: Iterable[Spend]) -> OdometerReading:
    """The reading after these charges; infinite where one has no price, or their deltas pass `delta_sum`.

    Claim: if the constants were fixed before the first release, then at every stopping time the transcript so far is
    integrated ex-post (epsilon_upper, delta): the integral of (dP - e^epsilon_upper dQ)_+ is at most `delta`.
    Source: docs/proofs/ex_post.md, "Odometers"; of Whitehouse-Ramdas-Rogers-Wu 2023 for steps counted in rho."""
    counted = tuple(spent)
    pure, rho = total(one.pure for one in counted), total(one.rho for one in counted)
    failed = total(one.delta for one in counted)
    known = failed <= odometer.delta_sum and not pure.is_infinite() and not rho.is_infinite()
    deviation = height(_boundary(odometer), multiply(rho, 2)) if known and rho else ZERO
    return OdometerReading(
        odometer=odometer,
        epsilon_upper=round_up(add(pure, rho, deviation)) if known else INFINITY,
        delta=odometer.delta,
        pure=pure,
        rho=rho,
        delta_charged=failed,
    )


def _boundary(odometer: Odometer) -> TimeUniformBoundary:
    match odometer.boundary:
        case "linear":
            return LinearBoundary(odometer.tuning, odometer.delta_boundary)
        case "mixture":
            return MixtureBoundary(odometer.tuning, odometer.delta_boundary)
        case _:
            assert_never(odometer.boundary)
