"""What is promised as an epsilon and a delta, as a range of losses, or as a curve of such pairs."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from itertools import accumulate, pairwise
from typing import ClassVar, Literal

from pydantic import ValidationInfo, field_validator

from dpledger.accounting.arithmetic.prices import Cost
from dpledger.accounting.guarantees.answers import (
    AddsUpAsEpsilon,
    Need,
    NeverFails,
    NoCurrency,
    NoProfile,
    Point,
    Say,
    below_limit,
    some_of,
)
from dpledger.decimals import INFINITY, ZERO, total
from dpledger.number_fields import Exacts, Promise, PromisedProbability
from dpledger.schema import given, record, tag

__all__ = ["ApproxDP", "BoundedRange", "PrivacyCurve", "PureDP"]

MOST_CURVE_POINTS = 4096
"""Points that a privacy curve may have."""


@record
class PureDP(NeverFails, NoProfile):
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
    def sum_of(cls, parts: Sequence[PureDP]) -> tuple[PureDP | None, ...]:
        """Source: Vadhan-Wang 2021."""
        return (below_limit(cls, total(part.epsilon for part in parts)),)

    def in_words(self, say: Say) -> str:
        return f"ε = {say(self.epsilon)}, δ = 0"


@record
class ApproxDP(NoCurrency, AddsUpAsEpsilon):
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
class BoundedRange(NeverFails, NoProfile, NoCurrency):
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
class PrivacyCurve(NeverFails, NoCurrency, AddsUpAsEpsilon):
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
        return some_of([f"δ({say(at.epsilon)}) = {say(at.delta)}" for at in self.points], "points")
