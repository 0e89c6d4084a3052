"""Learners as scikit-learn classifiers: its own checks, an entry for each fit, every learner on a table."""

from __future__ import annotations

import copy
import pickle
import warnings
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import check_classifiers_predictions, estimator_checks_generator

from dpledger.accounting.guarantees import ZCDP, PureDP
from dpledger.attach.sklearn import LearnerClassifier
from dpledger.errors import BudgetRefused, ImplausiblePromise, KeyReused, ParameterError
from dpledger.ledger.entries.bodies import Committed
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.scope import Scope
from dpledger.mechanisms.learning.booster import PrivateStumpBooster
from dpledger.mechanisms.learning.finite_class import ExponentialPPACLearner
from dpledger.mechanisms.learning.hypotheses import Hypothesis
from dpledger.mechanisms.learning.logistic import PrivateLogisticLearner
from dpledger.mechanisms.learning.parities.parity_learners import FAIL, PrivateParityLearner, RepeatedParity
from dpledger.mechanisms.learning.queries.conjunctions import PrivateConjunctionLearner
from dpledger.mechanisms.learning.queries.thresholds import PrivateSQThresholdLearner
from dpledger.mechanisms.learning.representations.representation_learners import (
    RealizableRepresentationLearner,
    SurrogateAgnosticLearner,
)
from dpledger.mechanisms.learning.representations.representations import HashedPointRepresentation
from dpledger.mechanisms.learning.samples import LabeledSample
from dpledger.mechanisms.learning.tables.binning import Binning
from dpledger.mechanisms.learning.tables.stumps import StumpClass
from dpledger.mechanisms.learning.theory.concepts import FiniteClass, ParityClass, PointClass, ThresholdClass
from dpledger.mechanisms.learning.users.clipped_pairwise import ClippedPairwiseEM
from dpledger.mechanisms.learning.users.thresholds import UserLevelThresholdLearner
from dpledger.mechanisms.learning.users.user_learners import UserLevelProperLearner
from dpledger.mechanisms.numeric import Laplace
from dpledger.relations import Unit

SECOND = Binning({1: [step / 4 for step in range(-20, 21)]}, source="standardised numbers")


def scope_of(budget: Any) -> Scope:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ImplausiblePromise)
        return Ledger.in_memory().scope("rows", unit="record", relation="add_remove", budget=PureDP(budget))


def stump_model(scope: Scope | None = None, classes: Any = (0, 1), epsilon: Any = 100) -> LearnerClassifier:
    learner = ExponentialPPACLearner(StumpClass(SECOND), epsilon=epsilon, monotone=True)
    return LearnerClassifier(learner, SECOND, classes, scope_of(10**9) if scope is None else scope)


# ---- scikit-learn's own checks --------------------------------------------------------------------------------------

NO_ENTRY_RAISES = "whether something is raised would tell of a single record; every entry is read by a total map"
DO_NOT_APPLY = {
    "check_complex_data": NO_ENTRY_RAISES,
    "check_supervised_y_no_nan": NO_ENTRY_RAISES,
    "check_classifiers_regression_target": NO_ENTRY_RAISES,
    "check_classifier_not_supporting_multiclass": NO_ENTRY_RAISES,
    "check_classifier_data_not_an_array": "what computes its entries when it is asked might fail on a single one",
    "check_estimators_empty_data_messages": "no rows are a sample like any other: how many there are may be private",
    "check_classifiers_classes": "it fits two pairs of classes with one model; the classes are declared beforehand",
    "check_estimators_overwrite_params": "it pickles the parameters, and a scope is a handle that does not pickle",
    "check_fit2d_1feature": "it has a single column, and the bins are those of the second",
}
"""Each is seen to fail (an expected failure that passes is an error), and what it means stands in a test below."""


def named(check: Any) -> str:
    """A check by its name and what it is called with."""
    if not isinstance(check, partial):
        return type(check).__name__
    return "-".join([check.func.__name__, *(f"{key}={value}" for key, value in check.keywords.items())])


CHECKS = estimator_checks_generator(stump_model(), expected_failed_checks=DO_NOT_APPLY, mark="xfail")


OF_THE_DETERMINISTIC = {"check_pipeline_consistency"}  # scikit-learn asks only those that are


@pytest.mark.parametrize(
    ("estimator", "check"), [one for one in CHECKS if named(one[1]) not in OF_THE_DETERMINISTIC], ids=named
)
@pytest.mark.filterwarnings("ignore")  # of data that the checks make up
def test_it_is_an_estimator(estimator: Any, check: Any) -> None:
    check(estimator)


class Lazy:
    """An array, or a table, that computes its entries when it is asked."""

    columns = (0, 1)

    def fails(self, *_: object, **__: object) -> Any:
        raise ValueError("the row of Ann is no number")

    __array__ = __iter__ = __len__ = __getitem__ = fails


@pytest.mark.parametrize(("x", "y"), [(Lazy(), [0]), (np.zeros((1, 2)), Lazy())])
def test_what_is_computed_when_it_is_asked_is_refused_unread(x: object, y: object) -> None:
    """Nothing is charged yet, and it might fail on a single record."""
    scope = scope_of(9)
    model = stump_model(scope)
    with pytest.raises(ParameterError, match="what is lazy is computed first"):
        model.fit(x, y)
    lazy = pl.DataFrame({"age": [1]}).lazy()
    with pytest.raises(ParameterError, match="what is lazy is computed first"):
        scope.release(PrivateStumpBooster(Binning({"age": [1]}, source="x"), epsilon=1), LabeledSample(lazy, [1]))
    assert not len(scope.releases())


@pytest.mark.parametrize("classes", [("one", "two"), (-1, 1), (False, True), ("two", "one")], ids=str)
def test_classes_are_what_was_declared(classes: Any) -> None:
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 60)
    x = np.c_[rng.normal(size=60), 4.0 * y - 2 + rng.normal(size=60) / 8]
    for labels in (np.array(classes)[y], np.array(classes)[y].astype("O")):
        model = stump_model(classes=tuple(np.unique(classes).tolist()))
        check_classifiers_predictions(x, labels, "LearnerClassifier", model)
    model = stump_model(classes=classes).fit(x, np.array(classes)[y])
    assert model.classes_.tolist() == sorted(classes)
    assert model.predict(x).tolist() == np.array(classes)[y].tolist()


@pytest.mark.parametrize("classes", [(0, "a"), ("a", 1.5), (True, "b")], ids=str)
def test_a_number_beside_a_text_stays_a_number(classes: Any) -> None:
    x = np.array([[0.0, 0.0], [0.0, 9.0]] * 30)
    model = stump_model(classes=classes).fit(x, [classes[0], classes[1]] * 30)
    assert model.classes_.tolist() == list(classes)
    assert set(map(type, model.predict(x).tolist())) <= set(map(type, classes))


def test_fitting_leaves_the_parameters_as_they_are() -> None:
    model = stump_model()
    before = model.get_params()
    model.fit(np.ones((4, 2)), [0, 1, 1, 1])
    assert all(model.get_params()[name] is value for name, value in before.items())


def test_no_record_makes_it_raise() -> None:
    model = stump_model()
    odd = np.array([[1, 1j], [float("nan"), None], [{}, "x"]], dtype=object)
    for x, y in (
        (np.zeros((0, 2)), []),
        ([], []),
        (odd, [0, 7, None]),
        (odd.tolist(), np.array([0.5, np.nan, np.inf])),
        ([[0], "x", {1: 3}], ["a", [], {}]),
        (np.array([[1, 1j]]), [2]),
        (pd.DataFrame({0: [1, 2], 1: [None, "x"]}), pd.Series([None, "1"])),
    ):
        assert set(model.fit(x, y).predict(odd).tolist()) <= {0, 1}


@pytest.mark.parametrize(
    ("x", "y", "names"),
    [
        (np.zeros(4), np.zeros(4), "Reshape your data"),
        (np.zeros((4, 1)), np.zeros(4), "column 1"),
        (np.zeros((4, 0)), np.zeros(4), r"0 feature\(s\)"),
        (np.zeros((4, 2)), np.zeros(3), "one label a row"),
        (np.zeros((4, 2)), np.zeros((4, 2)), "1d array: one label a row, got 2 columns"),
        (np.zeros((4, 2)), np.zeros((4, 1, 1)), "1d array: one label a row, got 3 axes"),
        (np.zeros((4, 2)), None, "requires y"),
        (np.zeros((4, 2)), "abcd", "rows"),
        (pd.DataFrame({"a": [1], "b": [2]}), [1], "column 1"),
        (3, [1], "two axes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_containers_are_refused_and_nothing_is_spent(x: Any, y: Any, names: str) -> None:
    scope = scope_of(1)
    with pytest.raises(ParameterError, match=names):
        stump_model(scope, epsilon=1).fit(x, y)
    assert scope.spent(0).upper == 0


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"learner": StumpClass(SECOND)}, "learner"),
        ({"learner": Laplace(sensitivity=1, epsilon=1)}, "learner"),
        ({"learner": None}, "learner"),
        ({"learner": ExponentialPPACLearner}, "the class ExponentialPPACLearner"),
        ({"learner": ExponentialPPACLearner(ThresholdClass(41), epsilon=1)}, "binning"),
        ({"learner": PrivateParityLearner(dimension=40, epsilon="0.1")}, "binning"),
        ({"binning": Binning({1: [0]}, source="others")}, "binning"),
        ({"binning": {1: [0]}}, "binning"),
        ({"classes": (0, 1, 2)}, "classes: expected two labels"),
        ({"classes": (1, "1")}, "classes"),
        ({"classes": (0, object())}, "classes"),
        ({"classes": 2}, "classes"),
        ({"scope": "rows"}, "scope"),
        ({"scope": None}, "scope"),
    ],
    ids=lambda value: value if isinstance(value, str) else ", ".join(value),
)
def test_parameters_are_checked_when_it_is_fitted(changes: dict[str, Any], names: str) -> None:
    scope = scope_of(1)
    model = stump_model(scope, epsilon=1).set_params(**changes)
    with pytest.raises(ParameterError, match=names):
        model.fit(np.zeros((4, 2)), np.zeros(4))
    assert scope.spent(0).upper == 0


# ---- each fit is a release ------------------------------------------------------------------------------------------


def test_cross_validation_pays_for_every_fold() -> None:
    scope = scope_of(3)
    x, y = np.ones((40, 2)), np.arange(40) % 2
    assert len(cross_val_score(stump_model(scope, epsilon="0.5"), x, y, cv=4)) == 4
    assert scope.spent(0).upper == pytest.approx(2)
    search = GridSearchCV(stump_model(scope, epsilon=1), {"classes": [(0, 1)]}, cv=2, error_score="raise")
    with pytest.raises(BudgetRefused):
        search.fit(x, y)
    assert scope.spent(0).upper == pytest.approx(3)


def test_a_search_walks_over_the_learners_own_parameters() -> None:
    scope = Ledger.in_memory().scope("rows", unit="record", relation="add_remove", budget=ZCDP(100))
    x = np.random.default_rng(1).uniform(0, 10, (200, 2))
    model = LearnerClassifier(PrivateLogisticLearner(SECOND, rho=1), SECOND, (0, 1), scope)
    assert {"learner__rho", "learner__steps", "learner", "scope"} <= set(model.get_params())
    assert "learner__rho" not in model.get_params(deep=False)
    search = GridSearchCV(model, {"learner__rho": [5, "0.0001"], "learner__steps": [10]}, cv=2, error_score="raise")
    found = search.fit(x, x[:, 1] > 5)
    assert found.best_params_ == {"learner__rho": 5, "learner__steps": 10}
    assert len(scope.releases()) == 2 * 2 + 1
    assert model.learner.rho == 1
    other = model.set_params(learner__rho="0.5", classes=("no", "yes"))
    assert (other.learner.rho, other.classes) == (Decimal("0.5"), ("no", "yes"))
    for wrong, told in (({"learner__sigma": 1}, "learner__sigma"), ({"learner__rho": 0}, "rho"), ({"rate": 1}, "rate")):
        with pytest.raises(ParameterError, match=told):
            model.set_params(**wrong)


def test_a_row_may_not_weigh_more_than_was_paid_for() -> None:
    scope = scope_of(1)
    with pytest.raises(ParameterError, match="sample_weight: expected nothing: all rows weigh alike"):
        stump_model(scope, epsilon=1).fit(np.ones((4, 2)), [0, 1, 0, 1], sample_weight=[1, 1, 1, 9])
    assert scope.spent(0).upper == 0


# ---- what a model says beside its labels -----------------------------------------------------------------------------


def logistic_model(classes: Any) -> LearnerClassifier:
    scope = Ledger.in_memory().scope("rows", unit="record", relation="add_remove", budget=ZCDP(10**6))
    return LearnerClassifier(PrivateLogisticLearner(PEOPLE, rho=1000, classes=len(classes)), PEOPLE, classes, scope)


def test_several_classes_their_chances_and_scores() -> None:
    table = people(900)
    wanted = np.where(table["age"] >= 60, "old", np.where(table["colour"] == "red", "red", "young"))
    model = logistic_model(("young", "red", "old")).fit(table, wanted)
    assert model.score(table, wanted) > 0.95
    chances, scores = model.predict_proba(table), model.decision_function(table)
    assert chances.shape == scores.shape == (900, 3)
    assert chances.sum(axis=1) == pytest.approx(np.ones(900))
    for found in (chances, scores):
        assert (model.classes_[found.argmax(axis=1)] == model.predict(table)).all()
    assert model.classes_.tolist() == ["old", "red", "young"]  # sorted, as scikit-learn's scorers take them
    assert log_loss(wanted, chances) < 0.3
    assert model.__sklearn_tags__().classifier_tags.multi_class
    strange = model.fit(table, np.full(900, "nobody"))  # a label that is no class is the first
    assert set(strange.predict(table)) == {"young"}


def test_a_receiver_curve_of_two_classes() -> None:
    table = people(600)
    ill = (table["age"] >= 60).to_numpy()
    for classes, positive in ((("well", "ill"), "well"), (("ill", "well"), "well"), (("a", "b"), "b")):
        other = next(name for name in classes if name != positive)
        booster = PrivateStumpBooster(PEOPLE, epsilon=60, rounds=3)
        for model in (logistic_model(classes), LearnerClassifier(booster, PEOPLE, classes, scope_of(10**6))):
            model.fit(table, np.where(ill, positive, other))
            assert model.classes_.tolist() == sorted(classes)
            assert model.decision_function(table).shape == (600,)
            assert roc_auc_score(ill, model.decision_function(table)) > 0.95  # of the second of classes_
            assert (model.predict(table) == positive)[ill].all()
            if hasattr(model, "predict_proba"):
                assert roc_auc_score(ill, model.predict_proba(table)[:, 1]) > 0.95
    assert not hasattr(model, "predict_proba")  # how votes are shared is no chance
    assert not hasattr(stump_model(), "decision_function")


def test_under_a_key_it_is_one_fit_for_ever() -> None:
    """Of a clone too; whatever the table is by then, which nothing looks at."""
    scope = scope_of(3)
    x, y = np.c_[np.zeros(40), np.arange(40) - 20.0], np.arange(40) > 20
    learner = ExponentialPPACLearner(StumpClass(SECOND), epsilon=1, monotone=True)
    first = LearnerClassifier(learner, SECOND, (False, True), scope, key="stump").fit(x, y)
    assert first.receipt_.replayed is False
    assert first.get_params()["key"] == "stump"
    for again in (clone(first).fit(x, y), clone(first).fit(x[:3], ~y[:3])):
        assert again.receipt_.replayed is True
        assert again.receipt_.entry == first.receipt_.entry
        assert again.predict(x).tolist() == first.predict(x).tolist()
    assert len(cross_val_score(first, x, y, cv=4)) == 4  # four times the rule of the first
    assert scope.spent(0).upper == 1
    clone(first).set_params(key=None).fit(x, y)
    assert scope.spent(0).upper == 2


def test_a_key_is_of_one_learner_and_its_rule_is_kept() -> None:
    scope = scope_of(100)
    x, y = np.ones((4, 2)), [0, 1, 1, 1]
    stump_model(scope, epsilon=1).set_params(key="stump").fit(x, y)
    with pytest.raises(KeyReused):
        stump_model(scope, epsilon=2).set_params(key="stump").fit(x, y)
    queries = PrivateConjunctionLearner(SECOND.width, epsilon=60)
    model = LearnerClassifier(queries, SECOND, (0, 1), scope, key="queries").fit(x, y)
    assert clone(model).fit(x, y).hypothesis_ == model.hypothesis_
    with pytest.raises(ParameterError, match="key"):
        stump_model(scope, epsilon=1).set_params(key="a name").fit(x, y)
    assert scope.spent(0).upper == 61


def test_a_fit_leaves_an_entry() -> None:
    book = Ledger.in_memory()
    scope = book.scope("rows", unit="record", relation="replace_one", budget=PureDP(2))
    learner = ExponentialPPACLearner(StumpClass(SECOND), epsilon=1)
    model = LearnerClassifier(learner, SECOND, (0, 1), scope).fit(np.ones((4, 2)), [0, 1, 1, 1])
    committed = [entry for entry in book.entries() if isinstance(entry.body, Committed)]
    assert committed == [model.receipt_.entry]
    assert model.receipt_.value == model.hypothesis_
    book.verify()


def test_the_receipt_says_what_the_table_counts_as_and_nothing_of_it() -> None:
    """Labels are words for the classifier, whatever its learner makes of them."""
    whole = stump_model().fit([[0, 1], [1, 2]] * 9, [0, 1] * 9)
    broken = stump_model().fit([[0, 1], [1, None]] * 9, ["0", None] * 9)
    assert whole.receipt_.reads == broken.receipt_.reads
    assert whole.receipt_.reads[-2:] == (
        "labels are compared as words, so that 1, 1.0, True and '1' are one: '1' is the second class",
        "any other label, also NaN or a missing one, is the first, '0'",
    )
    assert stump_model().fit([[0, 1], [1, 9]] * 99, ["0", "1"] * 99).predict([[0, 9]]).tolist() == [1]


def test_what_was_not_fitted_does_not_predict() -> None:
    with pytest.raises(NotFittedError):
        stump_model().predict(np.zeros((1, 2)))


def test_clones_and_copies_spend_in_the_same_scope() -> None:
    scope = scope_of(9)
    model = stump_model(scope, epsilon=1).fit(np.ones((4, 2)), [0, 1, 1, 1])
    for other in (clone(model), copy.deepcopy(model), copy.copy(model)):
        other.fit(np.ones((4, 2)), [0, 1, 1, 1])
    with pytest.raises(NotFittedError):
        clone(model).predict(np.ones((1, 2)))
    assert scope.spent(0).upper == pytest.approx(4)


def test_a_pickled_model_predicts_and_has_no_scope() -> None:
    model = stump_model().fit(np.c_[np.zeros(40), np.arange(40) - 20], np.arange(40) > 20)
    other = pickle.loads(pickle.dumps(model))
    rows = np.c_[np.zeros(9), np.arange(9) - 4]
    assert other.predict(rows).tolist() == model.predict(rows).tolist()
    with pytest.raises(ParameterError, match="pickled"):
        other.fit(rows, rows[:, 1] > 0)


def test_a_column_of_labels_is_told_of() -> None:
    with pytest.warns(DataConversionWarning, match="column-vector"):
        stump_model().fit(np.ones((4, 2)), np.ones((4, 1)))


# ---- every learner of the house -------------------------------------------------------------------------------------

PEOPLE = Binning({"age": [20, 40, 60]}, {"colour": ["red", "blue"]}, source="a form")  # 5 x 3 rows, 5 tests
POINTS = PEOPLE.points
HASHED = HashedPointRepresentation(dimension=4, bits=3, a="0.3", seed=7)
OF_SIXTEEN = Binning({"age": list(range(10, 150, 10))}, source="decades")  # 16 bins, one of them for no number
LEARNERS: dict[str, tuple[Any, Binning]] = {
    "stumps": (ExponentialPPACLearner(StumpClass(PEOPLE), epsilon=60), PEOPLE),
    "booster": (PrivateStumpBooster(binning=PEOPLE, epsilon=60, rounds=3), PEOPLE),
    "points": (ExponentialPPACLearner(PointClass(POINTS), epsilon=60), PEOPLE),
    "thresholds": (ExponentialPPACLearner(ThresholdClass(POINTS), epsilon=60), PEOPLE),
    "matrix": (ExponentialPPACLearner(FiniteClass(np.tri(16, POINTS, -1, dtype=int)), epsilon=60), PEOPLE),
    "parities": (ExponentialPPACLearner(ParityClass(PEOPLE.width), epsilon=60), PEOPLE),
    "parity": (PrivateParityLearner(dimension=PEOPLE.width, sampling_rate="0.9"), PEOPLE),
    "repeated parity": (
        RepeatedParity(dimension=PEOPLE.width, sampling_rate="0.9", mode="first_success", runs=40),
        PEOPLE,
    ),
    "conjunction": (PrivateConjunctionLearner(PEOPLE.width, epsilon=60), PEOPLE),
    "statistical threshold": (PrivateSQThresholdLearner(POINTS, epsilon=600), PEOPLE),
    "representation": (RealizableRepresentationLearner(representation=HASHED, epsilon=60), OF_SIXTEEN),
    "surrogates": (
        SurrogateAgnosticLearner(concept_class=PointClass(16), representation=HASHED, epsilon=60),
        OF_SIXTEEN,
    ),
}


def people(rows: int) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    ages = rng.integers(0, 150, rows).astype(float)
    colours = np.array(["red", "blue", "green", None], dtype=object)
    return pd.DataFrame({"colour": rng.choice(colours, rows), "age": ages, "name": "x"})


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_learns_from_a_table(name: str) -> None:
    """Labels that a concept of its class has: the bits of a parity, a point, else people of 60 and more."""
    learner, binning = LEARNERS[name]
    table = people(400)
    match name:
        case "points":
            wanted = (table["age"] >= 60) & (table["colour"] == "red")
        case "representation" | "surrogates":
            wanted = (table["age"] >= 60) & (table["age"] < 70)
        case "parities" | "parity" | "repeated parity":
            wanted = (table["age"] >= 60) ^ (table["colour"] == "red")
        case "conjunction":
            wanted = (table["age"] >= 60) & (table["colour"] != "red")
        case "thresholds" | "matrix" | "statistical threshold":  # of points: the last column counts most
            wanted = table["colour"] != "blue"
        case _:
            wanted = table["age"] >= 60
    labels = wanted.map({True: "yes", False: "no"})
    model = LearnerClassifier(learner, binning, ("no", "yes"), scope_of(10**6))
    for _ in range(40):  # a parity may answer FAIL, which is then told
        model.fit(table, labels)
        assert isinstance(model.hypothesis_, Hypothesis) or model.hypothesis_ is FAIL
        if model.hypothesis_ is not FAIL:
            break
    assert model.feature_names_in_.tolist() == ["colour", "age", "name"]
    assert (model.predict(table) == labels).mean() > (0.9 if name in ("representation", "surrogates") else 0.99)
    assert model.predict(table.iloc[:0]).tolist() == []


def test_fail_predicts_the_first_class() -> None:
    table = people(30)
    learner = PrivateParityLearner(dimension=PEOPLE.width, sampling_rate="0.1", fail_probability="0.999")
    model = LearnerClassifier(learner, PEOPLE, ("no", "yes"), scope_of(10**6)).fit(table, ["yes"] * 30)
    assert model.hypothesis_ is FAIL
    assert set(model.predict(table)) == {"no"}


def test_a_table_with_columns_in_another_order_is_refused_by_name() -> None:
    table = people(20)
    learner, binning = LEARNERS["stumps"]
    model = LearnerClassifier(learner, binning, ("no", "yes"), scope_of(100)).fit(table, ["yes"] * 20)
    with pytest.raises(ValueError, match="order"):
        model.predict(table[["age", "colour", "name"]])


# ---- users ----------------------------------------------------------------------------------------------------------

YEARS = Binning({"age": [20, 40, 60, 80]}, source="a form")
OF_USERS: dict[str, Any] = {
    "proper": UserLevelProperLearner.planned(ThresholdClass(YEARS.points), 20, "0.3", "0.1", epsilon=20),
    "thresholds": UserLevelThresholdLearner(ThresholdClass(YEARS.points), epsilon=40, alpha="0.3"),
    "clipped": ClippedPairwiseEM(ThresholdClass(YEARS.points), epsilon=20, clip=10),
    "rows": ExponentialPPACLearner(ThresholdClass(YEARS.points), epsilon=20),
}


def users_scope() -> Scope:
    unit = Unit("user", max_contributions=20)
    return Ledger.in_memory().scope("users", unit=unit, relation="replace_one", budget=PureDP(100))


@pytest.mark.parametrize("name", OF_USERS)
def test_learners_of_users_take_an_id_beside_each_row(name: str) -> None:
    """A user with fewer rows than the unit may contribute is left out, but of who learns from rows; one with more is
    cut."""
    rng = np.random.default_rng(4)
    ids = np.array([*np.repeat(np.arange(300), 20), *[900] * 50, 901])
    table = pd.DataFrame({"age": rng.integers(0, 100, len(ids))})
    labels = table["age"] < 60
    model = LearnerClassifier(OF_USERS[name], YEARS, (False, True), users_scope())
    model.fit(table, labels, units=[f"user {id_}" for id_ in ids])
    assert (model.predict(table) == labels).mean() > 0.99


def test_an_id_beside_each_row_is_asked_for() -> None:
    table = pd.DataFrame({"age": [1, 2]})
    for name, units, told in (
        ("rows", None, "an id for each row"),
        ("rows", [1], "an id for each row"),
        ("proper", None, "id of a user"),
        ("proper", [1], "id"),
    ):
        scope = users_scope()
        with pytest.raises(ParameterError, match=told):
            LearnerClassifier(OF_USERS[name], YEARS, (0, 1), scope).fit(table, [0, 1], units=units)
        assert scope.spent(0).upper == 0
