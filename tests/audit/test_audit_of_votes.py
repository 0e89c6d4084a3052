"""The classifier itself, audited on the pair on which it loses most, and with a whole gap in place of its half."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dpledger as dpl
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.stability.ensembles import asking
from dpledger.mechanisms.stability.ensembles.votes import Winners, winners
from house_cases.stability.aggregates import far_flip

RUNS = 25_000
CLAIM = dpl.ApproxDP(1, "1e-4")


def whole_gap(votes: npt.NDArray[Any], classes: int, _distance: str) -> Winners:
    """Faulty twin: the gap between two classes, less one."""
    found = winners(votes, classes)
    ones = votes.sum(axis=0)
    return Winners(values=found.values, distances=np.maximum(0, np.abs(2 * ones - len(votes)) - 1))


def answered(table: npt.NDArray[Any], seed: int, monkeypatch: pytest.MonkeyPatch) -> npt.NDArray[np.int64]:
    """How many of the queries each run answers before the one that is unstable; the models vote as a table says."""
    monkeypatch.setattr(asking, "votes_of", lambda _, queries: table[:, [int(query) for query in queries]])
    ensemble = dpl.stability.Ensemble.fit(
        lambda rows, labels: lambda asked: [0] * len(asked), (np.arange(101), np.zeros(101)), 101, "slots"
    )
    mechanism = dpl.stability.PrivateClassifier(1, "1e-4", 101, cutoff=1, mode="basic").under(
        dpl.Relation.REPLACE_ONE, dpl.Unit("record")
    )
    entropy, asked = seeded(seed), np.arange(float(table.shape[1]))
    runs = (mechanism.open(ensemble, entropy=entropy) for _ in range(RUNS))
    return np.array([sum(answer is not dpl.stability.UNSTABLE for answer in run.ask_many(asked)) for run in runs])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*even they are not sure:dpledger.errors.ImplausiblePromise")
@pytest.mark.parametrize(
    ("distance", "pair", "verdict"),
    [(winners, far_flip(71, 71, 9), "not_refuted"), (whole_gap, far_flip(37, 33, 9), "violation")],
    ids=["half of the gap", "the whole gap"],
)
def test_its_verdict(
    distance: Callable[..., Winners],
    pair: tuple[npt.NDArray[Any], npt.NDArray[Any]],
    verdict: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asking, "winners", distance)
    left, right = (answered(table, seed, monkeypatch) for seed, table in enumerate(pair))
    result = dpl.audit_outputs(left, right, CLAIM, relation="replace_one", confidence="0.999")
    assert result.verdict == verdict
    assert result.epsilon_lower <= 2
