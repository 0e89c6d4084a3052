"""Mixtures of Gaussians: the law `mixture_of_gaussians`, and what a group sees of Poisson samples, as one.

Of k rows that come or go together each is in a batch with probability q: their sum has a norm of at most j with the
weights of Bin(k, q). docs/proofs/mixtures.md.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias, TypeVar

import numpy as np

from dpledger.accounting.arithmetic import scalars
from dpledger.accounting.arithmetic.prices import Cost, rdp_alone
from dpledger.accounting.families.gaussian.leaf import MOST_SHIFTS, MixtureOfGaussiansLaw
from dpledger.accounting.families.gaussian.mixture_curve import Mixture
from dpledger.accounting.families.gaussian.mixture_loss import MixtureLoss
from dpledger.accounting.families.gaussian.opposed import opposed_bracket
from dpledger.accounting.families.gaussian.opposed_price import opposed_divergences
from dpledger.accounting.families.gaussian.price import gaussian_cost
from dpledger.accounting.families.leaf_rules import (
    NO_ALLOWANCE,
    NO_FIELDS,
    NO_OUTCOME,
    BatchFacts,
    Divergences,
    GroupFacts,
    LeafRules,
    LossBracket,
    Mirror,
    Orders,
    PairFacts,
    PriceFacts,
    exact_pair,
    floats_up,
    may_overlap,
    mirrors_itself,
    never_fails,
    no_group,
    no_theorem,
    states_no_orders,
    written,
)
from dpledger.accounting.laws.cells import PairBracket
from dpledger.accounting.laws.draws import Draw, Poisson
from dpledger.accounting.laws.law import Direction, Loss
from dpledger.decimals import round_up
from dpledger.errors import CannotCertify
from dpledger.relations import Relation

__all__ = [
    "JOINT_MIXTURE",
    "MIXTURE_OF_GAUSSIANS",
    "OPPOSED_MIXTURE",
    "JointMixture",
    "OpposedMixture",
    "exchanged_in_samples",
    "in_samples",
    "opposed_pairs",
    "opposed_prices",
]

LEAST_REST = Fraction(1, 10**290)
_SAMPLES = "a mixture_of_gaussians on a secret batch is certified for Poisson samples only"
_EXCHANGED = (
    "a secret batch of a group of units that are exchanged has no certified bound: state the rate of both draws"
)


@dataclass(frozen=True, slots=True)
class JointMixture:
    """A mixture, exactly: mu^2 of the largest sensitivity; `shifts`, sensitivities as shares of it, which rise to 1;
    `weights` of them, the rest of 1 at 0. Found in trees, never written in one."""

    mu_squared: Fraction
    shifts: tuple[Fraction, ...]
    weights: tuple[Fraction, ...]
    kind: str = "mixture_of_gaussians"


@dataclass(frozen=True, slots=True)
class OpposedMixture:
    """What units that are exchanged see: a mixture one way against the same the other way. Found in trees."""

    side: JointMixture
    kind: str = "mixture_of_gaussians"


AnyMixture: TypeAlias = MixtureOfGaussiansLaw | JointMixture
L = TypeVar("L")


def exchanged_in_samples(mu_squared: Fraction, rate: Fraction, k: int) -> OpposedMixture:
    """What k units that are exchanged together see of a Poisson sample of this rate, with noise of mu^2 for one
    contribution.

    Claim: dominates, and is attained. Source: docs/proofs/mixtures.md, section 7. Raises as `in_samples`."""
    return OpposedMixture(in_samples(mu_squared, rate, k))


@functools.lru_cache(maxsize=64)
def in_samples(mu_squared: Fraction, rate: Fraction, k: int) -> JointMixture:
    """What k units that come or go together see of a Poisson sample of this rate, with noise of mu^2 for one.

    Claim: dominates, and is attained. Source: docs/proofs/mixtures.md, section 2. Raises CannotCertify for too many."""
    if k > MOST_SHIFTS:
        raise CannotCertify(f"a group in a Poisson sample is certified up to {MOST_SHIFTS} units, not for {k}")
    every = range(1, k + 1)
    weights = tuple(math.comb(k, j) * rate**j * (1 - rate) ** (k - j) for j in every)
    return JointMixture(mu_squared * k * k, tuple(Fraction(j, k) for j in every), weights)


def _exactly(leaf: AnyMixture) -> JointMixture:
    if isinstance(leaf, JointMixture):
        return leaf
    largest = Fraction(leaf.sensitivities[-1])
    shifts = tuple(Fraction(sensitivity) / largest for sensitivity in leaf.sensitivities)
    return JointMixture((largest / Fraction(leaf.sigma)) ** 2, shifts, tuple(map(Fraction, leaf.weights)))


# ---- its pair -------------------------------------------------------------------------------------------------------


def _log_of(weight: Fraction) -> float:
    """log, of a fraction that may be below the floats."""
    bits = weight.numerator.bit_length() - weight.denominator.bit_length()
    scaled = weight / Fraction(2) ** bits
    return scalars.log(float(scaled)) + bits * scalars.LN2


def _in_floats(mixture: JointMixture) -> Mixture:
    rest = 1 - sum(mixture.weights, Fraction(0))
    if 0 < rest < LEAST_REST:
        raise CannotCertify("a mixture that moves something but for a probability below 1e-290: state it as 0")
    return Mixture(
        math.sqrt(mixture.mu_squared.denominator / mixture.mu_squared.numerator),
        tuple(map(float, mixture.shifts)),
        tuple(map(float, mixture.weights)),
        tuple(map(_log_of, mixture.weights)),
        float(rest),
    )


def _alone(leaf: AnyMixture, _relation: Relation, direction: Direction) -> Loss:
    return MixtureLoss(_in_floats(_exactly(leaf)), direction)


def _thinned(mixture: JointMixture, rate: Fraction) -> JointMixture:
    """On a Poisson sample of the units."""
    return JointMixture(mixture.mu_squared, mixture.shifts, tuple(rate * weight for weight in mixture.weights))


def _sampled(leaf: AnyMixture, rate: float, _relation: Relation, direction: Direction) -> Loss:
    return MixtureLoss(_in_floats(_thinned(_exactly(leaf), Fraction(rate))), direction)


def _mirrors(leaf: AnyMixture) -> Mirror:
    """Noise around one sensitivity, always, is as likely up as down."""
    exact = _exactly(leaf)
    return "itself" if exact.weights == (Fraction(1),) else "not"


# ---- units that are exchanged ----------------------------------------------------------------------------------------


def opposed_pairs(mixture: OpposedMixture) -> PairBracket:
    """Finite pairs above and below it, each good for both directions.

    Claim: above dominates the pair, below is dominated. Source: docs/proofs/mixtures.md, section 7."""
    return opposed_bracket(_in_floats(mixture.side))


def _opposed(leaf: OpposedMixture, _relation: Relation, _direction: Direction) -> LossBracket:
    pairs = opposed_pairs(leaf)
    return LossBracket(pairs.above.loss_in("remove"), pairs.below.loss_in("remove"))


def opposed_prices(mixture: OpposedMixture, orders: Orders) -> Divergences:
    """Its Renyi divergences."""
    if not orders:
        return ()
    return tuple(map(written, opposed_divergences(_in_floats(mixture.side), floats_up(orders)).tolist()))


# ---- what it costs --------------------------------------------------------------------------------------------------


def _divergences(mixture: JointMixture, orders: Orders) -> Divergences:
    """The larger of both directions."""
    if not orders:
        return ()
    parts = _in_floats(mixture)
    both = [MixtureLoss(parts, direction).rdp_upper(floats_up(orders)) for direction in ("add", "remove")]
    return tuple(map(written, np.maximum(*both).tolist()))


def _cost(leaf: AnyMixture, _relation: Relation, orders: Orders) -> Cost:
    """The Renyi divergences of the mixture; all else at the price of its largest shift, which costs no less (each
    currency is quasi-convex). Source: docs/proofs/mixtures.md, section 4."""
    exact = _exactly(leaf)
    largest = gaussian_cost(round_up(exact.mu_squared, digits=40), orders)
    found = dict(zip(orders, _divergences(exact, orders), strict=True))
    return largest.or_better(rdp_alone(found))


def _on_batch(leaf: AnyMixture, how: Draw, _relation: Relation, orders: Orders) -> Divergences:
    if not isinstance(how, Poisson):
        return (None,) * len(orders)
    return _divergences(_thinned(_exactly(leaf), Fraction(how.rate)), orders)


def _opposed_cost(leaf: OpposedMixture, _relation: Relation, orders: Orders) -> Cost:
    """Its Renyi divergences; all else at the price of the largest shift and its opposite, which costs no less."""
    largest = gaussian_cost(round_up(4 * leaf.side.mu_squared, digits=40), orders)
    found = dict(zip(orders, opposed_prices(leaf, orders), strict=True))
    return largest.or_better(rdp_alone(found))


def _rules(
    kind: type[L],
    *,
    cap: Callable[[L, Relation, Orders], Cost],
    noise_fields: frozenset[str],
    pair: PairFacts[L],
    batch: BatchFacts[L],
) -> LeafRules[L]:
    return LeafRules(
        kind=kind,
        attested=False,
        price=PriceFacts(
            cap=cap,
            exclusive=may_overlap,
            stated_orders=states_no_orders,
            noise_fields=noise_fields,
            loss_fields=NO_FIELDS,
            in_floats=True,
        ),
        pair=pair,
        group=GroupFacts(grouped=no_group("mixture_of_gaussians"), relative=False, copies=NO_ALLOWANCE),
        batch=batch,
        outcome=NO_OUTCOME,
    )


PAIR: Final[PairFacts[AnyMixture]] = exact_pair(
    failure=never_fails,
    mirrors=_mirrors,
    bracket=no_theorem(_SAMPLES),
    alone=_alone,
)
BATCH: Final[BatchFacts[AnyMixture]] = BatchFacts(
    sampled=_sampled,
    shuffled=no_theorem("shuffled is certified for pure local randomisers, not for mixture_of_gaussians"),
    quick=False,
    null_is_absence=False,
    divergences=_on_batch,
)
NOISE_FIELDS: Final = frozenset({"sigma"})

MIXTURE_OF_GAUSSIANS: Final = _rules(
    MixtureOfGaussiansLaw, cap=_cost, noise_fields=NOISE_FIELDS, pair=PAIR, batch=BATCH
)
JOINT_MIXTURE: Final = _rules(JointMixture, cap=_cost, noise_fields=NOISE_FIELDS, pair=PAIR, batch=BATCH)
OPPOSED_MIXTURE: Final[LeafRules[OpposedMixture]] = _rules(
    OpposedMixture,
    cap=_opposed_cost,
    noise_fields=NO_FIELDS,
    pair=exact_pair(
        failure=never_fails,
        mirrors=mirrors_itself,
        bracket=no_theorem(_EXCHANGED),
        alone=_opposed,
    ),
    batch=BatchFacts(
        sampled=no_theorem(_EXCHANGED),
        shuffled=no_theorem(_EXCHANGED),
        quick=False,
        null_is_absence=False,
        divergences=no_theorem(_EXCHANGED),
    ),
)
