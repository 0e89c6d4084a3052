"""What NaN and missing values count as is public, and stands in the receipt: whether there were any does not."""

from __future__ import annotations

import math
from typing import Any

import pytest

import dpledger as dpl
from dpledger.mechanisms.protocol import Reads

NAN = math.nan
HELD: list[tuple[Any, Any, Any, str]] = [
    (dpl.Laplace(sensitivity=1, epsilon=1), 3.0, NAN, "NaN, and what is no number, counts as 0"),
    (dpl.Laplace(sensitivity=1, epsilon=1, missing=4, bound=9), 3.0, NAN, "NaN, and what is no number, counts as 4"),
    (dpl.Gaussian(sensitivity=1, sigma=4), 3.0, math.inf, "infinity too, counts as 9007199254740992 with its sign"),
    (dpl.Geometric(sensitivity=1, epsilon=1), 3, NAN, "NaN, and what is no number, counts as 0"),
    (dpl.ClippedMean(1, 0, 10), [1, 2], [1, NAN], "counts as 5"),
    (dpl.Count(1), [1, 2], [1, None], "every row counts"),
    (dpl.Count(1, of="true"), [True, 2], [True, None], "is not counted"),
    (dpl.Histogram(1, edges=(0, 1)), [0.5], [NAN], "is ignored"),
    (dpl.Histogram(1, categories=("a",), others="counted"), ["a"], [None], 'counts as "other"'),
    (dpl.RandomizedResponse(("a", "b"), 1), ["a"], [None], "counts as a"),
    (dpl.ExponentialMechanism(("a", "b"), sensitivity=1, epsilon=1), [1, 2], [1, NAN], "counts as 0"),
]


@pytest.mark.parametrize(("mechanism", "whole", "broken", "said"), HELD, ids=[f"{i}" for i in range(len(HELD))])
def test_the_receipt_says_the_map_and_nothing_of_the_data(mechanism: Any, whole: Any, broken: Any, said: str) -> None:
    book = dpl.Ledger.in_memory()
    relation = "label_flip" if mechanism.kind == "randomized_response" else "add_remove"
    scope = book.scope("patients", unit="patient", relation=relation, budget=dpl.ApproxDP(9, "1e-6"))
    first, second = scope.release(mechanism, whole), scope.release(mechanism, broken)
    assert first.reads == second.reads == mechanism.values_read_as()
    assert any(said in sentence for sentence in first.reads)
    assert isinstance(mechanism, Reads)


def test_a_replay_says_it_too() -> None:
    book = dpl.Ledger.in_memory()
    scope = book.scope("patients", unit="patient", relation="add_remove", budget=dpl.PureDP(1), keep="value")
    noise = dpl.Laplace(sensitivity=1, epsilon=1)
    first, again = (scope.release(noise, 3.0, key="once") for _ in range(2))
    assert again.replayed
    assert first.reads == again.reads
    assert first == again
