"""Who is promised what: the scopes of a ledger, added up where they share people, each promise read as an epsilon; and
what of a ledger each promise is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from dpledger.accounting import filters
from dpledger.accounting.adding import read_at
from dpledger.accounting.guarantees import Guarantee
from dpledger.decimals import INFINITY, negative
from dpledger.ledger.accounts.overlap import NotAdded, SamePeople, Together
from dpledger.ledger.accounts.recomposition import ScopeAccount
from dpledger.ledger.charging.requests import DECLARED
from dpledger.ledger.entries.bodies import Aborted, Audited, Reserved
from dpledger.ledger.entries.entry import Entry
from dpledger.ledger.rules.scope_state import ScopeState
from dpledger.relations import Relation, Unit
from dpledger.reports.explain import Odds, promised
from dpledger.spelling import spelt_alike

__all__ = ["Promise", "concerning", "covering", "is_read", "look_alikes", "members", "promises"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What `scopes` promise together for one unit, for everything that they ever release. `guarantee`: in its native
    currency; None where their budgets add up to nothing that holds. (`epsilon`, `delta`): what it is read as, epsilon
    infinite where nothing holds; `read`: whether delta, or a part of it, is the report's choice and no budget's."""

    scopes: tuple[str, ...]
    unit: Unit
    relation: Relation
    guarantee: Guarantee | None
    epsilon: Decimal
    delta: Decimal
    read: bool

    @property
    def odds(self) -> Odds:
        """What it lets somebody learn about one unit."""
        return promised(self.guarantee, self.relation, self.epsilon, self.delta)


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
    found = [*(_of_group(group, scopes) for group in people.together), *(_of_scope(account) for account in alone)]
    return tuple(sorted(found, key=_weakest_first))


def _weakest_first(promise: Promise) -> tuple[Decimal, Decimal, Decimal, tuple[str, ...]]:
    return negative(promise.odds.guess), negative(promise.epsilon), negative(promise.delta), promise.scopes


def is_read(guarantee: Guarantee) -> bool:
    """Whether an epsilon is read from it at a delta that it does not name itself."""
    return guarantee.own_delta is None


def _of_group(group: Together, scopes: Mapping[str, ScopeState]) -> Promise:
    guarantee = group.guarantee
    delta = read_at(guarantee) if guarantee is not None else Decimal(1)
    return Promise(
        scopes=group.scopes,
        unit=group.unit,
        relation=group.relation,
        guarantee=guarantee,
        epsilon=INFINITY if guarantee is None else guarantee.epsilon_at(delta),
        delta=delta,
        read=any(is_read(filters.budget_guarantee(scopes[name].filter)) for name in group.counted),
    )


def _of_scope(account: ScopeAccount) -> Promise:
    return Promise(
        scopes=(account.scope,),
        unit=account.unit,
        relation=account.relation,
        guarantee=account.budget,
        epsilon=account.guarantee.epsilon_at(account.delta),
        delta=account.delta,
        read=is_read(account.guarantee),
    )


def look_alikes(scopes: Mapping[str, ScopeState]) -> tuple[NotAdded, ...]:
    """The scopes whose datasets are spelt nearly alike: nobody adds them up, and most likely they hold the same people.
    One that is charged to another of them is in that one's promise."""
    named: dict[str, list[ScopeState]] = {}
    for scope in scopes.values():
        if scope.dataset is not None:
            named.setdefault(scope.dataset, []).append(scope)
    groups = []
    for texts in spelt_alike(named):
        alike = {scope.scope: scope for text in texts for scope in named[text]}
        tops = [scope for scope in alike.values() if alike.keys().isdisjoint(set(scope.path) - {scope.scope})]
        if len(apart := sorted({scope.dataset or "" for scope in tops})) > 1:
            reason = f"the datasets that they name are spelt nearly alike: {', '.join(f'“{text}”' for text in apart)}"
            groups.append(NotAdded(scopes=tuple(sorted(scope.scope for scope in tops)), reason=reason))
    return tuple(groups)


# ---- what a promise is about ----------------------------------------------------------------------------------------


def covering(found: Iterable[Promise], scope: ScopeState) -> tuple[Promise, ...]:
    """The promises that `scope` is under: those of itself, and those of the scopes that it is charged to."""
    return tuple(one for one in found if set(one.scopes) & set(scope.path))


def members(found: Iterable[Promise], scopes: Mapping[str, ScopeState]) -> frozenset[str]:
    """The scopes whose charges count in some of these promises: their own, and what is charged to those."""
    counted = {name for one in found for name in one.scopes}
    return frozenset(name for name, scope in scopes.items() if counted & set(scope.path))


def concerning(entries: Iterable[Entry], scopes: frozenset[str]) -> tuple[Entry, ...]:
    """The entries that are about some of `scopes`, or about no scope; and every audit of what ran in them, whatever
    scope it names: what it found of a mechanism holds wherever that ran."""
    known = tuple(entries)
    audited = {entry.body.charge for entry in known if isinstance(entry.body, Audited)}
    charged = {
        entry.body.charge: entry.body.path
        for entry in known
        if isinstance(entry.body, Reserved) and entry.body.charge in audited
    }
    ran = _ran(known, scopes)

    def is_of_them(entry: Entry) -> bool:
        path, body = getattr(entry.body, "path", ()), entry.body
        if isinstance(body, Audited):
            if body.mechanism.kind in ran:
                return True
            if not path and body.charge is not None:
                path = charged.get(body.charge, ())
        return not path or any(level.scope in scopes for level in path)

    return tuple(entry for entry in known if is_of_them(entry))


def _ran(entries: Iterable[Entry], scopes: frozenset[str]) -> frozenset[str]:
    """What ran in these scopes, by its name."""
    found = {}
    for entry in entries:
        body = entry.body
        if isinstance(body, Reserved) and any(level.scope in scopes for level in body.path):
            found[body.charge] = body.mechanism.kind
        elif isinstance(body, Aborted):
            found.pop(body.charge, None)
    return frozenset(found.values()) - {DECLARED}
