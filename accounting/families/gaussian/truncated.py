"""Gaussian noise on Poisson samples of which at most so many units are kept: the law `truncated_sampled_gaussian`.

Whether the other units alone fill the batch is as likely with the unit as without it, and is told. Where they do not,
the step is a Poisson sample; where they do, the unit takes the place of one of them, or is not kept. Pairs above are
finite; below, all others contribute nothing. docs/proofs/mixtures.md, section 5.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final, Literal, assert_never

from dpledger.accounting.arithmetic import scalars
from dpledger.accounting.arithmetic.floating import UNIT
from dpledger.accounting.arithmetic.prices import Cost, rdp_alone
from dpledger.accounting.families.gaussian.fixed_size import mu_squared_of, rules_of_fixed_size, told
from dpledger.accounting.families.gaussian.leaf import TruncatedSampledGaussianLaw
from dpledger.accounting.families.gaussian.mixtures import (
    OpposedMixture,
    exchanged_in_samples,
    opposed_pairs,
    opposed_prices,
)
from dpledger.accounting.families.gaussian.price import gaussian_cost, gaussian_mu_squared
from dpledger.accounting.families.gaussian.rules import sampled_divergences, shift_of
from dpledger.accounting.families.leaf_rules import LeafRules, LossBracket, Mirror, Orders, written
from dpledger.accounting.laws.binomial import at_least
from dpledger.accounting.laws.cells import PairBracket, gaussian_bracket
from dpledger.accounting.laws.finite import FinitePair, mirrored
from dpledger.accounting.laws.law import Direction
from dpledger.decimals import float_up, subtract
from dpledger.relations import Relation

__all__ = ["TRUNCATED_SAMPLED_GAUSSIAN"]

LARGEST_EXPONENT = 600.0


@dataclass(frozen=True, slots=True)
class _Case:
    """With at most this probability (public), a Poisson sample at `rate` of noise of mu = shift/noise multiplier.

    `of`: whom it takes in. "arrives": one unit, or nobody; "displaces": one that takes another's place, of which only
    the profile at epsilon >= 0 is known, in both directions; "exchanged": either of two units, or nobody."""

    probability: float
    rate: float
    shift: int
    of: Literal["arrives", "displaces", "exchanged"]


def _shares(leaf: TruncatedSampledGaussianLaw) -> tuple[tuple[float, float], float, float]:
    """Bounds of the probability that the others fill the batch; at most the one that the unit is kept then; at least
    the one that it is kept at all."""
    rate, others = Fraction(leaf.rate), leaf.population - 1
    if leaf.rate == 1:
        full = (1.0, 1.0) if others >= leaf.batch else (0.0, 0.0)
        always = min(1.0, leaf.batch / leaf.population)
        return full, always, always * (1 - 4 * UNIT)
    full = at_least(others, rate, leaf.batch)
    in_all = at_least(leaf.population, rate, leaf.batch + 1)
    share = leaf.batch / leaf.population
    most = float(rate * leaf.batch / (leaf.batch + 1))  # of any number of others from the batch on
    kept = min(most, share * in_all[1] / full[0] * (1 + 8 * UNIT)) if full[0] > 0 else most
    lower = (float(rate) * (1 - full[1]) + share * in_all[0]) * (1 - 8 * UNIT)
    return full, kept, lower


def _cases(leaf: TruncatedSampledGaussianLaw, relation: Relation) -> tuple[_Case, ...]:
    """What dominates each case under this relation. Source: docs/proofs/mixtures.md, section 5."""
    full, kept, _ = _shares(leaf)
    seldom, rate = (1 - full[0]) * (1 + 2 * UNIT), float(leaf.rate)
    match relation:
        case Relation.ADD_REMOVE:
            free, filled = _Case(seldom, rate, 1, "arrives"), _Case(full[1], kept, 2, "arrives")
        case Relation.ZERO_OUT:
            free, filled = _Case(seldom, rate, 1, "arrives"), _Case(full[1], kept, 2, "displaces")
        case Relation.REPLACE_ONE | Relation.LABEL_FLIP:
            free, filled = _Case(seldom, rate, 1, "exchanged"), _Case(full[1], kept, 2, "displaces")
        case _:
            assert_never(relation)
    return tuple(case for case in (free, filled) if case.probability > 0 and case.rate > 0)


# ---- its pair -------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def _above(leaf: TruncatedSampledGaussianLaw, relation: Relation) -> FinitePair:
    return told([(case.probability, _pair(leaf, case)) for case in _cases(leaf, relation)])


def _pair(leaf: TruncatedSampledGaussianLaw, case: _Case) -> FinitePair:
    if case.of == "exchanged":
        return _exchanged(leaf, case.rate).above
    whole = gaussian_bracket(mu_squared_of(leaf, case.shift)).above
    pair = whole if case.rate >= 1 else whole.sampled(case.rate)
    return mirrored(pair) if case.of == "displaces" else pair


def _exchanged(leaf: TruncatedSampledGaussianLaw, rate: float) -> PairBracket:
    if rate >= 1:
        return gaussian_bracket(mu_squared_of(leaf, 2))
    return opposed_pairs(_one_exchanged(leaf, rate))


def _one_exchanged(leaf: TruncatedSampledGaussianLaw, rate: float) -> OpposedMixture:
    return exchanged_in_samples((1 / Fraction(leaf.noise_multiplier)) ** 2, Fraction(rate), 1)


@functools.lru_cache(maxsize=64)
def _below(leaf: TruncatedSampledGaussianLaw, relation: Relation) -> FinitePair:
    """All others contribute nothing: the unit is in the batch or not."""
    *_, kept = _shares(leaf)
    if shift_of(relation) == 2:
        return _exchanged(leaf, kept).below
    whole = gaussian_bracket(mu_squared_of(leaf, 1)).below
    return whole if kept >= 1 else whole.sampled(kept)


def _alone(leaf: TruncatedSampledGaussianLaw, relation: Relation, direction: Direction) -> LossBracket:
    side: Direction = "remove" if shift_of(relation) == 2 else direction
    return LossBracket(_above(leaf, relation).loss_in(side), _below(leaf, relation).loss_in(side))


def _mirrors(_leaf: TruncatedSampledGaussianLaw) -> Mirror:
    """Under replace_one what is above and below is the same in both directions; elsewhere each has its own."""
    return "above"


# ---- what it costs --------------------------------------------------------------------------------------------------


def _divergence(leaf: TruncatedSampledGaussianLaw, cases: tuple[_Case, ...], order: Decimal) -> float:
    """Of the pair above, in the direction that costs more: log(1 + sum p (I - 1))/(a - 1), I the moment of each case,
    or I + I' - 1 where only the profile at epsilon >= 0 is known. Source: docs/proofs/amplification.md, section 9."""
    more, gains = float_up(subtract(order, Decimal(1))), [0.0, 0.0]
    for case in cases:
        adding, removing = _both_ways(leaf, case, order)
        if not max(adding, removing) * more < LARGEST_EXPONENT:
            return math.inf
        both = [scalars.expm1(more * one) for one in (adding, removing)]
        each = [sum(both)] * 2 if case.of == "displaces" else both
        gains = [gain + case.probability * one for gain, one in zip(gains, each, strict=True)]
    return scalars.log1p(max(gains) * (1 + 1e-12)) / more * (1 + 1e-12)


def _both_ways(leaf: TruncatedSampledGaussianLaw, case: _Case, order: Decimal) -> tuple[float, float]:
    """The divergences of a case: adding the unit, removing it."""
    if case.of == "exchanged" and case.rate < 1:
        (found,) = opposed_prices(_one_exchanged(leaf, case.rate), (order,))
        return (math.inf,) * 2 if found is None else (float_up(found),) * 2
    ((adding, removing),) = sampled_divergences(Fraction(case.rate), mu_squared_of(leaf, case.shift), (order,))
    return adding, removing


def _cost(leaf: TruncatedSampledGaussianLaw, relation: Relation, orders: Orders) -> Cost:
    """Its own Renyi divergences; all else at the price of noise on the largest shift, which costs no less."""
    cases = _cases(leaf, relation)
    largest = max((2 if case.of == "exchanged" else case.shift for case in cases), default=0)
    whole = gaussian_cost(gaussian_mu_squared(largest, leaf.noise_multiplier), orders)
    found = {order: written(_divergence(leaf, cases, order)) for order in orders}
    return whole.or_better(rdp_alone(found))


TRUNCATED_SAMPLED_GAUSSIAN: Final[LeafRules[TruncatedSampledGaussianLaw]] = rules_of_fixed_size(
    TruncatedSampledGaussianLaw,
    "truncated_sampled_gaussian",
    cost=_cost,
    mirrors=_mirrors,
    alone=_alone,
    relative=True,
    reason="the bound for a truncated sample also tells whether it was full, which no mechanism does",
)
