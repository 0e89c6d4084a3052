"""The table of what private agnostic learning costs, up to constants: of which order it must be, and may be.

Nothing here promises anything: constants and logarithms are left out. It is for comparing how bounds grow.

>>> for row in order_bounds(vc=1, rep_dim="13.8629", alpha="0.01", epsilon=1, examples=100):
...     print(row.unit, row.side, row.source, round(row.order, 1))
record lower Simon 1996; Beimel-Nissim-Stemmer 2019 11386.3
record upper Beimel-Nissim-Stemmer 2019 140015.3
record upper Alon et al. 2020 11386.3
record upper Li-Wang-Ye 2024, theorem 3.4 11386.3
user lower Ghazi et al. 2023 137.7
user upper Ghazi et al. 2023 1538.8
user upper Li-Wang-Ye 2024, theorem 4.6 252.5
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from dpledger.decimals import Number, read, whole
from dpledger.errors import ParameterError
from dpledger.mechanisms.plan import Status, open_unit
from dpledger.schema import flag

__all__ = ["OrderBound", "order_bounds"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderBound:
    """One bound of the table: so many records or users are needed (lower) or enough (upper), up to constants and
    logarithms."""

    unit: Literal["record", "user"]
    side: Literal["lower", "upper"]
    source: str
    order: float

    @property
    def status(self) -> Status:
        """It promises nothing."""
        return "order"


def order_bounds(
    *, vc: int, rep_dim: Number, alpha: Number, epsilon: Number, examples: int = 1, thresholds: bool = False
) -> tuple[OrderBound, ...]:
    """Of a class with that VC dimension and representation dimension (ln of a size, as in `log_size`), for records and
    for users with `examples` each; `thresholds`: also the bound of thresholds alone.

    Source: Li-Wang-Ye 2024, table 1. The two middle terms of the lower bound for users are inferred: its text says that
    the bound of thresholds matches it.

    >>> rows = dpl.planning.order_bounds(vc=1, rep_dim="13.8629", alpha="0.01", epsilon=1, examples=100)
    >>> [(row.unit, row.side, round(row.order)) for row in rows[:2]]
    [('record', 'lower', 11386), ('record', 'upper', 140015)]
    """
    v, m = whole(vc, field="vc", most=10**9), whole(examples, field="examples", least=1, most=10**18)
    given = read(rep_dim, field="rep_dim"), read(epsilon, field="epsilon")
    for field, number in zip(("rep_dim", "epsilon"), given, strict=True):
        if not number > 0:
            raise ParameterError(field, number, "a number above 0")
    r, e, a = float(given[0]), float(given[1]), float(open_unit(alpha, "alpha"))
    alone, root = flag(thresholds, field="thresholds"), math.sqrt(m)
    item, few = v / a**2 + r / (a * e), r / e
    rows = [
        OrderBound(unit="record", side="lower", source="Simon 1996; Beimel-Nissim-Stemmer 2019", order=item),
        OrderBound(unit="record", side="upper", source="Beimel-Nissim-Stemmer 2019", order=r / a**2 + r / (a * e)),
        OrderBound(unit="record", side="upper", source="Alon et al. 2020", order=v / (a**2 * e) + r / (a * e)),
        OrderBound(unit="record", side="upper", source="Li-Wang-Ye 2024, theorem 3.4", order=item),
        OrderBound(
            unit="user",
            side="lower",
            source="Ghazi et al. 2023",
            order=few + r / (m * a * e) + v / (root * a * e) + v / (m * a**2),
        ),
        OrderBound(
            unit="user",
            side="upper",
            source="Ghazi et al. 2023",
            order=few + r / (root * a * e) + r / (m * a**2),
        ),
        OrderBound(
            unit="user",
            side="upper",
            source="Li-Wang-Ye 2024, theorem 4.6",
            order=few + r / (root * a * e) + v / (m * a**2),
        ),
    ]
    if alone:
        best = few + r / (m * a * e) + 1 / (root * a * e) + 1 / (m * a**2)
        rows.append(OrderBound(unit="user", side="upper", source="Li-Wang-Ye 2024, theorem 5.2", order=best))
    return tuple(rows)
