"""The loss of one leaf on the batch that it is given: everyone, or a secret part of the units.

    Poisson(1)               everyone
    Poisson(rate)            each unit with this probability             add_remove; Gaussian noise under zero_out too;
                             of units that are exchanged `lowering` makes another leaf
    Subset(population, batch)  a random set of this size                 replace_one
    Allocation(steps)        one step of several, chosen for each unit   add_remove; Gaussian noise under zero_out too
    Shuffle(users)           every user's own output, in random order    replace_one

What a leaf is, its kind says (`kinds`). What has no theorem is CannotCertify. docs/proofs/engine.md, section 7;
docs/proofs/amplification.md.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import assert_never

from dpledger.accounting.arithmetic.floating import UNIT
from dpledger.accounting.families.leaf_rules import LossBracket
from dpledger.accounting.kinds import AnyLeaf, rules_of
from dpledger.accounting.laws.cells import PairBracket
from dpledger.accounting.laws.draws import EVERYONE, Allocation, Draw, Poisson, Ranged, Shuffle, Subset, below_one
from dpledger.accounting.laws.finite import mirrored
from dpledger.accounting.laws.law import Direction, Loss
from dpledger.accounting.laws.ratios import averaged
from dpledger.errors import CannotCertify
from dpledger.relations import Relation

__all__ = [
    "Drawn",
    "Losses",
    "losses_of",
    "mirrors_itself",
    "ranged",
]

NEVER = Fraction(0)


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
    return drawn.how == EVERYONE and rules_of(drawn.leaf).pair.mirrors(drawn.leaf) == "itself"


def losses_of(drawn: Drawn, relation: Relation, direction: Direction) -> Losses | None:
    """The losses of one leaf on a batch; None where it shows nothing at all.

    Claim: above dominates, below is dominated by the worst mechanism of this description. Source: module.
    """
    quick = isinstance(drawn.how, Poisson) and rules_of(drawn.leaf).batch.quick
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
        case Allocation(steps=steps, shown=shown):
            if shown is not None:
                return _one_block(leaf, steps, shown, relation, direction)
            allocated = _allocated(leaf, steps, relation)
            return None if allocated is None else _two_sided(allocated, direction)
        case Shuffle(users=users):
            return _shuffled(leaf, users, direction)
        case _:
            assert_never(how)


_kept_losses_of = functools.lru_cache(maxsize=1024)(_losses_of)


def ranged(drawn: Drawn, count: int) -> Ranged:
    """A leaf that is one of several bounded ranges, as a number."""
    envelope = rules_of(drawn.leaf).pair.envelope
    assert envelope is not None, "asked only of bounded ranges"
    return Ranged(envelope.eta(drawn.leaf), drawn.how, count)


def _require_known(leaf: AnyLeaf, how: Draw, relation: Relation) -> None:
    """Refuse the pairs of a draw and a relation, or of a draw and a leaf, that no theorem covers."""
    match how:
        case Poisson() | Allocation():
            word = "poisson_sampled" if isinstance(how, Poisson) else "random_allocation"
            if relation is Relation.ZERO_OUT and not rules_of(leaf).batch.null_is_absence:
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
    if rules_of(leaf).pair.mirrors(leaf) == "not":
        raise CannotCertify(
            f"a {leaf.kind} under {relation.value} must be the same with left and right exchanged: neither is 'with "
            "the unit'"
        )


# ---- everyone -------------------------------------------------------------------------------------------------------


def _everyone(leaf: AnyLeaf, relation: Relation, direction: Direction) -> Losses | None:
    rules = rules_of(leaf)
    if rules.pair.alone is not None:
        loss = rules.pair.alone(leaf, relation, direction)
        if loss is None:
            return None
        failure = rules.pair.failure(leaf, direction)
        if isinstance(loss, LossBracket):
            return Losses(loss.above, loss.below, max(failure, _mass_of(loss.above)))
        return Losses(loss, loss, failure)
    pairs = rules.pair.bracket(leaf, relation)
    if pairs is None:
        return None
    side = "remove" if rules.pair.mirrors(leaf) == "itself" else direction
    return _of_pairs(pairs, side, rules.pair.failure(leaf, direction))


def _of_pairs(pairs: PairBracket, direction: Direction, failure: Fraction) -> Losses:
    above = pairs.above.loss_in(direction)
    return Losses(above, above if pairs.below is pairs.above else pairs.below.loss_in(direction), failure)


# ---- secret batches -------------------------------------------------------------------------------------------------


def _poisson(leaf: AnyLeaf, rate: Decimal, relation: Relation, direction: Direction) -> Losses | None:
    """Mass at infinity is that of the whole with the unit, and without it none: the sample without it is as likely.

    Source: Zhu-Dong-Wang 2022, Theorem 11."""
    rules = rules_of(leaf)
    if rules.batch.sampled is not None:
        loss = rules.batch.sampled(leaf, below_one(rate), relation, direction)
        return (
            None if loss is None else Losses(loss, loss, _thinned(rules.pair.failure(leaf, direction), rate, direction))
        )
    pairs = rules.pair.bracket(leaf, relation)
    if pairs is None:
        return None
    q = below_one(rate)
    above = pairs.above.sampled(q)
    if pairs.below is not pairs.above:
        return _two_sided(PairBracket(above, pairs.below.sampled(q)), direction)
    return _of_pairs(
        PairBracket(above, above), direction, _thinned(rules.pair.failure(leaf, direction), rate, direction)
    )


def _thinned(failure: Fraction, rate: Decimal, direction: Direction) -> Fraction:
    return failure * Fraction(rate) if failure and direction == "remove" else NEVER


def _subset(leaf: AnyLeaf, rate: Fraction, relation: Relation, direction: Direction) -> Losses | None:
    """Above, the profile (m/n) delta((log(1 + (e^eps - 1) n/m)) in both directions; below, one direction of a sample
    that a mechanism attains. Source: Balle-Barthe-Gaboardi 2018, Theorem 9; docs/proofs/amplification.md, section 3."""
    pairs = rules_of(leaf).pair.bracket(leaf, relation)
    if pairs is None:
        return None
    q = float(rate)
    if q >= 1:
        raise CannotCertify("a batch within 1e-16 of the population: state it as the whole population")
    above = mirrored(pairs.above.sampled(q)).loss_in("remove")
    below = pairs.below.sampled(q).loss_in(direction)
    return Losses(above, below, _mass_of(above))


@functools.lru_cache(maxsize=64)
def _allocated(leaf: AnyLeaf, steps: int, relation: Relation) -> PairBracket | None:
    """Source: docs/proofs/amplification.md, section 4."""
    pairs = rules_of(leaf).pair.bracket(leaf, relation)
    if pairs is None:
        return None
    return PairBracket(averaged(pairs.above, steps, "above"), averaged(pairs.below, steps, "below"))


def _one_block(leaf: AnyLeaf, steps: int, shown: Fraction, relation: Relation, direction: Direction) -> Losses | None:
    """One of the blocks that a unit in several steps is allocated to; below, what one step alone shows, or nothing."""
    pairs, allocated = rules_of(leaf).pair.bracket(leaf, relation), _allocated(leaf, steps, relation)
    if pairs is None or allocated is None:
        return None
    above = allocated.above.loss_in(direction)
    below = pairs.below.sampled(float(shown) * (1 - 4 * UNIT)).loss_in(direction) if shown else None
    return Losses(above, below, _mass_of(above))


def _two_sided(pairs: PairBracket, direction: Direction) -> Losses:
    above, below = pairs.above.loss_in(direction), pairs.below.loss_in(direction)
    return Losses(above, below, _mass_of(above))


def _mass_of(loss: Loss) -> Fraction:
    """At least the mass at infinity."""
    return Fraction(loss.infinite_mass) * Fraction(1.000001)


def _shuffled(leaf: AnyLeaf, users: int, direction: Direction) -> Losses | None:
    """Source: docs/proofs/amplification.md, section 5."""
    pairs = rules_of(leaf).batch.shuffled(leaf, users)
    if pairs is None:
        return None
    return Losses(pairs.above.loss_in("remove"), pairs.below.loss_in(direction), NEVER)
