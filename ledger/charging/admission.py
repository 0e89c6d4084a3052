"""How a request enters a ledger: priced, then decided and reserved in one transaction, which excludes every other
writer and computes no price."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from dpledger.errors import ChargeInProgress
from dpledger.ledger.entries.bodies import Body, Reserved
from dpledger.ledger.entries.entry import Entry
from dpledger.ledger.handle.log import Handle
from dpledger.ledger.handle.writing import Writing
from dpledger.ledger.rules import gate, quotes, refusals
from dpledger.ledger.rules.gate import Admitted, Outdated, RefusedRequest, Replayed
from dpledger.ledger.rules.requested import Earlier, Request
from dpledger.ledger.rules.scope_state import State
from dpledger.ledger.stores.protocol import ChargeRow, Question

__all__ = ["Entered", "Then", "enter"]

POLL_SECONDS = 0.02  # between looks at an attempt that is under way

Then: TypeAlias = Callable[[State, Reserved], Sequence[Body]]
"""Given the state and what was reserved, what else to append in the same transaction."""


@dataclass(frozen=True, slots=True)
class Entered:
    """What was appended for a request that was admitted: its reservation, and what `then` added."""

    entries: tuple[Entry, ...]


def enter(
    book: Handle, request: Request, wait: float = 0.0, *, then: Then = lambda _state, _reserved: ()
) -> Entered | Replayed:
    """Decide and reserve, durable when this returns; wait for another attempt with the key. Raises as `gate.decide`
    does, and BudgetRefused, once the refusal is recorded."""
    deadline = time.monotonic() + wait
    while True:
        try:
            decision, entries = _decide(book, request, then)
        except ChargeInProgress:
            if time.monotonic() >= deadline:
                raise
            time.sleep(POLL_SECONDS)
            continue
        match decision:
            case RefusedRequest(error=error):
                raise refusals.with_a_way(error, quotes.another_way(book.state, request))
            case Admitted():
                return Entered(entries)
            case Replayed():
                return decision
            case Outdated():  # somebody else's request went through meanwhile
                continue
            case _:
                assert_never(decision)


def _decide(book: Handle, request: Request, then: Then) -> tuple[gate.Decision, tuple[Entry, ...]]:
    decisions: list[gate.Decision] = []
    prices = gate.priced(book.state, request)

    def decide(state: State, writing: Writing) -> Sequence[Body]:
        row = writing.known.charge_of(request.scope, request.key)
        decision = gate.decide(state, request, None if row is None else _earlier(row), prices)
        decisions.append(decision)
        match decision:
            case Admitted(body=body):
                return [body, *then(state, body)]
            case RefusedRequest(body=refused):
                is_known = not writing.is_told or (request.scope, refused.request) in writing.known.refusals
                return [] if is_known else [refused]
            case Replayed() | Outdated():
                return []
            case _:
                assert_never(decision)

    asked = Question(key=(request.scope, request.key), refusal=(request.scope, prices.digest))
    entries = book.transact(decide, asked, is_new=request.is_fresh)
    return decisions[-1], entries


def _earlier(row: ChargeRow) -> Earlier:
    return Earlier(charge=row.charge, request=row.request, status=row.status, ended=row.ended)
