"""Notes: entries that charge nothing. What may be noted, about which scopes, and what the numbers in it have to do with
each other, for whoever writes one and whoever verifies it.

A note is somebody's word; no rule makes it true. But it may not contradict itself or the ledger: an audit is about a
scope's own relation, its verdict follows from its numbers, and these are numbers that so many runs can show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Protocol, runtime_checkable

from dpledger.accounting.arithmetic import scalars
from dpledger.accounting.arithmetic.conversions import epsilon_of
from dpledger.errors import ParameterError, ScopeError, VerificationError
from dpledger.ledger.entries.bodies import Audited, Declared, Note
from dpledger.ledger.rules.standing import State, next_steps, those
from dpledger.ledger.stores.protocol import Reader
from dpledger.schema import words

__all__ = ["Noted", "check_audited", "note_of", "placed", "require_about", "require_open"]

COUNTED = "threshold"  # the method of audits that bound probabilities by counts of one event
SLACK = 1 + 1e-9  # relative: what a double may be off in the few operations of `_most_shown`


@runtime_checkable
class Noted(Protocol):
    """What says itself as a note: the result of an audit, a report."""

    def body(self) -> Note: ...


def note_of(what: Note | Noted) -> Note:
    """The note itself, or that of a result. ParameterError for what is neither, and for an audit whose verdict is not
    that of its numbers."""
    note: object = what
    if isinstance(what, Noted) and callable(what.body) and not isinstance(what, type):
        note = what.body()
    if not isinstance(note, Note):
        expected = "what an audit or `report` returned, or a note: Declared, Audited, Reported or Heartbeat"
        raise ParameterError("note", type(what).__name__, expected)
    if isinstance(note, Audited):
        _check_numbers(note)
    return note


def placed(note: Note, about: Sequence[str], state: State, store: Reader) -> Note:
    """`note` with its place in each scope that it is about. ScopeError if one of them is not open; ParameterError for
    an audit that is not about them: under another relation, or about a charge that is not in them."""
    if not isinstance(note, (Declared, Audited)):
        return note
    names = tuple(sorted({*words(about, field="about"), *(level.scope for level in note.path)}))
    require_open(state, names)
    if isinstance(note, Audited):
        try:
            _check_relation(state, note, names)
            if note.charge is not None:
                scopes = {row.charge: row.scope for row in store.charges()}
                require_about(state, note.charge, scopes.get(note.charge), names)
        except VerificationError as error:
            raise ParameterError("note", note.kind, error.reason) from None
    return replace(note, path=next_steps(state, names))


def require_open(state: State, names: Sequence[str]) -> None:
    """ScopeError unless something may be noted about these scopes."""
    for name in names:
        if name not in state.scopes:
            raise ScopeError(f"no scope {name!r} in this ledger, {those(state.scopes)}")
        if state.scopes[name].closed:
            raise ScopeError(f"scope {name!r} is not open in this ledger")


def check_audited(state: State, body: Audited) -> None:
    """Raises VerificationError or ParameterError unless an audit is about its scopes and its verdict is that of its
    numbers."""
    _check_relation(state, body, tuple(level.scope for level in body.path))
    _check_numbers(body)


def require_about(state: State, charge: str, scope: str | None, names: tuple[str, ...]) -> None:
    """Raises VerificationError unless `charge` was reserved (in `scope`), and is charged to every scope in `names`."""
    if scope is None:
        raise VerificationError(f"about a charge of this ledger: there is no charge {charge}")
    if not set(names) <= set(state.scope(scope).path):
        raise VerificationError(f"about scopes that the charge is charged to: {', '.join(state.scope(scope).path)}")


def _check_relation(state: State, body: Audited, names: tuple[str, ...]) -> None:
    for name in names:
        own = state.scope(name).relation
        if body.relation is not own:
            raise VerificationError(f"an audit under the relation of scope {name}: {own.value}")


def _check_numbers(body: Audited) -> None:
    """The verdict is `violation` exactly if the bound is above what the claim allows at its delta, or another point of
    the claim fell; and no bound is above what so many runs can show."""
    fallen = body.refuted
    points = [(body.delta, body.epsilon_lower)]
    if fallen is not None:
        if fallen.epsilon_lower <= fallen.epsilon:
            expected = f"a bound above the epsilon that fell, {fallen.epsilon}"
            raise ParameterError("refuted", str(fallen.epsilon_lower), expected)
        points.append((fallen.delta, fallen.epsilon_lower))
    for delta, bound in points:
        if delta >= 1:
            raise ParameterError("delta", str(delta), "a number in [0, 1)")
        if body.method == COUNTED and bound > _most_shown(body, delta):
            most = f"what {body.trials_left} and {body.trials_right} runs can show at confidence {body.confidence}"
            raise ParameterError("epsilon_lower", str(bound), f"at most {most}")
    contradicts = body.epsilon_lower > epsilon_of(body.claim, body.delta)
    if (body.verdict == "violation") != (contradicts or fallen is not None):
        says = "above" if contradicts else "not above"
        expected = f"the verdict of its numbers: the bound is {says} what the claim allows at delta {body.delta}"
        raise ParameterError("verdict", body.verdict, expected)


def _most_shown(body: Audited, delta: Decimal) -> Decimal:
    """What the bound is if an event happened in every run on one side and in none on the other.

    Claim: no bound ln((p - delta)/q) is larger whose p is at most 1, and whose q is an upper confidence limit from n
    runs, n at most the larger number of runs: at confidence c such a limit is at least 1 - (1 - c)^(1/n), its value
    for no hit. Source: Clopper-Pearson 1934; docs/proofs/audit.md 3."""
    runs = max(body.trials_left, body.trials_right)
    if not runs:
        return Decimal(0)
    doubt = scalars.log(float(1 - Fraction(body.confidence)))
    rarest = -scalars.expm1(doubt / runs)
    return Decimal.from_float(max(0.0, (scalars.log1p(-float(delta)) - scalars.log(rarest)) * SLACK))
