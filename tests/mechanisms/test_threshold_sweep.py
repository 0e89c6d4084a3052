"""Counts of users for all thresholds, and for all middles of an interval: the sweeps against the definitions, one user
and one example at a time."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.learning.samples import UserSample
from dpledger.mechanisms.learning.theory.concepts import ThresholdClass
from dpledger.mechanisms.learning.users.middles import PointsByUser
from dpledger.mechanisms.learning.users.reading import Users
from dpledger.mechanisms.learning.users.sweep import ThresholdSweep
from dpledger.mechanisms.learning.users.thresholds import UserLevelThresholdLearner
from dpledger.mechanisms.selection.choice import Choice
from dpledger.relations import Relation, Unit


def by_weights(exponent: str) -> Choice:
    return Choice.weighing(exponent, moved=1, why="a user is on one side", monotone=True)


EDGES = [0, 2**60 - 5, 2**64 - 12]


@dataclass(frozen=True)
class Held:
    """Users of m examples on `size` points from `first` on; an example is (point, label)."""

    first: int
    size: int
    m: int
    rows: tuple[tuple[tuple[int, int], ...], ...]

    def column(self, which: int, kind: type[np.generic]) -> np.ndarray:
        shift = self.first if which == 0 else 0
        cells = [[example[which] + shift for example in user] for user in self.rows]
        return np.array(cells, dtype=kind).reshape(len(self.rows), self.m)

    @property
    def sweep(self) -> ThresholdSweep:
        return ThresholdSweep.of(self.first + self.size, Users(self.column(0, np.uint64), self.column(1, np.uint8)))

    @property
    def points(self) -> PointsByUser:
        return PointsByUser.of(self.column(0, np.uint64))

    def mistakes(self, v: int) -> list[int]:
        """Of 1[x < v], of each user."""
        return [sum((x < v) != y for x, y in user) for user in self.rows]

    def inside(self, low: int, high: int) -> list[int]:
        """How many points of each user are from low to high."""
        return [sum(low <= x <= high for x, _ in user) for user in self.rows]


@st.composite
def users(draw: st.DrawFn) -> Held:
    first, size, m = draw(st.sampled_from(EDGES)), draw(st.integers(1, 8)), draw(st.integers(1, 4))
    example = st.tuples(st.integers(0, size - 1), st.integers(0, 1))
    rows = draw(st.lists(st.tuples(*[example] * m), max_size=5))
    return Held(first, size, m, tuple(rows))


@settings(deadline=None)
@given(data=users(), more=st.integers(0, 4))
def test_the_sweep_counts_users_with_more_mistakes(data: Held, more: int) -> None:
    found = data.sweep.users_above(more)
    dense = [sum(a > more for a in data.mistakes(v)) for v in range(data.size + 1)]
    assert [found.at(data.first + v) for v in range(data.size + 1)] == dense
    for low in range(data.size + 1):
        for high in range(low, data.size + 1):
            assert found.least(data.first + low, data.first + high) == min(dense[low : high + 1])


@settings(deadline=None)
@given(data=users(), more=st.integers(0, 3), ends=st.tuples(st.integers(0, 8), st.integers(0, 8)))
def test_sides_count_users_with_more_points(data: Held, more: int, ends: tuple[int, int]) -> None:
    low, high = sorted(min(end, data.size) for end in ends)
    found = data.points.sides(data.first + low, data.first + high, more_than=more)
    for w in range(low, high + 1):
        left = sum(many > more for many in data.inside(low, w - 1))
        right = sum(many > more for many in data.inside(w + 1, high))
        assert found.score(data.first + w) == max(left, right)
    assert len(found.ends) <= 2 * len(data.rows) + 1


@settings(deadline=None)
@given(data=users(), more=st.integers(0, 3))
def test_a_user_moves_each_count_by_one_at_most_and_one_way(data: Held, more: int) -> None:
    for at in range(len(data.rows)):
        fewer = Held(data.first, data.size, data.m, data.rows[:at] + data.rows[at + 1 :])
        places = range(data.first, data.first + data.size + 1)
        here, there = (one.sweep.users_above(more) for one in (data, fewer))
        assert all(0 <= here.at(v) - there.at(v) <= 1 for v in places)
        sides, others = (one.points.sides(places[0], places[-1], more_than=more) for one in (data, fewer))
        assert all(0 <= sides.score(w) - others.score(w) <= 1 for w in places)


def test_a_middle_is_drawn_from_a_domain_of_2_to_the_64() -> None:
    points = np.array([[5, 2**64 - 1], [7, 2**64 - 1]], dtype=np.uint64)
    found = PointsByUser.of(points).sides(0, 2**64, more_than=0)
    assert (list(found.ends), found.scores.tolist()) == ([5, 7, 2**64 - 2, 2**64], [2, 2, 2, 2])
    drawn = [found.drawn(by_weights("1"), seeded(seed)) for seed in range(20)]
    assert min(drawn) > 2**50
    assert len(set(drawn)) == 20


def test_a_middle_has_few_users_on_either_side() -> None:
    rng = np.random.default_rng(2)
    points = rng.integers(0, 2**60, (400, 9)).astype(np.uint64)
    sides = PointsByUser.of(points).sides(0, 2**60, more_than=4)
    drawn = np.array([sides.drawn(by_weights("0.2"), seeded(seed)) / 2**60 for seed in range(30)])
    assert np.abs(drawn - 0.5).max() < 0.1


def test_nobody_makes_no_mistake() -> None:
    nobody = Held(0, 5, 3, ())
    assert nobody.sweep.users_above(0).least(0, 5) == 0
    assert nobody.points.sides(0, 5, more_than=0).scores.tolist() == [0]


@pytest.mark.slow
def test_a_hundred_thousand_users_of_a_hundred_examples_take_seconds() -> None:
    """On 2^60 points. Some nine seconds of the processor; the limit is for slower ones."""
    rng = np.random.default_rng(3)
    x = rng.integers(0, 2**60, (100_000, 100))
    learner = UserLevelThresholdLearner(ThresholdClass(2**60), epsilon=1, alpha="0.1")
    learner = learner.under(Relation.REPLACE_ONE, Unit("user", 100))
    began = time.process_time()
    found = learner.release(UserSample(x, x < 2**58), entropy=seeded(1)).value
    assert time.process_time() - began < 60
    assert abs(found.place / 2**58 - 1) < 0.2
