"""Who is protected, and against which change of the data.

A *relation* says which datasets are neighbours; a *unit* says whose data one neighbour step changes. Guarantees under
different relations or units are different statements: nothing converts one into another unless a node of the
composition tree (`group`, `converted`) says so.

>>> Unit("patient", max_contributions=1)
Unit(name='patient', max_contributions=1)
>>> Relation("add_remove").value
'add_remove'
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, EnumType
from typing import Any, NoReturn, assert_never

from dpledger.decimals import whole
from dpledger.errors import ParameterError

__all__ = ["Relation", "Unit", "one_way"]


class _Named(EnumType):
    """Members are found by their word alone: nothing else is compared with one, since that may run code of its own."""

    def __call__(cls, value: object, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(value, (str, cls)):
            raise ParameterError("relation", value, "one of " + ", ".join(cls.__members__).lower())
        return super().__call__(value, *args, **kwargs)


class Relation(Enum, metaclass=_Named):
    """Neighbouring relations; the value is the word on the wire.

    ADD_REMOVE: one unit inserted or deleted. REPLACE_ONE: one unit's data exchanged, the number of units fixed and
    public. ZERO_OUT: one unit replaced by the null unit. LABEL_FLIP: one unit's label changed. All are symmetric.

    >>> dpl.Relation("add_remove") is dpl.Relation.ADD_REMOVE
    True
    """

    ADD_REMOVE = "add_remove"
    REPLACE_ONE = "replace_one"
    ZERO_OUT = "zero_out"
    LABEL_FLIP = "label_flip"

    @classmethod
    def read(cls, value: Relation | str) -> Relation:
        """The relation named by `value`; ParameterError if there is none of that name."""
        return cls(value)

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise ParameterError("relation", value, "one of " + ", ".join(cls.__members__).lower())


def one_way(relation: Relation | None) -> bool:
    """Whether between neighbours all counts of units move in one direction; not, while no relation is fixed."""
    match relation:
        case Relation.ADD_REMOVE | Relation.ZERO_OUT:
            return True
        case Relation.REPLACE_ONE | Relation.LABEL_FLIP | None:
            return False
        case _:
            assert_never(relation)


@dataclass(frozen=True, slots=True)
class Unit:
    """The unit of privacy: a name (`record`, `user`, `household`, or the user's own word) and how many rows one
    unit may contribute (at least 1).

    >>> dpl.Unit("patient", max_contributions=12).max_contributions
    12
    """

    name: str = "record"
    max_contributions: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}", self.name):
            raise ParameterError("unit", self.name, "a name of letters, digits and . _ : / @ -")
        rows = whole(self.max_contributions, field="max_contributions", least=1, most=2**53 - 1)
        object.__setattr__(self, "max_contributions", rows)

    @classmethod
    def read(cls, value: Unit | str) -> Unit:
        """A unit, from itself or from its name."""
        return value if isinstance(value, cls) else cls(value)  # type: ignore[arg-type]
