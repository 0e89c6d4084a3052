"""F7: so many draws of one law, whose steps are decided as results come in, and a basic account beside them.

>>> from dpledger.accounting.composition import GaussianLaw
>>> from dpledger.accounting.filters import AllowanceFilter
>>> rule = AllowanceFilter(GaussianLaw(20), 100, "2.5", "1e-6", "0.5")
>>> rule.epsilon, rule.delta
(Decimal('3.0'), Decimal('0.000001'))
>>> reading(rule, copies=Decimal(0), pure=Decimal("0.1"), failing=Decimal(0), delta=rule.delta)
Decimal('0.1')
>>> reading(rule, copies=Decimal(1), pure=Decimal("0.1"), failing=Decimal(0), delta=rule.delta)
Decimal('2.6')
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Literal, Protocol

from pydantic import model_validator

from dpledger.decimals import INFINITY, ZERO, add, subtract
from dpledger.errors import ParameterError
from dpledger.number_fields import Count, Exact, Probability
from dpledger.schema import given, record, tag

__all__ = ["NAMES", "AllowanceFilter", "reading"]

NAMES = ("copies", "pure", "delta")
"""The coordinates: draws of the law that are used up, and of everything else pure epsilons and deltas."""

if TYPE_CHECKING:

    class Law(Protocol):
        """A composition tree, which stands above the filters; `allowances.law_of` says which trees are laws."""

        @property
        def kind(self) -> str: ...


@record
class AllowanceFilter:
    """F7. Guarantee: (epsilon_law + epsilon_rest, delta_law + delta_rest)-DP, if `steps` independent runs of `law` are
    (epsilon_law, delta_law)-DP: whoever opens or verifies a scope asks the engine (`allotting.require_certified`).
    Source: docs/proofs/allowances.md.

    The deltas stay below 1 together; anything else is a ParameterError.

    >>> budget = dpl.filters.AllowanceFilter(
    ...     law=dpl.LaplaceLaw("0.1"), steps=20, epsilon_law=2, delta_law=0, epsilon_rest=1, delta_rest=0
    ... )
    >>> scope = dpl.Ledger.in_memory().scope("rows", unit="record", relation="add_remove", budget=budget)
    >>> scope.afford(dpl.LaplaceLaw("0.1"), most=50).one_by_one
    20
    """

    law: Law
    steps: Count
    epsilon_law: Exact
    delta_law: Probability
    epsilon_rest: Exact
    delta_rest: Probability = given(default=ZERO)
    kind: Literal["allowance"] = tag(default="allowance")

    if not TYPE_CHECKING:

        @model_validator(mode="after")
        def _sound(self):
            if not self.delta < 1:
                raise ParameterError("delta_rest", self.delta_rest, "a number below 1 - delta_law")
            if not self.epsilon > 0:
                raise ParameterError("epsilon_rest", self.epsilon_rest, "a number above 0, where epsilon_law is 0")
            return self

    @property
    def epsilon(self) -> Decimal:
        """That of the law and that of the rest."""
        return add(self.epsilon_law, self.epsilon_rest)

    @property
    def delta(self) -> Decimal:
        """That of the law and that of the rest."""
        return add(self.delta_law, self.delta_rest)


def reading(rule: AllowanceFilter, *, copies: Decimal, pure: Decimal, failing: Decimal, delta: Decimal) -> Decimal:
    """An epsilon that, with `delta`, bounds the loss of a transcript of so many copies, and of a rest of `pure` of
    which `failing` may fail.

    Claim: integrated ex-post, while delta covers that of the law and `failing`, before the first copy at a delta below
    that of the law `failing` alone; else infinite. Not less for a few copies: their number was chosen as results came
    in. Source: docs/proofs/allowances.md, "Reading".
    """
    law_is_covered = delta >= rule.delta_law
    rest = subtract(delta, rule.delta_law) if law_is_covered else delta
    if failing > rest or copies > rule.steps or (copies and not law_is_covered):
        return INFINITY
    return add(rule.epsilon_law, pure) if copies else pure
