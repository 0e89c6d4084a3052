"""What a run adds to a plan: the outcomes of leaves, and how many steps of a node were started.

A tree is planned where it has none of these; a run adds these alone. Whoever settles, reads or records a charge asks
here, and knows no kind by name. A count alone is a mechanism's word: it stands where steps were granted, or beside an
outcome that tells of as many answers (docs/proofs/filters.md, "Refunds").

>>> from dpledger.accounting.composition import LaplaceLaw
>>> plan = Repeated(LaplaceLaw(1), times=5)
>>> ran = recorded(Repeated(LaplaceLaw(1), times=5, done=1), granted=2)
>>> ran.done, planned(ran) == plan, certain(ran).times
(2, True, 2)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar, assert_never

from dpledger.accounting.chains import ChainLaw, finer, is_within
from dpledger.accounting.composition import (
    Chain,
    Composition,
    Converted,
    Filtered,
    Group,
    Leaf,
    Node,
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
    leaves,
)
from dpledger.accounting.guarantees import PureDP
from dpledger.accounting.kinds import ExPost, rules_of
from dpledger.errors import ParameterError

__all__ = [
    "StartedSteps",
    "answers",
    "certain",
    "planned",
    "planned_leaf",
    "promised",
    "recorded",
    "require_possible",
    "seen",
    "steps",
    "with_levels",
]

L = TypeVar("L", bound=Leaf)


def planned(tree: Composition) -> Composition:
    """The tree without its outcomes: what was planned before it ran. `planned(release.parts) == mechanism.parts()`."""
    if isinstance(tree, Leaf):
        return planned_leaf(tree)
    if isinstance(tree, Chain):
        return replace(tree, reached=None)
    return _counted(_changed(tree, planned), None)


def promised(tree: Composition) -> Composition:
    """What a claim may be about: the plan, since no outcome is a guarantee. A filtered node promises its budget, by
    what was charged, outcomes and all."""
    if isinstance(tree, Leaf):
        return planned_leaf(tree)
    if isinstance(tree, Filtered):
        return tree
    if isinstance(tree, Chain):
        return replace(tree, reached=None)
    return _counted(_changed(tree, promised), None)


def seen(tree: Composition) -> Composition:
    """The tree with its outcomes, and of its counts those alone that an outcome tells of: a count right below a
    `sequence` beside leaves with outcomes. As many steps as those tell of answers count as started, whatever the
    mechanism says; of any other count every step that was planned."""
    return tree if isinstance(tree, Leaf) else _seen(tree, None)


def _seen(node: Node, told: int | None) -> Node:
    beside = _told(leaf for leaf in node.of if isinstance(leaf, Leaf)) if isinstance(node, Sequence) else None
    below = _changed(node, lambda part: part if isinstance(part, Leaf) else _seen(part, beside))
    return _counted(below, told)


def _counted(node: Node, least: int | None) -> Node:
    """A node whose steps were counted, with at least so many of them started; with None no count at all."""
    match node:
        case Sequence(of=parts, done=int(done)):
            return replace(node, done=None if least is None else max(done, min(least, len(parts))))
        case Repeated(times=times, done=int(done)):
            return replace(node, done=None if least is None else max(done, min(least, times)))
        case Sequence() | Repeated() | Parallel() | Filtered() | PoissonSampled() | SampledWithoutReplacement():
            return node
        case Shuffled() | RandomAllocation() | Group() | PostProcessed() | Selected() | Converted() | Chain():
            return node
        case _:
            assert_never(node)


def _changed(node: Node, change: Callable[[Composition], Composition]) -> Node:
    """The node, with what is below it changed."""
    match node:
        case Sequence(of=parts) | Parallel(of=parts) | Filtered(of=parts):
            changed = tuple(map(change, parts))
            return node if changed == parts else replace(node, of=changed)
        case Repeated(of=part) | PoissonSampled(of=part) | SampledWithoutReplacement(of=part) | Shuffled(of=part):
            return replace(node, of=change(part))
        case (
            RandomAllocation(of=part) | Group(of=part) | PostProcessed(of=part) | Selected(of=part) | Converted(of=part)
        ):
            return replace(node, of=change(part))
        case Chain():
            return node
        case _:
            assert_never(node)


def planned_leaf(leaf: L) -> L:
    """The leaf without its outcome."""
    outcome = rules_of(leaf).outcome
    if outcome is None:
        return leaf
    plan: L = outcome.planned(leaf)
    return plan


def certain(tree: Composition) -> Composition | None:
    """What certainly ran of settled `tree`, as a plan: of a plan by steps, those that were started. None where nothing
    did, and where a leaf or a chain publishes an outcome: its loss is that of the outcome, not of the mechanism."""
    counted = steps(tree)
    if counted is not None and counted.started is not None:
        ran = counted.run_of(counted.started)
        return None if ran is None else certain(ran)
    return None if _settles(tree) else tree


def _settles(tree: Composition) -> bool:
    """Whether some leaf or chain below publishes an outcome, or some steps were counted."""
    if isinstance(tree, Leaf):
        return rules_of(tree).outcome is not None
    if isinstance(tree, Chain):
        return True
    counted = steps(tree)
    return (counted is not None and counted.started is not None) or any(map(_settles, children(tree)))


# ---- steps ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StartedSteps:
    """Of a tree whose steps are granted one by one: how many were planned, how many were started where that is known,
    and the tree of a number of them that were `recorded` as started, or are the whole run (None: of no run)."""

    planned: int
    started: int | None
    recorded: Callable[[int], Composition]
    run_of: Callable[[int], Composition | None]


def steps(tree: Composition) -> StartedSteps | None:
    """The steps of a tree that is run step by step; None of one that runs as a whole."""
    if isinstance(tree, Leaf):
        return None
    match tree:
        case Repeated(of=of, times=times, done=done):
            return StartedSteps(
                planned=times,
                started=done,
                recorded=lambda count: Repeated(planned(of), times=times, done=min(times, count)),
                run_of=lambda count: Repeated(of, times=count) if count else None,
            )
        case Sequence(of=parts, done=done):
            return StartedSteps(
                planned=len(parts),
                started=done,
                recorded=lambda count: Sequence(tuple(map(planned, parts)), done=min(len(parts), count)),
                run_of=lambda count: Sequence(parts[:count]) if count else None,
            )
        case Parallel() | PoissonSampled() | SampledWithoutReplacement() | Shuffled() | Group():
            return None
        case RandomAllocation() | PostProcessed() | Selected() | Converted() | Filtered() | Chain():
            return None
        case _:
            assert_never(tree)


def recorded(tree: Composition, granted: int | None) -> Composition:
    """A tree as the ledger records it: a granted step counts as run, whatever the mechanism says it started, and costs
    its cap; where none was granted (None), what is `seen`."""
    counted = steps(tree)
    if granted is None or counted is None:
        return seen(tree)
    return planned(tree) if counted.started is None else counted.recorded(max(counted.started, granted))


# ---- what an outcome says -------------------------------------------------------------------------------------------


def answers(tree: Composition) -> int | None:
    """How many answers the outcomes in a tree speak of; None of a tree without an outcome that counts them. One that
    does not, beside one that does, speaks of none.

    A chain that published a level may have published any number of them: it speaks of none beside leaves that count
    theirs, and alone of as many as there were (None); closed before its first level, of 0."""
    told = _told(leaves(tree))
    if told is not None:
        return told
    reached = [chain.reached for chain in _chains(tree) if chain.reached is not None]
    return 0 if reached and all(isinstance(level, PureDP) for level in reached) else None


def with_levels(tree: Composition, levels: tuple[ChainLaw, ...] | None) -> Composition:
    """The tree with each chain that says what it reached at least at those of `levels` that are of it: the finest ones
    that were seen to be handed out. With None nobody saw them, and every chain counts at its finest level.

    ParameterError for a level that no chain of the tree may publish."""
    for level in levels or ():
        if not any(is_within(level, chain.of) for chain in _chains(tree)):
            raise ParameterError("level", level, "a level of a chain of the parts, not above its finest")
    return _at_levels(tree, levels)


def _at_levels(tree: Composition, levels: tuple[ChainLaw, ...] | None) -> Composition:
    if isinstance(tree, Leaf):
        return tree
    if not isinstance(tree, Chain):
        return _changed(tree, lambda part: _at_levels(part, levels))
    if tree.reached is None or levels is None:
        return replace(tree, reached=None)
    own = (level for level in levels if is_within(level, tree.of))
    return replace(tree, reached=functools.reduce(finer, own, tree.reached))


def _chains(tree: Composition) -> Iterator[Chain]:
    if isinstance(tree, Chain):
        yield tree
    for part in children(tree):
        yield from _chains(part)


def _told(among: Iterable[Leaf]) -> int | None:
    told = [count for leaf, outcome in _known(among) if (count := outcome.answers(leaf)) is not None]
    return sum(told) if told else None


def require_possible(tree: Composition) -> None:
    """ParameterError for an outcome that its leaf cannot have, also below a node that settles nothing; and for one of
    a part that was never started."""
    for leaf, outcome in _known(leaves(tree)):
        outcome.require_possible(leaf)
    _require_started(tree)


def _require_started(tree: Composition) -> None:
    if any(planned(part) != part for part in _waiting(tree)):
        raise ParameterError("done", getattr(tree, "done", None), "no outcome of a part that was never started")
    for part in children(tree):
        _require_started(part)


def _waiting(tree: Composition) -> tuple[Composition, ...]:
    """The parts of a counted node of which no run was started."""
    if isinstance(tree, Sequence) and tree.done is not None:
        return tree.of[tree.done :]
    return (tree.of,) if isinstance(tree, Repeated) and tree.done == 0 else ()


def _known(among: Iterable[Leaf]) -> Iterator[tuple[Leaf, ExPost[Any]]]:
    """The leaves that have an outcome, each with what its kind says of outcomes."""
    for leaf in among:
        outcome = rules_of(leaf).outcome
        if outcome is not None and outcome.known(leaf):
            yield leaf, outcome
