"""The user-level median: its law by enumeration, its exact epsilon on all neighbours, its plan, its entries."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from dpledger.accounting.guarantees import BoundedRange, PureDP
from dpledger.errors import BudgetRefused, InfeasiblePlan, ParameterError
from dpledger.ledger.entries.bodies import Reserved
from dpledger.ledger.ledger import Ledger
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.learning.samples import UserSample
from dpledger.mechanisms.learning.theory.users.median_sizes import mass_gap, median_size, shrinking
from dpledger.mechanisms.learning.users.median import UserLevelMedian
from dpledger.relations import Relation, Unit
from exact_tests import SIGNIFICANCE, events_p_value
from mechanism_conformance import MechanismConformance

NAN = float("nan")
User = tuple[int, ...]


def sample_of(users: Sequence[User], m: int) -> UserSample:
    x = np.array(users, dtype=np.int64).reshape(len(users), m)
    return UserSample(x, np.zeros_like(x))


def law_of(users: Sequence[User], low: int, high: int, more_than: int, exponent: float) -> list[float]:
    """The law of the place, from the definition."""

    def beyond(first: int, last: int) -> int:
        return sum(sum(first <= x <= last for x in user) > more_than for user in users)

    weights = [math.exp(-exponent * max(beyond(low, w - 1), beyond(w + 1, high))) for w in range(low, high + 1)]
    return [weight / sum(weights) for weight in weights]


class TestConformance(MechanismConformance):
    relations = tuple(Relation)
    unit = Unit("patient", max_contributions=2)
    good_data = UserSample(np.array([[0, 5], [7, 9]]), np.array([[1, 0], [0, 0]]))
    bad_data = (
        UserSample(np.zeros((0, 2)), np.zeros((0, 2))),
        UserSample(np.array([[NAN, np.inf], [-np.inf, 0.5]]), np.array([[NAN, 1], [0, np.inf]])),
        UserSample(np.array([["x", 10**400], [None, -1]], dtype=object), np.array([[1, None], ["a", 2]], dtype=object)),
        UserSample(np.array([[2**64 - 1, 0]], dtype=np.uint64), np.array([[True, False]])),
    )
    bad_containers = (
        None,
        [[1, 0]],
        UserSample(np.zeros((1, 3)), np.zeros((1, 3))),
        UserSample(np.zeros((2, 2)), np.zeros((1, 2))),
        UserSample(np.zeros(2), np.zeros(2)),
    )
    bad_parameters = (
        {"epsilon": 0},
        {"points": 0},
        {"points": 2**64 + 1},
        {"low": -1},
        {"low": 5, "high": 4},
        {"high": 2**63},
        {"mass": 0},
        {"mass": "1.1"},
    )

    def make(self, **changes: Any) -> UserLevelMedian:
        return UserLevelMedian(**{"points": 2**60, "epsilon": "0.5", **changes})


# ---- the law --------------------------------------------------------------------------------------------------------

OURS: tuple[User, ...] = ((0, 1), (1, 2), (2, 2), (5, 5))


def test_its_law_on_four_users() -> None:
    """The numbers of the specification."""
    middle = UserLevelMedian(points=6, epsilon=1, mass="0.1").under(Relation.REPLACE_ONE, Unit("user", 2))
    assert (middle.more_than, middle.exponent) == (0, Decimal("0.5"))
    two, three, four = 0.240275941280, 0.145734725178, 0.088392579005
    wanted = [four, three, two, three, three, three, four]
    assert law_of(OURS, 0, 6, 0, 0.5) == pytest.approx(wanted, abs=1e-12)
    sides = middle._sides(sample_of(OURS, 2))
    assert [sides.score(w) for w in range(7)] == [4, 3, 2, 3, 3, 3, 4]


@pytest.mark.parametrize(("low", "high", "mass"), [(0, 6, "0.1"), (1, 5, "1"), (3, 3, "1")])
def test_draws_follow_the_law_and_not_that_of_twice_the_epsilon(low: int, high: int, mass: str) -> None:
    middle = UserLevelMedian(points=6, epsilon=2, low=low, high=high, mass=mass)
    middle = middle.under(Relation.REPLACE_ONE, Unit("user", 2))
    drawn = middle.sample(sample_of(OURS, 2), 4000, seeded(7)) - low
    counts = dict(enumerate(np.bincount(drawn, minlength=high - low + 1).tolist()))
    true, twice = (law_of(OURS, low, high, middle.more_than, exponent) for exponent in (1.0, 2.0))
    assert events_p_value(counts, 4000, dict(enumerate(true))) > SIGNIFICANCE
    if low < high:
        assert events_p_value(counts, 4000, dict(enumerate(twice))) < SIGNIFICANCE


# ---- privacy --------------------------------------------------------------------------------------------------------


def neighbours(users: tuple[User, ...], every: list[User], relation: Relation) -> Iterator[tuple[User, ...]]:
    for at in range(len(users)):
        rest = users[:at] + users[at + 1 :]
        if relation is Relation.REPLACE_ONE:
            yield from ((*rest, other) for other in every)
        else:
            yield rest


def worst_loss(law: Callable[[Sequence[User]], list[float]], points: int, m: int, n: int, relation: Relation) -> float:
    """On all pairs of neighbours, the larger of which has n users of m examples each."""
    every = list(itertools.combinations_with_replacement(range(points), m))
    worst = 0.0
    for users in itertools.combinations_with_replacement(every, n):
        here = np.log(law(users))
        for other in neighbours(users, every, relation):
            worst = max(worst, float(np.abs(here - np.log(law(other))).max()))
    return worst


@pytest.mark.parametrize("relation", [Relation.REPLACE_ONE, Relation.ADD_REMOVE, Relation.ZERO_OUT])
@pytest.mark.parametrize(("points", "m", "n", "mass"), [(3, 1, 3, "1"), (3, 2, 3, "0.3"), (4, 2, 2, "1")])
def test_no_pair_of_neighbours_tells_more_than_is_claimed(
    relation: Relation, points: int, m: int, n: int, mass: str
) -> None:
    """A user of whom nothing counts is the neighbour under zero_out: the law is that of one user fewer."""
    middle = UserLevelMedian(points=points, epsilon=1, mass=mass).under(relation, Unit("user", m))

    def law(users: Sequence[User]) -> list[float]:
        return law_of(users, 0, points, middle.more_than, float(middle.exponent))

    found = worst_loss(law, points, m, n, relation)
    assert 0.5 < found <= float(middle.claim().eta) + 1e-9


@pytest.mark.parametrize(("m", "known"), [(2, 1.8202), pytest.param(3, 2.9300, marks=pytest.mark.slow)])
def test_counting_points_in_place_of_users_tells_up_to_m_times_as_much(m: int, known: float) -> None:
    """The faulty twin: points 0 to 3, four users. The numbers of the specification."""

    def by_points(m: int) -> float:
        def law(users: Sequence[User]) -> list[float]:
            flat = [x for user in users for x in user]
            weights = [math.exp(-max(sum(x < w for x in flat), sum(x > w for x in flat)) / 2) for w in range(5)]
            return [weight / sum(weights) for weight in weights]

        return worst_loss(law, 4, m, 4, Relation.REPLACE_ONE)

    assert by_points(m) == pytest.approx(known, abs=1e-4)


def test_labels_cost_nothing() -> None:
    middle = UserLevelMedian(points=9, epsilon=1).under(Relation.LABEL_FLIP, Unit("user", 2))
    assert middle.claim() == BoundedRange(0)
    x = np.array([[1, 2], [3, 4]])
    found = [middle.release(UserSample(x, y), entropy=seeded(1)).value for y in (np.zeros_like(x), np.ones_like(x))]
    assert found[0] == found[1]


# ---- its plan -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("m", "mass"), [(1, 1.0), (25, 1.0), (25, 0.1), (100, 0.04)])
def test_its_plan_is_the_formula(m: int, mass: float) -> None:
    """Against scipy's binomial laws; the level is the best of all."""
    gaps = np.array(binom.sf(range(m), m, 0.75 * mass)) - np.array(binom.sf(range(m), m, 0.5 * mass))
    level = int(gaps.argmax())
    assert mass_gap(m, Decimal(str(mass))).level == level
    heavy = binom.sf(level, m, 0.75 * mass)
    apart = heavy - binom.sf(level, m, 0.5 * mass)
    size, beta, exponent = 2**20, 0.1, 0.25
    selection = 2 * math.log(2 * (size + 1) / beta) / (exponent * apart)
    light = heavy - apart
    x = apart / (4 * light)
    rate = min(apart**2 / (32 * heavy), light * x**2 / (2 + x))
    sampling = math.log(2 * (size + 1) ** 2 / beta) / rate
    terms = dict(median_size(size, exponent, Decimal(str(mass)), beta, m=m).terms)
    assert terms == {"sampling": math.ceil(sampling), "selection": math.ceil(selection)}


def test_the_mass_shrinks_by_a_quarter_until_it_is_small() -> None:
    assert shrinking("0.5625") == (Decimal(1), Decimal("0.75"))
    assert shrinking("0.56") == (Decimal(1), Decimal("0.75"), Decimal("0.5625"))
    for target in ("0.9", "0.05", "0.0001", "1e-9"):
        bounds = shrinking(target)
        assert len(bounds) == math.ceil(math.log(float(target)) / math.log(0.75))
        assert all(0.75 * float(one) <= float(two) * (1 + 1e-15) for one, two in itertools.pairwise(bounds))
    assert len(shrinking("1e-58")) == math.ceil(math.log(1e-58) / math.log(0.75))
    with pytest.raises(ParameterError, match="target"):
        shrinking("1e-59")  # three quarters of 3e-60 are 3e-60, rounded up


@pytest.mark.parametrize("mass", ["1e-59", "1.5", "0"])
def test_a_mass_of_which_no_parts_can_be_written_is_refused_when_it_is_given(mass: str) -> None:
    with pytest.raises(ParameterError, match="mass"):
        UserLevelMedian(points=8, epsilon=1, mass=mass)
    least = UserLevelMedian(points=8, epsilon=1, mass="1e-58").under(Relation.REPLACE_ONE, Unit("user", 2))
    assert least.parameters()["more_than"] == 0
    with pytest.raises(InfeasiblePlan, match="is not told from"):
        least.plan("0.1")


def test_with_as_many_users_as_planned_both_sides_are_light() -> None:
    middle = UserLevelMedian(points=2**40, epsilon=1).under(Relation.REPLACE_ONE, Unit("user", 25))
    needed = middle.plan("0.1").needed
    rng = np.random.default_rng(5)
    for seed in range(20):
        x = rng.integers(0, 2**40, (needed, 25))
        w = middle.release(UserSample(x, np.zeros_like(x)), entropy=seeded(seed)).value
        assert 0.25 <= w / 2**40 <= 0.75


# ---- in a ledger ----------------------------------------------------------------------------------------------------


def test_a_release_leaves_an_entry_without_the_data_or_the_place() -> None:
    book = Ledger.in_memory()
    scope = book.scope("people", unit=Unit("user", 2), relation="add_remove", budget=PureDP(1))
    data = sample_of([(7, 8)] * 40 + [(90, 91)] * 40, 2)
    receipt = scope.release(UserLevelMedian(points=2**60, epsilon=1), data)
    assert 7 <= receipt.value <= 2**60
    *_, last = (entry.body for entry in book.entries() if isinstance(entry.body, Reserved))
    assert last.mechanism.kind == "user_level_median"
    assert last.mechanism.parameters["exponent"] == "1"
    assert last.mechanism.parameters["high"] == str(2**60)
    with pytest.raises(BudgetRefused):
        scope.release(UserLevelMedian(points=2**60, epsilon=1), data)
    with pytest.raises(ParameterError, match="as many as a unit may"):
        scope.release(UserLevelMedian(points=2**60, epsilon=1), sample_of([(1, 2, 3)], 3))
    book.verify()
