"""No small case of answers by votes exceeds the claim, by enumeration of all that may be published."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting.composition import SparseVectorLaw
from dpledger.mechanisms.stability.ensembles.chunkers import Hashed
from dpledger.mechanisms.stability.ensembles.votes import winners
from dpledger.mechanisms.stability.voting import PrivateClassifier
from dpledger.relations import Relation, Unit
from sparse_vector_oracle import Law, Noise

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
RECORD = Unit("record")
SALT = Hashed("salt")
few_chunks = pytest.mark.filterwarnings("ignore:.*even they are not sure:dpledger.errors.ImplausiblePromise")


TINY: dict[str, Any] = {"epsilon": "1.5", "delta": "0.2"}
CASES = [
    {"cutoff": 1, "mode": "basic", "chunks": 11},
    {"cutoff": 2, "mode": "kov", "chunks": 25},
    {"cutoff": 2, "mode": "single_threshold", "chunks": 25},
    {"cutoff": 2, "mode": "target_charging", "chunks": 15},
    {"cutoff": 1, "mode": "paper", "max_queries": 3, "chunks": 201},
]


def transcripts(law: SparseVectorLaw, votes: np.ndarray[Any, Any], classes: int, kind: Any) -> dict[Any, float]:
    """The exact law of all that is published: the answers, in order."""
    found = winners(votes, classes, kind)
    oracle = Law(
        Noise(float(law.threshold_scale)),
        Noise(float(law.query_scale)),
        float(law.stable_at or 0),
        law.cutoff,
        refreshed=law.mode not in ("single_threshold", "target_charging"),
    )
    published: dict[Any, float] = defaultdict(float)
    for pattern, chance in oracle.distribution(found.distances.tolist()).items():
        answers = [int(value) if bit == "1" else None for bit, value in zip(pattern, found.values, strict=False)]
        published[tuple(answers)] += chance
    return published


def excess(left: dict[Any, float], right: dict[Any, float], epsilon: float) -> float:
    return sum(max(0.0, p - math.exp(epsilon) * right.get(answer, 0.0)) for answer, p in left.items())


@few_chunks
class TestExactLaw:
    """By enumeration of everything that three queries may publish."""

    @pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["mode"]))
    @settings(max_examples=25, deadline=None)
    @given(st.data())
    def test_one_model_more_or_less_never_exceeds_the_claim(self, case: dict[str, Any], data: st.DataObject) -> None:
        kind: Any = data.draw(st.sampled_from(["halved", "exact"]))
        classes = data.draw(st.integers(1, 3))
        law: Any = PrivateClassifier(**TINY, **case, distance=kind, classes=classes).parts()
        k = case["chunks"]
        lead = data.draw(st.lists(st.integers(0, k), min_size=3, max_size=3))
        votes = np.stack([np.where(np.arange(k) < ones, classes - 1, 0) for ones in lead], axis=1)
        other = votes.copy()
        row = data.draw(st.integers(0, k - 1))
        other[row] = data.draw(st.lists(st.integers(-1, classes - 1), min_size=3, max_size=3))
        left, right = (transcripts(law, table, classes, kind) for table in (votes, other))
        assert sum(left.values()) == pytest.approx(1, abs=1e-9)
        for one, two in ((left, right), (right, left)):
            assert excess(one, two, float(law.epsilon)) <= float(law.delta) + 1e-12

    def test_a_stream_of_queries_that_one_vote_decides_needs_nearly_all_of_the_stability_part(self) -> None:
        law: Any = PrivateClassifier(**TINY, cutoff=1, mode="basic", chunks=11).parts()
        votes = np.array([[1] * 3] * 6 + [[0] * 3] * 5)
        other = votes.copy()
        other[0] = 0
        left, right = (transcripts(law, table, 2, "halved") for table in (votes, other))
        loss = excess(left, right, 30.0)
        coarse = math.exp(-1 / float(law.query_scale))
        assert float(law.delta) * coarse < loss <= float(law.delta)

    def test_a_whole_gap_exceeds_it(self) -> None:
        """Faulty twin: the gap less one in place of its half."""
        law: Any = PrivateClassifier(epsilon=1, delta="1e-4", cutoff=1, mode="basic", chunks=101).parts()
        oracle = Law(Noise(float(law.threshold_scale)), Noise(float(law.query_scale)), float(law.stable_at), 1)
        left, right = (oracle.distribution(gaps) for gaps in ([36] * 9 + [32], [34] * 9 + [34]))
        assert excess(left, right, 1.0) > 0.01

    @settings(max_examples=20, deadline=None)
    @given(st.data())
    def test_two_models_never_exceed_the_claim_of_a_group(self, data: st.DataObject) -> None:
        given = {"epsilon": "0.7", "delta": "0.1", "cutoff": 1, "mode": "basic", "chunks": 23, "chunker": SALT}
        mechanism = PrivateClassifier(**given).under(REPLACE, RECORD)  # type: ignore[arg-type]
        law: Any = PrivateClassifier(**given).under(ADD, RECORD).parts()  # type: ignore[arg-type]
        lead = data.draw(st.lists(st.integers(0, 23), min_size=3, max_size=3))
        votes = np.stack([(np.arange(23) < ones).astype(int) for ones in lead], axis=1)
        other = votes.copy()
        for row in data.draw(st.lists(st.integers(0, 22), min_size=2, max_size=2)):
            other[row] = data.draw(st.lists(st.integers(-1, 1), min_size=3, max_size=3))
        left, right = (transcripts(law, table, 2, "halved") for table in (votes, other))
        for one, two in ((left, right), (right, left)):
            assert excess(one, two, float(mechanism.claim().epsilon)) <= float(mechanism.claim().delta)
