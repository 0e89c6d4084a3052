"""What a composition tree costs, and whether a claim about it holds.

`cost` (from `costs`) prices a tree in every currency that a theorem covers; `check` refuses a claim that the tree does
not keep.

>>> from dpledger.accounting.composition import LaplaceLaw, Sequence
>>> from dpledger.accounting.guarantees import PureDP
>>> price = cost(Sequence((LaplaceLaw("0.1"), PureDP("0.2"))), Relation.ADD_REMOVE)
>>> price.pure, price.delta
(Decimal('0.3'), Decimal('0'))
>>> check(PureDP("0.29"), Sequence((LaplaceLaw("0.1"), PureDP("0.2"))), Relation.ADD_REMOVE)
Traceback (most recent call last):
...
dpledger.errors.ClaimTooSmall: claimed epsilon 0.29, the parts compose to epsilon 0.3
"""

from __future__ import annotations

import contextlib
from decimal import Decimal

from dpledger.accounting.composition import Composition, Leaf
from dpledger.accounting.guarantees import ApproxDP, BoundedRange, Guarantee, Need, PrivacyCurve
from dpledger.accounting.kinds import rules_of
from dpledger.accounting.pricing.costs import cost, priced
from dpledger.accounting.pricing.outcomes import promised
from dpledger.accounting.profile import kept_profile
from dpledger.decimals import round_up, text
from dpledger.errors import CannotCertify, ClaimTooSmall
from dpledger.relations import Relation

__all__ = ["check", "cost"]


def check(claim: Guarantee, tree: Composition, relation: Relation) -> None:
    """Raises ClaimTooSmall, with the two numbers, unless `tree` provably composes to at most `claim`.

    pure_dp: the sum of pure prices (basic composition, Dwork et al. 2006). approx_dp: the same with the sum of deltas
    (Dwork-Roth 2014, Theorem 3.16), or the certified profile of the parts (Gopi-Lee-Wutschitz 2021, Theorem 2.7).
    zcdp: the sum of rho (Bun-Steinke 2016, Lemma 2.3). gdp: the sum of mu^2 (Dong-Roth-Su 2022, Corollary 3.3). rdp:
    the sum at each order (Mironov 2017, Proposition 1). bounded_range: only a bounded_range or exponential leaf of at
    most that eta. privacy_curve: the certified profile of the parts at each of its points.
    CannotCertify if no theorem says anything about the tree in the claim's currency.

    The outcome of a run supports no claim: the tree is read as it was planned.
    """
    tree = promised(tree)
    if isinstance(claim, ApproxDP):
        _check_approximate(claim, tree, relation)
    elif isinstance(claim, PrivacyCurve):
        _check_curve(claim, tree, relation)
    elif isinstance(claim, BoundedRange):
        _require(claim, Need("eta", claim.eta, _bounded_range(tree)))
    else:
        price = priced(tree, relation, rules_of(claim).price.stated_orders(claim))
        _require(claim, *claim.needs(price))


def _check_approximate(claim: ApproxDP, tree: Composition, relation: Relation) -> None:
    """By what the tree states or the sums of epsilon and delta; if these do not do, by the engine's delta at the
    claimed epsilon, or by its epsilon at the claimed delta: each is certified, and what was planned by one is claimed
    by the other."""
    if _is_stated(claim.epsilon, claim.delta, tree) or _adds_up(claim.epsilon, claim.delta, tree, relation):
        return
    profile = kept_profile(tree, relation)
    delta = Decimal.from_float(profile.delta(claim.epsilon).upper)
    if delta > claim.delta and Decimal.from_float(profile.epsilon(claim.delta).upper) <= claim.epsilon:
        return
    _require(claim, Need(f"delta at epsilon {text(claim.epsilon)}", claim.delta, delta))


def _check_curve(claim: PrivacyCurve, tree: Composition, relation: Relation) -> None:
    """At each of its points by what the tree states, by the engine, or by the sums of epsilon and delta."""
    most, least = (dict(zip(claim.epsilons, some, strict=False)) for some in (claim.deltas, claim.reached))
    above = [at for at in most if not _is_stated(at, most[at], tree)]
    below = [at for at in least if not _is_reached(at, least[at], tree)]
    asked = sorted({*above, *below})
    found = dict(zip(asked, kept_profile(tree, relation).deltas(asked) if asked else (), strict=True))
    over = {at: delta for at in above if (delta := Decimal.from_float(found[at].upper)) > most[at]}
    with contextlib.suppress(CannotCertify):
        over = {at: delta for at, delta in over.items() if not _adds_up(at, most[at], tree, relation)}
    if over:
        _require(claim, *(Need(f"delta at epsilon {text(at)}", most[at], delta) for at, delta in over.items()))
    if any(Decimal.from_float(found[at].lower) < least[at] for at in below):
        raise CannotCertify("nothing shows that these parts reach what the claim of privacy_curve says is reached")


def _is_stated(epsilon: Decimal, delta: Decimal, tree: Composition) -> bool:
    """Whether one point of a curve that the tree is says as much, in exact decimals.

    Claim: if so, the tree is (epsilon, delta)-DP. Source: (a, b)-DP is (epsilon, delta)-DP for every epsilon >= a and
    delta >= b, by its definition.
    """
    return isinstance(tree, PrivacyCurve) and tree.epsilon_at(delta) <= epsilon


def _adds_up(epsilon: Decimal, delta: Decimal, tree: Composition, relation: Relation) -> bool:
    """Whether the sums of the parts' epsilon and delta are no more. Source: Dwork-Roth 2014, Theorem 3.16."""
    price = priced(tree, relation, ())
    return price.pure is not None and price.pure <= epsilon and price.delta <= delta


def _is_reached(epsilon: Decimal, least: Decimal, tree: Composition) -> bool:
    """Whether a curve that the tree is says that its delta reaches so much at an epsilon as large: delta falls."""
    known = zip(tree.epsilons, tree.reached, strict=False) if isinstance(tree, PrivacyCurve) else ()
    return least == 0 or any(at >= epsilon and reached >= least for at, reached in known)


def _bounded_range(tree: Composition) -> Decimal:
    envelope = rules_of(tree).pair.envelope if isinstance(tree, Leaf) else None
    if envelope is None:
        raise CannotCertify(f"no theorem gives a bounded range to a {tree.kind}")
    return envelope.eta(tree)


def _require(claim: Guarantee, *needs: Need) -> None:
    if not needs:
        raise CannotCertify(f"nothing is known that a claim of {claim.kind} asks of its parts")
    for name, claimed, found in needs:
        if found is None:
            raise CannotCertify(
                f"no theorem prices these parts in {name}, so the claim of {claim.kind} cannot be checked"
            )
        if found > claimed:
            raise ClaimTooSmall(f"claimed {name} {claimed:f}, the parts compose to {name} {round_up(found)}")
