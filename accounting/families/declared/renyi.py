"""Promises of Renyi divergences: the guarantees `zcdp` and `rdp`, and `offset_zcdp`. They have no dominating pair."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeVar

from dpledger.accounting.arithmetic.prices import Cost, rdp_alone
from dpledger.accounting.families.declared.leaf import OffsetZCDP
from dpledger.accounting.families.leaf_rules import (
    BY_ITS_LOSSES,
    NO_ALLOWANCE,
    NO_FIELDS,
    NO_OUTCOME,
    NO_SQUARES,
    ONE_MECHANISM,
    BatchFacts,
    GroupFacts,
    LeafRules,
    Orders,
    PairFacts,
    PriceFacts,
    may_overlap,
    mirrors_itself,
    never_fails,
    no_group,
    no_theorem,
    states_no_orders,
)
from dpledger.accounting.guarantees import RDP, ZCDP
from dpledger.accounting.laws.law import Direction
from dpledger.accounting.laws.renyi_curves import ConcentratedCurve, ListedCurve, RenyiCurve
from dpledger.decimals import ZERO, add, multiply, round_up
from dpledger.errors import CannotCertify
from dpledger.relations import Relation

__all__ = ["OFFSET_ZCDP", "RDP_RULES", "ZCDP_RULES", "zcdp_cost"]

MOST_SUMMED = 1000  # terms of a harmonic sum; above, each counts as 1
_REASON = "zcdp and rdp bound the loss from above only: the lower bound leaves them out"
L = TypeVar("L", ZCDP, RDP, OffsetZCDP)


def zcdp_cost(rho: Decimal, orders: Orders, *, delta: Decimal = ZERO) -> Cost:
    """zCDP: the divergence of order a is at most a*rho. Source: Bun-Steinke 2016, Definition 1.1."""
    rdp = {order: round_up(multiply(rho, order)) for order in orders}
    return Cost(pure=None, delta=delta, rho=rho, mu_squared=None, rdp=rdp)


def _grouped(leaf: ZCDP, k: int, _relation: Relation) -> ZCDP:
    """Source: Bun-Steinke 2016, Proposition 1.9, of zCDP without a delta."""
    if leaf.delta:
        raise CannotCertify(f"no theorem gives this zcdp, with a delta, to a group of {k}")
    return ZCDP(multiply(leaf.rho, k * k))


def _zcdp_curve(leaf: ZCDP) -> ConcentratedCurve | None:
    """Nothing is shown where the divergence is 0, which is so of equal distributions only. Source: van Erven-Harremoes
    2014, Theorem 8."""
    return ConcentratedCurve(leaf.rho, leaf.delta) if leaf.rho or leaf.delta else None


def _rdp_curve(leaf: RDP) -> ListedCurve | None:
    """As `_zcdp_curve`."""
    return ListedCurve(leaf.orders, leaf.epsilons) if min(leaf.epsilons) else None


def interpolated_rdp(orders: tuple[Decimal, ...], epsilons: tuple[Decimal, ...], order: Decimal) -> Decimal | None:
    """The Renyi divergence of `order` from those of a grid; None above the greatest order.

    Claim: (order, result)-RDP. (a-1) D_a is convex in a and 0 at a = 1, so the chord is an upper bound.
    Source: van Erven-Harremoes 2014, Corollary 2.
    """
    left_order, left = Fraction(1), Fraction(0)
    wanted = Fraction(order)
    for right_order, declared, epsilon in zip(map(Fraction, orders), epsilons, map(Fraction, epsilons), strict=True):
        right = (right_order - 1) * epsilon
        if wanted == right_order:
            return declared
        if wanted < right_order:
            chord = left + (right - left) * (wanted - left_order) / (right_order - left_order)
            return round_up(chord / (wanted - 1))
        left_order, left = right_order, right
    return None


def _rdp_cost(leaf: RDP, _relation: Relation, orders: Orders) -> Cost:
    return rdp_alone({order: interpolated_rdp(leaf.orders, leaf.epsilons, order) for order in orders})


def _offset_cost(leaf: OffsetZCDP, _relation: Relation, orders: Orders) -> Cost:
    """xi + rho a, and zCDP of rho + xi, since xi is at most xi a."""
    rdp = {order: round_up(add(leaf.xi, multiply(leaf.rho, order))) for order in orders}
    return Cost(pure=None, rho=add(leaf.rho, leaf.xi), mu_squared=None, rdp=rdp)


def _offset_grouped(leaf: OffsetZCDP, k: int, _relation: Relation) -> OffsetZCDP:
    """(k H(k) xi, k^2 rho), H(k) = 1 + 1/2 + ... + 1/k.

    Source: Bun-Steinke 2016, Proposition 27; docs/proofs/events.md, section 2."""
    least = min(k, MOST_SUMMED)
    harmonic = sum((Fraction(1, i) for i in range(1, least + 1)), start=Fraction(k - least))
    return OffsetZCDP(multiply(leaf.rho, k * k), round_up(multiply(leaf.xi, round_up(k * harmonic))))


def _promise(
    kind: type[L],
    name: str,
    *,
    cap: Callable[[L, Relation, Orders], Cost],
    exclusive: Callable[[L], bool],
    stated_orders: Callable[[L], Orders],
    loss_fields: frozenset[str],
    failure: Callable[[L, Direction], Fraction],
    curve: Callable[[L], RenyiCurve | None],
    grouped: Callable[[L, int, Relation], Any],
) -> LeafRules[L]:
    """The rules of a promise without a pair: no draw is known to amplify it."""
    no_batch = no_theorem(f"{name} on a secret batch has no certified bound: state what noise it adds")
    return LeafRules(
        kind=kind,
        attested=True,
        price=PriceFacts(
            cap=cap,
            exclusive=exclusive,
            stated_orders=stated_orders,
            noise_fields=NO_FIELDS,
            loss_fields=loss_fields,
            in_floats=False,
        ),
        pair=PairFacts(
            failure=failure,
            mirrors=mirrors_itself,
            bracket=no_batch,
            alone=no_theorem(f"{name} has no dominating pair"),
            squares=NO_SQUARES,
            renyi=curve,
            envelope=ONE_MECHANISM,
            reason=_REASON,
        ),
        group=GroupFacts(grouped=grouped, relative=False, copies=NO_ALLOWANCE),
        batch=BatchFacts(
            sampled=no_batch,
            shuffled=no_theorem(f"shuffled is certified for pure local randomisers, not for {name}"),
            quick=False,
            null_is_absence=False,
            divergences=BY_ITS_LOSSES,
        ),
        outcome=NO_OUTCOME,
    )


ZCDP_RULES = _promise(
    ZCDP,
    "zcdp",
    cap=lambda leaf, _, orders: zcdp_cost(leaf.rho, orders, delta=leaf.delta),
    exclusive=lambda leaf: leaf.delta > 0,  # approximate zCDP is composed concurrently by no theorem
    stated_orders=states_no_orders,
    loss_fields=frozenset({"rho"}),
    failure=lambda leaf, _: Fraction(leaf.delta),
    curve=_zcdp_curve,
    grouped=_grouped,
)
RDP_RULES = _promise(
    RDP,
    "rdp",
    cap=_rdp_cost,
    exclusive=may_overlap,
    stated_orders=lambda leaf: leaf.orders,
    loss_fields=NO_FIELDS,
    failure=never_fails,
    curve=_rdp_curve,
    grouped=no_group("rdp"),
)
OFFSET_ZCDP = _promise(
    OffsetZCDP,
    "offset_zcdp",
    cap=_offset_cost,
    exclusive=may_overlap,
    stated_orders=states_no_orders,
    loss_fields=frozenset({"rho", "xi"}),
    failure=never_fails,
    curve=lambda leaf: ConcentratedCurve(leaf.rho, ZERO, leaf.xi),
    grouped=_offset_grouped,
)
