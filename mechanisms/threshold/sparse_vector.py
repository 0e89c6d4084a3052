"""Sparse vector: which of a stream of queries pass a threshold, paying only for the answers on one side of it.

    W = threshold + noise(threshold_scale)              (target_charging: W = threshold)
    each query q, until `cutoff` answers were charged:
        q(data) + noise(query_scale) > W:  ABOVE, free
        else:                              BELOW, charged; then a fresh W (single_threshold keeps the first)

With `charged="above"` the same test runs on -q and -threshold: ABOVE is the charged answer. The modes differ in how
many thresholds are drawn and how the epochs between charged answers compose; `auto` takes the most accurate one. Noise
is discrete Laplace in whole steps of a public grid; queries are rounded to it. Sources: Dwork-Roth 2014, section 3.6
(basic, dr14, zcdp, kov: fresh thresholds); Lyu-Su-Li 2017, algorithm 7 (single_threshold); Cohen-Lyu 2023
(target_charging).

>>> from dpledger.mechanisms.entropy import seeded
>>> tests = SparseVector(epsilon=20, cutoff=1, threshold=10, sensitivity=1)
>>> run = tests.open([1] * 30, entropy=seeded(3))
>>> run.ask(len), run.ask(lambda rows: len(rows) / 30)
(<Outcome.ABOVE: 'above'>, <Outcome.BELOW: 'below'>)
>>> run.close().value
AnswerCounts(asked=2, above=1, below=1, halted=True)

Queries that do not depend on one another's answers may be asked at once; where the run halts the answers end:

>>> run = tests.open([1] * 30, entropy=seeded(3))
>>> run.ask_many([len, 1, 30])
(<Outcome.ABOVE: 'above'>, <Outcome.BELOW: 'below'>)
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints

from dpledger.accounting.composition import SparseVectorLaw
from dpledger.accounting.families.sparse_vector import delta_by_cause
from dpledger.accounting.families.sparse_vector.scales import SparseVectorMode, auto_mode, sparse_vector_law
from dpledger.accounting.guarantees import ApproxDP, Failure, PureDP
from dpledger.decimals import multiply, read
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import DiscreteLaplace, Sensitivity
from dpledger.mechanisms.numeric.grid import check_map, default_grid, exact_decimal, on_grid
from dpledger.mechanisms.protocol import UNSAID, check_declared, fixed
from dpledger.mechanisms.threshold.threshold_run import (
    SparseVectorRun,
    Thresholding,
    ThresholdSide,
    queries_read_as,
    steps_of,
)
from dpledger.number_fields import OptionalPositive, Positive, Probability, Signed, Whole
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, given, plain, record, tag

__all__ = ["ASSUMES", "SparseVector", "thresholding"]

ASSUMES = "queries are monotone: between two neighbours all of them move in one direction, or none of them does"
"""What the guarantee takes from the caller's queries where `monotone` is declared, as the record says it."""


@record
class SparseVector:
    """Answer ABOVE or BELOW to each of a stream of adaptively chosen queries; halt at the `cutoff`-th charged answer.

    `epsilon`, `delta`: in total, for the whole stream; delta = 0 allows the pure modes alone. `cutoff`: charged
    answers, at least 1. `threshold`: public, in the queries' units. `sensitivity`: how far one unit moves every query,
    under the relation; the caller vouches for it. `mode`: how the noise is set (`auto`: the most accurate for
    `max_queries` queries, or 1000 a charged answer). `grid`: a power of two to which queries are rounded; default: 1024
    times finer than sensitivity and noise. `max_queries`: the run halts after this many, if given. `charged`: the side
    that is paid for. `missing`: the side on which a query that is NaN counts. `share`: the share of epsilon, in (0, 1),
    that the threshold gets in mode single_threshold; None: the best. `monotone`: True declares that one unit moves all
    queries in one direction, so that a charged answer costs half. `justification`: one line that says why the
    sensitivity holds. Data never raise. An answer is `Outcome.ABOVE` or `Outcome.BELOW`; the value, at close, is their
    `Counts`, whole numbers from 0 on.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> run = dpl.SparseVector(epsilon=20, cutoff=2, threshold=10, sensitivity=1).open([1] * 30, entropy=seeded(3))
    >>> run.ask(len), run.ask(lambda rows: 0)
    (<Outcome.ABOVE: 'above'>, <Outcome.BELOW: 'below'>)
    >>> run.close().value
    AnswerCounts(asked=2, above=1, below=1, halted=False)
    """

    epsilon: Positive
    cutoff: Annotated[Whole, Field(strict=True, ge=1, lt=2**31)]
    threshold: Signed
    sensitivity: Positive
    delta: Probability = given(default=0)
    mode: SparseVectorMode | Literal["auto"] = given(default="auto")
    grid: OptionalPositive = given(default=None)
    max_queries: Annotated[Whole, Field(strict=True, ge=1, le=10**12)] | None = given(default=None)
    charged: ThresholdSide = given(default="below")
    missing: ThresholdSide = given(default="below")
    share: OptionalPositive = given(default=None)
    monotone: Annotated[bool, Field(strict=True)] = given(default=False)
    justification: Annotated[str, StringConstraints(min_length=1, max_length=500)] = given(default=UNSAID)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["sparse_vector"] = tag(default="sparse_vector")

    def __post_init__(self) -> None:
        if self.delta >= Decimal("0.5"):
            raise ParameterError("delta", str(self.delta), "a number in [0, 0.5)")
        if self.grid is not None:
            check_map(self.grid, Decimal(1), Decimal(0))
        thresholding(self)

    def under(self, relation: Relation, unit: Unit) -> Self:
        """The same mechanism for this relation and unit, its mode and grid fixed. Every relation will do: the
        sensitivity is declared under it. ParameterError where a unit may have many rows and nobody declared it."""
        own_relation, own_unit = fixed(self.relation, self.unit, relation, unit)
        check_declared(self.sensitivity, self.justification, own_unit)
        law = self.parts()
        share = self.share if law.mode == "single_threshold" else None
        fixed_now = {"mode": law.mode, "delta": law.delta, "grid": thresholding(self).scale.grid, "share": share}
        changes: dict[str, Any] = fixed_now
        return dataclasses.replace(self, relation=own_relation, unit=own_unit, **changes)

    def claim(self) -> PureDP | ApproxDP:
        """(epsilon, delta) for the whole stream; pure in the modes single_threshold and basic."""
        law = self.parts()
        return ApproxDP(law.epsilon, law.delta) if law.delta else PureDP(law.epsilon)

    def parts(self) -> SparseVectorLaw:
        """One sparse vector leaf, without an outcome: priced at its cap."""
        return thresholding(self).law

    def failures(self) -> tuple[Failure, ...]:
        """The delta of composing the epochs, but for the pure modes."""
        return delta_by_cause(self.parts())

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with the mode, scales and grid that are used."""
        plan = thresholding(self)
        values = {
            "epsilon": plan.law.epsilon,
            "delta": plan.law.delta,
            "cutoff": self.cutoff,
            "threshold": self.threshold,
            "sensitivity": self.sensitivity,
            "mode": plan.law.mode,
            "threshold_scale": plan.law.threshold_scale,
            "query_scale": plan.law.query_scale,
            "grid": plan.scale.grid,
            "max_queries": self.max_queries,
            "charged": self.charged,
            "missing": self.missing,
            "share": self.share,
            "monotone": self.monotone or None,
            "assumes": ASSUMES if self.monotone else None,
            "justification": self.justification,
        }
        result: dict[str, Plain] = plain(values)
        return result

    def values_read_as(self) -> tuple[str, ...]:
        """What values of queries count as that are no ordinary numbers: of the parameters, never of the data."""
        return queries_read_as(self.missing)

    def open(self, data: object, *, entropy: Entropy) -> SparseVectorRun:
        """Begin a stream of queries on `data`, which is handed to each query as it is."""
        return SparseVectorRun(thresholding(self), data, entropy)


@functools.lru_cache(maxsize=512)
def thresholding(mechanism: SparseVector) -> Thresholding:
    """The tests that a mechanism runs, in whole steps of its grid.

    Claim: with |q(D) - q(D')| <= sensitivity the rounded queries differ by at most `steps`, and the noise on them is
    `query_scale` times that (on the threshold `threshold_scale` times), exactly. Source: docs/proofs/noise.md,
    section 5, for the rounding.
    """
    law = _law(mechanism)
    grid = mechanism.grid or _default_grid(mechanism.sensitivity, law)
    steps = exact_decimal(Fraction(on_grid(mechanism.sensitivity, grid)) / Fraction(grid))
    sign = 1 if mechanism.charged == "below" else -1
    return Thresholding(
        law=law,
        scale=steps_of(grid, mechanism.missing),
        threshold=math.ceil(sign * Fraction(mechanism.threshold) / Fraction(grid)),
        threshold_noise=_noise(law.threshold_scale, steps) if law.threshold_scale else None,
        query_noise=_noise(law.query_scale, steps),
        sensitivity=Sensitivity(steps, "linf", mechanism.justification),
        max_queries=mechanism.max_queries,
        charged=mechanism.charged,
    )


def _law(mechanism: SparseVector) -> SparseVectorLaw:
    epsilon, delta, cutoff, queries = mechanism.epsilon, mechanism.delta, mechanism.cutoff, mechanism.max_queries
    mode, share, monotone = mechanism.mode, mechanism.share, mechanism.monotone
    if mode == "auto":
        mode = auto_mode(epsilon, delta, cutoff, max_queries=queries, share=share, monotone=monotone)
        share = share if mode == "single_threshold" else None
    return sparse_vector_law(epsilon, delta, cutoff, mode, max_queries=queries, share=share, monotone=monotone)


def _noise(scale: Decimal, steps: Decimal) -> DiscreteLaplace:
    return DiscreteLaplace(read(multiply(scale, steps), field="sensitivity"))


def _default_grid(sensitivity: Decimal, law: SparseVectorLaw) -> Decimal:
    lengths = {"sensitivity": Fraction(sensitivity), "epsilon": Fraction(sensitivity) * Fraction(law.query_scale)}
    if law.threshold_scale:
        lengths["cutoff"] = Fraction(sensitivity) * Fraction(law.threshold_scale)
    return default_grid(**lengths)
