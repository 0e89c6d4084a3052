"""From a composition tree to losses: what the engine composes for a tree, a relation and a direction.

A tree says one list of leaves, or several where units are dealt to parallel parts: then the profile is the largest of
the lists'. A leaf with a dominating pair becomes a loss; a leaf that promises only Renyi divergences (`zcdp`, `rdp`)
becomes a curve. What has no theorem here is CannotCertify, never a guess. docs/proofs/engine.md, section 7.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import assert_never

from dpledger.accounting.composition import (
    Composition,
    DiscreteGaussianLaw,
    DiscreteLaplaceLaw,
    Filtered,
    GaussianLaw,
    LaplaceLaw,
    Parallel,
    PoissonSampled,
    PostProcessed,
    Repeated,
    Sequence,
    SparseVectorLaw,
)
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, BoundedRange, PureDP
from dpledger.accounting.laws.bounded_range import BoundedRangeLoss
from dpledger.accounting.laws.discrete_gaussian import DiscreteGaussianLoss
from dpledger.accounting.laws.finite import FinitePair, approximate_pair, discrete_laplace_pair
from dpledger.accounting.laws.gaussian import GaussianLoss
from dpledger.accounting.laws.laplace import LaplaceLoss
from dpledger.accounting.laws.law import Loss
from dpledger.accounting.laws.sampled_laplace import SampledLaplaceLoss
from dpledger.accounting.laws.subsampled import Direction, SampledGaussianLoss
from dpledger.accounting.sparse_vectors.losses import certify
from dpledger.decimals import multiply
from dpledger.errors import CannotCertify
from dpledger.relations import Relation

__all__ = ["Ingredients", "read_losses"]

MOST_LISTS = 64
MOST_ATOMS = 1 << 13


@dataclass(frozen=True, slots=True)
class JointGaussian:
    """Several Gaussians on one batch: mu^2 of all together."""

    mu_squared: Fraction
    kind: str = "gaussian"


Leaf = (
    JointGaussian
    | PureDP
    | ApproxDP
    | ZCDP
    | GDP
    | RDP
    | BoundedRange
    | LaplaceLaw
    | GaussianLaw
    | DiscreteLaplaceLaw
    | DiscreteGaussianLaw
    | SparseVectorLaw
    | Filtered
)


@dataclass(frozen=True, slots=True)
class Sampled:
    """A leaf, run on a secret batch that holds each unit with probability `rate`; 1: on all units."""

    leaf: Leaf
    rate: Decimal


@dataclass(frozen=True, slots=True)
class Ingredients:
    """One list: `losses` with counts, and `curves`, leaves with Renyi divergences only, with counts.

    `failure`: the sum of all their deltas, exact: at least the mass at infinity."""

    losses: tuple[tuple[Loss, int], ...]
    curves: tuple[tuple[ZCDP | RDP, int], ...]
    failure: Fraction


def read_losses(tree: Composition, relation: Relation, direction: Direction) -> tuple[Ingredients, ...]:
    """The lists of losses that `tree` composes to; the largest of their profiles is the tree's.

    Raises CannotCertify where the tree holds something that has no dominating pair and no Renyi curve under `relation`.
    """
    lists = _lists(tree, relation)
    return tuple(_ingredients(leaves, relation, direction) for leaves in lists)


Leaves = dict[Sampled, int]


def _lists(tree: Composition, relation: Relation) -> list[Leaves]:
    """Every list of leaves that one unit may meet."""
    match tree:
        case Repeated(of=of, times=times):
            return _powers(_lists(of, relation), times)
        case Sequence(of=parts):
            return _products([_lists(part, relation) for part in _grouped(parts)])
        case PostProcessed(of=of):
            return _lists(of, relation)
        case PoissonSampled(of=of, rate=rate):
            if relation not in {Relation.ADD_REMOVE, Relation.ZERO_OUT}:
                raise CannotCertify(f"poisson_sampled is certified under add_remove and zero_out, not {relation.value}")
            return _distinct(_one_batch(leaves, rate, relation) for leaves in _lists(of, relation))
        case Parallel(of=parts):
            if relation is not Relation.ADD_REMOVE:
                raise CannotCertify(f"parallel is certified under add_remove only, not under {relation.value}")
            return _distinct(leaves for part in parts for leaves in _lists(part, relation))
        case _:
            return [{Sampled(tree, Decimal(1)): 1}]


def _grouped(parts: tuple[Composition, ...]) -> tuple[Composition, ...]:
    """Equal parts of a sequence as one `repeated`: a long list of the same is read once."""
    counts: dict[Composition, int] = {}
    for part in parts:
        counts[part] = counts.get(part, 0) + 1
    return tuple(part if n == 1 else Repeated(part, times=n) for part, n in counts.items())


def _one_batch(leaves: Leaves, rate: Decimal, relation: Relation) -> Leaves:
    """What one secret batch shows. Several Gaussians on it are one Gaussian; no other mixture has a theorem here.

    Under zero_out a batch with a null unit is a batch without the unit only where a null unit adds nothing, as to the
    mean of a Gaussian: another mechanism may reveal whether the batch holds the unit at all."""
    if rate == 1:
        return leaves
    for sampled in leaves:
        if relation is Relation.ZERO_OUT and not isinstance(sampled.leaf, GaussianLaw | JointGaussian):
            raise CannotCertify(f"a Poisson sample of {sampled.leaf.kind} is certified under add_remove only")
    if list(leaves.values()) == [1]:
        (sampled,) = leaves
        return {Sampled(sampled.leaf, multiply(sampled.rate, rate)): 1}
    squares = Fraction(0)
    for sampled, count in leaves.items():
        if sampled.rate != 1 or not isinstance(sampled.leaf, GaussianLaw | GDP | JointGaussian):
            raise CannotCertify("one secret batch read several times is certified for Gaussian noise only")
        squares += count * _mu_squared(sampled.leaf, relation)
    return {Sampled(JointGaussian(squares), rate): 1}


def _products(factors: list[list[Leaves]]) -> list[Leaves]:
    single = [factor[0] for factor in factors if len(factor) == 1]
    lists: list[Leaves] = [_merged(*single)]
    for factor in (factor for factor in factors if len(factor) > 1):
        lists = _distinct(_merged(left, right) for left in lists for right in factor)
    return lists


def _powers(lists: list[Leaves], times: int) -> list[Leaves]:
    """The lists of `times` runs, where each run deals the unit to a list anew."""
    if len(lists) == 1:
        return [{sampled: count * times for sampled, count in lists[0].items()}]
    if times > MOST_LISTS:
        raise CannotCertify(f"parallel parts that differ, repeated {times} times, are more than {MOST_LISTS} cases")
    runs = itertools.combinations_with_replacement(lists, times)
    return _distinct(_merged(*run) for run in runs)


def _merged(*lists: Leaves) -> Leaves:
    merged: Leaves = {}
    for leaves in lists:
        for sampled, count in leaves.items():
            merged[sampled] = merged.get(sampled, 0) + count
    return merged


def _distinct(lists: Iterator[Leaves]) -> list[Leaves]:
    distinct: list[Leaves] = []
    for leaves in lists:
        if leaves not in distinct:
            distinct.append(leaves)
        if len(distinct) > MOST_LISTS:
            raise CannotCertify(f"the parallel parts combine to more than {MOST_LISTS} cases")
    return distinct


# ---- leaves ---------------------------------------------------------------------------------------------------------


def _ingredients(leaves: Leaves, relation: Relation, direction: Direction) -> Ingredients:
    losses: list[tuple[Loss, int]] = []
    curves: list[tuple[ZCDP | RDP, int]] = []
    squares = Fraction(0)  # of the Gaussians: a list of them is one
    failure = Fraction(0)
    for sampled, count in leaves.items():
        leaf, rate = sampled.leaf, sampled.rate
        failure += count * Fraction(_failure_of(leaf)) * Fraction(rate)
        if isinstance(leaf, ZCDP | RDP):
            if rate != 1:
                raise CannotCertify(f"{leaf.kind} on a secret batch has no certified bound: state what noise it adds")
            curves.append((leaf, count))
        elif isinstance(leaf, GaussianLaw | GDP | JointGaussian) and rate == 1:
            squares += count * _mu_squared(leaf, relation)
        else:
            loss = _loss(leaf, relation, rate, direction)
            if loss is not None:
                losses.append((loss, count))
    if squares:
        losses.append((GaussianLoss(float(squares)), 1))
    return Ingredients(tuple(losses), tuple(curves), failure)


def _failure_of(leaf: Leaf) -> Decimal:
    match leaf:
        case ApproxDP(delta=delta) | SparseVectorLaw(delta=delta) | ZCDP(delta=delta):
            return delta
        case _:
            return Decimal(0)


def _mu_squared(leaf: GaussianLaw | GDP | JointGaussian, relation: Relation) -> Fraction:
    if isinstance(leaf, JointGaussian):
        return leaf.mu_squared
    if isinstance(leaf, GDP):
        return Fraction(leaf.mu) ** 2
    doubled = relation in {Relation.REPLACE_ONE, Relation.LABEL_FLIP}
    return (2 if doubled else 1) ** 2 / Fraction(leaf.noise_multiplier) ** 2


def _loss(leaf: Leaf, relation: Relation, rate: Decimal, direction: Direction) -> Loss | None:
    """The loss of one leaf on a batch; None where it shows nothing at all."""
    match leaf:
        case GaussianLaw() | GDP() | JointGaussian():
            return _gaussian(_mu_squared(leaf, relation), rate, direction)
        case LaplaceLaw(epsilon=epsilon):
            if not epsilon:
                return None
            if rate != 1:
                return SampledLaplaceLoss(_below_one(rate), float(epsilon), direction)
            return LaplaceLoss(float(epsilon))
        case BoundedRange(eta=eta):
            if rate != 1 and eta:
                raise CannotCertify("bounded_range on a secret batch has no certified bound: state it as pure_dp")
            return BoundedRangeLoss(float(eta)) if eta else None
        case DiscreteGaussianLaw(sigma=sigma, sensitivity=sensitivity):
            if rate != 1:
                raise CannotCertify("discrete_gaussian on a secret batch has no certified bound")
            shift = int(sensitivity)
            if shift != sensitivity:
                raise CannotCertify("the pair of discrete_gaussian is that of one whole number: state a vector as zcdp")
            return DiscreteGaussianLoss(float(sigma), shift) if shift else None
        case DiscreteLaplaceLaw(scale=scale, sensitivity=sensitivity):
            if sensitivity >= MOST_ATOMS:
                raise CannotCertify(f"discrete_laplace with a sensitivity of {MOST_ATOMS} or more: state it as pure_dp")
            shift = int(sensitivity)
            return _finite(discrete_laplace_pair(float(scale), shift), rate, direction) if shift else None
        case PureDP(epsilon=epsilon):
            return _approximate(epsilon, Decimal(0), rate, direction)
        case ApproxDP(epsilon=epsilon, delta=delta):
            return _approximate(epsilon, delta, rate, direction)
        case SparseVectorLaw(epsilon=epsilon, delta=delta):
            certify(leaf)
            return _approximate(epsilon, delta, rate, direction)
        case Filtered():
            raise CannotCertify(
                "the engine does not replay a filter: the guarantee of a filtered node is its filter's budget, once "
                "rules.cost has shown that each part was admitted"
            )
        case ZCDP() | RDP():
            raise CannotCertify(f"{leaf.kind} has no dominating pair")
        case _:
            assert_never(leaf)


def _gaussian(mu_squared: Fraction, rate: Decimal, direction: Direction) -> Loss | None:
    if not mu_squared:
        return None
    if rate == 1:
        return GaussianLoss(float(mu_squared))
    sigma = float(1 / mu_squared) ** 0.5
    return SampledGaussianLoss(_below_one(rate), sigma, direction)


def _approximate(epsilon: Decimal, delta: Decimal, rate: Decimal, direction: Direction) -> Loss | None:
    if not epsilon and not delta:
        return None
    if float(delta) == 1.0:
        raise CannotCertify("a guarantee with a delta within 1e-16 of 1 promises nothing")
    return _finite(approximate_pair(float(epsilon), float(delta)), rate, direction)


def _finite(pair: FinitePair, rate: Decimal, direction: Direction) -> Loss:
    """The loss of a symmetric pair on a batch: sampled by everyone, the two directions are the same."""
    return _pair_loss(pair, 1.0, "remove") if rate == 1 else _pair_loss(pair, _below_one(rate), direction)


@functools.lru_cache(maxsize=256)
def _pair_loss(pair: FinitePair, rate: float, direction: Direction) -> Loss:
    """One object for one law, so that equal lists are seen to be equal."""
    if rate == 1:
        return pair.loss()
    sampled = pair.sampled(rate)
    return (sampled if direction == "remove" else sampled.turned()).loss()


def _below_one(rate: Decimal) -> float:
    rounded = float(rate)
    if rounded >= 1:
        raise CannotCertify("a sampling rate within 1e-16 of 1: state it as 1")
    return rounded
