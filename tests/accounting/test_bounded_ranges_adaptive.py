"""Bounded ranges chosen by what came out: the bounds hold the worst of all conversations, and lie close together."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import minimize_scalar

from dpledger.accounting.composition import GaussianLaw, Repeated, Sequence
from dpledger.accounting.families.bounded_range.loss import BoundedRangeLoss, worst_position
from dpledger.accounting.families.bounded_range.repeated import worst_of_runs
from dpledger.accounting.guarantees import RDP, BoundedRange
from dpledger.accounting.profile import compose
from engine_oracles import mp

pytestmark = pytest.mark.sliced

Profile = Callable[[float], float]


def nothing(epsilon: float) -> float:
    return max(0.0, -math.expm1(epsilon))


def at_position(before: Profile, eta: float, t: float, epsilon: float) -> float:
    """delta of a run with the losses t and t - eta, before what has the profile `before`."""
    likely = math.expm1(t - eta) / math.expm1(-eta)
    return likely * before(epsilon - t) + (1 - likely) * before(epsilon - t + eta)


def one_more(before: Profile, eta: float) -> Profile:
    """The worst of one more run, by search: no lattice, no chords."""

    @cache
    def found(epsilon: float) -> float:
        tried = [eta * i / 24 for i in range(25)]
        best = max(tried, key=lambda t: at_position(before, eta, t, epsilon))
        near = max(0.0, best - eta / 24), min(eta, best + eta / 24)
        polished = minimize_scalar(
            lambda t: -at_position(before, eta, t, epsilon), bounds=near, method="bounded", options={"xatol": 1e-9}
        )
        return max(-float(polished.fun), at_position(before, eta, best, epsilon))

    return found


def worst(*etas: float) -> Profile:
    """The worst delta of runs of these ranges, in this order."""
    found: Profile = nothing
    for eta in reversed(etas):
        found = one_more(found, eta)
    return found


@pytest.mark.parametrize("eta", [0.05, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("share", [0.05, 0.4, 0.8])
def test_two_runs_lie_between_the_bounds(eta: float, share: float) -> None:
    bounds = compose(Repeated(BoundedRange(str(eta)), times=2)).delta(2 * eta * share)
    true = worst(eta, eta)(2 * eta * share)
    assert bounds.lower <= true * (1 + 1e-9)
    assert true <= bounds.upper * (1 + 1e-9)
    assert bounds.upper <= bounds.lower * 1.02


@pytest.mark.slow
@pytest.mark.parametrize(("eta", "epsilon"), [(0.3, 0.2), (1.0, 1.2), (1.0, 2.5)])
def test_three_runs_lie_between_the_bounds(eta: float, epsilon: float) -> None:
    bounds = compose(Repeated(BoundedRange(str(eta)), times=3)).delta(epsilon)
    true = worst(eta, eta, eta)(epsilon)
    assert bounds.lower <= true * (1 + 1e-9)
    assert true <= bounds.upper * (1 + 1e-9)
    assert bounds.upper <= bounds.lower * 1.02


@pytest.mark.parametrize("order", [(0.4, 1.0, 1.0), (1.0, 0.4, 1.0), (1.0, 1.0, 0.4)], ids=str)
def test_no_order_of_different_ranges_is_worse_than_the_upper_bound(order: tuple[float, ...]) -> None:
    tree = Sequence((Repeated(BoundedRange("1"), times=2), BoundedRange("0.4")))
    found = worst(*order[:-1])  # the last run is the closed form of the envelope, mixed by hand
    bounds = compose(tree)
    for epsilon in (0.3, 1.5):
        last = order[-1]
        assert one_more(found, last)(epsilon) <= bounds.delta(epsilon).upper * (1 + 1e-9)


@given(
    eta=st.sampled_from([0.02, 0.1, 0.7, 1.5, 3.0]),
    runs=st.sampled_from([4, 20, 70, 150]),
    choices=st.lists(st.floats(0.3, 0.9), min_size=6, max_size=6),
    deviations=st.floats(0.5, 5),
)
@settings(max_examples=30, deadline=None)
def test_no_conversation_is_worse_than_the_upper_bound(
    eta: float, runs: int, choices: list[float], deviations: float
) -> None:
    """Conversations that look at what was lost so far: above its mean they go on in one way, below in another, with
    positions on a lattice of eta / 20; their losses are counted exactly."""
    positions = [round(20 * choice) for choice in choices]
    mass = {0: 1.0}
    for run in range(runs):
        after: dict[int, float] = {}
        for lost, chance in mass.items():
            t = positions[3 * (run * 2 < runs) + (lost > 0) + (lost > 20)]
            likely = math.expm1((t / 20 - 1) * eta) / math.expm1(-eta)
            for step, part in ((t, likely), (t - 20, 1 - likely)):
                after[lost + step] = after.get(lost + step, 0.0) + chance * part
        mass = after
    losses, chances = np.array(list(mass)) * eta / 20, np.array(list(mass.values()))
    epsilon = eta * runs * math.tanh(eta / 4) / 2 + deviations * eta * math.sqrt(runs) / 2
    exact = float(np.sum(chances[losses > epsilon] * -np.expm1(epsilon - losses[losses > epsilon])))
    assert exact <= compose(Repeated(BoundedRange(str(eta)), times=runs)).delta(epsilon).upper * (1 + 1e-9)


def test_that_test_can_fail() -> None:
    """The pair that is symmetric, run each time: at most places it is not the worst, and by more than the bounds are
    apart."""
    runs, eta, epsilon = 20, 1.0, mp.mpf(8)
    rare = 1 / (1 + mp.exp(mp.mpf(eta) / 2))
    symmetric = mp.mpf(0)
    for k in range(runs + 1):
        loss = eta * mp.mpf(runs - 2 * k) / 2
        if loss > epsilon:
            symmetric += mp.binomial(runs, k) * (1 - rare) ** (runs - k) * rare**k * -mp.expm1(epsilon - loss)
    bounds = compose(Repeated(BoundedRange("1"), times=runs)).delta("8")
    assert float(symmetric) < 0.95 * bounds.lower


def test_beside_other_mechanisms_they_cost_less_than_their_envelope() -> None:
    runs = worst_of_runs(((0.3, 40),))
    assert not isinstance(runs[0][0], BoundedRangeLoss)
    tree = Sequence((Repeated(BoundedRange("0.3"), times=40), GaussianLaw(2)))
    assert compose(tree).epsilon("1e-6").upper < 6.10


def test_beside_renyi_curves_the_envelope_stays() -> None:
    curve = RDP((2, 8), ("0.01", "0.05"))
    tree = Sequence((Repeated(BoundedRange("0.3"), times=40), curve))
    alone = compose(Repeated(BoundedRange("0.3"), times=40)).epsilon("1e-6")
    assert compose(tree).epsilon("1e-6").upper > alone.upper


def test_what_is_too_fine_or_too_wide_is_read_by_the_envelope() -> None:
    for eta, runs in ((1e-12, 5), (50.0, 5)):
        assert worst_of_runs(((eta, runs),)) == ((BoundedRangeLoss(eta), runs),)


@given(eta=st.floats(1e-3, 8), tilt=st.floats(1e-3, 20))
def test_the_position_is_that_of_the_largest_moment(eta: float, tilt: float) -> None:
    def moment(position: float) -> float:
        t = position * eta
        likely = math.expm1(t - eta) / math.expm1(-eta)
        return math.log(likely * math.exp(tilt * t) + (1 - likely) * math.exp(tilt * (t - eta)))

    best = worst_position(eta, tilt)
    assert all(moment(best) >= moment(at) - 1e-9 for at in np.linspace(0.01, 0.99, 99))
