"""What a run adds to a plan: the outcomes of leaves, and how many steps of a node were started.

A tree is planned where it has none of these; a run adds these alone. Whoever settles, reads or records a charge asks
here, and knows no kind by name.

>>> from dpledger.accounting.composition import LaplaceLaw
>>> plan = Repeated(LaplaceLaw(1), times=5)
>>> ran = recorded(Repeated(LaplaceLaw(1), times=5, done=1), granted=2)
>>> ran.done, planned(ran) == plan, certain(ran).times
(2, True, 2)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar, assert_never

from dpledger.accounting.composition import (
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
    Sequence,
    Shuffled,
    children,
    leaves,
)
from dpledger.accounting.kinds import ExPost, rules_of

__all__ = [
    "Steps",
    "answers",
    "certain",
    "planned",
    "planned_leaf",
    "recorded",
    "require_possible",
    "steps",
    "without_counts",
]

L = TypeVar("L", bound=Leaf)


def planned(tree: Composition) -> Composition:
    """The tree without its outcomes: what was planned before it ran. `planned(release.parts) == mechanism.parts()`."""
    return _uncounted(tree, planned_leaf)


def without_counts(tree: Composition) -> Composition:
    """The tree without any word on how many steps were started: every one that was planned counts. The outcomes of
    leaves stay: anyone can recompute what they cost."""
    return _uncounted(tree, lambda leaf: leaf)


def _uncounted(tree: Composition, of_leaf: Callable[[Leaf], Leaf]) -> Composition:
    """The tree without counts of steps, each leaf changed."""

    def below(part: Composition) -> Composition:
        return _uncounted(part, of_leaf)

    if isinstance(tree, Leaf):
        return of_leaf(tree)
    match tree:
        case Repeated(of=of, times=times):
            return Repeated(below(of), times=times)
        case Sequence(of=parts):
            return Sequence(tuple(below(part) for part in parts))
        case Parallel(of=parts):
            return Parallel(tuple(below(part) for part in parts))
        case PoissonSampled(of=of, rate=rate):
            return PoissonSampled(below(of), rate=rate)
        case SampledWithoutReplacement(of=of, population=population, batch=batch):
            return SampledWithoutReplacement(below(of), population=population, batch=batch)
        case Shuffled(of=of, users=users):
            return Shuffled(below(of), users=users)
        case Group(of=of, k=k, relation=relation):
            return Group(below(of), k=k, relation=relation)
        case RandomAllocation(of=of, steps=steps):
            return RandomAllocation(below(of), steps=steps)
        case PostProcessed(of=of):
            return PostProcessed(below(of))
        case Converted(of=of, to=to, relation=relation):
            return Converted(below(of), to=to, relation=relation)
        case Filtered(filter=filter_, of=parts):
            return Filtered(filter_, tuple(below(part) for part in parts))
        case _:
            assert_never(tree)


def planned_leaf(leaf: L) -> L:
    """The leaf without its outcome."""
    outcome = rules_of(leaf).outcome
    if outcome is None:
        return leaf
    plan: L = outcome.planned(leaf)
    return plan


def certain(tree: Composition) -> Composition | None:
    """What certainly ran of settled `tree`, as a plan: of a plan by steps, those that were started. None where nothing
    did, and where a leaf publishes an outcome: its loss is that of the outcome, not of the mechanism."""
    counted = steps(tree)
    if counted is not None and counted.started is not None:
        ran = counted.run_of(counted.started)
        return None if ran is None else certain(ran)
    return None if _settles(tree) else tree


def _settles(tree: Composition) -> bool:
    """Whether some leaf below publishes an outcome, or some steps were counted."""
    if isinstance(tree, Leaf):
        return rules_of(tree).outcome is not None
    counted = steps(tree)
    return (counted is not None and counted.started is not None) or any(map(_settles, children(tree)))


# ---- steps ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Steps:
    """Of a tree whose steps are granted one by one: how many were planned, how many were started where that is known,
    and the tree of a number of them that were `recorded` as started, or are the whole run (None: of no run)."""

    planned: int
    started: int | None
    recorded: Callable[[int], Composition]
    run_of: Callable[[int], Composition | None]


def steps(tree: Composition) -> Steps | None:
    """The steps of a tree that is run step by step; None of one that runs as a whole."""
    if isinstance(tree, Leaf):
        return None
    match tree:
        case Repeated(of=of, times=times, done=done):
            return Steps(
                planned=times,
                started=done,
                recorded=lambda count: Repeated(without_counts(of), times=times, done=min(times, count)),
                run_of=lambda count: Repeated(of, times=count) if count else None,
            )
        case Sequence() | Parallel() | PoissonSampled() | SampledWithoutReplacement() | Shuffled() | Group():
            return None
        case RandomAllocation() | PostProcessed() | Converted() | Filtered():
            return None
        case _:
            assert_never(tree)


def recorded(tree: Composition, granted: int | None) -> Composition:
    """A tree as the ledger records it: a granted step counts as run, whatever the mechanism says it started; where none
    was granted (None), every one that was planned."""
    counted = steps(tree)
    if granted is None or counted is None or counted.started is None:
        return without_counts(tree)
    return counted.recorded(max(counted.started, granted))


# ---- what an outcome says -------------------------------------------------------------------------------------------


def answers(tree: Composition) -> int | None:
    """How many answers the outcomes in a tree speak of; None of a tree without an outcome that counts them. One that
    does not, beside one that does, speaks of none."""
    told = [count for leaf, outcome in _known(tree) if (count := outcome.answers(leaf)) is not None]
    return sum(told) if told else None


def require_possible(tree: Composition) -> None:
    """ParameterError for an outcome that its leaf cannot have, also below a node that settles nothing."""
    for leaf, outcome in _known(tree):
        outcome.require_possible(leaf)


def _known(tree: Composition) -> Iterator[tuple[Leaf, ExPost[Any]]]:
    """The leaves that have an outcome, each with what its kind says of outcomes."""
    for leaf in leaves(tree):
        outcome = rules_of(leaf).outcome
        if outcome is not None and outcome.known(leaf):
            yield leaf, outcome
