"""What a node asks of what it runs, so that its theorem holds; each condition raises CannotCertify and says why.

>>> from dpledger.accounting.leaves import LaplaceLaw
>>> require_group(Group(LaplaceLaw(1), k=2, relation=Relation.ADD_REMOVE), Relation.REPLACE_ONE)
>>> require_disjoint(Parallel((LaplaceLaw(1), LaplaceLaw(2))), Relation.ADD_REMOVE)
"""

from __future__ import annotations

from dpledger.accounting.composition import Composition, Converted, Group, Parallel, children, leaves
from dpledger.accounting.families.leaf_rules import OF_A_FIXED_SIZE
from dpledger.accounting.kinds import rules_of
from dpledger.errors import CannotCertify
from dpledger.relations import Relation

__all__ = ["require_any_size", "require_disjoint", "require_exchangeable", "require_group"]


def require_disjoint(tree: Parallel, relation: Relation) -> None:
    """CannotCertify unless a neighbour changes one part only: always where units are dealt by what they are, under
    add_remove where they are dealt by what their data hold."""
    if tree.by is None and relation is not Relation.ADD_REMOVE:
        raise CannotCertify(
            f"parallel parts by value count by their maximum under add_remove only, not under {relation.value}: a unit "
            'that changes may move. Say by "unit" where ids, coins of their own or public positions deal the units'
        )


def require_exchangeable(tree: Composition) -> None:
    """CannotCertify for what loses more where a unit is exchanged for another one than where its data change: parallel
    parts by unit, below a draw whose theorem exchanges units. Source: docs/proofs/filters.md, "Parallel, by unit"."""
    if isinstance(tree, Group | Converted) and tree.relation is Relation.ADD_REMOVE:
        return  # what holds for one that leaves and one that comes, wherever these are
    if isinstance(tree, Parallel) and tree.by == "unit" and len(tree.of) > 1:
        raise CannotCertify(
            "parallel parts by unit in a draw that exchanges units: the other one may be in another part. State what "
            "the whole guarantees"
        )
    for part in children(tree):
        require_exchangeable(part)


def require_any_size(tree: Composition) -> None:
    """CannotCertify for what is said of a fixed number of units, in a batch of another draw."""
    for leaf in leaves(tree):
        if rules_of(leaf).batch.sampled is OF_A_FIXED_SIZE:
            raise CannotCertify(f"{leaf.kind} is about a fixed number of units, so it cannot be part of another batch")


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
