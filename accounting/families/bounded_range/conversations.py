"""Runs of bounded ranges: what dominates them, and what some conversation of them shows.

docs/proofs/bounded_ranges.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import assert_never

from dpledger.accounting.families.bounded_range.any_order import worst_in_any_order
from dpledger.accounting.families.bounded_range.loss import USUALLY_RARE, far_tilt, range_pair, worst_position
from dpledger.accounting.families.bounded_range.repeated import attained_by_runs, worst_of_runs
from dpledger.accounting.families.leaf_rules import CountedLosses
from dpledger.accounting.laws.draws import (
    EVERYONE,
    Allocation,
    Draw,
    Poisson,
    Ranged,
    Runs,
    Shuffle,
    Subset,
    below_one,
    everyones,
)
from dpledger.accounting.laws.law import Direction, Loss
from dpledger.accounting.laws.ratios import averaged

__all__ = ["dominating_ranges", "shown_ranges", "tilts_of_ranges"]

_OTHERS_RARE = 1.0, 40.0  # -log of how rare losses are for which positions are chosen as well


def dominating_ranges(
    ranges: Sequence[tuple[Ranged, Loss]], order: Runs | None, effort: int
) -> tuple[CountedLosses, ...]:
    """Of bounded ranges with their envelopes, lists of losses: adaptive runs on everyone cost less than the envelopes
    as often; least, as a rule, where it is known in which `order` they run.

    Claim: each list dominates, also if what has fixed dominating pairs comes in between; of what is known by Renyi
    divergences alone that is not proved. Source: docs/proofs/bounded_ranges.md, Theorems 1, 2 and 4."""
    batches = tuple((envelope, each.times) for each, envelope in ranges if each.how != EVERYONE)
    known = worst_in_any_order(everyones(each for each, _ in ranges), effort)
    if order is not None and len({eta for eta, _ in order}) > 1:
        known = (worst_of_runs(order), *known)
    return tuple((*batches, *losses) for losses in known)


def tilts_of_ranges(ranges: Sequence[Ranged]) -> tuple[float, ...]:
    """The tilts at which the loss of all these runs is far out, at the middle of what is asked for, nearer, farther."""
    each: dict[float, int] = {}
    for exact, how, count in ranges:
        eta = float(exact)
        steps = how.steps if isinstance(how, Allocation) else 1
        if eta:
            each[eta] = each.get(eta, 0) + count * steps
    return tuple(far_tilt(each.items(), rare) for rare in (USUALLY_RARE, *_OTHERS_RARE)) if each else ()


def shown_ranges(
    ranges: Sequence[Ranged], tilts: tuple[float, ...], tilt: float, direction: Direction, order: Runs | None
) -> CountedLosses:
    """Two losses, eta apart, at the worst position for this tilt: run several times no single position is as bad as the
    envelope. Of those that everyone is in, where they run last and in this `order`, the last go by what came out before
    them.

    Claim: some conversation of this description shows as much. Source: docs/proofs/bounded_ranges.md, section 5."""
    found: list[tuple[Loss, int]] = list(attained_by_runs(order, tilts, tilt)) if order else []
    for eta, how, count in ranges:
        if eta and not (order and how == EVERYONE):
            loss = _shown(eta, how, worst_position(float(eta), tilt), direction)
            found.extend(() if loss is None else ((loss, count),))
    return tuple(found)


def _shown(eta: Decimal, how: Draw, position: float, direction: Direction) -> Loss | None:
    """The loss of one mechanism of bounded range `eta`, with two losses, the larger one at `position` times eta; of a
    secret batch in the direction add, where what is rare without the unit tells most, P and Q are exchanged first. None
    where no such mechanism is known.

    Claim: some mechanism of this description releases this in every run, or more. Source: `loss.range_pair`;
    docs/proofs/amplification.md, sections 3 and 4.
    """
    if how == EVERYONE:
        return range_pair(float(eta), position).loss()
    pair = range_pair(float(eta), position if direction == "remove" else 1 - position)
    match how:
        case Poisson(rate=rate):
            return pair.sampled(below_one(rate)).loss_in(direction)
        case Subset(population=population, batch=batch):
            return pair.sampled(batch / population).loss_in(direction)
        case Allocation(steps=steps):
            return averaged(pair, steps, "below").loss_in(direction)
        case Shuffle():
            return None
        case _:
            assert_never(how)
