"""Frames of four libraries are read as one: the same words, the same numbers, whatever their columns' types are."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any
from uuid import UUID

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpledger as dpl
from dpledger.errors import ContractViolation, ParameterError
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.frames import check_frame, codes_of, columns, key_word, numbers_at, words_of
from dpledger.mechanisms.units import id_word
from dpledger.relations import Relation, Unit

NAN = float("nan")
BIG = 2**60
TABLE: dict[str, list[Any]] = {
    "text": ["a", "b", None, "a", "2"],
    "whole": [1, 2, None, BIG + 1, BIG],
    "plain": [3, -1, 3, 7, 0],
    "real": [1.5, None, NAN, 2.0, 1.5],
    "day": [*[dt.date(2013, 1, 1)] * 3, None, dt.date(2013, 2, 1)],
    "time": [*[dt.datetime(2013, 1, 1, 2)] * 3, None, dt.datetime(2013, 1, 1)],
    "truth": [True, None, False, True, True],
}
KINDS: dict[str, Callable[[dict[str, list[Any]]], Any]] = {
    "pandas": lambda table: pd.DataFrame({name: pd.Series(held, dtype=object) for name, held in table.items()}),
    "pandas arrow": lambda table: pa.table(table).to_pandas(types_mapper=pd.ArrowDtype),
    "polars": pl.DataFrame,
    "lazy": pl.LazyFrame,
    "arrow": pa.table,
    "duckdb": lambda table: duckdb.from_arrow(pa.table(table)),
}
WORDS: dict[str, list[str | None]] = {
    "text": ["a", "b", None, "a", "2"],
    "whole": ["1", "2", None, str(BIG + 1), str(BIG)],
    "plain": ["3", "-1", "3", "7", "0"],
    "real": ["1.5", None, None, "2", "1.5"],
    "day": [*["2013-01-01"] * 3, None, "2013-02-01"],
    "time": [*["2013-01-01 02:00:00"] * 3, None, "2013-01-01"],
    "truth": ["1", None, "0", "1", "1"],
}
NUMBERS: dict[str, list[float]] = {
    "text": [-9, -9, -9, -9, 2],
    "whole": [1, 2, -9, float(BIG), float(BIG)],
    "plain": [3, -1, 3, 7, 0],
    "real": [1.5, -9, -9, 2, 1.5],
    "truth": [1, -9, 0, 1, 1],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TABLE)
def test_every_library_says_the_same(kind: str, name: str) -> None:
    frame = KINDS[kind](TABLE)
    check_frame(frame, TABLE)
    (column,) = columns(frame, (name,))
    coded = words_of(column, key_word)
    assert [None if code < 0 else coded.words[code] for code in coded.codes] == WORDS[name]
    if name in NUMBERS:
        owners = codes_of(column, id_word).tolist()
        assert [owner >= 0 for owner in owners] == [word is not None for word in WORDS[name]]
        assert len(set(owners) - {-1}) == len(set(WORDS[name]) - {None})
        assert numbers_at(column, slice(0, 5), missing=-9.0).tolist() == NUMBERS[name]
        assert numbers_at(column, np.array([4, 0]), missing=-9.0).tolist() == [NUMBERS[name][4], NUMBERS[name][0]]


# fmt: off
ODD: tuple[Any, ...] = (
    "1", 1, 1.0, True, b"1", np.int8(1), np.float32(1), "01", " 1", "a\0", "a", None, NAN, pd.NA, pd.NaT, "nan",
    [1], {"a": 1}, object(), 1j, UUID(int=5), dt.date(2013, 1, 1), pd.Timestamp("2013-01-01"),
    np.datetime64("2013-01-01"), np.datetime64("NaT"), dt.time(1), 10**400,
)
ODD_WORDS: tuple[str | None, ...] = (
    "1", "1", "1", "1", "1", "1", "1", "01", " 1", "a", "a", None, None, None, None, None,
    None, None, None, "1j", str(UUID(int=5)), "2013-01-01", "2013-01-01", "2013-01-01",
    None, None, str(10**400),
)
# fmt: on


def test_whatever_an_entry_is_it_is_read_by_itself() -> None:
    alone = [key_word(entry) for entry in ODD]
    assert alone == list(ODD_WORDS)
    together = words_of(pd.Series(ODD, dtype=object), key_word)
    assert [None if code < 0 else together.words[code] for code in together.codes] == alone


@pytest.mark.parametrize(
    "held",
    [
        pd.Categorical([1, 2, None, 1]),
        pd.interval_range(0, 4),
        pa.table({"key": [[1], [2], None, [1]]}).to_pandas(types_mapper=pd.ArrowDtype)["key"],
        pd.period_range("2013-01", periods=4, freq="M"),
        pd.Series([1j, 2, None, 1]),
        pd.arrays.SparseArray([1, 2, 1, 1]),
        pl.Series([1, 2**70, None, 1], dtype=pl.Int128),
    ],
)
def test_columns_of_odd_types_never_raise(held: Any) -> None:
    frame = pl.DataFrame({"key": held}) if isinstance(held, pl.Series) else pd.DataFrame({"key": held})
    (column,) = columns(frame, ("key",))
    assert len(words_of(column, key_word).codes) == len(codes_of(column, id_word)) == 4
    assert len(numbers_at(column, slice(0, 4), missing=0.0)) == 4


@pytest.mark.parametrize("kind", KINDS)
def test_groups_of_every_library_are_the_same(kind: str) -> None:
    rows: dict[str, list[Any]] = {
        "key": ["a", "b", None, "a"] * 50,
        "value": [1.5, None, 3.0, 9.0] * 50,
        "unit": [n // 3 for n in range(200)],
    }
    mine = dpl.GroupBy(
        "key", [dpl.Count(1, of="rows"), ("value", dpl.ClippedMean(1, lower=0, upper=10))],
        key_epsilon=1, key_delta="1e-3", units="unit",
    ).under(Relation.ADD_REMOVE, Unit("user", 2))  # fmt: skip
    frames = (make(rows) for make in (KINDS["pandas"], KINDS[kind]))
    ours, theirs = (mine.release(frame, entropy=seeded(3)).value for frame in frames)
    assert ours == theirs
    assert list(ours) == ["a", "b"]


def test_what_is_no_frame_and_columns_that_are_not_there_are_refused() -> None:
    for wrong in (None, 3, [1], np.zeros((2, 2)), {"key": [1]}, pd.Series([1]), pl.Series([1])):
        with pytest.raises(ParameterError, match=r"data: .*a frame of pandas, polars, DuckDB or Arrow"):
            check_frame(wrong, ("key",))
    with pytest.raises(ParameterError, match=r"data: expected one column 'key', got none"):
        check_frame(pl.DataFrame({"a": [1]}), ("key",))
    with pytest.raises(ParameterError, match="data"):
        check_frame(pd.DataFrame([[1, 2]], columns=["key", "key"]), ("key",))


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_that_is_not_there_costs_nothing_and_the_nearest_is_named(kind: str) -> None:
    """Which columns there are is public (ADR 24); a lazy frame knows it before it is computed."""
    frame = KINDS[kind]({"ward": ["a"], "minutes": [2.0], "patient": ["p"]})
    scope = dpl.Ledger.in_memory().scope("visits", unit="patient", relation="add_remove", budget=dpl.PureDP(9))
    mean = dpl.ClippedMean(1, lower=0, upper=9)
    asked: dict[str, tuple[Any, object]] = {
        "ward": (dpl.GroupBy("wards", [dpl.Count(1, of="rows")], keys=["a"]), frame),
        "minutes": (dpl.GroupBy("ward", [("minuts", mean)], keys=["a"]), frame),
        "patient": (dpl.GroupBy("ward", [("minutes", mean)], keys=["a"], units="patientid"), frame),
    }
    if kind in ("pandas", "polars"):
        bins = dpl.learning.Binning({"Minutes": [1]}, source="the ward")
        learner = dpl.learning.PrivateStumpBooster(bins, epsilon=1, rounds=1)
        asked["minutes of bins"] = (learner, dpl.learning.LabeledSample(frame, np.array([1])))
    for column, (mechanism, data) in asked.items():
        with pytest.raises(ParameterError, match=rf"did you mean {column.split()[0]}\?"):
            scope.release(mechanism, data)
    assert not len(scope.releases())


WORDS_OF_TEXT = pl.LazyFrame({"key": ["a", "secret"]}).with_columns(pl.col("key").cast(pl.Int64))
FAR_DAYS = pl.LazyFrame({"key": [1, 2**62]}).with_columns(pl.col("key").cast(pl.Datetime("ms")).dt.truncate("1mo"))


@pytest.mark.parametrize("lazy", [WORDS_OF_TEXT, FAR_DAYS], ids=["an error", "a panic, which is no Exception"])
def test_a_query_that_fails_says_nothing_of_the_data(lazy: pl.LazyFrame) -> None:
    """It runs inside the release: the charge stands. Found: the error stayed as `__context__`, and a panic of polars,
    which one far date may cause, was told as it was."""
    scope = dpl.Ledger.in_memory().scope("t", unit="record", relation="add_remove", budget=dpl.PureDP(3))
    mine = dpl.GroupBy("key", [dpl.Count(1, of="rows")], keys=["a"])
    with pytest.raises(ContractViolation) as refusal:
        scope.release(mine, lazy)
    assert "secret" not in str(refusal.value)
    assert refusal.value.__cause__ is None
    assert refusal.value.__context__ is None
    assert float(scope.spent().upper) == 1
    with pytest.raises(ContractViolation, match="the query behind the frame failed"):
        mine.release(lazy, entropy=seeded(1))
