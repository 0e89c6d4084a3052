"""No record decides how another one is read: whatever numpy or pandas make of an array once one record is in it.

A neighbour of an array is an array that somebody built with one record more. numpy looks at all of them to choose the
dtype: a 2 among truth values makes numbers of all, a word makes text of all, a float makes floats of whole numbers. So
what a row counts as must survive each of these.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import assume, given, strategies as st

from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.frames import columns, key_word, words_of
from dpledger.mechanisms.groups.group_by import GroupBy
from dpledger.mechanisms.learning.queries.conjunctions import PrivateConjunctionLearner
from dpledger.mechanisms.learning.samples import LabeledSample, UserSample, bits_of, points_of
from dpledger.mechanisms.learning.tables.binning import Binning
from dpledger.mechanisms.learning.users.median import UserLevelMedian
from dpledger.mechanisms.learning.users.reading import users_of
from dpledger.mechanisms.noise import recording
from dpledger.mechanisms.numeric import ClippedMean, Count, Gaussian, Histogram, Laplace
from dpledger.mechanisms.numeric.containers import array_of
from dpledger.mechanisms.numeric.grid import TotalMap, to_steps, vector_to_steps
from dpledger.mechanisms.numeric.rows import numbers, word
from dpledger.mechanisms.stability.ensembles.forms import Form
from dpledger.mechanisms.statistics.column_bounds import ColumnBounds
from dpledger.mechanisms.statistics.quantile import Quantile
from dpledger.mechanisms.statistics.quantiles import Quantiles
from dpledger.mechanisms.statistics.sums import ClippedSum
from dpledger.mechanisms.statistics.variance import Variance
from dpledger.mechanisms.units import ByUnit
from dpledger.relations import Relation, Unit

pytestmark = pytest.mark.sliced

UNIT = Unit("patient")

records = st.one_of(
    st.booleans(),
    st.integers(-5, 5),
    st.integers(-(2**70), 2**70),
    st.sampled_from([2**53 + 1, 2**63, 2**64 - 1, -(2**63), 10**400]),
    st.floats(),
    st.complex_numbers(allow_subnormal=False),
    st.sampled_from(["a", "b", "1", "1.0", "01", "True", "nan", "inf", "1e5", "-0.0", "x\0", b"a", b"1"]),
    st.sampled_from([None, Decimal("1.5"), Decimal("sNaN"), Fraction(1, 3), np.int8(3), np.uint64(2**63 + 1)]),
)


def array(rows: list[object]) -> npt.NDArray[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return np.array(rows)
        except (ValueError, TypeError, OverflowError):
            assume(False)
            raise


def column(rows: list[object]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pd.Series(rows)


@pytest.mark.parametrize("build", [array, column])
@given(rows=st.lists(records, min_size=1, max_size=6), other=records)
def test_a_row_reads_the_same_beside_any_other(
    build: Callable[[list[object]], Any], rows: list[object], other: object
) -> None:
    alone, beside = build(rows), build([*rows, other])
    before, after = (numbers(data, missing=0.25)[: len(rows)] for data in (alone, beside))
    assert before.tolist() == after.tolist()
    assert [word(row) for row in np.asarray(alone)] == [word(row) for row in np.asarray(beside)[: len(rows)]]


COLUMNS: dict[str, Callable[[list[Any]], Any]] = {
    "pandas": lambda rows: pd.Series(rows, dtype="Int64"),
    "categories": lambda rows: pd.Series(pd.Categorical(rows)),
    "arrow in pandas": lambda rows: pd.Series(pd.arrays.ArrowExtensionArray(pa.array(rows))),
    "polars": pl.Series,
    "arrow": pa.array,
    "dictionary": lambda rows: pa.array(rows).dictionary_encode(),
}


@pytest.mark.parametrize("name", COLUMNS)
@given(rows=st.lists(st.integers(2**53, 2**62), min_size=1, max_size=6, unique=True))
def test_whole_numbers_of_a_column_stay_apart_beside_a_missing_one(name: str, rows: list[int]) -> None:
    """As floats those that are near each other would be one: of all people one would be left."""
    alone, beside = COLUMNS[name](rows), COLUMNS[name]([*rows, None])
    assert len(ByUnit([0] * len(rows), units=alone).groups) == len(rows)
    assert len(ByUnit([0] * (len(rows) + 1), units=beside).groups) == len(rows)
    assert points_of(beside, 2**63).points[: len(rows)].tolist() == points_of(alone, 2**63).points.tolist() == rows


DATE = pd.Timestamp("2020-01-01T05:00").as_unit("us")
PLACES = 2**53
BESIDE = [None, "x", 3, pd.NaT, pd.Timestamp("2020-01-01T05:00:00.000000001"), np.datetime64("9999-01-01", "s")]


@pytest.mark.parametrize("entry", [DATE, DATE - DATE, None], ids=["a date", "a duration", "none"])
@pytest.mark.parametrize("beside", BESIDE, ids=repr)
@pytest.mark.parametrize("build", [pd.Series, lambda rows: pd.Series(rows).to_numpy()], ids=["column", "array"])
def test_a_date_reads_the_same_whatever_unit_or_type_another_gives_to_all(
    build: Callable[[list[Any]], Any], beside: object, entry: object
) -> None:
    """Of dates in nanoseconds numpy makes whole numbers, of those in microseconds objects."""
    read = []
    for rows in ([entry, DATE], [entry, beside]):
        x = build(rows)
        held = array_of(x)
        assert held is not None
        form = Form.of(x, words=() if isinstance(x, pd.Series) else (0,), missing=0.0)
        table = pd.DataFrame({"a": x})
        of_table = Form.of(table, words=("a",), missing=0.0)
        read.append(
            (
                word(held[0]),
                numbers(x, missing=0.25)[0],
                points_of(x, PLACES).known[0],
                bits_of(x, 3).known[0],
                form.read(x)[0],
                of_table.read(table)["a"].iloc[0],
                Binning(categories={"a": ["x"]}, source="public").read(table).known[0],
                key_word(held[0]),
                *(words_of(columns(table, ("a",))[0], key_word).codes[:1] < 0),
            )
        )
    assert repr(read[0]) == repr(read[1])


@pytest.mark.parametrize("unit", ["h", "m", "s", "ms", "us", "ns"])
def test_a_key_that_is_a_date_is_one_word_in_every_unit(unit: str) -> None:
    date = np.array("2020-01-01T05", dtype=f"datetime64[{unit}]")[()]
    assert {key_word(one) for one in (date, DATE, DATE.to_pydatetime())} == {"2020-01-01 05:00:00"}
    placed = GroupBy("day", [Count(10**6, of="rows")], keys=[str(key_word(DATE))]).under(
        Relation.ADD_REMOVE, Unit("row")
    )
    for rows in ([date] * 5, [date] * 5 + ["x"]):
        assert placed.release(pd.DataFrame({"day": rows}), entropy=seeded(1)).value[str(key_word(DATE))]["count"] == 5


@pytest.mark.parametrize("points", [2**53 + 1, 2**60 + 2, 2**63 + 1, 2**64])
@given(away=st.integers(-3, 3), odd=st.sampled_from([None, "x"]))
def test_a_point_near_the_end_is_the_same_among_floats_and_among_objects(points: int, away: int, odd: object) -> None:
    near = float(points)
    for _ in range(abs(away)):
        near = np.nextafter(near, np.inf * away)
    among = [points_of(rows, points).points[0] for rows in (np.array([near]), np.array([near, odd], dtype=object))]
    assert among[0] == among[1]


def of_arrow(entries: pa.Array) -> pd.Series[Any]:
    return pd.Series(pd.arrays.ArrowExtensionArray(entries))


UNREADABLE: dict[str, Callable[[bool], Any]] = {
    "a date after the year 9999": lambda odd: of_arrow(
        pa.array([1, 70_000_000 if odd else 2], pa.int32()).cast(pa.date32())
    ),
    "a time after midnight": lambda odd: pa.array([1, 2**40 if odd else 2], pa.int64()).cast(pa.time64("us")),
    "bytes that are no text": lambda odd: pa.array([b"a", b"\xff" if odd else b"b"]).view(pa.string()),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_an_entry_that_cannot_be_read_raises_nothing_and_changes_no_other(name: str) -> None:
    alone, beside = (array_of(UNREADABLE[name](odd)) for odd in (False, True))
    assert alone is not None
    assert beside is not None
    assert word(beside[0]) == word(alone[0])
    assert numbers(beside, missing=0.25)[0] == numbers(alone, missing=0.25)[0]
    for odd in (False, True):
        entries = UNREADABLE[name](odd)
        Count(epsilon=1, of="rows").under(Relation.ADD_REMOVE, UNIT).release(entries, entropy=seeded(1))
        ByUnit([0, 0], units=entries)


class RaisingFloat(float):
    def __float__(self) -> float:
        raise RuntimeError


class RaisingText(str):
    __slots__ = ()

    def __hash__(self) -> int:
        raise RuntimeError


class Nameless:
    @property  # type: ignore[misc]  # as some proxies have it
    def __class__(self) -> Any:
        raise RuntimeError


@pytest.mark.parametrize("make", [lambda: RaisingFloat(1), lambda: RaisingText("a"), Nameless])
def test_what_an_entry_raises_itself_stays_in_it(make: Callable[[], object]) -> None:
    entry = make()
    for mechanism in (Count(1, of="true"), Histogram(1, categories=("a", "1")), ClippedMean(1, lower=0, upper=1)):
        mechanism.under(Relation.ADD_REMOVE, UNIT).release([1, entry, "a"], entropy=seeded(1))
    assert len(ByUnit([0] * 3, units=[1, entry, 3]).groups) >= 2


class RaisingWhole(int):
    def __int__(self) -> int:
        raise RuntimeError


class RaisingBytes(bytes):
    def decode(self, *_: Any, **__: Any) -> str:
        raise RuntimeError


class RaisingList(list[int]):
    def __len__(self) -> int:
        raise RuntimeError


class LyingList(list[int]):
    """Of another length than it says."""

    def __len__(self) -> int:
        return 3


class RaisingDict(dict[str, int]):
    def get(self, *_: Any) -> Any:
        raise RuntimeError


ODD = [RaisingWhole(1), RaisingBytes(b"1"), RaisingList([1]), LyingList([1]), RaisingDict()]


@pytest.mark.parametrize("odd", ODD, ids=lambda row: type(row).__name__)
def test_what_a_row_of_a_learner_raises_itself_stays_in_it(odd: object) -> None:
    expected, rows = [True, False], [1, odd]
    assert points_of(rows, 8).known.tolist() == expected
    assert bits_of([[1, 0, 1], odd], 3).known.tolist() == expected
    bins = Binning({"a": [1, 2]}, source="public")
    assert bins.read([{"a": 1}, odd]).known.tolist() == expected
    assert Binning({0: [1, 2]}, source="public").read([[1], odd]).known[0]


RANGE: dict[str, Any] = {"lower": -4, "upper": 4}


@pytest.mark.parametrize(
    "mechanism",
    [
        ClippedMean(1, **RANGE),
        ClippedSum(1, **RANGE),
        Variance(1, **RANGE),
        Quantile(1, q="0.5", grid="0.5", **RANGE),
        Quantiles(1, qs=("0.25", "0.5"), grid="0.5", **RANGE),
        ColumnBounds(1),
        Histogram(1, edges=(-4, 0, 4)),
    ],
    ids=lambda one: type(one).__name__,
)
def test_no_number_raises_of_the_callers_float_errors(mechanism: Any) -> None:
    """Of a denormal one numpy says that it lost digits."""
    placed = mechanism.under(Relation.ADD_REMOVE, UNIT)
    for odd in (1e-310, 5e-324, -1e-308, 1e308, np.longdouble("1e-4000"), np.inf, np.nan):
        with np.errstate(all="raise"):
            placed.release([1.5, -2.0, odd], entropy=seeded(1))
            placed.release(np.array([1.5, -2.0, odd]), entropy=seeded(1))


def test_an_id_of_any_length_is_an_id() -> None:
    """Python writes no number of more than 4,300 digits."""
    ids: list[object] = [10**5000, 10**5000 + 1, -(10**5000), 10**5000]
    assert len(ByUnit([0] * 4, units=ids).groups) == 3


def test_large_ids_of_a_frame_stay_apart_beside_a_missing_one() -> None:
    ids = pl.Series([2**64 - 1, 2**64 - 2, None], dtype=pl.UInt64)
    counts = GroupBy("ward", [Count(10**6, of="rows")], keys=["a"], units="id")
    placed = counts.under(Relation.ADD_REMOVE, Unit("patient"))
    assert placed.release(pl.DataFrame({"ward": ["a"] * 3, "id": ids}), entropy=seeded(1)).value["a"]["count"] == 2


@pytest.mark.parametrize(
    "mechanism",
    [
        Count(epsilon=1, of="rows"),
        Count(epsilon=1, of="true"),
        ClippedMean(epsilon=1, lower=0, upper=4),
        Histogram(epsilon=1, edges=(0, 1, 2, 4), others="counted"),
        Histogram(epsilon=1, categories=("a", "1", "0", "nan"), others="counted"),
    ],
    ids=repr,
)
@given(rows=st.lists(records, min_size=1, max_size=6), other=records)
def test_a_record_added_to_an_array_moves_a_statistic_by_what_is_declared(
    mechanism: Any, rows: list[object], other: object
) -> None:
    placed = mechanism.under(Relation.ADD_REMOVE, UNIT)
    draws = []
    for data in (array(rows), array([*rows, other])):
        with recording() as drawn:
            placed.release(data, entropy=seeded(1))
        draws.append(drawn)
    for left, right in zip(*draws, strict=True):
        difference = np.abs(np.atleast_1d(left.value) - np.atleast_1d(right.value))
        assert Fraction(int(difference.sum())) * Fraction(left.law.grid) <= Fraction(left.sensitivity.value)


def test_a_two_among_truth_values_counts_nobody_else() -> None:
    """`np.array([..., 2])` holds numbers: a count that asked the dtype counted everybody, a loss of 1,001."""
    asked = [False] * 1000 + [True]
    for data in (np.array(asked), np.array([*asked, 2]), np.array([*asked, None]), np.array([*asked, "x"])):
        with recording() as draws:
            Count(epsilon=1, of="true").release(data, entropy=seeded(1))
        assert draws[0].value == 1


@pytest.mark.parametrize("mechanism", [ClippedMean(epsilon=1, lower=0, upper=4), Histogram(epsilon=1, edges=(0, 4))])
@pytest.mark.parametrize("record", ["x", 1j, None, b"x", 10**400])
def test_no_record_makes_an_array_refused(mechanism: Any, record: object) -> None:
    """It counts as something, and the release has its usual form."""
    data = np.array([1.5, 2.5, record])
    mechanism.inspect(data)
    found, usual = (mechanism.release(rows, entropy=seeded(1)).value for rows in (data, np.array([1.5, 2.5, 0.5])))
    assert type(found) is type(usual)


def test_what_is_refused_is_the_container_alone() -> None:
    for mechanism in (ClippedMean(epsilon=1, lower=0, upper=4), Count(epsilon=1, of="true")):
        for data in (np.zeros((2, 2)), np.array([["x", "y"]]), np.zeros((2, 2), dtype=object)):
            with pytest.raises(ParameterError, match="2 axes"):
                mechanism.inspect(data)


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("entry", [0, None, "x"], ids=repr)
def test_a_matrix_of_numpy_is_the_array_that_it_holds(entry: object) -> None:
    """A row of a matrix is a matrix: what read it by rows raised where one entry made objects of all."""
    held = np.array([[1, 0, 1], [1, entry, 1]], dtype=object if entry is None else None)
    bits, users = np.matrix(held), np.matrix(held.T)
    learner = PrivateConjunctionLearner(3, epsilon=1)
    kept = [learner.release(LabeledSample(x, [1, 0]), entropy=seeded(1)).value for x in (held, bits)]
    assert kept[0] == kept[1]
    read = [users_of(UserSample(x, np.matrix(np.ones((3, 2)))), 4).points.tolist() for x in (held.T, users)]
    assert read[0] == read[1]
    median = UserLevelMedian(points=4, epsilon=1, strict=True).under(Relation.ADD_REMOVE, Unit("user", 2))
    inside = [median._are_inside(UserSample(x, x)) for x in (held.T, users)]
    assert inside == [entry == 0] * 2


# ---- wide floats ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("far", [2.0**54, 2.0**58, -(2.0**59)])
def test_a_wide_float_is_not_narrowed(far: float) -> None:
    """Neighbours at distance 1 that a float64 holds 4, 64 or 128 apart."""
    wide = np.longdouble(far)
    assert abs(np.spacing(far)) > 1
    mechanism = Laplace(sensitivity=1, epsilon=1, bound=9 * 10**17)
    vector = Gaussian(noise_multiplier=1, sensitivity=1, dimension=3, bound=9 * 10**17)
    for step in range(9):
        values = []
        for at in (wide + step, wide + step + 1):
            with recording() as draws:
                mechanism.release(at, entropy=seeded(1))
                vector.release(np.array([at, 0, 0], dtype=np.longdouble), entropy=seeded(1))
            values.append([int(np.atleast_1d(draw.value)[0]) for draw in draws])
        for before, after, draw in zip(*values, draws, strict=True):
            assert (after - before) * Fraction(draw.law.grid) == 1


entries = st.floats() | st.sampled_from([np.float16(0.1), np.float32(1e-40), np.float64(2.0**1000)])


@given(
    values=st.lists(entries, min_size=2, max_size=6),
    exponent=st.integers(-60, 40),
    bound=st.decimals("1e-6", "1e17", places=6),
    share=st.fractions(-1, 1, max_denominator=2**20),
)
def test_a_vector_of_floats_is_mapped_as_each_entry_is(
    values: list[Any], exponent: int, bound: Decimal, share: Fraction
) -> None:
    """At the bound and for `missing` too, where a float64 near the decimal would be other steps on a fine grid."""
    grid = Decimal(2) ** exponent if exponent >= 0 else Decimal(5**-exponent).scaleb(exponent)
    missing = Decimal(int(share * 2**20)) / Decimal(2**20)
    assume(abs(missing) <= bound)
    how = TotalMap(grid=grid, bound=bound, missing=missing)
    expected = [to_steps(value, how) for value in values]
    with np.errstate(all="ignore"):
        forms: list[Any] = [np.array(values), np.array(values, dtype=object), values, pd.Series(values)]
    for form in forms:
        assert vector_to_steps(form, how, len(values)).tolist() == expected


@pytest.mark.parametrize("fill", [None, -999.0])
def test_a_masked_entry_is_missing_whatever_its_array_is_filled_with(fill: float | None) -> None:
    """Found: where the array had a fill value of its own, each masked entry was that number."""
    rows = np.ma.masked_array([1.0, -999.0, 3.0], mask=[False, True, False], fill_value=fill)
    assert numbers(rows, missing=0.5).tolist() == [1.0, 0.5, 3.0]
