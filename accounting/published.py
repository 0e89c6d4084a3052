"""What a tree that ran says of itself, and how much of that somebody else has seen.

A mechanism returns its parts with what happened: how many steps of a plan were started, and the outcomes of leaves. An
outcome stands in the entry, so that anyone recomputes its loss; that it is possible at all is checked here, for every
leaf, also below a node that settles nothing. How many steps were done is the mechanism's word.

>>> from dpledger.accounting.composition import LaplaceLaw
>>> without_counts(Repeated(LaplaceLaw(1), times=5, done=0)).done is None
True
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar, cast

from dpledger.accounting.composition import Composition, Repeated, SparseVectorLaw, children
from dpledger.accounting.sparse_vectors import require_possible

__all__ = ["answers", "require_possible_outcomes", "without_counts"]

Tree = TypeVar("Tree", bound=Composition)


def without_counts(tree: Tree) -> Tree:
    """The tree without any word on how many steps were done: every one that was planned counts."""
    parts = children(tree)
    if not parts:
        return tree
    changed: dict[str, Any] = {"done": None} if isinstance(tree, Repeated) else {}
    below = tuple(without_counts(part) for part in parts)
    node = cast("Any", tree)
    changed["of"] = below if isinstance(node.of, tuple) else below[0]
    result: Tree = dataclasses.replace(node, **changed)
    return result


def answers(tree: Composition) -> int | None:
    """How many answers the outcomes in a tree speak of; None of a tree without an outcome."""
    if isinstance(tree, SparseVectorLaw):
        return None if tree.outcome is None else tree.outcome.tests
    known = [count for count in map(answers, children(tree)) if count is not None]
    return sum(known) if known else None


def require_possible_outcomes(tree: Composition) -> None:
    """ParameterError for an outcome that its leaf cannot have."""
    if isinstance(tree, SparseVectorLaw) and tree.outcome is not None:
        require_possible(tree, tree.outcome)
    for part in children(tree):
        require_possible_outcomes(part)
