from .accounting.profile import Profile as Profile
from .audit.probes.result import ProbeReport as ProbeReport
from .audit.replay import ReplayResult as ReplayResult
from .audit.training.whole import TrainingAudit as TrainingAudit
from .audit.verdict import AuditResult as AuditResult
from .ledger.declared_runs import DeclaredRun as DeclaredRun
from .ledger.scope import Receipt as Receipt, Session as Session

__all__: list[str]
