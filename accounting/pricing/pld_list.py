"""One list of losses: what the engine composes for the leaves that one unit meets.

A leaf with a dominating pair becomes a loss (`pld`); a leaf that promises only Renyi divergences becomes a curve.
A list that holds a leaf whose pair is known from above and from below only is read twice.
docs/proofs/engine.md, section 7.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from dpledger.accounting.families.leaf_rules import RangeEnvelope, Squares
from dpledger.accounting.kinds import rules_of
from dpledger.accounting.laws.draws import EVERYONE, Allocation, Ranged, Runs, everyones
from dpledger.accounting.laws.law import Direction, Loss
from dpledger.accounting.laws.renyi_curves import RenyiCurve
from dpledger.accounting.pricing.pld import Drawn, losses_of, ranged
from dpledger.relations import Relation

__all__ = ["MOST_EFFORT", "Leaves", "PldList", "Ranges", "pld_lists_of"]

MOST_EFFORT = 64  # of bounded ranges in any order

Ranges: TypeAlias = Literal["any", "given", "envelope"]
"""How bounded ranges are read: run in any order, chosen by what came out too; in the order of the tree; or each by its
envelope, which has a closed form and costs more."""
Leaves: TypeAlias = dict[Drawn, int]


@dataclass(frozen=True, slots=True)
class PldList:
    """One list: `losses` with counts, and `curves`, leaves with Renyi divergences only, with counts.

    `failure`: the sum of all their deltas, exact: at least the mass at infinity. `attained`: whether some mechanism of
    this description is as bad, so that a lower bound of this list's profile is one of the tree's; `approached`: whether
    some have losses nearly as large as this list's, which is all that a delta of 0 asks; `covers`: whether none is
    worse, so that the tree's upper bound must not be below the least of this list's and of those `also` known to
    cover it."""

    losses: tuple[tuple[Loss, int], ...]
    curves: tuple[tuple[RenyiCurve, int], ...]
    failure: Fraction
    attained: bool = True
    approached: bool = False
    covers: bool = True
    also: tuple[PldList, ...] = ()


def _is_supremum(drawn: Drawn, runs: int) -> bool:
    """Whether the profile above is a supremum over mechanisms that no single one attains at any epsilon: that of a
    bounded range, unless it is run once, on everyone or on a sample."""
    return rules_of(drawn.leaf).pair.envelope is not None and (runs > 1 or isinstance(drawn.how, Allocation))


def pld_lists_of(
    leaves: Leaves, relation: Relation, direction: Direction, reading: Ranges, order: Runs | None, effort: int = 1
) -> tuple[PldList, ...]:
    """The list of a dominating pair for every leaf; and, where some are not exact, that of dominated ones. `order`: of
    the bounded ranges that everyone is in, where it is known; `effort`: that of those in any order."""
    above: list[tuple[Loss, int]] = []
    below: list[tuple[Loss, int]] = []
    ranges: list[tuple[Ranged, Loss]] = []
    curves: list[tuple[RenyiCurve, int]] = []
    squares: Squares[Any] | None = None
    top, bottom = 0, 1  # mu^2 of the Gaussians, as a ratio: a list of them is one
    failure, failure_below = Fraction(0), Fraction(0)
    approached = True
    envelope: RangeEnvelope[Any] | None = None
    for drawn, count in leaves.items():
        if drawn.how == EVERYONE:
            leaf, pair = drawn.leaf, rules_of(drawn.leaf).pair
            if pair.renyi is not None:
                curve = pair.renyi(leaf)
                if curve is not None:
                    curves.append((curve, count))
                    failure += count * pair.failure(leaf, direction)
                continue
            if pair.squares is not None:
                squares, (over, under) = pair.squares, pair.squares.ratio(leaf, relation)
                top, bottom = top * under + count * over * bottom, bottom * under
                continue
        losses = losses_of(drawn, relation, direction)
        if losses is None:
            continue
        if losses.below is not losses.above:
            approached = False
        if _is_supremum(drawn, len(leaves) + count - 1):
            envelope = rules_of(drawn.leaf).pair.envelope
            ranges.append((ranged(drawn, count), losses.above))
            losses = replace(losses, below=None)
        else:
            above.append((losses.above, count))
        if losses.failure:
            failure += count * losses.failure
        if losses.below is not None:
            below.append((losses.below, count))
            if losses.failure and losses.below is losses.above:
                failure_below += count * losses.failure
    ways: tuple[tuple[tuple[Loss, int], ...], ...] = (tuple((loss, each.times) for each, loss in ranges),)
    if envelope is not None and reading != "envelope" and not curves:
        ways = envelope.above(ranges, order, effort)
    joint: list[tuple[Loss, int]] = [(squares.loss(top / bottom), 1)] if squares and top else []
    if envelope is None and above == below:
        return (PldList((*above, *joint), tuple(curves), failure),)
    lists: list[list[tuple[Loss, int]]] = []
    runs = [each for each, _ in ranges]
    is_alone = len(runs) == len(leaves) and all(each.how == EVERYONE for each in runs)
    shown = tuple(sorted(everyones(runs)))  # last of all, and the widest of them last: hardly any order is worse
    if reading == "envelope" or (order is not None and not is_alone):
        shown = ()
    elif order is not None:
        shown = order
    tilts = () if envelope is None else envelope.tilts(runs)
    for tilt in tilts:
        assert envelope is not None
        found = [*below, *envelope.below(runs, tilts, tilt, direction, shown)]
        if found not in lists:
            lists.append(found)
    first, *others = (
        PldList((*above, *way, *joint), tuple(curves), failure, attained=False, approached=approached and not curves)
        for way in ways
    )
    return (
        replace(first, also=tuple(others)),
        *(PldList((*each, *joint), (), failure_below, covers=False) for each in lists or [below]),
    )
