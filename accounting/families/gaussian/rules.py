"""Gaussian noise: the law `gaussian`, the guarantee `gdp`, and several of them on one batch as one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final, TypeAlias, TypeVar, assert_never

import numpy as np

from dpledger.accounting.arithmetic import scalars
from dpledger.accounting.arithmetic.floating import UNIT
from dpledger.accounting.arithmetic.prices import Cost
from dpledger.accounting.families.gaussian.leaf import GaussianLaw
from dpledger.accounting.families.gaussian.loss import GaussianLoss
from dpledger.accounting.families.gaussian.mixtures import (
    exchanged_in_samples,
    in_samples,
    opposed_prices,
)
from dpledger.accounting.families.gaussian.price import gaussian_cost, gaussian_mu_squared
from dpledger.accounting.families.gaussian.sampled import SampledGaussianLoss, rdp_both_ways
from dpledger.accounting.families.leaf_rules import (
    EXACT,
    HAS_A_PAIR,
    NO_ALLOWANCE,
    NO_FIELDS,
    NO_OUTCOME,
    ONE_MECHANISM,
    BatchFacts,
    Divergences,
    GroupFacts,
    LeafRules,
    Orders,
    PairFacts,
    Squares,
    floats_up,
    mirrors_itself,
    never_fails,
    no_theorem,
    overlapping,
    written,
)
from dpledger.accounting.guarantees import GDP
from dpledger.accounting.laws.cells import PairBracket, gaussian_bracket
from dpledger.accounting.laws.draws import Allocation, Draw, Poisson, Shuffle, Subset
from dpledger.accounting.laws.law import Direction, Loss
from dpledger.decimals import float_up, multiply, round_down, round_up, subtract
from dpledger.relations import Relation

__all__ = [
    "GAUSSIAN",
    "GDP_RULES",
    "JOINT_GAUSSIAN",
    "JointGaussian",
    "divergence_of_both",
    "sampled_divergences",
    "sampled_gaussian_rdp",
    "shift_of",
]

HALF = Decimal("0.5")


@dataclass(frozen=True, slots=True)
class JointGaussian:
    """Several Gaussians on one batch: mu^2 of all together. Found in trees, never written in one."""

    mu_squared: Fraction
    kind: str = "gaussian"


Gaussian: TypeAlias = GaussianLaw | GDP | JointGaussian
L = TypeVar("L", GaussianLaw, GDP, JointGaussian)


def shift_of(relation: Relation) -> int:
    """By how many contributions of one unit the mean moves: by one when a unit comes, goes or becomes null, by two when
    it is exchanged."""
    match relation:
        case Relation.ADD_REMOVE | Relation.ZERO_OUT:
            return 1
        case Relation.REPLACE_ONE | Relation.LABEL_FLIP:
            return 2
        case _:
            assert_never(relation)


# ---- what it costs --------------------------------------------------------------------------------------------------


def _law_cost(leaf: GaussianLaw, relation: Relation, orders: Orders) -> Cost:
    return gaussian_cost(gaussian_mu_squared(shift_of(relation), leaf.noise_multiplier), orders)


def _gdp_cap(leaf: GDP, _relation: Relation, orders: Orders) -> Cost:
    return gaussian_cost(multiply(leaf.mu, leaf.mu), orders)


def _joint_cap(leaf: JointGaussian, _relation: Relation, orders: Orders) -> Cost:
    return gaussian_cost(round_up(leaf.mu_squared), orders)


# ---- its pair -------------------------------------------------------------------------------------------------------


def _law_ratio(leaf: GaussianLaw, relation: Relation) -> tuple[int, int]:
    top, bottom = leaf.noise_multiplier.as_integer_ratio()
    shift, sigma = shift_of(relation) * bottom, top
    return shift * shift, sigma * sigma


def _gdp_ratio(leaf: GDP, _relation: Relation) -> tuple[int, int]:
    shift, sigma = leaf.mu.as_integer_ratio()
    return shift * shift, sigma * sigma


def _joint_ratio(leaf: JointGaussian, _relation: Relation) -> tuple[int, int]:
    return leaf.mu_squared.as_integer_ratio()


def _mu_squared(leaf: Gaussian, relation: Relation) -> Fraction:
    match leaf:
        case GaussianLaw():
            return Fraction(*_law_ratio(leaf, relation))
        case GDP():
            return Fraction(*_gdp_ratio(leaf, relation))
        case JointGaussian():
            return leaf.mu_squared
        case _:
            assert_never(leaf)


def _bracket(leaf: Gaussian, relation: Relation) -> PairBracket | None:
    mu_squared = _mu_squared(leaf, relation)
    return gaussian_bracket(float(mu_squared)) if mu_squared else None


def _alone(leaf: Gaussian, relation: Relation, _direction: Direction) -> Loss | None:
    mu_squared = _mu_squared(leaf, relation)
    return GaussianLoss(float(mu_squared)) if mu_squared else None


def _sampled_law(leaf: GaussianLaw, rate: float, _relation: Relation, direction: Direction) -> Loss:
    return SampledGaussianLoss(rate, float(leaf.noise_multiplier), direction)


def _sampled(leaf: Gaussian, rate: float, relation: Relation, direction: Direction) -> Loss | None:
    mu_squared = _mu_squared(leaf, relation)
    if not mu_squared:
        return None
    sigma = math.sqrt(mu_squared.denominator / mu_squared.numerator)
    return SampledGaussianLoss(rate, sigma, direction)


def _of_one(mu_squared: Fraction) -> Fraction:
    """What one contribution makes, where a unit that is exchanged moves the mean by two."""
    return mu_squared / 4


def _grouped(leaf: Gaussian, k: int, relation: Relation) -> JointGaussian:
    """Source: Dong-Roth-Su 2022, Theorem 2.14."""
    return JointGaussian(_mu_squared(leaf, relation) * k * k)


def _copies(law: GaussianLaw, leaf: GaussianLaw) -> int:
    """The least whole number of draws whose sum has at most the noise of the leaf: Gaussians add."""
    return math.ceil((Fraction(law.noise_multiplier) / Fraction(leaf.noise_multiplier)) ** 2)


def _gdp_copies(law: GDP, leaf: GDP) -> int:
    """The least whole number of draws whose mu^2 add up to at least that of the leaf."""
    return math.ceil((Fraction(leaf.mu) / Fraction(law.mu)) ** 2)


# ---- the Renyi divergence of a secret batch -------------------------------------------------------------------------


def sampled_gaussian_rdp(rate: Decimal, noise_multiplier: Decimal, orders: Orders) -> tuple[Decimal, ...]:
    """The Renyi divergences of a Poisson-sampled Gaussian, or the whole one's where that is smaller: a sample mixes
    runs with the unit and runs without it, and the divergence is quasi-convex (van Erven-Harremoes 2014, Theorem 13).

    Claim: (order, result)-RDP under add_remove, at each order. Source: families.gaussian.sampled.rdp_both_ways.
    """
    half = multiply(gaussian_mu_squared(1, noise_multiplier), HALF)
    whole = [round_up(multiply(half, order)) for order in orders]
    if float(rate) >= 1:
        return tuple(whole)
    both = rdp_both_ways(float(rate), float(noise_multiplier), floats_up(orders))
    found = zip(whole, map(written, np.maximum(*both).tolist()), strict=True)
    return tuple(one if sampled is None else min(one, sampled) for one, sampled in found)


def _law_on_batch(leaf: GaussianLaw, how: Draw, relation: Relation, orders: Orders) -> Divergences:
    if isinstance(how, Poisson) and shift_of(relation) == 1:
        return sampled_gaussian_rdp(how.rate, leaf.noise_multiplier, orders)
    return _on_batch(leaf, how, relation, orders)


def _gdp_on_batch(leaf: GDP, how: Draw, relation: Relation, orders: Orders) -> Divergences:
    """A mu-GDP mechanism is dominated by a Gaussian, and so is its sample. Source: Zhu-Dong-Wang 2022, Theorem 11."""
    if isinstance(how, Poisson) and leaf.mu:
        return sampled_gaussian_rdp(how.rate, round_down(1 / Fraction(leaf.mu)), orders)
    return _on_batch(leaf, how, relation, orders)


def _on_batch(leaf: Gaussian, how: Draw, relation: Relation, orders: Orders) -> Divergences:
    """A Poisson sample at the larger of both directions, D; without replacement log(I_remove + I_add - 1)/(a - 1), I =
    e^{(a - 1) D}. Source: docs/proofs/amplification.md, section 9."""
    exact = _mu_squared(leaf, relation)
    mu_squared = float(exact)
    match how:
        case Poisson(rate=rate) if exact and shift_of(relation) == 2:
            return opposed_prices(exchanged_in_samples(_of_one(exact), Fraction(rate), 1), orders)
        case Poisson(rate=rate):
            found = [max(both) for both in sampled_divergences(rate, mu_squared, orders)]
        case Subset(population=population, batch=batch):
            each = sampled_divergences(Fraction(batch, population), mu_squared, orders)
            found = [divergence_of_both(both, order) for both, order in zip(each, orders, strict=True)]
        case Allocation() | Shuffle():
            return (None,) * len(orders)
        case _:
            assert_never(how)
    return tuple(map(written, found))


def sampled_divergences(rate: Decimal | Fraction, mu_squared: float, orders: Orders) -> list[tuple[float, float]]:
    """Of a Poisson-sampled Gaussian, at each order: adding the unit, removing it. A mean that does not move tells
    nothing."""
    if not mu_squared:
        return [(0.0, 0.0)] * len(orders)
    rounded, sigma = float(rate), 1 / math.sqrt(mu_squared) * (1 - 8 * UNIT)
    if rounded >= 1:
        return [(math.inf, math.inf)] * len(orders)
    adding, removing = rdp_both_ways(rounded, sigma, floats_up(orders))
    return list(zip(adding.tolist(), removing.tolist(), strict=True))


def divergence_of_both(both: tuple[float, float], order: Decimal) -> float:
    """log(I + I' - 1)/(a - 1), rounded up: log(1 + x + y) with x, y = e^{(a-1) D} - 1."""
    more = float_up(subtract(order, Decimal(1)))
    exponents = [more * divergence for divergence in both]
    if max(exponents) > 600:
        return math.inf
    return scalars.log1p(math.fsum(map(scalars.expm1, exponents)) * (1 + 1e-14)) / more * (1 + 1e-14)


def _rules(
    kind: type[L],
    name: str,
    *,
    attested: bool,
    cap: Callable[[L, Relation, Orders], Cost],
    noise_fields: frozenset[str],
    loss_fields: frozenset[str],
    ratio: Callable[[L, Relation], tuple[int, int]],
    relative: bool,
    copies: Callable[[L, L], int] | None,
    sampled: Callable[[L, float, Relation, Direction], Loss | None],
    null_is_absence: bool,
    divergences: Callable[[L, Draw, Relation, Orders], Divergences],
) -> LeafRules[L]:
    """The rules of two normal laws of one spread, whose means are apart by the root of `ratio`."""
    return LeafRules(
        kind=kind,
        attested=attested,
        price=overlapping(cap, noise_fields=noise_fields, loss_fields=loss_fields),
        pair=PairFacts(
            failure=never_fails,
            mirrors=mirrors_itself,
            bracket=_bracket,
            alone=_alone,
            squares=Squares(
                ratio=ratio,
                together=JointGaussian,
                loss=GaussianLoss,
                in_samples=in_samples,
                exchanged=exchanged_in_samples,
            ),
            renyi=HAS_A_PAIR,
            envelope=ONE_MECHANISM,
            reason=EXACT,
        ),
        group=GroupFacts(grouped=_grouped, relative=relative, copies=copies),
        batch=BatchFacts(
            sampled=sampled,
            shuffled=no_theorem(f"shuffled is certified for pure local randomisers, not for {name}"),
            quick=True,
            null_is_absence=null_is_absence,
            divergences=divergences,
        ),
        outcome=NO_OUTCOME,
    )


GAUSSIAN = _rules(
    GaussianLaw,
    "gaussian",
    attested=False,
    cap=_law_cost,
    noise_fields=frozenset({"noise_multiplier"}),
    loss_fields=NO_FIELDS,
    ratio=_law_ratio,
    relative=True,
    copies=_copies,
    sampled=_sampled_law,
    null_is_absence=True,
    divergences=_law_on_batch,
)
GDP_RULES: Final[LeafRules[GDP]] = _rules(
    GDP,
    "gdp",
    attested=True,
    cap=_gdp_cap,
    noise_fields=NO_FIELDS,
    loss_fields=frozenset({"mu"}),
    ratio=_gdp_ratio,
    relative=False,
    copies=_gdp_copies,
    sampled=_sampled,
    null_is_absence=False,
    divergences=_gdp_on_batch,
)
JOINT_GAUSSIAN: Final[LeafRules[JointGaussian]] = _rules(
    JointGaussian,
    "several gaussians",
    attested=False,
    cap=_joint_cap,
    noise_fields=NO_FIELDS,
    loss_fields=NO_FIELDS,
    ratio=_joint_ratio,
    relative=False,
    copies=NO_ALLOWANCE,
    sampled=_sampled,
    null_is_absence=True,
    divergences=_on_batch,
)
