from .audit.analytic.accounts import AccountAudit as AccountAudit, audit_account as audit_account
from .audit.analytic.doubles import audit_doubles as audit_doubles
from .audit.analytic.sensitivities import SensitivityAudit as SensitivityAudit, audit_sensitivity as audit_sensitivity

__all__: list[str]
