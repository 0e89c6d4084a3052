"""Runs whose process died: another one goes on under the charge that stands, or settles it at the steps granted.

What a process was granted counts as run, whether it ran or not: whoever takes a run over goes on at the step after
those. It does so by compare-and-set on the redeem that it saw in force, in one durable transaction: of takers at once
one is first, and the process before, if it lives after all, is refused at its next grant, before it draws.

Source: docs/proofs/filters.md, "Runs that are resumed".
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TypeAlias

from dpledger.accounting.pricing import outcomes
from dpledger.errors import ParameterError, PolicyError, ScopeError, StepsLost, TakenOver
from dpledger.ledger.charging.charges import Receipt
from dpledger.ledger.entries.bodies import Body
from dpledger.ledger.handle.log import Handle
from dpledger.ledger.handle.writing import Writing
from dpledger.ledger.rules import course, requested, run_tokens
from dpledger.ledger.rules.capability import REDEEM_BYTES, Redeem
from dpledger.ledger.rules.requested import Earlier, Request
from dpledger.ledger.rules.run_tokens import RunToken
from dpledger.ledger.rules.scope_state import OpenCharge, State
from dpledger.ledger.rules.transitions import step
from dpledger.ledger.stores.protocol import Question

__all__ = ["Resume", "settled", "taken_over"]

Resume: TypeAlias = bool | RunToken
"""Whether a run goes on where another process left it: True, or the token of the model that goes on."""
_FIRST = "another process took over the run first, and has it now"


def taken_over(book: Handle, request: Request, redeem: Redeem, resume: Resume) -> OpenCharge | None:
    """The open run under the key of `request`, taken over by `redeem`: durable when this returns. None where no run is
    open under the key: the gate admits or refuses it.

    Raises, with nothing changed: KeyReused for another request; TakenOver where another taker was first; ScopeError for
    what is not granted its steps; ParameterError or StoreBehind for a token that is not of this run, or of a later
    state of it. Warns by StepsLost of granted steps that the model lacks: all of them, where there is no token."""
    saved = run_tokens.read(resume)
    seen = _open_under(book.refresh(), request.scope, request.key)
    if seen is None:
        if saved is not None:
            _require_used(book, request)
        return None
    state = book.state
    earlier = Earlier(charge=seen.charge, request=seen.request, status="open")
    requested.require_same(state, state.scopes[request.scope], request, earlier)
    if saved is not None:
        run_tokens.require_of(saved, run=seen.charge, generation=seen.generation, granted=seen.granted)

    def take(state: State, _: Writing) -> Sequence[Body]:
        found = state.open.get(seen.charge)
        if found is None or found.redeem != seen.redeem:
            raise TakenOver(_FIRST)
        return [course.take_over(state, found, redeem)]

    book.transact(take)
    taken = book.state.open.get(seen.charge)
    if taken is None or not redeem.opens(taken.redeem):
        raise TakenOver(_FIRST)
    behind = 0 if saved is None else saved["step"]
    if taken.granted > behind:
        _warn_of_lost(behind, taken, has_token=saved is not None)
    return taken


def settled(book: Handle, scope: str, key: str) -> Receipt[None]:
    """End the open run under `key` at the steps that were granted, whatever process was granted them; the receipt.

    ScopeError where no run is open under the key, or none that is granted its steps. PolicyError, with nothing
    changed, where all of the charge would stand though steps are left: the rest can still be run."""
    redeem = Redeem(book.draw(REDEEM_BYTES))

    def settle(state: State, _: Writing) -> Sequence[Body]:
        found = _open_under(state, scope, key)
        if found is None:
            raise ScopeError(f"no run is open under the key {key!r} in scope {scope!r}: nothing is left to settle")
        taken = course.take_over(state, found, redeem)
        after = step(state, taken)
        charge = after.charge(found.charge)
        counted = outcomes.steps(charge.parts)
        assert counted is not None, "a run that is granted its steps has them"
        is_known = charge.granted or not charge.attested
        ran = counted.recorded(charge.granted) if is_known else charge.parts
        body = course.settle(after, charge, ran, redeem=redeem)
        if body.rule == "cap" and charge.granted != charge.steps:
            raise PolicyError(_why_whole(charge))
        return [taken, body]

    return Receipt(None, book.transact(settle)[-1], has_value=False)


def _why_whole(charge: OpenCharge) -> str:
    rest = "Resume it (`resume=True`) to run the rest; leaving its block ends it at the full charge"
    if charge.tail_delta:
        why = "it is priced as a whole plan (tail_delta), and where a run stops may depend on what it showed"
    elif not charge.granted:
        why = "no step was granted, and nobody here saw whether one ran"
    else:
        why = "the filter of its scope sums no prices of single steps"
    return f"nothing of this run's charge comes back: {why}. {rest}"


def _open_under(state: State, scope: str, key: str) -> OpenCharge | None:
    """The open charge that uses `key` up in `scope`."""
    return next((one for one in state.open.values() if (one.scope, one.key) == (scope, key)), None)


def _require_used(book: Handle, request: Request) -> None:
    """ParameterError for a token where the key was never used: what it was saved beside is no run of this ledger."""

    def look(_: State, writing: Writing) -> Sequence[Body]:
        if writing.known.charge_of(request.scope, request.key) is None:
            expected = f"True: no run was ever begun under the key {request.key!r} in scope {request.scope!r}"
            raise ParameterError("resume", "the token of a run", expected)
        return []

    book.transact(look, Question(key=(request.scope, request.key)))


def _warn_of_lost(behind: int, charge: OpenCharge, *, has_token: bool) -> None:
    advice = "" if has_token else "; no token was given: if there is a checkpoint, stop and give its token"
    lost = charge.granted - behind
    warnings.warn(
        f"the model has run {behind} step{'s' * (behind != 1)} of the plan, but {charge.granted} of {charge.steps} are "
        f"granted and charged: {lost} {'is' if lost == 1 else 'are'} lost, because no step runs twice. "
        f"The run continues after step {charge.granted}{advice}",
        StepsLost,
        stacklevel=5,
    )
