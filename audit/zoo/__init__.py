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
from dpledger.audit.zoo.cases import Case
from dpledger.audit.zoo.claimed import CLAIMED
from dpledger.audit.zoo.ex_post import EX_POST
from dpledger.audit.zoo.written.counts import COUNTED
from dpledger.audit.zoo.written.groups import GROUPED
from dpledger.audit.zoo.written.noise import NOISED
from dpledger.audit.zoo.written.searches import SEARCHED
from dpledger.audit.zoo.written.sums import SUMMED
from dpledger.errors import ParameterError

__all__ = ["ZOO", "Case", "case"]

ZOO: Mapping[str, Case] = MappingProxyType(
    {
        **CLAIMED,
        **EX_POST,
        **SELECTED,
        **COUNTED,
        **NOISED,
        **SUMMED,
        **GROUPED,
        **SEARCHED,
    }
)
"""Cases by name."""


def case(name: str) -> Case:
    """The case of that name; ParameterError listing the names if there is none."""
    if name not in ZOO:
        raise ParameterError("zoo", name, "one of " + ", ".join(ZOO))
    return ZOO[name]
