"""Transitions: what each body does to the state of a ledger.

`gate.decide` reads the state, `verification` recomputes it.

`step(state, body)` is pure. A body that breaks a rule raises VerificationError: for the live ledger that cannot happen,
since the gate makes the bodies; for a record it is the finding.

    reserved -> started -> committed        a reserved or started charge counts at its cap, for ever
    reserved -> aborted                     all of it comes back; only before it is started

A training run goes on in another process once a `progress` replaces its redeem: the one before is never in force again.

>>> from dpledger.ledger.entries.bodies import Heartbeat
>>> step(EMPTY, Heartbeat())
Traceback (most recent call last):
...
dpledger.errors.VerificationError: the first entry is not ledger_opened
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import MappingProxyType
from typing import assert_never

from dpledger.accounting import filters, reach, rules
from dpledger.accounting.composition import Composition
from dpledger.accounting.filters import Sums
from dpledger.accounting.planning import allotting
from dpledger.accounting.pricing.outcomes import certain, planned, steps
from dpledger.errors import EngineError, InputError, NewerThanVerifier, VerificationError
from dpledger.ledger.entries.bodies import (
    Aborted,
    Audited,
    Body,
    Closed,
    Committed,
    Declared,
    Heartbeat,
    Intended,
    KeyDelegated,
    KeyRevoked,
    KeyRotated,
    LedgerOpened,
    Lost,
    OwnerRotated,
    PlanRegistered,
    PolicyChanged,
    Progress,
    Refused,
    Reported,
    Reserved,
    RollbackAccepted,
    ScopeOpened,
    Snapshot,
    Started,
)
from dpledger.ledger.entries.members import LevelCharge, Step
from dpledger.ledger.rules import approvals, executed, notes, settling
from dpledger.ledger.rules.authority import Authority
from dpledger.ledger.rules.persistent import PersistentMap
from dpledger.ledger.rules.scope_state import (
    EMPTY,
    OpenCharge,
    ScopeState,
    State,
    changed,
    is_exclusive,
    next_steps,
    state_digest,
)
from dpledger.ledger.witnessing.policy import WitnessPolicy
from dpledger.relations import Unit

__all__ = [
    "EMPTY",
    "OpenCharge",
    "ScopeState",
    "State",
    "charged_scope",
    "check_prices",
    "fold",
    "moved",
    "next_steps",
    "state_digest",
    "step",
]

_ENDING = (Progress, Committed, Aborted, Lost)
"""What may still happen in a closed scope: charges that were open end."""


def step(state: State, body: Body) -> State:
    """The state after `body`. Raises VerificationError where the body is not a legal next one."""
    after = moved(state, body)
    check_prices(state, body)
    return after


def moved(state: State, body: Body) -> State:
    """The state after `body`, whose prices are taken as they stand: `check_prices` computes them, which may take
    longer. Raises VerificationError where the body is not a legal next one whatever the prices are."""
    _require(not state.closed or isinstance(body, KeyRevoked), "nothing may follow a closed ledger")
    with _as_findings():
        after = _apply(state, body)
        approvals.check(state, body)
    path: tuple[Step, ...] = getattr(body, "path", ())
    if not isinstance(body, _ENDING):
        for level in path:
            _require(level.scope not in state.scopes or not state.scope(level.scope).closed, "the scope is closed")
    return changed(after, scopes=_with_steps(after, path), size=state.size + 1)


def check_prices(state: State, body: Body) -> None:
    """Raises VerificationError where a legal next `body` opens a scope whose filter lets more happen than its budget
    says, or gives back more than its parts leave. What a `reserved` charges is step 9 of the verification."""
    with _as_findings():
        if isinstance(body, ScopeOpened):
            for rule in (body.filter,) if body.instead is None else (body.filter, body.instead):
                rules.check(body.budget, filters.budget_guarantee(rule), body.relation)
                allotting.require_certified(rule, body.relation)
        elif isinstance(body, Committed):
            charge = state.charge(body.charge)
            settling.check_refund(charge.levels, body, state.scopes, charge.tail_delta)


@contextmanager
def _as_findings() -> Iterator[None]:
    """What a rule says of numbers that no gate would have written is what is wrong with the record."""
    try:
        yield
    except (InputError, EngineError) as error:
        raise VerificationError(str(error)) from None


def fold(bodies: Iterable[Body]) -> State:
    """The state after all of `bodies`."""
    state = EMPTY
    for body in bodies:
        state = step(state, body)
    return state


def _apply(state: State, body: Body) -> State:
    if state.size == 0 and not isinstance(body, LedgerOpened):
        raise VerificationError("the first entry is not ledger_opened")
    match body:
        case LedgerOpened():
            return _open_ledger(state, body)
        case ScopeOpened():
            return _open_scope(state, body)
        case Reserved():
            return _reserve(state, body)
        case Started():
            return _start(state, body)
        case Progress():
            return _grant(state, body)
        case Committed():
            return _commit(state, body)
        case Aborted():
            return _abort(state, body)
        case Lost():
            _own_charge(state, body)
            return state
        case Refused():
            return _refuse(state, body)
        case Snapshot(state=digest):
            _require(digest == state_digest(state), "the snapshot is not the digest of the state before it")
            return state
        case Closed(path=path):
            return _close(state, path)
        case RollbackAccepted(size=size):
            _require(size > 0, "no entry was seen")
            return changed(_closed(state, tuple(state.scopes)), rollbacks=state.rollbacks + 1)
        case Intended():
            notes.check_intended(state, body)
            return changed(state, intended=state.intended.with_item(str(state.size), body))
        case Audited(intended=intended):
            notes.check_audited(state, body)
            return state if intended is None else changed(state, intended=state.intended.without(str(intended)))
        case Declared() | Reported() | Heartbeat():
            return state
        case KeyRotated() | KeyDelegated() | OwnerRotated():
            return changed(state, authority=state.keys.after(state.size, body))
        case KeyRevoked():
            return _revoke(state, body)
        case PlanRegistered() | PolicyChanged():
            raise NewerThanVerifier(f"an entry of the kind {body.kind}")
        case _:
            assert_never(body)


def _with_steps(state: State, path: tuple[Step, ...]) -> PersistentMap[ScopeState]:
    """The scopes, once each level of a path has counted its own event, without a gap."""
    if not path:
        return state.scopes
    names = _names(path)
    _require(names == tuple(sorted(set(names))), "the levels of a path are not in id order, each once")
    scopes = state.scopes
    for level in path:
        scope = state.scope(level.scope)
        _require(level.index == scope.index, f"scope {scope.scope}: index {level.index}, expected {scope.index}")
        scopes = scopes.with_item(scope.scope, changed(scope, index=scope.index + 1))
    return scopes


# ---- ledger and scopes ----------------------------------------------------------------------------------------------


def _open_ledger(state: State, body: LedgerOpened) -> State:
    _require(state.size == 0, "a second ledger_opened")
    if body.witness == "after":
        raise NewerThanVerifier("witnesses that are asked after the fact")
    _require((body.witness == "off") == (body.witness_policy is None), "witnesses without a policy, or none with one")
    if body.witness_policy is not None:
        WitnessPolicy.written(body.witness_policy)
    if body.continues is not None:
        raise NewerThanVerifier("a ledger that continues another one")
    return changed(state, opened=body, authority=Authority.opened(body))


def _revoke(state: State, body: KeyRevoked) -> State:
    """The ledger ends. What was charged after the last trusted entry stands, what came back after it does not."""
    _require(not state.keys.revoked, "nothing may follow a revocation")
    _require(body.last_trusted == state.last_trusted, "a revocation is the last entry, and names what was folded")
    scopes = state.scopes
    for name, scope in state.scopes.items():
        sums = scope.sums if scope.counted is None else scope.counted
        scopes = scopes.with_item(name, changed(scope, closed=True, sums=sums, counted=None))
    return changed(state, scopes=scopes, closed=True, authority=state.keys.after(state.size, body))


def _open_scope(state: State, body: ScopeOpened) -> State:
    _require(len(body.path) == 1 and body.path[0].index == 0, "a scope opens at index 0 of its own path")
    name, unit = body.path[0].scope, Unit(body.unit.name, body.unit.max_contributions)
    _require(name not in state.scopes, f"scope {name} is opened twice")
    _require(body.parents == tuple(sorted(set(body.parents))), "the parents are not in id order, each once")
    above = [state.scope(parent) for parent in body.parents]
    for parent in above:
        _require(not parent.closed, f"scope {parent.scope} is closed")
        same = (parent.relation, parent.unit) == (body.relation, unit)
        _require(same, f"scope {parent.scope} has another relation or unit")
    _require(body.instead != body.filter, "the first charge may fix the filter that is there")
    nothing = _frozen(filters.opening(body.filter))
    scope = ScopeState(
        scope=name,
        opened=state.size,
        unit=unit,
        relation=body.relation,
        budget=body.budget,
        filter=body.filter,
        opened_with=body.filter,
        keep=body.keep,
        parents=body.parents,
        path=tuple(sorted({name}.union(*(parent.path for parent in above)))),
        dataset=body.dataset,
        odometer=body.odometer,
        index=0,
        sums=nothing,
        held=nothing,
        instead=body.instead,
    )
    return changed(state, scopes=state.scopes.with_item(name, scope))


def _close(state: State, path: tuple[Step, ...]) -> State:
    if not path:
        return changed(state, closed=True)
    return _closed(state, _names(path))


def _closed(state: State, names: Iterable[str]) -> State:
    """Nothing new may begin in these scopes."""
    scopes = state.scopes
    for name in names:
        scopes = scopes.with_item(name, changed(state.scope(name), closed=True))
    return changed(state, scopes=scopes)


# ---- charges --------------------------------------------------------------------------------------------------------


def _reserve(state: State, body: Reserved) -> State:
    own = charged_scope(state, body.path)
    _require(body.charge not in state.open, "the charge is open already")
    _require(tuple(level.scope for level in body.levels) == own.path, "the levels are not those of the path")
    _require(planned(body.parts) == body.parts, "the parts have an outcome before they ran")
    counted = steps(body.parts)
    plan = None if counted is None else counted.planned
    is_training = body.form == "training"
    has_steps = body.steps == plan is not None if is_training else body.steps is None
    _require(has_steps, "the steps are not those of a training plan")
    unseen = body.attested is None or body.form != "release"
    _require(unseen, "a run elsewhere may have answered more than once: nobody saw its form")
    _require(_is_as_said(own, body), "a run elsewhere is charged for less than its guarantee is said to hold of")
    if body.plan is not None:
        raise NewerThanVerifier("a registered plan")
    _require_alone(state, own, body)
    charge = OpenCharge(
        charge=body.charge,
        reserved=state.size,
        scope=own.scope,
        key=body.key,
        request=body.request,
        form=body.form,
        parts=body.parts,
        levels=body.levels,
        steps=body.steps,
        redeem=body.redeem,
        tail_delta=body.tail_delta,
        attested=body.attested is not None,
    )
    scopes = _charged(_fixed(state, own, body), charge)
    for name in own.path:
        scope = scopes[name]
        _require(filters.admits(scope.filter, scope.sums), f"scope {name}: the filter does not admit the charge")
    return changed(state, scopes=scopes, open=state.open.with_item(charge.charge, charge))


def _fixed(state: State, own: ScopeState, body: Reserved) -> PersistentMap[ScopeState]:
    """The scopes, where each level has its filter fixed by its first charge: the one that it was opened with, or the
    one that is named, if its opening named it too. What may have run before counts under the first alone."""
    named = {one.scope: one.filter for one in body.fixed}
    in_order = tuple(one.scope for one in body.fixed) == tuple(sorted(named))
    _require(in_order and set(named) <= set(own.path), "filters are fixed for levels of the path, in id order")
    scopes = state.scopes
    for name in own.path:
        scope = state.scope(name)
        if name in named:
            _require(scope.instead is not None, f"scope {name}: its filter was fixed before")
            _require(named[name] == scope.instead, f"scope {name}: not the filter that its opening names")
        if scope.instead is not None:
            scope = scope.fixed(named.get(name))
            scopes = scopes.with_item(name, scope)
        late = scope.is_fixed_late and body.may_be_over
        _require(not late, f"scope {name}: a run elsewhere that may have begun before its filter was fixed")
    return scopes


def charged_scope(state: State, path: tuple[Step, ...]) -> ScopeState:
    """The scope that a path is the path of: the only one of its levels that is charged to all the others.
    VerificationError if there is none."""
    for level in path:
        scope = state.scope(level.scope)
        if scope.path == _names(path):
            return scope
    raise VerificationError("the path is not that of one of its scopes")


def _is_as_said(own: ScopeState, body: Reserved) -> bool:
    """Whether a run elsewhere is charged in the groups that follow from what its guarantee is said to hold of."""
    said = body.attested
    if said is None or said.relation is None:
        _require(said is None or said.of is None, "of what a run elsewhere holds, without the relation under which")
        return True
    around = reach.steps_of(said.relation, said.of, own.unit, own.relation)
    return reach.reaches(body.parts, around, each_step=body.form == "training")


def _require_alone(state: State, own: ScopeState, body: Reserved) -> None:
    overlapped = state.overlaps(own.path)
    _require(overlapped != "exclusive", "an exclusive interaction is open in the scope")
    alone = overlapped == "nothing" or not is_exclusive(body.form, body.parts)
    _require(alone, "an exclusive interaction overlaps another")


def _start(state: State, body: Started) -> State:
    charge = _own_charge(state, body)
    _require(charge.redeem is None, "the charge is started already")
    _require(not state.must_wait(charge), "an exclusive interaction is open in the scope")
    return _with_charge(state, changed(charge, redeem=body.redeem))


def _grant(state: State, body: Progress) -> State:
    charge = _own_charge(state, body)
    _require(charge.form == "training", "only training is granted steps")
    _require(charge.redeem == (body.replaces or body.redeem), "not by the redeem in force")
    _require(body.replaces != body.redeem, "a redeem cannot take over from itself")
    _require(body.redeem not in charge.replaced, "by a redeem that was replaced: it never comes back")
    least = charge.granted + (body.replaces is None)
    _require(least <= body.upto <= (charge.steps or 0), "steps are granted forwards, and at most those planned")
    replaced = (*charge.replaced, body.replaces) if body.replaces is not None else charge.replaced
    return _with_charge(state, changed(charge, granted=body.upto, redeem=body.redeem, replaced=replaced))


def _commit(state: State, body: Committed) -> State:
    charge = _own_charge(state, body)
    _require(charge.redeem == body.redeem, "not by the redeem in force")
    _require(planned(body.parts) == charge.parts, "the parts are not those that were reserved")
    seen = settling.recorded(body.parts, charge.form, charge.granted)
    _require(
        seen == body.parts,
        "fewer steps done than were granted or an outcome tells of, or than were planned where neither says",
    )
    settling.require_possible_outcomes(body.parts)
    if charge.attested:
        settling.require_granted(charge.parts, body.parts, charge.granted)
    keep = state.scope(charge.scope).keep
    _require(body.digest is None or keep == "digest", "a digest in a scope that keeps none")
    settling.check_form(charge.levels, body)
    seen_for_sure = state.is_trusted and not body.outside_guarantee and not charge.attested
    return _ended(state, charge, body.levels, certain(body.parts) if seen_for_sure else None)


def _abort(state: State, body: Aborted) -> State:
    charge = _own_charge(state, body)
    _require(charge.redeem is None, "a started charge is never given back")
    return _ended(state, charge, None, None)


def _own_charge(state: State, body: Started | Progress | Committed | Aborted | Lost) -> OpenCharge:
    charge = state.charge(body.charge)
    _require(_names(body.path) == charge.path, "the path is not that of the charge")
    return charge


def _refuse(state: State, body: Refused) -> State:
    """A refusal changes no sum; the numbers that it shows are those of the level that refused, and what was asked did
    not fit beside them."""
    own = charged_scope(state, body.path)
    _require(body.level in own.path, "the level that refused is not one of the path")
    scope = state.scope(body.level)
    shown = (
        ("spent", body.spent, filters.spent(scope.filter, scope.sums)),
        ("left", body.left, filters.left(scope.filter, scope.sums)),
        ("held", body.held, filters.spent(scope.filter, scope.held)),
    )
    for name, numbers, folded in shown:
        _require(settling.numbers(folded) == dict(numbers), f"{name}: not the numbers of scope {scope.scope}")
    _require(
        not filters.fits(scope.filter, scope.sums, body.asked), f"asked: scope {scope.scope} would have admitted it"
    )
    return state


# ---- sums -----------------------------------------------------------------------------------------------------------


def _charged(scopes: PersistentMap[ScopeState], charge: OpenCharge) -> PersistentMap[ScopeState]:
    """Each level is charged, and holds what it is charged."""
    for level in charge.levels:
        scope, amounts = scopes[level.scope], level.amounts
        unknown = set(amounts) - set(scope.sums)
        _require(not unknown, f"scope {scope.scope}: a coordinate that its filter does not have")
        taken = changed(
            scope,
            sums=_frozen(filters.with_charge(scope.filter, scope.sums, amounts)),
            held=_frozen(filters.with_charge(scope.filter, scope.held, amounts)),
            counted=scope.counted and _frozen(filters.with_charge(scope.filter, scope.counted, amounts)),
            interactions=scope.interactions + (charge.form != "release"),
            exclusive=scope.exclusive + is_exclusive(charge.form, charge.parts),
        )
        scopes = scopes.with_item(level.scope, taken)
    return scopes


def _ended(state: State, charge: OpenCharge, settled: tuple[LevelCharge, ...] | None, ran: Composition | None) -> State:
    """The charge is open no more, and its levels are charged what it settled at instead: nothing, if it was aborted.
    `ran`: what is known to have run."""
    scopes = state.scopes
    for place, level in enumerate(charge.levels):
        scope = scopes[level.scope]
        sums = filters.without_charge(scope.filter, scope.sums, level.amounts)
        noted = scope.ran
        if settled is not None:
            left = settled[place].amounts
            sums = filters.with_charge(scope.filter, sums, left)
            noted = noted if ran is None else executed.also(noted, ran, scope.filter, left)
        back = changed(
            scope,
            sums=_frozen(sums),
            held=_frozen(filters.without_charge(scope.filter, scope.held, level.amounts)),
            counted=scope.sums if scope.counted is None and not state.is_trusted else scope.counted,
            interactions=scope.interactions - (charge.form != "release"),
            exclusive=scope.exclusive - is_exclusive(charge.form, charge.parts),
            ran=noted,
        )
        scopes = scopes.with_item(level.scope, back)
    return changed(state, scopes=scopes, open=state.open.without(charge.charge))


def _frozen(sums: Sums) -> Sums:
    return MappingProxyType(dict(sums))


def _with_charge(state: State, charge: OpenCharge) -> State:
    return changed(state, open=state.open.with_item(charge.charge, charge))


def _names(path: tuple[Step, ...]) -> tuple[str, ...]:
    return tuple(level.scope for level in path)


def _require(holds: bool, reason: str) -> None:
    if not holds:
        raise VerificationError(reason)
