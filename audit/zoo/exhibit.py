"""What an exhibit of the zoo is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from dpledger.accounting.guarantees import ApproxDP, PureDP
from dpledger.audit.strata import ExPostClaim
from dpledger.errors import ParameterError

__all__ = ["TIGHT", "Exhibit"]

TIGHT = 0.999
"""The part of a claim that a tight pair attains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhibit:
    """A mechanism, a pair of neighbouring datasets, what it claims, and its true epsilon on the pair at the claim's
    delta. `batched`: whether it is f(data, size, rng) -> array, or f(data, rng) -> output. `tight`: whether the pair
    attains at least 0.999 of the claim, which is then the best that could be claimed.

    Of an ex-post claim `true_epsilon` is the largest of all outcomes; `strata` has the claimed and the true loss of
    each stratum, and `true_delta` is the least delta with which the claim holds on the pair."""

    about: str
    mechanism: Callable[..., Any]
    left: object
    right: object
    claim: PureDP | ApproxDP | ExPostClaim
    true_epsilon: float
    strata: tuple[tuple[Decimal, float], ...] = ()
    true_delta: float | None = None
    batched: bool = True
    tight: bool = False

    def __post_init__(self) -> None:
        if self.tight and (
            isinstance(self.claim, ExPostClaim) or not TIGHT <= self.true_epsilon / float(self.claim.epsilon) <= 1
        ):
            raise ParameterError("tight", self.true_epsilon, f"at least {TIGHT} of the claim, and at most all of it")

    @property
    def faulty(self) -> bool:
        """Whether the claim is false on this pair."""
        if not isinstance(self.claim, ExPostClaim):
            return self.true_epsilon > float(self.claim.epsilon)
        spare = 0.0 if self.claim.delta is None else float(self.claim.delta)
        falls = any(true > float(claimed) for claimed, true in self.strata)
        return falls or (self.true_delta is not None and self.true_delta > spare)
