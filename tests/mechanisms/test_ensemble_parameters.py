"""How ensembles are asked for: learners tried on made-up rows, and parameters that are refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from dpledger.errors import ParameterError, RelationError
from dpledger.mechanisms.entropy import seeded, system
from dpledger.mechanisms.stability.ensembles.chunkers import Hashed
from dpledger.mechanisms.stability.ensembles.ensemble import Ensemble, queries_of, votes_of
from dpledger.mechanisms.stability.ensembles.rehearsal import try_learner
from dpledger.relations import Relation
from learners import Constant, Failing, majority

GENERATOR = np.random.default_rng(20261122)
ROWS = GENERATOR.normal(size=(60, 2)).round(3)
LABELS = (ROWS[:, 0] > 0).astype(int)
ASKED = GENERATOR.normal(size=(30, 2)).round(3)


def fitted(learner: Any, rows: Any = ROWS, labels: Any = LABELS, chunks: int = 5, **given: Any) -> Ensemble:
    units = rows if labels is None else (rows, labels)
    return Ensemble.fit(learner, units, chunks, **{"chunker": "slots", "progress": False, **given})


def votes(learner: Any, *args: Any, asked: Any = ASKED, **given: Any) -> list[list[int]]:
    ensemble = fitted(learner, *args, **given)
    found: list[list[int]] = votes_of(ensemble, queries_of(ensemble, asked)).tolist()
    return found


def alternate(left: list[list[int]], right: list[list[int]]) -> int:
    """How many models vote otherwise on some query."""
    return sum(one != other for one, other in zip(left, right, strict=True))


class TestRehearsal:
    """On made-up rows a learner may say what is wrong."""

    def test_it_votes_as_a_chunk_would(self) -> None:
        learner = RandomForestClassifier(3)
        rehearsed = try_learner(learner, ROWS, LABELS)
        alone = Ensemble.fit(learner, (ROWS, LABELS), 3, Hashed("s"), ids=["one"] * 60, progress=False)
        found = votes_of(alone, queries_of(alone, ROWS))
        assert rehearsed.shape == (60,)
        assert sum(row == [-1] * 60 for row in found.tolist()) == 2
        assert set(rehearsed.tolist()) == {0, 1}

    def test_what_a_learner_raises_and_warns_is_heard(self) -> None:
        with pytest.raises(ZeroDivisionError):
            try_learner(Constant(lambda asked: 1 / 0), ROWS, LABELS)
        with pytest.warns(UserWarning, match="60 rows"), np.errstate(all="ignore"):
            try_learner(Failing(), ROWS, LABELS)

    @pytest.mark.parametrize("answer", [None, [1], np.zeros((60, 2))], ids=["nothing", "one", "columns"])
    def test_answers_that_would_be_abstentions(self, answer: Any) -> None:
        with pytest.raises(ParameterError, match=r"learner.*60 classes"):
            try_learner(Constant(answer), ROWS, LABELS)

    def test_labels_that_are_no_classes(self) -> None:
        with pytest.raises(ParameterError, match="labels from 0 to classes - 1"):
            try_learner(majority, ROWS, LABELS + 5)


class TestParameters:
    @pytest.mark.parametrize("chunks", [0, 1, 2, -5, 2**20 + 1])
    def test_too_few_or_many_chunks(self, chunks: int) -> None:
        with pytest.raises(ParameterError, match="chunks"):
            fitted(majority, chunks=chunks)

    @pytest.mark.parametrize("chunks", [7.5, "sqrt(n)", None, True, lambda n: n // 10, [5]])
    def test_a_number_of_chunks_is_public_not_made_of_the_data(self, chunks: Any) -> None:
        with pytest.raises(ParameterError, match="without a look at the private data"):
            fitted(majority, chunks=chunks)

    @pytest.mark.parametrize("chunker", ["consecutive", "split", "", None, 3, ["slots"], "Hashed"])
    def test_chunkers_that_there_are_not(self, chunker: Any) -> None:
        with pytest.raises(ParameterError, match="runs of a list have no guarantee"):
            fitted(majority, chunker=chunker)

    def test_auto_goes_by_the_relation(self) -> None:
        assert fitted(majority, chunker="auto", relation="add_remove").chunker == "random"
        assert fitted(majority, chunker="auto", relation=Relation.REPLACE_ONE).chunker == "slots"
        with pytest.raises(ParameterError, match="relation"):
            fitted(majority, chunker="auto")

    def test_a_relation_that_is_named_is_kept(self) -> None:
        with pytest.raises(RelationError, match="shifts"):
            fitted(majority, chunker="slots", relation="add_remove")

    def test_secret_coins_do_not_come_from_a_known_seed(self) -> None:
        with pytest.raises(ParameterError, match="knows the chunks"):
            fitted(majority, chunker="random", entropy=seeded(1))
        assert not fitted(majority, chunker="random", entropy=system()).drawn_in_public
        assert fitted(majority, chunker="random", unsafe_entropy=seeded(1)).drawn_in_public
        with pytest.raises(ParameterError, match="one of them"):
            fitted(majority, entropy=system(), unsafe_entropy=system())

    @pytest.mark.parametrize(
        ("field", "bad"),
        [
            ("classes", 0), ("classes", 2.5), ("classes", 2**20 + 1), ("jobs", "two"), ("grouped", 1), ("progress", 1),
            ("missing", "0"), ("missing", math.inf), ("missing", True), ("words", "a"),
            ("words", ("a",)), ("words", (2,)), ("relation", "both"),
        ],
    )  # fmt: skip
    def test_others(self, field: str, bad: Any) -> None:
        with pytest.raises(ParameterError, match=field):
            fitted(majority, **{field: bad})

    def test_columns_beside_rows_and_labels(self) -> None:
        with pytest.raises(ParameterError, match="3 columns"):
            Ensemble.fit(majority, (ROWS, LABELS, LABELS), 5, "slots")
