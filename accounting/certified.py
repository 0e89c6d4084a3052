"""What a tree costs by its certified profile: one good part that has all prices at once.

Fix `tail_delta`. Let c be the certified upper end of epsilon at it, over all cases of the profile (the two directions,
parallel parts). The transcript has a sub-measure that misses at most `tail_delta`, whose loss is at most c, and whose
Renyi divergences follow from the profile, case by case: rare large losses, which rule every moment of the whole, are in
the delta. docs/proofs/certified_prices.md.

>>> from dpledger.accounting.composition import GaussianLaw, PoissonSampled
>>> steps = Repeated(PoissonSampled(GaussianLaw(noise_multiplier=1), rate="0.001"), times=100)
>>> price = certified_cost(steps, Relation.ADD_REMOVE, Decimal("1e-7"), (Decimal(20),))
>>> price.pure < Decimal("0.16") and price.rdp[Decimal(20)] < Decimal("0.003")
True
>>> from dpledger.accounting.pricing.costs import cost
>>> cost(steps, Relation.ADD_REMOVE, orders=(Decimal(20),)).rdp[Decimal(20)] > Decimal("4")
True
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from dpledger.accounting import filters
from dpledger.accounting.arithmetic.floating import Array
from dpledger.accounting.arithmetic.prices import Cost, with_margin
from dpledger.accounting.composition import Composition, Repeated, Selected, Sequence, children
from dpledger.accounting.engine import dispatch
from dpledger.accounting.engine.expansion_points import ProfileCurve, RisingEpsilons
from dpledger.accounting.filters import Account, Coordinates, Filter, ZCDPFilter
from dpledger.accounting.lowering import PldList, read_both_ways
from dpledger.accounting.pricing import costs
from dpledger.accounting.pricing.costs import priced
from dpledger.accounting.pricing.truncated import divergence_upper, line_upper, places
from dpledger.accounting.profile import kept_profile
from dpledger.decimals import ZERO, float_down, float_up, multiply, round_down, round_up, subtract
from dpledger.errors import CannotCertify, ParameterError
from dpledger.relations import Relation

__all__ = [
    "certified_cost",
    "certified_rho",
    "charge",
    "cheaper_cost",
    "currencies",
    "default_tail_delta",
    "has_profile_price",
    "is_plan",
    "possible_tail_deltas",
    "rough_epsilon",
]

ONE = Decimal(1)
NEGLIGIBLE = 1 / 64  # of tail_delta: where a profile is below, a looser bound of it changes no price that counts
FEW_NODES = 200  # of a contour of few runs: beyond, lattices are as near as `NEGLIGIBLE` and a chord ask, and faster
SHARE = 4  # halvings: a sixteenth of what is left
SHARE_DIGITS = 60  # a share of delta is cut, if at all, only at the last place that a decimal may have

Orders = tuple[Decimal, ...]


def certified_cost(tree: Composition, relation: Relation, tail_delta: Decimal, orders: Orders) -> Cost:
    """The price of `tree`, outcomes apart, from its certified profile: `pure` and each Renyi order, all with a delta of
    `tail_delta`, in (0, 1).

    Claim: for all neighbours D, D' under `relation` there is a sub-measure R of the law on D that misses at most
    `tail_delta`, with dR/dQ <= e^pure and Renyi divergences from Q, the law on D', of at most the result's, also where
    the tree is run interactively beside others. Source: docs/proofs/certified_prices.md, sections 1 and 2.
    Raises CannotCertify where no theorem gives a profile, or more than `tail_delta` is lost at every epsilon.
    """
    if not 0 < tail_delta < 1:
        raise ParameterError("tail_delta", tail_delta, "a number in (0, 1)")
    return _kept(tree, relation, tail_delta, orders)


@functools.lru_cache(maxsize=256)
def _kept(tree: Composition, relation: Relation, tail_delta: Decimal, orders: Orders) -> Cost:
    good = _good_part(tree, relation, tail_delta)
    rdp: Mapping[Decimal, Decimal | None] = MappingProxyType(
        {order: min(good.pure, round_up(good.divergence(float_up(subtract(order, ONE))))) for order in orders}
    )
    return Cost(pure=good.pure, delta=tail_delta, rho=None, mu_squared=None, rdp=rdp)


@functools.lru_cache(maxsize=256)
def certified_rho(tree: Composition, relation: Relation, tail_delta: Decimal) -> Decimal:
    """The zCDP price of `tree`, outcomes apart, from its certified profile, with a delta of `tail_delta`, in (0, 1).

    Claim: the sub-measure of `certified_cost` has Renyi divergences from Q of at most the order times the result, at
    every order. Source: docs/proofs/certified_prices.md, section 5. Raises as `certified_cost`.

    >>> from dpledger.accounting.composition import GaussianLaw, PoissonSampled
    >>> steps = Repeated(PoissonSampled(GaussianLaw(noise_multiplier=1), rate="0.01"), times=1000)
    >>> certified_rho(steps, Relation.ADD_REMOVE, Decimal("1e-6")) < Decimal("0.107")
    True
    """
    good = _good_part(tree, relation, tail_delta)
    return round_up(line_upper(good.divergence, float_up(good.pure)))


@dataclass(frozen=True, eq=False)
class _GoodPart:
    """What is left of a law without its rare large losses: `pure`, the largest loss, and its profile at points, which
    is computed once a divergence is asked for: a sum of epsilons asks for none."""

    tree: Composition
    relation: Relation
    tail_delta: Decimal
    pure: Decimal

    @functools.cached_property
    def x(self) -> Array:
        return places(float_down(self.pure))

    @functools.cached_property
    def cases(self) -> tuple[_Case, ...]:
        return tuple(_cases(self.tree, self.relation, self.x, float(self.tail_delta) * NEGLIGIBLE))

    def divergence(self, order_minus_one: float) -> float:
        """An upper bound of the Renyi divergence of that order, of the worst case."""
        return max(divergence_upper(self.x, case.there, case.back, case.last, order_minus_one) for case in self.cases)


@functools.lru_cache(maxsize=64)
def _good_part(tree: Composition, relation: Relation, tail_delta: Decimal) -> _GoodPart:
    found = kept_profile(tree, relation).epsilon(tail_delta).upper
    if found == math.inf:
        raise CannotCertify(
            f"at a tail_delta of {tail_delta:f} this {tree.kind} has no epsilon: at every epsilon, more than that "
            "may fail"
        )
    return _GoodPart(tree, relation, tail_delta, round_up(found))


def rough_epsilon(tree: Composition, relation: Relation, tail_delta: Decimal) -> float | None:
    """About `certified_cost(...).pure`, where that takes far less than the price (`dispatch.rough_epsilon`): a guess,
    by the first case. Raises as `compose`."""
    return dispatch.rough_epsilon(kept_profile(tree, relation).cases[0], tail_delta)


@dataclass(frozen=True, slots=True, eq=False)
class _Case:
    """One direction of one list of losses: upper bounds of its profile and of that of the other direction, and a lower
    bound of its own at the last point."""

    there: Array
    back: Array
    last: float


def _cases(tree: Composition, relation: Relation, x: Array, floor: float) -> Iterator[_Case]:
    removed, added = _curves(tree, relation)
    there = [_bounds(one, x, floor) for one in removed]
    back = there if added is removed else [_bounds(one, x, floor) for one in added]
    for (low, high), (other_low, other_high) in zip(there, back, strict=True):
        yield _Case(high, other_high, low)
        if added is not removed:
            yield _Case(other_high, high, other_low)


Curves: TypeAlias = tuple[tuple[tuple[PldList, ProfileCurve], ...], ...]
"""The lists of one direction, and for each what was made of it, with its profile."""


@functools.lru_cache(maxsize=16)
def _curves(tree: Composition, relation: Relation) -> tuple[Curves, Curves]:
    """Both directions. A curve keeps what was made for it, which another `tail_delta` asks for again."""
    removed, added = read_both_ways(tree, relation)
    there = _with_curves(removed)
    return there, there if added is removed else _with_curves(added)


def _with_curves(cases: tuple[PldList, ...]) -> Curves:
    return tuple(tuple((case, ProfileCurve(case, FEW_NODES)) for case in one) for one in _lists(cases))


def _lists(cases: tuple[PldList, ...]) -> list[list[PldList]]:
    """What was made of one list: what dominates it, and, where that is not attained, what some mechanism attains."""
    lists: list[list[PldList]] = []
    for case in cases:
        if case.covers:
            lists.append([])
        lists[-1].append(case)
    return lists


def _bounds(cases: tuple[tuple[PldList, ProfileCurve], ...], x: Array, floor: float) -> tuple[float, Array]:
    """A lower bound of the profile at the last of the points, and upper bounds at all; no closer than `floor` asks."""
    last, upper = 0.0, np.ones(x.shape)
    for case, curve in cases:
        low, high = curve.deltas(RisingEpsilons(x), np.full(x.shape, floor), alone=False)
        if case.attained:
            last = max(last, float(low[-1]))
        if case.covers:
            upper = high
    return last, upper


def cheaper_cost(tree: Composition, relation: Relation, tail_delta: Decimal, orders: Orders) -> Cost:
    """The smaller price in each currency, of the profile and of the parts, all with a delta of `tail_delta`, without
    the margin that is charged; of the profile alone where the parts have a delta: theirs is another good part.

    Claim: as `certified_cost`; rho and mu_squared, which only the parts may have, hold for the same sub-measure.
    Source: docs/proofs/certified_prices.md, section 3. Raises as `certified_cost`.
    """
    whole = certified_cost(tree, relation, tail_delta, orders)
    try:
        parts = priced(tree, relation, orders)
    except CannotCertify:
        parts = whole
    best = whole if parts.delta else parts.or_better(replace(whole, delta=ZERO))
    return replace(best, delta=tail_delta)


def _as_charged(price: Cost) -> Cost:
    """With the margin of prices in floating point: the profile has a part in every currency."""
    return replace(
        price,
        pure=with_margin(price.pure),
        rho=with_margin(price.rho),
        mu_squared=with_margin(price.mu_squared),
        rdp={order: with_margin(divergence) for order, divergence in price.rdp.items()},
    )


# ---- what a filter charges ------------------------------------------------------------------------------------------


def charge(filter_: Filter, tree: Composition, relation: Relation, tail_delta: Decimal) -> Coordinates:
    """What the filter charges for `tree`: from its parts at a `tail_delta` of 0, and where the filter takes no other;
    else account by account the cheaper price, from parts or from the profile, with the margin. Raises as
    `cheaper_cost`."""
    if not tail_delta or filters.tail_budget(filter_) is None:
        return costs.charge(filter_, tree, relation)
    return filters.charge(filter_, _as_charged(_cheaper(filter_, tree, relation, tail_delta)))


def currencies(filter_: Filter, tree: Composition, relation: Relation, tail_delta: Decimal) -> tuple[Account, ...]:
    """What the filter needs for `tree`, account by account, without a margin (`filters.currencies`)."""
    if not tail_delta or filters.tail_budget(filter_) is None:
        return costs.currencies(filter_, tree, relation)
    return filters.currencies(filter_, _cheaper(filter_, tree, relation, tail_delta))


def _cheaper(filter_: Filter, tree: Composition, relation: Relation, tail_delta: Decimal) -> Cost:
    """`cheaper_cost` at the orders of the filter, and in zCDP where it counts that."""
    found = cheaper_cost(tree, relation, tail_delta, filters.orders(filter_))
    if not isinstance(filter_, ZCDPFilter):
        return found
    line = certified_rho(tree, relation, tail_delta)
    return replace(found, rho=line if found.rho is None else min(found.rho, line))


def default_tail_delta(filter_: Filter, left: Decimal) -> Decimal:
    """Of a filter that has `left` of its delta: a sixteenth, rounded down to a power of two below `delta_sum`; 0 where
    that is nothing."""
    shares = possible_tail_deltas(filter_)
    return next((share for share in shares if multiply(share, 1 << SHARE) <= left), ZERO)


def possible_tail_deltas(filter_: Filter) -> Iterator[Decimal]:
    """Every `default_tail_delta` of the filter, whatever is left of its delta; 0 apart."""
    whole = filters.tail_budget(filter_)
    if not whole:
        return
    for halvings in itertools.count(SHARE):
        share = _halved(whole, halvings)
        if not share:
            return
        yield share


@functools.lru_cache(maxsize=4096)
def _halved(whole: Decimal, halvings: int) -> Decimal:
    return round_down(Fraction(whole) / (1 << halvings), digits=SHARE_DIGITS)


def is_plan(tree: Composition) -> bool:
    """Whether it runs more than one release, one after another or as a selection among them."""
    if isinstance(tree, Selected) or (isinstance(tree, Repeated) and tree.times > 1):
        return True
    return (isinstance(tree, Sequence) and len(tree.of) > 1) or any(map(is_plan, children(tree)))


def selects(tree: Composition) -> bool:
    """Whether it holds a selection."""
    return isinstance(tree, Selected) or any(map(selects, children(tree)))


def has_profile_price(tree: Composition, relation: Relation) -> bool:
    """Whether a request for `tree` may be priced by its profile where nobody says otherwise: its parts have no pure
    price, which could come back, and the engine has a pair for each of its losses, or it selects among runs: what a
    selection costs beside a run is the same at every order, which a filter of few orders would pay for at the worst of
    them."""
    try:
        if priced(tree, relation, ()).pure is not None:
            return False
    except CannotCertify:
        pass
    try:
        return not any(case.curves for case in kept_profile(tree, relation).cases) or selects(tree)
    except CannotCertify:
        return False
