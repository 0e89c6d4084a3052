"""Labels and points of another type than was meant: what each counts as is public, and no refusal tells of a record."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.learning.domains import rows_read_as
from dpledger.mechanisms.learning.finite_class import ExponentialPPACLearner
from dpledger.mechanisms.learning.row_learner import STRICT
from dpledger.mechanisms.learning.samples import LABELS_READ_AS, LabeledSample, labels_of, points_of
from dpledger.mechanisms.learning.tables.binning import Binning
from dpledger.mechanisms.learning.tables.stumps import StumpClass
from dpledger.mechanisms.learning.theory.concepts import ParityClass, ThresholdClass
from dpledger.mechanisms.numeric import ClippedMean

NAN = float("nan")
ONES: list[Any] = [
    1,
    1.0,
    True,
    np.True_,
    np.int8(1),
    np.uint64(1),
    np.float32(1),
    Decimal(1),
    "1",
    "1.0",
    "True",
    b"1",
]
ZEROS: list[Any] = [0, False, "0", 2, -1, 0.999, "yes", "one", "", "true", None, NAN, float("inf"), [], {}, 10**400]
CONTAINERS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "objects": lambda rows: np.array([*rows, None], dtype=object)[:-1],
    "column": lambda rows: pd.Series(rows, dtype=object),
}


@pytest.mark.parametrize("build", CONTAINERS.values(), ids=CONTAINERS)
def test_a_label_is_one_where_it_says_one_and_zero_else(build: Callable[[list[Any]], Any]) -> None:
    assert labels_of(build(ONES)).tolist() == [1] * len(ONES)
    assert labels_of(build(ZEROS)).tolist() == [0] * len(ZEROS)


@pytest.mark.parametrize("other", [2, 2.5, "x", None, True, 1j, b"x"], ids=repr)
def test_whatever_numpy_makes_of_all_labels_each_counts_as_before(other: Any) -> None:
    for labels in ([1, 0, 1], [1.0, 0.0, 1.0], ["1", "0", "1"], [True, False, True]):
        assert labels_of(np.array([*labels, other]))[:3].tolist() == [1, 0, 1]
        assert labels_of(pd.Series([*labels, other]))[:3].tolist() == [1, 0, 1]


@pytest.mark.parametrize("build", CONTAINERS.values(), ids=CONTAINERS)
def test_a_point_is_the_nearest_and_text_is_the_number_that_it_says(build: Callable[[list[Any]], Any]) -> None:
    found = points_of(build([3, "3", 2.6, True, -1, 99, float("inf"), NAN, None, "x", "nan"]), 8)
    assert found.points[found.known].tolist() == [3, 3, 3, 1, 0, 7, 7]
    assert found.known.tolist() == [True] * 7 + [False] * 4


@pytest.mark.parametrize("rows", [["a"] * 4, [None] * 4, ["1", 2, NAN, 1j], [b"x"] * 4], ids=repr)
def test_no_kind_of_entry_is_refused(rows: list[Any]) -> None:
    """One record may have made an array what it is: to refuse text would tell that somebody wrote some."""
    learner = ExponentialPPACLearner(ThresholdClass(8), epsilon=1)
    for data in (rows, np.array(rows), np.array(rows, dtype=object), pd.Series(rows)):
        sample, mean = LabeledSample(data, data), ClippedMean(epsilon=1, lower=0, upper=1)
        learner.inspect(sample)
        mean.inspect(data)
        assert 0 <= learner.release(sample, entropy=seeded(1)).value.place <= 8
        assert np.isfinite(float(mean.release(data, entropy=seeded(1)).value))


def test_what_no_record_decides_is_refused_before_anything_is_spent() -> None:
    learner = ExponentialPPACLearner(ThresholdClass(8), epsilon=1)
    wrong: list[Any] = ["1010", {1: 0}, iter([1, 0]), 1, np.zeros((2, 2))]
    for labels in wrong:
        with pytest.raises(ParameterError, match="data"):
            learner.inspect(LabeledSample([1, 2], labels))


def test_a_learner_says_it_all() -> None:
    bins = Binning({"age": [18, 65]}, {"colour": ["red"]}, source="a form")
    for concepts, words in ((ThresholdClass(8), "points 0 to 7"), (ParityClass(3), "bit"), (StumpClass(bins), "bin")):
        learner = ExponentialPPACLearner(concepts, epsilon=1)
        assert learner.values_read_as() == (*rows_read_as(learner.domain), LABELS_READ_AS)
        assert words in " ".join(learner.values_read_as())
        strict = ExponentialPPACLearner(concepts, epsilon=1, strict=True)
        assert strict.values_read_as() == (*learner.values_read_as(), STRICT)


def test_of_a_table_only_the_kinds_of_columns_that_are_read_are_told() -> None:
    numbers, words = Binning({0: [1]}, source="a form"), Binning({}, {0: ["a"]}, source="a form")
    assert ["words" in " ".join(bins.read_as()) for bins in (numbers, words)] == [False, True]
    assert ["text" in " ".join(bins.read_as()) for bins in (numbers, words)] == [True, False]
