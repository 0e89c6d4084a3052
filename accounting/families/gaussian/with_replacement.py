"""Gaussian noise on records that are drawn with replacement: the law `gaussian_with_replacement`.

How often a unit is drawn is Bin(draws, 1/population); where it is drawn k times, what it moves is moved k times. The
pair above tells k, where the unit is drawn at all, and is a sample of that. docs/proofs/mixtures.md, section 6.
"""

from __future__ import annotations

import functools
import math
from decimal import Decimal
from fractions import Fraction
from typing import Final

from dpledger.accounting.arithmetic import scalars
from dpledger.accounting.arithmetic.floating import UNIT
from dpledger.accounting.arithmetic.prices import Cost, rdp_alone
from dpledger.accounting.families.gaussian.fixed_size import mu_squared_of, rules_of_fixed_size, told
from dpledger.accounting.families.gaussian.leaf import GaussianWithReplacementLaw
from dpledger.accounting.families.gaussian.price import gaussian_cost, gaussian_mu_squared
from dpledger.accounting.families.gaussian.rules import sampled_divergences
from dpledger.accounting.families.leaf_rules import LeafRules, LossBracket, Mirror, Orders, written
from dpledger.accounting.laws.cells import LARGEST_LOSS, gaussian_bracket
from dpledger.accounting.laws.finite import FinitePair, mirrored
from dpledger.accounting.laws.law import Direction
from dpledger.decimals import float_up, subtract
from dpledger.errors import CannotCertify
from dpledger.relations import Relation

__all__ = ["GAUSSIAN_WITH_REPLACEMENT"]

MOST_COPIES = 64  # of one unit in a batch, that are told apart
RARE = 1e-30  # a probability of more copies that is left to infinity
REACH = 16.5  # standard deviations that the cells of a Gaussian reach, with room
LARGEST_EXPONENT = 600.0


def _require_fixed(relation: Relation) -> None:
    if relation is Relation.ADD_REMOVE:
        raise CannotCertify(
            "gaussian_with_replacement is of a public number of units: certified under replace_one and zero_out, not "
            "under add_remove"
        )


def _copies(leaf: GaussianWithReplacementLaw) -> tuple[list[float], float, float]:
    """At most the probabilities of 1, 2, ... copies, as many as are told apart, and of more; at least that of any."""
    draws, others = leaf.draws, leaf.population - 1
    none = draws * scalars.log1p(-1 / leaf.population)
    error = UNIT * (64 - 16 * none)
    chance, found = scalars.exp(none), list[float]()
    sigma = float(leaf.noise_multiplier)
    for k in range(1, min(draws, MOST_COPIES) + 1):
        chance *= (draws - k + 1) / (k * others)
        mu = 2 * k / sigma
        if chance < RARE or not mu * mu / 2 + REACH * mu < LARGEST_LOSS:
            fall = (draws - k) / ((k + 1) * others)
            return found, min(1.0, (chance / (1 - fall) if fall < 1 else 1.0) * (1 + error)), -scalars.expm1(none)
        found.append(chance * (1 + error + 4 * k * UNIT))
    fall = (draws - len(found)) / ((len(found) + 1) * others)
    more = 0.0 if draws == len(found) else min(1.0, chance * fall / (1 - fall) if fall < 1 else 1.0) * (1 + error)
    return found, more, -scalars.expm1(none)


# ---- its pair -------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=32)
def _above(leaf: GaussianWithReplacementLaw) -> FinitePair:
    copies, more, any_ = _copies(leaf)
    cases = [(chance / any_, gaussian_bracket(mu_squared_of(leaf, 2 * k)).above) for k, chance in enumerate(copies, 1)]
    lost = FinitePair((), (), (), 1.0, 1.0, (), 0.0)
    drawn = told([*cases, (more / any_, lost)] if more else cases)
    return mirrored(drawn.sampled(min(any_ * (1 + 32 * UNIT), 1 - UNIT)))


@functools.lru_cache(maxsize=32)
def _below(leaf: GaussianWithReplacementLaw, shift: int) -> FinitePair:
    """A unit that is drawn counts once; all others contribute the opposite, or nothing."""
    return gaussian_bracket(mu_squared_of(leaf, shift)).below.sampled(_copies(leaf)[2] * (1 - 64 * UNIT))


def _alone(leaf: GaussianWithReplacementLaw, relation: Relation, direction: Direction) -> LossBracket:
    _require_fixed(relation)
    below = _below(leaf, 1 if relation is Relation.ZERO_OUT else 2)
    return LossBracket(_above(leaf).loss_in("remove"), below.loss_in(direction))  # above, it is the same both ways


def _mirrors(_leaf: GaussianWithReplacementLaw) -> Mirror:
    return "above"


# ---- what it costs --------------------------------------------------------------------------------------------------


def _divergence(leaf: GaussianWithReplacementLaw, order: Decimal) -> float:
    """log(1 + sum p (I + I' - 2))/(a - 1) over all numbers of copies, p given that there are any; infinite for too many
    draws. Source: docs/proofs/amplification.md, section 9."""
    copies, more, any_ = _copies(leaf)
    if more:
        return math.inf
    excess, gain = float_up(subtract(order, Decimal(1))), 0.0
    for k, chance in enumerate(copies, 1):
        (both,) = sampled_divergences(Fraction(any_), mu_squared_of(leaf, 2 * k), (order,))
        if not max(both) * excess < LARGEST_EXPONENT:
            return math.inf
        gain += chance / any_ * math.fsum(scalars.expm1(excess * one) for one in both)
    return scalars.log1p(gain * (1 + 1e-12)) / excess * (1 + 1e-12)


def _cost(leaf: GaussianWithReplacementLaw, relation: Relation, orders: Orders) -> Cost:
    """Its own Renyi divergences; all else at the price of a batch that is the unit alone."""
    _require_fixed(relation)
    whole = gaussian_cost(gaussian_mu_squared(2 * leaf.draws, leaf.noise_multiplier), orders)
    found = {order: written(_divergence(leaf, order)) for order in orders}
    return whole.or_better(rdp_alone(found))


GAUSSIAN_WITH_REPLACEMENT: Final[LeafRules[GaussianWithReplacementLaw]] = rules_of_fixed_size(
    GaussianWithReplacementLaw,
    "gaussian_with_replacement",
    cost=_cost,
    mirrors=_mirrors,
    alone=_alone,
    relative=False,
    reason="the bound for draws with replacement also tells how often a unit was drawn, which no mechanism does",
)
