"""What statistics of a column of numbers in a public range share: how a row is read, and what the record says."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from dpledger.decimals import add, multiply
from dpledger.mechanisms.numeric.distances import clipped_as
from dpledger.mechanisms.numeric.one_shot import OneShot
from dpledger.mechanisms.numeric.rows import (
    OfUnits,
    capped_where_known,
    check_column,
    refuse_ids_of_one_row,
    with_or_without_ids,
)
from dpledger.schema import Plain, plain

__all__ = ["InRange"]

HALF = Decimal("0.5")


class InRange(OneShot, ABC):
    """Base of records with the fields `epsilon`, `lower`, `upper`, `missing` (default: the centre) and `grid`."""

    __slots__ = ()

    epsilon: Decimal
    lower: Decimal
    upper: Decimal
    missing: Decimal | None
    grid: Decimal | None

    @property
    @abstractmethod
    def _default_grid(self) -> Decimal:
        """The grid where none is given."""

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with the grid as it is used, and what follows from them."""
        fields = {"epsilon": self.epsilon, "lower": self.lower, "upper": self.upper}
        used = {"missing": self._missing, "grid": self._grid}
        result: dict[str, Plain] = plain({**fields, **used, **self._used()})
        return result

    def _used(self) -> Mapping[str, object]:
        """What the record says beside the range and the grid."""
        return {}

    def values_read_as(self) -> tuple[str, ...]:
        """What values that are not ordinary numbers count as: by the parameters, never by the data."""
        return (*clipped_as(self.lower, self.upper, self._missing), *capped_where_known(self.unit))

    def inspect(self, data: object) -> None:
        """ParameterError unless `data` are rows of one entry each, without ids where one row is exchanged for one."""
        check_column(with_or_without_ids(data))
        if isinstance(data, OfUnits):
            refuse_ids_of_one_row(self.relation, self.unit)

    def _automatic(self) -> dict[str, Any]:
        return {"grid": self._grid, "missing": self._missing}

    @property
    def _missing(self) -> Decimal:
        return self.missing if self.missing is not None else multiply(add(self.lower, self.upper), HALF)

    @property
    def _grid(self) -> Decimal:
        return self.grid if self.grid is not None else self._default_grid
