"""How trees are written and read: in JSON, and in documents, which say under which relation and how often.

>>> from dpledger.accounting.composition import GaussianLaw, PoissonSampled
>>> from dpledger.schema import plain
>>> tree = PoissonSampled(GaussianLaw(noise_multiplier=1), rate="0.01")
>>> parse_tree(plain(tree)) == tree
True
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from dpledger.accounting.composition import Composition, Part, Repeated, Sequence, is_pair
from dpledger.errors import ParameterError
from dpledger.number_fields import Count
from dpledger.relations import Relation
from dpledger.schema import complete, given, naming, record, validated
from dpledger.strict_json import JsonValue, read_json_file

__all__ = ["Document", "DocumentLine", "as_tree", "parse_document", "parse_tree"]


@record
class DocumentLine:
    """One line of a document: a mechanism, run `count` times."""

    mechanism: Part
    count: Count = given(default=1)


@record
class Document:
    """The portable form of "what was run": a relation, and entries read as a `sequence` of `repeated`.

    `direction`: only this one of the two ordered neighbour pairs (default: both, and the maximum counts).

    >>> run = dpl.Document(relation="add_remove", entries=[{"mechanism": dpl.GaussianLaw(10), "count": 3}])
    >>> round(dpl.compose(run).epsilon("1e-6").upper, 4)
    0.7147
    """

    relation: Relation
    entries: Annotated[tuple[DocumentLine, ...], Field(min_length=1)]
    direction: Literal["add", "remove"] | None = given(default=None)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Document:
        """The document in the JSON file at `path`: UTF-8, with a byte order mark or without, at most 64 MiB.

        ParameterError, naming the file and the place in it, for a file that cannot be read or says something else."""
        value = read_json_file(path)
        with naming(path):
            return parse_document(value)

    def tree(self) -> Composition:
        """The tree that the entries say."""
        return Sequence(tuple(Repeated(entry.mechanism, times=entry.count) for entry in self.entries))


complete(DocumentLine, Document)

_TREE: TypeAdapter[Composition] = TypeAdapter(Composition)
_DOCUMENT: TypeAdapter[Document] = TypeAdapter(Document)


def parse_tree(value: JsonValue | Mapping[str, object]) -> Composition:
    """The tree that a JSON value says; ParameterError naming the field for anything that is not one."""
    return validated(_TREE, value, "tree")


def as_tree(value: object) -> Composition:
    """`value`, if it is a tree, or a pair of one and a count; ParameterError naming its type for anything else."""
    if is_pair(value):
        return Repeated(value[0], times=value[1])
    if isinstance(value, type) or not hasattr(value, "kind"):
        raise ParameterError(
            "tree",
            value if isinstance(value, type) else type(value).__name__,
            "a tree (like LaplaceLaw(1)), a mechanism or a document",
        )
    return validated(_TREE, value, "tree")


def parse_document(value: JsonValue) -> Document:
    """The composition document that a JSON value says; ParameterError naming the field for anything that is not one."""
    if not isinstance(value, dict):
        raise ParameterError("document", type(value).__name__, "an object with 'relation' and 'entries'")
    return validated(_DOCUMENT, value, "document")
