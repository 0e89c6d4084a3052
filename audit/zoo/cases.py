"""What a case of the zoo is, and how cases that share a pair are listed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

from dpledger.accounting.guarantees import ApproxDP, PureDP
from dpledger.audit.strata import ExPostClaim

__all__ = ["INFINITE", "TIGHT", "Case", "Shown", "family"]

TIGHT = 0.999
"""The part of a claim that a tight pair attains."""
INFINITE = math.inf
ONE = PureDP(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A mechanism, a pair of neighbouring datasets, what it claims, and its true epsilon on the pair at the claim's
    delta. `batched`: whether it is f(data, size, rng) -> array, or f(data, rng) -> output.

    `runs`: of a faulty one, so many runs a side refute it at confidence 0.9999; of a correct one, so many do not.

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
    runs: int = 1_000

    @property
    def faulty(self) -> bool:
        """Whether the claim is false on this pair."""
        if not isinstance(self.claim, ExPostClaim):
            return self.true_epsilon > float(self.claim.epsilon)
        spare = 0.0 if self.claim.delta is None else float(self.claim.delta)
        falls = any(true > float(claimed) for claimed, true in self.strata)
        return falls or (self.true_delta is not None and self.true_delta > spare)

    @property
    def tight(self) -> bool:
        """Whether the pair attains at least 0.999 of the claim, which is then the best that could be claimed."""
        return not isinstance(self.claim, ExPostClaim) and TIGHT <= self.true_epsilon / float(self.claim.epsilon) <= 1


class Shown(NamedTuple):
    """One of a family: what is said of it, the mechanism with its constants, its true epsilon, its runs."""

    about: str
    mechanism: Callable[..., Any]
    true_epsilon: float
    runs: int = 1_000


def family(
    pair: tuple[object, object], *, claim: PureDP | ApproxDP = ONE, batched: bool = False, **shown: Shown
) -> dict[str, Case]:
    """Cases by name that share a pair and a claim, and differ in a constant."""
    return {
        name: Case(
            about=one.about,
            mechanism=one.mechanism,
            left=pair[0],
            right=pair[1],
            claim=claim,
            true_epsilon=one.true_epsilon,
            batched=batched,
            runs=one.runs,
        )
        for name, one in shown.items()
    }
