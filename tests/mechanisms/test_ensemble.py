"""An ensemble: what is fitted, what votes, what never raises, what never leaves."""

from __future__ import annotations

import contextlib
import copy
import math
import pickle
import random
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from dpledger.errors import ParameterError
from dpledger.mechanisms.stability.ensembles import ensemble as ensembles, learners
from dpledger.mechanisms.stability.ensembles.chunkers import Hashed
from dpledger.mechanisms.stability.ensembles.ensemble import Ensemble, queries_of, query_of, votes_of
from dpledger.mechanisms.units import ByUnit
from forking import ignores_fork_warnings, in_child
from learners import Constant, Failing, InPlace, Majority, ToldAbroad, Unpicklable, UsesGlobalCoins, majority
from threads import together

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


ESTIMATORS: dict[str, Any] = {
    "logistic": LogisticRegression(),
    "tree": DecisionTreeClassifier(),
    "forest": RandomForestClassifier(n_estimators=4),
    "neighbours": KNeighborsClassifier(3),
    "bayes": GaussianNB(),
    "gradient": make_pipeline(StandardScaler(copy=False), SGDClassifier()),
    "global coins": UsesGlobalCoins(),
    "in place": InPlace(),
    "an object that counts": ToldAbroad(),
}


@pytest.mark.parametrize("learner", ESTIMATORS)
class TestOneModelVotesOtherwise:
    """With learners as people have them, and with some that would tell the next chunk of the last one."""

    def test_where_a_slot_is_exchanged(self, learner: str) -> None:
        other, flipped = ROWS.copy(), LABELS.copy()
        other[7] = 40.0
        flipped[7] = 1 - flipped[7]
        left, right = (votes(ESTIMATORS[learner], rows, labels) for rows, labels in ((ROWS, LABELS), (other, flipped)))
        assert alternate(left, right) <= 1
        assert left[:2] + left[3:] == right[:2] + right[3:]  # slot 7 is in chunk 2

    def test_where_a_unit_comes(self, learner: str) -> None:
        ids = [f"person {i}" for i in range(60)]
        left = votes(ESTIMATORS[learner], chunker=Hashed("s"), ids=ids)
        more, labels = np.vstack([ROWS[:1] * 50, ROWS]), np.concatenate([[1], LABELS])
        right = votes(ESTIMATORS[learner], more, labels, chunker=Hashed("s"), ids=["new", *ids])
        assert alternate(left, right) <= 1

    def test_where_a_unit_brings_no_number(self, learner: str) -> None:
        other = ROWS.astype(object)
        other[7, 0] = "no number"
        assert alternate(votes(ESTIMATORS[learner]), votes(ESTIMATORS[learner], other)) <= 1


class TestFaultyTwins:
    """The same learners in a house that does not keep chunks apart: the rehearsal refuses them, and without it one unit
    alters many models."""

    @staticmethod
    def refused(learner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        np.random.seed(1)
        random.seed(1)
        with pytest.raises(ParameterError, match="keeps nothing from one chunk to the next"):
            fitted(learner)
        monkeypatch.setattr(ensembles, "rehearse", lambda *args, **given: None)

    def test_generators_that_go_on_tell_the_next_chunk(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(learners, "_alone", contextlib.nullcontext)
        monkeypatch.setattr(learners, "_turns", lambda: contextlib.nullcontext(lambda number: None))
        monkeypatch.setattr(learners, "apart", contextlib.nullcontext)
        self.refused(UsesGlobalCoins(), monkeypatch)
        other = ROWS.copy()
        other[7] = 40.0

        def voted(rows: Any) -> list[list[int]]:
            np.random.seed(1)
            random.seed(1)
            return votes(UsesGlobalCoins(), np.abs(rows))

        assert alternate(voted(ROWS), voted(other)) > 1

    def test_queries_that_a_model_may_alter_tell_the_next_model(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(learners, "own_copy", lambda rows: rows)
        self.refused(InPlace(), monkeypatch)
        other = ROWS.copy()
        other[2] = 40.0
        assert alternate(votes(InPlace()), votes(InPlace(), other)) > 1

    def test_a_learner_that_is_not_copied_counts_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(learners, "own", lambda one: one)
        self.refused(ToldAbroad(), monkeypatch)
        rows = np.arange(120.0).reshape(60, 2)
        other = rows.copy()
        other[0, 0] += 1
        assert alternate(votes(ToldAbroad(), rows), votes(ToldAbroad(), other)) == 5


class TestLearners:
    def test_a_function_and_an_object_of_no_library_will_do(self) -> None:
        skewed = np.minimum(np.arange(60) % 7, 1)
        assert votes(majority, ROWS, skewed) == votes(Majority(), ROWS, skewed) == [[1] * 30] * 5

    def test_the_estimator_that_is_given_stays_as_it_was(self) -> None:
        given = LogisticRegression()
        fitted(given)
        assert not hasattr(given, "coef_")
        assert given.get_params()["random_state"] is None

    def test_a_fitted_estimator_is_forgotten(self) -> None:
        warm = SGDClassifier(warm_start=True, max_iter=1, tol=None, random_state=0).fit(ROWS, 1 - LABELS)
        cold = SGDClassifier(warm_start=True, max_iter=1, tol=None, random_state=0)
        assert votes(warm) == votes(cold)

    def test_it_is_reproducible_and_leaves_the_callers_generators_alone(self) -> None:
        np.random.seed(5)
        random.seed(5)
        before = np.random.get_state()[1].tolist(), random.getstate()  # type: ignore[index]
        first = votes(UsesGlobalCoins())
        assert (np.random.get_state()[1].tolist(), random.getstate()) == before  # type: ignore[index]
        np.random.seed(6)
        assert votes(UsesGlobalCoins()) == first

    def test_a_seed_is_given_to_functions_that_take_one(self) -> None:
        def learner(rows: Any, labels: Any, seed: int) -> Any:
            return lambda asked: np.full(len(asked), seed % 1000)

        assert len({row[0] for row in votes(learner, classes=1000)}) == 5

    def test_rows_without_labels(self) -> None:
        def learner(rows: Any, labels: Any) -> Any:
            assert labels is None
            return lambda asked: (np.asarray(asked) > np.median(rows)).astype(int)

        assert votes(learner, list(range(10)), None, asked=[0, 100]) == [[0, 1]] * 5

    @pytest.mark.parametrize("learner", [3, None, "tree", StandardScaler()])
    def test_what_is_no_learner_is_refused(self, learner: Any) -> None:
        with pytest.raises(ParameterError, match="learner"):
            fitted(learner)


class TestAbstentions:
    """Nothing that a chunk holds raises, warns or is told."""

    @pytest.mark.parametrize("error", [ValueError, MemoryError, RecursionError, SystemExit, StopIteration])
    def test_a_learner_that_raises(self, error: type[BaseException], capfd: pytest.CaptureFixture[str]) -> None:
        rows = np.where(np.arange(60)[:, None] == 8, 7.0, ROWS)  # slot 8 is in chunk 3
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found = votes(Failing(error), rows)
        assert [set(row) == {-1} for row in found] == [False, False, False, True, False]
        assert told == []
        assert capfd.readouterr() == ("", "")

    def test_also_where_the_caller_makes_errors_of_warnings(self) -> None:
        with warnings.catch_warnings(), np.errstate(all="raise"):
            warnings.simplefilter("error")
            assert not any(-1 in row for row in votes(Failing()))

    def test_chunks_without_units_or_with_one_class(self) -> None:
        ensemble = fitted(LogisticRegression(), chunks=5, chunker=Hashed("s"), ids=["one"] * 60)
        found = votes_of(ensemble, queries_of(ensemble, ASKED))
        assert sorted(set(row) == {-1} for row in found.tolist()) == [False, True, True, True, True]
        alone = [[0.0, 1.0]] * 5
        assert {vote for row in votes(LogisticRegression(), alone, [0, 1, 0, 1, 0]) for vote in row} == {-1}

    def test_nobody_at_all(self) -> None:
        empty = Ensemble.fit(majority, (np.zeros((0, 2)), []), 3, "random")
        assert votes_of(empty, queries_of(empty, ASKED)).tolist() == [[-1] * 30] * 3

    @pytest.mark.parametrize(
        "answer",
        [
            None, 3, "x", [1], [[0, 1]] * 30, {}, [None] * 30, ["x"] * 30, [2] * 30, [-1] * 30, [0.5] * 30,
            [math.nan] * 30, [10**400] * 30, [2**64 - 1] * 30, np.zeros((30, 2)),
            np.zeros((30, 2), dtype=int), lambda asked: 1 / 0, lambda asked: asked.no_such,
        ],
        ids=lambda answer: "a function" if callable(answer) else type(answer).__name__,
    )  # fmt: skip
    def test_what_is_no_class_is_no_vote(self, answer: Any) -> None:
        assert votes(Constant(answer)) == [[-1] * 30] * 5

    @pytest.mark.parametrize("answer", [[1] * 30, [1.0] * 30, ["1"] * 30, [True] * 30, np.ones((30, 1))], ids=str)
    def test_a_class_may_be_written_in_many_ways(self, answer: Any) -> None:
        assert votes(Constant(answer)) == [[1] * 30] * 5

    def test_a_row_whose_label_is_no_class_is_left_out(self) -> None:
        odd: Any = LABELS.astype(object)
        odd[:10] = [None, "x", 2, -1, 0.5, math.nan, math.inf, {}, 10**400, 1j]
        assert votes(DecisionTreeClassifier(), ROWS, odd) == votes(DecisionTreeClassifier(), ROWS[10:], LABELS[10:])


class TestForms:
    def test_arrays_lists_and_tables_of_the_same_numbers_are_the_same(self) -> None:
        table = pd.DataFrame(ROWS, columns=["a", "b"])
        tree = DecisionTreeClassifier()
        expected = votes(tree)
        assert votes(tree, ROWS.tolist(), LABELS.tolist()) == expected
        assert votes(tree, table, pd.Series(LABELS), asked=pd.DataFrame(ASKED, columns=["a", "b"])) == expected
        assert votes(tree, table, asked=ASKED) == expected
        assert votes(tree, ROWS.astype(str)) == expected

    def test_words_of_a_table(self) -> None:
        table = pd.DataFrame({"word": ["up", "down"] * 30, "number": range(60)})
        learner = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression(C=100))
        ensemble = fitted(learner, table, [1, 0] * 30, words=("word",))
        asked = pd.DataFrame({"number": [500, 500], "word": ["up", "down"]})
        assert votes_of(ensemble, queries_of(ensemble, asked)).tolist() == [[1, 0]] * 5
        assert votes_of(ensemble, query_of(ensemble, {"word": "up", "number": 500})).tolist() == [[1]] * 5
        assert votes_of(ensemble, query_of(ensemble, asked.iloc[1])).tolist() == [[0]] * 5

    def test_one_query_alone(self) -> None:
        tree = fitted(DecisionTreeClassifier())
        many = votes_of(tree, queries_of(tree, ASKED))
        one = [votes_of(tree, query_of(tree, row))[:, 0].tolist() for row in ASKED]
        assert many.T.tolist() == one

    def test_what_is_missing_is_a_public_number(self) -> None:
        holes: Any = ROWS.astype(object)
        holes[3] = [None, "x"]
        holes[4] = [math.inf, math.nan]
        filled = ROWS.copy()
        filled[3:5] = 0.25
        tree = DecisionTreeClassifier()
        assert votes(tree, holes, missing=0.25) == votes(tree, filled)

    @pytest.mark.parametrize("asked", [ASKED[:, :1], np.zeros(4), 5, None, "ab", np.zeros((2, 2, 2))])
    def test_queries_of_another_shape_are_refused(self, asked: Any) -> None:
        with pytest.raises(ParameterError, match="queries"):
            queries_of(fitted(majority), asked)

    def test_labels_must_be_as_many_as_rows(self) -> None:
        with pytest.raises(ParameterError, match="data"):
            fitted(majority, ROWS, LABELS[1:])


class TestThreads:
    def test_they_get_the_same_votes(self) -> None:
        ensemble = fitted(UsesGlobalCoins(), np.abs(ROWS))
        asked = queries_of(ensemble, ASKED)
        alone = votes_of(ensemble, asked).tolist()

        def ask() -> None:
            for _ in range(20):
                assert votes_of(ensemble, asked).tolist() == alone

        assert together(ask, ask) == [None, None]


class TestUnitsOfManyRows:
    def test_all_rows_of_a_unit_are_in_one_chunk(self) -> None:
        def learner(rows: Any, labels: Any) -> Any:
            return lambda asked: np.isin(asked[:, 0], rows[:, 0]).astype(int)

        people = np.repeat(np.arange(20.0), 3)
        rows = np.stack([people, np.arange(60.0)], axis=1)

        def homes(ensemble: Ensemble) -> list[int]:
            known = votes_of(ensemble, queries_of(ensemble, rows[::3])) == 1  # a chunk without units abstains
            return known.sum(axis=0).tolist()  # type: ignore[no-any-return]

        for given in ({"chunker": "random"}, {"chunker": Hashed("s")}):
            ensemble = fitted(learner, rows, ids=people, **given)
            assert ensemble.whole_units
            assert homes(ensemble) == [1] * 20
        assert homes(Ensemble.fit(learner, ByUnit((rows, LABELS), units=people), 5, "random")) == [1] * 20

    def test_who_says_nothing_declares_nothing(self) -> None:
        assert not fitted(majority).whole_units
        assert fitted(majority, grouped=True).whole_units

    def test_an_id_is_said_once(self) -> None:
        with pytest.raises(ParameterError, match="ids"):
            Ensemble.fit(majority, ByUnit((ROWS, LABELS), units=LABELS), 5, "random", ids=LABELS)
        with pytest.raises(ParameterError, match="grouped"):
            fitted(majority, ids=LABELS, grouped=True, chunker="random")


class TestItIsPrivate:
    def test_it_shows_nothing_and_does_not_leave(self) -> None:
        ensemble = fitted(majority)
        assert repr(ensemble) == str(ensemble) == "Ensemble(...)"
        for leave in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="private"):
                leave(ensemble)
        with pytest.raises(AttributeError):
            ensemble.note = 1  # type: ignore[attr-defined]

    @ignores_fork_warnings
    def test_it_answers_nothing_in_a_forked_child(self) -> None:
        ensemble = fitted(majority)
        asked = queries_of(ensemble, ASKED)
        assert in_child(lambda: votes_of(ensemble, asked)).startswith("ForkedProcess: an ensemble")


class TestJobs:
    @pytest.mark.sliced
    def test_worker_processes_fit_the_same_models(self) -> None:
        for learner in (RandomForestClassifier(3), UsesGlobalCoins(), majority):
            assert votes(learner, jobs=2) == votes(learner)

    def test_models_that_do_not_travel_are_refused(self) -> None:
        with pytest.raises(ParameterError, match="with jobs a model that pickles"):
            fitted(Unpicklable(), jobs=2)
        assert votes(Unpicklable()) == [[0] * 30] * 5
