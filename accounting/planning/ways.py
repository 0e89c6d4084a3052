"""Ways of asking, and what they come to: the price of the parts, or of the certified profile at some `tail_delta`.

A request is admitted or refused as it is asked (`filters`, `certified`). Here is what could be asked: each way, how
many copies of a tree would go through. Nothing is kept: the levels are
given, the charged scope first and what stands above it, each with its sums.

>>> from dpledger.accounting.composition import GaussianLaw, PoissonSampled
>>> from dpledger.accounting.guarantees import ApproxDP
>>> rule = filters.opened_by(ApproxDP(3, "1e-6"))
>>> empty = (Level(rule, Relation.ADD_REMOVE, filters.opening(rule)),)
>>> step = PoissonSampled(GaussianLaw(1), rate="0.01")
>>> 1900 < planned_copies(empty, step, most=10**6) < 2061
True
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Protocol

from dpledger.accounting import certified, filters, rules
from dpledger.accounting.arithmetic.prices import FREE
from dpledger.accounting.composition import (
    Composition,
    PoissonSampled,
    RandomAllocation,
    Repeated,
    SampledWithoutReplacement,
    Shuffled,
    children,
)
from dpledger.accounting.filters import Coordinates, EitherFilter, Filter, Sums, ZCDPFilter
from dpledger.accounting.guarantees import ApproxDP
from dpledger.accounting.planning.calibration import most_that
from dpledger.accounting.pricing import costs
from dpledger.decimals import INFINITY, ZERO, add, multiply, round_down, subtract
from dpledger.errors import CannotCertify
from dpledger.relations import Relation

__all__ = [
    "Counting",
    "Level",
    "Levels",
    "admits",
    "after",
    "changes",
    "charge",
    "cheapest",
    "chosen_tail_delta",
    "copies_one_by_one",
    "ever_chosen",
    "fixed",
    "holds",
    "pieces",
    "planned_copies",
    "searched",
    "sixteenth",
    "used",
    "ways",
]

HALVINGS = 6
"""Of what is left of delta: the parts of it that are tried as a tail_delta."""
PARTS = ZERO
"""The tail_delta of a request that is priced from its parts."""
WORST = Fraction(10**18)
ANY_ORDER = Decimal(2)  # whether there is a Renyi price at all does not depend on the order
HALF = Decimal("0.5")


class Counting(Protocol):
    """What a price depends on: what is counted, and of whom."""

    @property
    def filter(self) -> Filter: ...
    @property
    def relation(self) -> Relation: ...


@dataclass(frozen=True, slots=True)
class Level:
    """A scope as its gate sees it: the rule, the relation, the sums of all that was admitted. `instead`: the rule that
    its first charge may fix in place of `filter`; None once anything was charged."""

    filter: Filter
    relation: Relation
    sums: Sums
    instead: Filter | None = None

    @property
    def delta_left(self) -> Decimal:
        """What a request may still take as its tail_delta; 0 where the filter takes none."""
        budget = filters.tail_budget(self.filter)
        spent, unpriced = self.sums.get("delta", (ZERO, 0))
        return ZERO if budget is None or unpriced else max(ZERO, subtract(budget, spent))

    @property
    def delta_at_most(self) -> Decimal:
        """As `delta_left`, by the rule that leaves more, where the first charge fixes one of two."""
        other = None if self.instead is None else filters.tail_budget(self.instead)
        return self.delta_left if other is None else max(self.delta_left, other)


Levels = tuple[Level, ...]
"""The scope that is charged, then those above it."""


def charge(level: Counting, tree: Composition, tail_delta: Decimal = PARTS) -> Coordinates:
    """What the level charges for a planned tree; with a `tail_delta`, and where its filter takes one, also by its
    certified profile.

    Raises CannotCertify where no theorem prices the tree, and where a sum of epsilons is asked about a sample that has
    none."""
    if not (tail_delta and filters.tail_budget(level.filter) is not None):
        _require_price(level, tree)
    return certified.charge(level.filter, tree, level.relation, tail_delta)


def _require_price(level: Counting, tree: Composition) -> None:
    _, left = costs.remaining(level.filter, tree, level.relation)
    try:
        cost = FREE if left is None else rules.cost(left, level.relation, orders=filters.orders(level.filter))
    except CannotCertify:
        if filters.tail_budget(level.filter) is None and certified.has_profile_price(tree, level.relation):
            raise CannotCertify(
                f"a budget without a delta has no price for this {tree.kind}, which is priced by its privacy profile: "
                "use a budget with a delta above 0, like ZCDP(1, '1e-6') or ApproxDP(3, '1e-6')"
            ) from None
        raise
    counts_pure = filters.names(level.filter)[0] == "pure" and not filters.orders(level.filter)
    if counts_pure and cost.pure is None and _is_sampled(tree) and _has_renyi_price(tree, level.relation):
        raise CannotCertify(
            f"the budget counts pure epsilons, and {tree.kind} has none, only a Renyi price: use an approx_dp budget "
            "with a delta above 0, like ApproxDP(3, '1e-6'), and leave tail_delta out"
        )


def _is_sampled(tree: Composition) -> bool:
    """Whether something in it is run on Poisson samples, as training is."""
    return isinstance(tree, PoissonSampled) or any(map(_is_sampled, children(tree)))


def _has_renyi_price(tree: Composition, relation: Relation) -> bool:
    try:
        return rules.cost(tree, relation, orders=(ANY_ORDER,)).rdp.get(ANY_ORDER) is not None
    except CannotCertify:
        return False


def fixed(level: Level, tree: Composition, tail_delta: Decimal) -> Level:
    """The level with the rule that a charge of `tree` finds or, if it is the first, fixes: the one that the scope was
    opened with, unless that refuses it and the other admits it. Raises as `charge`."""
    if level.instead is None:
        return level
    own, other = replace(level, instead=None), _other(level, level.instead)
    if tail_delta <= level.delta_left and holds(_charged(own, tree, tail_delta)):
        return own
    try:
        return other if holds(_charged(other, tree, tail_delta)) else own
    except CannotCertify:
        return own


def _other(level: Level, rule: Filter) -> Level:
    """The level with the other rule that its first charge may fix."""
    return Level(rule, level.relation, filters.opening(rule))


def searched(level: Level, tail_delta: Decimal) -> Level:
    """The level with the one rule that may admit a plan at this tail_delta: what the other admits of a first charge
    beyond what the opened one does has a greater delta (docs/proofs/filters.md)."""
    if level.instead is None or tail_delta <= level.delta_left:
        return replace(level, instead=None)
    return _other(level, level.instead)


def _charged(level: Level, tree: Composition, tail_delta: Decimal, times: int = 1) -> Level:
    amounts = charge(level, tree, tail_delta)
    return replace(level, sums=filters.with_charge(level.filter, level.sums, amounts, times=times))


def holds(level: Level) -> bool:
    return filters.admits(level.filter, level.sums)


def after(levels: Levels, tree: Composition, tail_delta: Decimal, *, times: int = 1) -> Levels:
    """The levels once so many of a tree were charged, admitted or not. Raises as `charge`."""
    if not times:
        return levels
    return tuple(_charged(fixed(level, tree, tail_delta), tree, tail_delta, times) for level in levels)


def admits(levels: Levels, tree: Composition, tail_delta: Decimal, *, times: int = 1) -> bool:
    """Whether each level admits so many of a tree, asked one by one in this way."""
    try:
        charged = after(levels, tree, tail_delta, times=times)
    except CannotCertify:
        return False
    return all(map(holds, charged))


def chosen_tail_delta(levels: Levels, tree: Composition) -> Decimal:
    """The tail_delta of a request that leaves it to the scope, for what `certified.has_profile_price`: a sixteenth of
    what is left, in the level that has least, where that `_takes_profile`; else 0, the price of the parts. For the
    first request of a scope that may still fix its rule, the cheapest way that is admitted, where this one is not."""
    own, chosen = levels[0], sixteenth(levels)
    if not chosen or not certified.has_profile_price(tree, own.relation):
        return PARTS
    try:
        default = chosen if _takes_profile(own, tree, chosen) else PARTS
    except CannotCertify:  # more may fail at every epsilon, or it is too much work
        default = PARTS
    if own.instead is None or admits(levels, tree, default):
        return default
    found = cheapest(levels, tree, (*pieces(levels), PARTS))
    return default if found is None else found


def _takes_profile(level: Level, tree: Composition, tail_delta: Decimal) -> bool:
    """Whether the level prices the tree by its profile: a plan always; one release, and in a budget of rho a plan too,
    where it costs at most half of what the parts do, as rare losses make of a sample. Raises as `charge`."""
    if certified.is_plan(tree) and not isinstance(level.filter, ZCDPFilter):
        return bool(charge(level, tree, tail_delta))
    try:
        parts = _weights(level, charge(level, tree))
    except CannotCertify:
        parts = (INFINITY,)
    if INFINITY not in parts and not _is_drawn(tree):
        return False
    whole = _weights(level, charge(level, tree, tail_delta))
    return INFINITY not in whole and all(
        amount <= multiply(most, HALF) for amount, most in zip(whole, parts, strict=False) if most < INFINITY
    )


def _weights(level: Level, charged: Coordinates) -> tuple[Decimal, ...]:
    """What a charge adds to each account that epsilons, divergences or rho are counted in, a delta apart."""
    if isinstance(level.filter, EitherFilter):
        return tuple(add(*(charged.get(name, INFINITY) for name in pair)) for pair in filters.mixed_names(level.filter))
    return tuple(charged.get(name, INFINITY) for name in filters.names(level.filter) if name != "delta")


def _is_drawn(tree: Composition) -> bool:
    """Whether something in it is run on secret batches: it may lose far more rarely than it does mostly."""
    return isinstance(tree, PoissonSampled | SampledWithoutReplacement | Shuffled | RandomAllocation) or any(
        map(_is_drawn, children(tree))
    )


def ever_chosen(level: Level) -> Iterator[Decimal]:
    """Every `chosen_tail_delta` of a scope that may have been at this level, whatever is left of its delta; 0 apart."""
    yield from certified.possible_tail_deltas(level.filter)
    whole = filters.tail_budget(level.filter)
    if whole:  # by a first charge
        yield from (round_down(Fraction(whole) / 2**power) for power in range(HALVINGS + 1))


def sixteenth(levels: Levels) -> Decimal:
    """The tail_delta of `chosen_tail_delta` for what is priced by its profile; 0 where the scope takes none."""
    if filters.tail_budget(levels[0].filter) is None:
        return PARTS
    taking = [level for level in levels if filters.tail_budget(level.filter) is not None]
    return min(certified.default_tail_delta(level.filter, level.delta_left) for level in taking)


def ways(levels: Levels, tree: Composition) -> tuple[Decimal, ...]:
    """The tail_deltas that are worth a try, 0 for the price of the parts: first the one that the scope would choose,
    then all of delta that is left, its halves, and the parts; the last alone where they cannot be beaten."""
    tried = () if _is_exact(levels[0], tree) else pieces(levels)
    return tuple(dict.fromkeys((chosen_tail_delta(levels, tree), *tried, PARTS))) if tried else (PARTS,)


def _is_exact(level: Level, tree: Composition) -> bool:
    """Whether a budget of rho has a price of the parts that no profile is below by much."""
    if not isinstance(level.filter, ZCDPFilter) or _is_drawn(tree):
        return False
    try:
        return "rho" in charge(level, tree)
    except CannotCertify:
        return False


def pieces(levels: Levels) -> tuple[Decimal, ...]:
    """All of delta that is left, by the rule that leaves more, then by the one in force, and its halves; none where the
    scope takes none."""
    taking = [level for level in levels if filters.tail_budget(level.filter) is not None]
    left = min((level.delta_left for level in taking), default=ZERO)
    if filters.tail_budget(levels[0].filter) is None or not left:
        return ()
    most = min(level.delta_at_most for level in taking)
    halves = tuple(round_down(Fraction(left) / 2**power) for power in range(HALVINGS + 1))
    return (most, *halves) if most > left else halves


def cheapest(levels: Levels, tree: Composition, tried: Iterable[Decimal]) -> Decimal | None:
    """Of these tail_deltas the one that is admitted and uses least, of two alike the one that takes less of delta;
    first among those with which no scope fixes another rule than it was opened with. None where none is admitted."""
    found = (way for way in tried if admits(levels, tree, way))
    return min(
        found,
        key=lambda way: (changes(levels, tree, way), used(after(levels, tree, way)), way),
        default=None,
    )


def changes(levels: Levels, tree: Composition, tail_delta: Decimal) -> bool:
    """Whether a scope would fix another rule than it was opened with. Raises as `charge`."""
    return any(fixed(level, tree, tail_delta).filter != level.filter for level in levels)


def used(levels: Levels) -> Fraction:
    """What is used of the level that has used most: its reading at the budget's own delta, as a share of its epsilon,
    or its share of rho. For comparing ways; what has no reading there is worse than everything."""
    return max(map(_used, levels))


def _used(level: Level) -> Fraction:
    if isinstance(level.filter, ZCDPFilter):
        rho, unpriced = level.sums["rho"]
        return WORST if unpriced else Fraction(rho) / Fraction(level.filter.rho)
    budget = filters.budget_guarantee(level.filter)
    if not isinstance(budget, ApproxDP):
        return Fraction(0)  # it takes no tail_delta, so that all ways cost the same in it
    epsilon = filters.reading(level.filter, level.sums, budget.delta)
    return WORST if epsilon.is_infinite() else Fraction(epsilon) / Fraction(budget.epsilon)


# ---- how many --------------------------------------------------------------------------------------------------------


def copies_one_by_one(levels: Levels, tree: Composition, *, most: int, tail_delta: Decimal | None = None) -> int:
    """How many requests for a tree would be admitted now, one after another, at most `most`; each at the tail_delta
    that the scope would choose for it then, or at the one that is given."""
    counted = 0
    while counted < most:
        way = chosen_tail_delta(levels, tree) if tail_delta is None else tail_delta

        def goes_on(more: int, levels: Levels = levels, way: Decimal = way) -> bool:
            """Whether so many go through, each asked in this way."""
            if not admits(levels, tree, way, times=more):
                return False
            return tail_delta is not None or chosen_tail_delta(after(levels, tree, way, times=more - 1), tree) == way

        more = most_that(goes_on, most=most - counted)
        if not more:
            break
        counted += more
        levels = after(levels, tree, way, times=more)
    return counted


def planned_copies(levels: Levels, tree: Composition, *, most: int) -> int:
    """How many copies of a tree one request may hold, at most `most`, asked in the best of `ways`."""
    best = 0
    for way in _by_promise(ways(levels, tree)):

        def fits(count: int, way: Decimal = way) -> bool:
            return admits(levels, Repeated(tree, times=count), way)

        if best < most and fits(best + 1):
            best = most_that(fits, most=most, known=best + 1)
    return best


def _by_promise(tried: tuple[Decimal, ...]) -> tuple[Decimal, ...]:
    """The largest tail_delta first: in an empty scope it is mostly the best."""
    return tuple(sorted(tried, reverse=True))
