"""What the evidence says: experiments on neighbouring datasets, exact bounds, verdicts.

An audit runs a mechanism on two datasets that differ in one unit and reports a lower bound on epsilon that holds with
the stated confidence, and whether the claim is refuted. It never proves that a mechanism is private.
"""

from dpledger.audit.experiment import audit_mechanism, audit_outputs
from dpledger.audit.planned import Audit
from dpledger.audit.replay import ReplayResult, audit_replay
from dpledger.audit.results.verdict import AuditResult
from dpledger.audit.search.searching import audit_search
from dpledger.audit.services import audit_service
from dpledger.audit.strata import ExPostClaim
from dpledger.audit.testing import assert_not_refuted

__all__ = [
    "Audit",
    "AuditResult",
    "ExPostClaim",
    "ReplayResult",
    "assert_not_refuted",
    "audit_mechanism",
    "audit_outputs",
    "audit_replay",
    "audit_search",
    "audit_service",
]
