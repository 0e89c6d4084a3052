"""The owner's signature under what opens or ends a scope: two keys, so that who may spend cannot open another budget.

A ledger may name the key of an owner in its first entry. Then a `scope_opened`, a `closed` and an `owner_rotated` carry
the owner's signature, and a record without it does not verify. Where that key is lost or stolen, the recovery key signs
the last of them in its place. What is signed is the entry without its place: one text for one
question, so that an approval is good for that question, in that ledger, and for nothing else. How often the ledger went
on from an older copy is part of the question: a scope that was lost is not opened again by its old approval. So is how
often another owner took over: no approval outlives that, the recovery key's neither.

>>> from dpledger.ledger.entries.bodies import Closed
>>> request_of("clinic-" + "0" * 32, Closed(reason="the study is over"))
b'{"kind":"closed","ledger":"clinic-00000000000000000000000000000000","reason":"the study is over","version":1}'
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias, TypeGuard, assert_never

from dpledger.accounting import filters, rules
from dpledger.errors import ApprovalNeeded, ParameterError, VerificationError
from dpledger.ledger.entries.bodies import Body, Closed, OwnerRotated, ScopeOpened
from dpledger.ledger.entries.entry import FIRST_PREVIOUS, Entry, format_entry, parse_entry
from dpledger.ledger.entries.members import Step
from dpledger.ledger.rules.authority import key_of
from dpledger.ledger.rules.scope_state import State
from dpledger.ledger.signed import envelope, wire
from dpledger.ledger.signed.keys import Signer, VerifyingKey, signature_of

__all__ = ["ApprovalRequest", "Approved", "approval_of", "asked", "check", "request_of", "require"]

Approved: TypeAlias = ScopeOpened | Closed | OwnerRotated
"""What the owner of a ledger approves."""

APPROVAL_TYPE = "application/vnd.dpledger.approval.v1+json"
PLACE = ("index", "previous")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """What a request is about: `body`, in `ledger`, once so many `rollbacks` were accepted in it and another owner took
    over so many times."""

    ledger: str
    body: Approved
    rollbacks: int
    owner_changes: int


def request_of(ledger: str, body: Approved, *, rollbacks: int = 0, owner_changes: int = 0) -> bytes:
    """What the owner signs: the entry's members in one text, without its place, its time and the approval, with 0 for
    the index of each scope in its path, and with the number of rollbacks that were accepted, and of changes of the
    owner, if there were any."""
    unapproved: Approved = replace(body, approval=None)
    if not isinstance(unapproved, OwnerRotated):
        unapproved = replace(unapproved, path=tuple(Step(level.scope, 0) for level in unapproved.path))
    entry = Entry(ledger=ledger, index=0, previous=FIRST_PREVIOUS, body=unapproved)
    members = {name: value for name, value in format_entry(entry).items() if name not in PLACE}
    counts = {"rollbacks": rollbacks, "owner_changes": owner_changes}
    return wire.dump({**members, **{name: count for name, count in counts.items() if count}})


def _request_in(state: State, body: Approved) -> bytes:
    return request_of(
        state.keys.name, body, rollbacks=state.rollbacks, owner_changes=max(0, len(state.keys.owners) - 1)
    )


def asked(request: bytes) -> ApprovalRequest:
    """What a request is about. ParameterError for anything else; ClaimTooSmall for a budget that does not follow from
    its filter, which no ledger would take."""
    expected = "a request for approval: what `ApprovalNeeded.request` holds"
    try:
        members = dict(wire.parse(request))
        rollbacks, owner_changes = members.pop("rollbacks", 0), members.pop("owner_changes", 0)
        entry = parse_entry({**members, "index": 0, "previous": FIRST_PREVIOUS, "time": "2000-01-01T00:00:00Z"})
    except (VerificationError, ParameterError) as error:
        raise ParameterError("request", f"something else ({error})", expected) from None
    body = entry.body
    if not isinstance(body, Approved) or not _is_count(rollbacks) or not _is_count(owner_changes):
        raise ParameterError("request", "something else", expected)
    if request_of(entry.ledger, body, rollbacks=rollbacks, owner_changes=owner_changes) != request:
        raise ParameterError("request", "another text of it", expected)
    if isinstance(body, ScopeOpened):
        for rule in (body.filter,) if body.instead is None else (body.filter, body.instead):
            rules.check(body.budget, filters.budget_guarantee(rule), body.relation)
    return ApprovalRequest(ledger=entry.ledger, body=body, rollbacks=rollbacks, owner_changes=owner_changes)


def _is_count(value: object) -> TypeGuard[int]:
    return type(value) is int and value >= 0  # True is an int as well


def approval_of(request: bytes, owner: Signer) -> str:
    """The owner's signature of a request, in base64."""
    return wire.to_base64(signature_of(envelope.pre_authentication(request, APPROVAL_TYPE), owner))


def check(state: State, body: Body) -> None:
    """VerificationError for an entry that lacks the owner's approval, or has one in a ledger without an owner."""
    if not isinstance(body, Approved):
        return
    owner = state.keys.owner
    if owner is None:
        if body.approval is not None:
            raise VerificationError("approved by an owner, where the ledger names none")
        return
    if body.approval is None:
        raise VerificationError("without the approval of the ledger's owner")
    message = envelope.pre_authentication(_request_in(state, body), APPROVAL_TYPE)
    recovery = state.keys.recovery
    keys = (owner, key_of(recovery)) if isinstance(body, OwnerRotated) and recovery is not None else (owner,)
    if not any(_is_signed(body.approval, message, key) for key in keys):
        raise VerificationError("the approval is not the owner's signature of this")


def _is_signed(approval: str, message: bytes, key: VerifyingKey) -> bool:
    try:
        key.verify(wire.from_base64(approval, "approval"), message)
    except (ParameterError, VerificationError):
        return False
    return True


def require(state: State, body: Approved) -> None:
    """ApprovalNeeded, with the request, for a body that the owner has yet to approve; ParameterError for an approval of
    something else. For the gate: `check` is the rule."""
    if state.keys.owner is not None and body.approval is None:
        raise ApprovalNeeded(_request_in(state, body), what=_what(body))
    try:
        check(state, body)
    except VerificationError as error:
        got = f"another line ({error.reason})"
        raise ParameterError("approval", got, "what `dpledger approve` printed for this request") from None


def _what(body: Approved) -> str:
    match body:
        case ScopeOpened(path=path):
            return f"opening scope {path[0].scope!r}"
        case Closed(path=()):
            return "ending the ledger"
        case Closed(path=path):
            return f"closing scope {path[0].scope!r}"
        case OwnerRotated():
            return "a new owner's key"
        case _:
            assert_never(body)
