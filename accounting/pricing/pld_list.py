"""One list of losses: what the engine composes for the leaves that one unit meets.

A leaf with a dominating pair becomes a loss (`pld`); a leaf that promises only Renyi divergences becomes a curve.
A list that holds a leaf whose pair is known from above and from below only is read twice.
docs/proofs/engine.md, section 7.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, TypeAlias

from dpledger.accounting.families.bounded_range.repeated import Runs
from dpledger.accounting.families.gaussian.loss import GaussianLoss
from dpledger.accounting.kinds import rules_of
from dpledger.accounting.laws.draws import EVERYONE, Allocation
from dpledger.accounting.laws.law import Direction, Loss
from dpledger.accounting.laws.renyi_curves import RenyiCurve
from dpledger.accounting.pricing.pld import Drawn, everyones, losses_of, ranges_above, ranges_below, tilts_of_ranges
from dpledger.relations import Relation

__all__ = ["Ingredients", "Leaves", "Ranges", "ingredients_of"]

Ranges: TypeAlias = Literal["any", "given", "envelope"]
"""How bounded ranges are read: run in any order, chosen by what came out too; in the order of the tree; or each by its
envelope, which has a closed form and costs more."""
Leaves: TypeAlias = dict[Drawn, int]


@dataclass(frozen=True, slots=True)
class Ingredients:
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
    also: tuple[Ingredients, ...] = ()


def _is_supremum(drawn: Drawn, runs: int) -> bool:
    """Whether the profile above is a supremum over mechanisms that no single one attains at any epsilon: that of a
    bounded range, unless it is run once, on everyone or on a sample."""
    return rules_of(drawn.leaf).range is not None and (runs > 1 or isinstance(drawn.how, Allocation))


def ingredients_of(
    leaves: Leaves, relation: Relation, direction: Direction, reading: Ranges, order: Runs | None, effort: int = 1
) -> tuple[Ingredients, ...]:
    """The list of a dominating pair for every leaf; and, where some are not exact, that of dominated ones. `order`: of
    the bounded ranges that everyone is in, where it is known; `effort`: that of those in any order."""
    above: list[tuple[Loss, int]] = []
    below: list[tuple[Loss, int]] = []
    ranges: list[tuple[Drawn, int, Loss]] = []
    curves: list[tuple[RenyiCurve, int]] = []
    top, bottom = 0, 1  # mu^2 of the Gaussians, as a ratio: a list of them is one
    failure, failure_below = Fraction(0), Fraction(0)
    approached = True
    for drawn, count in leaves.items():
        if drawn.how == EVERYONE:
            leaf, rules = drawn.leaf, rules_of(drawn.leaf)
            if rules.renyi is not None:
                curve = rules.renyi(leaf)
                if curve is not None:
                    curves.append((curve, count))
                    failure += count * rules.failure(leaf, direction)
                continue
            if rules.gaussian is not None:
                over, under = rules.gaussian(leaf, relation)
                top, bottom = top * under + count * over * bottom, bottom * under
                continue
        losses = losses_of(drawn, relation, direction)
        if losses is None:
            continue
        if losses.below is not losses.above:
            approached = False
        if _is_supremum(drawn, len(leaves) + count - 1):
            ranges.append((drawn, count, losses.above))
            losses = replace(losses, below=None)
        else:
            above.append((losses.above, count))
        if losses.failure:
            failure += count * losses.failure
        if losses.below is not None:
            below.append((losses.below, count))
            if losses.failure and losses.below is losses.above:
                failure_below += count * losses.failure
    ways: tuple[tuple[tuple[Loss, int], ...], ...] = (tuple((envelope, count) for _, count, envelope in ranges),)
    if ranges and reading != "envelope" and not curves:
        ways = ranges_above(ranges, order, effort)
    joint: list[tuple[Loss, int]] = [(GaussianLoss(top / bottom), 1)] if top else []
    if not ranges and above == below:
        return (Ingredients((*above, *joint), tuple(curves), failure),)
    lists: list[list[tuple[Loss, int]]] = []
    runs = [(drawn, count) for drawn, count, _ in ranges]
    is_alone = len(runs) == len(leaves) and all(drawn.how == EVERYONE for drawn, _ in runs)
    shown = tuple(sorted(everyones(runs)))  # last of all, and the widest of them last: hardly any order is worse
    if reading == "envelope" or (order is not None and not is_alone):
        shown = ()
    elif order is not None:
        shown = order
    tilts = tilts_of_ranges(runs)
    for tilt in tilts:
        each = [*below, *ranges_below(runs, tilts, tilt, direction, shown)]
        if each not in lists:
            lists.append(each)
    first, *others = (
        Ingredients(
            (*above, *way, *joint), tuple(curves), failure, attained=False, approached=approached and not curves
        )
        for way in ways
    )
    return (
        replace(first, also=tuple(others)),
        *(Ingredients((*each, *joint), (), failure_below, covers=False) for each in lists or [below]),
    )
