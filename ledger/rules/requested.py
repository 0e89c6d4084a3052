"""What is asked of a scope, what it must be like, and what makes two requests the same. Pure rules over a state."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from dpledger.accounting import filters
from dpledger.accounting.composition import Composition
from dpledger.accounting.guarantees import Failure, Guarantee, PrivacyFailure
from dpledger.accounting.planning import ways as planning
from dpledger.accounting.pricing import outcomes
from dpledger.decimals import ZERO, text, total
from dpledger.errors import KeyReused, ParameterError, RelationError, ScopeError
from dpledger.ledger.entries.bodies import Reserved
from dpledger.ledger.entries.members import Attestation, MechanismNote
from dpledger.ledger.rules.scope_state import Form, ScopeState, State
from dpledger.ledger.signed import wire
from dpledger.relations import Relation, Unit
from dpledger.schema import plain

__all__ = [
    "Earlier",
    "Request",
    "check",
    "check_failures",
    "levels_of",
    "path_from",
    "request_digest",
    "require_not_before",
    "require_room_for",
    "require_same",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked of a scope. `key`: what is to happen once, in the caller's words. `charge`: this attempt, 128
    random bits in hex. `redeem`: the digest of the redeem of the process that will read the data; with it the charge is
    started at once. `tail_delta`: the delta of a price from the profile, 0 for the price of the parts; None: the scope
    decides (`planning.chosen_tail_delta`). `attested`: of a run that happens elsewhere. `is_fresh`: the key was drawn
    for it, so that nobody used it before."""

    scope: str
    key: str
    charge: str
    mechanism: MechanismNote
    relation: Relation
    unit: Unit
    claim: Guarantee
    parts: Composition
    failures: tuple[Failure, ...]
    form: Form
    steps: int | None = None
    redeem: str | None = None
    tail_delta: Decimal | None = None
    attested: Attestation | None = None
    is_fresh: bool = False

    @property
    def may_be_over(self) -> bool:
        """Whether it is for a run elsewhere that may have begun before, as `Reserved.may_be_over`."""
        return self.attested is not None and self.redeem is not None


def request_digest(scope: str, asked: Request | Reserved, tail_delta: Decimal) -> str:
    """The SHA-256 of what is asked of `scope`, in the byte profile: without the ids of the attempt and the version of
    the library, so that whoever asks again after an upgrade asks for the same. Everything in it stands in the entry
    that reserves the charge, so that a verifier computes it again. `tail_delta`: 0 of a request priced from its
    parts."""
    digested = {
        "scope": scope,
        "mechanism": {"kind": asked.mechanism.kind, "parameters": plain(asked.mechanism.parameters)},
        "claim": plain(asked.claim),
        "parts": plain(asked.parts),
        "form": asked.form,
        **({"priced": {"tail_delta": text(tail_delta)}} if tail_delta else {}),
        **({} if asked.attested is None else {"attested": plain(asked.attested)}),
    }
    return hashlib.sha256(wire.dump(digested)).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """What the store knows of a key that was used before in the scope. `ended`: the entry that ended it."""

    charge: str
    request: str
    status: Literal["open", "committed", "aborted"]
    ended: int | None = None


def check(scope: ScopeState, request: Request) -> None:
    """ParameterError or RelationError for a request that `scope` admits at no time, whatever was spent."""
    _require_plan(request)
    check_failures(request.claim, request.failures)
    if request.relation is not scope.relation or request.unit != scope.unit:
        raise RelationError(
            f"scope {scope.scope!r} protects one {scope.unit.name} under {scope.relation.value}; "
            f"the request is for one {request.unit.name} under {request.relation.value}"
        )
    if request.tail_delta is not None:
        require_room_for(scope, request.tail_delta)


def check_failures(claim: Guarantee, failures: tuple[Failure, ...]) -> None:
    """ParameterError unless the privacy failures of a claim, by cause, add up to its delta. Accuracy never counts."""
    causes = total(failure.delta for failure in failures if isinstance(failure, PrivacyFailure))
    delta = claim.fails
    if causes != delta:
        raise ParameterError("failures", text(causes), f"causes that add up to the claim's delta, {text(delta)}")


def _require_plan(request: Request) -> None:
    """Parts come without outcomes; those of a training run are a `repeated` or a `sequence` of as many
    as it has steps."""
    if outcomes.planned(request.parts) != request.parts:
        raise ParameterError("parts", request.parts.kind, "parts without an outcome before they run")
    counted = outcomes.steps(request.parts)
    plan = None if counted is None else counted.planned
    if request.steps != (plan if request.form == "training" else None):
        raise ParameterError(
            "steps", request.steps, "as many as the parts of a training run have, a `repeated` or a `sequence`"
        )


def require_room_for(scope: ScopeState, tail_delta: Decimal) -> None:
    """ParameterError for a price from the profile in a scope whose own filter has no delta, or no pure or Renyi price,
    for it."""
    if tail_delta and filters.tail_budget(scope.filter) is None:
        raise ParameterError(
            "tail_delta",
            text(tail_delta),
            f"0: scope {scope.scope!r} has a {scope.filter.kind} filter; only the filters basic, either, and zcdp "
            "with a delta take more",
        )


def require_not_before(state: State, scope: ScopeState, request: Request) -> None:
    """ScopeError for a run elsewhere that may have begun before the filter of a scope was fixed: its output may have
    chosen the request that fixed it (docs/proofs/filters.md, "Constants fixed at the first charge")."""
    for name in scope.path:
        if request.may_be_over and state.scopes[name].is_fixed_late:
            raise ScopeError(
                f"scope {name!r} fixed its filter at its first charge, and this run may have begun earlier. Charge a "
                "run before it begins, with `charging`; charge one that is over to another scope of the same people"
            )


def levels_of(state: State, scope: ScopeState, request: Request | None = None) -> planning.Levels:
    """The scope as it is asked, then those above it. A `request` for a run that may have begun before fixes no other
    filter than a scope was opened with."""
    may_be_over = request is not None and request.may_be_over
    found = (state.scopes[name] for name in path_from(scope))
    return tuple(
        planning.Level(level.filter, level.relation, level.sums, None if may_be_over else level.instead)
        for level in found
    )


def path_from(scope: ScopeState) -> tuple[str, ...]:
    """The scope, then those above it, in id order."""
    return (scope.scope, *(name for name in scope.path if name != scope.scope))


def require_same(state: State, scope: ScopeState, request: Request, earlier: Earlier) -> None:
    """KeyReused unless `request` asks for what its key was used for."""
    if not any(earlier.request == digest for digest in _digests(state, scope, request)):
        where = "still open" if earlier.ended is None else f"entry {earlier.ended} ended it"
        raise KeyReused(
            f"key {request.key!r} was used in scope {request.scope!r} for another request ({where}; "
            "`scope.releases()` shows which): ask in the same words, or use a new key, which is paid for by itself"
        )


def _digests(state: State, scope: ScopeState, request: Request) -> Iterator[str]:
    """What an earlier request that asks the same may have been recorded as: where the scope decides, with any
    tail_delta that it may have decided on then."""
    if request.tail_delta is not None:
        yield request_digest(request.scope, request, request.tail_delta)
        return
    yield request_digest(request.scope, request, ZERO)
    for level in levels_of(state, scope):
        for tail_delta in planning.ever_chosen(level):
            yield request_digest(request.scope, request, tail_delta)
