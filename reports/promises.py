"""Who is promised what: the scopes of a ledger, added up where they share people, each promise read as an epsilon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from dpledger.accounting.arithmetic.adding import read_at
from dpledger.accounting.arithmetic.conversions import epsilon_of
from dpledger.accounting.guarantees import Guarantee
from dpledger.decimals import INFINITY, negative
from dpledger.ledger.accounts.people import SamePeople, Together
from dpledger.ledger.accounts.recomposition import ScopeAccount
from dpledger.ledger.rules.standing import ScopeState
from dpledger.relations import Relation
from dpledger.reports.explain import worst_case

__all__ = ["Promise", "promises"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What `scopes` promise together for one unit, for everything that they ever release. `epsilon`: infinite where
    their budgets add up to nothing that holds."""

    scopes: tuple[str, ...]
    unit: str
    relation: Relation
    guarantee: Guarantee | None
    epsilon: Decimal
    delta: Decimal


def promises(
    accounts: Sequence[ScopeAccount], people: SamePeople, scopes: Mapping[str, ScopeState]
) -> tuple[Promise, ...]:
    """The promises of a ledger, the weakest first, by the odds that they leave: an epsilon does not tell them where
    deltas are large. Those of scopes over one dataset are added up, those of every other scope stand by themselves,
    unless it is charged to others, whose promise covers it.

    Claim: each holds for one unit of the scopes that it names, if what they say of their datasets is true. Source:
    docs/proofs/filters.md, "Scopes together".
    """
    shared = {name for group in people.together for name in group.scopes if scopes[name].unit == group.unit}
    alone = [account for account in accounts if account.scope not in shared and not scopes[account.scope].parents]
    found = [*(_of_group(group) for group in people.together), *(_of_scope(account) for account in alone)]
    return tuple(sorted(found, key=_weakest_first))


def _weakest_first(promise: Promise) -> tuple[Decimal, Decimal, Decimal, tuple[str, ...]]:
    guess = worst_case(promise.epsilon, promise.delta).guess
    return negative(guess), negative(promise.epsilon), negative(promise.delta), promise.scopes


def _of_group(group: Together) -> Promise:
    guarantee = group.guarantee
    delta = read_at(guarantee) if guarantee is not None else Decimal(1)
    return Promise(
        scopes=group.scopes,
        unit=group.unit.name,
        relation=group.relation,
        guarantee=guarantee,
        epsilon=INFINITY if guarantee is None else epsilon_of(guarantee, delta),
        delta=delta,
    )


def _of_scope(account: ScopeAccount) -> Promise:
    return Promise(
        scopes=(account.scope,),
        unit=account.unit.name,
        relation=account.relation,
        guarantee=account.budget,
        epsilon=epsilon_of(account.guarantee, account.delta),
        delta=account.delta,
    )
