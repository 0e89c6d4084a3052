"""What `GroupBy` takes for its columns, statistics and keys: one or a list, read as tuples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, overload

from pydantic import BeforeValidator, Field

from dpledger.mechanisms.frames import key_word
from dpledger.mechanisms.groups.by_group import GroupStatistic
from dpledger.mechanisms.groups.group_table import Key
from dpledger.mechanisms.numeric import ClippedMean, Count, Histogram
from dpledger.mechanisms.numeric.one_shot import ShortText
from dpledger.mechanisms.statistics.sums import ClippedSum
from dpledger.number_fields import Whole

__all__ = ["MISSING", "Cap", "Keys", "Names", "Statistics"]

MISSING = "nan"  # the word of a key that is missing, where those are counted


def _listed(value: object) -> object:
    """One word stands for a list of it."""
    return (value,) if isinstance(value, str) else value


def _of_column(value: Any) -> object:
    """A statistic of whole rows stands alone, one of a column beside its name."""
    match value:
        case GroupStatistic():
            return value
        case Count() | ClippedSum() | ClippedMean() | Histogram():
            return GroupStatistic(value)
        case [str(column), (Count() | ClippedSum() | ClippedMean() | Histogram()) as statistic]:
            return GroupStatistic(statistic, column)
        case _:
            other = f", not a {type(value[1]).__name__}" if isinstance(value, tuple) and len(value) == 2 else ""
            raise ValueError(
                "a Count of rows, or a pair: a column and a ClippedSum, ClippedMean, Histogram or Count(of='true')"
                f"{other}"
            )


def _key_of(value: object) -> object:
    """A key as words: of one column a word or a number alone will do."""
    items = value if isinstance(value, (tuple, list)) else (value,)
    words = tuple(MISSING if item is None or item == MISSING else key_word(item) for item in items)
    if None in words:
        raise ValueError("words or numbers; None for the key of those that are missing")
    return words


if TYPE_CHECKING:

    class Names:
        """A field that holds names of columns and takes one of them, too."""

        @overload
        def __get__(self, instance: None, owner: type) -> Names: ...
        @overload
        def __get__(self, instance: object, owner: type) -> tuple[str, ...]: ...
        def __get__(self, instance: object | None, owner: type) -> Any: ...
        def __set__(self, instance: object, value: str | list[str] | tuple[str, ...]) -> None: ...

    class Statistics:
        """A field that holds statistics by groups and takes statistics, and pairs of a column and one."""

        @overload
        def __get__(self, instance: None, owner: type) -> Statistics: ...
        @overload
        def __get__(self, instance: object, owner: type) -> tuple[GroupStatistic, ...]: ...
        def __get__(self, instance: object | None, owner: type) -> Any: ...
        def __set__(self, instance: object, value: list[Any] | tuple[Any, ...]) -> None: ...

    class Keys:
        """A field that holds keys as tuples of words, and takes words, numbers and tuples of them."""

        @overload
        def __get__(self, instance: None, owner: type) -> Keys: ...
        @overload
        def __get__(self, instance: object, owner: type) -> tuple[Key, ...] | None: ...
        def __get__(self, instance: object | None, owner: type) -> Any: ...
        def __set__(self, instance: object, value: list[Any] | tuple[Any, ...] | None) -> None: ...

else:
    Names = Annotated[tuple[ShortText, ...], BeforeValidator(_listed), Field(min_length=1, max_length=16)]
    Statistics = tuple[Annotated[GroupStatistic, BeforeValidator(_of_column)], ...]
    Keys = Annotated[tuple[Annotated[tuple[str, ...], BeforeValidator(_key_of)], ...], Field(min_length=1)] | None

Cap = Annotated[Whole, Field(strict=True, ge=1, lt=2**53)] | None
