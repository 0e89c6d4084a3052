"""What a schema says: which rows there can be. A search makes up only data that it allows.

A schema is JSON, or the same as a dict, with one of three keys:

    {"rows": {"type": "number", "low": 0, "high": 10}}                              a list of numbers
    {"rows": [{"type": "integer"}, {"type": "category", "values": ["a", "b"]}]}     a list of tuples
    {"table": {"age": {"type": "integer", "low": 0}, "city": {"type": "text"}}}     a frame of pandas
    {"answers": {"count": 5, "moves": 1}}                                           answers of which one unit moves each

and beside `rows` or `table`: `form` ("list" or "array"), `fewest_rows` (0), `most_rows` (1,000), `label` (the place or
name of the column that label_flip changes), `bag` (the order of rows is no part of the data: the rows that both sides
have are also turned round, which a function that answers row by row does not bear). A column has a `type`, and what
narrows it: `low` and `high`; `finite`, no NaN and no infinity, which is so where both ends are said, if it is not said
itself; `missing`, None can stand there; `values`; `zone`, times have UTC as their zone.

>>> read_schema({"rows": {"type": "number", "low": 0, "high": 1, "finite": True}}).columns[0].usual
(0.0, 1.0, 0.5)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeGuard, assert_never, get_args

from dpledger.decimals import whole
from dpledger.errors import ParameterError
from dpledger.schema import flag

if TYPE_CHECKING:
    import numpy as np

__all__ = ["MOST_ROWS", "Answers", "Row", "RowSchema", "Schema", "SchemaColumn", "is_frame", "read_schema"]

Row: TypeAlias = "tuple[object, ...]"
"""The values of one row, one a column."""

Type: TypeAlias = Literal["number", "integer", "boolean", "text", "category", "time"]
Form: TypeAlias = Literal["list", "array", "frame"]

TYPES, FORMS = get_args(Type), ("list", "array")
MOST_ROWS = 1_000
MOST_COLUMNS = 64
MOST_ANSWERS = 1_000
WORDS = 60  # of a long text
LISTED, SCALED = 0.2, 0.5  # shares of values at random: of those that are listed, of other magnitudes
WIDEST = 1e6  # of numbers at random that have no end
MAGNITUDES = 60  # powers of two
INT64 = 2**63
NUMBERS = (0.0, 1.0, -1.0, 1e6, -1e6)
ODD_NUMBERS = (math.nan, math.inf, -math.inf, 5e-324, 1e-9, 1e308, -1e308, 2.0**53)
INTEGERS = (0, 1, -1, 1_000, 100, 255)
ODD_INTEGERS = (2**31 - 1, 2**31, -(2**31), INT64 - 1, -INT64, 2**53 + 1)
TEXTS = ("a", "b", "the cat sat")
ODD_TEXTS = (
    "", "a " * WORDS, " ".join(f"w{number}" for number in range(WORDS)), "A", "x" * 1_000,
    "\N{LATIN SMALL LETTER E WITH ACUTE}", "0", "a,b", "a\nb", "\N{CAT}",
)  # fmt: skip
TIMES = (datetime(2024, 1, 1), datetime(2024, 7, 1, 12))
ODD_TIMES = (
    datetime(1970, 1, 1), datetime(2024, 2, 29, 23, 59, 59, 999_999), datetime(2024, 3, 31, 1, 30),
    datetime(2024, 10, 27, 1, 30), datetime(2023, 12, 31, 23, 30), datetime(1900, 1, 1), datetime(2200, 1, 1),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaColumn:
    """What stands in one column. `low`, `high`: of numbers, both ends included; None: no end."""

    type: Type
    low: float | None = None
    high: float | None = None
    finite: bool = False
    missing: bool = False
    values: tuple[object, ...] = ()
    zone: bool = False

    @property
    def usual(self) -> tuple[object, ...]:
        """Values as they may be met, those at the ends first."""
        match self.type:
            case "number":
                ends = [end for end in (self.low, self.high) if end is not None]
                middle = [] if len(ends) < 2 else [ends[0] / 2 + ends[1] / 2]
                return self._within([float(one) for one in (*ends, *middle, *([] if len(ends) == 2 else NUMBERS))])
            case "integer":
                ends = [int(end) for end in (self.low, self.high) if end is not None]
                middle = [] if len(ends) < 2 else [sum(ends) // 2]
                return self._within([*ends, *middle, *([] if len(ends) == 2 else INTEGERS)])
            case "boolean":
                return (False, True)
            case "text":
                return self.values or TEXTS
            case "category":
                return self.values
            case "time":
                return self._zoned(TIMES)
        assert_never(self.type)

    @property
    def odd(self) -> tuple[object, ...]:
        """Values that code forgets: tiny, huge, none, of another length."""
        found: tuple[object, ...] = ()
        match self.type:
            case "number":
                special = [] if self.finite else [one for one in ODD_NUMBERS if not math.isfinite(one)]
                plain = self._within([*(one for one in ODD_NUMBERS if math.isfinite(one)), 0.0])
                found = (*special, *plain)
            case "integer":
                found = self._within([0, 1, *ODD_INTEGERS])
            case "text":
                found = () if self.values else ODD_TEXTS
            case "time":
                found = self._zoned(ODD_TIMES)
            case "boolean" | "category":
                pass
            case _:
                assert_never(self.type)
        return (*found, None) if self.missing else found

    def at_random(self, rng: np.random.Generator) -> object:
        """Any value: of numbers of every magnitude between the ends, and now and then one of those above."""
        listed = (*self.usual, *self.odd)
        if self.type not in ("number", "integer") or rng.random() < LISTED:
            return listed[int(rng.integers(len(listed)))]
        low, high = (-WIDEST if self.low is None else self.low), (WIDEST if self.high is None else self.high)
        drawn = rng.uniform(low, high)
        if rng.random() < SCALED:
            drawn = min(max(drawn * 2.0 ** int(rng.integers(-MAGNITUDES, 0)), low), high)
        if self.type == "number":
            return float(drawn)
        return min(max(round(drawn), math.ceil(low)), math.floor(high))

    def _within(self, found: list[Any]) -> tuple[object, ...]:
        low, high = (-math.inf if self.low is None else self.low), (math.inf if self.high is None else self.high)
        return tuple(dict.fromkeys(one for one in found if low <= one <= high))

    def _zoned(self, times: tuple[datetime, ...]) -> tuple[object, ...]:
        return tuple(time.replace(tzinfo=UTC) for time in times) if self.zone else times


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSchema:
    """Rows. `names`: of the columns of a frame, else none; `is_single`: a row is its one value, and no tuple;
    `label`: the place of the column that `label_flip` changes; `bag`: the order of rows is no part of the data."""

    columns: tuple[SchemaColumn, ...]
    names: tuple[str, ...] = ()
    form: Form = "list"
    is_single: bool = False
    fewest_rows: int = 0
    most_rows: int = MOST_ROWS
    label: int | None = None
    bag: bool = False

    def at_random(self, rng: np.random.Generator) -> Row:
        """Any row that it allows."""
        return tuple(column.at_random(rng) for column in self.columns)

    def data(self, rows: tuple[Row, ...]) -> object:
        """The dataset of these rows, as a mechanism is given it."""
        if self.form == "frame":
            import pandas as pd  # here: most searches need no tables

            return pd.DataFrame(
                {name: [row[place] for row in rows] for place, name in enumerate(self.names)}, columns=list(self.names)
            )
        plain = [row[0] for row in rows] if self.is_single else list(rows)
        if self.form == "array":
            import numpy as np  # here: reading a schema loads no arrays

            are_numbers = all(one.type in ("number", "integer", "boolean") and not one.missing for one in self.columns)
            shape = (len(rows),) if self.is_single else (len(rows), len(self.columns))
            whole = are_numbers and all(one.type != "number" for one in self.columns)
            kind = (np.int64 if whole else np.float64) if are_numbers else object
            return np.array(plain, dtype=kind).reshape(shape)
        return plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """`count` answers to queries, of which one unit moves each by at most `moves`. `monotone`: all the same way."""

    count: int
    moves: float = 1.0
    monotone: bool = False


Schema: TypeAlias = "RowSchema | Answers"


def read_schema(given: Mapping[str, Any]) -> Schema:
    """The schema that JSON says. ParameterError that names what cannot be read."""
    keys = [key for key in ("rows", "table", "answers") if key in given]
    if len(keys) != 1:
        raise ParameterError("neighbours", sorted(map(str, given)), "a schema with one of rows, table and answers")
    body = given[keys[0]]
    if keys[0] == "answers":
        _only(given, {"answers"}, "neighbours")
        return _answers(body)
    _only(given, {keys[0], "form", "fewest_rows", "most_rows", "label", "bag"}, "neighbours")
    sizes: dict[str, Any] = {
        name: whole(given.get(name, other), field=name, most=10**6)
        for name, other in (("fewest_rows", 0), ("most_rows", MOST_ROWS))
    }
    if sizes["fewest_rows"] > sizes["most_rows"]:
        raise ParameterError("most_rows", sizes["most_rows"], f"at least fewest_rows, {sizes['fewest_rows']}")
    sizes["bag"] = flag(given.get("bag", False), field="bag")
    if keys[0] == "table":
        if not isinstance(body, Mapping) or not 1 <= len(body) <= MOST_COLUMNS or "form" in given:
            raise ParameterError("table", body, "columns by name, and no form: it is a frame")
        names = tuple(map(str, body))
        columns = tuple(_column(column, f"table.{name}") for name, column in body.items())
        return RowSchema(columns=columns, names=names, form="frame", label=_label(given, names), **sizes)
    form = given.get("form", "list")
    if form not in FORMS:
        raise ParameterError("form", form, "list or array")
    is_single = isinstance(body, Mapping)
    listed = [body] if is_single else body
    if not isinstance(listed, (list, tuple)) or not 1 <= len(listed) <= MOST_COLUMNS:
        raise ParameterError("rows", body, 'a column, like {"type": "number"}, or a list of columns')
    columns = tuple(_column(column, f"rows[{place}]") for place, column in enumerate(listed))
    label = _label(given, tuple(map(str, range(len(columns)))))
    return RowSchema(columns=columns, form=form, is_single=is_single, label=label, **sizes)


def _column(given: object, field: str) -> SchemaColumn:
    if not isinstance(given, Mapping):
        raise ParameterError(field, given, 'a column, like {"type": "number", "low": 0}')
    _only(given, {"type", "low", "high", "finite", "missing", "values", "zone"}, field)
    kind: Any = given.get("type")
    if kind not in TYPES:
        raise ParameterError(f"{field}.type", kind, "one of " + ", ".join(TYPES))
    flags = {name: flag(given.get(name, False), field=f"{field}.{name}") for name in ("missing", "zone")}
    ends = {name: _end(given.get(name), f"{field}.{name}") for name in ("low", "high")}
    low, high = ends["low"], ends["high"]
    if (low is not None or high is not None) and kind not in ("number", "integer"):
        raise ParameterError(f"{field}.low, {field}.high", kind, "no ends: they are of numbers and integers")
    if low is not None and high is not None and low >= high:
        raise ParameterError(f"{field}.high", high, f"more than low, {low}")
    if kind == "integer" and low is not None and high is not None and math.floor(high) < math.ceil(low):
        raise ParameterError(f"{field}.low, {field}.high", f"{low}, {high}", "ends with a whole number between them")
    finite = flag(given.get("finite", low is not None and high is not None), field=f"{field}.finite")
    values = given.get("values", ())
    if not isinstance(values, (list, tuple)) or (kind == "category" and len(values) < 2):
        raise ParameterError(f"{field}.values", values, "a list of at least two values")
    if values and kind not in ("category", "text"):
        raise ParameterError(f"{field}.values", kind, "none: they are of a category or a text")
    return SchemaColumn(type=kind, low=low, high=high, values=tuple(values), finite=finite, **flags)


def _end(given: object, field: str) -> float | None:
    if given is None:
        return None
    if not isinstance(given, (int, float)) or isinstance(given, bool) or not math.isfinite(given):
        raise ParameterError(field, given, "a finite number")
    return given


def _label(given: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    label = given.get("label")
    if label is None:
        return None
    if str(label) not in names:
        raise ParameterError("label", label, "one of the columns: " + ", ".join(names))
    return names.index(str(label))


def _answers(given: object) -> Answers:
    if not isinstance(given, Mapping):
        raise ParameterError("answers", given, 'how many, and how far each moves: {"count": 5, "moves": 1}')
    _only(given, {"count", "moves", "monotone"}, "answers")
    count = whole(given.get("count", 5), field="answers.count", least=1, most=MOST_ANSWERS)
    moves = _end(given.get("moves", 1), "answers.moves")
    if moves is None or moves <= 0:
        raise ParameterError("answers.moves", moves, "a finite number above 0")
    return Answers(
        count=count, moves=float(moves), monotone=flag(given.get("monotone", False), field="answers.monotone")
    )


def _only(given: Mapping[str, Any], known: set[str], field: str) -> None:
    strange = sorted(str(key) for key in given if key not in known)
    if strange:
        raise ParameterError(field, ", ".join(strange), "none but " + ", ".join(sorted(known)))


def is_frame(data: object) -> TypeGuard[Any]:
    """Whether data are a frame of pandas, without loading it."""
    return type(data).__name__ == "DataFrame" and hasattr(data, "itertuples")
