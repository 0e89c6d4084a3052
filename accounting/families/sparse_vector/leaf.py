"""A sparse vector: the law that a composition tree holds, and what a run of it published."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from dpledger.number_fields import Count, Exact, Noise, OptionalPositive, Positive, Probability, Tally, Whole
from dpledger.schema import given, record, tag

__all__ = ["SparseVectorLaw", "SparseVectorOutcome"]


@record
class SparseVectorOutcome:
    """What a sparse vector interaction published, in numbers: every test, those below the threshold (charged), and the
    tests of each closed epoch and of the open one (docs/proofs/sparse_vector.md, "Ex-post loss").

    `ratio`, where noise falls: how many times the scales of the law those of the last test were, at least 1."""

    closed_epochs: tuple[Tally, ...]
    open_epoch: Tally
    halted: bool
    ratio: OptionalPositive = given(default=None)
    kind: Literal["sparse_vector_outcome"] = tag(default="sparse_vector_outcome")

    @property
    def tests(self) -> int:
        """Every test, of closed epochs and of the open one: as many as answers were given."""
        return sum(self.closed_epochs) + self.open_epoch


@record
class SparseVectorLaw:
    """Sparse vector (docs/proofs/sparse_vector.md): `cutoff` charged answers, noise of scale `threshold_scale` on the
    threshold and `query_scale` on each query, both divided by the sensitivity. Without an outcome it costs its cap.

    `mode`: single_threshold, target_charging, basic, dr14, zcdp, kov. `calls`: the K of target_charging. `stable_at`:
    a value is released with each free answer, of queries that are whole distances to another value, and this is their
    threshold, in steps of the sensitivity; noise is discrete. `monotone`: between two neighbours all queries move in
    one direction, so that a charge costs 1/query_scale, not 2 (in target_charging it costs that anyway). `falling`, of
    one charge on a single threshold: both scales fall from test to test in one ratio, down to these, the threshold's
    noise along a chain (ReducedAboveThreshold of Whitehouse et al. 2022).

    >>> law = dpl.planning.SparseVectorLaw
    >>> tests = law(mode="basic", cutoff=3, epsilon=1, delta=0, threshold_scale=6, query_scale=12)
    >>> round(dpl.compose(tests).epsilon(0).upper, 4)
    1.0
    """

    mode: Literal["single_threshold", "target_charging", "basic", "dr14", "zcdp", "kov"]
    cutoff: Annotated[Whole, Field(strict=True, ge=1, lt=2**31)]
    epsilon: Positive
    delta: Probability
    threshold_scale: Exact
    query_scale: Noise
    calls: Count | None = given(default=None)
    stable_at: Annotated[Whole, Field(strict=True, ge=1, lt=2**53)] | None = given(default=None)
    monotone: Literal[True] | None = given(default=None)
    falling: Literal[True] | None = given(default=None)
    outcome: SparseVectorOutcome | None = given(default=None)
    kind: Literal["sparse_vector"] = tag(default="sparse_vector")
