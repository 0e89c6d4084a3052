"""Which tests of distances a mechanism runs: the parameters that all mechanisms over (value, distance) have in common.

auto, and the modes of a sparse vector     charged where they fail; halt at the `cutoff`-th that does
paper                                      its published scales and threshold; needs `max_queries`
gaussian                                   each test for itself, `max_queries` of them; no cutoff
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from dpledger.accounting.certificates.gaussian_tests import (
    GaussianTestsLaw,
    gaussian_distance,
    gaussian_tests,
    gaussian_tests_parts,
)
from dpledger.accounting.composition import Composition, SparseVectorLaw
from dpledger.accounting.families.sparse_vector import delta_by_cause
from dpledger.accounting.families.sparse_vector.scales import SparseVectorMode
from dpledger.accounting.families.sparse_vector.stable_scales import published_law, required_distance, stable_law
from dpledger.accounting.guarantees import PrivacyFailure
from dpledger.decimals import subtract
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import DiscreteGaussian, DiscreteLaplace, Sensitivity
from dpledger.mechanisms.stability.gaussian import GaussianTests
from dpledger.mechanisms.threshold.conversation import ThresholdTests
from dpledger.mechanisms.threshold.epochs import EpochPlan, Epochs

__all__ = ["MOST_QUERIES", "StableMode", "StableTests", "stable_tests"]

StableMode: TypeAlias = Literal["auto", "paper", "gaussian"] | SparseVectorMode
MOST_QUERIES = 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class StableTests:
    """The tests of a run, their mode fixed. `law` keeps (epsilon, delta); `max_queries` halts the run, if given."""

    epsilon: Decimal
    delta: Decimal
    mode: StableMode
    law: SparseVectorLaw | GaussianTestsLaw
    max_queries: int | None

    def parts(self) -> Composition:
        """What they are made of, no outcome yet."""
        return self.law if isinstance(self.law, SparseVectorLaw) else gaussian_tests_parts(self.law)

    def failures(self) -> tuple[PrivacyFailure, ...]:
        """Delta by its causes: composing the tests, where that needs any, and releasing a value that a neighbour does
        not have."""
        if isinstance(self.law, SparseVectorLaw):
            return delta_by_cause(self.law)
        stability = self.law.delta_stability
        composition = PrivacyFailure(subtract(self.delta, stability), "composition")
        return (composition, PrivacyFailure(stability, "stability"))

    @property
    def threshold(self) -> int:
        """From which distance on a value is released more often than not, before any noise on the threshold."""
        if isinstance(self.law, SparseVectorLaw):
            assert self.law.stable_at is not None, "a law of released values"
            return self.law.stable_at
        return self.law.threshold

    def required_distance(self, max_queries: int, beta: Decimal) -> int:
        """The least distance, or one above, from which on every value is released, for all of `max_queries` queries at
        once, but with probability beta: as long as fewer queries than the cutoff, where there is one, are nearer."""
        if isinstance(self.law, SparseVectorLaw):
            return int(required_distance(self.law, max_queries, beta, noise="discrete_laplace"))
        return gaussian_distance(self.law, beta)

    def parameters(self) -> dict[str, Any]:
        """The mode, the scales and the threshold that are used."""
        if isinstance(self.law, SparseVectorLaw):
            scales: dict[str, Any] = {
                "cutoff": self.law.cutoff,
                "threshold_scale": self.law.threshold_scale,
                "query_scale": self.law.query_scale,
                "threshold": self.law.stable_at,
            }
        else:
            scales = {"cutoff": None, "sigma": self.law.sigma, "threshold": self.law.threshold}
        return {"mode": self.mode, **scales, "grid": 1, "sensitivity": 1, "max_queries": self.max_queries}

    def steps_to_grant(self) -> int | None:
        """How many tests are steps of a plan, in mode gaussian; None where they are charged as they fail."""
        return None if isinstance(self.law, SparseVectorLaw) else self.law.max_queries

    def start(self, justification: str, entropy: Entropy) -> ThresholdTests:
        """The tests of a run. `justification`: why one unit moves a distance by no more than one."""
        law = self.law
        if not isinstance(law, SparseVectorLaw):
            return GaussianTests(law, justification, entropy)
        assert law.stable_at is not None, "a law of released values"
        plan = EpochPlan(
            law=law,
            threshold=law.stable_at,
            threshold_noise=DiscreteLaplace(law.threshold_scale) if law.threshold_scale else None,
            query_noise=DiscreteLaplace(law.query_scale),
            sensitivity=Sensitivity(1, "linf", justification),
            max_queries=self.max_queries,
        )
        return Epochs(plan, entropy)


@lru_cache(maxsize=256)
def stable_tests(
    epsilon: Decimal,
    delta: Decimal,
    cutoff: int | None,
    mode: StableMode = "auto",
    *,
    max_queries: int | None = None,
    share: Decimal | None = None,
    delta_split: Decimal = Decimal("0.5"),
) -> StableTests:
    """The tests that keep (epsilon, delta) with the least noise of the mode, and then the least threshold.

    `cutoff`: how many answers UNSTABLE end the run; None in mode gaussian, which has none. ParameterError where a mode
    lacks what it needs; otherwise raises as `stable_law` and `gaussian_tests`.
    """
    law: SparseVectorLaw | GaussianTestsLaw
    if mode == "gaussian":
        _require(cutoff is None, "cutoff", cutoff, "nothing in mode gaussian: every test costs the same")
        _require(share is None, "share", share, "nothing in mode gaussian")
        if max_queries is None:
            raise ParameterError("max_queries", "nothing", "how many tests are planned, in mode gaussian")
        law = gaussian_tests(epsilon, delta, max_queries, delta_split=delta_split)
        DiscreteGaussian(law.sigma)
        return StableTests(epsilon=epsilon, delta=delta, mode=mode, law=law, max_queries=max_queries)
    if cutoff is None:
        raise ParameterError("cutoff", "nothing", f"how many answers UNSTABLE end the run, in mode {mode}")
    if mode == "paper":
        _require(share is None, "share", share, "nothing in mode paper")
        if max_queries is None:
            raise ParameterError("max_queries", "nothing", "how many queries are planned, in mode paper")
        law = published_law(epsilon, delta, cutoff, max_queries)
        return StableTests(epsilon=epsilon, delta=delta, mode=mode, law=law, max_queries=max_queries)
    law = stable_law(epsilon, delta, cutoff, mode, max_queries=max_queries, share=share, delta_split=delta_split)
    return StableTests(epsilon=epsilon, delta=delta, mode=law.mode, law=law, max_queries=max_queries)


def _require(holds: bool, field: str, value: object, expected: str) -> None:
    if not holds:
        raise ParameterError(field, value, expected)
