"""Record and replay: the audit that draws nothing, of code whose noise comes through dpledger's doors."""

from dpledger.audit.replay.auditing import audit_replay
from dpledger.audit.replay.result import ReplayResult

__all__ = ["ReplayResult", "audit_replay"]
