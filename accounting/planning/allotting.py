"""An allowance as people ask for it, and the filter (F7) that it opens within a budget, certified by the engine.

>>> from dpledger.accounting.composition import GaussianLaw
>>> rule = allotted(Allowance(GaussianLaw(50), steps=100), ApproxDP(1, "1e-6"), Relation.ADD_REMOVE)
>>> rule.steps, rule.epsilon_law, rule.epsilon_rest
(100, Decimal('0.834117557'), Decimal('0.165882443'))
>>> allotted(Allowance(GaussianLaw(50), share=1), ApproxDP(1, "1e-6"), Relation.ADD_REMOVE).steps
140
"""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING

from pydantic import model_validator

from dpledger.accounting.composition import Composition, Part, Repeated
from dpledger.accounting.filters import AllowanceFilter, Filter
from dpledger.accounting.guarantees import ApproxDP, Guarantee, PureDP
from dpledger.accounting.planning.calibration import calibrate_count
from dpledger.accounting.pricing.allowances import law_of, require_law
from dpledger.accounting.pricing.costs import priced
from dpledger.accounting.profile import compose
from dpledger.decimals import INFINITY, ZERO, multiply, round_down, round_up, subtract, text
from dpledger.errors import ParameterError
from dpledger.number_fields import Count, OptionalPositive, Probability
from dpledger.relations import Relation
from dpledger.schema import complete, given, record

__all__ = ["Allowance", "allotted", "is_same", "require_certified"]

MARGIN = Decimal("1.00000001")  # what a verifier on another machine certifies is not that much more
DIGITS = 9


@record
class Allowance:
    """So many draws of one law within a scope, in runs whose steps are decided as results come in: they cost what they
    cost as one plan. docs/proofs/allowances.md.

    `law`: one draw of noise, alone or on a Poisson sample; of `GDP`, on no sample, it counts whatever has a price in
    mu^2. `steps`: how many; or `share`: the most that cost at most
    this share of the budget's epsilon. `delta_rest`: of the budget's delta, what everything else may spend.

    >>> book = dpl.Ledger.in_memory()
    >>> budget, draws = dpl.ApproxDP(3, "1e-6"), dpl.filters.Allowance(dpl.GaussianLaw(40), steps=100)
    >>> scope = book.scope("rows", unit="record", relation="add_remove", budget=budget, allowance=draws)
    >>> scope.afford(dpl.GaussianLaw(40)).one_by_one
    100
    """

    law: Part
    steps: Count | None = given(default=None)
    share: OptionalPositive = given(default=None)
    delta_rest: Probability = given(default=ZERO)

    if not TYPE_CHECKING:

        @model_validator(mode="after")
        def _one_size(self):
            if (self.steps is None) == (self.share is None):
                raise ParameterError("steps", self.steps, "either steps or a share of epsilon")
            if self.share is not None and self.share > 1:
                raise ParameterError("share", self.share, "a number in (0, 1]")
            require_law(self.law)
            return self


complete(Allowance, names={"Composition": Composition})


def allotted(asked: Allowance, budget: Guarantee, relation: Relation) -> AllowanceFilter:
    """The filter of an allowance within a budget: the law at the delta that is its own, the rest at what is left.

    Claim: its constants are certified (`require_certified`), and add up to at most the budget.
    Raises ParameterError for a budget that is no approx_dp, and for more steps than fit into it; InfeasiblePlan where
    not one fits into the share; CannotCertify where no theorem covers the law under `relation`."""
    epsilon, delta = _room(asked, budget)
    law, steps = require_law(asked.law), _steps(asked, budget, relation)
    epsilon_law = _stated(law, steps, delta, relation, epsilon)
    if epsilon_law > epsilon:
        told = "no finite epsilon" if epsilon_law.is_infinite() else f"epsilon {text(epsilon_law)}"
        expected = f"steps that cost at most epsilon {text(epsilon)} at delta {text(delta)}: these cost {told}"
        raise ParameterError("allowance.steps", steps, expected)
    return AllowanceFilter(law, steps, epsilon_law, delta, subtract(epsilon, epsilon_law), asked.delta_rest)


def is_same(asked: Allowance, budget: Guarantee, relation: Relation, found: Filter) -> bool:
    """Whether `found` is of this law, with as many steps and as much delta for the rest."""
    if not isinstance(found, AllowanceFilter):
        return False
    same = (law_of(found), found.delta_rest) == (require_law(asked.law), asked.delta_rest)
    return same and found.steps == _steps(asked, budget, relation)


def require_certified(filter_: Filter, relation: Relation) -> None:
    """ParameterError for an allowance that says less than its steps are certified to cost; any other filter's
    constructor checked its constants.

    Claim: `steps` independent runs of the law are (epsilon_law, delta_law)-DP under `relation`. Source: the sum of pure
    prices (Dwork et al. 2006), or the engine (docs/proofs/engine.md)."""
    if not isinstance(filter_, AllowanceFilter):
        return
    least = _least(law_of(filter_), filter_.steps, filter_.delta_law, relation)
    if filter_.epsilon_law < least:
        told = "nothing finite" if least.is_infinite() else f"at least {text(round_up(least))}"
        expected = f"{told}, which {filter_.steps} steps of the law are certified to cost at delta_law"
        raise ParameterError("epsilon_law", filter_.epsilon_law, expected)


def _room(asked: Allowance, budget: Guarantee) -> tuple[Decimal, Decimal]:
    """The epsilon of the budget, and the delta that it leaves to the law."""
    if not isinstance(budget, ApproxDP):
        kind = getattr(budget, "kind", type(budget).__name__)
        raise ParameterError("budget", kind, "approx_dp, like ApproxDP(3, '1e-6'), beside an allowance")
    if asked.delta_rest > budget.delta:
        raise ParameterError("allowance.delta_rest", asked.delta_rest, f"at most the budget's, {text(budget.delta)}")
    return budget.epsilon, subtract(budget.delta, asked.delta_rest)


def _steps(asked: Allowance, budget: Guarantee, relation: Relation) -> int:
    if asked.steps is not None:
        return asked.steps
    assert asked.share is not None, "an allowance says one of the two"
    epsilon, delta = _room(asked, budget)
    within, law = round_down(multiply(epsilon, asked.share)), require_law(asked.law)
    target = ApproxDP(within, delta) if delta else PureDP(within)
    return calibrate_count(lambda steps: (law, steps), target, relation=relation)


def _stated(law: Composition, steps: int, delta: Decimal, relation: Relation, within: Decimal) -> Decimal:
    """What the filter says: rounded up so far that another machine certifies it too, or `within` where that is less."""
    by_sums, by_engine = _by_sums(law, steps, delta, relation), _by_engine(law, steps, delta, relation)
    if by_sums <= by_engine or by_engine.is_infinite():
        return by_sums
    wide = min(by_sums, round_up(multiply(by_engine, MARGIN), digits=DIGITS))
    return within if by_engine <= within < wide else wide


def _least(law: Composition, steps: int, delta: Decimal, relation: Relation) -> Decimal:
    by_sums = _by_sums(law, steps, delta, relation)
    return by_sums if by_sums.is_zero() else min(by_sums, _by_engine(law, steps, delta, relation))


def _by_sums(law: Composition, steps: int, delta: Decimal, relation: Relation) -> Decimal:
    """The sum of pure prices, exact; infinite where there is none, or its delta is more than `delta`."""
    price = priced(Repeated(law, times=steps), relation, ())
    return price.pure if price.pure is not None and price.delta <= delta else INFINITY


@lru_cache(maxsize=256)
def _by_engine(law: Composition, steps: int, delta: Decimal, relation: Relation) -> Decimal:
    return Decimal.from_float(compose(Repeated(law, times=steps), relation=relation).epsilon(delta).upper)
