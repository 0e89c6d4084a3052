"""The loss of one leaf on the batch that it is given: everyone, or a secret part of the units.

    Poisson(1)               everyone
    Poisson(rate)            each unit with this probability             add_remove; Gaussian noise under zero_out too
    Subset(population, batch)  a random set of this size                 replace_one
    Allocation(steps)        one step of several, chosen for each unit   add_remove; Gaussian noise under zero_out too
    Shuffle(users)           every user's own output, in random order    replace_one

What a leaf is, its kind says (`kinds`). What has no theorem is CannotCertify. docs/proofs/engine.md, section 7;
docs/proofs/amplification.md.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import assert_never

from dpledger.accounting.families.bounded_range.any_order import worst_in_any_order
from dpledger.accounting.families.bounded_range.loss import USUALLY_RARE, far_tilt, range_pair, worst_position
from dpledger.accounting.families.bounded_range.repeated import (
    Runs,
    attained_by_runs,
    in_blocks,
    worst_of_runs,
)
from dpledger.accounting.kinds import AnyLeaf, rules_of
from dpledger.accounting.laws.cells import Bracket
from dpledger.accounting.laws.draws import EVERYONE, Allocation, Draw, Poisson, Shuffle, Subset
from dpledger.accounting.laws.finite import FinitePair
from dpledger.accounting.laws.law import Direction, Loss
from dpledger.accounting.laws.ratios import averaged
from dpledger.accounting.laws.symmetric import mirrored
from dpledger.errors import CannotCertify
from dpledger.relations import Relation

__all__ = [
    "Drawn",
    "Losses",
    "everyones",
    "losses_of",
    "mirrors_itself",
    "ranges_above",
    "ranges_below",
    "tilts_of_ranges",
]

NEVER = Fraction(0)
_OTHERS_RARE = 1.0, 40.0  # -log of how rare losses are for which positions are chosen as well


@dataclass(frozen=True, slots=True)
class Drawn:
    """A leaf and who is in its batch: what `reading` finds in a tree."""

    leaf: AnyLeaf
    how: Draw = EVERYONE


@dataclass(frozen=True, slots=True)
class Losses:
    """`above` dominates what is released; `below`, where there is one, is what some mechanism of this description
    releases, or less. One object where the pair is exact. `failure`: at least the mass of `above` at infinity."""

    above: Loss
    below: Loss | None
    failure: Fraction


def mirrors_itself(drawn: Drawn) -> bool:
    """Whether the pair is the same in both directions, up to the order of its outcomes: that of a secret batch is
    not."""
    return drawn.how == EVERYONE and rules_of(drawn.leaf).mirrors(drawn.leaf) == "itself"


def losses_of(drawn: Drawn, relation: Relation, direction: Direction) -> Losses | None:
    """The losses of one leaf on a batch; None where it shows nothing at all.

    Claim: above dominates, below is dominated by the worst mechanism of this description. Source: module.
    """
    quick = isinstance(drawn.how, Poisson) and rules_of(drawn.leaf).quick
    return _losses_of(drawn, relation, direction) if quick else _kept_losses_of(drawn, relation, direction)


def _losses_of(drawn: Drawn, relation: Relation, direction: Direction) -> Losses | None:
    leaf, how = drawn.leaf, drawn.how
    _require_orientation(leaf, relation)
    if how == EVERYONE:
        return _everyone(leaf, relation, direction)
    _require_known(leaf, how, relation)
    match how:
        case Poisson(rate=rate):
            return _poisson(leaf, rate, relation, direction)
        case Subset(population=population, batch=batch):
            return _subset(leaf, Fraction(batch, population), relation, direction)
        case Allocation(steps=steps):
            allocated = _allocated(leaf, steps, relation)
            return None if allocated is None else _two_sided(allocated, direction)
        case Shuffle(users=users):
            return _shuffled(leaf, users, direction)
        case _:
            assert_never(how)


_kept_losses_of = functools.lru_cache(maxsize=1024)(_losses_of)


def _range_below(eta: Decimal, how: Draw, position: float, direction: Direction) -> Loss | None:
    """The loss of one mechanism of bounded range `eta`, with two losses, the larger one at `position` times eta; of a
    secret batch in the direction add, where what is rare without the unit tells most, P and Q are exchanged first. None
    where no such mechanism is known.

    Claim: some mechanism of this description releases this in every run, or more. Source: `bounded_range.range_pair`;
    docs/proofs/amplification.md, sections 3 and 4.
    """
    if how == EVERYONE:
        return range_pair(float(eta), position).loss()
    pair = range_pair(float(eta), position if direction == "remove" else 1 - position)
    match how:
        case Poisson(rate=rate):
            return _loss(pair.sampled(_below_one(rate)), direction)
        case Subset(population=population, batch=batch):
            return _loss(pair.sampled(batch / population), direction)
        case Allocation(steps=steps):
            return _loss(averaged(pair, steps, "below"), direction)
        case Shuffle():
            return None
        case _:
            assert_never(how)


def _range_of(drawn: Drawn) -> Decimal:
    range_of = rules_of(drawn.leaf).range
    assert range_of is not None, "asked only of bounded ranges"
    return range_of(drawn.leaf)


def ranges_above(
    ranges: Iterable[tuple[Drawn, int, Loss]], order: Runs | None, effort: int = 1
) -> tuple[tuple[tuple[Loss, int], ...], ...]:
    """Of bounded ranges with their envelopes, lists of losses: adaptive runs on everyone cost less than the envelopes
    as often; least, as a rule, where it is known in which `order` they run.

    Claim: each list dominates, also if what has fixed dominating pairs comes in between; of what is known by Renyi
    divergences alone that is not proved. Source: docs/proofs/bounded_ranges.md, Theorems 1, 2 and 4."""
    each = tuple(ranges)
    batches = tuple((envelope, count) for drawn, count, envelope in each if drawn.how != EVERYONE)
    known = worst_in_any_order(everyones((drawn, count) for drawn, count, _ in each), effort)
    if order is not None and len({eta for eta, _ in order}) > 1:
        known = (worst_of_runs(order), *known)
    return tuple((*batches, *losses) for losses in known)


def everyones(ranges: Iterable[tuple[Drawn, int]]) -> Runs:
    """Those that everyone is in, as numbers, of which 0 shows nothing."""
    runs = ((float(_range_of(drawn)), count) for drawn, count in ranges if drawn.how == EVERYONE)
    return in_blocks(run for run in runs if run[0])


def tilts_of_ranges(ranges: Iterable[tuple[Drawn, int]]) -> tuple[float, ...]:
    """The tilts at which the loss of all these runs is far out, at the middle of what is asked for, nearer, farther."""
    each: dict[float, int] = {}
    for drawn, count in ranges:
        eta = float(_range_of(drawn))
        steps = drawn.how.steps if isinstance(drawn.how, Allocation) else 1
        if eta:
            each[eta] = each.get(eta, 0) + count * steps
    return tuple(far_tilt(each.items(), rare) for rare in (USUALLY_RARE, *_OTHERS_RARE)) if each else ()


def ranges_below(
    ranges: Iterable[tuple[Drawn, int]], tilts: tuple[float, ...], tilt: float, direction: Direction, order: Runs | None
) -> tuple[tuple[Loss, int], ...]:
    """Two losses, eta apart, at the worst position for this tilt: run several times no single position is as bad as the
    envelope. Of those that everyone is in, where they run last and in this `order`, the last go by what came out before
    them.

    Claim: some conversation of this description shows as much. Source: docs/proofs/bounded_ranges.md, section 5."""
    found: list[tuple[Loss, int]] = list(attained_by_runs(order, tilts, tilt)) if order else []
    for drawn, count in ranges:
        eta = _range_of(drawn)
        if eta and not (order and drawn.how == EVERYONE):
            loss = _range_below(eta, drawn.how, worst_position(float(eta), tilt), direction)
            found.extend(() if loss is None else ((loss, count),))
    return tuple(found)


def _require_known(leaf: AnyLeaf, how: Draw, relation: Relation) -> None:
    """Refuse the pairs of a draw and a relation, or of a draw and a leaf, that no theorem covers."""
    match how:
        case Poisson() | Allocation():
            word = "poisson_sampled" if isinstance(how, Poisson) else "random_allocation"
            if relation is Relation.ZERO_OUT and not rules_of(leaf).null_is_absence:
                raise CannotCertify(f"{word} is certified for Gaussian noise only under zero_out, not for {leaf.kind}")
            if relation not in (Relation.ADD_REMOVE, Relation.ZERO_OUT):
                raise CannotCertify(f"{word} is certified under add_remove and zero_out, not {relation.value}")
        case Subset() | Shuffle():
            word = "sampled_without_replacement" if isinstance(how, Subset) else "shuffled"
            if relation is not Relation.REPLACE_ONE:
                raise CannotCertify(f"{word} is certified under replace_one only, not {relation.value}")
        case _:
            assert_never(how)


def _require_orientation(leaf: AnyLeaf, relation: Relation) -> None:
    """Where no side is the one with the unit, two releases may show the pair in opposite order, which neither
    direction covers: there the pair must be its own mirror image."""
    if relation in {Relation.ADD_REMOVE, Relation.ZERO_OUT}:
        return
    if rules_of(leaf).mirrors(leaf) == "not":
        raise CannotCertify(
            f"a {leaf.kind} under {relation.value} must be the same with left and right exchanged: neither is 'with "
            "the unit'"
        )


# ---- everyone -------------------------------------------------------------------------------------------------------


def _everyone(leaf: AnyLeaf, relation: Relation, direction: Direction) -> Losses | None:
    rules = rules_of(leaf)
    if rules.alone is not None:
        loss = rules.alone(leaf, relation, direction)
        return None if loss is None else Losses(loss, loss, rules.failure(leaf, direction))
    pairs = rules.bracket(leaf, relation)
    if pairs is None:
        return None
    side = "remove" if rules.mirrors(leaf) == "itself" else direction
    return _of_pairs(pairs, side, rules.failure(leaf, direction))


def _of_pairs(pairs: Bracket, direction: Direction, failure: Fraction) -> Losses:
    above = _loss(pairs.above, direction)
    return Losses(above, above if pairs.below is pairs.above else _loss(pairs.below, direction), failure)


def _loss(pair: FinitePair, direction: Direction) -> Loss:
    return (pair if direction == "remove" else pair.turned()).loss()


# ---- secret batches -------------------------------------------------------------------------------------------------


def _poisson(leaf: AnyLeaf, rate: Decimal, relation: Relation, direction: Direction) -> Losses | None:
    """Mass at infinity is that of the whole with the unit, and without it none: the sample without it is as likely.

    Source: Zhu-Dong-Wang 2022, Theorem 11."""
    rules = rules_of(leaf)
    if rules.sampled is not None:
        loss = rules.sampled(leaf, _below_one(rate), relation, direction)
        return None if loss is None else Losses(loss, loss, _thinned(rules.failure(leaf, direction), rate, direction))
    pairs = rules.bracket(leaf, relation)
    if pairs is None:
        return None
    q = _below_one(rate)
    above = pairs.above.sampled(q)
    if pairs.below is not pairs.above:
        return _two_sided(Bracket(above, pairs.below.sampled(q)), direction)
    return _of_pairs(Bracket(above, above), direction, _thinned(rules.failure(leaf, direction), rate, direction))


def _thinned(failure: Fraction, rate: Decimal, direction: Direction) -> Fraction:
    return failure * Fraction(rate) if failure and direction == "remove" else NEVER


def _below_one(rate: Decimal) -> float:
    rounded = float(rate)
    if rounded >= 1:
        raise CannotCertify("a sampling rate within 1e-16 of 1: state it as 1")
    return rounded


def _subset(leaf: AnyLeaf, rate: Fraction, relation: Relation, direction: Direction) -> Losses | None:
    """Above, the profile (m/n) delta((log(1 + (e^eps - 1) n/m)) in both directions; below, one direction of a sample
    that a mechanism attains. Source: Balle-Barthe-Gaboardi 2018, Theorem 9; docs/proofs/amplification.md, section 3."""
    pairs = rules_of(leaf).bracket(leaf, relation)
    if pairs is None:
        return None
    q = float(rate)
    if q >= 1:
        raise CannotCertify("a batch within 1e-16 of the population: state it as the whole population")
    above = _loss(mirrored(pairs.above.sampled(q)), "remove")
    below = _loss(pairs.below.sampled(q), direction)
    return Losses(above, below, _mass_of(above))


@functools.lru_cache(maxsize=64)
def _allocated(leaf: AnyLeaf, steps: int, relation: Relation) -> Bracket | None:
    """Source: docs/proofs/amplification.md, section 4."""
    pairs = rules_of(leaf).bracket(leaf, relation)
    if pairs is None:
        return None
    return Bracket(averaged(pairs.above, steps, "above"), averaged(pairs.below, steps, "below"))


def _two_sided(pairs: Bracket, direction: Direction) -> Losses:
    above, below = _loss(pairs.above, direction), _loss(pairs.below, direction)
    return Losses(above, below, _mass_of(above))


def _mass_of(loss: Loss) -> Fraction:
    """At least the mass at infinity."""
    return Fraction(loss.infinite_mass) * Fraction(1.000001)


def _shuffled(leaf: AnyLeaf, users: int, direction: Direction) -> Losses | None:
    """Source: docs/proofs/amplification.md, section 5."""
    pairs = rules_of(leaf).shuffled(leaf, users)
    if pairs is None:
        return None
    return Losses(_loss(pairs.above, "remove"), _loss(pairs.below, direction), NEVER)
