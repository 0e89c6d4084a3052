"""Pairs that somebody else makes: a list of them, or a Hypothesis strategy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from dpledger.audit.search.columns import is_frame
from dpledger.audit.search.families import NeighbourPair
from dpledger.audit.tested.neighbours import apart
from dpledger.errors import ParameterError
from dpledger.relations import Relation, Unit

__all__ = ["MOST_DRAWN", "are_apart", "drawn_from", "is_strategy", "listed"]

MOST_DRAWN = 300  # examples of a strategy


def is_strategy(given: object) -> bool:
    """Whether it is a strategy of Hypothesis, without loading it."""
    return any(
        one.__name__ == "SearchStrategy" and one.__module__.startswith("hypothesis") for one in type(given).__mro__
    )


def listed(given: Iterable[object], relation: Relation, unit: Unit) -> Iterator[NeighbourPair]:
    """Pairs that were given. ParameterError for what is no pair, and for rows that are no neighbours."""
    for place, pair in enumerate(given):
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise ParameterError("neighbours", pair, "a schema, a strategy, or pairs (left, right)")
        distant = are_apart(pair[0], pair[1], relation, unit)
        if distant is not None:
            raise ParameterError("neighbours", distant, "pairs of neighbours")
        yield NeighbourPair(pair[0], pair[1], f"pair {place} of those given")


def drawn_from(strategy: Any, relation: Relation, unit: Unit, *, seed: int) -> list[NeighbourPair]:
    """Examples of a strategy, no two alike, the smallest first; of rows only neighbours.

    Assumes: what is no list, array or frame of rows is as far apart as its author says."""
    import hypothesis  # here: only searches that are given a strategy need it

    found: dict[str, NeighbourPair] = {}

    def keep(pair: object) -> None:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise ParameterError("neighbours", pair, "a strategy of pairs (left, right)")
        if are_apart(pair[0], pair[1], relation, unit) is None:
            found.setdefault(repr(tuple(pair)), NeighbourPair(pair[0], pair[1], "drawn from the strategy"))

    settings: Any = hypothesis.settings(
        max_examples=MOST_DRAWN,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    seeded: Any = hypothesis.seed(seed)
    each: Any = hypothesis.given(strategy)
    seeded(settings(each(keep)))()
    if not found:
        raise ParameterError(
            "neighbours", "a strategy none of whose pairs are neighbours", f"pairs under {relation.value}"
        )
    return [found[words] for words in sorted(found, key=lambda words: (len(words), words))]


def are_apart(left: object, right: object, relation: Relation, unit: Unit) -> str | None:
    """Why these rows are no neighbours; None where they may be, or are no rows. A frame is the list of its rows."""
    return apart(_rows(left), _rows(right), relation, unit)


def _rows(data: object) -> object:
    if not is_frame(data):
        return data
    rows: Sequence[tuple[object, ...]] = list(data.itertuples(index=False, name=None))
    return [tuple(value if _is_plain(value) else str(value) for value in row) for row in rows]


def _is_plain(value: object) -> bool:
    return isinstance(value, (bool, int, float, str, bytes, type(None)))
