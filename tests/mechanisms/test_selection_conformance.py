"""Each mechanism that chooses behaves as every mechanism must."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pandas as pd

from dpledger.mechanisms.selection import ExponentialMechanism, PermuteAndFlip, RandomizedResponse, Segments
from dpledger.relations import Relation, Unit
from mechanism_conformance import MechanismConformance

NAN, INF = float("nan"), float("inf")
NO_POSITIVES: tuple[object, ...] = (0, -1, NAN, INF, "one", None, "1e-61", [], True)


def refused(field: str, *values: object) -> tuple[dict[str, object], ...]:
    return tuple({field: value} for value in values)


class OfScores(MechanismConformance):
    good_data: ClassVar[object] = (1, 2.5, 0)
    bad_data: ClassVar[tuple[object, ...]] = (
        [NAN, INF, -INF],
        ["x", None, object()],
        [10**400, -(10**400), True],
        np.array([1, 10**400, None], dtype=object),
        np.array([1e308, -1e308, NAN]),
        np.array(["a", "b", "c"]),
        pd.Series([1, None, 3], dtype="Int64"),
        np.ma.masked_array([1.0, 2.0, 3.0], mask=[True, False, True]),
    )
    bad_containers: ClassVar[tuple[object, ...]] = (
        None,
        3,
        "abc",
        {1, 2, 3},
        [1, 2],
        np.zeros((3, 1)),
        np.array(1),
        iter([1, 2, 3]),
        [],
    )
    bad_parameters = (
        *refused("epsilon", *NO_POSITIVES),
        *refused("sensitivity", *NO_POSITIVES),
        *refused("candidates", (), 0, -1, ("a", "a"), ("",), (1, 2), None, 2**53, True, 1.5),
        *refused("monotone", 1, "yes", None),
        *refused("grid", 0, 3, "0.3", NAN),
        *refused("bound", 0, NAN, INF),
        {"missing": 5, "bound": 4},
        *refused("justification", "", "x" * 501, 3),
        *refused("relation", "neighbours", 3),
        *refused("unit", 3),
    )


class TestExponentialMechanism(OfScores):
    relations = tuple(Relation)

    def make(self, **changes: Any) -> ExponentialMechanism:
        return ExponentialMechanism(**{"candidates": ("a", "b", "c"), "epsilon": "0.5", "sensitivity": 1, **changes})


class TestMonotoneExponentialMechanism(OfScores):
    relations = (Relation.ADD_REMOVE, Relation.ZERO_OUT)

    def make(self, **changes: Any) -> ExponentialMechanism:
        return ExponentialMechanism(
            **{"candidates": ("a", "b", "c"), "epsilon": "0.5", "monotone": True, "sensitivity": "0.3", **changes}
        )


class TestExponentialMechanismOnSegments(OfScores):
    relations = tuple(Relation)
    good_data: ClassVar[object] = Segments([5, 7, 5], [10, 2**40, 2**39])
    bad_data: ClassVar[tuple[object, ...]] = (
        Segments([], []),
        Segments([NAN, "x"], [None, NAN]),
        Segments([10**400, -(10**400), 1e308], [10**400, -5, 2]),
        Segments(np.array([1.5, 2.5]), np.array([2**60, 2**60])),
        Segments((0,), (0,)),
    )
    bad_containers: ClassVar[tuple[object, ...]] = (None, 3, "abc", [1, 2], [])

    def make(self, **changes: Any) -> ExponentialMechanism:
        return ExponentialMechanism(**{"candidates": 2**50, "epsilon": "0.5", "sensitivity": 1, **changes})


class TestPermuteAndFlip(OfScores):
    relations = tuple(Relation)

    def make(self, **changes: Any) -> PermuteAndFlip:
        return PermuteAndFlip(**{"candidates": 3, "epsilon": "0.5", "sensitivity": 1, **changes})


class TestMonotonePermuteAndFlip(OfScores):
    relations = (Relation.ADD_REMOVE, Relation.ZERO_OUT)

    def make(self, **changes: Any) -> PermuteAndFlip:
        return PermuteAndFlip(
            **{"candidates": ("a", "b", "c"), "epsilon": "0.5", "sensitivity": 1, "monotone": True, **changes}
        )


class TestRandomizedResponse(MechanismConformance):
    relations: ClassVar[tuple[Relation, ...]] = (Relation.REPLACE_ONE, Relation.ZERO_OUT, Relation.LABEL_FLIP)
    good_data = ("a", "b", "c", "a", "b")
    bad_data: ClassVar[tuple[object, ...]] = (
        [None, NAN, object(), 10**400],
        np.array([1.0, 2.0]),
        [[1], {}],
        [],
        pd.Series(["a", None]),
    )
    bad_containers: ClassVar[tuple[object, ...]] = (None, 3, "abc", np.zeros((3, 2)), iter("abc"), {"a": 1})
    bad_parameters = (
        *refused("epsilon", *NO_POSITIVES),
        *refused("answers", (), ("a",), ("a", "a"), ("1", "1.0"), None, 3, "ab"),
        *refused("missing", "d", "", 3),
        *refused("relation", "neighbours", 3),
        *refused("unit", 3),
    )

    def make(self, **changes: Any) -> RandomizedResponse:
        return RandomizedResponse(**{"answers": ("a", "b", "c"), "epsilon": "0.5", **changes})


class TestRandomizedResponseOfManyRows(TestRandomizedResponse):
    unit = Unit("user", max_contributions=7)
    relations = (Relation.LABEL_FLIP,)
