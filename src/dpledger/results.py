"""What calls return, for annotations and `isinstance`: nobody makes one by hand.

Receipt, Session         `scope.release`, `scope.open`
DeclaredRun              `scope.charging`
Profile                  `compose`
AuditResult              `audit_mechanism`, `audit_outputs`
ReplayResult             `audit_replay`
"""

from dpledger.stubs import attached

__getattr__, __dir__, __all__ = attached(__name__, __file__)
