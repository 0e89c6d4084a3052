"""Scopes over the same people: which budgets add up for one unit, and of which scopes that is not known.

Each scope bounds what it says itself of one unit; a patient who is in the data of two scopes has both losses. Scopes
that name the same dataset, for one unit under one relation, are added. What is promised to a unit of twelve rows is
promised to one of fewer: for each number of rows that a scope names, those count that promise as many or more. A scope
under a parent is within the parent's budget, and counts once. Nothing is known of a scope that names no dataset and has
no parent: whoever opens it is warned.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from dpledger.accounting import filters
from dpledger.accounting.adding import read_at, together
from dpledger.accounting.guarantees import Guarantee
from dpledger.errors import UnrelatedScopes
from dpledger.ledger.entries.bodies import ScopeOpened
from dpledger.ledger.rules.scope_state import ScopeState, State
from dpledger.relations import Relation, Unit
from dpledger.spelling import spelt_alike

__all__ = ["NotAdded", "SamePeople", "Together", "same_people", "warn_where_unrelated"]

ITEM = "people"  # of `declarations.ITEMS`
MOST_NAMED = 3  # scopes in one sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """Scopes that name one dataset, for one unit under one relation: `unit`, or one of more rows. `counted`: those
    whose budgets are added, which every other one is charged to; `guarantee`: what they come to for one `unit`, None
    where they come to nothing that holds."""

    dataset: str
    unit: Unit
    relation: Relation
    scopes: tuple[str, ...]
    counted: tuple[str, ...]
    guarantee: Guarantee | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotAdded:
    """Scopes that may be about the same people as each other or as others, and were not added; and why."""

    scopes: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SamePeople:
    """What the scopes of a ledger come to for one unit, and what of it is not known."""

    together: tuple[Together, ...]
    apart: tuple[NotAdded, ...]


def same_people(state: State) -> SamePeople:
    """The scopes of a ledger, added up where they name the same dataset.

    Claim: if the scopes of a group hold data of the same dataset, as they say, then all that is ever released in them
    keeps `guarantee` for one unit of it. Assumes: what they say of their datasets, which nobody can measure.
    Source: docs/proofs/filters.md, "Scopes together"."""
    scopes = state.scopes
    named: dict[tuple[str, str, str], list[ScopeState]] = {}
    for scope in scopes.values():
        if scope.dataset is not None:
            named.setdefault((scope.dataset, scope.unit.name, scope.relation.value), []).append(scope)
    groups = tuple(
        _together(unit, covering, scopes)
        for _, alike in sorted(named.items())
        for unit in sorted({scope.unit for scope in alike}, key=lambda unit: unit.max_contributions)
        if len(covering := [one for one in alike if one.unit.max_contributions >= unit.max_contributions]) > 1
    )
    return SamePeople(together=groups, apart=(*_apart(scopes), *_uncounted_parents(groups, scopes)))


def _together(unit: Unit, found: list[ScopeState], scopes: Mapping[str, ScopeState]) -> Together:
    first, members = found[0], {scope.scope for scope in found}
    counted = tuple(sorted(scope.scope for scope in found if not members & _above(scope)))
    guarantee = _sum(counted, scopes)
    for parent in sorted({name for member in counted for name in _above(scopes[member])}):
        rest = tuple(name for name in counted if parent not in scopes[name].path)
        if len(counted) - len(rest) < 2:
            continue
        covered = tuple(sorted((*rest, parent)))
        if _is_no_worse(_sum(covered, scopes), guarantee):
            counted, guarantee = covered, _sum(covered, scopes)
    return Together(
        dataset=first.dataset or "",
        unit=unit,
        relation=first.relation,
        scopes=tuple(sorted(members)),
        counted=counted,
        guarantee=guarantee,
    )


def _above(scope: ScopeState) -> set[str]:
    return set(scope.path) - {scope.scope}


def _sum(counted: Iterable[str], scopes: Mapping[str, ScopeState]) -> Guarantee | None:
    return together([filters.budget_guarantee(scopes[name].filter) for name in counted])


def _is_no_worse(left: Guarantee | None, right: Guarantee | None) -> bool:
    """Whether `left`, read as an epsilon at its delta, is at most `right`, read so."""
    if left is None or right is None:
        return right is None
    pairs = [(one.epsilon_at(at), at) for one in (left, right) for at in (read_at(one),)]
    return pairs[0][0] <= pairs[1][0] and pairs[0][1] <= pairs[1][1]


# ---- what is not known ----------------------------------------------------------------------------------------------


def _apart(scopes: Mapping[str, ScopeState]) -> Iterator[NotAdded]:
    tops: dict[str, list[ScopeState]] = {}
    named: dict[str, list[ScopeState]] = {}
    for scope in scopes.values():
        if not scope.parents:
            tops.setdefault(scope.unit.name, []).append(scope)
        if scope.dataset is not None:
            named.setdefault(scope.dataset, []).append(scope)
    for unit, alike in sorted(tops.items()):
        unknown = [scope for scope in alike if scope.dataset is None]
        if unknown and len(alike) > 1:
            beside = [scope for scope in alike if scope.dataset is not None]
            more = f", or in {_listed(beside)}" if beside else ""
            reason = f"they name no dataset: nobody knows whether one {unit} is in more than one of these{more}"
            yield NotAdded(scopes=_names(unknown), reason=reason)
    for dataset, alike in sorted(named.items()):
        if len({(scope.unit, scope.relation) for scope in alike}) > 1:
            yield NotAdded(
                scopes=_names(alike), reason=f"they share dataset {dataset}, but not one unit and one relation"
            )


def _uncounted_parents(groups: Iterable[Together], scopes: Mapping[str, ScopeState]) -> Iterator[NotAdded]:
    for group in groups:
        above = {name for member in group.scopes for name in _above(scopes[member])}
        rest = tuple(sorted(above - {*group.scopes, *group.counted}))
        if rest:
            reason = (
                f"they are parents of scopes of dataset {group.dataset}, but name another dataset or none: the sum "
                "leaves out"
            )
            yield NotAdded(scopes=rest, reason=f"{reason} what else they release")


def _names(scopes: Iterable[ScopeState]) -> tuple[str, ...]:
    return tuple(sorted(scope.scope for scope in scopes))


def _listed(scopes: Sequence[ScopeState]) -> str:
    names = _names(scopes)
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"scope{'s' if len(names) > 1 else ''} {', '.join(names[:MOST_NAMED])}{more}"


def warn_where_unrelated(state: State, opening: ScopeOpened) -> None:
    """Warn (`UnrelatedScopes`) of a scope that may be about the same people as another, where nothing says so."""
    if opening.parents:
        return
    _warn_where_respelt(state, opening)
    unrelated = (
        scope
        for scope in state.scopes.in_any_order()
        if not scope.parents
        and scope.unit.name == opening.unit.name
        and (scope.dataset is None or opening.dataset is None)
    )
    alike = list(islice(unrelated, MOST_NAMED + 1))
    if not alike:
        return
    unit, name = opening.unit.name, opening.path[0].scope
    more = " and others" if len(alike) > MOST_NAMED else ""
    asked = (
        "Give it a dataset (one text for one dataset) or parents"
        if opening.dataset is None
        else f"Scopes that name no dataset stay so: declare in words whom they are about (item {ITEM})"
    )
    words = (
        f"scope {name} and {_listed(alike[:MOST_NAMED])}{more} may be about the same {unit}. Nothing says whether "
        f"they are, so their budgets are not added up. {asked}"
    )
    warnings.warn(words, UnrelatedScopes, stacklevel=3)


def _warn_where_respelt(state: State, opening: ScopeOpened) -> None:
    """Warn of a dataset that other scopes spell otherwise, and none alike: `Visits` or `vists` for `visits`."""
    given = opening.dataset
    if given is None:
        return
    named = {scope.dataset for scope in state.scopes.in_any_order() if scope.dataset is not None}
    if given in named:
        return
    near = next((group for group in spelt_alike([*named, given]) if given in group), ())
    if near:
        other = next(one for one in near if one != given)
        words = (
            f"scope {opening.path[0].scope} is of dataset {given!r}, and another scope is of {other!r}: did you mean "
            "that? Two texts are two datasets, whose budgets are not added up"
        )
        warnings.warn(words, UnrelatedScopes, stacklevel=4)
