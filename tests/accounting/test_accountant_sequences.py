"""Appends in any order, of any kind: one number at every step, whatever keeps it."""

import random
from collections import Counter
from collections.abc import Mapping
from typing import Literal

import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting.accountant import Accountant
from dpledger.accounting.composition import (
    Composition,
    DiscreteGaussianLaw,
    DiscreteLaplaceLaw,
    GaussianLaw,
    LaplaceLaw,
    PoissonSampled,
)
from dpledger.accounting.guarantees import ApproxDP, PureDP
from dpledger.accounting.profile import Bounds, compose

pytestmark = pytest.mark.sliced

Side = Literal["add", "remove"] | None
LEAVES: list[Composition] = [
    PoissonSampled(GaussianLaw("1.1"), rate="0.02"),
    PoissonSampled(GaussianLaw("0.7"), rate="0.2"),
    PoissonSampled(GaussianLaw(2), rate="0.0005"),
    PoissonSampled(LaplaceLaw("0.8"), rate="0.05"),
    PoissonSampled(PureDP("0.5"), rate="0.1"),
    GaussianLaw(9),
    LaplaceLaw("0.05"),
    PureDP("0.03"),
    ApproxDP("0.02", "1e-14"),
    DiscreteGaussianLaw(20, 1),
    DiscreteLaplaceLaw(30, 2),
]
leaves = st.sampled_from(LEAVES)
counts = st.sampled_from([1, 1, 2, 7, 40, 300])
appends = st.lists(st.tuples(leaves, counts), min_size=1, max_size=6)
directions: st.SearchStrategy[Side] = st.sampled_from([None, "add", "remove"])
deltas = st.sampled_from(["1e-3", "1e-6", "1e-11"])


def composed(so_far: Mapping[Composition, int], delta: str, direction: Side = None) -> Bounds:
    return compose(list(so_far.items()), direction=direction).epsilon(delta)


def same(left: Bounds, right: Bounds) -> bool:
    return max(left.lower, right.lower) <= min(left.upper, right.upper)


@settings(max_examples=20, deadline=None)
@given(appends, directions, deltas)
def test_every_step_is_about_what_composing_everything_says(
    steps: list[tuple[Composition, int]], direction: Side, delta: str
) -> None:
    accountant, so_far = Accountant(delta, direction=direction), Counter[Composition]()
    for leaf, count in steps:
        so_far[leaf] += count
        found, whole = accountant.append(leaf, count), composed(so_far, delta, direction)
        assert same(found, whole)
        assert found.upper - found.lower <= max(5e-4 * whole.upper, 2 * (whole.upper - whole.lower))


@settings(max_examples=6, deadline=None)
@given(appends, st.randoms(use_true_random=False), directions, deltas)
def test_the_order_of_appends_does_not_matter_nor_does_a_file(
    steps: list[tuple[Composition, int]], rng: random.Random, direction: Side, delta: str
) -> None:
    other = [(leaf, 1) for leaf, count in steps for _ in range(min(count, 9))]
    other += [(leaf, count - 9) for leaf, count in steps if count > 9]
    rng.shuffle(other)
    here, there = Accountant(delta, direction=direction), Accountant(delta, direction=direction)
    for leaf, count in steps:
        here.append(leaf, count)
    for leaf, count in other:
        there.append(leaf, count)
    assert same(here.epsilon, there.epsilon)
    kept = Accountant.resume(there.record())
    assert same(kept.epsilon, here.epsilon)
    assert same(kept.append(LEAVES[0], 3), here.append(LEAVES[0], 3))
