"""Equal things as one counted row, so that a report of ten thousand entries stays one that people read.

>>> [group.members for group in grouped(["a", "b", "a"], exact=str, coarse=len)]
[('a', 'a'), ('b',)]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Generic, TypeVar

from dpledger.reports import words
from dpledger.reports.model import visible

__all__ = ["MOST_ROWS", "Alike", "grouped", "in_entries", "indices", "key_of", "keys", "span"]

MOST_KEYS = 3  # of one row
MOST_ROWS = 150  # rows of a table; beyond it rows are grouped by what they have in common

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Alike(Generic[T]):
    """Things that are shown as one row. `alike`: they differ in nothing that the row shows but their place."""

    members: tuple[T, ...]
    alike: bool

    @property
    def first(self) -> T:
        """The first of them, in whose place the row stands."""
        return self.members[0]

    def times(self, name: str) -> str:
        """`name`, with how many there are if there is more than one."""
        return name if len(self.members) == 1 else f"{name} × {len(self.members):,}"


def grouped(
    things: Iterable[T], *, exact: Callable[[T], Hashable], coarse: Callable[[T], Hashable]
) -> tuple[Alike[T], ...]:
    """The groups in the order of their first members: by `exact`, or by `coarse` where that gives over MOST_ROWS."""
    members = tuple(things)
    alike = _collected(members, exact)
    if len(alike) <= MOST_ROWS:
        return tuple(Alike(group, alike=True) for group in alike)
    return tuple(Alike(group, alike=False) for group in _collected(members, coarse))


def _collected(members: Sequence[T], key: Callable[[T], Hashable]) -> list[tuple[T, ...]]:
    found: dict[Hashable, list[T]] = {}
    for member in members:
        found.setdefault(key(member), []).append(member)
    return [tuple(group) for group in found.values()]


def indices(found: Sequence[int]) -> str:
    """Entry numbers in a few characters."""
    if len(found) <= 3:
        return ", ".join(str(index) for index in found)
    return f"{found[0]} to {found[-1]}"


def in_entries(found: Sequence[int]) -> str:
    """The same, with the word before them.

    >>> in_entries([81]), in_entries([3, 5])
    ('entry 81', 'entries 3, 5')
    """
    return f"{'entry' if len(found) == 1 else 'entries'} {indices(found)}"


_DRAWN = re.compile(r"[0-9a-f]{32}")


def key_of(key: str) -> str:
    """The key of a request as people read it; nothing where nobody chose one and it was drawn."""
    return "" if _DRAWN.fullmatch(key) else visible(key, 80)


def keys(found: Iterable[str]) -> str:
    """The keys that people gave to requests, a few of them by name.

    >>> keys(["texture", "0" * 32]), keys(["0" * 32]), keys(["a", "b", "c", "d"])
    ('key texture', '', 'keys a, b, c and 1 more')
    """
    named = [key for key in map(key_of, found) if key]
    if not named:
        return ""
    more = f" and {len(named) - MOST_KEYS:,} more" if len(named) > MOST_KEYS else ""
    return f"{'key' if len(named) == 1 else 'keys'} {', '.join(named[:MOST_KEYS])}{more}"


def span(numbers: Sequence[Decimal | None]) -> str:
    """The numbers of a group: one if they are equal, else the least and the greatest, each rounded up."""
    known = [number for number in numbers if number is not None]
    if len(known) < len(numbers):
        return "no price"
    low, high = words.at_most(min(known)), words.at_most(max(known))
    return low if low == high else f"{low} to {high}"
