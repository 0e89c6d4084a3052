"""Users read one by one, and the number of users that a concept fails, by its definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.learning.hypotheses import Concept
from dpledger.mechanisms.learning.samples import UserSample
from dpledger.mechanisms.learning.theory.concepts import FiniteClass, PointClass, ThresholdClass, matrix_of
from dpledger.mechanisms.learning.users.mistakes import UserClass, mistakes_of
from dpledger.mechanisms.learning.users.reading import cap_users, users_of
from dpledger.mechanisms.learning.users.user_learners import UserLevelProperLearner
from dpledger.mechanisms.noise import Uniform, recording, replaying
from dpledger.mechanisms.units import ByUnit
from dpledger.relations import Relation, Unit

CLASSES: list[UserClass] = [
    ThresholdClass(5),
    ThresholdClass(1),
    PointClass(5),
    PointClass(1),
    FiniteClass([[0, 0, 1, 1, 0], [1, 1, 1, 1, 1], [1, 0, 1, 0, 1], [1, 0, 1, 0, 1]]),
]


def spelt_out(concepts: UserClass, sample: UserSample, level: int) -> list[int]:
    """K of the concept at each place, from the segments."""
    counted = mistakes_of(concepts, users_of(sample, concepts.points)).beyond(level)
    found, number = {}, 0
    for many, times in zip(counted.errors.tolist(), counted.counts.tolist(), strict=True):
        for _ in range(times):
            found[counted.place(number)] = many
            number += 1
    return [found[place] for place in range(concepts.size)]


@pytest.mark.sliced
@pytest.mark.parametrize("concepts", CLASSES, ids=str)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_the_count_of_each_concept_is_that_of_its_definition(concepts: UserClass, data: st.DataObject) -> None:
    n, m = data.draw(st.integers(0, 7)), data.draw(st.integers(1, 5))
    x = data.draw(st.lists(st.integers(0, concepts.points - 1), min_size=n * m, max_size=n * m))
    y = data.draw(st.lists(st.integers(0, 1), min_size=n * m, max_size=n * m))
    sample = UserSample(np.array(x, dtype=np.int64).reshape(n, m), np.array(y, dtype=np.int64).reshape(n, m))
    assert mistakes_of(concepts, users_of(sample, concepts.points)).users == n
    for level in range(m):
        defined = [
            sum(int((row[sample.x[i]] != sample.y[i]).sum() > level) for i in range(n)) for row in matrix_of(concepts)
        ]
        assert spelt_out(concepts, sample, level) == defined
        assert mistakes_of(concepts, users_of(sample, concepts.points)).beyond(level).least == min(defined)


@pytest.mark.parametrize("concepts", [PointClass(2**64), ThresholdClass(2**64)], ids=str)
def test_a_domain_beyond_every_word_costs_what_its_users_cost(concepts: UserClass) -> None:
    last = 2**64 - 1
    sample = UserSample(np.array([[last, 0], [7, 7]], dtype=np.uint64), np.array([[1, 0], [0, 1]]))
    counted = mistakes_of(concepts, users_of(sample, concepts.points)).beyond(0)
    assert sum(int(many) for many in counted.counts) == concepts.size
    assert min(counted.errors.tolist()) >= 1


@pytest.mark.parametrize("rows", [[], [[5, 5]], [[5, 9], [0, 7]]], ids=len)
@pytest.mark.parametrize("concepts", [PointClass(2**63), PointClass(2**63 + 2), ThresholdClass(2**63 - 1)], ids=str)
def test_concepts_are_counted_beyond_a_word_however_users_divide_them(
    concepts: PointClass | ThresholdClass, rows: list[list[int]]
) -> None:
    sample = UserSample(np.array(rows, dtype=np.uint64).reshape(-1, 2), np.array([[0, 1]] * len(rows)).reshape(-1, 2))
    learner = UserLevelProperLearner(concepts, epsilon=1, resolution="0.1", margin="0.1")
    learner = learner.under(Relation.REPLACE_ONE, Unit("user", max_contributions=2))
    for seed in range(3):
        found = learner.release(sample, entropy=seeded(seed)).value.hypothesis
        assert isinstance(found, Concept)
        assert 0 <= found.place < concepts.size


def test_a_user_with_an_example_that_is_no_number_is_nobody() -> None:
    whole = UserSample(np.array([[1.0, 2.0]]), np.array([[1, 0]]))
    broken = UserSample(np.array([[1.0, 2.0], [3.0, np.nan]]), np.array([[1, 0], [1, 1]]))
    objects = UserSample(np.array([[None, 2], [1, 2]], dtype=object), np.array([[1, 0], [1, 0]]))
    read = [users_of(sample, 8) for sample in (whole, broken, objects)]
    assert [(one.points.tolist(), one.labels.tolist()) for one in read] == [([[1, 2]], [[1, 0]])] * 3


# ---- users with more or fewer examples ------------------------------------------------------------------------------


def test_what_is_kept_of_a_user_are_examples_of_his() -> None:
    rng = np.random.default_rng(1)
    owners = rng.integers(0, 40, 400)
    x = np.arange(400)
    kept = cap_users(ByUnit((x, x % 2), units=owners), examples=8, entropy=seeded(1))
    assert len(kept.x) == int((np.bincount(owners) >= 8).sum())
    assert all(len({int(owners[at]) for at in row}) == 1 and len(set(row.tolist())) == 8 for row in kept.x)
    assert (kept.y == kept.x % 2).all()


def test_each_example_of_a_user_is_as_likely_to_be_kept() -> None:
    rows = ByUnit((np.arange(5), np.zeros(5)), units=["ann"] * 5)
    counts = np.zeros(5)
    for seed in range(500):
        counts[cap_users(rows, examples=2, entropy=seeded(seed)).x[0]] += 1
    assert counts.sum() == 1000
    assert (np.abs(counts - 200) < 70).all()  # six standard deviations: 500 trials of 2/5


def test_a_row_of_another_user_changes_no_users_rows() -> None:
    """What numpy would make of a list depends on all of it: 2^60 + 1 beside a NaN would be another number."""
    big = 2**60 + 1
    for other in (3, float("nan"), "x", None, 2**70):
        rows = ByUnit(([big, big, other, other], [1, 1, 0, 0]), units=["ann", "ann", "bob", "bob"])
        found = users_of(cap_users(rows, examples=2, entropy=seeded(1)), 2**64)
        assert found.points[0].tolist() == [big, big]


def test_which_rows_are_kept_is_in_the_log() -> None:
    """Whatever else the entropy would say. The order of the rows of a list would be no draw: a twin that keeps the
    first is told by no log."""
    rows = ByUnit((np.arange(40), np.zeros(40)), units=[at % 5 for at in range(40)])
    with recording() as draws:
        kept = cap_users(rows, examples=3, entropy=seeded(1)).x
    assert [(draw.law, draw.shape) for draw in draws] == [(Uniform(2**64), (40,))]
    with replaying(draws):
        assert np.array_equal(cap_users(rows, examples=3, entropy=seeded(2)).x, kept)
    assert not np.array_equal(cap_users(rows, examples=3, entropy=seeded(2)).x, kept)


class _Raises:
    """What numpy may not ask for its array."""

    def __array__(self) -> Any:
        raise RuntimeError("what was asked of it")


@pytest.mark.parametrize(
    "listed",
    [[[1, 2], [3, 4], [5, 6]], [[1], [2], [3]], [(), (), ()], [np.zeros(2)] * 3, [[1, 2], "x", None], [_Raises()] * 3],
    ids=["pairs", "ones", "empty", "arrays", "mixed", "raises"],
)
def test_entries_of_a_list_are_kept_as_they_are_whatever_they_are(listed: list[Any]) -> None:
    kept = cap_users(ByUnit((listed, [1, 0, 1]), units=["ann", "bob", "ann"]), examples=1, entropy=seeded(1))
    assert kept.x.shape == kept.y.shape == (2, 1)
    assert all(any(entry is one for one in listed) for entry in kept.x.ravel().tolist())
    assert len(users_of(kept, points=8)) == 0


def test_nobody_and_wrong_containers() -> None:
    empty: Any = ByUnit(([], []), units=[])
    assert cap_users(empty, examples=3, entropy=seeded(1)).x.shape == (0, 3)
    for bad in ((np.zeros(3), np.zeros(3)), ByUnit(np.zeros(3), units=[1, 1, 1]), None):
        with pytest.raises(ParameterError, match="data"):
            cap_users(bad, examples=1, entropy=seeded(1))  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="examples"):
        cap_users(empty, examples=0, entropy=seeded(1))
