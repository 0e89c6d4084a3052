"""The profile of shuffled randomisers: its sums against every outcome, its theorem against every randomiser and every
dataset of a small size."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from scipy.optimize import nnls

from dpledger.accounting.composition import Repeated, Shuffled
from dpledger.accounting.guarantees import PureDP
from dpledger.accounting.laws.shuffling import agreeing_below, shuffled_bracket, shuffled_deltas
from dpledger.accounting.profile import compose
from dpledger.errors import CannotCertify
from dpledger.relations import Relation

pytestmark = pytest.mark.sliced

Rows = list[list[float]]
Law = dict[tuple[int, ...], float]


def staircase(rng: random.Random, values: int, outcomes: int, odds: float) -> Rows:
    """A random randomiser whose columns take two values, `odds` apart: the extreme ones (Kairouz-Oh-Viswanath 2016)."""
    while True:
        raised = np.array([[rng.choice([1.0, odds]) for _ in range(outcomes)] for _ in range(values)])
        masses, missed = nnls(raised, np.ones(values))
        if missed < 1e-12:
            rows: Rows = (raised * masses).tolist()
            return rows


def counts(rows: Rows, data: tuple[int, ...]) -> Law:
    """The law of how often each outcome is published."""
    law: Law = {(0,) * len(rows[0]): 1.0}
    for value in data:
        after: Law = {}
        for seen, mass in law.items():
            for outcome, chance in enumerate(rows[value]):
                if chance:
                    key = (*seen[:outcome], seen[outcome] + 1, *seen[outcome + 1 :])
                    after[key] = after.get(key, 0.0) + mass * chance
        law = after
    return law


def hockey_stick(left: Law, right: Law, ratio: float) -> float:
    return math.fsum(max(0.0, mass - ratio * right.get(key, 0.0)) for key, mass in left.items())


@pytest.mark.parametrize("seed", range(12))
def test_no_randomiser_and_no_dataset_shows_more(seed: int) -> None:
    rng = random.Random(seed)
    local, values = rng.choice([0.3, 1.0, 2.0, 3.0]), rng.choice([2, 3, 4])
    users = rng.choice([2, 3, 4])
    rows = staircase(rng, values, rng.choice([3, 4, 5]), math.exp(local))
    epsilons = np.array([0.0, 0.1, 0.4, 0.8]) * local
    _, upper = shuffled_deltas(local, 2, users, epsilons)
    for others in itertools.combinations_with_replacement(range(values), users - 1):
        laws = [counts(rows, (value, *others)) for value in range(values)]
        for left, right in itertools.permutations(laws, 2):
            for epsilon, bound in zip(epsilons.tolist(), upper.tolist(), strict=True):
                assert hockey_stick(left, right, math.exp(epsilon)) <= bound * (1 + 1e-9) + 1e-15


@pytest.mark.parametrize(("local", "categories", "users"), [(0.2, 3, 1), (1.0, 3, 30), (2.0, 7, 60), (4.0, 40, 25)])
def test_the_dataset_that_is_meant_is_summed_outcome_by_outcome(local: float, categories: int, users: int) -> None:
    odds = math.exp(local)
    p = 1 / (odds + categories - 1)
    rest = 1 - 2 * p
    epsilons = np.array([0.0, 0.05, 0.3, 0.7]) * local
    lower, upper = shuffled_deltas(local, categories, users, epsilons)
    for epsilon, low, high in zip(epsilons.tolist(), lower.tolist(), upper.tolist(), strict=True):
        terms = []
        for first in range(users + 1):
            for second in range(users + 1 - first):
                neither = users - first - second
                ways = math.comb(users, first) * math.comb(users - first, second)
                mass = ways * p ** (first + second) * rest**neither / users
                shared = (categories - 2) * p / rest * neither
                left, right = odds * first + second + shared, first + odds * second + shared
                terms.append(mass * max(0.0, left - math.exp(epsilon) * right))
        exact = math.fsum(terms)
        assert low <= exact * (1 + 1e-12)
        assert low >= exact * (1 - 1e-6)
        assert exact <= high * (1 + 1e-12)
        assert epsilon > 0.3 * local or high <= exact * 1.25


@pytest.mark.parametrize("users", [40, 10**3, 10**5, 10**7])
@pytest.mark.parametrize(("local", "categories"), [(0.5, 3), (3.0, 3), (2.0, 50)])
def test_groups_bound_what_is_between_and_are_narrow(local: float, categories: int, users: int) -> None:
    lower, upper = shuffled_deltas(local, categories, users, np.geomspace(1e-6, 0.9 if users > 40 else 0.3, 25) * local)
    assert np.all(lower <= upper)
    seen = upper > 1e-12
    assert np.all(lower[seen] >= 0.75 * upper[seen])
    assert np.all(np.diff(upper) <= 0)


def test_more_categories_and_more_users_hide_more() -> None:
    at = np.array([0.0, 0.02, 0.1])
    by_categories = [shuffled_deltas(1.0, k, 500, at)[1] for k in (2, 3, 10, 100)]
    by_users = [shuffled_deltas(1.0, 2, n, at)[1] for n in (1, 10, 100, 1000, 10**4)]
    for chernoff in (by_categories, by_users):
        assert all(np.all(less <= more * (1 + 1e-9)) for more, less in itertools.pairwise(chernoff))


def test_users_who_agree() -> None:
    pair = agreeing_below(0.2, (0.3, 0.7), 6)
    left = counts([[0.8, 0.2], [0.3, 0.7]], (0,) * 6)
    right = counts([[0.8, 0.2], [0.3, 0.7]], (1, *(0,) * 5))
    for epsilon in (0.0, 0.2, 0.6):
        exact = hockey_stick(left, right, math.exp(epsilon))
        found = math.fsum(
            p * -math.expm1(epsilon - loss) for loss, p in zip(pair.losses, pair.left, strict=True) if loss > epsilon
        )
        assert exact * (1 - 1e-9) <= found <= exact * (1 + 1e-12)


def test_runs_of_shuffles_are_as_narrow_as_one() -> None:
    for local, times in ((3, 1), (5, 1), (5, 20)):
        tree = Repeated(Shuffled(PureDP(local), users=10**5), times=times)
        at = compose(tree, relation=Relation.REPLACE_ONE).epsilon("1e-7")
        assert at.lower >= 0.95 * at.upper


def test_local_epsilons_beyond_forty_are_refused() -> None:
    with pytest.raises(CannotCertify, match="local epsilons up to 40"):
        shuffled_bracket(41.0, 2, 10)


@pytest.mark.parametrize("local", [1e-9, 1e-8, 1e-3])
@pytest.mark.parametrize("categories", [3, 10**8, 10**12])
def test_next_to_no_epsilon_on_very_many_values_is_bounded(local: float, categories: int) -> None:
    """The other one of two users gives a third value with a chance that no float tells from 1. By hand: what differs is
    whether the own value is there, beside what is not the neighbour's."""
    lower, upper = (float(side[0]) for side in shuffled_deltas(local, categories, 2, np.array([0.0])))
    whole = math.expm1(local) + categories
    truth = math.expm1(local) / whole * (1 - 1 / whole)
    assert truth <= upper <= truth * (1 + 1e-2)
    assert (0.0 if categories > 10**8 else truth * 0.99) <= lower <= truth
    with np.errstate(divide="raise", invalid="raise"):
        found = shuffled_bracket(local, categories, 2)
    assert all(map(math.isfinite, (*found.above.left, *found.below.left)))
