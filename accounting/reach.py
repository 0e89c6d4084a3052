"""How far a guarantee of others reaches: what it is worth to one unit of a scope, who is told of what it holds.

A library bounds what one *row* loses, or one whole *unit*, under the relation that it means by neighbours. A scope
bounds what one unit loses that has at most `max_contributions` rows, m, under its own relation. From one to the other:

    the guarantee holds       in a scope of       of a row costs              of a unit costs
    under add_remove          add_remove          a group of m                itself
                              replace_one         a group of 2 groups of m    a group of 2
    under zero_out            zero_out            a group of m                itself
                              replace_one         a group of 2, if m is 1     a group of 2
    under label_flip          label_flip          a group of m                itself
    under replace_one         replace_one         itself, if m is 1           itself
                              label_flip          a group of m                itself (a group of 1)

Nothing else follows, and is refused by name. Proofs: docs/proofs/filters.md, "Of whom".

>>> from dpledger.accounting.guarantees import PureDP
>>> found = steps_of(Relation.ADD_REMOVE, "row", Unit("user", max_contributions=5), Relation.REPLACE_ONE)
>>> [(count, inner.value) for count, inner in found]
[(5, 'add_remove'), (2, 'add_remove')]
>>> tree = reaching(PureDP(1), found, each_step=False)
>>> tree.k, tree.of.k, reaches(tree, found, each_step=False), reaches(PureDP(1), found, each_step=False)
(2, 5, True, False)
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, TypeAlias

from dpledger.accounting.composition import Composition, Group, Repeated, Sequence, children
from dpledger.errors import ParameterError, RelationError
from dpledger.relations import Relation, Unit

__all__ = ["Of", "reaches", "reaching", "steps_of"]

Of: TypeAlias = Literal["row", "unit"]
"""Of what a guarantee holds: of one row, or of one whole unit of the scope, however many rows it has."""
Steps: TypeAlias = tuple[tuple[int, Relation], ...]
"""So many steps of a relation, and then so many of these, ...: the groups around a tree, the inner one first."""


def steps_of(said: Relation, of: Of | None, unit: Unit, relation: Relation) -> Steps:
    """How many steps of a guarantee under `said`, for one row or for one `unit`, are one step of `relation` for one
    `unit`. `of` may be left out where a unit has one row.

    Claim: what holds for one step of `said` holds, in a group for each item of the result, for one `unit` under
    `relation`, if no unit gave it more than `max_contributions` rows. Source: docs/proofs/filters.md, "Of whom".
    Raises ParameterError where `of` is needed, RelationError where no number of steps is enough."""
    if unit.max_contributions > 1 and of is None:
        raise _unsaid(said, unit, relation)
    rows = unit.max_contributions if of == "row" else 1
    within = ((rows, said),) if rows > 1 else ()
    match said, relation:
        case Relation.REPLACE_ONE, Relation.REPLACE_ONE if rows > 1:
            raise _uneven(said, unit)
        case Relation.ZERO_OUT, Relation.REPLACE_ONE if rows > 1:
            raise _uneven(said, unit)
        case inner, outer if inner is outer:
            return within
        case ((Relation.ADD_REMOVE | Relation.ZERO_OUT), Relation.REPLACE_ONE):
            return (*within, (2, said))
        case Relation.REPLACE_ONE, Relation.LABEL_FLIP:
            return (*within, (1, said))
        case _:
            raise RelationError(
                f"a guarantee under {said.value} does not cover one {unit.name} under {relation.value}, the relation "
                f"of the scope: charge what the run promises under {relation.value}, or use a scope of {said.value}"
            )


def _unsaid(said: Relation, unit: Unit, relation: Relation) -> ParameterError:
    """Of what it holds must be said: of what it can. RelationError, as for one whole unit, where that is nothing."""
    steps_of(said, "unit", unit, relation)
    whole = f"'unit' (it bounds what all rows of one {unit.name} lose)"
    try:
        steps_of(said, "row", unit, relation)
    except RelationError as error:
        return ParameterError("of", "nothing", f"{whole}; 'row' does not work here: {error}")
    row = f"'row' (it bounds what one row loses; it is charged for {unit.max_contributions} of one {unit.name})"
    return ParameterError("of", "nothing", f"{row} or {whole}")


def _uneven(said: Relation, unit: Unit) -> RelationError:
    return RelationError(
        f"a guarantee for one row under {said.value} keeps the number of rows, and one {unit.name} may be exchanged "
        f"for another with more or fewer: charge what the run promises one {unit.name}, or one row under add_remove"
    )


def reaching(tree: Composition, steps: Steps, *, each_step: bool) -> Composition:
    """`tree` in a group for each of `steps`; with `each_step`, each part of a `repeated` or a `sequence` is, since
    these are granted one by one. ParameterError where there are no such parts."""
    if not steps:
        return tree
    if not each_step:
        return _grouped(tree, steps)
    match tree:
        case Repeated(of=part):
            return replace(tree, of=_grouped(part, steps))
        case Sequence(of=parts):
            return replace(tree, of=tuple(_grouped(part, steps) for part in parts))
        case _:
            raise ParameterError("parts", tree.kind, "a Repeated or a Sequence, of which steps are granted one by one")


def _grouped(tree: Composition, steps: Steps) -> Composition:
    for count, relation in steps:
        tree = Group(tree, k=count, relation=relation)
    return tree


def reaches(tree: Composition, steps: Steps, *, each_step: bool) -> bool:
    """Whether `tree` is what `reaching` makes, of whatever tree."""
    if not steps or not each_step:
        return _is_grouped(tree, steps)
    return isinstance(tree, Repeated | Sequence) and all(_is_grouped(part, steps) for part in children(tree))


def _is_grouped(tree: Composition, steps: Steps) -> bool:
    for count, relation in reversed(steps):
        if not isinstance(tree, Group) or (tree.k, tree.relation) != (count, relation):
            return False
        tree = tree.of
    return True
