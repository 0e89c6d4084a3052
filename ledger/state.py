"""The state of a ledger, folded from its bodies one by one: what `gate.decide` reads and `verification` recomputes.

`step(state, body)` is pure. It holds sums and open charges, never the list of everything that happened; that each key and
charge is used once is the store's to keep and the verifier's to check. A body that breaks a rule raises VerificationError:
for the live ledger that cannot happen, since the gate makes the bodies; for a record it is the finding.

    reserved -> started -> committed        a reserved or started charge counts at its cap, for ever
    reserved -> aborted                     all of it comes back
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal, assert_never

from dpledger.accounting import filters
from dpledger.accounting.composition import Composition, planned
from dpledger.accounting.filters import Coordinates, Filter, Sums
from dpledger.accounting.guarantees import Guarantee
from dpledger.decimals import text
from dpledger.errors import VerificationError
from dpledger.ledger import settling, wire
from dpledger.ledger.bodies import (
    Aborted,
    Audited,
    Body,
    Closed,
    Committed,
    Declared,
    Heartbeat,
    KeyRevoked,
    KeyRotated,
    LedgerOpened,
    LevelCharge,
    Lost,
    PlanRegistered,
    PolicyChanged,
    Progress,
    Refused,
    Reported,
    Reserved,
    ScopeOpened,
    Snapshot,
    Started,
    Step,
)
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, plain

__all__ = ["EMPTY", "OpenCharge", "ScopeState", "State", "held", "next_steps", "state_digest", "step"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeState:
    """One scope: its rules, the sums of its filter over everything not aborted, and its next index."""

    scope: str
    unit: Unit
    relation: Relation
    budget: Guarantee
    filter: Filter
    keep: Literal["value", "digest", "none"]
    parents: tuple[str, ...]
    index: int
    sums: Sums
    closed: bool = False

    @property
    def path(self) -> tuple[str, ...]:
        """The scopes that a charge in this one is charged to, in id order."""
        return tuple(sorted({*self.parents, self.scope}))


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCharge:
    """A charge that is reserved or started: what it holds, and what may settle it."""

    charge: str
    scope: str
    key: str
    request: str
    form: Literal["release", "interaction", "training"]
    parts: Composition
    levels: tuple[LevelCharge, ...]
    steps: int | None = None
    granted: int = 0
    redeem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Everything that the rules read. `size` is the number of entries folded."""

    size: int = 0
    opened: LedgerOpened | None = None
    scopes: Mapping[str, ScopeState] = field(default_factory=lambda: MappingProxyType({}))
    open: Mapping[str, OpenCharge] = field(default_factory=lambda: MappingProxyType({}))
    closed: bool = False


EMPTY = State()


def step(state: State, body: Body) -> State:
    """The state after `body`. Raises VerificationError where the body is not a legal next one."""
    _require(state.size == 0 or state.opened is not None, "the ledger does not start with ledger_opened")
    _require(not state.closed, "nothing may follow a closed ledger")
    after = _apply(state, body)
    return replace(_with_steps(after, getattr(body, "path", ())), size=state.size + 1)


def fold(bodies: Iterable[Body]) -> State:
    """The state after all of `bodies`."""
    state = EMPTY
    for body in bodies:
        state = step(state, body)
    return state


def _apply(state: State, body: Body) -> State:
    match body:
        case LedgerOpened():
            _require(state.size == 0, "a second ledger_opened")
            return replace(state, opened=body)
        case _ if state.size == 0:
            raise VerificationError("the first entry is not ledger_opened")
        case ScopeOpened():
            return _open_scope(state, body)
        case Reserved():
            return _reserve(state, body)
        case Started(charge=charge, redeem=redeem):
            return _start(state, charge, redeem)
        case Progress():
            return _grant(state, body)
        case Committed():
            return _commit(state, body)
        case Aborted(charge=charge):
            return _abort(state, charge)
        case Lost(charge=charge):
            _require(charge in state.open, "a note about a charge that is not open")
            return state
        case Snapshot(state=digest):
            _require(digest == state_digest(state), "the snapshot is not the digest of the state before it")
            return state
        case Closed(path=path):
            return _close(state, path)
        case Refused() | Declared() | Audited() | Reported() | Heartbeat():
            return state
        case PlanRegistered() | PolicyChanged() | KeyRotated() | KeyRevoked():
            raise VerificationError(f"{body.kind}: newer than this program")
        case _:
            assert_never(body)


def _with_steps(state: State, path: tuple[Step, ...]) -> State:
    """Each level of a path counts its own events, without a gap."""
    if not path:
        return state
    names = [level.scope for level in path]
    _require(names == sorted(set(names)), "the levels of a path are not in id order, each once")
    scopes = dict(state.scopes)
    for level in path:
        scope = _scope(state, level.scope)
        _require(level.index == scope.index, f"scope {scope.scope}: index {level.index}, expected {scope.index}")
        scopes[scope.scope] = replace(scope, index=scope.index + 1)
    return replace(state, scopes=MappingProxyType(scopes))


def _open_scope(state: State, body: ScopeOpened) -> State:
    _require(len(body.path) == 1 and body.path[0].index == 0, "a scope opens at index 0 of its own path")
    name = body.path[0].scope
    _require(name not in state.scopes, f"scope {name} is opened twice")
    for parent in body.parents:
        above = _scope(state, parent)
        _require(
            above.relation is body.relation and above.unit == Unit(body.unit.name, body.unit.max_contributions),
            f"scope {parent} has another relation or unit",
        )
    scope = ScopeState(
        scope=name,
        unit=Unit(body.unit.name, body.unit.max_contributions),
        relation=body.relation,
        budget=body.budget,
        filter=body.filter,
        keep=body.keep,
        parents=body.parents,
        index=0,
        sums=MappingProxyType(dict(filters.opening(body.filter))),
    )
    return replace(state, scopes=MappingProxyType({**state.scopes, name: scope}))


def _reserve(state: State, body: Reserved) -> State:
    own = next((s for s in map(state.scopes.get, _names(body.path)) if s and s.path == _names(body.path)), None)
    if own is None:
        raise VerificationError("the path is not that of one of its scopes")
    _require(body.charge not in state.open, "the charge is open already")
    _require(tuple(level.scope for level in body.levels) == own.path, "the levels are not those of the path")
    _require((body.steps is not None) == (body.form == "training"), "steps belong to training, and only there")
    after = _charged(state, body.levels)
    for name in own.path:
        scope = _scope(after, name)
        _require(not scope.closed, f"scope {name} is closed")
        _require(filters.admits(scope.filter, scope.sums), f"scope {name}: the filter does not admit the charge")
    charge = OpenCharge(
        charge=body.charge,
        scope=own.scope,
        key=body.key,
        request=body.request,
        form=body.form,
        parts=body.parts,
        levels=body.levels,
        steps=body.steps,
        redeem=body.redeem,
    )
    return replace(after, open=MappingProxyType({**state.open, body.charge: charge}))


def _start(state: State, charge: str, redeem: str) -> State:
    held_charge = _open(state, charge)
    _require(held_charge.redeem is None, "the charge is started already")
    return _with_charge(state, replace(held_charge, redeem=redeem))


def _grant(state: State, body: Progress) -> State:
    charge = _open(state, body.charge)
    _require(charge.form == "training" and charge.steps is not None, "only training is granted steps")
    _require(charge.redeem == (body.replaces or body.redeem), "not by the redeem that started the charge")
    _require(charge.granted < body.upto <= (charge.steps or 0), "steps are granted forwards, and at most those planned")
    return _with_charge(state, replace(charge, granted=body.upto, redeem=body.redeem))


def _commit(state: State, body: Committed) -> State:
    charge = _open(state, body.charge)
    _require(charge.redeem == body.redeem, "not by the redeem that started the charge")
    _require(planned(body.parts) == charge.parts, "the parts are not those that were reserved")
    rule, levels = settling.settled(charge.levels, body.parts, charge.granted, body.outside_guarantee, state.scopes)
    _require((body.rule, body.levels) == (rule, levels), "the charge is not settled by the rule")
    rest = {name: other for name, other in state.open.items() if name != body.charge}
    return replace(_charged(_refunded(state, charge.levels), levels), open=MappingProxyType(rest))


def _abort(state: State, charge: str) -> State:
    held_charge = _open(state, charge)
    _require(held_charge.redeem is None, "a started charge is never given back")
    rest = {name: other for name, other in state.open.items() if name != charge}
    return replace(_refunded(state, held_charge.levels), open=MappingProxyType(rest))


def _close(state: State, path: tuple[Step, ...]) -> State:
    if not path:
        return replace(state, closed=True)
    scopes = {level.scope: replace(_scope(state, level.scope), closed=True) for level in path}
    return replace(state, scopes=MappingProxyType({**state.scopes, **scopes}))


# ---- sums -----------------------------------------------------------------------------------------------------------


def _charged(state: State, levels: tuple[LevelCharge, ...]) -> State:
    scopes = {level.scope: _added(_scope(state, level.scope), level.amounts) for level in levels}
    return replace(state, scopes=MappingProxyType({**state.scopes, **scopes}))


def _refunded(state: State, levels: tuple[LevelCharge, ...]) -> State:
    scopes = {}
    for level in levels:
        scope = _scope(state, level.scope)
        sums = filters.without_charge(scope.filter, scope.sums, level.amounts)
        scopes[level.scope] = replace(scope, sums=MappingProxyType(dict(sums)))
    return replace(state, scopes=MappingProxyType({**state.scopes, **scopes}))


def _added(scope: ScopeState, amounts: Coordinates) -> ScopeState:
    _require(set(amounts) <= set(scope.sums), f"scope {scope.scope}: a coordinate that its filter does not have")
    sums = filters.with_charge(scope.filter, scope.sums, amounts)
    return replace(scope, sums=MappingProxyType(dict(sums)))


def held(state: State, scope: str) -> Sums:
    """Of the sums of `scope`, the part that charges not settled hold."""
    rule = _scope(state, scope).filter
    sums = filters.opening(rule)
    for charge in state.open.values():
        for level in charge.levels:
            if level.scope == scope:
                sums = filters.with_charge(rule, sums, level.amounts)
    return sums


def next_steps(state: State, path: tuple[str, ...]) -> tuple[Step, ...]:
    """The path of the next event in these scopes."""
    return tuple(Step(name, _scope(state, name).index) for name in path)


# ---- look-ups -------------------------------------------------------------------------------------------------------


def state_digest(state: State) -> str:
    """The SHA-256 of the folded state in the byte profile: size, and for each scope and open charge what is summed."""
    scopes: list[Plain] = [
        {
            "scope": name,
            "index": scope.index,
            "closed": scope.closed,
            "sums": {key: {"total": text(total), "unpriced": count} for key, (total, count) in scope.sums.items()},
        }
        for name, scope in sorted(state.scopes.items())
    ]
    charges: list[Plain] = [
        {
            "charge": name,
            "granted": charge.granted,
            "levels": plain(charge.levels),
            **({"redeem": charge.redeem} if charge.redeem is not None else {}),
        }
        for name, charge in sorted(state.open.items())
    ]
    return hashlib.sha256(wire.dump({"size": state.size, "scopes": scopes, "open": charges})).hexdigest()


def _with_charge(state: State, charge: OpenCharge) -> State:
    return replace(state, open=MappingProxyType({**state.open, charge.charge: charge}))


def _scope(state: State, name: str) -> ScopeState:
    scope = state.scopes.get(name)
    if scope is None:
        raise VerificationError(f"scope {name} was never opened")
    return scope


def _open(state: State, charge: str) -> OpenCharge:
    found = state.open.get(charge)
    if found is None:
        raise VerificationError("the charge is not open")
    return found


def _names(path: tuple[Step, ...]) -> tuple[str, ...]:
    return tuple(level.scope for level in path)


def _require(holds: bool, reason: str) -> None:
    if not holds:
        raise VerificationError(reason)
