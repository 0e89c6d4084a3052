"""From a composition tree to losses: what the engine composes for a tree, a relation and a direction.

A tree says one list of leaves, each on a batch, or several where units are dealt to parallel parts: then the profile is
the largest of the lists'. A leaf with a dominating pair becomes a loss (`pld`); a leaf that promises only Renyi
divergences becomes a curve. A list that holds a leaf whose pair is known from above and from below only
is read twice. What has no theorem here is CannotCertify, never a guess. docs/proofs/engine.md, section 7.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from typing import assert_never

from dpledger.accounting.arithmetic.floating import quietly
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
    children,
)
from dpledger.accounting.kinds import AnyLeaf, rules_of
from dpledger.accounting.laws.draws import (
    EVERYONE,
    Allocation,
    Draw,
    Poisson,
    Runs,
    Shuffle,
    Subset,
    everyones,
    in_blocks,
)
from dpledger.accounting.laws.law import Direction
from dpledger.accounting.pricing.conditions import (
    require_any_size,
    require_disjoint,
    require_exchangeable,
    require_group,
)
from dpledger.accounting.pricing.costs import admitted, converted_guarantee, priced
from dpledger.accounting.pricing.groups import exchanged_in_samples, grouped_in_samples
from dpledger.accounting.pricing.pld import Drawn, mirrors_itself, ranged
from dpledger.accounting.pricing.pld_list import Leaves, PldList, Ranges, pld_lists_of
from dpledger.accounting.pricing.selecting import ORDERS, selected_guarantee
from dpledger.decimals import multiply
from dpledger.errors import CannotCertify
from dpledger.relations import Relation, one_way

__all__ = ["PldList", "read_both_ways", "read_losses", "running_order"]

MOST_LISTS = 64
MOST_BLOCKS = 4096  # of runs of one bounded range each, in their order


@quietly
def read_losses(tree: Composition, relation: Relation, direction: Direction) -> tuple[PldList, ...]:
    """The lists of losses that `tree` composes to; the largest of their profiles is the tree's.

    Raises CannotCertify where the tree holds something that has no dominating pair and no Renyi curve under `relation`.
    """
    return _all_pld_lists(_lists_of(tree, relation), relation, direction, "any", None, 1)


@quietly
def read_both_ways(
    tree: Composition, relation: Relation, ranges: Ranges = "any", effort: int = 1
) -> tuple[tuple[PldList, ...], tuple[PldList, ...]]:
    """`read_losses` for the directions remove and add: one object where they agree."""
    lists = _lists_of(tree, relation)
    order = running_order(tree, relation) if ranges == "given" and len(lists) == 1 else None
    removed = _all_pld_lists(lists, relation, "remove", ranges, order, effort)
    if all(mirrors_itself(drawn) for leaves in lists for drawn in leaves):
        return removed, removed
    return removed, _all_pld_lists(lists, relation, "add", ranges, order, effort)


def _all_pld_lists(
    lists: list[Leaves],
    relation: Relation,
    direction: Direction,
    ranges: Ranges,
    order: Runs | None,
    effort: int,
) -> tuple[PldList, ...]:
    each = (pld_lists_of(leaves, relation, direction, ranges, order, effort) for leaves in lists)
    return tuple(itertools.chain.from_iterable(each))


def _lists_of(tree: Composition, relation: Relation) -> list[Leaves]:
    """Every list of leaves that one unit may meet; Poisson samples of which it is exchanged as the pair of that."""
    lists = _lists(tree, relation)
    return lists if one_way(relation) else _distinct(_exchanged(leaves, relation) for leaves in lists)


def _exchanged(leaves: Leaves, relation: Relation) -> Leaves:
    changed: Leaves = {}
    for drawn, count in leaves.items():
        poisson = isinstance(drawn.how, Poisson) and drawn.how != EVERYONE
        leaf = Drawn(exchanged_in_samples(drawn, relation)) if poisson else drawn
        changed[leaf] = changed.get(leaf, 0) + count
    return changed


def _lists(tree: Composition, relation: Relation) -> list[Leaves]:
    if isinstance(tree, Leaf):
        return [{Drawn(tree): 1}]
    match tree:
        case Repeated() | Sequence() | PostProcessed() | Chain():
            return _of_runs(tree, relation)
        case PoissonSampled(of=of, rate=rate):
            return _on_batches(of, Poisson(rate), relation)
        case SampledWithoutReplacement(of=of, population=population, batch=batch):
            how = EVERYONE if batch == population else Subset(population, batch)
            return _on_batches(of, how, relation)
        case RandomAllocation(of=of, steps=steps, k=k):
            return _allocated(of, steps, k or 1, relation)
        case Shuffled(of=of, users=users):
            return _on_batches(of, Shuffle(users), relation)
        case Parallel(of=parts):
            require_disjoint(tree, relation)
            return _distinct(leaves for part in parts for leaves in _lists(part, relation))
        case Group():
            return _of_group(tree, relation)
        case Selected():
            return [{Drawn(selected_guarantee(priced(tree, relation, ORDERS))): 1}]
        case Converted():
            return [{Drawn(converted_guarantee(tree, relation)): 1}]
        case Filtered():
            return _lists(admitted(tree, relation), relation)
        case _:
            assert_never(tree)


def _of_runs(tree: Composition, relation: Relation) -> list[Leaves]:
    """The lists of what runs one after another."""
    alone: Leaves = {}
    several: list[list[Leaves]] = []
    for part, times in _runs(tree, 1):
        if isinstance(part, Leaf):
            drawn = Drawn(part)
            alone[drawn] = alone.get(drawn, 0) + times
            continue
        lists = _lists(part, relation)
        if len(lists) > 1:
            several.append(_powers(lists, times))
            continue
        for drawn, count in lists[0].items():
            alone[drawn] = alone.get(drawn, 0) + count * times
    return _products(alone, several)


def _runs(tree: Composition, times: int) -> Iterable[tuple[Composition, int]]:
    """The parts of what runs one after another, with counts; equal parts of a sequence as one: a long list of the same
    is read once."""
    if isinstance(tree, Leaf):
        return ((tree, times),)
    match tree:
        case Repeated(of=of, times=more):
            return _runs(of, times * more)
        case PostProcessed(of=of) | Chain(of=of):
            return _runs(of, times)
        case Sequence(of=parts):
            return itertools.chain.from_iterable(_runs(part, times * count) for part, count in Counter(parts).items())
        case PoissonSampled() | SampledWithoutReplacement() | RandomAllocation() | Shuffled() | Parallel():
            return ((tree, times),)
        case Group() | Selected() | Converted() | Filtered():
            return ((tree, times),)
        case _:
            assert_never(tree)


def running_order(tree: Composition, relation: Relation) -> Runs | None:
    """The bounded ranges that everyone is in, the one that is run first first; None where that is not said, or takes
    more than MOST_BLOCKS."""
    if isinstance(tree, Leaf):
        return everyones(ranged(run, 1) for run in (Drawn(tree),) if rules_of(run.leaf).pair.envelope is not None)
    match tree:
        case Repeated(of=of, times=times):
            once = running_order(of, relation)
            if once is None or len(once) < 2:
                return once and ((once[0][0], once[0][1] * times),)
            return in_blocks(once * times) if len(once) * times <= MOST_BLOCKS else None
        case PostProcessed(of=of) | Chain(of=of):
            return running_order(of, relation)
        case Group(of=of, k=1, relation=inner) if inner is relation:
            return running_order(of, relation)
        case Sequence(of=parts):
            found: list[tuple[float, int]] = []
            for part in parts:
                runs = running_order(part, relation)
                if runs is None or len(found) + len(runs) > MOST_BLOCKS:
                    return None
                found.extend(runs)
            return in_blocks(found)
        case PoissonSampled() | SampledWithoutReplacement() | RandomAllocation() | Shuffled() | Parallel():
            return _order_within(tree, relation)
        case Group() | Selected() | Converted() | Filtered():
            return _order_within(tree, relation)
        case _:
            assert_never(tree)


def _order_within(tree: Composition, relation: Relation) -> Runs | None:
    """Of what is read as one list: at most one range is in order."""
    lists = _lists(tree, relation)
    each = lists[0].items() if len(lists) == 1 else ()
    runs = everyones(ranged(run, count) for run, count in each if rules_of(run.leaf).pair.envelope is not None)
    return runs if len(lists) == 1 and len(runs) < 2 else None


def _of_group(tree: Group, relation: Relation) -> list[Leaves]:
    """Each leaf of a list, for k steps of the inner relation: pairs at that distance compose as all pairs do. One step
    of its own relation is that of what it holds."""
    require_group(tree, relation)
    if tree.k == 1 and tree.relation is relation:
        return _lists(tree.of, relation)
    if tree.k > 1 and _deals_units(tree.of):
        raise CannotCertify("a group whose units may be in different parallel parts has no certified bound")
    return _distinct([_for_steps(leaves, tree, relation) for leaves in _lists(tree.of, tree.relation)])


def _for_steps(leaves: Leaves, tree: Group, relation: Relation) -> Leaves:
    changed: Leaves = {}
    for drawn, count in leaves.items():
        if drawn.how == EVERYONE:
            leaf = Drawn(_grouped(drawn.leaf, tree.k, tree.relation))
        else:
            leaf = Drawn(grouped_in_samples(drawn, tree, relation))
        changed[leaf] = changed.get(leaf, 0) + count
    return changed


def _grouped(leaf: AnyLeaf, k: int, relation: Relation) -> AnyLeaf:
    """The leaf for `k` steps of `relation`, the one that `leaf` is stated under: another leaf, under any relation.

    Claim: dominates `leaf` on datasets k steps apart. Source: Vadhan 2017, Lemma 2.2 (epsilon, delta);
    Bun-Steinke 2016, Proposition 1.9 (zCDP); Dong-Roth-Su 2022, Theorem 2.14 (GDP); docs/proofs/engine.md, section 7
    (longer shifts).
    """
    group = rules_of(leaf).group
    if k == 1 and not group.relative:
        return leaf
    larger: AnyLeaf = group.grouped(leaf, k, relation)
    return larger


def _deals_units(tree: Composition) -> bool:
    """Whether two units may be in different parallel parts, equal ones too: a change of both is seen in both."""
    if isinstance(tree, Leaf | Converted | Filtered):  # a promise about the whole
        return False
    match tree:
        case Parallel(of=parts):
            return len(parts) > 1 or any(map(_deals_units, parts))
        case Sequence() | Repeated() | PoissonSampled() | SampledWithoutReplacement() | RandomAllocation():
            return any(map(_deals_units, children(tree)))
        case Shuffled() | Group() | PostProcessed() | Selected() | Chain():
            return any(map(_deals_units, children(tree)))
        case _:
            assert_never(tree)


def _on_batches(of: Composition, how: Draw, relation: Relation) -> list[Leaves]:
    _require_relation(how, relation)
    if how != EVERYONE:
        require_any_size(of)
    if isinstance(how, Subset | Shuffle):
        require_exchangeable(of)
    return _distinct([_one_batch(leaves, how, relation) for leaves in _lists(of, relation)])


def _allocated(of: Composition, steps: int, k: int, relation: Relation) -> list[Leaves]:
    """A unit in k of these steps: in one of floor(steps/k), k times over. Source: docs/proofs/amplification.md, section
    4; below, what one step shows."""
    if k == steps:
        return _powers(_lists(of, relation), k)
    if k == 1:
        return _on_batches(of, Allocation(steps), relation)
    first, *others = _on_batches(of, Allocation(steps // k, Fraction(k, steps)), relation)
    rest, *_ = _on_batches(of, Allocation(steps // k, Fraction(0)), relation)
    if others or any(rules_of(drawn.leaf).pair.envelope is not None for drawn in first):
        raise CannotCertify(
            "a unit in several steps of parallel parts, or of a bounded range, has no certified bound: state what a "
            "step guarantees"
        )
    return [_merged(first, {drawn: count * (k - 1) for drawn, count in rest.items()})]


def _require_relation(how: Draw, relation: Relation) -> None:
    """Refused here as well, whatever is run: a node that no theorem covers is not read as if it were not there."""
    if how == EVERYONE:
        return
    covered: tuple[Relation, ...]
    match how:
        case Poisson():
            return
        case Allocation():
            word, covered = "random_allocation is", (Relation.ADD_REMOVE, Relation.ZERO_OUT)
        case Subset() | Shuffle():
            word, covered = "sampled_without_replacement and shuffled are", (Relation.REPLACE_ONE,)
        case _:
            assert_never(how)
    if relation not in covered:
        names = " and ".join(sorted(one.value for one in covered))
        raise CannotCertify(f"{word} certified under {names}, not under {relation.value}")


def _one_batch(leaves: Leaves, how: Draw, relation: Relation) -> Leaves:
    """What one secret batch shows. Several Gaussians on it are one Gaussian; no other mixture has a theorem here."""
    if how == EVERYONE:
        return leaves
    if list(leaves.values()) == [1]:
        (drawn,) = leaves
        return {Drawn(drawn.leaf, _nested(drawn.how, how)): 1}
    square, squares = Fraction(0), None
    for drawn, count in leaves.items():
        rules = rules_of(drawn.leaf)
        squares = rules.pair.squares
        if drawn.how != EVERYONE or squares is None:
            raise CannotCertify("one secret batch read several times is certified for Gaussian noise only")
        if isinstance(how, Poisson | Allocation) and not (
            relation is Relation.ADD_REMOVE or rules.batch.null_is_absence
        ):
            raise CannotCertify(
                f"a secret batch under {relation.value} is certified for Gaussian noise only, not for {drawn.leaf.kind}"
            )
        square += count * Fraction(*squares.ratio(drawn.leaf, relation))
    return {Drawn(squares.together(square), how): 1} if squares else {}


def _nested(inner: Draw, outer: Draw) -> Draw:
    """A batch of a batch: rates of Poisson samples multiply; nothing else is known."""
    if inner == EVERYONE:
        return outer
    if isinstance(inner, Poisson) and isinstance(outer, Poisson):
        return Poisson(multiply(inner.rate, outer.rate))
    raise CannotCertify("a secret batch drawn from another is certified for Poisson samples only")


def _products(alone: Leaves, several: list[list[Leaves]]) -> list[Leaves]:
    """The lists of one that every unit meets, and of one of each of several."""
    lists = [alone]
    for factor in several:
        lists = _distinct(_merged(left, right) for left in lists for right in factor)
    return lists


def _powers(lists: list[Leaves], times: int) -> list[Leaves]:
    """The lists of `times` runs, where each run deals the unit to one of several lists anew."""
    if len(lists) == 1:
        return [{drawn: count * times for drawn, count in lists[0].items()}]
    if times > MOST_LISTS:
        raise CannotCertify(f"parallel parts that differ, repeated {times} times, are more than {MOST_LISTS} cases")
    runs = itertools.combinations_with_replacement(lists, times)
    return _distinct(_merged(*run) for run in runs)


def _merged(*lists: Leaves) -> Leaves:
    merged: Leaves = {}
    for leaves in lists:
        for drawn, count in leaves.items():
            merged[drawn] = merged.get(drawn, 0) + count
    return merged


def _distinct(lists: Iterable[Leaves]) -> list[Leaves]:
    if isinstance(lists, list) and len(lists) == 1:
        return lists
    distinct: list[Leaves] = []
    for leaves in lists:
        if leaves not in distinct:
            distinct.append(leaves)
        if len(distinct) > MOST_LISTS:
            raise CannotCertify(f"the parallel parts combine to more than {MOST_LISTS} cases")
    return distinct
