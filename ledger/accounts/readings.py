"""What a scope has spent: an ex-post reading of its filter, with a bound on either side. It is no DP guarantee.

The guarantee of a scope is its budget, fixed when it opened. The reading says how much of it the record so far accounts
for.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from functools import lru_cache

from dpledger.accounting import filters
from dpledger.accounting.arithmetic.prices import Cost
from dpledger.accounting.composition import Composition
from dpledger.accounting.ex_post import odometer as odometers
from dpledger.accounting.ex_post.odometer import Odometer, OdometerReading
from dpledger.accounting.guarantees import words_of
from dpledger.accounting.pricing import costs
from dpledger.accounting.pricing.outcomes import certain, planned
from dpledger.accounting.profile import Bounds, compose
from dpledger.decimals import Number, float_up, read, text
from dpledger.errors import CannotCertify, Contradiction, EngineError, InputError, ParameterError
from dpledger.ledger.rules.scope_state import ScopeState
from dpledger.relations import Relation

__all__ = ["least", "odometer", "own_delta", "spent"]

REMEMBERED = 1024  # answers of the engine; a scope asks for at most `ran.MOST` at one delta


def spent(scope: ScopeState, delta: Number) -> Bounds:
    """The reading of `scope` at `delta`, from what the fold keeps: its sums, and the parts that are known to have run.

    Claim: upper: the transcript so far is (upper, delta)-bounded in the integrated ex-post sense, by the filter's
    theorem (infinite where it has none at this delta, or more of what was charged may fail). lower: no epsilon below it
    bounds the costliest single part at this delta, by the engine; 0 where no part has a bound of its own. Of more than
    `ran.MOST` distinct parts the ones that were charged most are asked: what is left out can only make it lower.
    Source: docs/proofs/filters.md. Raises Contradiction where lower is above upper: something recorded is not true.
    """
    at = read(delta, field="delta")
    if at >= 1:
        raise ParameterError("delta", delta, "a number in [0, 1): at 1 every mechanism is private")
    upper = float_up(filters.reading(scope.filter, scope.sums, at))
    lower = max((_engine_lower(known.parts, scope.relation, at) for known in scope.ran), default=0.0)
    if lower > upper:
        raise Contradiction(
            f"scope {scope.scope} contradicts itself: at delta {text(at)} one release costs epsilon {lower:.6g} or "
            f"more, but everything that was charged comes to at most {upper:.6g}"
        )
    return Bounds(lower=lower, upper=upper)


def own_delta(scope: ScopeState) -> Decimal:
    """The delta of the scope's own budget, 0 of one in epsilon alone. ParameterError for any other budget."""
    budget = filters.budget_guarantee(scope.filter)
    if not budget.is_point:
        raise ParameterError("delta", "nothing", f"a delta, like 1e-6, at which to read the budget {words_of(budget)}")
    return budget.fails


def least(parts: Composition, relation: Relation, delta: Decimal) -> float:
    """What settled `parts` cost at the least.

    Claim: no epsilon below it bounds what certainly ran of them at `delta`, by the engine; 0 where nothing did."""
    ran = certain(parts)
    return 0.0 if ran is None else _engine_lower(ran, relation, delta)


@lru_cache(maxsize=REMEMBERED)
def _engine_lower(parts: Composition, relation: Relation, delta: Decimal) -> float:
    try:
        return compose(parts, relation=relation).epsilon(delta).lower
    except Contradiction:
        raise
    except (InputError, EngineError):  # too much work, or no theorem: nothing is known from below
        return 0.0


UNPRICED = Cost(pure=None, rho=None, mu_squared=None)


def odometer(constants: Odometer, relation: Relation, charged: Iterable[Composition]) -> OdometerReading:
    """What an odometer shows after these charges: the parts of each that was not aborted, with the outcome by which it
    was settled, if it was. The prices are computed anew, so that no filter has to keep its sums.

    Claim: that of `odometers.read`. Source: docs/proofs/ex_post.md, "Odometers"."""
    spends = (_counted(constants, relation, parts) for parts in charged)
    return odometers.read(constants, spends)


def _counted(constants: Odometer, relation: Relation, parts: Composition) -> odometers.Spend:
    before = planned(parts)
    reserved = _priced(before, relation)
    return odometers.spend(constants, reserved, None if before == parts else _priced(parts, relation))


def _priced(parts: Composition, relation: Relation) -> Cost:
    try:
        return costs.priced(parts, relation, ())
    except CannotCertify:
        return UNPRICED
