"""Record and replay: the audit that draws nothing, of code that draws its noise through dpledger."""

from dpledger.audit.replay.auditing import audit_replay
from dpledger.audit.replay.result import ReplayResult

__all__ = ["ReplayResult", "audit_replay"]
