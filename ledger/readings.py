"""What a scope has spent: an ex-post reading of its filter, with a bound on either side. It is no DP guarantee.

The guarantee of a scope is its budget, fixed when it opened. The reading says how much of it the record so far accounts
for.
"""

from __future__ import annotations

from collections.abc import Iterable

from dpledger.accounting import filters
from dpledger.accounting.composition import Composition, Repeated, SparseVectorLaw, children
from dpledger.accounting.profile import Bounds, compose
from dpledger.decimals import Number, float_up, read
from dpledger.errors import CannotCertify, ParameterError
from dpledger.ledger.standing import ScopeState
from dpledger.relations import Relation

__all__ = ["spent"]


def spent(scope: ScopeState, ran: Iterable[Composition], delta: Number) -> Bounds:
    """The reading of `scope` at `delta`, after the parts `ran` (what is known to have run; the sums hold the rest).

    Claim: upper: the transcript so far is (upper, delta)-bounded in the integrated ex-post sense, by the filter's
    theorem (infinite where it has none at this delta). lower: no epsilon below it bounds the costliest single part at
    this delta, by the engine; 0 where no part has a bound of its own.
    Source: docs/proofs/filters.md.
    """
    at = read(delta, field="delta")
    if at >= 1:
        raise ParameterError("delta", delta, "a number in [0, 1): at 1 every mechanism is private")
    upper = filters.reading(scope.filter, scope.sums, at)
    lower = max((_least(parts, scope.relation, at) for parts in set(ran)), default=0.0)
    return Bounds(lower=lower, upper=float_up(upper))


def _least(parts: Composition, relation: Relation, delta: Number) -> float:
    """What `parts` cost at the least: the steps that were started. A leaf with an outcome has no bound of its own: its
    loss is that of the outcome, not of the mechanism."""
    match parts:
        case Repeated(done=0):
            return 0.0
        case Repeated(of=of, done=int(done)):
            return _least(Repeated(of, times=done), relation, delta)
        case _ if _has_outcome(parts):
            return 0.0
        case _:
            return _engine_lower(parts, relation, delta)


def _engine_lower(parts: Composition, relation: Relation, delta: Number) -> float:
    try:
        return compose(parts, relation=relation).epsilon(delta).lower
    except CannotCertify:
        return 0.0


def _has_outcome(parts: Composition) -> bool:
    match parts:
        case SparseVectorLaw() | Repeated(done=int()):
            return True
        case _:
            return any(_has_outcome(part) for part in children(parts))
