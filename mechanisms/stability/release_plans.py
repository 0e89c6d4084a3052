"""From which distance on a stream of stable queries is answered, before anything is spent, and which mode does best.

Nothing here certifies privacy. `required_distance` is a promise about accuracy: but with probability beta, every query
at least that far is answered, as long as fewer than the cutoff are nearer (gaussian: however many are).

>>> plan = stable_plan(epsilon=1, delta="1e-6", cutoff=20, max_queries=1000)
>>> plan.mode, plan.runner_up.mode, plan.gaussian.required_distance > plan.required_distance
('target_charging', 'single_threshold', True)
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from dpledger.accounting.composition import SparseVectorLaw
from dpledger.accounting.families.sparse_vector.scales import MODES
from dpledger.accounting.guarantees import PrivacyFailure
from dpledger.decimals import ZERO, Number, text, total, whole
from dpledger.errors import CannotCertify, InfeasiblePlan, WorkLimit
from dpledger.mechanisms.plan import open_unit
from dpledger.mechanisms.stability.plans.promises import BETA, HALF, Budget, read_budget, read_mode
from dpledger.mechanisms.stability.stable_tests import MOST_QUERIES, StableMode, StableTests, stable_tests

__all__ = ["Alternative", "StablePlan", "stable_plan"]

_COMPARED: tuple[StableMode, ...] = (*MODES, "gaussian")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Another mode, and the distance from which on it answers."""

    mode: StableMode
    required_distance: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StablePlan:
    """How a stream of stable queries will run. `cutoff`: None in mode gaussian. `runner_up`: the best other mode that
    has a cutoff; `gaussian`: the tests without one. None where a mode has no scale at this budget.

    >>> dpl.planning.stable_plan(epsilon=1, delta="1e-6", cutoff=20, max_queries=1000).required_distance
    1055
    """

    epsilon: Decimal
    delta: Decimal
    cutoff: int | None
    max_queries: int
    beta: Decimal
    tests: StableTests
    required_distance: int
    delta_composition: Decimal
    delta_stability: Decimal
    runner_up: Alternative | None
    gaussian: Alternative | None

    @property
    def mode(self) -> StableMode:
        """The mode of the tests."""
        return self.tests.mode

    def words(self) -> str:
        """The plan in a few sentences."""
        found = [
            f"Mode {self.mode}: of {self.max_queries} queries every one at distance {self.required_distance} or more "
            f"is answered with its value, but with probability {text(self.beta)}"
        ]
        if self.cutoff is not None:
            found[0] += f", as long as fewer than {self.cutoff} are nearer; the run halts at as many that are UNSTABLE"
        if self.runner_up is not None:
            found.append(f"{self.runner_up.mode} would need {self.runner_up.required_distance}")
        if self.gaussian is not None and self.mode != "gaussian":
            needed = self.gaussian.required_distance
            found.append(f"Gaussian tests, which never halt before the last query, would need {needed}")
        return ". ".join(found) + "."


def stable_plan(
    *,
    epsilon: Number,
    delta: Number,
    beta: Number = BETA,
    cutoff: int | None = None,
    max_queries: int,
    mode: StableMode = "auto",
    delta_split: Number = HALF,
) -> StablePlan:
    """What `StableQueries` of these parameters does, compared with its other modes.

    `beta`: the chance that the promise about accuracy fails, which no delta counts. Raises as `StableQueries`.

    >>> plan = dpl.planning.stable_plan(epsilon=1, delta="1e-6", cutoff=20, max_queries=1000)
    >>> plan.mode, plan.required_distance
    ('target_charging', 1055)
    """
    budget, failing = read_budget(epsilon, delta, delta_split), open_unit(beta, "beta")
    queries = whole(max_queries, field="max_queries", least=1, most=MOST_QUERIES)
    charged = None if cutoff is None else whole(cutoff, field="cutoff", least=1, most=2**31 - 1)
    tests = _tests(budget, charged, queries, read_mode(mode))
    others = {
        other: needed
        for other in _COMPARED
        if (needed := _needed(budget, charged, other, queries, failing)) is not None
    }
    charging = [other for other in MODES if other in others and other != tests.mode]
    best = min(charging, key=others.__getitem__, default=None)
    causes = {cause: _of_cause(tests.failures(), cause) for cause in ("composition", "stability")}
    return StablePlan(
        epsilon=budget.epsilon,
        delta=budget.delta,
        cutoff=tests.law.cutoff if isinstance(tests.law, SparseVectorLaw) else None,
        max_queries=queries,
        beta=failing,
        tests=tests,
        required_distance=tests.required_distance(queries, failing),
        delta_composition=causes["composition"],
        delta_stability=causes["stability"],
        runner_up=None if best is None else Alternative(mode=best, required_distance=others[best]),
        gaussian=Alternative(mode="gaussian", required_distance=others["gaussian"]) if "gaussian" in others else None,
    )


def _tests(budget: Budget, cutoff: int | None, queries: int, mode: StableMode) -> StableTests:
    split = budget.delta_split
    return stable_tests(budget.epsilon, budget.delta, cutoff, mode, max_queries=queries, delta_split=split)


def _needed(budget: Budget, cutoff: int | None, mode: StableMode, queries: int, beta: Decimal) -> int | None:
    """From which distance on a mode answers; None where it has no scale at this budget, or needs a cutoff."""
    if cutoff is None and mode != "gaussian":
        return None
    try:
        tests = _tests(budget, None if mode == "gaussian" else cutoff, queries, mode)
    except (CannotCertify, InfeasiblePlan, WorkLimit):
        return None
    return tests.required_distance(queries, beta)


def _of_cause(failures: tuple[PrivacyFailure, ...], cause: str) -> Decimal:
    return total(failure.delta for failure in failures if failure.cause == cause) or ZERO
