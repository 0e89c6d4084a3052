"""What is known to have run in a scope, as far as the lower end of a reading asks: distinct parts, the costliest.

Kept in the order of what they were charged. At most MOST are kept: a reading's lower end is then the bound of the
costliest part that is kept, so it is sound, and may be lower than it could be.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from decimal import Decimal
from operator import attrgetter
from typing import Annotated, TypeAlias

from pydantic import AllowInfNan

from dpledger.accounting import filters
from dpledger.accounting.composition import Composition
from dpledger.accounting.filters import Coordinates, Filter
from dpledger.decimals import INFINITY

__all__ = ["NOTHING", "Ran", "also"]

MOST = 256  # distinct parts a scope; each may be asked of the engine


Cost: TypeAlias = Annotated[Decimal, AllowInfNan(True)]
"""Infinite where a coordinate has no price."""


@dataclass(frozen=True, slots=True)
class _Part:
    cost: tuple[Cost, ...]
    parts: Composition


Ran: TypeAlias = tuple[_Part, ...]
"""The distinct parts, with what each was charged, in the order of that."""
NOTHING: Ran = ()
_COST = attrgetter("cost")


def also(ran: Ran, parts: Composition, rule: Filter, charged: Coordinates) -> Ran:
    """`ran`, and `parts`, which were charged `charged` by the filter `rule`; a coordinate without a price is the
    costliest."""
    cost = tuple(charged.get(name, INFINITY) for name in filters.names(rule))
    first, after = bisect_left(ran, cost, key=_COST), bisect_right(ran, cost, key=_COST)
    if any(known.parts == parts for known in ran[first:after]):
        return ran
    return (*ran[:after], _Part(cost, parts), *ran[after:])[-MOST:]
