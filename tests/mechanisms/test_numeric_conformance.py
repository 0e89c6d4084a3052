"""Each numeric mechanism behaves as every mechanism must."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from dpledger.mechanisms.numeric import ClippedMean, Count, Gaussian, Geometric, Histogram, IntegerGaussian, Laplace
from dpledger.relations import Relation, Unit
from mechanism_conformance import MechanismConformance
from odd_rows import (
    COLUMNS_OF_NUMBERS,
    INF,
    NAN,
    NO_COLUMNS,
    NO_NUMBERS,
    NO_POSITIVES,
    NO_ROWS,
    ODD_VALUES,
    ROWS,
    refused,
)

ODD_VECTORS: tuple[object, ...] = (
    np.full(3, np.nan),
    [NAN, "x", 10**400],
    (None, [1], np.timedelta64(1, "s")),
    np.array([NAN, "x", 10**400], dtype=object),
    np.array([1e308, -1e308, INF]),
    np.full(3, np.longdouble("1e4000")),
    np.array(["a", "b", "c"]),
    pd.Series([1, None, 3], dtype="Int64"),
    np.ma.masked_array([1.0, 2.0, 3.0], mask=[True, False, False]),
)
NO_VECTORS: tuple[object, ...] = (
    *NO_NUMBERS,
    1.0,
    [1.0, 2.0],
    np.zeros(4),
    np.zeros((3, 3)),
    np.zeros((3, 1)),
    "abc",
    {1, 2, 3},
)


class TestLaplace(MechanismConformance):
    relations = tuple(Relation)
    good_data = 1234
    bad_data = ODD_VALUES
    bad_containers = NO_NUMBERS
    bad_parameters = (
        *refused("epsilon", *NO_POSITIVES),
        *refused("sensitivity", *NO_POSITIVES),
        *refused("scale", 1),
        *refused("dimension", 0, -1, 1.5, "2", NAN, 2**31),
        *refused("grid", *NO_POSITIVES[:-5], 3, "0.3"),
        *refused("bound", 0, NAN, INF),
        {"missing": 5, "bound": 4},
        *refused("justification", "", "x" * 501, 3),
        *refused("relation", "neighbours", 3),
        *refused("unit", 3),
    )

    def make(self, **changes: Any) -> Laplace:
        return Laplace(**{"sensitivity": 1, "epsilon": "0.1", **changes})


class TestLaplaceOfScale(MechanismConformance):
    relations = tuple(Relation)
    good_data = 3.7

    def make(self, **changes: Any) -> Laplace:
        return Laplace(**{"scale": "0.7", "sensitivity": "0.3", **changes})

    bad_parameters = (*refused("scale", 0, -1, NAN, INF, "1e-30"), {"sensitivity": 9 * 10**17, "grid": 2**59})


class TestGaussian(MechanismConformance):
    relations = tuple(Relation)
    good_data = -3.25
    bad_data = ODD_VALUES
    bad_containers = NO_NUMBERS
    bad_parameters = (
        *refused("noise_multiplier", *NO_POSITIVES, "1e-30"),
        *refused("sensitivity", *NO_POSITIVES),
        *refused("dimension", 0, -1, 1.5, "2", NAN, 2**31),
        *refused("grid", 0, 3, NAN),
        {"missing": 5, "bound": 4},
    )

    def make(self, **changes: Any) -> Gaussian:
        return Gaussian(**{"sensitivity": 1, "noise_multiplier": "0.7", **changes})


class TestGaussianVector(MechanismConformance):
    relations = tuple(Relation)
    good_data = np.array([1.0, 2.0, 3.0])
    bad_data = ODD_VECTORS
    bad_containers = NO_VECTORS
    bad_parameters = refused("sigma", 0, -2, NAN, INF)

    def make(self, **changes: Any) -> Gaussian:
        return Gaussian(**{"sigma": 3, "sensitivity": "1.7", "dimension": 3, **changes})


class TestLaplaceVector(MechanismConformance):
    relations = tuple(Relation)
    good_data = np.array([1.0, 2.0, 3.0])
    bad_data = ODD_VECTORS
    bad_containers = NO_VECTORS
    bad_parameters = refused("scale", 0, -2, NAN, INF)

    def make(self, **changes: Any) -> Laplace:
        return Laplace(**{"scale": 3, "sensitivity": "1.7", "dimension": 3, **changes})


class TestGeometric(MechanismConformance):
    relations = tuple(Relation)
    good_data = 12
    bad_data = ODD_VALUES
    bad_containers = NO_NUMBERS
    bad_parameters = (
        *refused("epsilon", *NO_POSITIVES, "1e-20"),
        *refused("sensitivity", 0, -1, 1.5, NAN, "2", 2**53),
        *refused("bound", 0, NAN, INF),
        {"missing": 5, "bound": 4},
    )

    def make(self, **changes: Any) -> Geometric:
        return Geometric(**{"epsilon": "0.3000000000000001", "sensitivity": 3, **changes})


class TestIntegerGaussian(MechanismConformance):
    relations = tuple(Relation)
    good_data = 12
    bad_data = ODD_VALUES
    bad_containers = NO_NUMBERS
    bad_parameters = (
        *refused("sigma", *NO_POSITIVES, "1e-20"),
        *refused("sensitivity", 0, -1, 1.5, NAN, "2", 2**53),
        *refused("bound", 0, NAN, INF),
    )

    def make(self, **changes: Any) -> IntegerGaussian:
        return IntegerGaussian(**{"sigma": "3.7", "sensitivity": 3, **changes})


class TestCount(MechanismConformance):
    relations = tuple(Relation)
    good_data = np.array([True, False, True])
    bad_data = (
        *ROWS,
        *COLUMNS_OF_NUMBERS,
        np.zeros((3, 2)),
        pd.DataFrame({"a": [1.0, NAN]}),
    )
    bad_containers = NO_ROWS
    bad_parameters = (*refused("epsilon", *NO_POSITIVES, "1e-20"), *refused("counted", "", 3))

    def make(self, **changes: Any) -> Count:
        return Count(**{"epsilon": "0.5", "of": "rows", **changes})


class TestCountOfTrueRows(MechanismConformance):
    relations = tuple(Relation)
    good_data = np.array([True, False, True])
    bad_data = (*ROWS, *COLUMNS_OF_NUMBERS)
    bad_containers = NO_COLUMNS
    bad_parameters = refused("of", "some", None, 3)

    def make(self, **changes: Any) -> Count:
        return Count(**{"epsilon": "0.5", "of": "true", **changes})


class TestCountOfUsers(TestCount):
    unit = Unit("user", max_contributions=7)


class TestClippedMean(MechanismConformance):
    relations = tuple(Relation)
    good_data = np.linspace(0, 100, 50)
    bad_data = (*ROWS, *COLUMNS_OF_NUMBERS)
    bad_containers = NO_COLUMNS
    bad_parameters = (
        *refused("epsilon", *NO_POSITIVES, "1e-20"),
        *refused("upper", 0, -1, NAN, INF, "-inf", None),
        *refused("lower", 100, 101, NAN, INF),
        *refused("missing", -1, 101, NAN, INF),
        *refused("grid", 0, 3, NAN, "0.000000000000000000867361737988403547205962240695953369140625"),
    )

    def make(self, **changes: Any) -> ClippedMean:
        return ClippedMean(**{"epsilon": "0.5", "lower": 0, "upper": 100, **changes})


class TestClippedMeanOfUsers(TestClippedMean):
    unit = Unit("user", max_contributions=7)


class TestHistogram(MechanismConformance):
    relations = tuple(Relation)
    good_data = np.linspace(0, 30, 50)
    bad_data = (*ROWS, *COLUMNS_OF_NUMBERS)
    bad_containers = NO_COLUMNS
    bad_parameters = (
        *refused("epsilon", *NO_POSITIVES, "1e-20"),
        *refused("edges", (), (1,), (1, 1), (2, 1), (1, NAN), (1, INF), ("a", "b"), 3, None),
        *refused("categories", ("a",)),
        *refused("others", "dropped", 3),
    )

    def make(self, **changes: Any) -> Histogram:
        return Histogram(**{"epsilon": "0.5", "edges": (0, 10, 20), **changes})


class TestHistogramOfCategories(MechanismConformance):
    relations = tuple(Relation)
    unit = Unit("user", max_contributions=3)
    good_data = ("a", "b", "b", "c")
    bad_data = (*ROWS, *COLUMNS_OF_NUMBERS, pd.Series(["a", None], dtype="string"))
    bad_containers = NO_COLUMNS
    bad_parameters = refused("categories", (), ("a", "a"), ("",), (3,), ("a", "other"), ("1", "1.0"), ("1", "True"))

    def make(self, **changes: Any) -> Histogram:
        return Histogram(**{"epsilon": "0.123456789012345", "categories": ("a", "b"), "others": "counted", **changes})
