"""Appends in any order, of any kind: one number at every step, whatever keeps it; and little work for each."""

import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Literal

import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting import accountant as accountants
from dpledger.accounting.accountant import Accountant
from dpledger.accounting.composition import (
    Composition,
    DiscreteGaussianLaw,
    DiscreteLaplaceLaw,
    GaussianLaw,
    LaplaceLaw,
    PoissonSampled,
)
from dpledger.accounting.engine import choose
from dpledger.accounting.engine.contour import Contour
from dpledger.accounting.engine.running_lattice import RunningLattice
from dpledger.accounting.guarantees import ApproxDP, PureDP
from dpledger.accounting.laws.finite import approximate_pair
from dpledger.accounting.laws.gaussian import GaussianLoss
from dpledger.accounting.laws.law import Loss
from dpledger.accounting.profile import Bounds, compose
from engine_oracles import gaussian_delta, real

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


@settings(max_examples=15, deadline=None)
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


@pytest.mark.parametrize("rate", ["0.001", "0.00003"])
def test_few_runs_of_a_small_rate_go_on_on_a_lattice(rate: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole list is asked a few times only; each answer is about as narrow as that of the whole list."""
    asked: list[object] = []

    def counted(*arguments: Any) -> Any:
        asked.append(arguments)
        return original(*arguments)

    original = choose.epsilon_interval
    monkeypatch.setattr(accountants, "epsilon_interval", counted)
    accountant, so_far, rng = Accountant("1e-5"), Counter[Composition](), random.Random(3)
    distinct: list[Composition] = [PoissonSampled(GaussianLaw(f"{1 + i / 10}"), rate=rate) for i in range(5)]
    for _ in range(40):
        step = rng.choice(distinct)
        so_far[step] += 1
        found = accountant.append(step)
        if so_far.total() % 8 == 0:
            whole = composed(so_far, "1e-5")
            assert same(found, whole)
            assert found.upper - found.lower <= max(5e-4 * whole.upper, 2 * (whole.upper - whole.lower))
    assert len(asked) <= 30  # for 40 appends in two directions


def counted_work(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a contour is evaluated or made."""
    done: Counter[str] = Counter()

    def counting(name: str) -> Callable[..., Any]:
        original = getattr(Contour, name)

        def counted(*arguments: Any, **named: Any) -> Any:
            done[name] += 1
            return original(*arguments, **named)

        return counted

    for name in ("__init__", "upper", "lower", "bounds", "estimate"):
        monkeypatch.setattr(Contour, name, counting(name))
    return done


def test_an_append_of_a_known_step_is_one_contour_asked_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    accountant = Accountant("1e-5")
    accountant.append(LEAVES[0], 2000)
    for _ in range(5):
        accountant.append(LEAVES[0])
    done = counted_work(monkeypatch)
    for _ in range(200):
        accountant.append(LEAVES[0])
    assert done["__init__"] <= 205
    assert done["upper"] + done["lower"] <= 440
    assert done["bounds"] + done["estimate"] <= 20


# ---- the lattice by itself ------------------------------------------------------------------------------------------


@settings(max_examples=10, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.002, 0.3), st.integers(1, 3)), min_size=1, max_size=8),
    st.integers(0, 2),
    st.sampled_from([1e-3, 1e-7]),
)
def test_gaussians_on_a_growing_lattice_against_the_closed_form(
    added: list[tuple[float, int]], known: int, delta: float
) -> None:
    """Balle-Wang 2018: at the bounds of epsilon the exact delta is on either side, after every append."""
    first: list[tuple[Loss, int]] = [(GaussianLoss(0.1), 2), (GaussianLoss(0.05), 1)]
    lattice, _ = RunningLattice.begun(tuple(first), delta, delta)
    square = 2 * real(0.1) + real(0.05)
    for mu_squared, count in added:
        chosen = 0.1 if count <= known else mu_squared
        lattice.add(GaussianLoss(chosen), count)
        square += count * real(chosen)
        found = lattice.epsilon(delta, delta)
        assert gaussian_delta(square**0.5, real(found.upper)) <= real(delta) * (1 + real("1e-9"))
        assert found.lower == 0 or gaussian_delta(square**0.5, real(found.lower)) >= real(delta) * (1 - real("1e-9"))
        assert square > real("0.35") or found.relative_width() <= 1e-3


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.floats(0.1, 1.5), st.integers(1, 2)), min_size=2, max_size=6))
def test_responses_on_a_growing_lattice_against_counting(pairs: list[tuple[float, int]]) -> None:
    """All outcomes of randomised responses, counted exactly by `compose`."""
    delta, (first, *others) = 1e-3, pairs
    begun = RunningLattice.begun(((approximate_pair(first[0], 0.0).loss(), first[1]),), delta, delta)
    lattice = next(begun, None)
    so_far = Counter[Composition]({PureDP(first[0]): first[1]})
    for epsilon, count in others:
        if lattice is None:
            break
        lattice.add(approximate_pair(epsilon, 0.0).loss(), count)
        so_far[PureDP(epsilon)] += count
        found, exact = lattice.epsilon(delta, delta), composed(so_far, repr(delta))
        assert found.lower <= exact.upper
        assert exact.lower <= found.upper
