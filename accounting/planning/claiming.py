"""What a tree may be said to promise, where nobody says it: the first of these guarantees that a theorem gives it.

>>> from dpledger.accounting.composition import GaussianLaw, LaplaceLaw, Sequence
>>> promise(Sequence((LaplaceLaw("0.1"), LaplaceLaw("0.2"))), Relation.ADD_REMOVE, Decimal("1e-6"))
PureDP(epsilon=Decimal('0.3'), kind='pure_dp')
>>> promise(GaussianLaw(2), Relation.ADD_REMOVE, Decimal("1e-6")).rho
Decimal('0.125')
"""

from __future__ import annotations

import math
from decimal import Decimal

from dpledger.accounting import rules
from dpledger.accounting.arithmetic.prices import with_margin
from dpledger.accounting.composition import Composition
from dpledger.accounting.guarantees import GUARANTEES, RDP, ZCDP, ApproxDP, Guarantee, PureDP
from dpledger.accounting.pricing.batches import in_floats
from dpledger.accounting.pricing.costs import priced
from dpledger.accounting.profile import kept_profile
from dpledger.decimals import multiply, round_up
from dpledger.errors import CannotCertify, ClaimTooSmall, ParameterError
from dpledger.relations import Relation

__all__ = ["promise", "require_guarantee"]

ORDERS: tuple[Decimal, ...] = tuple(Decimal(order) for order in range(2, 65))
"""The Renyi orders of a promise: those that DP-SGD claims."""


def promise(tree: Composition, relation: Relation, delta: Decimal) -> Guarantee:
    """What planned `tree` promises: itself, if it is a guarantee; else the sum of epsilons, of Renyi divergences or of
    rho, whichever has a price first; else approx_dp at `delta`, by the certified profile.

    A number that floating point has a part in is stated with the margin of prices, so that other machines confirm it.

    Claim: the tree keeps it: it is held against `rules.check`. Source: that of `rules.check`. Raises CannotCertify
    where no theorem gives the tree any of them."""
    if isinstance(tree, GUARANTEES):
        return tree
    reason = ""
    for way in (_by_epsilons, _by_orders, _by_rho, _by_profile):
        try:
            found = way(tree, relation, delta)
            if found is not None:
                rules.check(found, tree, relation)
                return found
        except CannotCertify as error:
            reason = f" ({error})"
        except ClaimTooSmall:
            continue
    raise CannotCertify(
        f"no theorem says what these parts promise at delta {delta:f}{reason}: state what the whole guarantees, like "
        "ApproxDP(1, '1e-6'), as claim= or in place of the parts"
    )


def require_guarantee(claim: object) -> Guarantee:
    """`claim`, if it is a guarantee; else ParameterError."""
    if not isinstance(claim, GUARANTEES):
        raise ParameterError("claim", type(claim).__name__, "a guarantee, like PureDP(1)")
    return claim


def _by_epsilons(tree: Composition, relation: Relation, _: Decimal) -> Guarantee | None:
    price = priced(tree, relation, ())
    if price.pure is None or not price.pure.is_finite():
        return None
    epsilon = round_up(price.pure)
    return ApproxDP(epsilon, price.delta) if price.delta else PureDP(epsilon)


def _by_orders(tree: Composition, relation: Relation, _: Decimal) -> Guarantee | None:
    """Where it says more than rho does: as of sampled noise, whose rho is that of the noise alone."""
    price = rules.cost(tree, relation, orders=ORDERS)
    known = {order: one for order, one in price.rdp.items() if one is not None and one.is_finite()}
    least = known.get(ORDERS[0])
    if not known or (price.rho is not None and (least is None or least >= multiply(price.rho, ORDERS[0]))):
        return None
    stated = {order: with_margin(one) if in_floats(tree) else one for order, one in known.items()}
    return RDP(tuple(stated), tuple(one for one in stated.values() if one is not None))


def _by_rho(tree: Composition, relation: Relation, _: Decimal) -> Guarantee | None:
    price = priced(tree, relation, ())
    if price.rho is None or not price.rho.is_finite():
        return None
    rho = with_margin(price.rho) if in_floats(tree) else None
    return ZCDP(round_up(price.rho) if rho is None else rho, price.delta)


def _by_profile(tree: Composition, relation: Relation, delta: Decimal) -> Guarantee | None:
    upper = kept_profile(tree, relation).epsilon(delta).upper
    epsilon = None if math.isinf(upper) else with_margin(round_up(upper))
    return None if epsilon is None else ApproxDP(epsilon, delta)
