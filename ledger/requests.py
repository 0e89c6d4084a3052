"""What a mechanism asks of a scope, checked before anything is spent."""

from __future__ import annotations

from decimal import Decimal
from typing import TypeVar

from dpledger.accounting import rules
from dpledger.decimals import Number, read
from dpledger.errors import ParameterError
from dpledger.ledger.entries.members import LIBRARY, MechanismNote
from dpledger.ledger.handle import Draw
from dpledger.ledger.rules.gate import Request
from dpledger.ledger.rules.standing import Form, ScopeState
from dpledger.ledger.signed import wire
from dpledger.mechanisms.protocol import Described, Interactive, Steps

__all__ = ["AnyMechanism", "asked", "below_one", "kind_of", "steps", "unfit"]

AnyMechanism = TypeVar("AnyMechanism", bound=Described)

_DESCRIBED = ("kind", "relation", "unit", "under", "claim", "parts", "failures", "parameters")
TOKEN_BYTES = 16  # 128 random bits: a charge, a key that was not given


def asked(
    scope: ScopeState, mechanism: AnyMechanism, key: str | None, tail_delta: Number | None, draw: Draw
) -> tuple[AnyMechanism, Request]:
    """The mechanism as it will run in `scope`, checked against its own claim, and what is asked. Nothing is spent."""
    ready = mechanism.under(scope.relation, scope.unit)
    claim, parts = ready.claim(), ready.parts()
    rules.check(claim, parts, scope.relation)
    request = Request(
        scope=scope.scope,
        key=draw(TOKEN_BYTES).hex() if key is None else wire.check_id(key, "key"),
        charge=draw(TOKEN_BYTES).hex(),
        mechanism=MechanismNote(ready.kind, ready.parameters(), LIBRARY),
        relation=scope.relation,
        unit=scope.unit,
        claim=claim,
        parts=parts,
        failures=ready.failures(),
        form=_form(ready),
        steps=steps(ready),
        tail_delta=None if tail_delta is None else below_one(tail_delta),
    )
    return ready, request


def below_one(tail_delta: Number) -> Decimal:
    """The delta of a price from a profile."""
    number = read(tail_delta, field="tail_delta")
    if not number < 1:
        raise ParameterError("tail_delta", tail_delta, "a number in [0, 1)")
    return number


def kind_of(value: object) -> str:
    """What somebody gave in place of a mechanism, by its type alone."""
    return f"the class {value.__name__}, not one of it" if isinstance(value, type) else type(value).__name__


def unfit(value: object, runs: str, otherwise: str) -> ParameterError:
    """For what is no mechanism that `runs`: what it lacks of one, or else what would do."""
    lacks = [name for name in _DESCRIBED if not hasattr(value, name)]
    if isinstance(value, type) or not lacks or not hasattr(value, runs):
        return ParameterError("mechanism", kind_of(value), otherwise)
    return ParameterError("mechanism", kind_of(value), f"a mechanism, which has {', '.join(lacks)} as well")


def steps(mechanism: Described) -> int | None:
    """How many steps are to be granted; None of what is not run step by step."""
    return mechanism.steps_to_grant() if isinstance(mechanism, Steps) else None


def _form(mechanism: Described) -> Form:
    if steps(mechanism) is not None:
        return "training"
    return "interaction" if isinstance(mechanism, Interactive) else "release"
