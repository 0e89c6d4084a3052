"""What a composition tree costs in every currency that a theorem covers: what its leaves say, and one rule a node.

A tree without outcomes is priced at its cap, one with outcomes at what its theorem lets settle. A node that amplifies
never costs more than what it runs: its outputs mix runs with the unit and runs without it, and every currency here is
quasi-convex in the pair (docs/proofs/amplification.md, section 6).

>>> from dpledger.accounting.guarantees import PureDP
>>> from dpledger.accounting.leaves import LaplaceLaw
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

from dpledger.accounting import filters
from dpledger.accounting.arithmetic import prices
from dpledger.accounting.arithmetic.floating import require_ieee
from dpledger.accounting.arithmetic.prices import FREE, Cost, approximate_cost, rdp_alone
from dpledger.accounting.chains import settles_by_levels
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
)
from dpledger.accounting.ex_post.boundaries import TimeUniformBoundary, height
from dpledger.accounting.filters import Account, Coordinates, Filter
from dpledger.accounting.guarantees import Guarantee
from dpledger.accounting.kinds import rules_of
from dpledger.accounting.laws.draws import Allocation, Draw, Poisson, Shuffle, Subset
from dpledger.accounting.pricing.allowances import counted, promised
from dpledger.accounting.pricing.batches import as_charged, batch_rdp, batch_rho, one_leaf
from dpledger.accounting.pricing.conditions import (
    require_any_size,
    require_disjoint,
    require_exchangeable,
    require_group,
)
from dpledger.accounting.pricing.converting import orders_for, require_kept
from dpledger.accounting.pricing.groups import grouped_in_samples
from dpledger.accounting.pricing.outcomes import planned
from dpledger.accounting.pricing.pld import Drawn
from dpledger.accounting.pricing.selecting import ORDERS, selected_cost
from dpledger.decimals import ZERO, add, multiply, round_up
from dpledger.errors import CannotCertify, ParameterError
from dpledger.relations import Relation

__all__ = [
    "admitted",
    "charge",
    "converted_guarantee",
    "cost",
    "currencies",
    "least_settled",
    "priced",
    "remaining",
    "settled",
]

Orders = tuple[Decimal, ...]
HALF = Decimal("0.5")


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
    if isinstance(tree, Leaf):
        return _of_leaf(tree, relation, orders)
    match tree:
        case Sequence(of=parts, done=done):
            return reduce(Cost.__add__, _costs(parts[:done], relation, orders), _nothing(orders))
        case Repeated():  # one outcome says nothing about the other runs: each counts at its cap
            return priced(planned(tree.of), relation, orders).times(_runs(tree))
        case PoissonSampled():
            return _of_sampled(tree, relation, orders)
        case SampledWithoutReplacement():
            return _of_subset(tree, relation, orders)
        case Shuffled(of=part, users=users):
            if relation is not Relation.REPLACE_ONE:
                raise CannotCertify(f"shuffled is priced under replace_one only, not under {relation.value}")
            require_exchangeable(part)
            whole = priced(planned(part), relation, orders)  # run by many, and one outcome is not everyone's
            return _on_batch(planned(part), Shuffle(users), whole, relation, orders) if users > 1 else whole
        case RandomAllocation(of=part, steps=steps, k=k):  # k times in one of so many: amplification.md, section 4
            whole, times = priced(planned(part), relation, orders), k or 1
            many = steps // times > 1
            once = _on_batch(planned(part), Allocation(steps // times), whole, relation, orders) if many else whole
            return once if times == 1 else once.times(times)
        case Group():
            return _of_group(tree, relation, orders)
        case Parallel():
            return _of_parallel(tree, relation, orders)
        case Chain():
            return _of_chain(tree, relation, orders)
        case PostProcessed(of=part):
            return priced(part, relation, orders)
        case Selected(of=part, repeats=repeats):
            every = tuple(dict.fromkeys((*ORDERS, *orders)))
            return selected_cost(repeats, priced(planned(part), relation, every), orders)
        case Converted():
            return priced(converted_guarantee(tree, relation), relation, orders)
        case Filtered():
            return priced(admitted(tree, relation), relation, orders)
        case _:
            assert_never(tree)


def _of_leaf(leaf: Leaf, relation: Relation, orders: Orders) -> Cost:
    """What its kind says: the cap, and with an outcome no more than the realised loss as an epsilon. Delta and the
    other currencies are not refunded. Source: docs/proofs/filters.md, "Refunds"."""
    rules = rules_of(leaf)
    if rules.price.in_floats:
        require_ieee()
    if rules.outcome is None:
        return rules.price.cap(leaf, relation, orders)
    cap = rules.price.cap(rules.outcome.planned(leaf), relation, orders)
    if cap.pure is None or not rules.outcome.known(leaf):
        return cap
    return replace(cap, pure=min(cap.pure, rules.outcome.loss(leaf)))


# ---- nodes ----------------------------------------------------------------------------------------------------------


def _costs(parts: tuple[Composition, ...], relation: Relation, orders: Orders) -> Iterator[Cost]:
    return (priced(part, relation, orders) for part in parts)


def _nothing(orders: Orders) -> Cost:
    """The cost of nothing at all."""
    return replace(FREE, rdp=dict.fromkeys(orders, ZERO))


def _runs(tree: Repeated) -> int:
    """How many runs are charged: those that were started, once that is known."""
    if tree.done is None:
        return tree.times
    if tree.done > tree.times:
        raise ParameterError("Repeated.done", tree.done, f"at most {tree.times}, the number of runs planned")
    return tree.done


def _of_parallel(tree: Parallel, relation: Relation, orders: Orders) -> Cost:
    """A neighbour changes one part, so the greatest price counts.

    Claim: as `cost`. Source: McSherry 2009, Theorem 4; docs/proofs/filters.md, "Parallel, by unit".
    """
    require_disjoint(tree, relation)
    return reduce(Cost.or_worse, _costs(tree.of, relation, orders))


def _of_chain(tree: Chain, relation: Relation, orders: Orders) -> Cost:
    """A chain of Laplace noise: the epsilon of its last level, and the cap in the other currencies, of which rho is one
    at every order. One of Gaussian noise: its last level in all of them, as each refinement is a Gaussian release whose
    price is fixed before it; with a boundary its pure price too, with the delta of that.

    Claim: as `cost`, and with `reached` what `filters.settle` asks for. Source: docs/proofs/filters.md, "Chains".
    """
    ran = priced(tree.of if tree.reached is None else tree.reached, relation, orders)
    if not settles_by_levels(tree.of):
        return replace(priced(tree.of, relation, ()), pure=ran.pure, rdp=dict.fromkeys(orders))
    if tree.boundary is None:
        return replace(ran, pure=None)
    pure = _within_boundary(tree.boundary, ran.mu_squared)
    return replace(ran, pure=pure, delta=tree.boundary.delta, mu_squared=None)


def _within_boundary(boundary: TimeUniformBoundary, mu_squared: Decimal | None) -> Decimal:
    """v/2 + psi(v), v = mu^2: what the loss of a Gaussian chain stays below at every level, but for the boundary's
    delta; 0 before the first level."""
    if mu_squared is None:
        raise CannotCertify("a chain with a boundary is one of Gaussian noise")
    return round_up(add(multiply(mu_squared, HALF), height(boundary, mu_squared))) if mu_squared else ZERO


def _of_sampled(tree: PoissonSampled, relation: Relation, orders: Orders) -> Cost:
    """A secret Poisson sample: by its amplified (epsilon, delta), or the Renyi divergence that its kind knows of the
    sample, or the transform of its own pair; and never at more than the whole costs.

    No outcome is refunded here: an amplified realised loss is no price in the currencies that need one beforehand.
    Source: `batches`; prices.amplified_epsilon.
    Assumes: but under add_remove, a null unit shows as one that is not there, so that a batch with it is a batch
    without the unit; where a kind does not say so there is no price.
    """
    part = planned(tree.of)
    while isinstance(part, PostProcessed | Chain):  # a chain shows what its finest level shows
        part = part.of
    if tree.rate == 1:
        return priced(part, relation, orders)
    if relation is not Relation.ADD_REMOVE and not (isinstance(part, Leaf) and rules_of(part).batch.null_is_absence):
        raise CannotCertify(f"no theorem prices a Poisson sample of {part.kind} under {relation.value}")
    amplified = _amplified(priced(part, relation, orders), tree.rate, orders)
    return _on_batch(part, Poisson(tree.rate), amplified, relation, orders)


def _on_batch(part: Composition, how: Draw, price: Cost, relation: Relation, orders: Orders) -> Cost:
    """`price`, or what the pair of the batch itself costs, where that is less. Source: `batches`."""
    require_any_size(part)
    leaf = None if price.delta else one_leaf(part, relation)
    if leaf is None:
        return price
    drawn = Drawn(leaf, how)
    rdp = batch_rdp(drawn, relation, orders)
    return price.or_better(Cost(pure=None, rho=batch_rho(drawn, relation), mu_squared=None, rdp=rdp))


def _amplified(whole: Cost, rate: Decimal, orders: Orders) -> Cost:
    """The amplified (epsilon, delta); without delta the other currencies at their whole price, where that is less."""
    if whole.pure is None:
        return whole if not whole.delta else rdp_alone(dict.fromkeys(orders))
    delta = min(whole.delta, round_up(multiply(whole.delta, rate)))
    amplified = approximate_cost(prices.amplified_epsilon(whole.pure, rate), delta, orders)
    return amplified if whole.delta else amplified.or_better(whole)


def _of_subset(tree: SampledWithoutReplacement, relation: Relation, orders: Orders) -> Cost:
    """m of n units without replacement: (epsilon, delta) amplified with the rate m/n, other currencies at their whole
    price. Source: Balle-Barthe-Gaboardi 2018, Theorem 9; docs/proofs/amplification.md, sections 3 and 6."""
    if relation is not Relation.REPLACE_ONE:
        raise CannotCertify(f"sampled_without_replacement is priced under replace_one only, not {relation.value}")
    whole = priced(planned(tree.of), relation, orders)
    if tree.batch == tree.population:
        return whole
    require_exchangeable(tree.of)
    amplified = _amplified(whole, round_up(Fraction(tree.batch, tree.population)), orders)
    return _on_batch(planned(tree.of), Subset(tree.population, tree.batch), amplified, relation, orders)


def _of_samples(tree: Group, part: Composition, relation: Relation, orders: Orders) -> Cost | None:
    """What the k units of `tree` pay for `part`, Gaussian noise on Poisson samples one after another; None for all
    else. Pairs at that distance compose as all pairs do."""
    if isinstance(part, Leaf):
        return None
    match part:
        case Repeated(of=of):
            once = _of_samples(tree, planned(of), relation, orders)
            return None if once is None else once.times(_runs(part))
        case Sequence(of=parts, done=done):
            each = [_of_samples(tree, one, relation, orders) for one in parts[:done]]
            known = [one for one in each if one is not None]
            return reduce(Cost.__add__, known, _nothing(orders)) if len(known) == len(each) else None
        case PostProcessed(of=of):
            return _of_samples(tree, of, relation, orders)
        case PoissonSampled(of=of, rate=rate):
            leaf = one_leaf(planned(of), relation)
            if leaf is None or rate == 1:
                return None
            try:
                found = grouped_in_samples(Drawn(leaf, Poisson(rate)), tree, relation)
            except CannotCertify:
                return None
            return rules_of(found).price.cap(found, relation, orders)
        case SampledWithoutReplacement() | Shuffled() | RandomAllocation() | Group() | Parallel() | Chain():
            return None
        case Selected() | Converted() | Filtered():
            return None
        case _:
            assert_never(part)


def _of_group(tree: Group, relation: Relation, orders: Orders) -> Cost:
    """k epsilon, with the delta of `group_delta`; without delta also k^2 rho and k^2 mu^2. A group of 1 costs what it
    holds.

    The delta is that of the plan: an outcome lowers the epsilon, k times over (a pure bound of the pattern chains), but
    the good part misses what the epsilon fixed beforehand lets it miss.
    Source: Vadhan 2017, Lemma 2.2; Bun-Steinke 2016, Proposition 1.9; Dong-Roth-Su 2022, Theorem 2.14;
    docs/proofs/filters.md, "Refunds"; of Gaussian noise on Poisson samples also the Renyi divergences of the mixture.
    """
    require_group(tree, relation)
    if tree.k == 1:
        return priced(tree.of, tree.relation, orders)
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
    found = Cost(
        pure=pure,
        rho=rho,
        mu_squared=None if inner.mu_squared is None else multiply(inner.mu_squared, square),
        rdp={order: None if rho is None else round_up(multiply(rho, order)) for order in orders},
    )
    samples = _of_samples(tree, tree.of, relation, orders)
    return found if samples is None else found.or_better(samples)


def converted_guarantee(tree: Converted, relation: Relation) -> Guarantee:
    """What a converted node promises, once its part is shown to keep it; else CannotCertify."""
    require_kept(tree, relation, priced(planned(tree.of), tree.relation, orders_for(tree.to, tree.of)))
    return tree.to


def admitted(tree: Filtered, relation: Relation) -> Composition:
    """What the filter promises (`allowances.promised`), once a replay of its charges shows that each was admitted; else
    CannotCertify.

    Claim: the whole transcript of the parts costs no more than the result.

    Assumes: every charge was admitted before it ran. The replay takes each at its cap with the earlier ones settled,
    which every order of settling needs. Source: docs/proofs/filters.md.
    """
    sums = filters.opening(tree.filter)
    for number, part in enumerate(tree.of):
        reserved = charge(tree.filter, planned(part), relation)
        if not filters.admits(tree.filter, filters.with_charge(tree.filter, sums, reserved)):
            raise CannotCertify(f"part {number} of a filtered node would not have been admitted by its filter")
        sums = filters.with_charge(tree.filter, sums, settled(tree.filter, reserved, part, relation))
    return promised(tree.filter)


# ---- what a filter charges for a tree -------------------------------------------------------------------------------


def charge(filter_: Filter, tree: Composition, relation: Relation) -> Coordinates:
    """What the filter charges for `tree`: at its cap where it has no outcome, else at what settles; with the margin
    where a price is in floating point (docs/proofs/filters.md, "Machines").

    Raises as `priced`; a currency without a price has no coordinate."""
    beside, price = _counted(filter_, tree, relation)
    return {**filters.charge(filter_, as_charged(tree, price)), **_written(beside)}


def currencies(filter_: Filter, tree: Composition, relation: Relation) -> tuple[Account, ...]:
    """What the filter needs for `tree`, account by account, without a margin: a charge is sound if in each it covers
    one currency (`filters.currencies`)."""
    beside, price = _counted(filter_, tree, relation)
    counts = (Account((name,), (_written({name: amount}),)) for name, amount in beside.items())
    return (*counts, *filters.currencies(filter_, price))


def settled(filter_: Filter, reserved: Coordinates, tree: Composition, relation: Relation) -> Coordinates:
    """What stays charged of `reserved` once the outcomes in `tree` are known (`filters.settle`)."""
    beside, price = _counted(filter_, tree, relation)
    return _left(filter_, reserved, as_charged(tree, price), beside)


def least_settled(filter_: Filter, reserved: Coordinates, tree: Composition, relation: Relation) -> Coordinates:
    """What has to stay charged: as `settled`, without a margin."""
    beside, price = _counted(filter_, tree, relation)
    return _left(filter_, reserved, price, beside)


def _left(filter_: Filter, reserved: Coordinates, price: Cost, beside: Coordinates) -> Coordinates:
    left = filters.settle(filter_, reserved, price)
    return {**left, **{name: min(left[name], amount) for name, amount in beside.items() if name in left}}


def _counted(filter_: Filter, tree: Composition, relation: Relation) -> tuple[Coordinates, Cost]:
    """What the filter counts of `tree` beside a price, and the price of what remains of it."""
    beside, rest = remaining(filter_, tree, relation)
    return beside, FREE if rest is None else priced(rest, relation, filters.orders(filter_))


def remaining(filter_: Filter, tree: Composition, relation: Relation) -> tuple[Coordinates, Composition | None]:
    """What the filter counts of `tree` beside a price, and what of it remains to be priced (`allowances.counted`)."""

    def mu_squared(part: Composition) -> Decimal | None:
        try:
            price = priced(part, relation, ())
        except CannotCertify:
            return None
        return None if price.delta else price.mu_squared

    return counted(filter_, tree, mu_squared)


def _written(amounts: Coordinates) -> Coordinates:
    return {name: amount for name, amount in amounts.items() if amount < filters.TOO_LARGE}
