"""Laws of mixes of bounded ranges: of all proved ends the closest holds, and no part takes away from either."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting.composition import Composition, GaussianLaw, RandomizedResponseLaw, Repeated, Sequence
from dpledger.accounting.engine.choose import epsilon_interval
from dpledger.accounting.guarantees import BoundedRange
from dpledger.accounting.laws.ranges_in_any_order import MOST_EFFORT
from dpledger.accounting.profile import compose
from dpledger.decimals import exact as decimal
from dpledger.errors import ParameterError
from range_conversations import attained, before_a_response, in_any_order

Ranges = list[tuple[str, int]]

WIDTH = 1e-3  # of bounds that are close: the law of truths, up to it
ranges = st.lists(
    st.tuples(st.sampled_from(["0.02", "0.1", "0.13", "0.4", "1", "4"]), st.integers(1, 6)), min_size=1, max_size=4
)


def mix(parts: Ranges) -> Composition:
    return Sequence(tuple(Repeated(BoundedRange(eta), times=times) for eta, times in parts))


# ---- the smaller of all upper ends ----------------------------------------------------------------------------------


def test_a_wide_range_and_narrow_ones_cost_no_more_than_each_by_itself() -> None:
    """Value iteration on the lattice of the wide one says 4.2688 here, each range by itself 4.1069."""
    found = compose(mix([("4", 1), ("0.02", 20)])).epsilon("1e-6")
    assert 4.086 < found.lower <= found.upper < 4.107


def test_the_given_order_is_not_above_any() -> None:
    parts: Ranges = [("8", 1), ("0.001", 1000)]
    fixed, every = (compose(mix(parts), order=order).epsilon("1e-6") for order in ("given", "any"))
    assert fixed.upper <= every.upper < 8.0263


@given(parts=ranges, delta=st.sampled_from(["1e-2", "1e-6", "1e-12"]))
@settings(max_examples=25, deadline=None)
def test_given_is_at_most_any_and_any_at_most_the_sum(parts: Ranges, delta: str) -> None:
    fixed, every = compose(mix(parts), order="given"), compose(mix(parts))
    given_order, any_order = fixed.epsilon(delta), every.epsilon(delta)
    assert given_order.lower <= given_order.upper <= any_order.upper
    assert any_order.lower <= any_order.upper
    assert given_order.lower <= any_order.upper
    assert any_order.upper <= sum(float(eta) * times for eta, times in parts) * (1 + 1e-9)
    for epsilon in (0, 0.3 * given_order.upper, 0.9 * given_order.upper):
        low, high = fixed.delta(epsilon), every.delta(epsilon)
        assert low.lower <= low.upper <= high.upper
        assert high.lower <= high.upper


@given(parts=ranges, more=st.sampled_from(["0.02", "0.13", "1", "4"]), delta=st.sampled_from(["1e-2", "1e-6"]))
@settings(max_examples=25, deadline=None)
def test_a_part_more_lowers_neither_end(parts: Ranges, more: str, delta: str) -> None:
    """Neither end by more than the width of bounds that are close."""
    fewer, most = compose(mix(parts)).epsilon(delta), compose(mix([*parts, (more, 1)])).epsilon(delta)
    assert most.lower >= fewer.lower * (1 - WIDTH)
    assert most.upper >= fewer.upper * (1 - 6 * WIDTH) >= 0
    assert most.upper >= fewer.lower


@pytest.mark.parametrize("asked", [("1e-6",), tuple(f"1e-{k}" for k in range(2, 12))], ids=["one", "many"])
def test_every_answer_is_the_least_of_the_lists_that_cover(asked: tuple[str, ...]) -> None:
    profile = compose(mix([("4", 1), ("0.02", 20)]))
    case = next(case for case in profile.cases if case.covers)
    assert case.also
    for delta, found in zip(asked, profile.epsilons(asked), strict=True):
        for each in (case, *case.also):
            assert found.upper <= epsilon_interval(each, decimal(delta, field="delta")).upper * (1 + 6e-4)
    at = [3.9, 4.0, 4.05, 4.09]
    for epsilon, found in zip(at, profile.deltas(at), strict=True):
        assert found.upper == pytest.approx(profile.delta(epsilon).upper, rel=1e-2)


# ---- groups, and effort ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("effort", [1, 3, 12])
def test_no_analyst_is_above_what_groups_say(effort: int) -> None:
    step, cells = 0.02, (6, 7, 8, 9, 10, 11, 12, 13, 14)
    exact = in_any_order(step, cells)
    bounds = compose(Sequence(tuple(BoundedRange(f"{step * m:.12f}") for m in cells)), effort=effort)
    for wanted in (0.1, 1e-2, 1e-4, 1e-6):
        at = int(np.argmax(exact < wanted))
        assert exact[at] <= bounds.delta(step * at).upper


def test_more_effort_comes_closer() -> None:
    ten: Ranges = [(f"{0.1 + 0.01 * k:.2f}", 1) for k in range(10)]
    once, more, most = (compose(mix(ten), effort=effort).epsilon("1e-6") for effort in (1, 4, 12))
    assert most.upper < more.upper < once.upper < once.lower * 1.02
    assert most.upper < most.lower * (1 + 1e-3)
    assert once.lower == more.lower == most.lower


@pytest.mark.parametrize("effort", [0, -1, MOST_EFFORT + 1, 1.5, "2", True])
def test_another_effort_is_refused(effort: object) -> None:
    with pytest.raises(ParameterError, match="effort"):
        compose(BoundedRange("0.1"), effort=effort)  # type: ignore[arg-type]


# ---- beside other leaves the ranges come last -----------------------------------------------------------------------


def test_beside_noise_the_ends_are_close() -> None:
    found = compose(GaussianLaw(4), (BoundedRange("0.2"), 5)).epsilon("1e-6")
    assert found.lower <= found.upper <= found.lower * (1 + 1e-5)


def test_one_range_beside_noise_is_its_envelope() -> None:
    found = compose(GaussianLaw(4), BoundedRange("0.2")).epsilon("1e-6")
    assert found.upper <= found.lower * (1 + 1e-8)


def test_the_lower_end_beside_a_response_is_what_an_analyst_attains() -> None:
    """A randomized response first, then two ranges by what came out: exactly, on a lattice; and no more than that."""
    step = 0.0025
    exact = before_a_response(step, attained(step, (144, 48)), 48)  # the wider one last
    profile = compose(RandomizedResponseLaw("0.12", k=2), BoundedRange("0.36"), BoundedRange("0.12"))
    for at in (20, 80, 160):
        bounds = profile.delta(step * at)
        assert bounds.lower <= exact[at] * (1 + 2e-4)
        assert exact[at] * (1 - 1e-3) <= bounds.lower
        assert exact[at] <= bounds.upper


def test_in_a_given_order_what_comes_after_takes_the_last_word() -> None:
    """Ranges that noise follows do not know what it will say: their lower end is that of fixed positions."""
    tree = Sequence((Repeated(BoundedRange("0.2"), times=5), GaussianLaw(4)))
    fixed, every = compose(tree, order="given").epsilon("1e-6"), compose(tree).epsilon("1e-6")
    assert fixed.lower < every.lower
    assert fixed.upper <= every.upper
