"""The closed forms of one run, against mpmath: each end is on its side of the truth, and next to it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from dpledger.accounting.arithmetic.floating import Array
from dpledger.accounting.laws import closed_forms
from dpledger.accounting.laws.closed_forms import crossing, linear_tail_delta, linear_tail_epsilon, nearest
from dpledger.accounting.laws.intervals import NOTHING, Interval
from dpledger.accounting.laws.law import ClosedForm
from worst_functions import worst_functions

mp = mpmath.mp.clone()
mp.dps = 60
Real = Any  # an mpmath number

UNIT = 2.0**-53
FEW = 64 * UNIT  # roundings
rates = st.sampled_from([1e-9, 1e-3, 0.1, 0.5, 0.9])
largest = st.sampled_from([1e-4, 0.3, 1.0, 5.0, 30.0])
shares = st.floats(0.001, 1.2)


@pytest.fixture(scope="module", params=[0, 1, -1], ids=["ours", "above", "below"], autouse=True)
def functions(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever holds here holds with the worst elementary functions that are assumed."""
    with worst_functions(request.param):
        yield


def tail(e0: float, epsilon: Real) -> Real:
    """1 - e^{(eps - e0)/2}."""
    return -mp.expm1((epsilon - mp.mpf(e0)) / 2) if epsilon < e0 else mp.mpf(0)


def tail_epsilon(e0: float, delta: float) -> Real:
    return max(mp.mpf(e0) + 2 * mp.log1p(-mp.mpf(delta)), mp.mpf(0))


def base_of(e0: float) -> ClosedForm:
    return ClosedForm(lambda e: linear_tail_delta(e0, e), lambda down, up: linear_tail_epsilon(e0, down, up))


@given(e0=largest, share=shares | st.just(1.0) | st.just(0.0))
def test_a_linear_tail_lies_between_its_ends(e0: float, share: float) -> None:
    epsilon = e0 * share
    lower, upper = (float(side[0]) for side in linear_tail_delta(e0, np.array([epsilon])))
    exact = tail(e0, mp.mpf(epsilon))
    assert 0 <= lower <= exact <= upper <= 1
    assert upper - lower <= FEW * (exact + e0 + epsilon) + 1e-300
    if share > 1.0001:
        assert (lower, upper) == (0.0, 0.0)
    beside = tail(e0 * (1 + UNIT), mp.mpf(epsilon)), tail(e0 * (1 - UNIT), mp.mpf(epsilon))
    assert max(beside) <= upper or share > 1
    assert lower <= min(beside)


@given(e0=largest, delta=st.floats(1e-12, 0.999999) | st.floats(1e-9, 1e-3))
def test_its_epsilon_lies_between_its_ends(e0: float, delta: float) -> None:
    found, exact = linear_tail_epsilon(e0, delta, delta), tail_epsilon(e0, delta)
    assert 0 <= found.lower <= exact <= found.upper
    assert found.upper - found.lower <= FEW * (e0 - 2 * math.log1p(-delta))
    wide = linear_tail_epsilon(e0, delta / 2, delta)
    assert wide.lower == found.lower
    assert wide.upper >= tail_epsilon(e0, delta / 2)


def test_its_epsilon_for_all_of_delta_is_none() -> None:
    assert linear_tail_epsilon(3.0, 1.0, 1.0) == Interval(0.0, 0.0)
    half = linear_tail_epsilon(3.0, 0.5, 1.0)
    assert half.lower == 0.0
    assert half.upper == pytest.approx(3 - 2 * math.log(2))


def mixed(rate: float, direction: str) -> Callable[[Real, float], Real]:
    """Balle-Barthe-Gaboardi 2018: delta of a Poisson sample from that of what is sampled."""
    q = mp.mpf(rate)

    def remove(epsilon: Real, e0: float) -> Real:
        return q * tail(e0, mp.log1p(mp.expm1(epsilon) / q))

    def add(epsilon: Real, e0: float) -> Real:
        left = 1 - (1 - q) * mp.exp(epsilon)
        return left * tail(e0, mp.log(q * mp.exp(epsilon) / left)) if left > 0 else mp.mpf(0)

    return remove if direction == "remove" else add


def largest_of(rate: float, e0: float, direction: str) -> float:
    grown = math.log1p(rate * math.expm1(e0 if direction == "remove" else -e0))
    return grown if direction == "remove" else -grown


@pytest.mark.parametrize("direction", ["remove", "add"])
@given(rate=rates, e0=largest, share=shares)
def test_a_sample_of_it_lies_between_its_ends(direction: Any, rate: float, e0: float, share: float) -> None:
    most = largest_of(rate, e0, direction)
    form = closed_forms.sampled_closed(
        base_of(e0), (e0, e0), rate=rate, direction=direction, largest=most * (1 + 1e-14), guess=None
    )
    epsilon = most * share
    exact = mixed(rate, direction)(mp.mpf(epsilon), e0)
    lower, upper = (float(side[0]) for side in form.deltas(np.array([epsilon])))
    assert lower <= exact <= upper
    scale = rate * (1 + e0 + abs(math.log(rate))) + (0 if direction == "remove" else 1) * (rate + epsilon)
    assert upper - lower <= 4 * FEW * (scale + exact) + 1e-300
    delta = float(exact)
    assume(1e-14 * rate < delta)
    found = form.epsilon(delta, delta)
    at_ends = [mixed(rate, direction)(mp.mpf(end), e0) for end in (found.lower, found.upper)]
    assert at_ends[1] <= delta
    assert at_ends[0] >= delta or found.lower == 0
    steep = rate * math.exp(-e0)  # the slope of delta is not less than about this
    assert found.upper - found.lower <= 3e-10 * found.upper + 8 * FEW * (1 + e0 + abs(math.log(rate))) * rate / steep


def test_a_sample_of_an_epsilon_beyond_powers_is_its_logarithm() -> None:
    assert closed_forms._mixed(0.5, math.inf, 1.0) == math.inf
    for epsilon in (699.5, 700.5, 5000.0):
        for rate in (1e-3, 0.5):
            exact = mp.log1p(mp.mpf(rate) * mp.expm1(mp.mpf(epsilon)))
            low, high = (closed_forms._mixed(rate, epsilon, side) for side in (-1.0, 1.0))
            assert low < exact < high
            assert high - low <= FEW * (epsilon + abs(math.log(rate)))


@pytest.mark.parametrize("rate", [1e-250, 1e-20, 0.3])
def test_far_epsilons_of_a_sample_are_answered_on_both_sides_of_where_powers_end(rate: float) -> None:
    e0 = 2000.0
    far = max(700 + math.log(rate), 60.0)
    epsilons = np.array([far * 0.5, far * (1 - 1e-12), far * (1 + 1e-12), 1500.0 + math.log(rate), 3000.0])
    lower, upper = closed_forms.removed_delta(rate, base_of(e0).deltas, epsilons)
    for epsilon, low, high in zip(epsilons.tolist(), lower.tolist(), upper.tolist(), strict=True):
        assert low <= mixed(rate, "remove")(mp.mpf(epsilon), e0) <= high
        assert high - low <= 1e-12 * rate + 1e-300
    assert [side.tolist() for side in closed_forms.added_delta(0.3, base_of(e0).deltas, np.array([701.0, 1e5]))] == [
        [0.0, 0.0]
    ] * 2


def test_the_ends_of_delta_are_answered_by_the_largest_loss() -> None:
    """A delta of zero asks for the largest loss, one of 1 for nothing, and what lies between goes to the law."""
    asked = []

    def answer(down: float, up: float) -> Interval:
        asked.append((down, up))
        return Interval(1.0, 2.0)

    at = closed_forms.at_the_ends
    assert at(answer, (4.0, 5.0), 0.1, 0.2) == Interval(1.0, 2.0)
    assert at(answer, (4.0, 5.0), 0.0, 0.0) == Interval(4.0, 5.0)
    assert at(answer, (-4.0, -5.0), 0.0, 0.0) == Interval(0.0, 0.0)
    assert at(answer, (4.0, 5.0), 0.0, 0.2) == Interval(1.0, 5.0)
    assert at(answer, (4.0, 5.0), 0.1, 1.0) == Interval(0.0, 2.0)
    assert at(answer, (4.0, 5.0), 0.0, 1.0) == Interval(0.0, 5.0)
    assert at(answer, (4.0, 5.0), 1.0, 1.0) == NOTHING
    assert asked == [(0.1, 0.2), (0.2, 0.2), (0.1, 0.1)]


# ---- roots ----------------------------------------------------------------------------------------------------------


class Falling:
    """Bounds of a falling function, wider where the root is undecided; it counts the points that it was asked."""

    def __init__(self, root: float, wide: float) -> None:
        self.root, self.wide, self.calls, self.points = root, wide, 0, 0

    def __call__(self, epsilons: Array) -> tuple[Array, Array]:
        self.calls += 1
        self.points += epsilons.size
        value = 0.5 - np.arctan(epsilons - self.root) / math.pi
        return value - self.wide, value + self.wide


widths = st.sampled_from([0.0, 1e-12, 1e-6, 1e-2])


@given(root=st.floats(1e-3, 9.0), wide=widths, at_once=st.sampled_from([1, 3, 31]))
def test_a_crossing_is_between_points_that_decide_it(root: float, wide: float, at_once: int) -> None:
    """As narrow as the bounds of the function let it be, and found with about as many points as halving needs."""
    answer = Falling(root, wide)
    found = crossing(answer, 0.5, 0.5, 0.0, 10.0, at_once=at_once)
    assert found.lower <= root <= found.upper
    undecided = math.tan(math.pi * wide)
    assert root - found.lower <= undecided * 1.0001 + 3e-10 * 10
    assert found.upper - root <= undecided * 1.0001 + 3e-10 * 10
    assert answer.calls <= 60
    assert answer.points <= 60 * 2 * at_once


@given(down=st.floats(0.2, 0.5), more=st.floats(0.0, 0.2))
def test_a_crossing_of_several_deltas_holds_for_each(down: float, more: float) -> None:
    roots = [3 + math.tan(math.pi * (0.5 - delta)) for delta in (down, down + more)]
    found = crossing(Falling(3.0, 0.0), down, down + more, 0.0, 10.0)
    assert found.lower <= roots[1] + 1e-12
    assert roots[0] - 1e-12 <= found.upper
    assert found.upper - roots[0] <= 1e-8 >= roots[1] - found.lower


@given(root=st.floats(0.5, 9.0), wide=widths, off=st.sampled_from([0.0, 1e-11, -1e-9, 1e-5, 0.4, -0.4]))
def test_near_a_guess_the_root_is_found_between_points_that_decide_it(root: float, wide: float, off: float) -> None:
    """At most four times as far from the guess as has to be, and never beyond what is known already."""
    answer = Falling(root, wide)
    found = nearest(answer, 0.5, 0.5, root * (1 + off), Interval(0.0, 10.0))
    assert 0 <= found.lower <= root <= found.upper <= 10
    needed = abs(off) * root + 1.1 * math.tan(math.pi * wide) + 2e-10 * root
    assert found.upper - root <= 9 * needed
    assert root - found.lower <= 9 * needed
    assert answer.calls <= 18


@pytest.mark.parametrize("side", [-1.0, 2.0])
def test_what_is_never_decided_is_what_was_known(side: float) -> None:
    """A function that is above every delta, or below: one end moves to what is known, the other to the guess."""

    def constant(epsilons: Array) -> tuple[Array, Array]:
        return np.full(epsilons.shape, side), np.full(epsilons.shape, side)

    known, guess = Interval(1.0, 7.0), 3.0
    found = nearest(constant, 0.5, 0.5, guess, known)
    if side > 0:
        assert 3 - 1e-8 < found.lower < 3
        assert found.upper == 7.0
        assert crossing(constant, 0.5, 0.5, 1.0, 7.0).lower > 7 - 1e-8
    else:
        assert found.lower == 1.0
        assert 3 < found.upper < 3 + 1e-8
        assert crossing(constant, 0.5, 0.5, 1.0, 7.0).upper < 1 + 1e-8

    def open_one(epsilons: Array) -> tuple[Array, Array]:
        return np.zeros(epsilons.shape), np.ones(epsilons.shape)

    assert nearest(open_one, 0.5, 0.5, guess, known) == known
    assert crossing(open_one, 0.5, 0.5, 1.0, 7.0) == known
