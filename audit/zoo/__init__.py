"""Correct and faulty mechanisms with their claims and their true losses: people test their own auditors on them.

>>> half = ZOO["laplace_half_noise"]
>>> half.claim.epsilon, half.true_epsilon
(Decimal('1'), 2.0)
>>> ZOO["accuracy_first_half_query"].strata  # claimed and true, stratum by stratum
((Decimal('1.2'), 1.8316529844), (Decimal('2.8'), 2.7867056691))
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dpledger.audit.zoo.answers.selection import SELECTED
from dpledger.audit.zoo.claimed import CLAIMED
from dpledger.audit.zoo.ex_post import EX_POST
from dpledger.audit.zoo.exhibit import Exhibit
from dpledger.audit.zoo.learning.classes import LEARNED_CLASSES
from dpledger.audit.zoo.learning.clipped import CLIPPED
from dpledger.audit.zoo.learning.medians import MEDIANS
from dpledger.audit.zoo.learning.parities import PARITIES
from dpledger.audit.zoo.learning.queries import QUERIED
from dpledger.audit.zoo.learning.surrogates import SURROGATES
from dpledger.audit.zoo.learning.tables import BOOSTED
from dpledger.audit.zoo.learning.users import LEARNED_FROM_USERS
from dpledger.audit.zoo.stability.labelled import LABELLED
from dpledger.audit.zoo.stability.stable import CHARGED, STABLE
from dpledger.audit.zoo.stability.voted import VOTED
from dpledger.errors import ParameterError

__all__ = ["ZOO", "Exhibit", "exhibit"]

ZOO: Mapping[str, Exhibit] = MappingProxyType(
    {
        **CLAIMED,
        **EX_POST,
        **CHARGED,
        **STABLE,
        **VOTED,
        **SELECTED,
        **LABELLED,
        **LEARNED_CLASSES,
        **PARITIES,
        **QUERIED,
        **SURROGATES,
        **MEDIANS,
        **BOOSTED,
        **CLIPPED,
        **LEARNED_FROM_USERS,
    }
)
"""Exhibits by name."""


def exhibit(name: str) -> Exhibit:
    """The exhibit of that name; ParameterError listing the names if there is none."""
    if name not in ZOO:
        raise ParameterError("zoo", name, "one of " + ", ".join(ZOO))
    return ZOO[name]
