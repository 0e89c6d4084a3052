"""Whose rows are whose on two datasets, and copies of data: what a run alters, no other run is given.

Coins that are tossed for each unit are held the same on both datasets: a unit that both have keeps its own.

>>> pairing = paired([3, 1, 2], [3, 2])
>>> pairing.only_left, pairing.only_right
((1,), ())
>>> paired([3, 1], [2, 3, 1]).only_right
(0,)
"""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpledger.mechanisms.units import ByUnit

__all__ = ["Pairing", "copied", "guesses", "paired"]

MOST_GUESSED = 64  # places at which a row may have been left out
_SCALARS = frozenset((bool, int, float, str, bytes, type(None)))


@dataclass(frozen=True, slots=True)
class Pairing:
    """How many units each dataset has, and which are the same unit, by position on both. `only_left`, `only_right`: the
    positions of units that the other has not, or with other data."""

    left: int
    right: int
    pairs: tuple[tuple[int, int], ...]
    only_left: tuple[int, ...]
    only_right: tuple[int, ...]

    @property
    def swapped(self) -> Pairing:
        """The same, seen from the other side."""
        pairs = tuple((theirs, ours) for ours, theirs in self.pairs)
        return Pairing(self.right, self.left, pairs, self.only_right, self.only_left)

    def positions(self, fell: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Where the coins fall on the right that fell at these positions on the left; those of units that are only
        there fall as well."""
        fallen = set(fell.tolist())
        kept = [theirs for ours, theirs in self.pairs if ours in fallen]
        return np.union1d(np.array(kept, dtype=np.int64), np.array(self.only_right, dtype=np.int64))

    def numbers(self, drawn: npt.NDArray[Any], fresh: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A number for each unit of the right: that of the left, a fresh one of those that are only there."""
        found = fresh.copy()
        for ours, theirs in self.pairs:
            found[theirs] = drawn[ours]
        return found


def paired(left: object, right: object) -> Pairing | None:
    """How the units of two datasets are paired: rows that hold the same, those at the same position first; where there
    are as many, a row that has no like is the same unit with other data. None of what is no rows."""
    ours, theirs = _rows(left), _rows(right)
    if ours is None or theirs is None:
        return None
    alone_left, alone_right, pairs = _matched([*map(_key, ours)], [*map(_key, theirs)])
    if len(ours) == len(theirs):
        pairs += zip(alone_left, alone_right, strict=True)
    return Pairing(len(ours), len(theirs), tuple(sorted(pairs)), tuple(alone_left), tuple(alone_right))


def _matched(ours: list[bytes], theirs: list[bytes]) -> tuple[list[int], list[int], list[tuple[int, int]]]:
    """The positions without a like on either side, and those of rows that are alike."""
    aligned = zip(ours, theirs, strict=True) if len(ours) == len(theirs) else ()
    pairs = [(place, place) for place, (one, other) in enumerate(aligned) if one == other]
    done_left, done_right = {one for one, _ in pairs}, {other for _, other in pairs}
    free: dict[bytes, list[int]] = {}
    for place in reversed([place for place in range(len(theirs)) if place not in done_right]):
        free.setdefault(theirs[place], []).append(place)
    alone: list[int] = []
    for place in (place for place in range(len(ours)) if place not in done_left):
        if free.get(ours[place]):
            pairs.append((place, free[ours[place]].pop()))
        else:
            alone.append(place)
    return alone, sorted(place for places in free.values() for place in places), pairs


def _key(row: Any) -> bytes:
    """What two rows share that hold the same."""
    if isinstance(row, np.ndarray) and not row.dtype.hasobject:
        return f"{row.dtype}{row.shape}".encode() + row.tobytes()
    if isinstance(row, (list, tuple)):
        return b"".join(len(part).to_bytes(8) + part for part in map(_key, row))
    try:
        return pickle.dumps(row, protocol=4)
    except Exception:
        return repr(row).encode()


def guesses(left: int, right: int) -> tuple[Pairing, ...]:
    """All pairings of so many units where one of them was left out; none where there are more than 64."""
    if left < right:
        return tuple(guess.swapped for guess in guesses(right, left))
    if left - right != 1 or left > MOST_GUESSED:
        return ()
    places = reversed(range(left))
    return tuple(Pairing(left, right, _without(place, left), (place,), ()) for place in places)


def _without(place: int, count: int) -> tuple[tuple[int, int], ...]:
    return tuple((number, number - (number > place)) for number in range(count) if number != place)


def _rows(data: Any) -> Sequence[object] | None:
    """One item a unit, of what is a column or columns of the same length, or rows with ids."""
    if isinstance(data, ByUnit):
        rows = _rows(data.rows)
        return (
            None
            if rows is None
            else [
                (word, [rows[place] for place in group.tolist()])
                for word, group in zip(data.words, data.groups, strict=True)
            ]
        )
    if isinstance(data, tuple) or (dataclasses.is_dataclass(data) and not isinstance(data, type)):
        parts = data if isinstance(data, tuple) else [getattr(data, one.name) for one in dataclasses.fields(data)]
        columns = [column for column in map(_column, parts) if column is not None]
        if columns and len({len(column) for column in columns}) == 1:
            return list(zip(*columns, strict=True))
        return None
    return _column(data)


def _column(data: Any) -> Sequence[object] | None:
    if isinstance(data, list):
        return data
    if hasattr(data, "to_numpy"):
        data = data.to_numpy()
    return list(data) if isinstance(data, np.ndarray) and data.ndim else None


def copied(data: Any) -> Any:
    """A copy for one run; the data themselves where they cannot be copied."""
    if isinstance(data, list) and set(map(type, data)) <= _SCALARS:
        return list(data)
    if isinstance(data, np.ndarray) and not data.dtype.hasobject:
        return data.copy()
    try:
        return copy.deepcopy(data)
    except Exception:
        return data
