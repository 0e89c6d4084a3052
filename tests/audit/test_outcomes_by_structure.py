"""Every output is read by structure, in any chunks, and none raises."""

from __future__ import annotations

import array
import ctypes
import datetime
import functools
import hashlib
import math
import pickle
import random
import struct
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import example, given, settings, strategies as st
from hypothesis.extra import numpy as npst

from dpledger.accounting.composition import LaplaceLaw
from dpledger.accounting.guarantees import PureDP
from dpledger.audit import audit_mechanism
from dpledger.audit.course.blocks import width_of
from dpledger.audit.features.bank import bank
from dpledger.audit.features.blind import are_still, blindness
from dpledger.audit.features.score import public_path
from dpledger.audit.outcomes.encoding import encode
from dpledger.audit.outcomes.structure import TOO_DEEP, TOO_MANY, Outcomes, Raised, joined
from dpledger.mechanisms.protocol import Release
from told_outputs import TOLD, found_by_bank, told
from work_counter import lines_run, peak_bytes

pytestmark = pytest.mark.sliced


def equal(one: Outcomes, other: Outcomes) -> bool:
    """Bit for bit."""
    return (
        len(one) == len(other)
        and one.paths == other.paths
        and set(one.numbers) == set(other.numbers)
        and all(
            np.array_equal(table.view(np.uint64), np.ascontiguousarray(other.numbers[path]).view(np.uint64))
            for path, table in one.numbers.items()
        )
        and all((one.labels_at(path) == other.labels_at(path)).all() for path in one.paths)
    )


# ---- half-noise Laplace in every type -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TOLD)
def test_half_the_noise_shows_in_every_type_of_output(name: str) -> None:
    left, right = told(name, 1000, 0.0, 1), told(name, 1000, 1.0, 2)
    assert blindness(left, right) is None
    assert found_by_bank(left, right) > 1  # the claim is 1, the truth 2


def with_attribute(x: int) -> Any:
    def predict(times: int) -> int:
        return times

    predict.record = x  # type: ignore[attr-defined]
    return predict


def with_gradient(x: int) -> torch.Tensor:
    weight = torch.ones(1, requires_grad=True)
    weight.grad = torch.full((1,), float(x))
    return weight


HELD: dict[str, Callable[[int], object]] = {
    "closure": lambda x: lambda: x,
    "default": lambda x: lambda times=x: times,
    "attribute of a function": with_attribute,
    "bound method": lambda x: str(x).upper,
    "partial": lambda x: functools.partial(max, x),
    "numpy.Generator": np.random.default_rng,
    "numpy.RandomState": np.random.RandomState,
    "BitGenerator": np.random.PCG64,
    "random.Random": random.Random,
    "gradients of a tensor": lambda x: torch.ones(1, requires_grad=bool(x)),
    "zero that a sparse tensor stores": lambda x: torch.sparse_coo_tensor(
        torch.zeros(1, x, dtype=torch.int64), torch.zeros(x), (3,), check_invariants=False
    ),
    "gradient of a tensor": with_gradient,
    "what a mask covers": lambda x: np.ma.MaskedArray([1.0, x], mask=[False, True]),
    "what fills a mask": lambda x: np.ma.MaskedArray([1.0], mask=[True], fill_value=x),
    "longest of texts that were taken out": lambda x: np.array(["a", "bb" + "b" * x])[:1],
    "array of C": lambda x: (ctypes.c_double * 2)(1.0, x),
    "type of an array": lambda x: array.array("f" if x else "d", [1.0]),
    "categories in order": lambda x: pd.Categorical(["a"], ["a", "b"], ordered=bool(x)),
    "name of a zone": lambda x: datetime.datetime(2020, 1, 1, tzinfo=ZoneInfo("Europe/London" if x else "UTC")),
    "column of polars": lambda x: pl.DataFrame({"a" if x else "b": [1.0]}),
    "missing in polars": lambda x: pl.DataFrame({"a": [None if x else math.nan, 1.0]}),
    "kinds of a column of polars": lambda x: pl.Series(["a"], dtype=pl.Enum(["a", "b"] if x else ["a"])),
    "column of Arrow": lambda x: pa.table({"a" if x else "b": ["c"]}),
    "missing in Arrow": lambda x: pa.chunked_array([[None if x else math.nan, 1.0]]),
    "missing in an array of Arrow": lambda x: pa.array([None if x else math.nan, 1.0]),
    "layout of a tensor": lambda x: torch.ones(2).to_sparse() if x else torch.ones(2),
    "array of no axes": lambda x: np.array(1.0) if x else np.float64(1.0),
    "fold": lambda x: datetime.datetime(2020, 1, 1, fold=x),
    "fold of a time": lambda x: datetime.time(1, fold=x),
}


@pytest.mark.parametrize("name", HELD)
def test_what_a_thing_holds_is_read(name: str) -> None:
    left, right = (encode([{"n": 1.0, "thing": HELD[name](x)} for _ in range(60)]) for x in (0, 1))
    assert blindness(left, right) is None
    assert found_by_bank(left, right) > 1
    assert blindness(left, left) == "all runs of both sides gave the same output"


def test_a_function_that_holds_itself_is_read_to_an_end() -> None:
    def again(times: int) -> int:
        return again(times - 1) if times else 0

    assert "output" in encode([again, again]).labels


@pytest.mark.parametrize("name", ["float", "dict of two", "text .1f", "set", "tensor"])
def test_the_same_noise_on_both_sides_is_not_told_apart(name: str) -> None:
    assert found_by_bank(told(name, 1000, 0.0, 1), told(name, 1000, 0.0, 2)) < 0.5


def test_a_dict_without_noise_is_told_apart_and_a_digest_is_blind() -> None:
    left, right = encode([{"mean": 1.0}] * 100), encode([{"mean": 1.5}] * 100)
    assert found_by_bank(left, right) > 1
    texts = [encode([f"id-{chr(97 + i % 26)}{chr(97 + i // 26)}{side}" for i in range(100)]) for side in "xy"]
    said = blindness(*texts)
    assert said is not None
    assert "no other run" in said
    digests = [encode([hashlib.sha256(f"{side}{run}".encode()).hexdigest() for run in range(200)]) for side in "xy"]
    assert blindness(digests[0], digests[1]) == said
    for kind in ("sha256", "md5"):
        for runs in (100, 400):
            names = [[f"{side}{run}".encode() for run in range(runs)] for side in "xy"]
            in_bytes = [encode([{"id": hashlib.new(kind, name).digest(), "of": 1} for name in side]) for side in names]
            assert blindness(in_bytes[0], in_bytes[1]) == said
    told_in_words = [encode([f"{side} and {run}" for run in range(200)]) for side in "xy"]
    assert blindness(told_in_words[0], told_in_words[1]) is None
    assert blindness(encode([]), encode([])) == "there are no runs"


@pytest.mark.parametrize("form", ["<d", "<f", "<h", "one of 256"])
def test_numbers_that_are_written_as_bytes_are_read(form: str) -> None:
    rng = np.random.default_rng(1)

    def written() -> bytes:
        if form == "one of 256":
            return rng.bytes(1)  # each is given again and again
        noise = rng.laplace(scale=2_000.0)
        return struct.pack(form, round(noise) if form == "<h" else noise)

    left, right = (encode([written() for _ in range(200)]) for _ in range(2))
    assert blindness(left, right) is None


def test_a_side_whose_outputs_differ_in_one_bit_is_not_still() -> None:
    one = encode([0.5, 0.5])
    assert are_still(one, encode([np.nan, np.nan]))
    assert not are_still(one, encode([0.0, -0.0]))
    assert not are_still(one, encode([np.nan, np.copysign(np.nan, -1)]))


# ---- what stands where ----------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    x: float
    y: object


class Slotted:
    __slots__ = ("w",)

    def __init__(self, w: float) -> None:
        self.w = w


class Noted:
    x: Any
    y: Any


class Failing:
    def __init__(self) -> None:
        self.x = 1.0

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("no")


class Meta(type):
    def __hash__(cls) -> int:
        raise RuntimeError("no hash")


class Unhashable(metaclass=Meta):
    pass


def halting(count: int) -> Iterator[float]:
    yield from range(count)
    raise ValueError("stop")


@pytest.mark.parametrize(
    ("output", "path", "number"),
    [
        (1.5, "output", 1.5),
        (True, "output", 1.0),
        (np.float16(1.5), "output", 1.5),
        ({"mean": 1.5}, 'output["mean"]', 1.5),
        ({3: 1.5}, "output[3]", 1.5),
        ({(1, "a"): 1.5}, 'output[(1, "a")]', 1.5),
        ((None, {"w": [(1, "a"), 1.5]}), 'output[1]["w"][1]', 1.5),
        (Pair(0.5, None), "output.x", 0.5),
        (Slotted(1.5), "output.w", 1.5),
        (Fraction(1, 3), "rounding of output", float(Fraction(1, 3) - Fraction(1 / 3))),
        (Decimal("1.50"), "exponent of output", -2.0),
        (2**60 + 1, "low bits of output", 1.0),
        (-(10**400), "output", -math.inf),
        (10**400 + 3, "low bits of output", float((10**400 + 3) % 2**53)),
        (np.int64(2**60 + 1), "low bits of output", 1.0),
        (np.uint64(2**64 - 1), "low bits of output", float(2**53 - 1)),
        ([1, 2**60 + 1], "low bits of output", 1.0),
        (1 + 2j, "output.imag", 2.0),
        (np.array([1 + 2j]), "output.imag", 2.0),
        ("x 1.5e1 y", "numbers in output", 15.0),
        ("abc", "len(output)", 3.0),
        (b'{"a": -2}', "numbers in output", -2.0),
        (b"\xff\x00", "bytes of output", 255.0),
        (np.array([1.5]).tobytes(), "doubles in output", 1.5),
        (Raised("ValueError", "x is 3"), "numbers in message of output", 3.0),
        ({4, 2}, "output", 2.0),
        ((i for i in (7, 8)), "output", 7.0),
        (halting(3), "len(output)", 3.0),
        (range(2, 10**9), "len(output)", 1e9 - 2),
        (pd.Series([1.5], index=["a"]), "output", 1.5),
        (pd.DataFrame({"w": [1.5]}), 'output["w"]', 1.5),
        (pd.DataFrame({"w": [0.5, 1.5]}).tail(1), "index of output", 1.0),
        (pd.DataFrame({"w": [0.5, 1.5]}).iloc[1], "name of output", 1.0),
        (pd.Timedelta(3, "ns"), "output", 3.0),
        (np.timedelta64(3, "s"), "output", 3.0),
        (np.ma.array([1.0, 2.0], mask=[True, False]), "mask of output", 1.0),
        (np.array([(1, 2.5)], dtype=[("n", int), ("w", float)]), 'output["w"]', 2.5),
        ([None, None, 2.5, True], "numbers in output", 2.5),
        (["a", None, "a"], "first None in output", 1.0),
        (["no", "no", "yes"], "first change in output", 2.0),
        ([[1.0, 2.0], [3.0, 4.0]], "output", 1.0),
        (OrderedDict(b=1.5), 'output["b"]', 1.5),
        (Release(value=1.5, parts=LaplaceLaw(2)), "output", 1.5),
        (np.str_("x 2"), "numbers in output", 2.0),
        (np.array(["x 2", "y 3"]), "numbers in output[1]", 3.0),
    ],
)
def test_numbers_stand_at_their_paths(output: object, path: str, number: float) -> None:
    found = encode([output])
    assert found.numbers[path][0, 0] == number or (math.isnan(number) and math.isnan(found.numbers[path][0, 0]))


@pytest.mark.parametrize(
    ("output", "label"),
    [
        (1.5, ""),
        (1, "int"),
        (None, "None"),
        (np.float32(1), "float32"),
        (np.zeros((2, 3)), "float64[2, 3]"),
        ([1.0, 2], "list of 2 mixed float int"),
        ((), "tuple of 0"),
        ({"b": 1, "a": 2}, 'dict of "b", "a"'),
        (Raised("KeyError"), "raises KeyError"),
        (Decimal("sNaN"), "Decimal sNaN"),
        (pd.NA, "<NA>"),
        (pd.NaT, "NaT"),
        (pd.Timestamp("2020-01-01", tz="UTC"), "Timestamp UTC datetime64[us]"),
        (len, "builtin_function_or_method"),
        (int, "class int"),
        (object(), "object"),
        (halting(3), "generator that raises ValueError list of 3 int"),
        (np.array([None, 1.5], dtype=object), "objects[2] as list of 2"),
    ],
)
def test_the_kind_of_thing_is_a_label(output: object, label: str) -> None:
    assert encode([output]).labels_at("output").tolist() == [label]


def test_two_types_of_exceptions_that_have_one_name_are_two_outcomes() -> None:
    ours, theirs = (type("Refused", (Exception,), {"__module__": module}) for module in ("here", "there"))

    def asked(kind: type[Exception], rng: object) -> None:
        raise kind

    assert encode([ours("x"), ValueError(1)]).labels_at("output").tolist() == ["here.Refused", "ValueError"]
    result = audit_mechanism(asked, ours, theirs, PureDP(1), trials=200, seed=1)
    assert (result.verdict, "raises here.Refused" in str(result)) == ("violation", True)


def test_what_is_noted_of_a_frame_is_part_of_it() -> None:
    frame = pd.DataFrame({"w": [1.5]})
    frame.attrs["rows"] = 7
    assert encode([frame]).numbers['attrs of output["rows"]'].item() == 7


def test_a_short_transcript_is_spelled() -> None:
    found = encode([[None, True], ["a", None], [1.5, None], [None] * 65])
    assert found.labels["text of output"].tolist() == ["[None, True]", "['a', None]", "absent", "absent"]


def test_what_a_things_own_code_raises_is_part_of_the_outcome() -> None:
    found = encode([1.5, Failing(), Unhashable(), None])
    assert found.labels["output"].tolist() == [
        "",
        "Failing that raises RuntimeError",
        "unreadable: RuntimeError",
        "None",
    ]


def test_a_thing_that_holds_itself_has_an_end() -> None:
    loop: list[Any] = []
    loop.extend([loop, loop])
    assert len(encode([loop, loop])) == 2


def test_runs_may_be_a_column_a_frame_or_a_tensor() -> None:
    assert encode(pd.Series([1.0, 2.0])).numbers["output"].tolist() == [[1.0], [2.0]]
    assert encode(pd.Series(["a", "b"])).labels["text of output"].tolist() == ["'a'", "'b'"]
    assert encode(pd.DataFrame({"w": [1.0, 2.0]})).numbers['output["w"]'].tolist() == [[1.0], [2.0]]
    assert encode(torch.ones(2, 3)).numbers["output"].shape == (2, 3)


def test_a_duration_keeps_its_unit_whatever_stands_beside_it() -> None:
    durations = [np.timedelta64(5, "s"), np.timedelta64(7, "ms")]
    found = encode(durations)
    assert found.numbers["output"].ravel().tolist() == [5, 7]
    assert found.labels["output"].tolist() == ["timedelta64[s]", "timedelta64[ms]"]


@pytest.mark.parametrize("kind", ["M8[D]", "m8[s]", "f8", "i4", "c16"])
def test_numbers_in_another_byte_order_are_the_same_numbers_and_of_one_run_of_another_kind(kind: str) -> None:
    native = np.arange(18_000, 18_003).astype(kind)
    other = native.astype(np.dtype(kind).newbyteorder("S"))
    for one, swapped in ((encode(native), encode(other)), (encode([native]), encode([other]))):
        assert one.paths == swapped.paths
        assert all(np.array_equal(one.numbers[path], swapped.numbers[path]) for path in one.numbers)
    assert one.labels_at("output")[0] != swapped.labels_at("output")[0]
    assert equal(encode(native), encode(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.array([1, 2], dtype=np.int8), np.array([1, 2])),
        (np.array([True, False]), np.array([1.0, 0.0])),
        (np.array([[1, 2]], dtype=np.int8), np.array([[1.0, 2.0]], dtype=np.float32)),
        (np.array([1 + 2j], dtype=np.complex64), np.array([1 + 2j])),
        (np.array(["a"]), np.array(["a"], dtype="U9")),
        (np.array(["a"]), np.array(["a"], dtype=object)),
        (np.array([1, 2]), np.array([1, 2.0], dtype=object)),
        (np.array([True, False]), np.array([np.True_, 0], dtype=object)),
        (
            np.array([(1, "a")], dtype=[("n", "i4"), ("w", "U1")]),
            np.array([(1, "a")], dtype=[("n", "i8"), ("w", "U9")]),
        ),
    ],
)
def test_of_an_array_of_many_runs_only_the_values_are_read(one: np.ndarray[Any, Any], other: Any) -> None:
    """What is in it decides its dtype; of one run a dtype is part of what it gave."""
    assert equal(encode(one), encode(other))
    if one.dtype != other.dtype and not one.dtype.hasobject and not other.dtype.hasobject and one.dtype.kind != "U":
        assert not equal(encode([one]), encode([other]))


def narrow(steps: np.ndarray[Any, Any], _: np.random.Generator) -> object:
    return steps.astype(np.int8) if np.abs(steps).max() < 14 else steps


def spelled(steps: np.ndarray[Any, Any], _: np.random.Generator) -> object:
    words = np.array([str(step) for step in steps.tolist()])
    return np.array(list(zip(steps, words, strict=True)), dtype=[("n", int), ("w", words.dtype)])


def at_times_missing(steps: np.ndarray[Any, Any], rng: np.random.Generator) -> object:
    missing = rng.random(len(steps)) < 0.001
    return np.where(missing, np.nan, steps) if missing.any() else steps


def at_times_none(steps: np.ndarray[Any, Any], rng: np.random.Generator) -> object:
    return np.array([None if rng.random() < 0.001 else step for step in steps.tolist()])


@pytest.mark.parametrize("make", [narrow, spelled, at_times_missing, at_times_none])
def test_a_dtype_that_a_whole_batch_decides_makes_no_audit_blind(make: Callable[..., object]) -> None:
    def steps(data: int, size: int, rng: np.random.Generator) -> object:
        return make(data + rng.geometric(0.5, size) - rng.geometric(0.5, size), rng)

    given: dict[str, Any] = {"batched": True, "trials": 20_000, "seed": 1, "progress": False}
    kept = audit_mechanism(steps, 0, 1, PureDP(1), **given)  # the truth is ln 2
    assert (kept.verdict, kept.blind) == ("not_refuted", None)
    assert kept.power is not None
    assert audit_mechanism(steps, 0, 1, PureDP("0.5"), **given).verdict == "violation"


def test_a_dtype_that_one_record_decides_is_found_in_single_runs_and_told_of_batches() -> None:
    def batch(data: int, size: int, rng: np.random.Generator) -> object:
        return rng.geometric(0.5, size).astype(float if data else int)

    def single(data: int, rng: np.random.Generator) -> object:
        return batch(data, 1, rng)

    given: dict[str, Any] = {"trials": 1000, "seed": 1, "progress": False}
    assert audit_mechanism(single, 0, 1, PureDP(1), **given).verdict == "violation"
    found = audit_mechanism(batch, 0, 1, PureDP(1), **given, batched=True)
    assert found.verdict == "not_refuted"
    assert any("(float64 and int64)" in words and "audit single runs" in words for words in found.told)
    assert not audit_mechanism(batch, 1, 2, PureDP(1), **given, batched=True).told


def test_all_bits_of_a_whole_number_are_read() -> None:
    for bit in range(190):
        one, other = (encode([2**190 + side * 2**bit]).numbers["low bits of output"] for side in (0, 1))
        assert not np.array_equal(one, other)
    digests = {encode([2**5000 + side * 2**4000]).labels["digest of output"].item() for side in (0, 1)}
    assert len(digests) == 2
    assert encode([2**60, 2**70]).column("bits in output").tolist() == pytest.approx([math.nan, 71], nan_ok=True)
    assert encode([[np.int64(2**60 + 1), 5]]).numbers["low bits of output"].tolist() == [[1, 5]]
    assert encode([[1, 2**70 + 1]]).numbers["low bits of output[1]"][0].tolist() == [1, 2**17]


def test_a_batch_with_a_mask_is_read_as_its_runs() -> None:
    hidden = [encode(np.ma.MaskedArray([value, 1.0], mask=[True, False])) for value in (3.0, 4.0)]
    assert equal(*hidden)
    assert hidden[0].labels["output"].tolist() == ["masked", "float64"]
    table = np.ma.MaskedArray([[1.0, 2.0], [3.0, 4.0]], mask=[[True, False], [False, False]])
    assert equal(encode(table), encode(list(table)))
    assert encode(table).numbers["mask of output"].tolist() == [[1, 0], [0, 0]]


def test_what_is_given_is_copied() -> None:
    pairs = np.dtype([("a", "f8"), ("b", "f8", 2)])
    for kind in ("f8", "f4", "f2", "g", "c16", "i8", "u8", "?", "M8[s]", "m8[s]", "U3", "S3", pairs):
        for shape in (3, (3, 2)):
            given_ = np.zeros(shape, dtype=kind)
            found, before = encode(given_), encode(given_.copy())
            assert not any(np.shares_memory(given_, table) for table in found.numbers.values()), (kind, shape)
            given_.view(np.uint8)[...] = 1
            assert equal(found, before), (kind, shape)
    buffer = np.zeros(2)
    found = encode([buffer])
    buffer += 1
    assert not found.numbers["output"].any()


def test_bits_survive() -> None:
    payload = np.array([0x7FF8000000000005, 0x8000000000000000], dtype=np.uint64).view(np.float64)
    for outputs in (payload, payload.tolist(), [{"x": x} for x in payload.tolist()]):
        found = encode(outputs)
        (table,) = found.numbers.values() if len(found.numbers) == 1 else (found.numbers['output["x"]'],)
        assert np.array_equal(table.ravel().view(np.uint64), payload.view(np.uint64))


def test_a_batch_is_read_at_once() -> None:
    found = encode(np.arange(6.0).reshape(3, 2))
    assert found.numbers["output"].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert encode(np.arange(3.0)).labels == {}
    assert equal(encode(np.arange(6.0).reshape(3, 2)), encode(list(np.arange(6.0).reshape(3, 2))))


# ---- laws -----------------------------------------------------------------------------------------------------------

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=2**52, max_value=2**65),
    st.floats(),
    st.text(max_size=8),
    st.binary(max_size=8),
    st.fractions(),
    st.decimals(),
    st.complex_numbers(),
    st.dates(),
    st.timedeltas(),
    st.builds(Raised, st.sampled_from(["ValueError", "KeyError"]), st.none() | st.text(max_size=5)),
    st.integers(min_value=-(2**200), max_value=2**200),
    st.builds(np.timedelta64, st.integers(0, 9), st.sampled_from(["D", "s", "ms"])),
    st.lists(st.integers(2**61, 2**63 + 1), max_size=2),
    npst.arrays(
        st.one_of(npst.scalar_dtypes(), npst.array_dtypes()), npst.array_shapes(min_dims=0, max_dims=2, max_side=3)
    ),
    st.builds(Slotted, st.floats()),
    st.just(object()),
)
OUTPUTS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.one_of(st.text(max_size=2), st.integers(0, 3), st.floats(0, 1)), inner, max_size=3),
        st.builds(Pair, st.floats(), inner),
        st.frozensets(st.one_of(st.integers(), st.text(max_size=2)), max_size=3),
    ),
    max_leaves=6,
)


@settings(deadline=None, max_examples=60)
@given(st.lists(OUTPUTS, max_size=8), st.integers(0, 8))
def test_encoding_in_chunks_is_encoding_at_once(outputs: list[object], cut: int) -> None:
    whole = encode(outputs)
    assert len(whole) == len(outputs)
    assert equal(joined([encode(outputs[:cut]), encode(outputs[cut:])]), whole)
    assert equal(joined([encode([output]) for output in outputs]), whole)
    assert equal(pickle.loads(pickle.dumps(whole)), whole)
    assert equal(joined([whole.where(slice(0, cut)), whole.where(slice(cut, None))]), whole)
    assert all(table.shape[0] == len(outputs) and table.dtype == np.float64 for table in whole.numbers.values())
    assert all(type(label) is str for labels in whole.labels.values() for label in labels)


@settings(deadline=None, max_examples=60)
@given(
    npst.arrays(npst.scalar_dtypes() | npst.array_dtypes(), npst.array_shapes(max_dims=3, max_side=4)),
    st.integers(0, 4),
)
def test_a_batch_of_any_type_can_be_cut(batch: np.ndarray[Any, Any], cut: int) -> None:
    whole = encode(batch)
    assert len(whole) == len(batch)
    assert equal(joined([encode(batch[:cut]), encode(batch[cut:])]), whole)


@pytest.mark.parametrize("make", [float, np.float64, lambda x: {"a": x, "b": 2 * x}, lambda x: (x, x)])
def test_runs_of_one_kind_are_read_by_columns(make: Callable[[float], object]) -> None:
    """At most forty lines a run, whatever its structure: a hundred thousand in about a second."""
    outputs = [make(x) for x in range(1000)]
    assert lines_run(lambda: encode(outputs)) <= 40 * len(outputs)


@pytest.mark.slow
def test_twenty_thousand_numbers_a_run_take_seconds() -> None:
    """Encoder, bank and scores of a thousand runs on each side: five seconds were allowed for one."""
    rng = np.random.default_rng(1)
    batches = [rng.normal(size=(1000, 20_000)) for _ in range(2)]
    started = time.process_time()
    left, right = map(encode, batches)
    for score in bank(left, right):
        score.of(left), score.of(right)
    assert time.process_time() - started < 10


# ---- what a run is read as is a function of that run alone ----------------------------------------------------------


def holding_itself(times: int) -> list[Any]:
    loop: list[Any] = []
    loop.extend([loop] * times)
    return loop


ODD = st.one_of(
    st.permutations([f"k{key}" for key in range(12)]).map(lambda keys: dict.fromkeys(keys, 0.5)),
    st.integers(0, 200).map(lambda count: ["w"] * count),
    st.integers(1, 3).map(holding_itself),
    st.integers(0, 10**6).map(lambda first: {f"name {first + step}": 1.5 for step in range(40)}),
    st.integers(0, 10**6).map(lambda first: {first + step: "x" for step in range(100)}),
    st.floats(),
)


def cut(outputs: list[object], places: list[int]) -> list[list[object]]:
    ends = sorted({0, len(outputs), *(place % (len(outputs) + 1) for place in places)})
    return [outputs[first:last] for first, last in pairwise(ends)]


@settings(deadline=None, max_examples=12)
@given(st.lists(ODD, min_size=1, max_size=5), st.lists(st.integers(0, 100), max_size=3), st.integers(1, 9))
@example([holding_itself(times) for times in (3, 4, 5, 6)], [1, 2], 1)
def test_a_run_is_read_alike_whatever_stands_beside_it(outputs: list[object], places: list[int], times: int) -> None:
    many = outputs * times
    whole = encode(many)
    assert equal(joined([encode(piece) for piece in cut(many, places)]), whole)
    assert equal(joined([encode([output]) for output in outputs] * times), whole)
    assert equal(joined([whole.where(slice(0, 3)), whole.where(slice(3, None))]), whole)
    chosen = np.arange(len(many)) % 3 == 0
    kept = encode([output for output, is_chosen in zip(many, chosen, strict=True) if is_chosen])
    some = whole.where(chosen)
    for path in whole.paths[:: 1 + len(whole.paths) // 40]:
        assert (some.labels_at(path) == kept.labels_at(path)).all()
        assert np.array_equal(some.column(path), kept.column(path), equal_nan=True)


def test_thousands_of_kinds_of_runs_in_one_chunk_are_all_read() -> None:
    """A chunk once had a number of columns, and its last runs had nothing."""
    rng = np.random.default_rng(1)
    keys = [f"k{key:02d}" for key in range(12)]
    orders = [{str(key): 0.0 for key in rng.permutation(keys)} for _ in range(2048)]
    assert encode(orders).labels_at('output["k03"]').tolist() == [""] * 2048
    named = [{f"{run} {key}": 1.5 for key in range(10)} for run in range(2048)]
    found = encode(named)
    assert all(found.column(f'output["{run} 9"]')[run] == 1.5 for run in range(2048))
    again = joined([encode(named[first : first + 500]) for first in range(0, 2048, 500)])
    assert again.paths == found.paths and again.column('output["7 3"]')[7] == 1.5  # noqa: PT018
    assert sum(again.runs_at(path) for path in again.paths) <= 2 * len(again.paths) + 4 * 2048


def test_memory_grows_with_what_the_outputs_hold() -> None:
    def peak(runs: int) -> int:
        named = [{f"{run} {key}": 1.5 for key in range(10)} for run in range(runs)]
        return peak_bytes(lambda: encode(named))

    assert peak(800) < 3 * peak(400)


def test_a_run_of_very_many_parts_is_read_in_their_order() -> None:
    found = encode([{f"k{place}": place for place in range(10_000)}, 1.5])
    assert found.numbers['output["k4000"]'].ravel().tolist() == pytest.approx([4000, math.nan], nan_ok=True)
    assert 'output["k5000"]' not in found.paths
    assert found.column("len(output)")[0] == 10_000
    counts = encode([dict.fromkeys(range(10000), 1)])
    assert counts.numbers["keys of output"].shape == (1, 10_000)


def nested(levels: int) -> object:
    inside: object = 1.0
    for _ in range(levels):
        inside = [inside, None]
    return inside


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda more: [None] * (4095 + more), TOO_MANY),
        (lambda more: dict.fromkeys(range(4094 + more), "text"), TOO_MANY),
        (lambda more: iter([0.5] * (4096 + more)), TOO_MANY),
        (lambda more: bytes([255]) * (4096 * (1 if more else 8) + more), TOO_MANY),
        (lambda more: nested(12 + more), TOO_DEEP),
    ],
)
def test_what_is_not_read_of_a_run_is_said_of_that_run(make: Callable[[int], object], why: str) -> None:
    assert not encode([make(0)]).unread
    found = encode([0.5, make(1), make(0)])
    assert found.unread == {why}
    assert found.labels[why].tolist() == ["absent", "not read", "absent"]
    assert equal(joined([encode([one]) for one in (0.5, make(1), make(0))]), found)


@pytest.mark.parametrize("runs", [2, 2000])
def test_an_author_is_told_what_was_not_read_of_the_outputs(runs: int) -> None:
    def deep(data: int, rng: np.random.Generator) -> object:
        return [nested(13), data, rng.random()] if rng.random() < 2 / runs else rng.random()

    result = audit_mechanism(deep, 1, 1, PureDP(1), trials=2000, seed=1, progress=False)
    (told,) = (words for words in result.told if "12 levels" in words)
    assert "return it in fewer levels" in told
    assert told in str(result)
    assert told in result.public_summary


def test_two_places_never_share_a_path() -> None:
    word = 'a"]["b'
    for both in ({word: 1.5, "a": {"b": 2.5}}, {"a": {"b": 2.5}, word: 1.5}):
        found = encode([both])
        assert found.numbers[r'output["a\"][\"b"]'].item() == 1.5
        assert found.numbers['output["a"]["b"]'].item() == 2.5
        assert len(found.numbers) == 4  # and two lengths
    given_ = Noted()
    given_.__dict__.update({"x": Noted(), "x.y": 1.5})
    given_.x.y = 2.5
    assert {encode([given_]).numbers[path].item() for path in ('output.["x.y"]', "output.x.y")} == {1.5, 2.5}
    assert public_path(r'output["a\"][\"secret"][0]') == "output[...][0]"


KEYS = st.recursive(
    st.text('ab"]\\[#.', max_size=6)
    | st.integers(0, 3)
    | st.binary(max_size=2)
    | st.builds(np.str_, st.text('"[]', max_size=3)),
    lambda inner: st.tuples(inner, inner),
    max_leaves=3,
)


@settings(deadline=None, max_examples=200)
@given(st.dictionaries(KEYS, st.none() | st.dictionaries(KEYS, st.none(), max_size=2), max_size=4))
@example({'a"]["b': None, "a": {"b": None}})
def test_every_key_has_a_path_of_its_own(tree: dict[object, Any]) -> None:
    places = sum(1 + len(inner or ()) for inner in tree.values())
    labels = encode([tree]).labels
    assert sum(path.startswith("output[") for path in labels) == places


class Number(float):
    raw: Any


class Table(dict[str, float]):
    raw: Any


class Row(np.ndarray[Any, Any]):
    raw: Any


class Slim(np.float64):
    raw: Any


@pytest.mark.parametrize("value", [Number(1.5), Slim(1.5), Table(a=1.5), np.ones(2).view(Row)])
def test_what_is_noted_on_a_value_is_part_of_it(value: Any) -> None:
    value.raw = 7
    assert encode([value]).numbers["output.raw"].item() == 7


def test_the_types_of_a_list_are_told_in_their_order() -> None:
    lists: list[list[list[object]]] = [[[True, 0], [1, False]], [[1.0, 2], [1, 2.0]], [[True, 1], [np.True_, 1]]]
    for pair in lists:
        one, other = (encode([output]) for output in pair)
        assert not equal(one, other)
    assert encode([np.True_, True]).labels["output"].tolist() == ["numpy bool", "bool"]


def test_a_frame_is_read_with_its_names_and_categories() -> None:
    frames = [pd.DataFrame({"w": [1.5]}) for _ in range(4)]
    frames[1].columns.name = "carol"
    frames[2].index.name = "carol"
    frames[3].index = pd.Index(["a"], name="carol")
    found = [encode([frame]) for frame in frames]
    assert found[1].labels["text of names of columns of output[0]"].tolist() == ["'carol'"]
    assert found[2].labels["text of names of index of output[0]"].tolist() == ["'carol'"]
    assert found[3].labels["text of names of index of output[0]"].tolist() == ["'carol'"]
    assert not any("names" in path for path in found[0].paths)
    for known in (["a"], ["a", "carol"]):
        category = pd.Categorical(["a"], categories=known)
        at = encode([category]), encode([pd.Series(category)]), encode([pd.DataFrame({"w": category})])
        assert [one.column(f"len(categories of {path})")[0] for one, path in zip(at, PANDAS, strict=True)] == [
            len(known)
        ] * 3


PANDAS = ("output", "output", 'output["w"]')


def test_the_width_of_an_output_counts_the_numbers_in_its_texts() -> None:
    assert width_of(encode([" ".join(["7"] * 4000)])) == 4000
    assert width_of(encode([b"\0" + bytes(3999)])) == 4000 + 500
    assert width_of(encode([1.5, {"a": 1.5}])) == 2
    assert width_of(encode(["a"])) == 1
    assert width_of(encode([{str(run): 1.5, "b": 2.5} for run in range(100)])) == 2


def test_a_word_of_a_text_that_no_other_run_has_is_told() -> None:
    rng = np.random.default_rng(1)

    def named(name: str) -> list[dict[str, object]]:
        letters = ["".join(rng.choice(list("abcdefghij"), 12)) for _ in range(400)]
        return [{"x": rng.laplace(), "name": f"{start}-{name}"} for start in letters]

    left, right = encode(named("alice")), encode(named("bob"))
    assert set(left.labels['word 2 of output["name"]']) == {"'alice'"}
    assert found_by_bank(left, right) > 1
    assert not any(path.startswith("word") for path in encode(["alice", "a1"]).paths)


def test_a_list_of_things_has_one_length() -> None:
    outputs = [np.array([None, 1.5], dtype=object), 1.5]
    found = encode(outputs)
    assert found.labels["len(output)"].tolist() == ["", "absent"]
    assert equal(joined([encode([output]) for output in outputs]), found)
