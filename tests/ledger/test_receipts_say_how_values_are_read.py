"""What NaN and missing values count as is public, and stands in the receipt: whether there were any does not."""

from __future__ import annotations

import math
from typing import Any

import pytest

import dpledger as dpl
from dpledger.mechanisms.protocol import Reads
from public_names import public

NAN = math.nan
LEARNER = dpl.learning.ExponentialPPACLearner(dpl.learning.ThresholdClass(8), epsilon=1)
HELD: list[tuple[Any, Any, Any, str]] = [
    (dpl.Laplace(sensitivity=1, epsilon=1), 3.0, NAN, "NaN or any other non-number counts as 0"),
    (dpl.Laplace(sensitivity=1, epsilon=1, missing=4, bound=9), 3.0, NAN, "NaN or any other non-number counts as 4"),
    (dpl.Gaussian(sensitivity=1, sigma=4), 3.0, math.inf, "also infinity, counts as 9007199254740992 with its sign"),
    (dpl.Geometric(sensitivity=1, epsilon=1), 3, NAN, "NaN or any other non-number counts as 0"),
    (dpl.ClippedMean(1, 0, 10), [1, 2], [1, NAN], "counts as 5"),
    (dpl.Count(1, of="rows"), [1, 2], [1, None], "every row counts"),
    (dpl.Count(1, of="true"), [True, 2], [True, None], "is not counted"),
    (dpl.Histogram(1, edges=(0, 1)), [0.5], [NAN], "is ignored"),
    (dpl.Histogram(1, categories=("a",), others="counted"), ["a"], [None], 'counts as "other"'),
    (dpl.RandomizedResponse(("a", "b"), 1), ["a"], [None], "counts as a"),
    (dpl.ExponentialMechanism(("a", "b"), sensitivity=1, epsilon=1), [1, 2], [1, NAN], "counts as 0"),
    (
        LEARNER,
        dpl.learning.LabeledSample([1, 2], [0, 1]),
        dpl.learning.LabeledSample([1, NAN], ["1", None]),
        "counts as 1; every other",
    ),
    (
        LEARNER,
        dpl.learning.LabeledSample([1, 2], [0, 1]),
        dpl.learning.LabeledSample([1, NAN], ["1", None]),
        "the points 0 to 7",
    ),
    (dpl.stability.ProposeTestRelease(epsilon=1, delta="1e-9", local_sensitivity=1), (3, 4), (NAN, 4), "counts as 0"),
]
INTERACTIVE: list[tuple[Any, Any, str]] = [
    (
        dpl.SparseVector(epsilon=1, cutoff=1, threshold=0, sensitivity=1, missing="above"),
        [1, NAN],
        "above the threshold",
    ),
    (
        dpl.learning.StatisticalQueryOracle(epsilon=1, queries=2, low=-3),
        dpl.learning.LabeledSample([NAN], ["x"]),
        "counts as -3",
    ),
    (dpl.ex_post.GradualRelease(epsilon=1, sensitivity=1, missing=2), NAN, "counts as 2"),
    (dpl.stability.StableQueries(epsilon=1, delta="1e-9", cutoff=3), None, "an infinite distance is a large one"),
]


def public_mechanisms() -> list[str]:
    told = ("claim", "parts", "parameters", "under")
    runs = ("release", "open")
    return sorted(
        name
        for name, one in public().items()
        if isinstance(one, type) and all(hasattr(one, said) for said in told) and any(hasattr(one, run) for run in runs)
    )


@pytest.mark.parametrize("name", public_mechanisms())
def test_no_mechanism_is_silent(name: str) -> None:
    """What they say is tried by `MechanismConformance`; a new one that says nothing is found here."""
    assert callable(getattr(public()[name], "values_read_as", None)), "define values_read_as"


def test_the_mechanisms_are_found() -> None:
    assert len(public_mechanisms()) >= 40
    assert {"Laplace", "SparseVector", "stability.LabelPrivateLearner"} <= set(public_mechanisms())


@pytest.mark.parametrize(("mechanism", "data", "said"), INTERACTIVE, ids=[one[0].kind for one in INTERACTIVE])
def test_the_receipt_of_an_interaction_says_it_too(mechanism: Any, data: Any, said: str) -> None:
    scope = dpl.Ledger.in_memory().scope("s", unit="row", relation="add_remove", budget=dpl.ApproxDP(9, "1e-6"))
    with scope.open(mechanism, data) as session:
        pass
    assert any(said in sentence for sentence in session.receipt.reads)
    assert session.close() is session.receipt


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
