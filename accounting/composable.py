"""What was run, as people say it, and the one tree that it means.

    compose(step)                          a tree, a mechanism or a document
    compose(step, answer)                  one after the other, each once
    compose((step, 1000), (answer, 3))     a pair: a mechanism and how often it ran
    compose([(step, 1000), answer])        one list (any iterable, but no set) of all these
    compose({step: 1000, answer: 3})       a dict of counts

A tuple is told by the types in it: one whose second of two items is a number is a pair, any other is a list. Equal
mechanisms stand beside each other in every form but the dict: in `{a: 1000, b: 1000}` with `a == b` Python itself keeps
one entry and the last count, before anybody could see it, so what was run twice is counted once. Give a dict only where
its keys cannot be equal. A set is refused for the same reason.

>>> from dpledger.accounting.composition import LaplaceLaw
>>> a, b = LaplaceLaw("0.1"), LaplaceLaw("0.10")
>>> len({a: 3, b: 4}), tree_of((a, 3), (b, 4))[0] == Sequence((Repeated(a, times=3), Repeated(a, times=4)))
(1, True)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import SupportsIndex, TypeAlias, cast

from dpledger.accounting.composition import Composition, HasParts, Repeated, Sequence, is_pair
from dpledger.accounting.documents import Document, as_tree
from dpledger.accounting.laws.law import Direction
from dpledger.errors import ParameterError, RelationError
from dpledger.relations import Relation, Unit
from dpledger.schema import listed, one_of

__all__ = ["Composable", "Counted", "Ran", "Words", "how_to_read", "own_words", "tree_of"]

Ran: TypeAlias = "Composition | HasParts | Document"
"""One thing that was run: a tree, a mechanism, or a document."""
Counted: TypeAlias = "tuple[Ran, SupportsIndex]"
"""A pair: what was run, and how often, a whole number."""
Composable: TypeAlias = "Ran | Counted | Iterable[Ran | Counted] | Mapping[Ran, int]"
"""What can be composed: one thing that was run, a pair of it and a count, one list of these, or a dict of counts."""

A_RUN = (
    'what ran: a guarantee like PureDP("0.05"), a mechanism, a law like LaplaceLaw(1), a document, or pairs '
    "(one of these, count)"
)


def tree_of(
    *what: Composable,
    relation: Relation | str | None = None,
    direction: Direction | None = None,
    unit: Unit | None = None,
) -> tuple[Composition, Relation, Direction | None]:
    """The tree that `what` says, with the relation and the direction that stand beside it: those that are given, else
    those that documents and mechanisms name, else add_remove and both. `unit`: whom the mechanisms protect; None: whom
    each says, else one of one row.

    Raises ParameterError for what cannot be composed, RelationError where two relations or directions are named."""
    asked = None if relation is None else Relation.read(relation)
    listed = _listed(what)
    under = _relation([part for part, *_ in listed], asked)
    side = _direction([part for part, *_ in listed], direction)
    trees = tuple(_counted(*run, relation=under, unit=unit) for run in listed)
    return (trees[0] if len(trees) == 1 else Sequence(trees)), under, side


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What things that were run say by themselves of whom they protect. `mechanisms`: some are, and are placed under a
    relation, for a unit; `silent`: some are trees, which name neither; `relation`: that of the documents among them."""

    mechanisms: bool
    silent: bool
    relation: Relation | None


def own_words(what: Composable) -> Words:
    """What `what`, as `tree_of` takes it, says by itself. Raises as `tree_of` does."""
    parts = [part for part, *_ in _listed((what,))]
    others = [part for part in parts if not callable(getattr(part, "under", None))]
    named = {part.relation for part in others if isinstance(part, Document)}
    if len(named) > 1:
        raise RelationError("the documents are for " + " and ".join(sorted(one.value for one in named)))
    return Words(
        mechanisms=len(others) < len(parts),
        silent=any(not isinstance(part, Document) for part in others),
        relation=named.pop() if named else None,
    )


def _listed(what: tuple[object, ...]) -> list[tuple[object, ...]]:
    """Each thing that was run, and how often where that is said."""
    if len(what) == 1 and isinstance(what[0], Mapping):
        found: list[tuple[object, ...]] = list(what[0].items())
    elif len(what) == 1 and _is_list(what[0]):
        found = [_pair(item) for item in listed(what[0], field="parts")]
    else:
        found = [_pair(item) for item in what]
    if not found:
        raise ParameterError("parts", "nothing", "at least one mechanism")
    for part, *_ in found:
        if not _is_run(part):
            named = "; the relation goes by name, `relation=`" if isinstance(part, Relation | str) else ""
            told = A_RUN + named + how_to_read(part)
            raise ParameterError("parts", part if isinstance(part, type) else type(part).__name__, told)
    return found


def how_to_read(part: object) -> str:
    """What is said beside, of what another library says ran, and which an adapter reads; nothing of all else."""
    if type(part).__module__.partition(".")[0] != "dp_accounting":
        return ""
    return "; an event is read first: `dpledger.attach.dp_accounting.read(event, relation=...)`"


def _pair(item: object) -> tuple[object, ...]:
    return item if is_pair(item) else (item,)


def _is_list(value: object) -> bool:
    if not isinstance(value, Iterable) or isinstance(value, str | bytes) or _is_run(value) or is_pair(value):
        return False
    try:
        iter(value)
    except Exception:  # of another library's measurement, which says so to whoever iterates over it
        return False
    return True


def _is_run(value: object) -> bool:
    if isinstance(value, type):
        return False
    return isinstance(value, Document) or hasattr(value, "kind") or callable(getattr(value, "parts", None))


def _relation(parts: list[object], asked: Relation | None) -> Relation:
    """The relation of all of them. Mechanisms are held to it when their parts are asked, by `under`."""
    for part in parts:
        if isinstance(part, Document) and asked not in (None, part.relation):
            raise RelationError(f"the document is {part.relation.value}, not {asked.value if asked else None}")
    named = {own for own in (getattr(part, "relation", None) for part in parts) if isinstance(own, Relation)}
    if asked is not None:
        return asked
    if len(named) > 1:
        raise RelationError("the mechanisms are for " + " and ".join(sorted(own.value for own in named)))
    return named.pop() if named else Relation.ADD_REMOVE


def _direction(parts: list[object], asked: Direction | None) -> Direction | None:
    """The direction of all of them. A document's own is that of the whole only where it is the whole."""
    if asked is not None:
        one_of(asked, ("add", "remove"), field="direction")
    named = {part.direction for part in parts if isinstance(part, Document)} - {None, asked}
    if named and asked is not None:
        raise RelationError(f"the document is for {named.pop()}, not {asked}")
    if named and len(parts) > 1:
        raise RelationError(f"one document is for {named.pop()}: say direction= for all that is composed with it")
    return named.pop() if named else asked


def _counted(part: object, *count: object, relation: Relation, unit: Unit | None) -> Composition:
    tree = part.tree() if isinstance(part, Document) else _parts(part, relation, unit)
    return Repeated(tree, times=cast(int, count[0])) if count else tree


def _parts(item: object, relation: Relation, unit: Unit | None) -> Composition:
    """The tree of a mechanism, fixed under the relation where it can be; a tree is itself."""
    under = getattr(item, "under", None)
    if callable(under):
        item = under(relation, unit or getattr(item, "unit", None) or Unit())
    parts = getattr(item, "parts", None)
    return as_tree(parts() if callable(parts) else item)
