"""Exhibits of the zoo before the auditor: the verdict must be what the true loss asks for."""

from __future__ import annotations

from typing import Any

from dpledger.audit import audit_mechanism
from dpledger.audit.verdict import AuditResult
from dpledger.audit.zoo import ZOO

__all__ = ["judged"]


def judged(name: str, trials: int, **asked: Any) -> AuditResult:
    """What the auditor says of an exhibit, once its verdict is the right one: a violation of faulty ones alone."""
    shown = ZOO[name]
    result = audit_mechanism(
        shown.mechanism, shown.left, shown.right, shown.claim, trials=trials, batched=shown.batched, seed=11, **asked
    )
    assert result.verdict == ("violation" if shown.faulty else "not_refuted")
    return result
