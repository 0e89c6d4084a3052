"""What a release by groups says: the statistics of each group, and between which ends each of them lies.

>>> from dpledger.mechanisms.numeric.statistics import Count
>>> rows = GroupStatistic(Count(epsilon=1, of="rows"))
>>> table = GroupTable(by=("dest",), groups=(("ATL",), ("BOS",)), statistics=(rows,), numbers=(((120,), (40,)),))
>>> table["ATL"], table.interval("ATL", "count", "0.95"), len(table)
({'count': 120}, (117, 123), 2)
>>> table.to_frame()
  dest  count  count_lower  count_upper
0  ATL    120          117          123
1  BOS     40           37           43
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

from dpledger.decimals import Number
from dpledger.errors import ParameterError
from dpledger.mechanisms.groups.by_group import GroupStatistic
from dpledger.notebooks import grid

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["GroupTable", "Key"]

Key: TypeAlias = tuple[str, ...]
"""A word of each column that the groups are made by."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GroupTable(Mapping[Any, Mapping[str, Any]]):
    """The statistics of each group, by its key: `table["ATL"]["count"]`; of several columns the key is a tuple.

    `columns()` is what any library makes a frame of; `to_frame()` is one of pandas, and a notebook shows the table with
    an interval beside each number. `by`: the columns of a key; `groups`: the keys, in order; `numbers`: of each
    statistic, of each group, the noisy numbers.
    """

    by: tuple[str, ...]
    groups: tuple[Key, ...]
    statistics: tuple[GroupStatistic, ...]
    numbers: tuple[tuple[tuple[int, ...], ...], ...]
    _places: Mapping[Key, int] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_places", {key: place for place, key in enumerate(self.groups)})

    def __repr__(self) -> str:
        told = ", ".join(one.name for one in self.statistics) or "keys alone"
        return f"GroupTable({len(self.groups)} groups by {', '.join(self.by)}: {told})"

    def _repr_html_(self) -> str:
        """Each number with its interval of confidence 0.95."""
        columns = self.columns()
        names = [name for one in self.statistics for name in one.names]
        shown = [*(columns[name] for name in self.by), *(_with_ends(columns, name) for name in names)]
        title = f"{len(self.groups)} groups; in brackets: intervals of confidence 0.95, each by itself"
        return grid(title, (*self.by, *names), list(zip(*shown, strict=True)))

    def __iter__(self) -> Iterator[str | Key]:
        return iter(self.groups if len(self.by) > 1 else [key[0] for key in self.groups])

    def __len__(self) -> int:
        return len(self.groups)

    def __getitem__(self, key: str | Key) -> Mapping[str, Any]:
        """The statistics of a group, by name. KeyError where it is not published."""
        place = self._places[(key,) if isinstance(key, str) else key]
        found: dict[str, Any] = {}
        for one, numbers in zip(self.statistics, self.numbers, strict=True):
            found |= one.estimates(numbers[place])
        return found

    def interval(self, key: str | Key, name: str, confidence: Number) -> tuple[float, float]:
        """Two numbers that hold this statistic of the group's rows that count with at least this probability over the
        noise; each by itself. KeyError where the group is not published; ParameterError for another name than those of
        the statistics."""
        place = self._places[(key,) if isinstance(key, str) else key]
        found = {
            each: (one, numbers[place])
            for one, numbers in zip(self.statistics, self.numbers, strict=True)
            for each in one.names
        }
        if name not in found:
            raise ParameterError("name", name, f"one of {', '.join(found)}")
        statistic, numbers = found[name]
        return statistic.interval(name, numbers, confidence)

    def columns(self, confidence: Number = "0.95") -> dict[str, list[Any]]:
        """The columns of a frame, by name: those of the key, then each statistic between the ends of its interval,
        `..._lower` and `..._upper`."""
        table: dict[str, list[Any]] = {name: [key[place] for key in self.groups] for place, name in enumerate(self.by)}
        for one, numbers in zip(self.statistics, self.numbers, strict=True):
            found = [one.estimates(each) for each in numbers]
            for name in one.names:
                ends = [one.interval(name, each, confidence) for each in numbers]
                table[name] = [each[name] if isinstance(each[name], int) else float(each[name]) for each in found]
                table[f"{name}_lower"], table[f"{name}_upper"] = ([end[side] for end in ends] for side in (0, 1))
        return table

    def to_frame(self, confidence: Number = "0.95") -> pd.DataFrame:
        """A DataFrame of `columns`, a group a row."""
        import pandas as pd  # here, so that who wants no frame does not wait for pandas

        return pd.DataFrame(self.columns(confidence))


def _with_ends(columns: Mapping[str, list[Any]], name: str) -> list[str]:
    """A column with its ends in brackets: floats to two digits of half an interval."""
    ends = zip(columns[name], columns[f"{name}_lower"], columns[f"{name}_upper"], strict=True)
    return [_shown(*each) for each in ends]


def _shown(value: float, lower: float, upper: float) -> str:
    if isinstance(value, int):
        return f"{value} [{lower}, {upper}]"
    half = (upper - lower) / 2
    places = max(0, 1 - Decimal(half).adjusted()) if 0 < half < math.inf else 6
    return f"{value:.{places}f} [{lower:.{places}f}, {upper:.{places}f}]"
