"""Random trees with numbers as extreme as decimals may be: an answer, or one of our own errors, and nothing else."""

from __future__ import annotations

import contextlib
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting import filters, rules
from dpledger.accounting.composition import (
    Chain,
    Composition,
    DiscreteGaussianLaw,
    DiscreteLaplaceLaw,
    ExponentialLaw,
    GaussianLaw,
    Group,
    LaplaceLaw,
    Parallel,
    PmfPair,
    PoissonSampled,
    PostProcessed,
    RandomizedResponseLaw,
    Repeated,
    SampledWithoutReplacement,
    Sequence,
    Shuffled,
)
from dpledger.accounting.ex_post.boundaries import MixtureBoundary
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, BoundedRange, Guarantee, PureDP
from dpledger.decimals import add
from dpledger.errors import DpledgerError
from dpledger.relations import Relation

pytestmark = pytest.mark.sliced


def made(kind: Any, *values: st.SearchStrategy[Any], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Objects of a kind, of the fields that are given and no others."""
    return st.builds(lambda *found, **named: kind(*found, **named), *values, **fields)


def scaled(digits: int, exponent: int) -> Decimal:
    return Decimal(digits).scaleb(exponent)


amounts = st.one_of(
    st.just(Decimal(0)),
    st.builds(scaled, st.integers(1, 999), st.integers(-60, 14)),
    st.builds(scaled, st.integers(1, 10**30), st.integers(-60, -13)),
)
"""0, and every power of ten from 1e-60 to 1e17, with few digits or many."""
positive = amounts.filter(bool)
shares = st.builds(scaled, st.integers(1, 9), st.integers(-60, -1))
orders = positive.map(lambda more: add(Decimal(1), more))
claims: st.SearchStrategy[Guarantee] = st.one_of(
    made(PureDP, amounts),
    made(ApproxDP, amounts, shares),
    made(ZCDP, amounts, shares),
    made(GDP, amounts),
    made(BoundedRange, amounts),
    st.builds(lambda order, epsilon: RDP((order,), (epsilon,)), orders, amounts),
)
pairs = st.builds(
    lambda p, q: PmfPair((p, add(Decimal(1), p.copy_negate())), (q, add(Decimal(1), q.copy_negate()))), shares, shares
)
leaves: st.SearchStrategy[Composition] = st.one_of(
    claims,
    pairs,
    made(LaplaceLaw, amounts),
    made(GaussianLaw, positive),
    made(ExponentialLaw, amounts),
    made(RandomizedResponseLaw, amounts, k=st.sampled_from([2, 3, 10**12])),
    made(DiscreteLaplaceLaw, positive, st.integers(1, 10**17)),
    made(DiscreteGaussianLaw, positive, st.integers(1, 10**17)),
)
relations = st.sampled_from(list(Relation))
chains: st.SearchStrategy[Composition] = st.one_of(
    st.builds(lambda low, high: Chain(LaplaceLaw(max(low, high)), LaplaceLaw(min(low, high))), amounts, amounts),
    st.builds(
        lambda low, high, of: Chain(DiscreteLaplaceLaw(min(low, high), of), DiscreteLaplaceLaw(max(low, high), of)),
        positive,
        positive,
        st.integers(1, 10**17),
    ),
    st.builds(
        lambda low, high, tuning, delta: Chain(
            GaussianLaw(min(low, high)), GaussianLaw(max(low, high)), MixtureBoundary(tuning, delta)
        ),
        positive,
        positive,
        positive,
        shares,
    ),
)


def around(below: st.SearchStrategy[Composition]) -> st.SearchStrategy[Composition]:
    return st.one_of(
        st.builds(
            lambda one, other, done: Sequence((one, other), done=done), below, below, st.sampled_from([None, 0, 1, 2])
        ),
        st.builds(lambda one, other, by: Parallel((one, other), by=by), below, below, st.sampled_from([None, "unit"])),
        made(PostProcessed, below),
        made(Repeated, below, times=st.sampled_from([1, 7, 10**12])),
        made(PoissonSampled, below, rate=shares),
        made(SampledWithoutReplacement, below, population=st.sampled_from([3, 10**12]), batch=st.integers(1, 3)),
        made(Shuffled, below, users=st.sampled_from([1, 2, 10**9])),
        made(Group, below, k=st.sampled_from([1, 2, 10**6]), relation=relations),
    )


trees = st.recursive(st.one_of(leaves, chains), around, max_leaves=4)


@given(trees, relations, orders)
@settings(max_examples=1200)
def test_a_tree_has_a_price_or_a_reason_why_not(tree: Composition, relation: Relation, order: Decimal) -> None:
    with contextlib.suppress(DpledgerError):
        found = rules.cost(tree, relation, orders=(order,))
        known: list[Any] = [found.pure, found.delta, found.rho, found.mu_squared, found.rdp[order]]
        assert all(price is None or price >= 0 for price in known)


@given(trees, relations, claims, shares)
@settings(max_examples=600)
def test_a_filter_charges_it_and_reads_its_sums(
    tree: Composition, relation: Relation, budget: Guarantee, delta: Decimal
) -> None:
    with contextlib.suppress(DpledgerError):
        filter_ = filters.opened_by(budget)
        cost = rules.cost(tree, relation, orders=filters.orders(filter_))
        charged = filters.charge(filter_, cost)
        sums = filters.with_charge(filter_, filters.opening(filter_), charged)
        filters.admits(filter_, sums)
        assert set(filters.asked(filter_, filters.opening(filter_), charged)) == set(filters.left(filter_, sums))
        assert filters.reading(filter_, sums, delta) >= 0
        assert all(amount <= charged[name] for name, amount in filters.settle(filter_, charged, cost).items())


@given(claims, shares)
@settings(max_examples=600)
def test_a_guarantee_means_an_epsilon_or_says_why_not(claim: Guarantee, delta: Decimal) -> None:
    with contextlib.suppress(DpledgerError):
        assert claim.epsilon_at(delta) >= 0
