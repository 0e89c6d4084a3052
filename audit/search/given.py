"""The neighbours that are searched, however they are said: by a schema, a strategy or a list of pairs.

>>> from dpledger.relations import Relation, Unit
>>> schema = {"rows": {"type": "boolean"}}
>>> next(neighbours_of(schema, Relation.ADD_REMOVE, Unit(), seed=1)).right
[False]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from dpledger.audit.search.columns import read_schema
from dpledger.audit.search.drawn import drawn_from, is_strategy, listed
from dpledger.audit.search.families import NeighbourPair, pairs_of
from dpledger.errors import ParameterError
from dpledger.relations import Relation, Unit

__all__ = ["neighbours_of"]


def neighbours_of(neighbours: Any, relation: Relation, unit: Unit, *, seed: int) -> Iterator[NeighbourPair]:
    """The pairs that `neighbours` says, at least one. ParameterError for what says none, or pairs of no neighbours."""
    if isinstance(neighbours, Mapping):
        found: Iterable[NeighbourPair] = pairs_of(read_schema(neighbours), relation, unit)
    elif is_strategy(neighbours):
        found = drawn_from(neighbours, relation, unit, seed=seed)
    elif isinstance(neighbours, (list, tuple)):
        found = list(listed(neighbours, relation, unit))
    else:
        raise ParameterError(
            "neighbours", type(neighbours).__name__, "a schema (a dict), a strategy, or a list of pairs"
        )
    pairs = iter(found)
    first = next(pairs, None)
    if first is None:
        raise ParameterError("neighbours", neighbours, "a schema that allows neighbours, or a list of pairs")
    return chain([first], pairs)
