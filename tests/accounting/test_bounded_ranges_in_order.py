"""Mixes of bounded ranges: in the order that is given the two ends are close; in any order they hold every analyst."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cache
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import minimize_scalar

from dpledger.accounting.composition import (
    Composition,
    GaussianLaw,
    Parallel,
    PoissonSampled,
    RandomizedResponseLaw,
    Repeated,
    Sequence,
)
from dpledger.accounting.families.bounded_range import any_order, repeated
from dpledger.accounting.families.bounded_range.any_order import worst_in_any_order
from dpledger.accounting.families.bounded_range.lattice import moved, moved_below
from dpledger.accounting.families.bounded_range.repeated import worst_of_runs
from dpledger.accounting.guarantees import BoundedRange
from dpledger.accounting.laws.draws import Runs
from dpledger.accounting.laws.finite import FiniteLoss
from dpledger.accounting.lowering import running_order
from dpledger.accounting.profile import Profile, compose
from dpledger.errors import ParameterError
from dpledger.relations import Relation
from range_conversations import Numbers, attained, before, before_a_response, in_any_order

pytestmark = pytest.mark.sliced

STEP = 0.2 / 12
MIX = (12, 24, 36, 48)  # steps


def in_order(step: float, cells: tuple[int, ...]) -> Composition:
    return Sequence(tuple(BoundedRange(f"{step * m:.12f}") for m in cells))


def given_order(tree: Composition) -> Profile:
    return compose(tree, order="given")


# ---- the order that is given ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", list(itertools.permutations(MIX)), ids=str)
def test_what_is_attained_in_this_order_is_not_above_the_upper_bound(order: tuple[int, ...]) -> None:
    exact, bounds = attained(STEP, order[::-1]), given_order(in_order(STEP, order))
    for at in (5, 20, 45, 70):
        upper = bounds.delta(STEP * at).upper
        assert exact[at] <= upper * (1 + 1e-9)  # the ranges are written with twelve digits
        assert upper <= exact[at] * 1.02


Known = Callable[[float], float]


def searched(after: Known, eta: float) -> Known:
    """The worst delta of one more run, by search: no lattice, no chords."""

    def at(t: float, epsilon: float) -> float:
        likely = math.expm1(t - eta) / math.expm1(-eta)
        return likely * after(epsilon - t) + (1 - likely) * after(epsilon - t + eta)

    @cache
    def found(epsilon: float) -> float:
        best = max((eta * i / 24 for i in range(25)), key=lambda t: at(t, epsilon))
        near = max(0.0, best - eta / 24), min(eta, best + eta / 24)
        polished = minimize_scalar(lambda t: -at(t, epsilon), bounds=near, method="bounded", options={"xatol": 1e-9})
        return max(-float(polished.fun), at(best, epsilon))

    return found


@pytest.mark.parametrize("order", [(0.3, 1.0), (1.0, 0.3), (0.37, 0.53), (2.0, 0.11)], ids=str)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
def test_two_ranges_lie_between_the_bounds_of_their_order(order: tuple[float, float], share: float) -> None:
    true: Known = lambda epsilon: max(0.0, -math.expm1(epsilon))  # noqa: E731
    for eta in reversed(order):
        true = searched(true, eta)
    bounds = given_order(Sequence(tuple(BoundedRange(str(eta)) for eta in order))).delta(sum(order) * share)
    exact = true(sum(order) * share)
    assert bounds.lower <= exact * (1 + 1e-9)
    assert exact <= bounds.upper * (1 + 1e-9)
    assert bounds.upper <= bounds.lower * 1.02


@pytest.mark.slow
@given(
    ranges=st.lists(st.tuples(st.integers(1, 30), st.integers(1, 12)), min_size=2, max_size=5),
    step=st.sampled_from([0.002, 0.01, 0.05]),
)
@settings(max_examples=12, deadline=None)
def test_no_mix_attains_more_than_the_upper_bound(ranges: list[tuple[int, int]], step: float) -> None:
    cells = tuple(m for m, count in ranges for _ in range(count))
    tree = Sequence(tuple(Repeated(BoundedRange(f"{step * m:.12f}"), times=count) for m, count in ranges))
    exact, bounds = attained(step, cells[::-1]), given_order(tree)
    for wanted in (0.1, 1e-3, 1e-6, 1e-12):
        at = int(np.argmax(exact < wanted))
        found = bounds.delta(step * at)
        assert exact[at] <= found.upper * (1 + 1e-7)
        assert found.lower <= found.upper


def mix_of_ten(times: int) -> Composition:
    return Sequence(tuple(Repeated(BoundedRange(f"{0.0101 + 0.005 * k:.4f}"), times=times) for k in range(10)))


def random_mix(seed: int) -> Composition:
    """Ten ranges of 0.05 to 1, each 1 to 100 times."""
    rng = np.random.default_rng(seed)
    sizes, counts = np.exp(rng.uniform(np.log(0.05), 0, 10)), np.exp(rng.uniform(0, np.log(100), 10))
    parts = (Repeated(BoundedRange(f"{size:.9f}"), times=round(n)) for size, n in zip(sizes, counts, strict=True))
    return Sequence(tuple(parts))


def mix(*ranges: tuple[str, int]) -> Composition:
    return Sequence(tuple(Repeated(BoundedRange(eta), times=times) for eta, times in ranges))


CORNERS = mix(("0.11", 44), ("0.6", 1), ("0.123", 73), ("0.947", 2))
NARROW_LAST = mix(("0.122", 46), ("0.4", 7), ("0.765", 2), ("0.21", 13), ("0.1", 44))


@pytest.mark.parametrize(
    "tree",
    [*(random_mix(seed) for seed in range(12)), CORNERS, NARROW_LAST],
    ids=[*(f"random {seed}" for seed in range(12)), "wide ones leave corners", "narrow ones last"],
)
def test_a_mix_is_known_within_a_thousandth(tree: Composition) -> None:
    bounds = given_order(tree).epsilon("1e-6")
    assert bounds.lower < bounds.upper <= bounds.lower * (1 + 1e-3)


@pytest.mark.parametrize(("times", "width"), [(1, 1e-3), (10, 1e-3), (100, 1e-3)])
def test_the_ends_are_close(times: int, width: float) -> None:
    bounds = given_order(mix_of_ten(times))
    for delta, factor in (("1e-3", 2), ("1e-6", 1), ("1e-10", 2)):
        at = bounds.epsilon(delta)
        assert at.lower < at.upper <= at.lower * (1 + factor * width)


def test_a_mechanism_of_fixed_losses_may_come_in_between() -> None:
    """A randomized response after the first of three ranges: exactly, on a lattice."""
    tree = Sequence(
        (BoundedRange("0.24"), RandomizedResponseLaw("0.12", k=2), BoundedRange("0.36"), BoundedRange("0.12"))
    )
    step = 0.01
    exact = before(step, before_a_response(step, attained(step, (12, 36)), 12), 24)
    for at in (5, 20, 40):
        bounds = given_order(tree).delta(step * at)
        assert bounds.lower <= exact[at] * 1.001
        assert exact[at] <= bounds.upper
        assert bounds.upper <= compose(tree).delta(step * at).upper


# ---- any order ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cells", [(12, 24, 36, 48), (10, 11, 12, 13, 14, 15), (4, 4, 8, 8, 16, 16)], ids=str)
def test_no_analyst_who_chooses_what_is_next_is_above_the_upper_bound(cells: tuple[int, ...]) -> None:
    exact, bounds = in_any_order(STEP, cells), compose(in_order(STEP, cells))
    for wanted in (0.1, 1e-2, 1e-4, 1e-6):
        at = int(np.argmax(exact < wanted))
        assert exact[at] <= bounds.delta(STEP * at).upper


@pytest.mark.parametrize("cells", [(12, 24, 36, 48), (20, 22, 24, 26, 28, 30), (8, 8, 16, 16, 32, 32)], ids=str)
def test_the_lower_end_is_nearly_all_that_an_analyst_attains(cells: tuple[int, ...]) -> None:
    """The widest last: on a lattice, no choice of what is next attains an epsilon that is larger by 10^-3."""
    exact, bounds = in_any_order(STEP, cells), compose(in_order(STEP, cells))
    for wanted in (1e-2, 1e-4, 1e-6):
        at = int(np.argmax(exact < wanted))
        if exact[at] > 0:
            assert bounds.epsilon(float(exact[at])).lower >= STEP * at * (1 - 1e-3)


def test_the_bounds_of_one_order_are_not_those_of_another() -> None:
    """What "any" is for: an analyst who runs the widest last is above the upper bound of the contrary order."""
    exact = attained(STEP, MIX[::-1])
    contrary, every = given_order(in_order(STEP, MIX[::-1])), compose(in_order(STEP, MIX[::-1]))
    assert exact[20] > 1.05 * contrary.delta(STEP * 20).upper
    assert exact[20] <= every.delta(STEP * 20).upper


@pytest.mark.parametrize("cells", [(40, 60, 80, 100), (60, 60, 60, 80, 80, 80), (20, 40, 60, 80, 100, 120)], ids=str)
def test_few_runs_in_any_order_are_known_closely(cells: tuple[int, ...]) -> None:
    """By value iteration over what is left: hardly above what the analyst attains who chooses what is next."""
    step = 0.002
    exact, bounds = in_any_order(step, cells), compose(in_order(step, cells))
    for wanted in (1e-2, 1e-4, 1e-6):
        at = int(np.argmax(exact < wanted))
        assert exact[at] <= bounds.delta(step * at).upper
        found = bounds.epsilon(float(exact[at]))
        assert step * at * (1 - 1e-3) <= found.lower <= found.upper <= step * at * (1 + 1e-3)


def test_a_twin_that_forgets_an_order_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what is left the widest only may be next."""
    cells, step = (40, 60, 80, 100), 0.002
    exact = in_any_order(step, cells)

    def is_above() -> bool:
        any_order._of_group.cache_clear()
        ((loss, _),), _ = worst_in_any_order((step * m, 1) for m in cells)
        assert isinstance(loss, FiniteLoss)
        epsilons: Numbers = step * np.arange(exact.size, dtype=np.float64)
        return bool(np.all(exact[:-1:5] <= profile(loss.losses, loss.masses, epsilons)[:-1:5] * (1 + 1e-9)))

    assert is_above()
    monkeypatch.setattr(any_order, "_larger", lambda _, others: others)
    assert not is_above()
    any_order._of_group.cache_clear()


MIXES = [
    mix(("0.1", 10), ("0.25", 10)),
    mix(("0.25", 10), ("0.1", 10)),
    mix(*((f"{0.1 + 0.02 * k:.2f}", 1) for k in range(6))),
    mix(("0.1", 1000)),
    mix(("0.05", 44), ("0.3", 20), ("0.11", 7)),
    mix(("0.001", 10), ("2", 10)),
    mix(("3.7", 300), ("0.9", 700)),
]


@pytest.mark.parametrize("order", ["any", "given"])
@pytest.mark.parametrize("tree", MIXES, ids=[f"mix {k}" for k in range(len(MIXES))])
def test_without_a_delta_ranges_add_up(tree: Composition, order: Literal["any", "given"]) -> None:
    assert isinstance(tree, Sequence)
    parts = [part for part in tree.of if isinstance(part, Repeated)]
    whole = float(sum(part.times * part.of.eta for part in parts if isinstance(part.of, BoundedRange)))
    found = compose(tree, order=order).epsilon(0)
    assert found.lower <= whole <= found.upper
    assert found.upper - found.lower <= 1e-8 * whole


@pytest.mark.parametrize("wide", ["0.2", "1"])
def test_the_widest_last_is_not_the_worst_order(wide: str) -> None:
    """Why no bound rests on one order: a narrow run between wide ones shows more than before them all, by 1.7e-4."""
    w, n = BoundedRange(wide), BoundedRange(str(float(wide) / 2))
    at = 0.84 * float(wide)
    between, first = (given_order(Sequence(order)).delta(at) for order in ((w, n, w, w), (n, w, w, w)))
    assert between.lower > first.upper * (1 + 1e-4)
    assert between.upper < first.upper * (1 + 1e-3)
    assert between.upper <= compose(Sequence((w, n, w, w))).delta(at).upper


# ---- which order that is --------------------------------------------------------------------------------------------

A, B = BoundedRange("0.1"), BoundedRange("0.2")


@pytest.mark.parametrize(
    ("tree", "order"),
    [
        (Sequence((A, B, A)), ((0.1, 1), (0.2, 1), (0.1, 1))),
        (Sequence((A, Sequence((A, B)))), ((0.1, 2), (0.2, 1))),
        (Repeated(Sequence((A, B)), times=2), ((0.1, 1), (0.2, 1), (0.1, 1), (0.2, 1))),
        (Repeated(Repeated(A, times=3), times=2), ((0.1, 6),)),
        (Sequence((A, GaussianLaw(1), A)), ((0.1, 2),)),
        (Sequence((A, PoissonSampled(B, rate="0.1"))), ((0.1, 1),)),
        (Parallel((A, B)), None),
        (Repeated(Sequence((A, B)), times=10_000), None),
    ],
    ids=["both ends", "nested", "alternating", "one range", "beside noise", "in a batch", "in parallel", "too long"],
)
def test_the_order_is_that_of_the_tree(tree: Composition, order: Runs | None) -> None:
    assert running_order(tree, Relation.ADD_REMOVE) == order


def test_a_tree_that_says_no_order_is_read_in_any() -> None:
    tree = Repeated(Sequence((A, B)), times=10_000)
    assert given_order(tree).epsilon("1e-6").upper == compose(tree).epsilon("1e-6").upper


def test_one_range_has_one_order() -> None:
    tree = Repeated(A, times=50)
    assert given_order(tree).epsilon("1e-6").upper == compose(tree).epsilon("1e-6").upper


def test_another_word_for_the_order_is_refused() -> None:
    with pytest.raises(ParameterError, match="order"):
        compose(A, order="best")  # type: ignore[arg-type]


# ---- from one lattice to another ------------------------------------------------------------------------------------


def profile(losses: Numbers, masses: Numbers, epsilons: Numbers) -> Numbers:
    gaps = epsilons[:, None] - losses[None, :]
    found: Numbers = (masses * np.where(gaps < 0, -np.expm1(np.minimum(gaps, 0)), 0)).sum(axis=1)
    return found


@given(
    places=st.lists(st.floats(0.01, 3), min_size=1, max_size=5),
    step=st.sampled_from([0.01, 0.037, 0.1]),
    other=st.sampled_from([0.004, 0.05, 0.13]),
)
def test_moved_values_lie_on_their_sides(places: list[float], step: float, other: float) -> None:
    losses = np.array(places)
    masses = np.full(losses.size, 1 / losses.size)
    grid: Numbers = step * np.arange(math.ceil(3 / step) + 2, dtype=np.float64)
    values = profile(losses, masses, grid)
    falls = np.array([(masses * np.exp(e - losses))[losses > e].sum() for e in grid])
    above = moved(step, values, other)
    below, steep = moved_below(step, values, falls, other)
    epsilons: Numbers = other * np.arange(above.size, dtype=np.float64)
    true = profile(losses, masses, epsilons)
    assert np.all(above >= true)
    assert np.all(below <= true)
    for shift in (-0.7 * other, 0.7 * other):  # the lines are below everywhere
        lines = below - steep * np.expm1(shift)
        assert np.all(lines[1:] <= profile(losses, masses, epsilons[1:] + shift) + 1e-12)


def test_a_twin_that_moves_values_the_wrong_way_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def lowered(step: float, values: Numbers, finer: float) -> Numbers:
        return moved(step, np.concatenate([values[1:], np.zeros(1)]), finer)

    order = (14, 29, 38, 47)
    found = attained(STEP, order[::-1])
    runs = tuple((STEP * m, 1) for m in order)
    assert above_all(found, runs)
    monkeypatch.setattr(repeated, "moved", lowered)
    repeated._worst.cache_clear()
    assert not above_all(found, runs)
    repeated._worst.cache_clear()


def above_all(found: Numbers, runs: Runs) -> bool:
    """Whether the one loss of these runs is above what is found, at every fifth point."""
    ((loss, _),) = worst_of_runs(runs)
    assert isinstance(loss, FiniteLoss)
    epsilons: Numbers = STEP * np.arange(found.size, dtype=np.float64)
    return bool(np.all(found[:-1:5] <= profile(loss.losses, loss.masses, epsilons)[:-1:5] * (1 + 1e-9)))
