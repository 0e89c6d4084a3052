"""Audits that need no sampling of outputs, or hardly any (`docs/audit_analytic.md`).

    audit_account        what an accountant says, composed again
    audit_sensitivity    a query that moves further than is declared, in exact fractions beside floats
    audit_doubles        doubles that noise added in floating point reaches on one dataset alone

Results go on record as those of any audit: `scope.record(result)`.
"""

from dpledger.stubs import attached

__getattr__, __dir__, __all__ = attached(__name__, __file__)
