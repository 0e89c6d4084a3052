"""Labels for public rows and the student that learns from them: what it sees, what it costs, and that no small case
exceeds the claim."""

from __future__ import annotations

import dataclasses
import itertools
import math
import pickle
import warnings
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

import dpledger as dpl
from dpledger.accounting.composition import PostProcessed, SparseVectorLaw, SparseVectorOutcome
from dpledger.accounting.guarantees import ApproxDP
from dpledger.accounting.rules import cost
from dpledger.errors import ContractViolation, ImplausiblePromise, ParameterError
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.stability.ensembles.chunkers import Hashed
from dpledger.mechanisms.stability.ensembles.ensemble import Ensemble
from dpledger.mechanisms.stability.ensembles.votes import winners
from dpledger.mechanisms.stability.labels.learner import FEATURES, LabelPrivateLearner, Lesson
from dpledger.mechanisms.stability.labels.student import Student
from dpledger.mechanisms.stability.noisy_votes import NoisyVotes
from dpledger.mechanisms.stability.plans.label_private import label_private_plan
from dpledger.mechanisms.stability.voting import PrivateClassifier
from dpledger.relations import Relation, Unit
from mechanism_conformance import MechanismConformance
from sparse_vector_oracle import Law, Noise

pytestmark = pytest.mark.sliced

ADD, REPLACE, FLIP = Relation.ADD_REMOVE, Relation.REPLACE_ONE, Relation.LABEL_FLIP
RECORD = Unit("record")
few_chunks = pytest.mark.filterwarnings("ignore:.*even they are not sure:dpledger.errors.ImplausiblePromise")


def threshold(rows: Any, labels: Any) -> Any:
    """A model that votes 1 above the least row of its chunk."""
    least = rows.min()
    return lambda asked: (np.asarray(asked, dtype=float).reshape(-1) > least).astype(int)


def spread(chunks: int = 101, chunker: Any = "slots", **given: Any) -> Ensemble:
    """Of k models, round(x) vote 1 on the query x."""
    units = (np.arange(chunks), np.zeros(chunks))
    return Ensemble.fit(threshold, units, chunks, chunker, progress=False, **given)


class Best:
    """The threshold on a line with the fewest errors on its labels."""

    def fit(self, rows: Any, labels: Any) -> Best:
        order = np.argsort(rows, kind="stable")
        ones = np.asarray(labels)[order]
        errors = np.concatenate([[0], np.cumsum(ones)]) + np.concatenate([np.cumsum((1 - ones)[::-1])[::-1], [0]])
        cut = int(errors.argmin())
        points = np.concatenate([[-np.inf], np.asarray(rows, dtype=float)[order]])
        self.cut_ = points[cut]
        return self

    def predict(self, asked: Any) -> Any:
        return (np.asarray(asked, dtype=float) > self.cut_).astype(int)


def sees(rows: Any, labels: Any) -> Any:
    """A student that answers with what it was taught by."""
    own = (np.array(rows), np.array(labels))
    return lambda asked: own


def few(*given: Any, **named: Any) -> PrivateClassifier:
    """A classifier of so few chunks that it warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ImplausiblePromise)
        return PrivateClassifier(*given, **named)


def by_distances(*given: Any, student: str | None = None, **named: Any) -> LabelPrivateLearner:
    """A learner of labels that tests of distances answer."""
    return LabelPrivateLearner(PrivateClassifier(*given, **named), student=student)


# ---- conformance ----------------------------------------------------------------------------------------------------

EVERYBODY = {relation: spread(61) for relation in Relation} | {ADD: spread(61, "random", unsafe_entropy=seeded(4))}
NO_ROWS: tuple[Any, ...] = ([], 3, "x", None, np.zeros((2, 2)))
ASKED = [60.0, 2.0, 55.0, 52.0, 50.0, 47.0, 45.0, 43.0, 41.0, 40.0, 39.0, 38.0, 37.0]


class _Conformance(MechanismConformance):
    relations = tuple(Relation)
    bad_parameters: ClassVar[Any] = (
        {"of": None},
        {"of": 3},
        {"of": LabelPrivateLearner},
        {"of": dpl.stability.SampleAndAggregate(8, "1e-4", 61, cutoff=2)},
        {"student": ""},
        {"student": 3},
    )
    bad_containers: ClassVar[tuple[object, ...]] = (
        None,
        spread(61),
        (spread(61), ASKED),
        Lesson(spread(5), ASKED),
        Lesson(spread(61, classes=3), ASKED),
        Lesson(3, ASKED),  # type: ignore[arg-type]
        *(Lesson(EVERYBODY[relation], rows) for rows in NO_ROWS for relation in Relation),
        *(Lesson(EVERYBODY[REPLACE], ASKED, student) for student in (3, "x")),
    )
    of: ClassVar[Any]

    def make(self, **changes: Any) -> Any:
        return LabelPrivateLearner(**{"of": self.of, **changes})

    def data_of(self, mechanism: Any) -> object:
        return Lesson(EVERYBODY[mechanism.relation], ASKED, Best())

    def run(self, mechanism: Any, data: Any, seed: int) -> Release[Any]:
        release: Release[Any] = mechanism.release(data, entropy=seeded(seed))
        found = release.value.labels.tolist(), release.value.answered.tolist()
        return dataclasses.replace(release, value=found)


class TestByDistances(_Conformance):
    of = few(8, "1e-4", 61, cutoff=2)


class TestByGaussianTests(_Conformance):
    of = few(8, "1e-4", 61, mode="gaussian", max_queries=13)


class TestByPublishedTests(_Conformance):
    of = few(100, "1e-4", 61, cutoff=2, mode="paper", max_queries=13)


class TestByNoisyVotes(_Conformance):
    of = NoisyVotes(sigma=9, chunks=61, max_queries=13)


class TestByConfidentVotes(_Conformance):
    of = NoisyVotes(sigma=9, chunks=61, max_queries=13, threshold=40, threshold_sigma=5, max_answers=6)


# ---- the law --------------------------------------------------------------------------------------------------------


def labels_law(law: SparseVectorLaw, votes: Any, classes: int) -> dict[tuple[int, ...], float]:
    """The exact law of the labels, coins and all, and of which of them are coins: by quadrature and enumeration."""
    found = winners(votes, classes)
    oracle = Law(
        Noise(float(law.threshold_scale)),
        Noise(float(law.query_scale)),
        float(law.stable_at or 0),
        law.cutoff,
        refreshed=law.mode not in ("single_threshold", "target_charging"),
    )
    published: dict[tuple[int, ...], float] = defaultdict(float)
    for pattern, chance in oracle.distribution(found.distances.tolist()).items():
        full = pattern.ljust(votes.shape[1], "0")
        sides = [[int(value)] if bit == "1" else range(classes) for bit, value in zip(full, found.values, strict=True)]
        for labels in itertools.product(*sides):
            published[labels] += chance / classes ** full.count("0")
    return published


def excess(left: dict[Any, float], right: dict[Any, float], epsilon: float) -> float:
    return sum(max(0.0, p - math.exp(epsilon) * right.get(answer, 0.0)) for answer, p in left.items())


@few_chunks
class TestExactLaw:
    @pytest.mark.parametrize("case", [("basic", 1, 11), ("kov", 2, 25), ("target_charging", 2, 15)], ids=str)
    @settings(max_examples=20, deadline=None)
    @given(st.data())
    def test_labels_of_one_model_more_or_less_never_exceed_the_claim(
        self, case: tuple[Any, int, int], data: st.DataObject
    ) -> None:
        mode, cutoff, k = case
        classes = data.draw(st.integers(1, 3))
        mechanism = by_distances(epsilon="1.5", delta="0.2", cutoff=cutoff, mode=mode, chunks=k, classes=classes)
        assert isinstance(mechanism.parts(), PostProcessed)
        law: Any = mechanism.parts().of  # type: ignore[union-attr]
        lead = data.draw(st.lists(st.integers(0, k), min_size=3, max_size=3))
        votes = np.stack([np.where(np.arange(k) < ones, classes - 1, 0) for ones in lead], axis=1)
        other = votes.copy()
        row = data.draw(st.integers(0, k - 1))
        other[row] = data.draw(st.lists(st.integers(-1, classes - 1), min_size=3, max_size=3))
        left, right = (labels_law(law, table, classes) for table in (votes, other))
        assert sum(left.values()) == pytest.approx(1, abs=1e-9)
        for one, two in ((left, right), (right, left)):
            assert excess(one, two, 1.5) <= 0.2 + 1e-12

    def test_labels_by_the_plurality_exceed_it(self) -> None:
        """Faulty twin: a row that is not answered gets the class with more votes, so one vote may decide its label."""
        votes = (np.arange(11) < 6).astype(int)[:, None]
        other = votes.copy()
        other[0] = 0
        laws = [{int(winners(table, 2).values[0]): 1.0} for table in (votes, other)]
        assert excess(laws[0], laws[1], 1.5) == 1
        parts: Any = by_distances("1.5", "0.2", 11, cutoff=1, mode="basic").parts()
        law = parts.of
        assert excess(labels_law(law, votes, 2), labels_law(law, other, 2), 1.5) <= 0.2

    def test_runs_have_that_law(self) -> None:
        """Of 500 runs, each label of three rows within 5 standard deviations: a false alarm below 10^-4."""
        mechanism = by_distances(2, "0.2", 11, cutoff=1, mode="basic").under(REPLACE, RECORD)
        votes = (np.arange(11)[:, None] < np.array([11, 8, 4])[None]).astype(int)
        parts: Any = mechanism.parts()
        expected = labels_law(parts.of, votes, 2)
        lesson, entropy = Lesson(spread(11), [11.0, 8.0, 4.0]), seeded(5)
        seen: dict[tuple[int, ...], int] = defaultdict(int)
        for _ in range(500):
            seen[tuple(mechanism.release(lesson, entropy=entropy).value.labels.tolist())] += 1
        for labels, chance in expected.items():
            assert abs(seen[labels] - 500 * chance) <= 5 * math.sqrt(500 * chance * (1 - chance)) + 1


# ---- labels and students --------------------------------------------------------------------------------------------


class TestLabels:
    def test_they_are_the_answers_of_a_private_classifier(self) -> None:
        given: dict[str, Any] = {"epsilon": 50, "delta": "1e-6", "chunks": 101, "cutoff": 9}
        asked = [100.0, 1.0, 50.5, 90.0]
        answers = PrivateClassifier(**given).under(REPLACE, RECORD).open(spread(), entropy=seeded(4)).ask_many(asked)
        mechanism = by_distances(**given).under(REPLACE, RECORD)
        student = mechanism.release(Lesson(spread(), asked), entropy=seeded(4)).value
        assert student.answered.tolist() == [answer is not dpl.stability.UNSTABLE for answer in answers]
        assert [student.labels[i] for i in (0, 1, 3)] == [1, 0, 1]

    def test_after_the_halt_all_are_coins(self) -> None:
        mechanism = by_distances(50, "1e-6", 101, cutoff=1, classes=2).under(REPLACE, RECORD)
        asked = [100.0, 50.5] + [100.0] * 4000
        student = mechanism.release(Lesson(spread(), asked), entropy=seeded(1)).value
        assert student.answered.tolist() == [True] + [False] * 4001
        ones = int(student.labels[1:].sum())
        assert abs(ones - 2000.5) < 6 * math.sqrt(1000), "a fair coin, but for a chance of 2e-9"

    def test_coins_of_three_sides(self) -> None:
        mechanism = by_distances(50, "1e-6", 101, cutoff=1, classes=3).under(REPLACE, RECORD)
        student = mechanism.release(Lesson(spread(classes=3), [50.5] * 3001), entropy=seeded(2)).value
        counted = np.bincount(student.labels, minlength=3)
        assert (abs(counted - 3001 / 3) < 6 * math.sqrt(3000 * 2 / 9)).all()

    @pytest.mark.parametrize("kind", [np.array, pd.Series, tuple])
    def test_rows_come_in_any_form(self, kind: Any) -> None:
        mechanism = by_distances(50, "1e-6", 101, cutoff=1).under(REPLACE, RECORD)
        student = mechanism.release(Lesson(spread(), kind([100.0, 1.0])), entropy=seeded(1)).value
        assert student.labels.tolist() == [1, 0]

    def test_no_more_rows_than_planned(self) -> None:
        mechanism = by_distances(50, "1e-6", 101, cutoff=1, max_queries=2).under(REPLACE, RECORD)
        mechanism.inspect(Lesson(spread(), [1.0, 2.0]))
        with pytest.raises(ParameterError, match="max_queries = 2"):
            mechanism.inspect(Lesson(spread(), [1.0, 2.0, 3.0]))

    def test_noisy_votes_answer_every_row(self) -> None:
        """PATE: no coins, and the labels of `NoisyVotes` itself; with a threshold its silence is a coin."""
        asked = [100.0, 1.0, 50.5, 90.0] * 5
        votes = NoisyVotes(sigma=2, chunks=101, max_queries=20)
        answers = votes.under(REPLACE, RECORD).open(spread(), entropy=seeded(4)).ask_many(asked)
        teacher = LabelPrivateLearner(votes).under(REPLACE, RECORD)
        student = teacher.release(Lesson(spread(), asked), entropy=seeded(4)).value
        assert student.answered.all()
        assert student.labels.tolist() == list(answers)
        confident = NoisyVotes(sigma=2, chunks=101, max_queries=20, threshold=80, threshold_sigma=2, max_answers=12)
        teacher = LabelPrivateLearner(confident).under(REPLACE, RECORD)
        student = teacher.release(Lesson(spread(), asked), entropy=seeded(4)).value
        clear = np.array(asked) != 50.5
        assert student.answered.tolist() == (clear & (np.cumsum(clear) <= 12)).tolist()


class TestStudent:
    def student(self, student: Any, asked: Sequence[float] = (100.0, 1.0, 50.5)) -> Student:
        mechanism = by_distances(50, "1e-6", 101, cutoff=2).under(REPLACE, RECORD)
        return mechanism.release(Lesson(spread(), list(asked), student), entropy=seeded(1)).value

    def test_it_sees_the_public_rows_and_their_labels(self) -> None:
        found = self.student(sees)
        rows, labels = found.predict([0.0])
        assert rows.tolist() == [100.0, 1.0, 50.5]
        assert labels.tolist() == found.labels.tolist()

    def test_it_is_a_fresh_copy(self) -> None:
        """One that was fitted before, on whatever, starts anew."""
        old = Best().fit(np.array([1.0]), np.array([1]))
        found = self.student(old)
        assert found.predict([70.0, 0.5]).tolist() == [1, 0]
        assert old.cut_ == -np.inf

    def test_it_travels_without_the_rows(self) -> None:
        found = self.student(Best())
        again = pickle.loads(pickle.dumps(found))
        assert again.predict([70.0, 0.5]).tolist() == found.predict([70.0, 0.5]).tolist()
        assert again.labels.tolist() == found.labels.tolist()
        assert {field.name for field in dataclasses.fields(found)} == {"labels", "answered", "form", "model", "failure"}

    def test_another_one_learns_from_the_same_labels(self) -> None:
        first = self.student(None)
        with pytest.raises(ParameterError, match="student"):
            first.predict([70.0])
        second = first.teach(Best(), [100.0, 1.0, 50.5])
        assert second.predict([70.0, 0.5]).tolist() == [1, 0]
        assert second.labels is first.labels
        with pytest.raises(ParameterError, match="rows"):
            first.teach(Best(), [100.0])
        with pytest.raises(ParameterError, match="learner"):
            first.teach(3, [100.0, 1.0, 50.5])

    def test_one_that_fails_leaves_the_labels(self) -> None:
        def failing(rows: Any, labels: Any) -> Any:
            raise ValueError("needs more rows")

        found = self.student(failing)
        assert len(found.labels) == 3
        with pytest.raises(ContractViolation, match="needs more rows"):
            found.predict([1.0])

    def test_labels_cannot_be_altered(self) -> None:
        with pytest.raises(ValueError, match="read-only"):
            self.student(None).labels[0] = 1

    def test_rows_of_another_shape(self) -> None:
        with pytest.raises(ParameterError, match="queries"):
            self.student(Best()).predict([[1.0, 2.0]])


# ---- what it costs --------------------------------------------------------------------------------------------------


class TestInALedger:
    def scope(self, relation: str) -> Any:
        return dpl.Ledger.in_memory().scope("rows", unit="record", relation=relation, budget=dpl.ApproxDP(60, "1e-3"))

    def test_what_was_asked_stands_in_the_outcome_and_predictions_are_free(self) -> None:
        scope = self.scope("replace_one")
        mechanism = by_distances(50, "1e-6", 101, cutoff=2, student="a threshold")
        receipt = scope.release(mechanism, Lesson(spread(), [100.0, 1.0, 50.5, 99.0], Best()))
        parts = receipt.entry.body.parts
        assert isinstance(parts, PostProcessed)
        assert isinstance(parts.of, SparseVectorLaw)
        assert parts.of.outcome == SparseVectorOutcome(closed_epochs=(3,), open_epoch=1, halted=False)
        before = len(scope.releases())
        assert receipt.value.predict(np.arange(1000.0)).shape == (1000,)
        assert len(scope.releases()) == before
        assert receipt.entry.body.warnings == ()

    def test_labels_by_a_noisy_maximum_are_charged_by_their_rho(self) -> None:
        votes = NoisyVotes(sigma=20, chunks=101, max_queries=40)
        ledger = dpl.Ledger.in_memory()
        scope = ledger.scope("rows", unit="record", relation="replace_one", budget=dpl.ZCDP("0.1"))
        receipt: Any = scope.release(LabelPrivateLearner(votes), Lesson(spread(), [100.0, 1.0] * 20, Best()))
        assert receipt.value.predict([70.0, 0.5]).tolist() == [1, 0]
        assert receipt.entry.body.parts == PostProcessed(votes.parts())
        assert scope.account().left_by_account["rho"] == "0"
        ledger.verify()

    def test_what_was_not_charged_comes_back(self) -> None:
        mechanism = by_distances(50, "1e-6", 101, cutoff=4, mode="basic").under(REPLACE, RECORD)
        parts = mechanism.release(Lesson(spread(), [100.0, 1.0]), entropy=seeded(1)).parts
        capped, settled = (cost(tree, REPLACE).pure for tree in (mechanism.parts(), parts))
        assert capped is not None
        assert settled is not None
        assert settled < capped / 4

    def test_under_label_flip_the_record_says_that_features_are_not_protected(self) -> None:
        """The first records by position teach, with their labels; the rows of the others are labelled anew."""
        rng = np.random.default_rng(2)
        rows = rng.random(20_300)
        labels = (rows > 0.4).astype(int)
        teachers = Ensemble.fit(Best(), (rows[:20_000], labels[:20_000]), 101, "slots", progress=False)
        mechanism = by_distances(50, "1e-6", 101, cutoff=20)
        lesson = Lesson(teachers, rows[20_000:], Best())
        receipt = self.scope("label_flip").release(mechanism, lesson)
        assert receipt.entry.body.warnings == (FEATURES,)
        release = mechanism.under(FLIP, RECORD).release(lesson, entropy=seeded(3))
        asked = rng.random(5_000)
        assert np.mean(release.value.predict(asked) != (asked > 0.4)) < 0.02

    def test_hashed_chunks_under_replace_one_are_a_group(self) -> None:
        mechanism = by_distances(5, "1e-4", 61, cutoff=1, chunker=Hashed("salt"))
        assert mechanism.under(ADD, RECORD).claim() == ApproxDP(5, "1e-4")
        parts: Any = mechanism.under(REPLACE, RECORD).parts()
        assert (parts.kind, parts.of.kind, parts.of.k) == ("post_processed", "group", 2)
        assert isinstance(claim := mechanism.under(REPLACE, RECORD).claim(), ApproxDP)
        assert claim.epsilon == 10


class TestPlan:
    def test_what_the_plan_promises_happens(self) -> None:
        """A threshold on a line, realizable: as many records, rows and chunks as planned, of three seeds."""
        plan = label_private_plan(1, "0.3", beta="0.2", epsilon=50, delta="1e-3")
        rng = np.random.default_rng(7)
        mechanism = by_distances(
            50, "1e-3", plan.chunks, cutoff=plan.cutoff, max_queries=plan.public_rows, mode=plan.mode
        ).under(REPLACE, RECORD)
        for seed in range(3):
            rows = rng.random(plan.needed)
            truth = rng.random()
            teachers = Ensemble.fit(Best(), (rows, rows > truth), plan.chunks, "slots", progress=False)
            lesson = Lesson(teachers, rng.random(plan.public_rows), Best())
            student = mechanism.release(lesson, entropy=seeded(seed)).value
            assert int((~student.answered).sum()) <= plan.spoilt
            assert abs(student.model.__self__.cut_ - truth) <= 0.3  # type: ignore[union-attr]
