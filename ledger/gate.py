"""The budget gate: pure rules over a state. It touches no store, no clock and no data.

`decide(state, request, earlier)` says whether a request is admitted, is the repetition of one that was, or is refused
with what was asked, spent and left. `settle` ends a started charge. Both return bodies; the ledger gives them their place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, TypeAlias

from dpledger import decimals
from dpledger.accounting import filters, rules
from dpledger.accounting.composition import Composition
from dpledger.accounting.filters import Coordinates
from dpledger.accounting.guarantees import Failure, Guarantee
from dpledger.errors import (
    AlreadySpent,
    BudgetRefused,
    ChargeInProgress,
    KeyReused,
    RelationError,
    ScopeError,
)
from dpledger.ledger import settling, wire
from dpledger.ledger.bodies import Committed, LevelCharge, MechanismNote, Refused, Reserved
from dpledger.ledger.state import OpenCharge, ScopeState, State, held, next_steps
from dpledger.relations import Relation, Unit
from dpledger.schema import plain

__all__ = ["Admitted", "Decision", "Earlier", "RefusedRequest", "Replayed", "Request", "decide", "settle"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked of a scope. `key`: what is to happen once, in the caller's words. `charge`: this attempt, 128
    random bits in hex. `redeem`: the SHA-256 of the 128 bits drawn by the process that will read the data; with it the charge
    is started at once."""

    scope: str
    key: str
    charge: str
    mechanism: MechanismNote
    relation: Relation
    unit: Unit
    claim: Guarantee
    parts: Composition
    failures: tuple[Failure, ...]
    form: Literal["release", "interaction", "training"]
    steps: int | None = None
    redeem: str | None = None

    def digest(self) -> str:
        """The SHA-256 of what is asked, without the ids of the attempt."""
        asked = {
            "scope": self.scope,
            "mechanism": plain(self.mechanism),
            "claim": plain(self.claim),
            "parts": plain(self.parts),
            "form": self.form,
        }
        return hashlib.sha256(wire.dump(asked)).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """What the store knows of a key that was used before in the scope."""

    charge: str
    request: str
    status: Literal["open", "committed", "aborted"]


@dataclass(frozen=True, slots=True)
class Admitted:
    """Every level of the path admits the request."""

    body: Reserved


@dataclass(frozen=True, slots=True)
class Replayed:
    """The key was used before, for the same request, and is settled: the stored result answers."""

    charge: str


@dataclass(frozen=True, slots=True)
class RefusedRequest:
    """A level of the path does not admit the request; nothing changes but the record of the refusal."""

    body: Refused
    error: BudgetRefused


Decision: TypeAlias = Admitted | Replayed | RefusedRequest


def decide(state: State, request: Request, earlier: Earlier | None) -> Decision:
    """The decision on `request`. Raises ScopeError or RelationError for a scope that is not there, is closed, or
    protects something else; KeyReused, AlreadySpent or ChargeInProgress for a key that was used; CannotCertify where no filter
    of the path has a price for the parts."""
    scope = _scope(state, request)
    if earlier is not None:
        return _again(request, earlier)
    levels = tuple(LevelCharge(name, price(state.scopes[name], request.parts)) for name in scope.path)
    for level in levels:
        refused = _refusal(state, request, scope, level)
        if refused is not None:
            return refused
    return Admitted(
        Reserved(
            path=next_steps(state, scope.path),
            key=request.key,
            charge=request.charge,
            request=request.digest(),
            mechanism=request.mechanism,
            claim=request.claim,
            parts=request.parts,
            levels=levels,
            form=request.form,
            failures=request.failures,
            steps=request.steps,
            redeem=request.redeem,
        )
    )


def price(scope: ScopeState, parts: Composition) -> Coordinates:
    """What the filter of `scope` charges for `parts`, at their cap where they have no outcome yet."""
    return filters.charge(scope.filter, rules.cost(parts, scope.relation, orders=filters.orders(scope.filter)))


def settle(
    state: State,
    charge: OpenCharge,
    parts: Composition,
    *,
    outside_guarantee: bool = False,
    warnings: tuple[str, ...] = (),
    digest: str | None = None,
) -> Committed:
    """The body that ends a started charge with the outcomes in `parts`, by the refund rule of each level."""
    final = settling.recorded(parts, charge.granted)
    rule, levels = settling.settled(charge.levels, final, charge.granted, outside_guarantee, state.scopes)
    return Committed(
        path=next_steps(state, tuple(level.scope for level in charge.levels)),
        charge=charge.charge,
        redeem=charge.redeem or "",
        parts=final,
        levels=levels,
        rule=rule,
        warnings=warnings,
        outside_guarantee=outside_guarantee,
        digest=digest,
    )


def _scope(state: State, request: Request) -> ScopeState:
    scope = state.scopes.get(request.scope)
    if scope is None:
        raise ScopeError(
            f"no scope {request.scope!r} in this ledger: open it first, with its unit, relation and budget"
        )
    for name in scope.path:
        if state.scopes[name].closed:
            raise ScopeError(f"scope {name!r} is closed: open a new one")
    if request.relation is not scope.relation or request.unit != scope.unit:
        raise RelationError(
            f"scope {scope.scope!r} protects one {scope.unit.name} under {scope.relation.value}; "
            f"the request one {request.unit.name} under {request.relation.value}"
        )
    return scope


def _again(request: Request, earlier: Earlier) -> Decision:
    if earlier.request != request.digest():
        raise KeyReused(f"key {request.key!r} was used in scope {request.scope!r} for another request: use a new key")
    match earlier.status:
        case "committed":
            return Replayed(earlier.charge)
        case "open":
            raise ChargeInProgress(
                f"key {request.key!r}: an attempt is under way, or its process died; its charge stands either way"
            )
        case "aborted":
            raise AlreadySpent(f"key {request.key!r} was aborted: use a new key")


def _refusal(state: State, request: Request, own: ScopeState, asked: LevelCharge) -> RefusedRequest | None:
    scope = state.scopes[asked.scope]
    if filters.admits(scope.filter, filters.with_charge(scope.filter, scope.sums, asked.amounts)):
        return None
    wanted = filters.asked(scope.filter, asked.amounts)
    spent = filters.spent(scope.filter, scope.sums)
    left = filters.left(scope.filter, scope.sums)
    body = Refused(
        path=next_steps(state, own.path),
        key=request.key,
        request=request.digest(),
        mechanism=request.mechanism,
        claim=request.claim,
        level=scope.scope,
        asked=_numbers(wanted),
        spent=_numbers(spent),
        left=_numbers(left),
        held=_numbers(filters.spent(scope.filter, held(state, scope.scope))),
    )
    accounts = "; ".join(f"{name}: asked {wanted[name]}, spent {spent[name]}, left {left[name]}" for name in wanted)
    message = (
        f"scope {scope.scope!r} refuses {request.mechanism.kind}, and nothing was spent. By account: {accounts}. "
        "Ask for less, or open a new scope for another dataset"
    )
    return RefusedRequest(body, BudgetRefused(message, scope=scope.scope, asked=wanted, spent=spent, left=left))


def _numbers(texts: Mapping[str, str]) -> dict[str, Decimal]:
    return {name: decimals.parse(value, field=name, infinite=True) for name, value in texts.items()}
