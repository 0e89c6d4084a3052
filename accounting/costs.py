"""What a composition tree costs in every currency that a theorem covers: one rule a leaf, one rule a node.

A tree without outcomes is priced at its cap, one with outcomes at what its theorem lets settle. A node that amplifies
never costs more than what it runs: its outputs mix runs with the unit and runs without it, and every currency here is
quasi-convex in the pair (docs/proofs/amplification.md, section 6).

>>> price = cost(Sequence((LaplaceLaw("0.1"), PureDP("0.2"))), Relation.ADD_REMOVE)
>>> price.pure, price.delta
(Decimal('0.3'), Decimal('0'))
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from typing import assert_never

from dpledger.accounting import filters, prices, sparse_vectors
from dpledger.accounting.batches import batch_rdp, batch_rho, one_leaf, sampled_gaussian_rdp
from dpledger.accounting.composition import (
    Composition,
    Converted,
    DiscreteGaussianLaw,
    DiscreteLaplaceLaw,
    ExponentialLaw,
    Filtered,
    GaussianLaw,
    Group,
    LaplaceLaw,
    Parallel,
    PmfPair,
    PoissonSampled,
    PostProcessed,
    RandomAllocation,
    RandomizedResponseLaw,
    Repeated,
    SampledWithoutReplacement,
    Sequence,
    Shuffled,
    SparseVectorLaw,
    planned,
)
from dpledger.accounting.conversions import mu_squared_of_pure, rdp_of_pure, zcdp_of_pure
from dpledger.accounting.converting import orders_for, require_kept
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, BoundedRange, Guarantee, PrivacyCurve, PureDP
from dpledger.accounting.laws.draws import EVERYONE, Allocation, Draw, Drawn, Poisson, Shuffle, Subset
from dpledger.accounting.prices import Cost
from dpledger.decimals import ZERO, multiply, round_down, round_up
from dpledger.errors import CannotCertify, ParameterError
from dpledger.relations import Relation

__all__ = ["admitted_guarantee", "converted_guarantee", "cost", "priced", "require_group"]

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
    result = priced(tree, relation, orders)
    if result.is_unknown():
        raise CannotCertify(
            f"no theorem prices this {tree.kind} under {relation.value}: state what the whole guarantees, as approx_dp"
        )
    return result


def _require_orders(orders: Orders) -> None:
    for order in orders:
        if not (order.is_finite() and order > 1):
            raise ParameterError("orders", order, "Renyi orders above 1")


def priced(tree: Composition, relation: Relation, orders: Orders) -> Cost:
    """As `cost`, for orders that are known to be above 1; a currency without a price is None, all of them may be."""
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
        case PrivacyCurve(epsilons=epsilons, deltas=deltas):
            return _of_approximate(epsilons[-1], deltas[-1], orders)
        case ExponentialLaw(epsilon=epsilon):
            return _of_bounded_range(epsilon, orders)
        case LaplaceLaw(epsilon=epsilon):
            return _of_laplace(epsilon, orders)
        case GaussianLaw():
            return _of_gdp(_gaussian_mu_squared(tree, relation), orders)
        case DiscreteLaplaceLaw():
            return _of_discrete_laplace(tree, orders)
        case DiscreteGaussianLaw(sigma=sigma, sensitivity=sensitivity):
            rho = round_up(multiply(prices.gaussian_mu_squared(sensitivity, sigma), HALF))
            return _of_zcdp(rho, orders)
        case RandomizedResponseLaw(epsilon=epsilon):
            return _on_batch(tree, EVERYONE, _of_pure(epsilon, orders), relation, orders)
        case PmfPair():
            return _of_pmf(tree, orders)
        case SparseVectorLaw():
            return _of_sparse_vector(tree, orders)
        case Sequence(of=parts):
            return reduce(Cost.__add__, _costs(parts, relation, orders))
        case Repeated():  # one outcome says nothing about the other runs: each counts at its cap
            return priced(planned(tree.of), relation, orders).times(_runs(tree))
        case PoissonSampled():
            return _of_sampled(tree, relation, orders)
        case SampledWithoutReplacement():
            return _of_subset(tree, relation, orders)
        case Shuffled(of=part, users=users):
            if relation is not Relation.REPLACE_ONE:
                raise CannotCertify(f"shuffled is priced under replace_one only, not under {relation.value}")
            whole = priced(planned(part), relation, orders)  # run by many, and one outcome is not everyone's
            return _on_batch(planned(part), Shuffle(users), whole, relation, orders) if users > 1 else whole
        case RandomAllocation(of=part, steps=steps):
            whole = priced(planned(part), relation, orders)
            return _on_batch(planned(part), Allocation(steps), whole, relation, orders) if steps > 1 else whole
        case Group():
            return _of_group(tree, relation, orders)
        case Parallel(of=parts):
            return _of_parallel(parts, relation, orders)
        case PostProcessed(of=part):
            return priced(part, relation, orders)
        case Converted():
            return priced(converted_guarantee(tree, relation), relation, orders)
        case Filtered():
            return priced(admitted_guarantee(tree, relation), relation, orders)
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
    """eta-bounded range: eta-DP, eta^2/8-zCDP, and the mu-GDP of an eta/2-DP mechanism, which is the least that holds.
    Source: Cesar-Rogers 2021, Lemma 3.2; Dong-Durfee-Rogers 2020; docs/proofs/filters.md, "Prices"."""
    exact = multiply(multiply(eta, eta), EIGHTH)
    rdp = {order: min(round_up(multiply(exact, order)), rdp_of_pure(eta, order)) for order in orders}
    return Cost(
        pure=eta,
        rho=min(round_up(exact), zcdp_of_pure(eta)),
        mu_squared=mu_squared_of_pure(multiply(eta, HALF)),
        rdp=rdp,
    )


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


def _of_pmf(pair: PmfPair, orders: Orders) -> Cost:
    """The largest finite loss of either direction as epsilon, the larger mass at infinity as delta (every event is
    P(S) <= e^epsilon Q(S) + delta); without such mass, the larger Renyi divergence. Source: Mironov 2017, Definition 3.
    """
    delta = prices.pmf_failure(pair.left, pair.right)
    whole = _of_approximate(prices.pmf_epsilon(pair.left, pair.right), delta, orders)
    if delta:
        return whole
    rdp = {order: prices.pmf_rdp(pair.left, pair.right, order) for order in orders}
    return replace(whole, rdp=rdp)


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
    return (priced(part, relation, orders) for part in parts)


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
    """A secret Poisson sample: a Gaussian at its Renyi divergence, anything else by its amplified (epsilon, delta) or
    the transform of its own pair, and never at more than the whole costs.

    No outcome is refunded here: an amplified realised loss is no price in the currencies that need one beforehand.
    Source: batches.sampled_gaussian_rdp (a mu-GDP mechanism is dominated by a Gaussian, and so is its sample:
    Zhu-Dong-Wang 2022, Theorem 11); prices.amplified_epsilon.
    Assumes: under zero_out a null unit adds nothing to a Gaussian's mean, so that a batch with it is a batch without
    the unit; no other mechanism says so, hence no price there.
    """
    part = planned(tree.of)
    while isinstance(part, PostProcessed):
        part = part.of
    if tree.rate == 1:
        return priced(part, relation, orders)
    match part:
        case GaussianLaw(noise_multiplier=noise) if relation in (Relation.ADD_REMOVE, Relation.ZERO_OUT):
            return _of_sampled_gaussian(tree.rate, noise, priced(part, relation, ()), orders)
        case GDP(mu=mu) if relation is Relation.ADD_REMOVE and mu:
            return _of_sampled_gaussian(tree.rate, round_down(1 / Fraction(mu)), priced(part, relation, ()), orders)
        case _ if relation is not Relation.ADD_REMOVE:
            raise CannotCertify(f"no theorem prices a Poisson sample of {part.kind} under {relation.value}")
        case _:
            amplified = _amplified(priced(part, relation, orders), tree.rate, orders)
            return _on_batch(part, Poisson(tree.rate), amplified, relation, orders)


def _on_batch(part: Composition, how: Draw, price: Cost, relation: Relation, orders: Orders) -> Cost:
    """`price`, or what the pair of the batch itself costs, where that is less. Source: `batches`."""
    leaf = None if price.delta else one_leaf(part, relation)
    if leaf is None:
        return price
    drawn = Drawn(leaf, how)
    rdp = {order: batch_rdp(drawn, relation, order) for order in orders}
    return price.or_better(Cost(pure=None, rho=batch_rho(drawn, relation), mu_squared=None, rdp=rdp))


def _of_sampled_gaussian(rate: Decimal, noise_multiplier: Decimal, whole: Cost, orders: Orders) -> Cost:
    rdp = {order: sampled_gaussian_rdp(rate, noise_multiplier, order) for order in orders}
    return replace(whole, rdp=rdp)


def _amplified(whole: Cost, rate: Decimal, orders: Orders) -> Cost:
    """The amplified (epsilon, delta); without delta the other currencies at their whole price, where that is less."""
    if whole.pure is None:
        return whole if not whole.delta else Cost(pure=None, rho=None, mu_squared=None, rdp=dict.fromkeys(orders))
    delta = min(whole.delta, round_up(multiply(whole.delta, rate)))
    amplified = _of_approximate(prices.amplified_epsilon(whole.pure, rate), delta, orders)
    return amplified if whole.delta else amplified.or_better(whole)


def _of_subset(tree: SampledWithoutReplacement, relation: Relation, orders: Orders) -> Cost:
    """m of n units without replacement: (epsilon, delta) amplified with the rate m/n, other currencies at their whole
    price. Source: Balle-Barthe-Gaboardi 2018, Theorem 9; docs/proofs/amplification.md, sections 3 and 6."""
    if relation is not Relation.REPLACE_ONE:
        raise CannotCertify(f"sampled_without_replacement is priced under replace_one only, not {relation.value}")
    whole = priced(planned(tree.of), relation, orders)
    if tree.batch == tree.population:
        return whole
    amplified = _amplified(whole, round_up(Fraction(tree.batch, tree.population)), orders)
    return _on_batch(planned(tree.of), Subset(tree.population, tree.batch), amplified, relation, orders)


def require_group(tree: Group, relation: Relation) -> None:
    """CannotCertify unless a step of `relation` (or k of them) is k steps of the inner one."""
    match tree.relation, relation:
        case inner, outer if inner is outer:
            return
        case ((Relation.ADD_REMOVE | Relation.ZERO_OUT), Relation.REPLACE_ONE) if tree.k == 2:
            return
        case Relation.REPLACE_ONE, Relation.LABEL_FLIP if tree.k == 1:
            return
        case _:
            raise CannotCertify(f"{tree.k} steps of {tree.relation.value} are not known to be one of {relation.value}")


def _of_group(tree: Group, relation: Relation, orders: Orders) -> Cost:
    """k epsilon, with the delta of `group_delta`; without delta also k^2 rho and k^2 mu^2.

    The delta is that of the plan: an outcome lowers the epsilon, k times over (a pure bound of the pattern chains), but
    the good part misses what the epsilon fixed beforehand lets it miss.
    Source: Vadhan 2017, Lemma 2.2; Bun-Steinke 2016, Proposition 1.9; Dong-Roth-Su 2022, Theorem 2.14;
    docs/proofs/filters.md, "Refunds".
    """
    require_group(tree, relation)
    inner, k = priced(tree.of, tree.relation, ()), tree.k
    pure = None if inner.pure is None else multiply(inner.pure, k)
    if inner.delta:
        cap = priced(planned(tree.of), tree.relation, ())
        delta = None if cap.pure is None else prices.group_delta(cap.pure, cap.delta, k)
        if delta is None:
            raise CannotCertify(f"a group of {k} has a delta of 1 or more, or no epsilon to go with it")
        return Cost(pure=pure, delta=delta, rho=None, mu_squared=None, rdp=dict.fromkeys(orders))
    square = k * k
    rho = None if inner.rho is None else multiply(inner.rho, square)
    return Cost(
        pure=pure,
        rho=rho,
        mu_squared=None if inner.mu_squared is None else multiply(inner.mu_squared, square),
        rdp={order: None if rho is None else round_up(multiply(rho, order)) for order in orders},
    )


def converted_guarantee(tree: Converted, relation: Relation) -> Guarantee:
    """What a converted node promises, once its part is shown to keep it; else CannotCertify."""
    require_kept(tree, relation, priced(planned(tree.of), tree.relation, orders_for(tree.to, tree.of)))
    return tree.to


def admitted_guarantee(tree: Filtered, relation: Relation) -> Guarantee:
    """The filter's budget, once a replay of its charges shows that each was admitted; else CannotCertify.

    Claim: the whole transcript of the parts meets the result.

    Assumes: every charge was admitted before it ran. The replay takes each at its cap with the earlier ones settled,
    which every order of settling needs. Source: docs/proofs/filters.md.
    """
    sums = filters.opening(tree.filter)
    for number, part in enumerate(tree.of):
        wanted = filters.orders(tree.filter)
        reserved = filters.charge(tree.filter, priced(planned(part), relation, wanted))
        if not filters.admits(tree.filter, filters.with_charge(tree.filter, sums, reserved)):
            raise CannotCertify(f"part {number} of a filtered node would not have been admitted by its filter")
        settled = filters.settle(tree.filter, reserved, priced(part, relation, wanted))
        sums = filters.with_charge(tree.filter, sums, settled)
    return filters.budget_guarantee(tree.filter)
