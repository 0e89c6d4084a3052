"""Claims against their parts, step 8 of the verification: an entry's charge must cover its parts, and its claim must
follow from them.
"""

from __future__ import annotations

from typing import assert_never

from dpledger.accounting import rules
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, BoundedRange, Guarantee, PrivacyCurve, PureDP
from dpledger.decimals import multiply, round_up
from dpledger.errors import VerificationError
from dpledger.ledger.entries.bodies import Reserved
from dpledger.ledger.rules import gate, settling
from dpledger.ledger.rules.standing import State

__all__ = ["check_reserved"]


def check_reserved(state: State, body: Reserved) -> None:
    """Raises unless the request is the digest of what is reserved, each level is charged what its filter asks for the
    parts, the claim follows from the parts, and its delta is the sum of its causes. `state`: after the entry."""
    scope = state.charge(body.charge).scope
    own = state.scope(scope)
    gate.require_room_for(own, body.tail_delta)
    for level in body.levels:
        settling.check_price(level.scope, state.scope(level.scope), body.parts, level.amounts, body.tail_delta)
    rules.check(_own_lower_bound(body.claim), body.parts, own.relation)
    gate.check_failures(body.claim, body.failures)
    if body.request != gate.request_digest(scope, body, body.tail_delta):
        raise VerificationError("request: not the digest of what is reserved")


def _own_lower_bound(claim: Guarantee) -> Guarantee:
    """The claim that a verifier holds the parts against: Renyi prices may differ in the last digit between machines."""
    match claim:
        case RDP(orders=orders, epsilons=epsilons):
            return RDP(orders, tuple(round_up(multiply(one, settling.WITH_LEEWAY)) for one in epsilons))
        case PureDP() | ApproxDP() | ZCDP() | GDP() | BoundedRange() | PrivacyCurve():
            return claim
        case _:
            assert_never(claim)
