"""A digest of data changes with whatever is written into them, and is the same wherever equal data are."""

from __future__ import annotations

import collections
import copy
import dataclasses
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import dpledger as dpl
from dpledger.audit.sampling.copies import copied
from dpledger.audit.sampling.digests import digest
from dpledger.audit.sampling.runs import ALTERED

pytestmark = pytest.mark.sliced

ROWS = [5.0, 1.0]


class Plain:
    def __init__(self, rows: Any) -> None:
        self.rows = rows


@dataclasses.dataclass
class Fields:
    rows: list[float]


class Slots:
    __slots__ = ("_rows", "asked")

    def __init__(self, rows: Any) -> None:
        self._rows = rows


class SaysHow(Plain):
    """Its pickle does not hold what is noted on it."""

    def __reduce__(self) -> Any:
        return SaysHow, (self.rows,)


class OfDict(dict[Any, Any]):
    pass


class OfDefault(collections.defaultdict[Any, Any]):
    pass


class OfList(list[Any]):
    pass


class OfTuple(tuple[Any, ...]):
    pass


class OfSet(set[Any]):
    pass


class SlotsOfList(list[Any]):
    __slots__ = ("asked",)


class OfArray(np.ndarray):
    pass


class OfFrame(pd.DataFrame):
    @property
    def _constructor(self) -> Any:
        return OfFrame


def function(rows: Any) -> Any:
    return lambda: rows


def masked() -> Any:
    return np.ma.MaskedArray(np.array(ROWS), mask=np.array([False, True]))


MAKE: dict[str, Callable[[], Any]] = {
    "plain object": lambda: Plain(list(ROWS)),
    "dataclass": lambda: Fields(list(ROWS)),
    "slots": lambda: Slots(list(ROWS)),
    "own pickle": lambda: SaysHow(list(ROWS)),
    "dict": lambda: OfDict(enumerate(ROWS)),
    "defaultdict": lambda: OfDefault(int, enumerate(ROWS)),
    "list": lambda: OfList(ROWS),
    "tuple": lambda: OfTuple(ROWS),
    "set": lambda: OfSet(ROWS),
    "list with slots": lambda: SlotsOfList(ROWS),
    "array": lambda: np.array(ROWS).view(OfArray),
    "masked array": lambda: masked(),
    "series": lambda: pd.Series(ROWS),
    "frame": lambda: pd.DataFrame({"x": ROWS}),
    "frame of its own": lambda: OfFrame({"x": ROWS}),
    "tensor": lambda: torch.tensor(ROWS),
    "function": lambda: function(list(ROWS)),
}


@pytest.mark.parametrize("name", MAKE)
def test_an_attribute_that_is_written_into_data_is_seen(name: str) -> None:
    data = MAKE[name]()
    before = digest(data)
    assert digest(MAKE[name]()) == before == digest(data)
    if name != "function":
        assert digest(copy.deepcopy(data)) == before
    data.asked = True
    assert digest(data) != before
    assert digest([data]) != digest([MAKE[name]()])


def with_mask(data: Any) -> None:
    data.mask = True


OTHER: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "mask": (lambda: masked(), with_mask),
    "attrs": (lambda: pd.DataFrame({"x": ROWS}), lambda data: data.attrs.update(asked=True)),
    "order": (lambda: collections.OrderedDict(a=1, b=[2]), lambda data: data.move_to_end("a")),
    "items of a view": (lambda: MappingProxyType({"a": [1]}), lambda data: data["a"].append(2)),
    "deque": (lambda: collections.deque([1, [2]]), lambda data: data[1].append(3)),
    "generator": (lambda: np.random.default_rng(1), lambda data: data.random()),
    "iterator": (lambda: iter([1, 2]), next),
    "gradient": (lambda: torch.ones(2, requires_grad=True), lambda data: data.sum().backward()),
    "bfloat16": (lambda: torch.ones(2, dtype=torch.bfloat16), lambda data: data.add_(1)),
    "weights": (lambda: torch.nn.Linear(2, 1), lambda data: data.weight.data.zero_()),
    "closure": (lambda: function([1]), lambda data: data().append(2)),
    "default": (lambda: lambda rows=[1]: rows, lambda data: data().append(2)),
    "method": (lambda: Plain([1]).rows.append, lambda data: data(2)),
    "record": (lambda: np.zeros(1, dtype=[("a", float), ("b", "O")])[0], lambda data: data.__setitem__("a", 5)),
    "field of objects": (lambda: np.array([([1],)], dtype=[("b", "O")]), lambda data: data["b"][0].append(2)),
    "extended double": (lambda: np.ones(2, dtype=np.longdouble), lambda data: data.__setitem__(0, 2)),
    "texts of numpy": (lambda: np.array(["a"], dtype=np.dtypes.StringDType()), lambda data: data.__setitem__(0, "b")),
    "bytes": (lambda: memoryview(bytearray(b"ab")), lambda data: data.__setitem__(0, 3)),
    "categories": (lambda: pd.Series(["a"], dtype="category"), lambda data: data.attrs.update(asked=1)),
}


@pytest.mark.parametrize("name", OTHER)
def test_what_is_written_elsewhere_into_data_is_seen(name: str) -> None:
    make, change = OTHER[name]
    data = make()
    before = digest(data)
    assert digest(data) == before
    change(data)
    assert digest(data) != before


def test_labels_in_the_middle_of_a_long_index_are_read() -> None:
    labels = list(range(500))
    other = [*labels[:250], -1, *labels[251:]]
    assert digest(pd.Series(0.0, index=labels)) != digest(pd.Series(0.0, index=other))
    assert digest(pd.DataFrame({str(x): [0.0] for x in labels})) != digest(pd.DataFrame({str(x): [0.0] for x in other}))


@pytest.mark.parametrize("make", [lambda: pl.DataFrame({"x": [1, 2], "s": ["a", None]}), lambda: pathlib.Path("a/b")])
def test_reading_data_does_not_change_their_digest(make: Callable[[], Any]) -> None:
    data = make()
    before = digest(data)
    str(data), repr(data)
    if isinstance(data, pathlib.Path):
        hash(data), data.parts
    assert digest(data) == before == digest(make())


def noted(data: Any) -> Any:
    if isinstance(data, pd.DataFrame):
        old = data.attrs.get("asked")
        data.attrs["asked"] = True
        return old
    old = getattr(data, "asked", None)
    data.asked = True
    return old


def total(data: Any) -> float:
    rows = getattr(data, "rows", data)
    return float(np.sum(list(rows.values()) if isinstance(rows, dict) else np.asarray(rows)))


def raw_at_first(data: Any, rng: np.random.Generator) -> float:
    """The first call on fresh data gives the number itself."""
    return total(data) + (rng.laplace() if noted(data) else 0.0)


NOTED = (
    Fields,
    OfList,
    lambda rows: OfDict(enumerate(rows)),
    lambda rows: np.array(rows).view(OfArray),
    lambda rows: pd.DataFrame({"x": rows}),
)


@pytest.mark.parametrize("make", NOTED)
def test_a_raw_first_release_is_a_violation_wherever_it_is_noted(make: Callable[[Any], Any]) -> None:
    found = dpl.audit_mechanism(
        raw_at_first, make([5.0, 1.0]), make([5.0, 2.0]), dpl.PureDP(1), trials=2_000, seed=1, progress=False
    )
    assert found.verdict == "violation"
    assert ALTERED in found.told


# ---- the same everywhere --------------------------------------------------------------------------------------------


def test_sharing_does_not_show() -> None:
    row, text = [1, None, {"a": [2]}], "a b"
    assert digest([row, row]) == digest([row, copy.deepcopy(row)])
    assert digest([text, text]) == digest([text, " ".join(["a", "b"])])
    assert digest([[row], row]) == digest([[copy.deepcopy(row)], row])


def shared(levels: int) -> Any:
    data: Any = [1.0, object]
    for _ in range(levels):
        data = [data, data, None]
    return data


def circle(number: float) -> Any:
    data: list[Any] = [number]
    data += [data, [data, data], {"a": data}]
    return data


def test_data_that_lie_in_themselves_have_a_digest() -> None:
    started = time.process_time()
    assert digest(shared(500)) == digest(shared(500)) != digest(shared(501))
    assert digest(circle(1)) == digest(circle(1)) != digest(circle(2))
    ring, other = circle(1), circle(1)
    ring.append([*shared(100), ring])
    other.append([*shared(100), other[1]])
    assert digest(ring) == digest(other)
    assert time.process_time() - started < 10


def test_deep_data_are_read_to_the_end() -> None:
    def chain(end: float) -> Any:
        data: Any = [end]
        for _ in range(20_000):
            data = [data, [1]]
        return data

    one, other = chain(1), chain(2)
    assert digest(one) != digest(other)
    for data in (one, other):  # taken apart level by level
        while len(data) == 2:
            data[:] = data[0]


def test_whole_numbers_of_any_length_have_a_digest() -> None:
    assert digest({"k": 1 << 20_000}) == digest({"k": 1 << 20_000}) != digest({"k": 1 + (1 << 20_000)})
    assert digest(1 << 20_000) != digest(1 << 20_001)


class Endless:
    def __reduce__(self) -> Any:
        return Endless, (), {"next": Endless()}


class Raises:
    def __reduce__(self) -> Any:
        raise KeyError

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise KeyError


def test_a_digest_is_of_any_object() -> None:
    for data in (Endless(), Raises(), sys, sys.stdin, Exception("a"), (x for x in [1]), {1: Raises()}, np.add, len):
        assert digest(data) == digest(data)


SETS = """
from dpledger.audit.sampling import digest
class Group:
    def __init__(self): self.names = {"ann", "bob", "cyd", "dan", "eve"}; self.pairs = frozenset({("a", 1), ("b", 2)})
print(digest([Group(), {"x": Group()}]).hex())
"""


def test_sets_in_objects_have_one_digest_in_every_process() -> None:
    found = {
        subprocess.run([sys.executable, "-c", SETS], env=os.environ | {"PYTHONHASHSEED": str(seed)}, check=True,
                       capture_output=True).stdout for seed in (1, 2, 3)
    }  # fmt: skip
    assert len(found) == 1


# ---- records --------------------------------------------------------------------------------------------------------

KIND = [("n", float), ("m", float)]


@pytest.mark.parametrize("wrapped", [lambda one: one, lambda one: [one], lambda one: {"a": one}])
def test_a_record_of_a_buffer_is_copied(wrapped: Callable[[Any], Any]) -> None:
    buffer = np.zeros(1, dtype=KIND)
    kept = copied(wrapped(buffer[0]))
    before = digest(kept)
    buffer["n"] = 7
    assert digest(kept) == before == digest(wrapped(np.zeros(1, dtype=KIND)[0]))


def test_a_record_of_objects_is_copied_with_them() -> None:
    buffer = np.array([([1],)], dtype=[("a", "O")])
    kept: Any = copied(buffer[0])
    buffer[0]["a"].append(2)
    assert kept["a"] == [1]


def test_a_mechanism_that_answers_in_one_record_is_audited_as_one_that_answers_in_new_ones() -> None:
    buffer = np.zeros(1, dtype=KIND)

    def again(data: float, rng: np.random.Generator) -> Any:
        buffer["n"], buffer["m"] = data, rng.laplace()
        return buffer[0]

    found = dpl.audit_mechanism(again, 0.0, 1.0, dpl.PureDP(1), trials=2_000, seed=1, progress=False)
    assert (found.verdict, found.blind) == ("violation", None)
