"""Audits in a test suite: one call that fails where a claim is refuted, and where the audit could not have refuted it.

An audit that is run every night in hundreds of tests must not fail by chance, and must not pass for want of runs. So
the error budget is small, the seed is fixed, and a budget of runs that could have found nothing is a failure as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from dpledger import decimals
from dpledger.accounting.guarantees import Guarantee
from dpledger.audit.experiment import audit_mechanism
from dpledger.audit.results.verdict import AuditResult
from dpledger.audit.strata import ExPostClaim
from dpledger.audit.tested.subjects import seconds_of
from dpledger.decimals import Number
from dpledger.errors import AuditTooWeak, ClaimRefuted, ParameterError
from dpledger.mechanisms.protocol import Mechanism
from dpledger.relations import Relation, Unit

__all__ = ["assert_not_refuted"]


def assert_not_refuted(
    mechanism: Mechanism[Any, Any] | Callable[..., Any],
    pairs: Sequence[tuple[object, object]],
    claim: Guarantee | ExPostClaim | None = None,
    *,
    alpha: Number = "0.000001",
    must_detect: Number = 2,
    trials: int = 100_000,
    seconds: Number | None = None,
    seed: int = 0,
    relation: Relation | str = Relation.ADD_REMOVE,
    unit: Unit | str = "record",
    batched: bool = False,
    jobs: int = 1,
) -> tuple[AuditResult, ...]:
    """Audit `mechanism` on each of `pairs`, for a test suite: returns the results, or fails.

    `pairs`: a list of (left, right), neighbouring datasets. `alpha`: how often all of them together may fail although
    the claim is kept, in (0, 1): at 5 % some of 200 tests fail every night, at 10^-6 one in fourteen years.
    `must_detect`: at least 1; the test also fails where `trials` runs could not have refuted that many times the
    claimed epsilon with probability 0.9, so a test that can find nothing does not pass. The same seed, trials and
    versions give the same verdict, run after run; on another kind of processor last digits may differ. `seconds` (for
    all pairs) breaks that. The other parameters are those of `audit_mechanism`.

    Raises ClaimRefuted (an AssertionError, with the event, the seed and the line that runs it again) and AuditTooWeak
    (an AssertionError: more trials, a pair that is further apart, or an output that can be read).
    Claim: where the claim is kept on every pair, ClaimRefuted is raised with probability at most `alpha`.
    Source: docs/proofs/audit.md, and a union bound over the pairs.

    >>> results = dpl.assert_not_refuted(dpl.Laplace(sensitivity=1, epsilon=1), [(0, 1)], trials=20_000)
    >>> [result.verdict for result in results]
    ['not_refuted']
    """
    tried = _pairs(pairs)
    level, factor = decimals.read(alpha, field="alpha"), decimals.read(must_detect, field="must_detect")
    if not 0 < level < 1:
        raise ParameterError("alpha", str(level), "a number in (0, 1)")
    if not 1 <= factor < Decimal("Infinity"):
        raise ParameterError("must_detect", str(factor), "at least 1: by how much the truth may pass the claim unseen")
    time = seconds_of(seconds, "seconds")
    confidence = decimals.round_up(1 - Fraction(level) / len(tried), digits=30)
    return tuple(
        _judged(
            audit_mechanism(
                mechanism,
                left,
                right,
                claim,
                trials=trials,
                seconds=None if time is None else time / len(tried),
                confidence=confidence,
                seed=seed,
                relation=relation,
                unit=unit,
                batched=batched,
                jobs=jobs,
                progress=False,
            ),
            place,
            factor,
        )
        for place, (left, right) in enumerate(tried)
    )


def _pairs(pairs: object) -> list[tuple[object, object]]:
    if not isinstance(pairs, (list, tuple)) or not pairs:
        given = "an empty list" if isinstance(pairs, (list, tuple)) else pairs
        raise ParameterError("pairs", given, "a list of pairs (left, right) of neighbouring datasets")
    for pair in pairs:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise ParameterError("pairs", pair, "pairs (left, right), like [(0, 1)]")
    return [(left, right) for left, right in pairs]


def _judged(result: AuditResult, place: int, factor: Decimal) -> AuditResult:
    """The result, where it refutes nothing and could have. What is raised names no output: `error.found` does."""
    where = f"pair {place} ({result.pair}), seed {result.seed}"
    if result.verdict == "violation":
        raise ClaimRefuted(f"{where}: {result.public_summary}\n{result.again}", found=result.to_json())
    if result.blind is not None:
        raise AuditTooWeak(
            f"{where}: the audit could see nothing, so it says nothing: {result.blind}", found=result.to_json()
        )
    wanted = decimals.multiply(factor, result.target.point.epsilon)
    if result.power is None or result.power.epsilon > wanted:
        seen = "no epsilon" if result.power is None else f"an epsilon of {float(result.power.epsilon):.4g}"
        more = "more trials"
        least = math.ceil(1 / Fraction(result.delta)) if result.delta else 0
        if result.power is None and result.trials < least:
            more = f"at least {least:,} trials, as fewer show no event of probability delta"
        weak = (
            f"{where}: {result.trials:,} runs a side would have refuted {seen} with probability 0.9, and must_detect "
            f"asks for {float(wanted):.4g}, {factor} times the claim: {more}, or a larger must_detect"
        )
        raise AuditTooWeak(weak, found=result.to_json())
    return result
