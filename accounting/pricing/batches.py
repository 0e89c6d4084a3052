"""The Renyi and zCDP prices of one leaf on a secret batch, or in a shuffle.

    D_a = K(a - 1)/(a - 1), the larger of both directions        where the losses of its pair are bounded
    rho = sup_a D_a / a                                           the same, over all orders
    what its kind says (`batch_divergences`)                      Gaussian noise, whose losses are not

None where nothing better than the price of the whole is known: a batch never costs more. All orders that are asked for
are priced in one call, and kept by law and order: claim, check and gate ask for the same. docs/proofs/amplification.md,
sections 6 and 9.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import assert_never

import numpy as np

from dpledger.accounting.arithmetic import prices
from dpledger.accounting.arithmetic.floating import quietly
from dpledger.accounting.arithmetic.prices import Cost
from dpledger.accounting.composition import (
    Chain,
    Composition,
    Converted,
    Filtered,
    Group,
    Leaf,
    Parallel,
    PoissonSampled,
    PostProcessed,
    RandomAllocation,
    Repeated,
    SampledWithoutReplacement,
    Selected,
    Sequence,
    Shuffled,
    children,
)
from dpledger.accounting.families.leaf_rules import Divergences, Orders, floats_up, written
from dpledger.accounting.kinds import AnyLeaf, rules_of
from dpledger.accounting.laws.concentration import rho_of
from dpledger.accounting.laws.draws import Allocation
from dpledger.accounting.laws.finite import FiniteLoss
from dpledger.accounting.laws.law import Loss
from dpledger.accounting.pricing.pld import Drawn, losses_of
from dpledger.decimals import float_up
from dpledger.errors import CannotCertify, WorkLimit
from dpledger.relations import Relation

__all__ = ["as_charged", "batch_rdp", "batch_rho", "in_floats", "one_leaf"]

MOST_KEPT = 1024  # orders of one law


def in_floats(tree: Composition) -> bool:
    """Whether a price of `tree` other than its epsilon, delta and mu^2 may be computed in floating point."""
    if isinstance(tree, Leaf):
        return rules_of(tree).price.in_floats
    if isinstance(tree, PoissonSampled) and tree.rate == 1:  # no sample: it costs what is run
        return in_floats(tree.of)
    if isinstance(tree, PoissonSampled | SampledWithoutReplacement | Shuffled | RandomAllocation):
        return True
    return any(map(in_floats, children(tree)))


def one_leaf(part: Composition, relation: Relation) -> AnyLeaf | None:
    """What runs on the batch, where it is one leaf with a pair; several Gaussians are one."""
    if isinstance(part, Leaf):
        return part if rules_of(part).pair.renyi is None else None
    match part:
        case PostProcessed(of=of) | Chain(of=of):
            return one_leaf(of, relation)
        case Group(of=of, k=1, relation=inner) if inner is relation:
            return one_leaf(of, relation)
        case Repeated(of=of, times=times):
            leaf = one_leaf(of, relation)
            return leaf if times == 1 or leaf is None else _joint([leaf], times, relation)
        case Sequence(of=parts):
            leaves = [one_leaf(one, relation) for one in parts]
            if len(leaves) == 1:
                return leaves[0]
            known = [leaf for leaf in leaves if leaf is not None]
            return _joint(known, 1, relation) if len(known) == len(leaves) else None
        case Parallel() | PoissonSampled() | SampledWithoutReplacement() | Shuffled() | RandomAllocation():
            return None
        case Group() | Selected() | Converted() | Filtered():
            return None
        case _:
            assert_never(part)


def _joint(leaves: list[AnyLeaf], times: int, relation: Relation) -> AnyLeaf | None:
    """So many runs of these on one batch as one leaf; None where their squares do not add."""
    every = [rules_of(leaf).pair.squares for leaf in leaves]
    known = [squares for squares in every if squares is not None]
    if not known or len(known) < len(every):
        return None
    ratios = (squares.ratio(leaf, relation) for squares, leaf in zip(known, leaves, strict=True))
    joint: AnyLeaf = known[0].together(times * sum((Fraction(*ratio) for ratio in ratios), Fraction(0)))
    return joint


@quietly
def batch_rdp(drawn: Drawn, relation: Relation, orders: Orders) -> dict[Decimal, Decimal | None]:
    """The Renyi divergences of these orders, in both directions; None where only the price of the whole is known.

    Claim: (order, result)-RDP at each, a function of its own order alone. Source: module.
    """
    kept = _kept(drawn, relation)
    missing = tuple(order for order in dict.fromkeys(orders) if order not in kept)
    found = dict(zip(missing, _divergences(drawn, relation, missing), strict=True)) if missing else {}
    result = {order: found[order] if order in found else kept[order] for order in orders}
    if len(kept) + len(found) <= MOST_KEPT:
        kept.update(found)
    return result


@functools.lru_cache(maxsize=256)
def _kept(_drawn: Drawn, _relation: Relation) -> dict[Decimal, Decimal | None]:
    """What was priced of one law. It only grows, so that threads may share it."""
    return {}


def _divergences(drawn: Drawn, relation: Relation, orders: Orders) -> Divergences:
    divergences = rules_of(drawn.leaf).batch.divergences
    if divergences is not None:
        return divergences(drawn.leaf, drawn.how, relation, orders)
    each = [loss.rdp_upper(floats_up(orders)) for loss in _bounded(drawn, relation)]
    return tuple(map(written, np.max(each, axis=0).tolist())) if each else (None,) * len(orders)


@functools.lru_cache(maxsize=256)
@quietly
def batch_rho(drawn: Drawn, relation: Relation) -> Decimal | None:
    """The zCDP price, where the losses are bounded; None where only the price of the whole is known.

    Claim: result-zCDP. Source: module; `laws.concentration`.
    """
    if rules_of(drawn.leaf).batch.divergences is not None:
        return None
    if isinstance(drawn.how, Allocation):  # its pair takes a second: only where an order is asked for
        return None
    return written(max(map(rho_of, _bounded(drawn, relation)), default=math.inf))


def _bounded(drawn: Drawn, relation: Relation) -> tuple[Loss, ...]:
    """The losses of both directions; none where one may be infinite, or no pair is known.

    A batch is (e, 0)-DP where the whole is, which bounds what a computed pair leaves at infinity, be it a rounding
    (`FiniteLoss.within`)."""
    try:
        both = [losses_of(drawn, relation, direction) for direction in ("add", "remove")]
    except (CannotCertify, WorkLimit):
        return ()
    losses = tuple(_within(one.above, drawn, relation) for one in both if one is not None)
    return () if any(loss.infinite_mass > 0 or loss.largest == math.inf for loss in losses) else losses


def _within(loss: Loss, drawn: Drawn, relation: Relation) -> Loss:
    if not (isinstance(loss, FiniteLoss) and loss.infinite_mass > 0 and isinstance(drawn.leaf, Leaf)):
        return loss
    whole = rules_of(drawn.leaf).price.cap(drawn.leaf, relation, ())
    return loss if whole.pure is None or whole.delta else loss.within(float_up(whole.pure))


def as_charged(tree: Composition, price: Cost) -> Cost:
    """`price` of `tree` with the margin in the currencies that floating point has a part in; all others are exact."""
    if not in_floats(tree):
        return price
    rdp = {order: prices.with_margin(divergence) for order, divergence in price.rdp.items()}
    return replace(price, rho=prices.with_margin(price.rho), rdp=rdp)
