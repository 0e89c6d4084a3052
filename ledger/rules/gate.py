"""The budget gate: pure rules over a state. It touches no store, no clock and no data.

`priced(state, request)` computes what a request is charged, which may take a while; `decide(state, request, earlier,
prices)` adds and compares, and says whether it is admitted, is the repetition of one that was, or is refused with what
was asked, spent and left. What becomes of an admitted charge: `course`.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias, assert_never

from dpledger.accounting import certified, filters
from dpledger.accounting.planning import ways as planning
from dpledger.decimals import ZERO
from dpledger.errors import AlreadySpent, BudgetRefused, ChargeInProgress, DpledgerError, ScopeBusy, ScopeError
from dpledger.ledger.entries.bodies import Refused, Reserved
from dpledger.ledger.entries.members import Fixed, LevelCharge, Priced
from dpledger.ledger.rules import refusals, settling
from dpledger.ledger.rules.requested import (
    Earlier,
    Request,
    check,
    levels_of,
    path_from,
    request_digest,
    require_not_before,
    require_room_for,
    require_same,
)
from dpledger.ledger.rules.scope_state import ScopeState, State, is_exclusive, next_steps

__all__ = [
    "Admitted",
    "Decision",
    "Outdated",
    "Prices",
    "RefusedRequest",
    "Replayed",
    "decide",
    "priced",
    "require_open",
]


@dataclass(frozen=True, slots=True)
class Admitted:
    """Every level of the path admits the request."""

    body: Reserved


@dataclass(frozen=True, slots=True)
class Replayed:
    """The key was used before, for the same request (its digest), and is settled by entry `ended`: the stored result
    answers."""

    charge: str
    ended: int
    request: str


@dataclass(frozen=True, slots=True)
class RefusedRequest:
    """A level of the path does not admit the request; nothing changes but the record of the refusal."""

    body: Refused
    error: BudgetRefused


@dataclass(frozen=True, slots=True)
class Outdated:
    """The state has changed since the prices were computed, and the scope would choose another tail_delta."""


Decision: TypeAlias = Admitted | Replayed | RefusedRequest | Outdated


@dataclass(frozen=True, slots=True)
class Prices:
    """What a request is charged at each level of its path, at the `tail_delta` that was asked for or chosen; or the
    `error` that says why it is not. `sixteenth`: what it was chosen from, None where it was not; `unfixed`: the levels
    whose first charge this would be: together all of a state that a price depends on. `fixed`: the filters that it
    would fix there, other than they were opened with. `digest`: of the request, so priced."""

    sixteenth: Decimal | None
    unfixed: tuple[str, ...]
    tail_delta: Decimal = ZERO
    levels: tuple[LevelCharge, ...] = ()
    fixed: tuple[Fixed, ...] = ()
    digest: str = ""
    error: DpledgerError | None = None


def priced(state: State, request: Request) -> Prices:
    """What `request` is charged in this state, and in every other one in which the scope would choose alike. Asked
    before the ledger is locked: a price may take seconds, a decision with it takes none. Raises ScopeError for a scope
    that is not there."""
    scope = _scope_of(state, request)
    levels, tail_delta, sixteenth = levels_of(state, scope, request), request.tail_delta, None
    unfixed = _unfixed(state, scope)
    try:
        if tail_delta is None:
            if certified.has_profile_price(request.parts, scope.relation):
                sixteenth = planning.sixteenth(levels)
            tail_delta = planning.chosen_tail_delta(levels, request.parts)
        require_room_for(scope, tail_delta)
        charged, fixed = [], []
        for name, level in sorted(zip(path_from(scope), levels, strict=True), key=lambda pair: pair[0]):
            ready = planning.fixed(level, request.parts, tail_delta)
            charged.append(LevelCharge(name, planning.charge(ready, request.parts, tail_delta)))
            if ready.filter != level.filter:
                fixed.append(Fixed(name, ready.filter))
        digest = request_digest(request.scope, request, tail_delta)
        return Prices(sixteenth, unfixed, tail_delta, tuple(charged), tuple(fixed), digest)
    except DpledgerError as error:
        return Prices(sixteenth, unfixed, error=error)


def decide(state: State, request: Request, earlier: Earlier | None, prices: Prices | None = None) -> Decision:
    """The decision on `request`; `earlier` is what the store knows of its key, `prices` what was `priced` before, maybe
    in an earlier state.

    Raises ScopeError or RelationError for a scope that is not there, is closed, or protects something else; KeyReused,
    AlreadySpent or ChargeInProgress for a key that was used; ScopeBusy where an exclusive interaction would overlap
    another; CannotCertify where no theorem prices the parts; ParameterError for parts that are no plan."""
    scope = _scope_of(state, request)
    if earlier is not None:
        return _again(state, scope, request, earlier)
    require_open(state, scope)
    check(scope, request)
    require_not_before(state, scope, request)
    _require_alone(state, scope, request)
    if prices is None:
        prices = priced(state, request)
    elif _is_outdated(prices, state, scope, request):
        return Outdated()
    if prices.error is not None:
        raise prices.error
    tail_delta, digest = prices.tail_delta, prices.digest
    named = {one.scope: one.filter for one in prices.fixed}
    for level in prices.levels:
        found = state.scopes[level.scope]
        asked = found.fixed(named[level.scope]) if level.scope in named else found
        refused = _refusal(state, request, digest, scope, asked, level)
        if refused is not None:
            return refused
    return Admitted(
        Reserved(
            path=next_steps(state, scope.path),
            key=request.key,
            charge=request.charge,
            request=digest,
            mechanism=request.mechanism,
            claim=request.claim,
            parts=request.parts,
            levels=prices.levels,
            form=request.form,
            failures=request.failures,
            steps=request.steps,
            redeem=request.redeem,
            priced=Priced(tail_delta) if tail_delta else None,
            attested=request.attested,
            fixed=prices.fixed,
        )
    )


def _unfixed(state: State, scope: ScopeState) -> tuple[str, ...]:
    """The scopes of its path to which nothing was charged, and whose filter the first charge may fix."""
    return tuple(name for name in scope.path if state.scopes[name].instead is not None)


def _is_outdated(prices: Prices, state: State, scope: ScopeState, request: Request) -> bool:
    if prices.unfixed != _unfixed(state, scope):
        return True
    return prices.sixteenth is not None and prices.sixteenth != planning.sixteenth(levels_of(state, scope, request))


def _scope_of(state: State, request: Request) -> ScopeState:
    scope = state.scopes.get(request.scope)
    if scope is None:
        raise ScopeError(
            f"no scope {request.scope!r} in this ledger: open it first, with its unit, relation and budget"
        )
    return scope


def require_open(state: State, scope: ScopeState) -> None:
    """ScopeError unless something may begin in the scope: neither it nor one above it is closed."""
    for name in scope.path:
        if state.scopes[name].closed:
            raise ScopeError(f"scope {name!r} is closed: open a new one")


def _require_alone(state: State, scope: ScopeState, request: Request) -> None:
    overlapped = state.overlaps(scope.path)
    if overlapped == "exclusive":
        raise ScopeBusy(refusals.exclusive(scope.scope))
    if overlapped == "interactions" and is_exclusive(request.form, request.parts):
        raise ScopeBusy(
            f"{request.mechanism.kind} cannot run beside an open interaction: close those in {scope.scope!r}"
        )


def _again(state: State, scope: ScopeState, request: Request, earlier: Earlier) -> Decision:
    require_same(state, scope, request, earlier)
    match earlier.status:
        case "committed":
            assert earlier.ended is not None, "a store records by which entry a charge ended"
            return Replayed(earlier.charge, earlier.ended, earlier.request)
        case "open":
            raise ChargeInProgress(
                f"key {request.key!r}: an attempt is under way ({_who_waits(request)}), or its process died. Its "
                "charge stands either way. A run under a new key is paid for again"
            )
        case "aborted":
            raise AlreadySpent(f"key {request.key!r} was aborted in scope {request.scope!r}: use a new key")
        case _:
            assert_never(earlier.status)


def _who_waits(request: Request) -> str:
    """Whether asking again may wait for the attempt that is under way."""
    if request.attested is not None:
        takes_over = "; resume=True takes it over" if request.steps is not None else ""
        return f"`charge` waits for it with wait=, `charging` and `charges` do not{takes_over}"
    if request.form == "release":
        return "`release` waits for it with wait=, `reserve` does not"
    return "`open` does not wait for it" + ("; resume=True takes it over" if request.form == "training" else "")


def _refusal(
    state: State, request: Request, digest: str, own: ScopeState, scope: ScopeState, asked: LevelCharge
) -> RefusedRequest | None:
    """The refusal of one level, `scope` as it would be charged; None where it admits the request."""
    if filters.admits(scope.filter, filters.with_charge(scope.filter, scope.sums, asked.amounts)):
        return None
    wanted = filters.asked(scope.filter, scope.sums, asked.amounts)
    spent = filters.spent(scope.filter, scope.sums)
    left = filters.left(scope.filter, scope.sums)
    body = Refused(
        path=next_steps(state, own.path),
        key=request.key,
        request=digest,
        mechanism=request.mechanism,
        claim=request.claim,
        level=scope.scope,
        asked=settling.numbers(wanted),
        spent=settling.numbers(spent),
        left=settling.numbers(left),
        held=settling.numbers(filters.spent(scope.filter, scope.held)),
        attested=request.attested,
    )
    said = refusals.words(scope, request.mechanism.kind, wanted, elsewhere=request.attested is not None)
    return RefusedRequest(body, BudgetRefused(said, scope=scope.scope, asked=wanted, spent=spent, left=left))
