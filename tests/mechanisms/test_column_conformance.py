"""Each statistic of a column behaves as every mechanism must."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from dpledger.mechanisms.statistics import ClippedSum, ColumnBounds, Quantile, Quantiles, TopK, Variance
from dpledger.relations import Relation, Unit
from mechanism_conformance import MechanismConformance
from odd_rows import COLUMNS_OF_NUMBERS, INF, NAN, NO_COLUMNS, NO_POSITIVES, ROWS, refused

RANGES: tuple[dict[str, object], ...] = (
    *refused("epsilon", *NO_POSITIVES, "1e-59"),
    *refused("upper", 0, -1, NAN, INF, "-inf", None),
    *refused("lower", 100, 101, NAN, INF),
    *refused("missing", -1, 101, NAN, INF),
)


class OfAColumn(MechanismConformance):
    relations = tuple(Relation)
    good_data: ClassVar[object] = np.linspace(0, 100, 50)
    bad_data = (*ROWS, *COLUMNS_OF_NUMBERS)
    bad_containers = NO_COLUMNS


class TestClippedSum(OfAColumn):
    bad_parameters = (*RANGES, *refused("grid", 0, 3, NAN, 256, 2**-50))

    def make(self, **changes: Any) -> ClippedSum:
        return ClippedSum(**{"epsilon": "0.5", "lower": 0, "upper": 100, **changes})


class TestClippedSumOfUsers(TestClippedSum):
    unit = Unit("user", max_contributions=7)


class TestVariance(OfAColumn):
    bad_parameters = (*RANGES, *refused("grid", 0, 3, NAN, 2**-24))

    def make(self, **changes: Any) -> Variance:
        return Variance(**{"epsilon": "0.5", "lower": 0, "upper": 100, **changes})


class TestVarianceOfUsers(TestVariance):
    unit = Unit("user", max_contributions=7)


class TestQuantile(OfAColumn):
    bad_parameters = (
        *RANGES,
        *refused("q", 0, 1, -1, NAN, "0.1234567", "half"),
        *refused("grid", 0, -1, NAN, 2**-50),
        {"lower": "0.2", "upper": "0.7", "missing": "0.5", "grid": 1},
    )

    def make(self, **changes: Any) -> Quantile:
        return Quantile(**{"epsilon": "0.5", "q": "0.3", "lower": 0, "upper": 100, **changes})


class TestQuantileOfUsers(TestQuantile):
    unit = Unit("user", max_contributions=7)


class TestQuantiles(OfAColumn):
    bad_parameters = (
        *RANGES,
        *refused("qs", (), ("0.5", "0.5"), ("0.6", "0.5"), (0, "0.5"), ("0.5", 1), ("0.1234567",), 3, None, (NAN,)),
        *refused("grid", 0, -1, NAN, 2**-50),
    )

    def make(self, **changes: Any) -> Quantiles:
        return Quantiles(**{"epsilon": "0.5", "qs": ("0.25", "0.5", "0.9"), "lower": 0, "upper": 100, **changes})


class TestQuantilesOfUsers(TestQuantiles):
    unit = Unit("user", max_contributions=7)


class TestColumnBounds(OfAColumn):
    bad_parameters = (
        *refused("epsilon", *NO_POSITIVES, "1e-59"),
        *refused("tail", 0, "0.5", 1, -1, NAN, "0.1234567"),
        *refused("missing", NAN, INF, "x"),
    )

    def make(self, **changes: Any) -> ColumnBounds:
        return ColumnBounds(**{"epsilon": "0.5", "tail": "0.05", **changes})


class TestColumnBoundsOfUsers(TestColumnBounds):
    unit = Unit("user", max_contributions=7)


class TestTopK(OfAColumn):
    good_data = ("a", "b", "b", "c")
    bad_parameters = (
        *refused("epsilon", *NO_POSITIVES, "1e-60"),
        *refused("k", 0, 4, -1, "2", NAN, 1.5),
        *refused("categories", (), ("a", "a"), ("",), (3,), ("1", "1.0"), ("1", "True")),
    )

    def make(self, **changes: Any) -> TopK:
        return TopK(**{"epsilon": "0.5", "k": 2, "categories": ("a", "b", "c"), **changes})


class TestTopKOfUsers(TestTopK):
    unit = Unit("user", max_contributions=7)
