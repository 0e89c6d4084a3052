"""What a learner promises of its answers, in numbers. `audit.learning.contracts` tests whether it keeps it.

>>> PACContract("0.1", "0.05").accepts(Fraction(1, 10), least=Fraction(0))
True
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

from dpledger.number_fields import OpenProbability, Positive, Probability
from dpledger.schema import given, record

__all__ = ["AgnosticContract", "Contract", "PACContract", "PPACContract"]


class _Accurate:
    """What contracts have in common: `alpha` and `beta`."""

    __slots__ = ()

    alpha: Decimal

    def accepts(self, error: Fraction, least: Fraction) -> bool:
        """Whether a hypothesis of that error is good enough; `least`: that of the best concept."""
        return error <= least + Fraction(self.alpha)


@record
class PACContract(_Accurate):
    """For every distribution and every concept of the class as the truth: P(err(h) <= alpha) >= 1 - beta.

    >>> from fractions import Fraction
    >>> dpl.learning.PACContract("0.1", "0.05").accepts(Fraction(1, 5), least=Fraction(0))
    False
    """

    alpha: OpenProbability
    beta: OpenProbability


@record
class AgnosticContract(_Accurate):
    """For every distribution of examples: P(err(h) <= min err + alpha) >= 1 - beta, the minimum over the class.

    >>> from fractions import Fraction
    >>> dpl.learning.AgnosticContract("0.1", "0.05").accepts(Fraction(3, 10), least=Fraction(1, 4))
    True
    """

    alpha: OpenProbability
    beta: OpenProbability


@record
class PPACContract(_Accurate):
    """A PACContract, and (epsilon, delta)-DP for all pairs of neighbours, realizable or not.

    >>> dpl.learning.PPACContract("0.1", "0.05", epsilon=1).epsilon
    Decimal('1')
    """

    alpha: OpenProbability
    beta: OpenProbability
    epsilon: Positive
    delta: Probability = given(default=0)


Contract: TypeAlias = PACContract | AgnosticContract | PPACContract
"""The closed union of contracts."""
