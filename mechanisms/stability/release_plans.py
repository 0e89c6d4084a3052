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
from dpledger.accounting.guarantees import PrivacyFailure
from dpledger.decimals import ZERO, Number, text, total, whole
from dpledger.mechanisms.plan import open_unit
from dpledger.mechanisms.stability.plans.promises import BETA, HALF, compared, read_budget, read_mode
from dpledger.mechanisms.stability.stable_tests import MOST_QUERIES, StableMode, StableTests, stable_tests

__all__ = ["Alternative", "StablePlan", "stable_plan"]


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
    way, split = read_mode(mode), budget.delta_split
    tests = stable_tests(budget.epsilon, budget.delta, charged, way, max_queries=queries, delta_split=split)
    needed = tests.required_distance(queries, failing)
    others: dict[StableMode, int] = {"gaussian": needed}
    if charged is not None:
        others = dict(compared(budget, charged, queries, failing, taken=tests.mode))
    gaussian = others.pop("gaussian", None)
    best = min(others, key=others.__getitem__, default=None)
    causes = {cause: _of_cause(tests.failures(), cause) for cause in ("composition", "stability")}
    return StablePlan(
        epsilon=budget.epsilon,
        delta=budget.delta,
        cutoff=tests.law.cutoff if isinstance(tests.law, SparseVectorLaw) else None,
        max_queries=queries,
        beta=failing,
        tests=tests,
        required_distance=needed,
        delta_composition=causes["composition"],
        delta_stability=causes["stability"],
        runner_up=None if best is None else Alternative(mode=best, required_distance=others[best]),
        gaussian=None if gaussian is None else Alternative(mode="gaussian", required_distance=gaussian),
    )


def _of_cause(failures: tuple[PrivacyFailure, ...], cause: str) -> Decimal:
    return total(failure.delta for failure in failures if failure.cause == cause) or ZERO
