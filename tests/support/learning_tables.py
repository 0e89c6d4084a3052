"""A small table, its entries, and what stumps say of a row by their definition. Shares no code with them."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from dpledger.mechanisms.learning.samples import LabeledSample
from dpledger.mechanisms.learning.tables.binning import Binning
from dpledger.relations import Relation
from mechanism_conformance import MechanismConformance

__all__ = ["ENTRIES", "SMALL", "OfTables", "cancer_bins", "entries_of", "stump_labels", "wide_bins"]

NAN = float("nan")
SMALL = Binning({0: [18, 65], 1: [1, 2, 3]}, {2: ["red", 7]}, source="a form")

ENTRIES: tuple[list[Any], ...] = (
    [None, 3, 18, 64.5, 65, "70", "old", float("nan")],
    [None, -1, 1, 2.5, 3, 10**400, True],
    [None, "red", "blue", 7, "7.0", float("nan")],
)
"""Entries of each column, the kinds of all of them."""


def entries_of(row: Sequence[object]) -> tuple[object, object, object]:
    """What an entry is read as: a number, a word, or None."""
    return (_number(row[0]), _number(row[1]), _word(row[2]))


def stump_labels(row: Sequence[object]) -> list[int]:
    """The labels of all stumps of `SMALL`, in the order of the class."""
    age, size, colour = entries_of(row)
    tests = [_above(age, edge) for edge in (18, 65)]
    tests += [_above(size, edge) for edge in (1, 2, 3)]
    tests += [colour == value for value in ("red", "7")]
    return [0, 1, *(int(said) for test in tests for said in (test, not test))]


def wide_bins(columns: int) -> Binning:
    """Many columns with few bins: more combinations than a word holds."""
    return Binning({at: [1, 2] for at in range(columns)}, source="a form")


def cancer_bins(x: Any) -> Binning:
    """16 bins from 0 to the next 1 or 5 times a power of ten. (The data are public; of private ones the ranges would
    have to be known beforehand.)"""
    steps = [Decimal(part).scaleb(power) for power in range(-4, 5) for part in (1, 5)]
    ranges = {at: (0, next(step for step in steps if step >= float(most))) for at, most in enumerate(x.max(axis=0))}
    return Binning.equal(ranges, bins=16, source="a number above all that was ever measured")


def _above(entry: object, edge: int) -> bool:
    return isinstance(entry, (int, float)) and entry >= edge


def _number(entry: object) -> object:
    if isinstance(entry, str):
        return float(entry) if entry.replace(".", "").isdigit() else None
    return None if entry is None or entry != entry else entry


def _word(entry: object) -> object:
    if entry in (7, "7.0"):
        return "7"
    return entry if isinstance(entry, str) else None


class OfTables(MechanismConformance):
    """Conformance of learners of the rows of `SMALL`: what they run on, and what they refuse."""

    relations = tuple(Relation)
    good_data = LabeledSample([[20, 1, "red"], [70, 0, "blue"]], [1, 0])
    bad_data = (
        LabeledSample([], []),
        LabeledSample([[NAN, 10**400, object()], [], "x", None, {0: 3}, [1j, [], {}]], [0, 1, NAN, "1", None, 3]),
        LabeledSample(pd.DataFrame({0: ["?", None], 1: [pd.NaT, 3], 2: [None, 7]}), pd.Series(["a", 1])),
    )
    bad_containers = (
        None,
        [[1, 2, 3]],
        LabeledSample([[1, 2, 3]], [1, 0]),
        LabeledSample(np.zeros((4, 2)), np.zeros(4)),
    )
