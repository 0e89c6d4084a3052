"""Tables of others: pandas, polars, DuckDB relations, Arrow tables and whatever narwhals reads, a column at a time.

Mechanisms see columns, as Series of pandas. Each entry is read by itself: what a column's type is follows from all of
its entries, and so decides nothing but how fast it is read (ADR 24).

>>> import pandas as pd
>>> table = pd.DataFrame({"dest": ["ATL", "BOS", None], "delay": [3.5, None, 1.0]})
>>> keys = words_of(columns(table, ("dest",))[0], key_word)
>>> keys.words, keys.codes.tolist()
(('ATL', 'BOS'), [0, 1, -1])
>>> check_frame(table, ("origin",))
Traceback (most recent call last):
...
dpledger.errors.ParameterError: data: expected one column 'origin', got none
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.errors import ContractViolation, ParameterError
from dpledger.mechanisms.callers import came_to
from dpledger.mechanisms.numeric.containers import array_of
from dpledger.mechanisms.numeric.rows import numbers
from dpledger.mechanisms.units import id_word
from dpledger.spelling import meant

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Coded", "check_frame", "codes_of", "columns", "key_word", "numbers_at", "words_of"]

Column: TypeAlias = "pd.Series[Any]"
Codes: TypeAlias = npt.NDArray[np.int64]

_FRAME = "a frame of pandas, polars, DuckDB or Arrow"
_MIDNIGHT = " 00:00:00"
_PLAIN = frozenset((str, int, float, bool, type(None)))  # whose equality is that of their words, and runs no code


@dataclass(frozen=True, slots=True)
class Coded:
    """A column as places in a list: `codes`, int64[rows], -1 for an entry that is none of `words`."""

    codes: Codes
    words: tuple[str, ...]


def check_frame(data: object, names: Iterable[str]) -> None:
    """ParameterError unless `data` are a frame with each of these columns once. What they hold never matters."""
    present = list(_frame(data).collect_schema().names())
    for name in names:
        if (times := present.count(name)) != 1:
            found = f"{times} of them" if times else "none"
            of_index = " (it is the index: reset_index() makes a column of it)" if name in _index_names(data) else ""
            raise ParameterError("data", found, f"one column {name!r}{of_index or meant(name, present)}")


def columns(data: object, names: Sequence[str]) -> tuple[Column, ...]:
    """These columns, in order; what is not computed yet is computed for these alone. ContractViolation where the
    caller's own query fails, without a word of what it said."""
    frame = _frame(data)
    wanted = list(dict.fromkeys(names))

    def computed() -> Any:
        taken = frame.select(*wanted)
        return taken.collect() if hasattr(taken, "collect") else taken

    ran = came_to(computed)
    if ran is None:
        raise ContractViolation("the query behind the frame failed when it was computed")
    found = {name: _series(ran[0][name]) for name in wanted}
    return tuple(found[name] for name in names)


def _index_names(data: object) -> list[object]:
    return list(getattr(getattr(data, "index", None), "names", ()))


def _frame(data: object) -> Any:
    import narwhals as nw  # here, so that who has no frame does not wait for it

    try:
        frame = nw.from_native(data, pass_through=True)
    except Exception:  # columns of one name, for some
        raise ParameterError("data", type(data).__name__, f"{_FRAME}, with a name for each column") from None
    if not isinstance(frame, (nw.DataFrame, nw.LazyFrame)):
        raise ParameterError("data", type(data).__name__, _FRAME)
    return frame


def _series(column: Any) -> Column:
    """A column of narwhals as one of pandas: itself where it is one; whole numbers stay whole where some are
    missing."""
    import narwhals as nw
    import pandas as pd

    kind = column.dtype
    is_in_numpy = kind.is_numeric() and not kind.is_decimal() and kind not in (nw.Int128, nw.UInt128)
    if column.implementation.is_pandas():
        found: Column = column.to_native()
    elif is_in_numpy and kind.is_integer() and column.null_count():
        missing = column.is_null().to_numpy()
        wide = "Int64" if kind.is_signed_integer() else "UInt64"
        found = pd.Series(pd.array(column.fill_null(0).to_numpy(), dtype=wide).copy())
        found[missing] = pd.NA
    elif is_in_numpy or kind.is_temporal():
        found = pd.Series(column.to_numpy())
    else:
        entries = array_of(column.to_native())
        entries = np.array(column.to_list(), dtype=object) if entries is None else entries
        found = pd.Series(entries, dtype=object)
    return found


def numbers_at(column: Column, rows: slice | npt.NDArray[np.int64], *, missing: float) -> npt.NDArray[np.float64]:
    """The entries of these rows as `rows.numbers` reads them. float64[rows]."""
    import pandas as pd

    part = column.iloc[rows]
    if isinstance(part.dtype, pd.api.extensions.ExtensionDtype) and pd.api.types.is_numeric_dtype(part.dtype):
        return numbers(part.to_numpy(dtype=np.float64, na_value=np.nan), missing=missing)
    return numbers(part, missing=missing)


def codes_of(column: Column, word_of: Callable[[object], str | None]) -> Codes:
    """The codes of `words_of` alone, up to how they are numbered: numbers of one type are other words where they are
    other numbers."""
    import pandas as pd

    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iuf":
        codes, _ = pd.factorize(column)
        return codes.astype(np.int64, copy=False)
    return words_of(column, word_of).codes


def words_of(column: Column, word_of: Callable[[object], str | None]) -> Coded:
    """Each entry by its word; entries of one word have one code. Total: never raises, whatever the entries are."""
    import pandas as pd

    if column.dtype == object and not set(map(type, column.to_numpy())) <= _PLAIN:
        return _one_by_one(column, word_of)
    try:
        codes, found = pd.factorize(column)
        entries = list(found)
    except Exception:  # lists and the like in a type of their own, a date that Python does not have
        return _one_by_one(column, word_of)
    words = [word_of(entry) for entry in entries]
    places: dict[str, int] = {}
    of_code = np.array([-1 if one is None else places.setdefault(one, len(places)) for one in words] + [-1])
    if len(places) == len(words):
        return Coded(codes.astype(np.int64, copy=False), tuple(places))
    return Coded(of_code.astype(np.int64)[codes], tuple(places))


def _one_by_one(column: Column, word_of: Callable[[object], str | None]) -> Coded:
    places: dict[str, int] = {}
    entries = array_of(column)
    words = map(word_of, () if entries is None else entries)
    codes = [-1 if one is None else places.setdefault(one, len(places)) for one in words]
    return Coded(np.array(codes, dtype=np.int64), tuple(places))


def key_word(entry: object) -> str | None:
    """The word that a key is: as of an id (`units.id_word`), and dates and times as ISO 8601 writes them; None for one
    that is missing, NaN, or nothing of the kind."""
    match entry:
        case np.datetime64():
            return _time_word(entry)
        case date():  # and datetime, which is one
            text = entry.isoformat()
        case _:
            return id_word(entry)
    return None if text == "NaT" else text.replace("T", " ").removesuffix(_MIDNIGHT)


def _time_word(entry: np.datetime64) -> str | None:
    """As of the date that pandas makes of it: numpy writes as many places as its unit has. None where it makes none."""
    import pandas as pd

    try:
        return key_word(pd.Timestamp(entry))
    except (ValueError, OverflowError):
        return None
