"""Whose rows are whose on two datasets, and copies of data: what a run alters, no other run is given.

Coins that are tossed for each unit are held the same on both datasets: a unit that both have keeps its own.

>>> pairing = paired([3, 1, 2], [3, 2])
>>> pairing.only_left, pairing.only_right
((1,), ())
>>> paired([3, 1], [2, 3]) is None  # no rows that one unit tells apart
True
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpledger.audit.replay.differences import same

__all__ = ["Pairing", "copied", "guesses", "paired"]

MOST_GUESSED = 64  # places at which a row may have been left out
_SCALARS = frozenset((bool, int, float, str, bytes, type(None)))


@dataclass(frozen=True, slots=True)
class Pairing:
    """How many units each dataset has, and at which positions stand those that the other has not."""

    left: int
    right: int
    only_left: tuple[int, ...]
    only_right: tuple[int, ...]

    @property
    def swapped(self) -> Pairing:
        """The same, seen from the other side."""
        return Pairing(self.right, self.left, self.only_right, self.only_left)

    def positions(self, fell: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Where the coins fall on the right that fell at these positions on the left; those of units that are only
        there fall as well."""
        theirs = np.setdiff1d(np.arange(self.right, dtype=np.int64), self.only_right)
        ours = np.setdiff1d(np.arange(self.left, dtype=np.int64), self.only_left)
        kept = theirs[np.isin(ours, fell)]
        return np.union1d(kept, np.array(self.only_right, dtype=np.int64)).astype(np.int64)

    def numbers(self, drawn: npt.NDArray[Any], fresh: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A number for each unit of the right: that of the left, a fresh one of those that are only there."""
        found = fresh.copy()
        found[np.setdiff1d(np.arange(self.right), self.only_right)] = np.delete(drawn, list(self.only_left))
        return found


def paired(left: object, right: object) -> Pairing | None:
    """How the units of two datasets are paired: by position where there are as many, else the fewer are some of the
    others, in the same order. None where they are not, or are no rows."""
    ours, theirs = _rows(left), _rows(right)
    if ours is None or theirs is None:
        return None
    if len(ours) == len(theirs):
        changed = tuple(number for number, pair in enumerate(zip(ours, theirs, strict=True)) if not same(*pair))
        return Pairing(len(ours), len(theirs), changed, changed)
    if len(ours) < len(theirs):
        other = paired(right, left)
        return None if other is None else other.swapped
    return _left_out(ours, theirs)


def guesses(left: int, right: int) -> tuple[Pairing, ...]:
    """All pairings of so many units where one of them was left out; none where there are more than 64."""
    if left < right:
        return tuple(guess.swapped for guess in guesses(right, left))
    if left - right != 1 or left > MOST_GUESSED:
        return ()
    return tuple(Pairing(left, right, (place,), ()) for place in reversed(range(left)))


def _left_out(ours: Sequence[object], theirs: Sequence[object]) -> Pairing | None:
    extra: list[int] = []
    met = 0
    for number, row in enumerate(ours):
        if met < len(theirs) and same(row, theirs[met]):
            met += 1
        else:
            extra.append(number)
    return Pairing(len(ours), len(theirs), tuple(extra), ()) if met == len(theirs) else None


def _rows(data: Any) -> Sequence[object] | None:
    """One item a unit, of what is a column or columns of the same length."""
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
