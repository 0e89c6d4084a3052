"""Whether a price shows that a guarantee holds: the conversions of one guarantee to a weaker one, tried in turn.

>>> from dpledger.accounting.guarantees import ApproxDP
>>> price = Cost(pure=None, rho=Decimal("0.1"), mu_squared=None)
>>> keeps(price, ApproxDP("2.15", "1e-6")), keeps(price, ApproxDP("2.13", "1e-6"))
(True, False)
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal, localcontext

from dpledger.accounting.arithmetic import outward
from dpledger.accounting.arithmetic.conversions import epsilon_of_gdp, epsilon_of_rdp, epsilon_of_zcdp
from dpledger.accounting.arithmetic.prices import Cost
from dpledger.accounting.composition import Composition, Converted, leaves
from dpledger.accounting.guarantees import Guarantee, PrivacyCurve
from dpledger.accounting.kinds import rules_of
from dpledger.decimals import subtract
from dpledger.errors import CannotCertify
from dpledger.relations import Relation

__all__ = ["keeps", "orders_for", "require_kept"]


def keeps(price: Cost, claim: Guarantee) -> bool:
    """Whether what costs `price` provably meets `claim`.

    Claim: True only if it does. Source: `conversions`, each formula by its name; a price in the currency of the claim
    itself. A bounded range follows from no price, nor what a privacy curve says is reached.
    """
    needs = claim.needs(price)
    if needs:
        return all(need.found is not None and need.found <= need.claimed for need in needs)
    if isinstance(claim, PrivacyCurve) and any(claim.reached):
        return False
    return bool(claim.points) and all(_shows(price, *point) for point in claim.points)


def require_kept(tree: Converted, relation: Relation, price: Cost) -> None:
    """CannotCertify unless the part of a converted node, at its price under the inner relation, keeps the promise, and
    the relation outside is that one, or a label flip where it is replace_one: flipping a label replaces a unit."""
    if relation is not tree.relation and (tree.relation, relation) != (Relation.REPLACE_ONE, Relation.LABEL_FLIP):
        raise CannotCertify(f"a conversion under {tree.relation.value} does not cover {relation.value}: use a group")
    if not keeps(price, tree.to):
        raise CannotCertify(f"no conversion of this {tree.of.kind} gives the {tree.to.kind} that is stated")


def orders_for(claim: Guarantee, tree: Composition) -> tuple[Decimal, ...]:
    """The Renyi orders at which `tree` is to be priced: those of the claim, or those that its leaves state."""
    stated = rules_of(claim).price.stated_orders(claim)
    if stated:
        return stated
    return tuple(sorted({order for leaf in leaves(tree) for order in rules_of(leaf).price.stated_orders(leaf)}))


def _shows(price: Cost, epsilon: Decimal, delta: Decimal) -> bool:
    return delta >= 1 or any(found <= epsilon for found in _epsilons(price, delta))


def _epsilons(price: Cost, delta: Decimal) -> Iterator[Decimal]:
    """Every epsilon that the price means at `delta`, of which its own delta is a part."""
    if price.pure is not None and price.delta <= delta:
        yield price.pure
    if not price.delta < delta:
        return
    left = subtract(delta, price.delta)
    if price.rho is not None:
        yield epsilon_of_zcdp(price.rho, left)
    if price.mu_squared is not None:
        with localcontext(outward.context(price.mu_squared)):
            mu = outward.above(price.mu_squared.sqrt())
        yield epsilon_of_gdp(mu, left)
    for order, divergence in price.rdp.items():
        if divergence is not None:
            yield epsilon_of_rdp(order, divergence, left)
