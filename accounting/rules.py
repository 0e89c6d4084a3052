"""What a composition tree costs, and whether a claim about it holds: one rule a leaf, one rule a node.

`cost` prices a tree in every currency that a theorem covers; `check` refuses a claim that the tree does not keep. A
tree without outcomes is priced at its cap, one with outcomes at what its theorem lets settle.

>>> price = cost(Sequence((LaplaceLaw("0.1"), PureDP("0.2"))), Relation.ADD_REMOVE)
>>> price.pure, price.delta
(Decimal('0.3'), Decimal('0'))
>>> check(PureDP("0.29"), Sequence((LaplaceLaw("0.1"), PureDP("0.2"))), Relation.ADD_REMOVE)
Traceback (most recent call last):
...
dpledger.errors.ClaimTooSmall: claimed epsilon 0.29, the parts compose to epsilon 0.3
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, reduce
from typing import assert_never

from dpledger.accounting import filters, outward, prices, sparse_vectors
from dpledger.accounting.composition import (
    Composition,
    DiscreteGaussianLaw,
    DiscreteLaplaceLaw,
    Filtered,
    GaussianLaw,
    LaplaceLaw,
    Parallel,
    PoissonSampled,
    PostProcessed,
    Repeated,
    Sequence,
    SparseVectorLaw,
    planned,
)
from dpledger.accounting.conversions import mu_squared_of_pure, rdp_of_pure, zcdp_of_pure
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, BoundedRange, Guarantee, PureDP
from dpledger.accounting.laws.subsampled import rdp_upper
from dpledger.accounting.prices import Cost
from dpledger.accounting.profile import compose
from dpledger.decimals import ZERO, multiply, round_down, round_up, text
from dpledger.errors import CannotCertify, ClaimTooSmall, ParameterError
from dpledger.relations import Relation

__all__ = ["check", "cost"]

Orders = tuple[Decimal, ...]
HALF = Decimal("0.5")
EIGHTH = Decimal("0.125")


def cost(tree: Composition, relation: Relation, *, orders: Orders = ()) -> Cost:
    """The price of `tree` under `relation`, in each currency; in RDP at the `orders` asked for (each above 1).

    Claim: the tree meets each guarantee that the result has a price for, with its delta.
    Source: docs/proofs/filters.md, "Prices", and the source that each rule names.
    Raises CannotCertify if no currency has a price, ParameterError for parameters that no law has.
    """
    _require_orders(orders)
    result = _cost(tree, relation, orders)
    if result.is_unknown():
        raise CannotCertify(f"no theorem prices this {tree.kind} under {relation.value}")
    return result


def _require_orders(orders: Orders) -> None:
    for order in orders:
        if not (order.is_finite() and order > 1):
            raise ParameterError("orders", order, "Renyi orders above 1")


def _cost(tree: Composition, relation: Relation, orders: Orders) -> Cost:
    match tree:
        case PureDP(epsilon=epsilon):
            return _of_pure(epsilon, orders)
        case ApproxDP(epsilon=epsilon, delta=delta):
            return _of_approximate(epsilon, delta, orders)
        case ZCDP(rho=rho, delta=delta):
            return _of_zcdp(rho, orders, delta=delta)
        case GDP(mu=mu):
            return _of_gdp(multiply(mu, mu), orders)
        case RDP():
            rdp = {order: prices.interpolated_rdp(tree.orders, tree.epsilons, order) for order in orders}
            return Cost(pure=None, rho=None, mu_squared=None, rdp=rdp)
        case BoundedRange(eta=eta):
            return _of_bounded_range(eta, orders)
        case LaplaceLaw(epsilon=epsilon):
            return _of_laplace(epsilon, orders)
        case GaussianLaw():
            return _of_gdp(_gaussian_mu_squared(tree, relation), orders)
        case DiscreteLaplaceLaw():
            return _of_discrete_laplace(tree, orders)
        case DiscreteGaussianLaw(sigma=sigma, sensitivity=sensitivity):
            rho = round_up(multiply(prices.gaussian_mu_squared(sensitivity, sigma), HALF))
            return _of_zcdp(rho, orders)
        case SparseVectorLaw():
            return _of_sparse_vector(tree, orders)
        case Sequence(of=parts):
            return reduce(Cost.__add__, _costs(parts, relation, orders))
        case Repeated():  # one outcome says nothing about the other runs: each counts at its cap
            return _cost(planned(tree.of), relation, orders).times(_runs(tree))
        case PoissonSampled():
            return _of_sampled(tree, relation, orders)
        case Parallel(of=parts):
            return _of_parallel(parts, relation, orders)
        case PostProcessed(of=part):
            return _cost(part, relation, orders)
        case Filtered():
            return _of_filtered(tree, relation, orders)
        case _:
            assert_never(tree)


# ---- leaves ---------------------------------------------------------------------------------------------------------


def _of_pure(epsilon: Decimal, orders: Orders) -> Cost:
    """Pure DP in every currency. Source: conversions.zcdp_of_pure, mu_squared_of_pure, rdp_of_pure."""
    return Cost(
        pure=epsilon,
        rho=zcdp_of_pure(epsilon),
        mu_squared=mu_squared_of_pure(epsilon),
        rdp={order: rdp_of_pure(epsilon, order) for order in orders},
    )


def _of_approximate(epsilon: Decimal, delta: Decimal, orders: Orders) -> Cost:
    """(epsilon, delta)-DP: with probability 1 - delta an epsilon-DP mechanism (Kairouz-Oh-Viswanath 2015, Theorem 2.1),
    so the pure prices hold for the rest, beside delta. GDP has no delta."""
    if not delta:
        return _of_pure(epsilon, orders)
    return Cost(
        pure=epsilon,
        delta=delta,
        rho=zcdp_of_pure(epsilon),
        mu_squared=None,
        rdp={order: rdp_of_pure(epsilon, order) for order in orders},
    )


def _of_zcdp(rho: Decimal, orders: Orders, *, delta: Decimal = ZERO) -> Cost:
    """zCDP: the divergence of order a is at most a*rho. Source: Bun-Steinke 2016, Definition 1.1."""
    rdp = {order: round_up(multiply(rho, order)) for order in orders}
    return Cost(pure=None, delta=delta, rho=rho, mu_squared=None, rdp=rdp)


def _of_gdp(mu_squared: Decimal, orders: Orders) -> Cost:
    """mu-GDP: mu^2/2-zCDP. Source: Dong-Roth-Su 2022, Corollary B.6."""
    half = multiply(mu_squared, HALF)
    rdp = {order: round_up(multiply(half, order)) for order in orders}
    return Cost(pure=None, rho=round_up(half), mu_squared=mu_squared, rdp=rdp)


def _of_bounded_range(eta: Decimal, orders: Orders) -> Cost:
    """eta-bounded range: eta-DP and eta^2/8-zCDP. Source: Cesar-Rogers 2021, Lemma 3.2; Dong-Durfee-Rogers 2020."""
    exact = multiply(multiply(eta, eta), EIGHTH)
    rdp = {order: min(round_up(multiply(exact, order)), rdp_of_pure(eta, order)) for order in orders}
    return Cost(pure=eta, rho=min(round_up(exact), zcdp_of_pure(eta)), mu_squared=None, rdp=rdp)


def _of_laplace(epsilon: Decimal, orders: Orders) -> Cost:
    return Cost(
        pure=epsilon,
        rho=prices.laplace_rho(epsilon),
        mu_squared=prices.laplace_mu_squared(epsilon),
        rdp={order: prices.laplace_rdp(epsilon, order) for order in orders},
    )


def _of_discrete_laplace(law: DiscreteLaplaceLaw, orders: Orders) -> Cost:
    """GDP at the price of any mechanism with this epsilon: the scalar law's own does not hold in many dimensions."""
    epsilon = prices.discrete_laplace_epsilon(law.scale, law.sensitivity)
    return Cost(
        pure=epsilon,
        rho=prices.discrete_laplace_rho(law.scale, law.sensitivity),
        mu_squared=mu_squared_of_pure(epsilon),
        rdp={order: prices.discrete_laplace_rdp(law.scale, law.sensitivity, order) for order in orders},
    )


def _gaussian_mu_squared(law: GaussianLaw, relation: Relation) -> Decimal:
    """The mean moves by one contribution when a unit comes, goes or becomes null, by two when it is exchanged."""
    match relation:
        case Relation.ADD_REMOVE | Relation.ZERO_OUT:
            return prices.gaussian_mu_squared(1, law.noise_multiplier)
        case Relation.REPLACE_ONE | Relation.LABEL_FLIP:
            return prices.gaussian_mu_squared(2, law.noise_multiplier)
        case _:
            assert_never(relation)


def _of_sparse_vector(law: SparseVectorLaw, orders: Orders) -> Cost:
    """The cap, once the scales are shown to keep it. With an outcome the pure price settles to the realised loss; delta
    and the other currencies are not refunded. No Renyi price but through rho: an epsilon above about 0.2 is then
    charged as an epsilon, the currency in which the outcome is refunded. Source: docs/proofs/filters.md, "Refunds"."""
    plan = planned(law)
    assert isinstance(plan, SparseVectorLaw)
    sparse_vectors.certify(plan)
    cap = replace(_of_approximate(law.epsilon, law.delta, orders), rdp=dict.fromkeys(orders))
    if law.outcome is None:
        return cap
    settled = min(law.epsilon, sparse_vectors.ex_post_epsilon(law, law.outcome))
    return Cost(pure=settled, delta=cap.delta, rho=cap.rho, mu_squared=cap.mu_squared, rdp=cap.rdp)


# ---- nodes ----------------------------------------------------------------------------------------------------------


def _costs(parts: tuple[Composition, ...], relation: Relation, orders: Orders) -> Iterator[Cost]:
    return (_cost(part, relation, orders) for part in parts)


def _runs(tree: Repeated) -> int:
    """How many runs are charged: those that were started, once that is known."""
    if tree.done is None:
        return tree.times
    if tree.done > tree.times:
        raise ParameterError("Repeated.done", tree.done, f"at most {tree.times}, the number of runs planned")
    return tree.done


def _of_parallel(parts: tuple[Composition, ...], relation: Relation, orders: Orders) -> Cost:
    """Disjoint parts: under add_remove a neighbour changes one part, so the greatest price counts.

    Source: McSherry 2009, Theorem 4. A unit that is exchanged may leave one part and enter another: no price.
    """
    if relation is not Relation.ADD_REMOVE:
        raise CannotCertify(f"parallel parts are priced by their maximum under add_remove only, not {relation.value}")
    return reduce(Cost.or_worse, _costs(parts, relation, orders))


def _of_sampled(tree: PoissonSampled, relation: Relation, orders: Orders) -> Cost:
    """A secret Poisson sample: a Gaussian at its Renyi divergence, anything else by its amplified (epsilon, delta).

    Source: laws.subsampled.rdp_upper (a mu-GDP mechanism is dominated by a Gaussian, and so is its sample:
    Zhu-Dong-Wang 2022, Theorem 11); prices.amplified_epsilon.
    Assumes: under zero_out a null unit adds nothing to a Gaussian's mean, so that a batch with it is a batch without
    the unit; no other mechanism says so, hence no price there.
    """
    part = tree.of
    while isinstance(part, PostProcessed):
        part = part.of
    if tree.rate == 1:
        return _cost(part, relation, orders)
    match part:
        case GaussianLaw(noise_multiplier=noise) if relation in (Relation.ADD_REMOVE, Relation.ZERO_OUT):
            return _of_sampled_gaussian(tree.rate, noise, orders)
        case GDP(mu=mu) if relation is Relation.ADD_REMOVE and mu:
            return _of_sampled_gaussian(tree.rate, round_down(1 / Fraction(mu)), orders)
        case _ if relation is not Relation.ADD_REMOVE:
            raise CannotCertify(f"no theorem prices a Poisson sample of {part.kind} under {relation.value}")
        case _:
            return _of_amplified(part, tree.rate, orders)


def _of_sampled_gaussian(rate: Decimal, noise_multiplier: Decimal, orders: Orders) -> Cost:
    rdp = {order: _sampled_gaussian_rdp(rate, noise_multiplier, order) for order in orders}
    return Cost(pure=None, rho=None, mu_squared=None, rdp=rdp)


@lru_cache(maxsize=1024)
def _sampled_gaussian_rdp(rate: Decimal, noise_multiplier: Decimal, order: Decimal) -> Decimal:
    """The certified price, or the whole Gaussian's where that is smaller: a sample mixes runs with the unit and runs
    without it, and the Renyi divergence is quasi-convex (van Erven-Harremoes 2014, Theorem 13)."""
    whole = round_up(multiply(multiply(prices.gaussian_mu_squared(1, noise_multiplier), HALF), order))
    sampled = Decimal(rdp_upper(rate, noise_multiplier, order))
    return min(whole, outward.above(sampled)) if sampled.is_finite() else whole


def _of_amplified(part: Composition, rate: Decimal, orders: Orders) -> Cost:
    whole = _cost(part, Relation.ADD_REMOVE, ())
    if whole.pure is None:
        return Cost(pure=None, rho=None, mu_squared=None, rdp=dict.fromkeys(orders))
    return _of_approximate(prices.amplified_epsilon(whole.pure, rate), round_up(multiply(whole.delta, rate)), orders)


def _of_filtered(tree: Filtered, relation: Relation, orders: Orders) -> Cost:
    """The filter's budget, once a replay of its charges shows that each was admitted.

    Assumes: every charge was admitted before it ran. The replay takes each at its cap with the earlier ones settled,
    which every order of settling needs. Source: docs/proofs/filters.md.
    """
    sums = filters.opening(tree.filter)
    for number, part in enumerate(tree.of):
        wanted = filters.orders(tree.filter)
        reserved = filters.charge(tree.filter, _cost(planned(part), relation, wanted))
        if not filters.admits(tree.filter, filters.with_charge(tree.filter, sums, reserved)):
            raise CannotCertify(f"part {number} of a filtered node would not have been admitted by its filter")
        settled = filters.settle(tree.filter, reserved, _cost(part, relation, wanted))
        sums = filters.with_charge(tree.filter, sums, settled)
    return _cost(filters.budget_guarantee(tree.filter), relation, orders)


# ---- claims ---------------------------------------------------------------------------------------------------------


def check(claim: Guarantee, tree: Composition, relation: Relation) -> None:
    """Raises ClaimTooSmall, with the two numbers, unless `tree` provably composes to at most `claim`.

    pure_dp: the sum of pure prices (basic composition, Dwork et al. 2006). approx_dp: the same with the sum of deltas
    (Dwork-Roth 2014, Theorem 3.16), or the certified profile of the parts (Gopi-Lee-Wutschitz 2021, Theorem 2.7).
    zcdp: the sum of rho (Bun-Steinke 2016, Lemma 2.3). gdp: the sum of mu^2 (Dong-Roth-Su 2022, Corollary 3.3). rdp:
    the sum at each order (Mironov 2017, Proposition 1). bounded_range: only a bounded_range leaf of at most that eta.
    CannotCertify if no theorem says anything about the tree in the claim's currency.
    """
    match claim:
        case PureDP(epsilon=epsilon):
            price = _cost(tree, relation, ())
            _require(claim, ("epsilon", epsilon, price.pure), ("delta", ZERO, price.delta))
        case ApproxDP():
            _check_approximate(claim, tree, relation)
        case ZCDP(rho=rho, delta=delta):
            price = _cost(tree, relation, ())
            _require(claim, ("rho", rho, price.rho), ("delta", delta, price.delta))
        case GDP(mu=mu):
            price = _cost(tree, relation, ())
            _require(claim, ("mu^2", multiply(mu, mu), price.mu_squared), ("delta", ZERO, price.delta))
        case RDP(orders=orders, epsilons=epsilons):
            price = _cost(tree, relation, orders)
            wanted = ((f"epsilon({text(a)})", e, price.rdp.get(a)) for a, e in zip(orders, epsilons, strict=True))
            _require(claim, *wanted, ("delta", ZERO, price.delta))
        case BoundedRange(eta=eta):
            if not isinstance(tree, BoundedRange):
                raise CannotCertify(f"no theorem gives a bounded range to a {tree.kind}")
            _require(claim, ("eta", eta, tree.eta))
        case _:
            assert_never(claim)


def _check_approximate(claim: ApproxDP, tree: Composition, relation: Relation) -> None:
    """By the sums of epsilon and delta; if these do not do, by the engine's delta at the claimed epsilon."""
    price = _cost(tree, relation, ())
    if price.pure is not None and price.pure <= claim.epsilon and price.delta <= claim.delta:
        return
    delta = Decimal(compose(tree, relation).delta(claim.epsilon).upper)
    _require(claim, (f"delta at epsilon {text(claim.epsilon)}", claim.delta, delta))


def _require(claim: Guarantee, *numbers: tuple[str, Decimal, Decimal | None]) -> None:
    for name, claimed, found in numbers:
        if found is None:
            raise CannotCertify(
                f"no theorem gives these parts a {name}, so the claim of {claim.kind} cannot be checked"
            )
        if found > claimed:
            raise ClaimTooSmall(f"claimed {name} {text(claimed)}, the parts compose to {name} {round_up(found)}")
