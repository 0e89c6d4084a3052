"""The loss of one leaf on the batch that it is given: everyone, or a secret part of the units.

    Poisson(1)               everyone
    Poisson(rate)            each unit with this probability             add_remove; Gaussian noise under zero_out too
    Subset(population, batch)  a random set of this size                 replace_one
    Allocation(steps)        one step of several, chosen for each unit   add_remove; Gaussian noise under zero_out too
    Shuffle(users)           every user's own output, in random order    replace_one

What has no theorem is CannotCertify. docs/proofs/engine.md, section 7; docs/proofs/amplification.md.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import assert_never

from dpledger.accounting.composition import (
    DiscreteGaussianLaw,
    DiscreteLaplaceLaw,
    ExponentialLaw,
    GaussianLaw,
    LaplaceLaw,
    PmfPair,
    RandomizedResponseLaw,
    SparseVectorLaw,
)
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, BoundedRange, PrivacyCurve, PureDP
from dpledger.accounting.laws.bounded_range import BoundedRangeLoss, range_pair
from dpledger.accounting.laws.cells import (
    Bracket,
    bounded_range_bracket,
    discrete_gaussian_bracket,
    gaussian_bracket,
    laplace_bracket,
)
from dpledger.accounting.laws.curve import curve_bracket
from dpledger.accounting.laws.discrete_gaussian import DiscreteGaussianLoss
from dpledger.accounting.laws.draws import (
    EVERYONE,
    Allocation,
    Draw,
    Drawn,
    JointGaussian,
    Leaf,
    Poisson,
    Shuffle,
    Subset,
    mu_squared_of,
    shift_of,
)
from dpledger.accounting.laws.envelope import mirrored
from dpledger.accounting.laws.finite import (
    FinitePair,
    approximate_pair,
    discrete_laplace_pair,
    listed_pair,
    randomised_response_pair,
    worst_case,
)
from dpledger.accounting.laws.gaussian import GaussianLoss
from dpledger.accounting.laws.laplace import LaplaceLoss
from dpledger.accounting.laws.law import Loss
from dpledger.accounting.laws.ratios import averaged
from dpledger.accounting.laws.sampled_laplace import SampledLaplaceLoss
from dpledger.accounting.laws.shuffled import shuffled_pairs
from dpledger.accounting.laws.subsampled import Direction, SampledGaussianLoss
from dpledger.accounting.sparse_vectors.losses import certify
from dpledger.decimals import ZERO
from dpledger.errors import CannotCertify
from dpledger.relations import Relation

__all__ = ["Losses", "losses_of", "range_below"]

MOST_ATOMS = 1 << 13
NEVER = Fraction(0)


@dataclass(frozen=True, slots=True)
class Losses:
    """`above` dominates what is released; `below`, where there is one, is what some mechanism of this description
    releases, or less. One object where the pair is exact. `failure`: at least the mass of `above` at infinity."""

    above: Loss
    below: Loss | None
    failure: Fraction


def losses_of(drawn: Drawn, relation: Relation, direction: Direction) -> Losses | None:
    """The losses of one leaf on a batch; None where it shows nothing at all.

    Claim: above dominates, below is dominated by the worst mechanism of this description. Source: module.
    """
    quick = isinstance(drawn.how, Poisson) and isinstance(drawn.leaf, _QUICK)
    return _losses_of(drawn, relation, direction) if quick else _kept_losses_of(drawn, relation, direction)


_QUICK = (GaussianLaw, GDP, JointGaussian, LaplaceLaw, PureDP, ApproxDP)
"""Leaves whose losses are formed faster than looked up."""


def _losses_of(drawn: Drawn, relation: Relation, direction: Direction) -> Losses | None:
    leaf, how = drawn.leaf, drawn.how
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


def range_below(eta: Decimal, how: Draw, position: float, direction: Direction) -> Loss | None:
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


def _require_known(leaf: Leaf, how: Draw, relation: Relation) -> None:
    """Refuse the pairs of a draw and a relation, or of a draw and a leaf, that no theorem covers."""
    match how:
        case Poisson() | Allocation():
            word = "poisson_sampled" if isinstance(how, Poisson) else "random_allocation"
            if relation is Relation.ZERO_OUT and not isinstance(leaf, GaussianLaw | JointGaussian):
                raise CannotCertify(f"{word} is certified for Gaussian noise only under zero_out, not for {leaf.kind}")
            if relation not in (Relation.ADD_REMOVE, Relation.ZERO_OUT):
                raise CannotCertify(f"{word} is certified under add_remove and zero_out, not {relation.value}")
        case Subset() | Shuffle():
            word = "sampled_without_replacement" if isinstance(how, Subset) else "shuffled"
            if relation is not Relation.REPLACE_ONE:
                raise CannotCertify(f"{word} is certified under replace_one only, not {relation.value}")
        case _:
            assert_never(how)
    if isinstance(leaf, ZCDP | RDP):
        raise CannotCertify(f"{leaf.kind} on a secret batch has no certified bound: state what noise it adds")


# ---- everyone -------------------------------------------------------------------------------------------------------


def _everyone(leaf: Leaf, relation: Relation, direction: Direction) -> Losses | None:
    match leaf:
        case GaussianLaw() | GDP() | JointGaussian():
            mu_squared = mu_squared_of(leaf, relation)
            return _exact(GaussianLoss(float(mu_squared))) if mu_squared else None
        case LaplaceLaw(epsilon=epsilon):
            return _exact(LaplaceLoss(float(epsilon))) if epsilon else None
        case BoundedRange(eta=eta) | ExponentialLaw(epsilon=eta):
            return _exact(BoundedRangeLoss(float(eta))) if eta else None
        case DiscreteGaussianLaw(sigma=sigma, sensitivity=sensitivity):
            return _exact(DiscreteGaussianLoss(float(sigma), _whole(sensitivity)))
        case PrivacyCurve():
            return _two_sided(_curve(leaf), direction, Fraction(min(leaf.deltas)))
        case PureDP(epsilon=epsilon):
            return _exact(worst_case(float(epsilon), 0.0)) if epsilon else None
        case ApproxDP(epsilon=epsilon, delta=delta):
            pair = _approximate(epsilon, delta)
            return None if pair is None else _exact(worst_case(float(epsilon), float(delta)), Fraction(delta))
        case ZCDP() | RDP():
            raise CannotCertify(f"{leaf.kind} has no dominating pair")
        case _:
            pair = _finite_pair(leaf, relation)
            if pair is None:
                return None
            return _exact(_loss(pair, _side(leaf, direction)), _failure(leaf, direction))


def _exact(loss: Loss, failure: Fraction = NEVER) -> Losses:
    return Losses(loss, loss, failure)


def _whole(sensitivity: Decimal) -> int:
    """The shift of one whole number. A vector of them has no pair here: its l2 norm need not be whole."""
    if sensitivity != int(sensitivity):
        raise CannotCertify("the pair of discrete_gaussian is that of one whole number: state a vector as zcdp")
    return int(sensitivity)


def _side(leaf: Leaf, direction: Direction) -> Direction:
    """Only a listed pair has two directions: of the others either is the other's mirror image."""
    return direction if isinstance(leaf, PmfPair) else "remove"


def _loss(pair: FinitePair, direction: Direction) -> Loss:
    return (pair if direction == "remove" else pair.turned()).loss()


def _failure(leaf: Leaf, direction: Direction) -> Fraction:
    """The mass at infinity, or a promised bound of it, exactly."""
    match leaf:
        case ApproxDP(delta=delta) | SparseVectorLaw(delta=delta):
            return Fraction(delta)
        case PmfPair(left=left, right=right):
            here, there = (left, right) if direction == "remove" else (right, left)
            failure = sum((Fraction(p) for p, q in zip(here, there, strict=True) if not q), Fraction(0))
            if float(failure) >= 1 > failure:
                raise CannotCertify(
                    "a pmf whose loss is infinite with a probability within 1e-16 of 1 promises nothing"
                )
            return failure
        case _:
            return NEVER


# ---- pairs ----------------------------------------------------------------------------------------------------------


def _finite_pair(leaf: Leaf, relation: Relation) -> FinitePair | None:
    """The pair of a leaf with finitely many outcomes; None where it shows nothing."""
    match leaf:
        case PureDP(epsilon=epsilon):
            return _approximate(epsilon, ZERO)
        case ApproxDP(epsilon=epsilon, delta=delta):
            return _approximate(epsilon, delta)
        case SparseVectorLaw(epsilon=epsilon, delta=delta):
            certify(leaf)
            return _approximate(epsilon, delta)
        case RandomizedResponseLaw(epsilon=epsilon, k=k):
            return randomised_response_pair(float(epsilon), k) if epsilon else None
        case DiscreteLaplaceLaw(scale=scale, sensitivity=sensitivity):
            if sensitivity >= MOST_ATOMS:
                raise CannotCertify(f"discrete_laplace with a sensitivity of {MOST_ATOMS} or more: state it as pure_dp")
            return discrete_laplace_pair(float(scale), int(sensitivity)) if int(sensitivity) else None
        case PmfPair(left=left, right=right):
            _require_orientation(leaf, relation)
            return listed_pair(left, right) if left != right else None
        case _:
            raise CannotCertify(f"{leaf.kind} has no finite dominating pair")


def _approximate(epsilon: Decimal, delta: Decimal) -> FinitePair | None:
    if not epsilon and not delta:
        return None
    if float(delta) == 1.0:
        raise CannotCertify("a guarantee with a delta within 1e-16 of 1 promises nothing")
    return approximate_pair(float(epsilon), float(delta))


def _require_orientation(pair: PmfPair, relation: Relation) -> None:
    """Where no side is the one with the unit, two releases may show the pair in opposite order, which neither
    direction covers: there the pair must be its own mirror image."""
    if relation in {Relation.ADD_REMOVE, Relation.ZERO_OUT}:
        return
    outcomes = sorted(zip(pair.left, pair.right, strict=True))
    if outcomes != sorted(zip(pair.right, pair.left, strict=True)):
        raise CannotCertify(
            f"a pmf under {relation.value} must be the same with left and right exchanged: neither is 'with the unit'"
        )


def _bracket(leaf: Leaf, relation: Relation) -> Bracket | None:
    """Finite pairs above and below that of any leaf with a dominating pair; None where it shows nothing."""
    match leaf:
        case GaussianLaw() | GDP() | JointGaussian():
            mu_squared = mu_squared_of(leaf, relation)
            return gaussian_bracket(float(mu_squared)) if mu_squared else None
        case LaplaceLaw(epsilon=epsilon):
            return laplace_bracket(float(epsilon)) if epsilon else None
        case BoundedRange(eta=eta) | ExponentialLaw(epsilon=eta):
            return bounded_range_bracket(float(eta)) if eta else None
        case DiscreteGaussianLaw(sigma=sigma, sensitivity=sensitivity):
            return discrete_gaussian_bracket(float(sigma), _whole(sensitivity))
        case PrivacyCurve():
            return _curve(leaf)
        case _:
            pair = _finite_pair(leaf, relation)
            return None if pair is None else Bracket(pair, pair)


@functools.lru_cache(maxsize=64)
def _allocated(leaf: Leaf, steps: int, relation: Relation) -> Bracket | None:
    """Source: docs/proofs/amplification.md, section 4."""
    bracket = _bracket(leaf, relation)
    if bracket is None:
        return None
    return Bracket(averaged(bracket.above, steps, "above"), averaged(bracket.below, steps, "below"))


def _two_sided(pairs: Bracket, direction: Direction, failure: Fraction | None = None) -> Losses:
    upper, lower = _loss(pairs.above, direction), _loss(pairs.below, direction)
    return Losses(upper, lower, Fraction(upper.infinite_mass) * Fraction(1.000001) if failure is None else failure)


@functools.lru_cache(maxsize=64)
def _curve(leaf: PrivacyCurve) -> Bracket:
    return curve_bracket(leaf.epsilons, leaf.deltas, leaf.reached)


# ---- secret batches -------------------------------------------------------------------------------------------------


def _poisson(leaf: Leaf, rate: Decimal, relation: Relation, direction: Direction) -> Losses | None:
    """Source: Zhu-Dong-Wang 2022, Theorem 11."""
    match leaf:
        case GaussianLaw(noise_multiplier=sigma):
            return _exact(SampledGaussianLoss(_below_one(rate), float(sigma) / shift_of(relation), direction))
        case GDP() | JointGaussian():
            mu_squared = mu_squared_of(leaf, relation)
            if not mu_squared:
                return None
            joint = (mu_squared.denominator / mu_squared.numerator) ** 0.5
            return _exact(SampledGaussianLoss(_below_one(rate), joint, direction))
        case LaplaceLaw(epsilon=epsilon):
            return _exact(SampledLaplaceLoss(_below_one(rate), float(epsilon), direction)) if epsilon else None
        case BoundedRange() | ExponentialLaw() | DiscreteGaussianLaw() | PrivacyCurve():
            bracket = _bracket(leaf, relation)
            if bracket is None:
                return None
            q = _below_one(rate)
            return _two_sided(Bracket(bracket.above.sampled(q), bracket.below.sampled(q)), direction)
        case _:
            pair = _finite_pair(leaf, relation)
            if pair is None:
                return None
            loss = _loss(pair.sampled(_below_one(rate)), direction)
            return _exact(loss, _failure(leaf, direction) * Fraction(rate) if direction == "remove" else NEVER)


def _below_one(rate: Decimal) -> float:
    rounded = float(rate)
    if rounded >= 1:
        raise CannotCertify("a sampling rate within 1e-16 of 1: state it as 1")
    return rounded


def _subset(leaf: Leaf, rate: Fraction, relation: Relation, direction: Direction) -> Losses | None:
    """Above, the profile (m/n) delta((log(1 + (e^eps - 1) n/m)) in both directions; below, one direction of a sample
    that a mechanism attains. Source: Balle-Barthe-Gaboardi 2018, Theorem 9; docs/proofs/amplification.md, section 3."""
    bracket = _bracket(leaf, relation)
    if bracket is None:
        return None
    q = float(rate)
    if q >= 1:
        raise CannotCertify("a batch within 1e-16 of the population: state it as the whole population")
    above = _loss(mirrored(bracket.above.sampled(q)), "remove")
    below = _loss(bracket.below.sampled(q), direction)
    return Losses(above, below, Fraction(above.infinite_mass) * Fraction(1.000001))


def _shuffled(leaf: Leaf, users: int, direction: Direction) -> Losses | None:
    """Source: docs/proofs/amplification.md, section 5."""
    pairs = shuffled_pairs(leaf, users)
    if pairs is None:
        return None
    return Losses(_loss(pairs.above, "remove"), _loss(pairs.below, direction), NEVER)
