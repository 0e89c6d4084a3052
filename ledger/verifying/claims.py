"""Claims against their parts, step 9 of the verification: an entry's charge must cover its parts, and its claim must
follow from them.
"""

from __future__ import annotations

from dpledger.accounting import rules
from dpledger.errors import VerificationError
from dpledger.ledger.entries.bodies import Reserved
from dpledger.ledger.rules import requested, settling
from dpledger.ledger.rules.scope_state import State

__all__ = ["check_request", "check_reserved"]


_MOST = 512
_DIGESTS: dict[tuple[object, ...], tuple[Reserved, str]] = {}
"""Of requests that were seen, the digest: entries share the objects that they were read as. A body that is kept keeps
its own, so that no other object is ever taken for one of them; where it is full it begins anew."""


def check_request(state: State, body: Reserved) -> None:
    """Raises unless the request is the digest of what is reserved. `state`: after the entry."""
    scope, tail_delta = state.charge(body.charge).scope, body.tail_delta
    asked = tuple(map(id, (body.mechanism, body.claim, body.parts, body.attested)))
    place = scope, body.form, tail_delta, *asked
    found = _DIGESTS.get(place)
    if found is None:
        found = body, requested.request_digest(scope, body, tail_delta)
        if len(_DIGESTS) >= _MOST:
            _DIGESTS.clear()
        _DIGESTS[place] = found
    if body.request != found[1]:
        raise VerificationError("request: not the digest of what is reserved")


def check_reserved(state: State, body: Reserved) -> None:
    """Raises unless each level is charged what its filter asks for the parts, the claim follows from the parts, and its
    delta is the sum of its causes. `state`: after the entry."""
    scope = state.charge(body.charge).scope
    own = state.scope(scope)
    requested.require_room_for(own, body.tail_delta)
    for level in body.levels:
        settling.check_price(level.scope, state.scope(level.scope), body.parts, level.amounts, body.tail_delta)
    rules.check(body.claim, body.parts, own.relation)
    requested.check_failures(body.claim, body.failures)
