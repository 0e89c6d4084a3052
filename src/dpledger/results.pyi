from .accounting.profile import Profile as Profile
from .audit.replay import ReplayResult as ReplayResult
from .audit.results.verdict import AuditResult as AuditResult
from .audit.training.probes.result import ProbeReport as ProbeReport
from .audit.training.whole import TrainingAudit as TrainingAudit
from .ledger.charging.declared_runs import DeclaredRun as DeclaredRun
from .ledger.scope import Receipt as Receipt, Session as Session

__all__: list[str]
