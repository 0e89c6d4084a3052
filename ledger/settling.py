"""What a charge costs once it is over: the refund rules, by level (spec below), in one place for gate and verifier.

    `cap`      nothing comes back: the outcome changes no price, or the run left its guarantee
    `ex_post`  a coordinate falls from the cap to the realised loss, where the filter's theorem allows it
    `steps`    a plan priced by sum: steps that were never granted come back

A coordinate never rises, a delta never falls, and a charge stays in the currency it was reserved in
(docs/proofs/filters.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

from dpledger.accounting import filters, rules
from dpledger.accounting.composition import Composition, Repeated, planned
from dpledger.accounting.filters import Filter
from dpledger.ledger.bodies import LevelCharge
from dpledger.relations import Relation

__all__ = ["Rule", "recorded", "settled"]

Rule = Literal["cap", "ex_post", "steps"]


class Level(Protocol):
    """What settling reads of a scope."""

    @property
    def filter(self) -> Filter: ...
    @property
    def relation(self) -> Relation: ...


def recorded(parts: Composition, granted: int) -> Composition:
    """The parts as the ledger records them: a granted step counts as run, whatever the mechanism says it started."""
    match parts:
        case Repeated(of=of, times=times, done=done) if done is not None:
            return Repeated(of, times=times, done=min(times, max(done, granted)))
        case _:
            return parts


def settled(
    reserved: tuple[LevelCharge, ...],
    parts: Composition,
    granted: int,
    outside_guarantee: bool,
    levels: Mapping[str, Level],
) -> tuple[Rule, tuple[LevelCharge, ...]]:
    """The rule that settles a charge, and what each level is charged in the end.

    Claim: each coordinate is at most the one reserved, and at least what the filter's theorem needs for the outcome."""
    if outside_guarantee or planned(parts) == parts:
        return "cap", reserved
    final = []
    for charge in reserved:
        level = levels[charge.scope]
        outcome = rules.cost(recorded(parts, granted), level.relation, orders=filters.orders(level.filter))
        final.append(LevelCharge(charge.scope, filters.settle(level.filter, charge.amounts, outcome)))
    if tuple(final) == reserved:
        return "cap", reserved
    return ("steps" if isinstance(parts, Repeated) else "ex_post"), tuple(final)
