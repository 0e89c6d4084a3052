"""What was learned is asked of rows: nothing that a row is raises, and what holds no rows is told so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpledger.errors import ParameterError
from dpledger.mechanisms.learning.booster import BoostedStumps
from dpledger.mechanisms.learning.hypotheses import Concept, ConstantLabel, Hypothesis
from dpledger.mechanisms.learning.queries.conjunctions import Conjunction
from dpledger.mechanisms.learning.representations.boosted import BoostedRepresentation, Majority
from dpledger.mechanisms.learning.representations.representations import HashedPoint, HashedPointRepresentation
from dpledger.mechanisms.learning.tables.binning import Binning
from dpledger.mechanisms.learning.tables.stumps import StumpClass
from dpledger.mechanisms.learning.theory.concepts import FiniteClass, ParityClass, PointClass, ThresholdClass

BINS = Binning({0: [20, 40]}, source="made up")
HASHED = HashedPointRepresentation(dimension=6, bits=3, a="0.3", seed=7)
BOOSTED = BoostedRepresentation(dimension=6, a="0.3", b="0.3", seed=7)
RULES: Mapping[str, Hypothesis] = {
    "stump": Concept(StumpClass(BINS), 2),
    "stumps that vote": BoostedStumps(StumpClass(BINS), (2, 4, 2)),
    "row of a matrix": Concept(FiniteClass(np.eye(4, dtype=int)), 1),
    "point": Concept(PointClass(8), 3),
    "threshold": Concept(ThresholdClass(8), 3),
    "parity": Concept(ParityClass(2), 3),
    "conjunction": Conjunction(2, (0,), (1,)),
    "cell": HashedPoint(HASHED, 3),
    "union of cells": Majority(BOOSTED, 5),
    "constant": ConstantLabel(1),
}
NO_ROWS: Mapping[str, Callable[[], Any]] = {
    "bins that were read": lambda: BINS.read([[30]]),
    "a number": lambda: 3,
    "a text": lambda: "ab",
    "a mapping": lambda: {0: 2},
    "an iterator": lambda: iter([[1]]),
    "nothing": lambda: None,
    "a type": lambda: list,
    "an array without axes": lambda: np.array(3),
}


@pytest.mark.parametrize("container", NO_ROWS)
@pytest.mark.parametrize("rule", RULES)
def test_what_holds_no_rows_is_no_empty_answer(rule: str, container: str) -> None:
    with pytest.raises(ParameterError, match="data"):
        RULES[rule].predict(NO_ROWS[container]())


@pytest.mark.parametrize("rule", RULES)
def test_rows_are_answered_whatever_they_are(rule: str) -> None:
    odd: list[object] = [[30, 1], None, "x", {}, [], float("nan")]
    assert set(RULES[rule].predict(odd).tolist()) <= {0, 1}
    assert len(RULES[rule].predict(odd)) == len(odd)
    assert RULES[rule].predict([]).tolist() == []


def test_a_table_without_the_column_is_told_so() -> None:
    stump = RULES["stump"]
    for table in (pd.DataFrame({"a": [1]}), np.zeros(3), np.zeros((3, 0))):
        with pytest.raises(ParameterError, match="data"):
            stump.predict(table)
    assert stump.predict(pd.DataFrame({0: [10, 30]})).tolist() == [0, 1]
