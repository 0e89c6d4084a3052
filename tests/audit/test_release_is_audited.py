"""`release` is what is audited: a right `sample` beside a raw `release` is no stand-in for it; copies and digests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpledger as dpl
from dpledger.audit.sampling.copies import copied, shares_memory
from dpledger.audit.sampling.digests import digest
from dpledger.audit.sampling.released import agrees
from dpledger.mechanisms.protocol import Release


@dataclass(frozen=True)
class Twin:
    """A mechanism whose `release` is another one's."""

    sampled: Any
    released: Any

    def release(self, data: object, *, entropy: Any) -> Release[Any]:
        if self.released is None:
            return Release(value=float(data), parts=self.sampled.parts())  # type: ignore[arg-type]
        found: Release[Any] = self.released.release(data, entropy=entropy)
        return found

    def sample(self, data: object, size: int, entropy: Any) -> Any:
        return self.sampled.sample(data, size, entropy)


RIGHT = dpl.Laplace(sensitivity=1, epsilon=1)


@pytest.mark.parametrize(
    "released", [None, dpl.Laplace(sensitivity=1, epsilon=2), dpl.Geometric(sensitivity=1, epsilon=1)]
)
def test_a_right_sample_beside_another_release_is_told_without_an_output(released: Any) -> None:
    told = agrees(Twin(RIGHT, released), 4711, seed=1)
    assert told is not None
    assert told.startswith("Twin.release and Twin.sample differ in ")
    assert "4711" not in told


def test_a_release_that_raises_where_sample_does_not_is_told() -> None:
    assert agrees(Twin(RIGHT, None), "x", seed=1) is not None


@pytest.mark.parametrize("mechanism", [RIGHT, dpl.IntegerGaussian(sensitivity=1, sigma=3), Twin(RIGHT, RIGHT)])
def test_what_is_sampled_as_it_is_released_is_not(mechanism: Any) -> None:
    """Also where one draws its trials one by one and the other many at once: then from the same noise."""
    assert agrees(mechanism, 10, seed=1) is None


# ---- memory ---------------------------------------------------------------------------------------------------------

ARRAY = np.arange(10.0)
ROWS = [np.zeros(2) for _ in range(3)]
BESIDE = np.zeros((6, 3))
RECORDS = np.zeros(3, dtype=[("a", float)])


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (ARRAY, ARRAY),
        (ARRAY, ARRAY[::-1]),
        (ARRAY[:6], ARRAY[5:]),
        (ROWS, list(ROWS)),
        (ROWS, [ROWS[0][:1], 5.0]),
        ([ARRAY[:5]], [ARRAY[4:]]),
        ([BESIDE[:, 0], BESIDE[:, 1]], [BESIDE[:, 2], BESIDE[::2, 1]]),
        (list(RECORDS), list(RECORDS)),
        ([{"a": 1}] * 2, [{"a": 1}]),
    ],
)
def test_sides_that_share_memory_are_found(left: Any, right: Any) -> None:
    is_one = isinstance(left[0], dict)
    if is_one:
        right = [left[0]]
    assert shares_memory(left, right)
    assert shares_memory(right, left)


def test_sides_apart_share_nothing() -> None:
    assert not shares_memory(ARRAY, ARRAY.copy())
    assert not shares_memory(ARRAY[:5], ARRAY[5:])
    assert not shares_memory(ARRAY[::2], ARRAY[1::2])
    assert not shares_memory([1.0, "a", None], [1.0, "a", None])
    assert not shares_memory([np.zeros(2)], [np.zeros(2)])
    assert not shares_memory([[1, 2], {"a": 1}], [[1, 2], {"a": 1}])
    beside = np.zeros((500, 5, 2))
    assert not shares_memory([run[:, 0] for run in beside], [run[:, 1] for run in beside])
    assert not shares_memory(list(beside[:, :, 0].T), list(beside[:, :, 1].T))
    records = np.zeros(4, dtype=[("a", float)])
    assert not shares_memory([records[0], records[1]], [records[2], records[3]])


def test_what_lies_among_each_other_too_often_passes_for_shared() -> None:
    beside = np.zeros((3, 2_200))
    assert shares_memory(list(beside[:, ::2].T), list(beside[:, 1::2].T))


# ---- copies and digests ---------------------------------------------------------------------------------------------


class Held:
    def __init__(self) -> None:
        self.rows = [1.0, 2.0]


def altered(data: Any) -> None:
    match data:
        case pd.DataFrame():
            data.iloc[0, 0] = 9.0
        case np.ndarray():
            data.ravel()[0] = 9.0
        case set():
            data.add(9)
        case dict():
            data["b"] = 9
        case Held():
            data.rows[0] = 9.0
        case [[*_], *_]:
            data[0][0] = 9
        case _:
            data[0] = 9


@pytest.mark.parametrize(
    "make",
    [
        lambda: [1, 2.0, "a"],
        lambda: [[1, 2], [3, 4]],
        lambda: [[np.zeros(2)], None],
        lambda: np.zeros((2, 2)),
        lambda: np.array([[1], None], dtype=object),
        lambda: {"a": [1]},
        lambda: {1, 2},
        lambda: pd.DataFrame({"a": [1.0, 2.0], "b": ["x", None]}),
        Held,
    ],
)
def test_whatever_is_altered_is_seen(make: Any) -> None:
    data = make()
    before, kept = digest(data), copied(data)
    assert digest(make()) == digest(data) == before == digest(kept)
    altered(data)
    assert digest(data) != before
    assert digest(kept) == before


def test_a_digest_is_total() -> None:
    circle: list[Any] = [object(), lambda: 0, 2**70, float("nan")]
    circle.append(circle)
    assert digest(circle) == digest(circle)
    assert digest(1) != digest(1.0) != digest(True)
