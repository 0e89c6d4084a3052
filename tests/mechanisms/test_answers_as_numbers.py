"""Answers where numbers are asked for: a mean is its number, a histogram its counts, a curve its table."""

import json
import math
import operator

import numpy as np
import pandas as pd
import pytest

import dpledger as dpl
from dpledger.mechanisms.entropy import seeded

MEAN = dpl.ClippedMean(1, 0, 10).release([3, 4, 5] * 100, entropy=seeded(1)).value
COUNTS = dpl.Histogram(1, categories=("a", "b")).release(["a"] * 5 + ["b"], entropy=seeded(1)).value


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "gt", "ge"])
def test_a_mean_computes_and_compares_as_its_number(name: str) -> None:
    operate = getattr(operator, name)
    for other in (2, 2.0, np.float64(2), MEAN):
        number = float(other)
        assert operate(MEAN, other) == operate(MEAN.mean, number)
        assert operate(other, MEAN) == operate(number, MEAN.mean)
    array = np.array([1.0, 2.0])
    assert operate(MEAN, array).tolist() == operate(MEAN.mean, array).tolist()
    assert operate(array, MEAN).tolist() == operate(array, MEAN.mean).tolist()


def test_a_mean_is_written_rounded_and_taken_by_numpy() -> None:
    assert f"{MEAN:.2f}" == f"{MEAN.mean:.2f}"
    assert f"{MEAN}" == str(MEAN)
    assert round(MEAN, 1) == round(MEAN.mean, 1)
    assert [-MEAN, +MEAN, abs(MEAN)] == [-MEAN.mean, MEAN.mean, abs(MEAN.mean)]
    assert math.sqrt(MEAN) == math.sqrt(MEAN.mean)
    assert np.asarray([MEAN, MEAN], dtype=float).tolist() == [MEAN.mean] * 2
    assert json.loads(json.dumps(float(MEAN))) == MEAN.mean
    assert repr(MEAN) == str(MEAN) == f"MeanEstimate(mean={MEAN.mean!r}, count={MEAN.count})"
    assert not isinstance(MEAN, float)  # an estimate is more than its number


def test_counts_are_an_array_a_mapping_and_a_frame() -> None:
    assert np.asarray(COUNTS).tolist() == list(COUNTS.counts)
    assert np.asarray(COUNTS, dtype=float).dtype == np.float64
    assert [COUNTS["a"], COUNTS["b"], len(COUNTS)] == [*COUNTS.counts, 2]
    with pytest.raises(KeyError):
        COUNTS["c"]
    assert [list(COUNTS), list(COUNTS.items())] == [["a", "b"], list(zip("ab", COUNTS.counts, strict=True))]
    assert json.loads(json.dumps(dict(COUNTS))) == dict(COUNTS)
    for series in (pd.Series(COUNTS), COUNTS.to_series()):
        assert series.to_dict() == dict(COUNTS)
        assert series.dtype == np.int64
    assert [COUNTS.to_series().name, COUNTS.to_series().index.name] == ["count", "label"]
    frame = COUNTS.to_frame()
    assert frame["count"].dtype == np.float64
    assert frame["count"].to_dict() == dict(COUNTS)
    assert frame.index.name == "label"


def test_a_curve_is_a_frame_of_floats() -> None:
    curve = dpl.compose(dpl.Laplace(sensitivity=1, epsilon=1)).curve(5)
    frame = curve.to_frame()
    assert set(frame.dtypes) == {np.dtype("float64")}
    rows = [(at, bounds.lower, bounds.upper) for at, bounds in curve]
    assert list(frame.itertuples(index=False, name=None)) == rows
