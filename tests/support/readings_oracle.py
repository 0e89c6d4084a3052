"""What a scope has spent, read from its entries alone: nothing that a state keeps is asked."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from dpledger.accounting import filters
from dpledger.accounting.composition import Composition, Repeated, SparseVectorLaw, children
from dpledger.accounting.filters import Filter, Sums
from dpledger.accounting.profile import Bounds, compose
from dpledger.decimals import float_up
from dpledger.errors import CannotCertify
from dpledger.ledger.entries.bodies import Aborted, Committed, Reserved, ScopeOpened
from dpledger.ledger.entries.entry import Entry
from dpledger.ledger.entries.members import LevelCharge
from dpledger.relations import Relation


def spent(entries: Iterable[Entry], scope: str, delta: Decimal) -> Bounds:
    """Both ends of the reading of `scope`: the filter's at the sums of all charges; the costliest of what settled."""
    charged: dict[str, tuple[LevelCharge, ...]] = {}
    ran: set[Composition] = set()
    rule: Filter | None = None
    relation: Relation | None = None
    for entry in entries:
        match entry.body:
            case ScopeOpened() as body if body.path[0].scope == scope:
                rule, relation = body.filter, body.relation
            case Reserved() as body:
                charged[body.charge] = body.levels
            case Aborted(charge=charge):
                del charged[charge]
            case Committed() as body:
                charged[body.charge] = body.levels
                if not body.outside_guarantee and scope in {level.scope for level in body.levels}:
                    ran.add(body.parts)
            case _:
                pass
    assert rule is not None
    assert relation is not None
    sums: Sums = filters.opening(rule)
    for levels in charged.values():
        for level in levels:
            if level.scope == scope:
                sums = filters.with_charge(rule, sums, level.amounts)
    lower = max((_least(parts, relation, delta) for parts in ran), default=0.0)
    return Bounds(lower=lower, upper=float_up(filters.reading(rule, sums, delta)))


def _least(parts: Composition, relation: Relation, delta: Decimal) -> float:
    if isinstance(parts, Repeated) and parts.done is not None:
        return _least(Repeated(parts.of, times=parts.done), relation, delta) if parts.done else 0.0
    if _has_outcome(parts):
        return 0.0
    try:
        return compose(parts, relation=relation).epsilon(delta).lower
    except CannotCertify:
        return 0.0


def _has_outcome(parts: Composition) -> bool:
    if isinstance(parts, SparseVectorLaw):
        return True
    if isinstance(parts, Repeated) and parts.done is not None:
        return True
    return any(map(_has_outcome, children(parts)))
