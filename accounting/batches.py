"""The Renyi and zCDP prices of one leaf on a secret batch, or in a shuffle: from the transform K of its own pair.

    D_a = K(a - 1)/(a - 1), the larger of both directions        where the losses of the pair are bounded
    rho = sup_a D_a / a                                           the same, over all orders
    a sampled Gaussian                                            its own quadrature (`laws.subsampled`)
    a sampled discrete Gaussian                                   moments of whole orders, at most the Gaussian's

None where nothing better than the price of the whole is known: a batch never costs more. docs/proofs/amplification.md,
sections 6 and 9.
"""

from __future__ import annotations

import functools
import math
from decimal import Decimal
from fractions import Fraction
from typing import assert_never

import numpy as np

from dpledger.accounting import outward
from dpledger.accounting.composition import (
    Composition,
    DiscreteGaussianLaw,
    GaussianLaw,
    PostProcessed,
    Repeated,
    Sequence,
)
from dpledger.accounting.floating import UNIT, Array
from dpledger.accounting.guarantees import GDP, RDP, ZCDP
from dpledger.accounting.laws.drawn import losses_of
from dpledger.accounting.laws.draws import (
    Allocation,
    Draw,
    Drawn,
    JointGaussian,
    Leaf,
    Poisson,
    Shuffle,
    Subset,
    mu_squared_of,
)
from dpledger.accounting.laws.law import Loss
from dpledger.accounting.laws.subsampled import SampledGaussianLoss, rdp_upper
from dpledger.accounting.prices import gaussian_mu_squared
from dpledger.decimals import float_up, multiply, round_up, subtract
from dpledger.errors import CannotCertify, WorkLimit
from dpledger.relations import Relation

__all__ = ["batch_rdp", "batch_rho", "one_leaf", "sampled_gaussian_rdp"]

HALF = Decimal("0.5")
CLOSE = 3e-3  # relative: how far above the greatest price of an order the supremum over orders may be
ROUNDS = 5
FARTHEST = 1e9
SHARE_DIGITS = 28


def one_leaf(part: Composition, relation: Relation) -> Leaf | None:
    """What runs on the batch, where it is one leaf; several Gaussians are one."""
    match part:
        case PostProcessed(of=of):
            return one_leaf(of, relation)
        case Repeated(of=of, times=times):
            leaf = one_leaf(of, relation)
            return _joint(leaf, times, relation) if times > 1 else leaf
        case Sequence(of=parts):
            leaves = [one_leaf(one, relation) for one in parts]
            if len(leaves) == 1:
                return leaves[0]
            squares = [_joint(leaf, 1, relation) for leaf in leaves]
            known = [square.mu_squared for square in squares if square is not None]
            return JointGaussian(sum(known, Fraction(0))) if len(known) == len(leaves) else None
        case _:
            return part if isinstance(part, Leaf) and not isinstance(part, ZCDP | RDP) else None


def _joint(leaf: Leaf | None, times: int, relation: Relation) -> JointGaussian | None:
    if not isinstance(leaf, GaussianLaw | GDP | JointGaussian):
        return None
    return JointGaussian(times * mu_squared_of(leaf, relation))


@functools.lru_cache(maxsize=1024)
def batch_rdp(drawn: Drawn, relation: Relation, order: Decimal) -> Decimal | None:
    """The Renyi divergence of `order`, in both directions; None where only the price of the whole is known.

    Claim: (order, result)-RDP. Source: module.
    """
    leaf, how = drawn.leaf, drawn.how
    match leaf:
        case GaussianLaw() | GDP() | JointGaussian():
            found = _of_gaussian(float(mu_squared_of(leaf, relation)), how, order)
        case DiscreteGaussianLaw(sigma=sigma, sensitivity=sensitivity):
            found = _of_whole_orders(float_up(sensitivity) / float(sigma), how, order)
        case _:
            found = max((loss.rdp_upper(float_up(order)) for loss in _bounded(drawn, relation)), default=math.inf)
    return outward.above(Decimal.from_float(found)) if found < math.inf else None


@functools.lru_cache(maxsize=256)
def batch_rho(drawn: Drawn, relation: Relation) -> Decimal | None:
    """The zCDP price, where the losses are bounded; None where only the price of the whole is known.

    Claim: result-zCDP. Source: module; Bun-Steinke 2016, Definition 1.1.
    """
    if isinstance(drawn.leaf, GaussianLaw | GDP | JointGaussian | DiscreteGaussianLaw):
        return None
    if isinstance(drawn.how, Allocation):  # its pair takes a second: only where an order is asked for
        return None
    found = max((_over_all_orders(loss) for loss in _bounded(drawn, relation)), default=math.inf)
    return outward.above(Decimal.from_float(found)) if found < math.inf else None


def _bounded(drawn: Drawn, relation: Relation) -> tuple[Loss, ...]:
    """The losses of both directions; none where one may be infinite, or no pair is known."""
    try:
        both = [losses_of(drawn, relation, direction) for direction in ("add", "remove")]
    except (CannotCertify, WorkLimit):
        return ()
    losses = tuple(one.above for one in both if one is not None)
    return () if any(loss.infinite_mass > 0 or loss.largest == math.inf for loss in losses) else losses


def _over_all_orders(loss: Loss) -> float:
    """At least sup K(c)/(c (1 + c)) over c > 0: K(c)/c rises with c and is at most the largest loss, so that two values
    of c bound what is between them; cells that may hold the supremum are cut until they are narrow."""
    most = loss.largest
    edges = np.array([0.25])
    slopes = _slopes(loss, edges)
    while float(np.max(slopes / (1 + edges))) * (1 + edges[-1]) < most and edges[-1] < FARTHEST:
        edges = np.append(edges, 1.25 * edges[-1] + 0.25)
        slopes = np.append(slopes, _slopes(loss, edges[-1:]))
    for _ in range(ROUNDS):
        starts = np.append(0.0, edges[:-1])
        wide = slopes / (1 + starts) > np.max(slopes / (1 + edges)) * (1 + CLOSE)
        if not wide.any():
            break
        cuts = np.concatenate([starts[wide] + share * (edges - starts)[wide] for share in (0.25, 0.5, 0.75)])
        order = np.argsort(np.append(edges, cuts), kind="stable")
        slopes = np.append(slopes, _slopes(loss, cuts))[order]
        edges = np.append(edges, cuts)[order]
    ceiling = float(np.max(slopes / (1 + np.append(0.0, edges[:-1]))))
    return max(ceiling, most / (1 + float(edges[-1]))) * (1 + 1e-14)


def _slopes(loss: Loss, c: Array) -> Array:
    """At least K(c)/c, the divergence of order 1 + c."""
    slopes: Array = loss.log_moments(c) / c
    return slopes


# ---- unbounded losses -----------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1024)
def sampled_gaussian_rdp(rate: Decimal, noise_multiplier: Decimal, order: Decimal) -> Decimal:
    """The Renyi divergence of a Poisson-sampled Gaussian, or the whole one's where that is smaller: a sample mixes runs
    with the unit and runs without it, and the divergence is quasi-convex (van Erven-Harremoes 2014, Theorem 13).

    Claim: (order, result)-RDP under add_remove. Source: laws.subsampled.rdp_upper.
    """
    whole = round_up(multiply(multiply(gaussian_mu_squared(1, noise_multiplier), HALF), order))
    sampled = Decimal.from_float(rdp_upper(rate, noise_multiplier, order))
    return min(whole, outward.above(sampled)) if sampled.is_finite() else whole


def _of_gaussian(mu_squared: float, how: Draw, order: Decimal) -> float:
    """A Poisson sample at the larger of both directions, D; without replacement log(I_remove + I_add - 1)/(a - 1), I =
    e^{(a - 1) D}. Source: docs/proofs/amplification.md, section 9."""
    match how:
        case Poisson(rate=rate):
            return max(_divergences(rate, mu_squared, order))
        case Subset(population=population, batch=batch):
            return _of_both(_divergences(_share(population, batch), mu_squared, order), order)
        case Allocation() | Shuffle():
            return math.inf
        case _:
            assert_never(how)


def _share(population: int, batch: int) -> Decimal:
    """The share of the units that a batch holds, from above by far less than the margin of a price."""
    return round_up(Fraction(batch, population), digits=SHARE_DIGITS)


def _divergences(rate: Decimal, mu_squared: float, order: Decimal) -> tuple[float, float]:
    """Of a Poisson-sampled Gaussian: adding the unit, removing it. A mean that does not move tells nothing."""
    if not mu_squared:
        return 0.0, 0.0
    rounded, sigma = float(rate), mu_squared**-0.5 * (1 - 8 * UNIT)
    if rounded >= 1:
        return math.inf, math.inf
    above = float_up(order)
    adding, removing = (SampledGaussianLoss(rounded, sigma, side).rdp_upper(above) for side in ("add", "remove"))
    return adding, removing


def _of_both(both: tuple[float, float], order: Decimal) -> float:
    """log(I + I' - 1)/(a - 1), rounded up: log(1 + x + y) with x, y = e^{(a-1) D} - 1."""
    more = float_up(subtract(order, Decimal(1)))
    exponents = [more * divergence for divergence in both]
    if max(exponents) > 600:
        return math.inf
    return math.log1p(math.fsum(map(math.expm1, exponents)) * (1 + 1e-14)) / more * (1 + 1e-14)


def _of_whole_orders(mu: float, how: Draw, order: Decimal) -> float:
    """The chord of (a - 1) D_a between the whole orders around `order`, where the moments E_Q W^j, j = 0..a, of a
    discrete Gaussian are at most those of a Gaussian. Source: docs/proofs/amplification.md, section 9."""
    if not isinstance(how, Poisson | Subset):
        return math.inf
    low, high = math.floor(order), math.ceil(order)
    values = [_whole_order(mu, how, whole) if whole > 1 else 0.0 for whole in (low, high)]
    if low == high:
        return values[0] / (low - 1)
    share = float_up(subtract(order, Decimal(low)))
    chord = values[0] + share * max(0.0, values[1] - values[0])
    return chord / float(subtract(order, Decimal(1))) * (1 + 1e-14)


def _whole_order(mu: float, how: Poisson | Subset, order: int) -> float:
    """At least (a - 1) D_a of both directions, a = `order`: of a symmetric pair removing is the worse one."""
    rate = how.rate if isinstance(how, Poisson) else _share(how.population, how.batch)
    _, removing = _divergences(rate, mu * mu * (1 + 1e-15), Decimal(order))
    worst = removing if isinstance(how, Poisson) else _of_both((removing, removing), Decimal(order))
    return worst * (order - 1) * (1 + 1e-15)
