"""Learners of rows where one unit may have many: they are told whose each row is, and take so many of each."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dpledger as dpl
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.learning.row_learner import RowLearner
from dpledger.mechanisms.learning.samples import LabeledSample, capped
from dpledger.relations import Relation, Unit

CLASS = dpl.learning.ThresholdClass(2)
BITS = dpl.learning.HashedPointRepresentation(dimension=4, bits=3, a="0.3", seed=7)
LEARNERS: dict[str, Any] = {
    "class": dpl.learning.ExponentialPPACLearner(CLASS, epsilon=1),
    "stumps": dpl.learning.PrivateStumpBooster(
        binning=dpl.learning.Binning({0: [1]}, source="made up"), epsilon=1, rounds=2
    ),
    "logistic": dpl.learning.PrivateLogisticLearner(dpl.learning.Binning({0: [1]}, source="made up"), rho=1, steps=2),
    "conjunction": dpl.learning.PrivateConjunctionLearner(2, epsilon=1),
    "threshold": dpl.learning.PrivateSQThresholdLearner(2, epsilon=1),
    "parity": dpl.learning.PrivateParityLearner(dimension=2, epsilon=1),
    "repeated": dpl.learning.RepeatedParity(dimension=2, epsilon=1, mode="basic", runs=2),
    "representation": dpl.learning.RealizableRepresentationLearner(representation=BITS, epsilon=1),
    "surrogate": dpl.learning.SurrogateAgnosticLearner(
        concept_class=CLASS, representation=dpl.learning.TrivialRepresentation(CLASS), epsilon=1
    ),
}
THREE = Unit("user", max_contributions=3)
ROWS: dict[str, Any] = {
    **dict.fromkeys(("stumps", "logistic"), [[0], [1], [2]] * 3),
    "conjunction": [[0, 1], [1, 1], [1, 0]] * 3,
}


def sample(name: str, **units: Any) -> LabeledSample:
    return LabeledSample(ROWS.get(name, [0, 1, 1] * 3), [0, 1, 1] * 3, **units)


def placed(name: str, relation: Relation = Relation.REPLACE_ONE) -> RowLearner:
    learner: RowLearner = LEARNERS[name].under(relation, THREE)
    return learner


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_of_rows_asks_whose_they_are_and_runs_on_them(name: str) -> None:
    learner: Any = placed(name)
    for run in (
        learner.inspect,
        lambda data: learner.release(data, entropy=seeded(1)),
        lambda data: learner.sample(data, 2, seeded(1)),
    ):
        with pytest.raises(ParameterError, match=r"units: .*units=ids.*one user may have 3 rows"):
            run(sample(name))
    data = sample(name, units=["ann"] * 7 + ["bob"] * 2)
    learner.inspect(data)
    assert learner.release(data, entropy=seeded(1)).parts == learner.parts()
    assert len(learner.sample(data, 4, seeded(1))) == 4
    assert any("at most 3 rows count, taken at random" in said for said in learner.values_read_as())
    assert not any("at random" in said for said in LEARNERS[name].values_read_as())


def test_a_repeated_run_that_finds_a_parity_at_once_is_over() -> None:
    """With one run left to go on, and none that does: it raised."""
    learner = dpl.learning.RepeatedParity(dimension=2, epsilon=50, mode="basic", runs=3, fail_probability="1e-9")
    assert (learner.sample(LabeledSample([1, 2], [1, 0]), 1, seeded(1)) >= 0).all()


def test_at_most_so_many_of_each_are_kept_each_as_likely_as_another() -> None:
    units = ["ann"] * 5 + ["bob"] + [None, float("nan")] + ["cleo"] * 2
    data = LabeledSample(np.arange(10), np.arange(10) % 2, units=units)
    counts = np.zeros(10)
    for seed in range(500):
        kept = capped(data, 2, entropy=seeded(seed))
        assert isinstance(kept.x, np.ndarray)
        assert isinstance(kept.y, np.ndarray)
        assert (kept.y == kept.x % 2).all()
        assert list(kept.x) == sorted(set(kept.x))
        counts[kept.x] += 1
    assert counts[5:].tolist() == [500, 0, 0, 500, 500]
    assert counts[:5].sum() == 1000
    assert (np.abs(counts[:5] - 200) < 70).all()  # six standard deviations: 500 trials of 2/5


@pytest.mark.parametrize("form", [list, np.array, tuple])
def test_rows_stay_in_the_form_in_which_they_came(form: Any) -> None:
    data = LabeledSample(form([3, 4, 5]), form([0, 1, 1]), units=["a", "a", "b"])
    kept = capped(data, 2, entropy=seeded(1))
    assert list(kept.x) == [3, 4, 5]  # type: ignore[call-overload]
    assert isinstance(kept.x, np.ndarray) == (form is np.array)


def test_ids_are_one_for_each_row() -> None:
    with pytest.raises(ParameterError, match="units"):
        LabeledSample([1, 2], [0, 1], units=["a"])


# ---- the exact loss of a unit ---------------------------------------------------------------------------------------

Rows = tuple[tuple[int, int], ...]
OTHERS: Rows = ((0, 0), (1, 1))
EVERY_ROW = tuple(itertools.product((0, 1), (0, 1)))


def one_law(rows: Rows, exponent: float) -> np.ndarray[Any, Any]:
    """Of the exponential mechanism over thresholds on {0, 1}, by the definition."""
    errors = [sum((x < place) != bool(y) for x, y in rows) for place in range(3)]
    weights = np.exp(-exponent * np.array(errors))
    found: np.ndarray[Any, Any] = weights / weights.sum()
    return found


def law(held: Rows, most: int, exponent: float) -> np.ndarray[Any, Any]:
    """Of the learner on a unit's rows beside those of others: the mean over all sets of so many that it may keep."""
    kept = list(itertools.combinations(held, min(most, len(held))))
    return sum(one_law((*OTHERS, *rows), exponent) for rows in kept) / len(kept)  # type: ignore[return-value]


def everything(most: int) -> Iterator[Rows]:
    for count in range(most + 1):
        yield from itertools.combinations_with_replacement(EVERY_ROW, count)


@pytest.mark.parametrize("relation", [Relation.ADD_REMOVE, Relation.REPLACE_ONE])
def test_a_unit_with_more_rows_than_it_may_have_loses_no_more_than_is_claimed(relation: Relation) -> None:
    """Up to five rows in a scope of two. All of them would lose more, as they did."""
    learner = dpl.learning.ExponentialPPACLearner(CLASS, epsilon=1).under(relation, Unit("user", max_contributions=2))
    claimed, exponent = float(learner.claim().eta), float(learner.exponent)

    def lost(most: int) -> float:
        laws = [law(held, most, exponent) for held in everything(5)]
        others = [law((), most, exponent)] if relation is Relation.ADD_REMOVE else laws
        return max(float(np.abs(np.log(one / other)).max()) for one in laws for other in others)

    assert 0.5 * claimed < lost(2) <= claimed * (1 + 1e-12)
    assert lost(5) > claimed


def test_the_learner_takes_other_rows_in_each_of_many_runs_and_its_law_is_the_mean() -> None:
    """Five rows of one user of which one counts: with hardly any noise the answers are those of that row."""
    learner: Any = dpl.learning.ExponentialPPACLearner(CLASS, epsilon=60).under(Relation.ADD_REMOVE, Unit("user", 1))
    data = LabeledSample([0, 0, 0, 1, 1], [0, 0, 1, 1, 1], units=["ann"] * 5)
    alone = sum(one_law((row,), float(learner.exponent)) for row in [(0, 0), (0, 0), (0, 1), (1, 1), (1, 1)]) / 5
    found = np.bincount(learner.sample(data, 2000, seeded(4)), minlength=3) / 2000
    assert np.abs(found - alone).max() < 6 * math.sqrt(0.25 / 2000)
    released = {learner.release(data, entropy=seeded(seed)).value.place for seed in range(40)}
    assert released == {0, 1, 2}


def test_fifty_rows_under_twenty_count_as_twenty() -> None:
    """Through a scope: what was 2.5 times the claim. Fifty rows of one user on one side, two of twenty on the other."""
    book = dpl.Ledger.in_memory(entropy=seeded(3))
    scope = book.scope("users", unit=Unit("user", 20), relation="add_remove", budget=dpl.PureDP(10**6))
    ids = ["ann"] * 50 + ["bob"] * 20 + ["cleo"] * 20
    data = LabeledSample([0] * 50 + [1] * 40, [1] * 50 + [0] * 40, units=ids)
    learner = dpl.learning.ExponentialPPACLearner(dpl.learning.ThresholdClass(2), epsilon=10**5)
    with pytest.raises(ParameterError, match="units"):
        scope.release(learner, LabeledSample(data.x, data.y))
    assert scope.spent(0).upper == 0
    receipt = scope.release(learner, data)
    assert receipt.value.predict([0, 1]).tolist() == [1, 0]
    tied = LabeledSample([1] * 50 + [1] * 40, [1] * 50 + [0] * 40, units=ids)
    assert scope.release(learner, tied).value.predict([1]).tolist() == [0], "forty rows count against twenty"
