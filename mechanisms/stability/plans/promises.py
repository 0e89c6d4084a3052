"""From which distance on the tests of a plan answer, and how other modes would do.

>>> from decimal import Decimal
>>> paper_distance(Decimal(1), Decimal("1e-6"), 20, 1000, Decimal("0.05"))
Decimal('19353.4714902')
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import lru_cache

from dpledger.accounting.arithmetic import outward
from dpledger.accounting.composition import SparseVectorLaw
from dpledger.accounting.families.sparse_vector.scales import MODES
from dpledger.accounting.guarantees import PrivacyFailure
from dpledger.decimals import Number, read
from dpledger.errors import CannotCertify, InfeasiblePlan, ParameterError, WorkLimit
from dpledger.mechanisms.plan import Plan
from dpledger.mechanisms.stability.stable_tests import StableMode, StableTests, stable_tests
from dpledger.schema import one_of

__all__ = [
    "BETA",
    "HALF",
    "Budget",
    "PlanOfTests",
    "compared",
    "distance_of",
    "paper_distance",
    "planned_tests",
    "read_budget",
    "read_mode",
]

HALF = Decimal("0.5")
BETA = Decimal("0.05")  # how likely a promise may fail, where nobody says


@dataclass(frozen=True, slots=True)
class Budget:
    """What the tests of a plan may cost, and how delta is divided between composing them and their values."""

    epsilon: Decimal
    delta: Decimal
    delta_split: Decimal = HALF


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOfTests(Plan):
    """A plan of stable tests. `required_distance`: from there on a query is answered; `beta`: how likely the promise
    fails, which no delta counts."""

    budget: Budget
    tests: StableTests
    required_distance: int
    beta: Decimal

    @property
    def mode(self) -> StableMode:
        """The mode of the tests, no longer auto."""
        return self.tests.mode

    @property
    def cutoff(self) -> int | None:
        """How many answers UNSTABLE end the run; None in mode gaussian."""
        return self.tests.law.cutoff if isinstance(self.tests.law, SparseVectorLaw) else None

    @property
    def failures(self) -> tuple[PrivacyFailure, ...]:
        """What of delta pays for composing the tests, and what for the values."""
        return self.tests.failures()

    def asked(self) -> str:
        """The tests in a few words."""
        halt = "without a cutoff" if self.cutoff is None else f"with cutoff {self.cutoff}"
        return f"Tests are {self.mode} {halt}, and answer from distance {self.required_distance} on"


def read_budget(epsilon: Number, delta: Number, delta_split: Number = HALF) -> Budget:
    """Both above 0: stable answers need some of each."""
    found = Budget(read(epsilon, field="epsilon"), read(delta, field="delta"), read(delta_split, field="delta_split"))
    if not found.epsilon > 0:
        raise ParameterError("epsilon", epsilon, "a number above 0")
    if not 0 < found.delta < HALF:
        raise ParameterError("delta", delta, "a number in (0, 0.5): values are released with some probability")
    if not 0 < found.delta_split < 1:
        raise ParameterError("delta_split", delta_split, "a number in (0, 1)")
    return found


def read_mode(mode: StableMode, *, gaussian: bool = True) -> StableMode:
    """The mode, if it is one; `gaussian`: whether tests without a cutoff are."""
    one_of(mode, ("auto", "paper", *(("gaussian",) if gaussian else ()), *MODES), field="mode")
    return mode


@lru_cache(maxsize=4096)
def planned_tests(budget: Budget, cutoff: int, queries: int, mode: StableMode) -> StableTests:
    """The tests that a mechanism of this mode runs; in mode gaussian the cutoff is left out."""
    charged = None if mode == "gaussian" else cutoff
    return stable_tests(
        budget.epsilon, budget.delta, charged, mode, max_queries=queries, delta_split=budget.delta_split
    )


def distance_of(tests: StableTests, queries: int, beta: Decimal) -> int:
    """The distance that a plan counts on: what the tests need, or in mode paper the published one if that is more.

    Claim: with probability at least 1 - beta every one of `queries` queries that far is answered, as long as fewer than
    the cutoff are nearer. Source: docs/proofs/stability_utility.md, "The distance"."""
    needed = tests.required_distance(queries, beta)
    if tests.mode != "paper" or not isinstance(tests.law, SparseVectorLaw):
        return needed
    published = paper_distance(tests.epsilon, tests.delta, tests.law.cutoff, queries, beta)
    return max(needed, math.ceil(published))


def compared(
    budget: Budget, cutoff: int, queries: int, beta: Decimal, *, taken: StableMode
) -> tuple[tuple[StableMode, int], ...]:
    """The distance that every other mode needs, the least first; modes that have no scale here are left out."""
    found: list[tuple[StableMode, int]] = []
    modes: tuple[StableMode, ...] = (*MODES, "gaussian")
    for mode in modes:
        if mode == taken:
            continue
        try:
            found.append((mode, distance_of(planned_tests(budget, cutoff, queries, mode), queries, beta)))
        except (CannotCertify, InfeasiblePlan, WorkLimit):
            continue
    return tuple(sorted(found, key=lambda one: one[1]))


def paper_distance(epsilon: Decimal, delta: Decimal, cutoff: int, queries: int, beta: Decimal) -> Decimal:
    """8 scale log(4 m T/min(delta, beta)), the published distance of Corollary 3.9; rounded up."""
    with localcontext(outward.context(delta)):
        root = (2 * cutoff * outward.ln(2 / delta)).sqrt()
        return outward.above(32 * outward.ln(4 * queries * cutoff / min(delta, beta)) * root / epsilon)
