"""Logistic regression: how far a row moves its sums, the price of its noise, the law of a step, real data."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split

from dpledger.accounting.guarantees import ZCDP
from dpledger.errors import BudgetRefused
from dpledger.ledger.ledger import Ledger
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.learning import logistic
from dpledger.mechanisms.learning.hypotheses import Hypothesis
from dpledger.mechanisms.learning.logistic import LogisticModel, PrivateLogisticLearner
from dpledger.mechanisms.learning.samples import LabeledSample, class_labels_of
from dpledger.mechanisms.learning.tables.binning import Binning
from dpledger.mechanisms.learning.tables.stumps import StumpClass
from dpledger.mechanisms.learning.tables.weighted_bins import (
    STEPS,
    BinSums,
    WeightedBins,
    chances_of,
    missed_steps,
    scores_of,
)
from dpledger.relations import Relation, Unit
from learning_tables import ENTRIES, SMALL, OfTables, cancer_bins

pytestmark = pytest.mark.sliced

Floats = npt.NDArray[np.float64]

NAN = float("nan")
NULL = [None, None, None]
ROW = st.tuples(*(st.sampled_from(one) for one in ENTRIES)).map(list)
CHANGES = {Relation.ADD_REMOVE: 1, Relation.ZERO_OUT: 1, Relation.LABEL_FLIP: 1, Relation.REPLACE_ONE: 2}


class TestConforms(OfTables):
    bad_parameters = (
        {"rho": 0},
        {"rho": NAN},
        {"rho": "1e-60"},
        {"binning": StumpClass(SMALL)},
        {"steps": 0},
        {"steps": 2.5},
        {"classes": 1},
        {"classes": 256},
        {"pairs": ((0, 0),)},
        {"pairs": ((0, 7),)},
        {"pairs": ((0, 1), (1, 0))},
        {"pairs": (0, 1)},
    )

    def make(self, **changes: Any) -> Any:
        return PrivateLogisticLearner(**{"binning": SMALL, "rho": "0.5", "steps": 3, **changes})


class TestConformsWithClasses(TestConforms):
    def make(self, **changes: Any) -> Any:
        return super().make(**{"classes": 3, "pairs": ((0, 2), (1, 2)), **changes})


# ---- what one row moves ----------------------------------------------------------------------------------------------


CELLS = WeightedBins(SMALL, ())


def missed(
    rows: Sequence[object], labels: Sequence[int], weights: Floats, having: WeightedBins = CELLS
) -> tuple[Floats, Floats]:
    """The counts of all bins, and the sums of what is missed at these weights, in rows."""
    read = SMALL.read(list(rows))
    cells = having.of(read)
    sums = BinSums(cells, read.known, having.bins)
    steps = missed_steps(chances_of(scores_of(weights, cells)), np.array(labels, dtype=np.intp))
    counts = sums.of(np.full(len(read.known), STEPS, dtype=np.int64))
    return counts / STEPS, np.stack([sums.of(one) for one in steps]) / STEPS


@pytest.mark.parametrize("relation", Relation, ids=str)
@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(ROW, min_size=1, max_size=5),
    labels=st.lists(st.integers(0, 2), min_size=7, max_size=7),
    other=ROW,
    classes=st.sampled_from([2, 3]),
    scale=st.sampled_from([0.0, 1.0, 40.0]),
    seed=st.integers(0, 10**6),
    pairs=st.sampled_from([(), ((0, 2),), ((1, 0), (2, 1))]),
)
def test_no_neighbour_moves_the_sums_further_than_the_noise_is_for(
    relation: Relation,
    rows: list[Any],
    labels: list[int],
    other: list[Any],
    classes: int,
    scale: float,
    seed: int,
    pairs: Any,
) -> None:
    """Whatever the weights are: they are what was released before."""
    learner = PrivateLogisticLearner(SMALL, rho=1, classes=classes, pairs=pairs).under(relation, Unit())
    weights = scale * np.random.default_rng(seed).normal(size=(learner._scored, learner._cells.bins))
    y = [label % classes for label in labels]
    near = missed(rows, y[: len(rows)], weights, learner._cells)
    rest, kept = rows[1:], y[1 : len(rows)]
    match relation:
        case Relation.ADD_REMOVE:
            far = missed(rest, kept, weights, learner._cells)
        case Relation.ZERO_OUT:
            far = missed([NULL, *rest], [0, *kept], weights, learner._cells)
        case Relation.LABEL_FLIP:
            far = missed(rows, [(y[0] + 1) % classes, *kept], weights, learner._cells)
        case Relation.REPLACE_ONE:
            far = missed([other, *rest], [y[6], *kept], weights, learner._cells)
    assert np.linalg.norm(near[1] - far[1]) <= float(learner._sensitivity.value) * (1 + 1e-12)
    if relation is Relation.LABEL_FLIP:
        assert np.array_equal(near[0], far[0])
    assert np.linalg.norm(near[0] - far[0]) <= float(learner._count_sensitivity.value) * (1 + 1e-12)


@pytest.mark.parametrize("pairs", [(), ((0, 2),)], ids=["columns", "a pair"])
@pytest.mark.parametrize("classes", [2, 3])
def test_a_row_may_move_them_as_far_as_that(classes: int, pairs: Any) -> None:
    """Weights that are sure of a wrong class: nearly the bound, and beyond what columns and pairs alone would say."""
    learner = PrivateLogisticLearner(SMALL, rho=1, classes=classes, pairs=pairs).under(Relation.ADD_REMOVE, Unit())
    weights = np.zeros((learner._scored, learner._cells.bins))
    weights[-1] = 40
    moved = float(np.linalg.norm(missed([[20, 1, "red"]], [0], weights, learner._cells)[1]))
    assert moved == pytest.approx(float(learner._sensitivity.value), rel=1e-5)
    assert moved > math.sqrt((len(SMALL.features) + len(pairs)) * min(classes - 1, 2)) * 1.01


@settings(max_examples=40, deadline=None)
@given(rows=st.lists(ROW, min_size=2, max_size=9), seed=st.integers(0, 10**6), classes=st.sampled_from([2, 4]))
def test_what_a_row_misses_is_its_own_to_the_last_bit(rows: list[Any], seed: int, classes: int) -> None:
    weights = 3 * np.random.default_rng(seed).normal(size=(1 if classes == 2 else classes, CELLS.bins))

    def steps(some: list[Any]) -> npt.NDArray[np.int64]:
        cells = CELLS.of(SMALL.read(some))
        chances = chances_of(scores_of(weights, cells))
        return missed_steps(chances, np.ones(len(some), dtype=np.intp))

    whole = steps(rows)
    for place, row in enumerate(rows):
        assert np.array_equal(whole[:, place], steps([row])[:, 0])
        assert np.array_equal(whole[:, place], steps([*rows[place:], *rows[:place]])[:, 0])


# ---- what it costs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("relation", "rows", "classes"), list(itertools.product(Relation, (1, 5), (2, 7))), ids=str)
def test_counts_and_steps_together_cost_rho_and_hardly_less(relation: Relation, rows: int, classes: int) -> None:
    learner = PrivateLogisticLearner(SMALL, rho="0.3", classes=classes, steps=11).under(relation, Unit("user", rows))
    per_row = Fraction(1 if classes == 2 else 2) * 4  # squared: bins of three columns, and of all rows
    moved = (rows * CHANGES[relation]) ** 2
    steps = 11 * moved * per_row / (2 * Fraction(learner._noise.sigma) ** 2)
    counts = moved * 4 / (2 * Fraction(learner._count_noise.sigma) ** 2)
    rho = steps if relation is Relation.LABEL_FLIP else steps + counts
    assert 0.9999 * 0.3 < rho <= Fraction("0.3")
    assert learner.claim() == ZCDP("0.3")


def test_a_step_follows_the_law_of_its_noise() -> None:
    """Of one step from weights 0, where counts are public: a normal law; half its deviation is told apart."""
    learner = PrivateLogisticLearner(SMALL, rho="0.02", steps=1).under(Relation.LABEL_FLIP, Unit())
    rows, labels = [[20, 1, "red"]] * 40 + [[70, 2, 7]] * 60, [1] * 30 + [0] * 70
    found = learner.sample(LabeledSample(rows, labels), 2000, seeded(8))[:, 0] / STEPS
    counts, sums = missed(rows, labels, np.zeros((1, CELLS.bins)))
    sigma = float(learner._noise.sigma)
    weighed = (np.maximum(counts, 1) * logistic.CURVED + sigma) / (logistic.PACE / 4)
    noise = ((-found * weighed - sums[0]) / sigma).ravel()
    assert stats.kstest(noise, stats.norm.cdf).pvalue > 1e-6
    assert stats.kstest(2 * noise, stats.norm.cdf).pvalue < 1e-6


# ---- what is learned -------------------------------------------------------------------------------------------------


def test_labels_that_are_no_class_count_as_the_first() -> None:
    assert class_labels_of([2, "1", 3, -1, 1.5, NAN, None, True, 10**400], 3).tolist() == [2, 1, 0, 0, 0, 0, 0, 1, 0]


def test_a_model_says_scores_chances_and_the_likeliest() -> None:
    model = LogisticModel(SMALL, 3, tuple((STEPS * c, *([0] * (CELLS.bins - 1))) for c in range(3)))
    assert isinstance(model, Hypothesis)
    assert model.predict([[20, 1, "red"]]).tolist() == [2]
    assert model.scores([[20, 1, "red"]]).tolist() == [[0, 1, 2]]
    weights = np.exp([0, 1, 2])
    assert model.probabilities([[20, 1, "red"]])[0] == pytest.approx(weights / weights.sum())
    two = LogisticModel(SMALL, 2, ((-STEPS, *([0] * (CELLS.bins - 1))),))
    assert (two.predict([NULL]).tolist(), two.scores([NULL]).tolist()) == ([0], [-1.0])
    assert two.probabilities([NULL])[0] == pytest.approx([1 / (1 + math.exp(-1)), 1 / (1 + math.e)])


def accuracy(data: Any, binning: Binning, rho: object, splits: int) -> float:
    """The mean of one release a split, on the rows that it was not given."""
    x, y = data
    learner = PrivateLogisticLearner(binning, rho=rho, classes=len(set(y))).under(Relation.ADD_REMOVE, Unit())  # type: ignore[arg-type]
    right = []
    for split in range(splits):
        train, test, labels, wanted = train_test_split(x, y, train_size=0.75, random_state=split)
        found = learner.release(LabeledSample(train, labels), entropy=seeded(split)).value
        right.append(float((found.predict(test) == wanted).mean()))
    return float(np.mean(right))


def test_it_learns_digits_and_tumours() -> None:
    """rho 0.1 is epsilon 2.2 at 1e-5, rho 1 is 7.4; docs/private_learning.md has more."""
    digits = load_digits(return_X_y=True)
    grey = Binning.equal(dict.fromkeys(range(64), (0, 16)), bins=3, source="levels of grey")
    assert accuracy(digits, grey, "0.1", 3) > 0.75
    assert accuracy(digits, grey, 1, 3) > 0.85
    cancer: Any = load_breast_cancer(return_X_y=True)
    assert accuracy(cancer, cancer_bins(cancer[0]), "0.1", 3) > 0.88


def test_a_scope_has_room_for_as_many_as_its_rho_and_keeps_them() -> None:
    scope = Ledger.in_memory().scope("rows", unit="record", relation="replace_one", budget=ZCDP(1))
    learner, data = PrivateLogisticLearner(SMALL, rho="0.5"), LabeledSample([[20, 1, "red"]], [1])
    first, _, again = (scope.release(learner, data, key=key) for key in ("one", "two", "one"))
    assert again.replayed
    assert again.value == first.value
    with pytest.raises(BudgetRefused):
        scope.release(learner, data, key="three")


def test_a_pair_of_columns_learns_what_no_sum_of_columns_says() -> None:
    """One of two, and not both: each column alone tells nothing."""
    bins = Binning({0: [0], 1: [0]}, source="made up")
    x = np.random.default_rng(1).uniform(-1, 1, (2000, 2))
    y = (x[:, 0] > 0) != (x[:, 1] > 0)
    right = {}
    for pairs in ((), ((0, 1),)):
        learner = PrivateLogisticLearner(bins, rho=1, pairs=pairs).under(Relation.ADD_REMOVE, Unit())
        found = learner.release(LabeledSample(x, y), entropy=seeded(1)).value
        right[len(pairs)] = float((found.predict(x) == y).mean())
    assert right[1] > 0.99
    assert right[0] < 0.7
