"""Cases of the zoo and of the house before the auditor: the verdict must be what the true loss asks for."""

from __future__ import annotations

from typing import Any

from dpledger.audit import audit_mechanism
from dpledger.audit.results.verdict import AuditResult
from dpledger.audit.zoo import ZOO
from house_cases import HOUSE

__all__ = ["EVERY", "judged"]

EVERY = {**ZOO, **HOUSE}
"""Cases by name."""


def judged(name: str, trials: int, **asked: Any) -> AuditResult:
    """What the auditor says of a case, once its verdict is the right one: a violation of faulty ones alone. A
    correct one is tried with no more than 10,000 runs."""
    shown = EVERY[name]
    trials = trials if shown.faulty else min(trials, 10_000)
    result = audit_mechanism(
        shown.mechanism, shown.left, shown.right, shown.claim, trials=trials, batched=shown.batched, seed=11, **asked
    )
    assert result.verdict == ("violation" if shown.faulty else "not_refuted")
    return result
