"""Events of dp_accounting in a ledger, and its accountants' protocol on certified bounds.

    scope.charge(read(event, relation="add_remove"), by=..., reason=...)
    dp_accounting.calibrate_dp_mechanism(PrivacyAccountant, make_event, target_epsilon=1, target_delta=1e-6)

`read` makes a document of an event, `write` an event of a document or a tree. `PrivacyAccountant` is one of the
library's accountants: what takes these takes it. Needs the library: `pip install 'dpledger[dp-accounting]'`.

>>> import dp_accounting
>>> step = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.0))
>>> accountant = PrivacyAccountant().compose(step, 1000)
>>> round(accountant.get_epsilon(1e-5), 6), round(accountant.bounds(1e-5).lower, 6)
(1.828237, 1.828237)
>>> accountant.supports(dp_accounting.RandomizedResponseDpEvent(0.5, 4))
False
>>> noise = dp_accounting.calibrate_dp_mechanism(
...     PrivacyAccountant,
...     lambda noise: dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(noise), 10),
...     target_epsilon=1, target_delta=1e-6, tol=1e-3,
... )
>>> round(noise, 2)
13.36
"""

from dpledger.attach.dp_accounting.accountant import PrivacyAccountant
from dpledger.attach.dp_accounting.reading import NonPrivateEvent, UnsupportedEvent, read
from dpledger.attach.dp_accounting.writing import write

__all__ = ["NonPrivateEvent", "PrivacyAccountant", "UnsupportedEvent", "read", "write"]
