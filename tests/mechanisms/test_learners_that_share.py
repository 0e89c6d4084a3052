"""Every chunk has a learner of its own, or the learner is refused before a private row is touched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import sharing_learners
from dpledger.errors import ParameterError
from dpledger.mechanisms.stability.ensembles import ensemble, learners
from dpledger.mechanisms.stability.ensembles.chunkers import Hashed
from dpledger.mechanisms.stability.ensembles.ensemble import Ensemble, queries_of, votes_of
from sharing_learners import RIGHT, SHARING, train

pytestmark = pytest.mark.sliced

CHUNKS = 9
COINS = np.random.default_rng(20261128)
ROWS = COINS.normal(size=(150, 2))
LABELS = COINS.integers(2, size=150)
ASKED = COINS.normal(size=(40, 2))
MADE_UP = np.array([[0.0, 0.0], [1.0, 1.0]]), [0, 1]
PEOPLE = np.array([f"person {i}" for i in range(150)])

APART = [name for name, (expected, _) in SHARING.items() if expected == "apart"]
REFUSED = [name for name, (expected, _) in SHARING.items() if expected == "refused"]


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """What a test left in the module of numpy goes."""
    yield
    vars(np).pop("last_model", None)


def votes(learner: Any, kept: Any = slice(None), chunks: int = CHUNKS, **given: Any) -> Any:
    """How all models vote. A person is in the same chunk whoever else there is."""
    data = ROWS[kept], LABELS[kept]
    fitted = Ensemble.fit(learner, data, chunks, Hashed("s"), ids=PEOPLE[kept], progress=False, **given)
    return votes_of(fitted, queries_of(fitted, ASKED))


def homes() -> Any:
    """The chunk of each person."""

    def present(rows: Any, labels: Any) -> Any:
        return lambda asked: np.isin(asked[:, 0], rows[:, 0]).astype(int)

    fitted = Ensemble.fit(present, (ROWS, LABELS), CHUNKS, Hashed("s"), ids=PEOPLE, progress=False)
    return (votes_of(fitted, queries_of(fitted, ROWS)) == 1).argmax(axis=0)


def unheard(monkeypatch: pytest.MonkeyPatch) -> None:
    """No rehearsal."""
    monkeypatch.setattr(ensemble, "rehearse", lambda *args, **given: None)


class TestEveryChunkHasItsOwn:
    @pytest.mark.parametrize("name", [*APART, *RIGHT])
    def test_a_chunk_votes_as_it_does_alone(self, name: str) -> None:
        make = SHARING[name][1] if name in SHARING else RIGHT[name]
        together = votes(make())
        for chunk in (0, 4, 8):
            alone = votes(make(), homes() == chunk)
            assert alone[chunk].tolist() == together[chunk].tolist()
            assert set(np.delete(alone, chunk, axis=0).flat) == {-1}
        assert (together >= 0).mean() > 0.5

    @pytest.mark.parametrize("name", REFUSED)
    def test_or_the_learner_is_refused(self, name: str) -> None:
        with pytest.raises(
            ParameterError, match="keeps nothing from one chunk to the next: make the estimator"
        ) as told:
            votes(SHARING[name][1]())
        for secret in (ROWS[0, 0], LABELS.tolist(), PEOPLE[0]):
            assert str(secret) not in str(told.value)

    def test_the_tables_have_what_was_found(self) -> None:
        assert len(SHARING) >= 14
        assert len(RIGHT) >= 11
        assert min(len(APART), len(REFUSED)) >= 5

    @pytest.mark.parametrize("name", ["a_global_estimator", "an_estimator", "a_class", "coins_of_its_seed"])
    def test_in_worker_processes_too(self, name: str) -> None:
        make = SHARING[name][1] if name in SHARING else RIGHT[name]
        assert votes(make(), jobs=2).tolist() == votes(make()).tolist()

    @pytest.mark.parametrize("name", ["a_class_attribute", "a_static_method_that_fits_a_global_estimator"])
    def test_refused_in_worker_processes_too(self, name: str) -> None:
        with pytest.raises(ParameterError, match="keeps nothing from one chunk to the next"):
            votes(SHARING[name][1](), jobs=2)


class TestWhatIsSaid:
    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("a_class_attribute", "InItsClass.first"),
            ("a_class_that_keeps_its_model", "OneForAll.model"),
            ("a_method_whose_default_is_a_generator", "WithADefault.learn.defaults"),
            ("an_attribute_of_its_module", "sharing_learners.LAST"),
            ("a_static_method_that_fits_a_global_estimator", "sharing_learners.MODEL"),
        ],
    )
    def test_what_is_shared_is_named(self, name: str, said: str) -> None:
        with pytest.raises(ParameterError, match=said.replace(".", r"\.")):
            votes(SHARING[name][1]())

    def test_what_is_filled_once_is_named_again(self) -> None:
        """As where a cell of a notebook runs a second time."""

        class Once:
            model: ClassVar[Any] = None

            def __call__(self, rows: Any, labels: Any) -> Any:
                if Once.model is None:
                    Once.model = DecisionTreeClassifier(random_state=0).fit(rows, labels)
                return Once.model.predict

        for _ in range(3):
            with pytest.raises(ParameterError, match=r"share .*Once\.model"):
                votes(Once())
        Once.model = DecisionTreeClassifier(random_state=0).fit(*MADE_UP)
        assert len({str(row) for row in votes(Once()).tolist()}) == 1  # of what everybody knows

    def test_a_cache_by_the_number_of_rows(self) -> None:
        class BySize:
            models: ClassVar[dict[int, Any]] = {}

            def __call__(self, rows: Any, labels: Any) -> Any:
                return self.models.setdefault(len(rows), DecisionTreeClassifier().fit(rows, labels)).predict

        for _ in range(3):
            with pytest.raises(ParameterError, match=r"share .*BySize\.models"):
                votes(BySize())

    def test_a_function_of_another_module_of_the_caller(self) -> None:
        with pytest.raises(ParameterError, match=r"share sharing_learners\.MODEL"):
            votes(lambda rows, labels: sharing_learners.train(rows, labels))
        assert len({str(row) for row in votes(lambda rows, labels: train(rows, labels)).tolist()}) > 1

    def test_a_learner_that_fits_nothing_made_up(self) -> None:
        def picky(rows: Any, labels: Any) -> Any:
            raise ValueError(rows)

        with pytest.raises(ParameterError, match="picky, one that fails on all of them") as told:
            votes(picky)
        assert told.value.__cause__ is None

    def test_a_global_that_cannot_be_copied_is_named(self) -> None:
        with pytest.raises(ParameterError, match=r"test_learners_that_share\.STREAM: cannot pickle"):
            votes(lambda rows, labels: STREAM)


STREAM = (number for number in range(3))


class TestNoPrivateRowIsTouchedBefore:
    def test_where_it_is_refused(self) -> None:
        class Watched:
            """Rows that nobody may look at."""

            shape, ndim, dtype = (150, 2), 2, np.dtype(float)

            def __len__(self) -> int:
                return 150

            def __getitem__(self, place: Any) -> Any:
                raise AssertionError("a private row")

        with pytest.raises(ParameterError, match="keeps nothing from one chunk to the next"):
            Ensemble.fit(sharing_learners.InItsClass(), (Watched(), Watched()), 3, "slots", progress=False)

    def test_only_made_up_rows_are_rehearsed_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[Any] = []
        monkeypatch.setattr(learners, "own", lambda one: one)  # the closure is ours, then
        monkeypatch.setattr(learners, "own_copy", np.copy)

        def spy(rows: Any, labels: Any) -> Any:
            seen.append(rows.copy())
            raise ValueError

        with pytest.raises(ParameterError, match=r"share .*seen"):
            votes(spy)
        assert seen
        assert not any(np.isin(rows, ROWS).any() for rows in seen)


class KeepsTheFirstScaler:
    """Scales by the first chunk, and fits a line of its own."""

    scaler: ClassVar[Any] = None

    def fit(self, rows: Any, labels: Any) -> None:
        KeepsTheFirstScaler.scaler = KeepsTheFirstScaler.scaler or StandardScaler().fit(rows)
        self.line = LogisticRegression().fit(self.scaler.transform(rows), labels)

    def predict(self, asked: Any) -> Any:
        return self.line.predict(self.scaler.transform(asked))


def test_a_second_try_of_a_refused_learner_is_refused_too() -> None:
    """What a rehearsal has filled does not change again here, but would in a worker process that rehearsed nothing."""
    for _ in range(3):
        with pytest.raises(ParameterError, match=r"share KeepsTheFirstScaler\.scaler"):
            votes(KeepsTheFirstScaler())
    KeepsTheFirstScaler.scaler = None


class TestMadeUpRowsSuitTheData:
    @pytest.mark.parametrize("reader", [TfidfVectorizer(), CountVectorizer(min_df=2, stop_words="english")])
    def test_texts(self, reader: Any) -> None:
        """Made-up texts have words of more than one letter, that are no stop words."""
        texts = np.array(["a good film", "a bad film"] * 30, dtype=object)
        learner = make_pipeline(reader, LogisticRegression())
        fitted = Ensemble.fit(learner, (texts, [1, 0] * 30), 5, "slots", words=(0,), progress=False)
        found = votes_of(fitted, queries_of(fitted, ["a bad film", "a good film"]))
        assert found.tolist() == [[0, 1]] * 5

    @pytest.mark.parametrize("words", [(), ("word",)], ids=["numbers", "words"])
    def test_tables(self, words: tuple[str, ...]) -> None:
        table = pd.DataFrame({"word": ["up", "down"] * 30 if words else [1, 2] * 30, "number": range(60)})
        learner = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression())
        fitted = Ensemble.fit(learner, (table, [1, 0] * 30), 5, "slots", words=words, progress=False)
        assert votes_of(fitted, queries_of(fitted, table.iloc[:2])).tolist() == [[1, 0]] * 5

    @pytest.mark.parametrize("shape", [(), (1,), (7,), (4, 3)], ids=str)
    @pytest.mark.parametrize("classes", [2, 3, 1000, None], ids=str)
    def test_arrays_of_any_shape(self, shape: tuple[int, ...], classes: int | None) -> None:
        def learn(rows: Any, labels: Any) -> Any:
            assert rows.shape[1:] == shape
            tree = DecisionTreeClassifier(random_state=0).fit(rows.reshape(len(rows), -1), labels)
            return lambda asked: tree.predict(asked.reshape(len(asked), -1))

        Ensemble.fit(learn, (np.ones((9, *shape)), np.zeros(9)), 3, "slots", classes=classes, progress=False)

    @pytest.mark.parametrize("rows", [[[1, 2, 3]] * 9, [5] * 9], ids=["lists", "numbers"])
    def test_lists_of_unknown_length(self, rows: Any) -> None:
        width = len(np.shape(rows)) - 1 and np.shape(rows)[1]

        def learn(seen: Any, labels: Any) -> Any:
            if width:
                _, _, last = seen.T
                return lambda asked: [int(row[2] > last.mean()) for row in asked]
            return lambda asked: [int(number > seen.mean()) for number in asked]

        fitted = Ensemble.fit(learn, (rows, [0] * 9), 3, "slots", progress=False)
        assert votes_of(fitted, queries_of(fitted, rows[:2])).tolist() == [[0, 0]] * 3

    def test_rows_without_labels(self) -> None:
        def learn(rows: Any, labels: Any) -> Any:
            assert labels is None
            return lambda asked: (asked > np.median(rows)).astype(int)

        Ensemble.fit(learn, np.arange(9.0), 3, "slots", progress=False)


class TestOnePersonDecidesNothing:
    """The game of issue 21: 400 chunks, a global estimator, and a person who is alone in the last chunk."""

    LEARN: Any = staticmethod(SHARING["a_global_estimator"][1]())

    @staticmethod
    def altered(learner: Any) -> int:
        """How many models vote otherwise on some query, once the person in the last chunk has the other label."""
        rows, labels = np.arange(1200.0).reshape(1200, 1) % 3, np.arange(1200) % 2
        flipped = labels.copy()
        flipped[399::400] = 1 - labels[399::400]
        found = []
        for each in (labels, flipped):
            fitted = Ensemble.fit(learner, (rows, each), 400, "slots", progress=False)
            found.append(votes_of(fitted, queries_of(fitted, np.arange(3.0).reshape(3, 1))))
        return int((found[0] != found[1]).any(axis=1).sum())

    def test_a_global_estimator_is_one_for_each_chunk(self) -> None:
        assert self.altered(self.LEARN) == 1

    def test_without_copies_and_rehearsal_one_person_decides_all(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(learners, "own", lambda one: one)
        with pytest.raises(ParameterError, match="keeps nothing"):
            self.altered(self.LEARN)
        unheard(monkeypatch)
        assert self.altered(self.LEARN) == 400

    def test_nor_without_rehearsal_alone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        unheard(monkeypatch)
        assert self.altered(sharing_learners.Static()) == 400
