"""Laws of mixes of bounded ranges: of all proved ends the closest holds, and no part takes away from either."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from dpledger.accounting.arithmetic.floating import Array
from dpledger.accounting.composition import Composition, GaussianLaw, RandomizedResponseLaw, Repeated, Sequence
from dpledger.accounting.engine.dispatch import epsilon_interval
from dpledger.accounting.families.bounded_range import any_order
from dpledger.accounting.families.bounded_range.lattice import RangeLattice, RangeTable, after, after_each
from dpledger.accounting.guarantees import BoundedRange
from dpledger.accounting.laws.draws import Runs
from dpledger.accounting.pricing.pld_list import MOST_EFFORT
from dpledger.accounting.profile import compose
from dpledger.decimals import exact as decimal
from dpledger.errors import Contradiction, ParameterError
from range_conversations import attained, before_a_response, in_any_order

pytestmark = pytest.mark.sliced

Ranges = list[tuple[str, int]]

LOWER_FALLS = {"1e-2": 1e-3, "1e-6": 2e-3, "1e-12": 1.5e-2}  # relative, at a delta: by a part more, at most
UPPER_FALLS = 5e-4
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


@pytest.mark.slow
@given(parts=ranges, delta=st.sampled_from(["1e-2", "1e-6", "1e-12"]))
@settings(max_examples=12, deadline=None)
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


@pytest.mark.slow
@given(
    parts=ranges,
    more=st.sampled_from(["0.02", "0.13", "1", "4"]),
    delta=st.sampled_from(list(LOWER_FALLS)),
    order=st.sampled_from(["any", "given"]),
)
@example(parts=[("4", 2), ("0.2", 6)], more="1", delta="1e-12", order="given")  # falls furthest
@example(parts=[("0.05", 6), ("4", 2)], more="1", delta="1e-6", order="given")
@settings(max_examples=25, deadline=None)
def test_a_part_more_lowers_neither_end_by_more_than_is_said(
    parts: Ranges, more: str, delta: str, order: Literal["any", "given"]
) -> None:
    """Each mix has lattices of its own: what does not fall lies between the ends."""
    with_more = [*parts[:1], (more, 1), *parts[1:]]
    fewer, most = (compose(mix(each), order=order).epsilon(delta) for each in (parts, with_more))
    assert most.upper >= fewer.lower
    assert most.lower >= fewer.lower * (1 - LOWER_FALLS[delta])
    assert most.upper >= fewer.upper * (1 - UPPER_FALLS)


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


NEARLY_EQUAL = (40, 41, 42, 43, 44, 45, 46, 47, 48)


@pytest.mark.parametrize("cells", [NEARLY_EQUAL, (20, 20, 21, 21, 30, 31, 32, 33, 34, 35)], ids=str)
def test_no_analyst_is_above_ranges_that_are_rounded_up(cells: tuple[int, ...]) -> None:
    step = 0.004
    exact = in_any_order(step, cells)
    bounds = compose(Sequence(tuple(BoundedRange(f"{step * m:.12f}") for m in cells)))
    for wanted in (0.1, 1e-2, 1e-4, 1e-6):
        at = int(np.argmax(exact < wanted))
        assert exact[at] <= bounds.delta(step * at).upper


def test_a_twin_that_rounds_down_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the lower end, which rounds nothing."""

    def down(runs: Runs) -> Iterator[tuple[float, Runs]]:
        yield 0.0, ((runs[0][0], len(runs) - 1), (runs[1][0], 1))

    profile = compose(Sequence(tuple(BoundedRange(f"{0.004 * m:.3f}") for m in NEARLY_EQUAL)))
    assert profile.epsilon("1e-6")
    monkeypatch.setattr(any_order, "_rounded_up", down)
    with pytest.raises(Contradiction):
        compose(Sequence(tuple(BoundedRange(f"{0.004 * m:.3f}") for m in NEARLY_EQUAL))).epsilon("1e-6")


@given(
    st.lists(st.tuples(st.floats(0.01, 4), st.integers(1, 9)), min_size=1, max_size=30, unique_by=lambda each: each[0])
)
def test_rounding_up_makes_no_range_narrower(given_runs: list[tuple[float, int]]) -> None:
    def each(runs: Runs) -> list[float]:
        return sorted(eta for eta, count in runs for _ in range(count))

    runs = tuple(sorted(given_runs))
    for risen, classes in any_order._rounded_up(runs):
        wider = each(classes)
        assert all(narrow <= wide for narrow, wide in zip(each(runs), wider, strict=True))
        squares = sum(wide**2 for wide in wider) - sum(narrow**2 for narrow in each(runs))
        assert risen == pytest.approx(squares, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("count", "apart", "width"), [(10, 0.0005, 6e-3), (100, 0.0001, 3e-2)])
def test_ranges_that_are_nearly_equal_count_as_the_widest_of_them(count: int, apart: float, width: float) -> None:
    """Without that 1.9e-2 and 1.3e-1."""
    found = compose(mix([(f"{0.1 + apart * k:.4f}", 1) for k in range(count)])).epsilon("1e-6")
    assert found.lower <= found.upper <= found.lower * (1 + width)


def test_ten_different_ranges_are_not_much_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some 60 ms: counted in entries of the tables, of which 10^6 take about 10 ms."""
    entries = 0

    def counted(lattice: RangeLattice, functions: list[Array], table: RangeTable) -> list[Array]:
        nonlocal entries
        entries += lattice.cells * sum(values.size + lattice.cells for values in functions)
        return after_each(lattice, functions, table)

    any_order._of_group.cache_clear()
    monkeypatch.setattr(any_order, "after_each", counted)
    compose(mix([(f"{0.1 + 0.01 * k:.2f}", 1) for k in range(10)]))
    assert 0 < entries < 3_000_000


@given(
    st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=40), min_size=1, max_size=5),
    st.sampled_from([(0.3, 8), (1.0, 24)]),
)
def test_many_functions_at_once_are_each_by_itself(functions: list[list[float]], of: tuple[float, int]) -> None:
    each = [np.array([*sorted(values, reverse=True), 0.0]) for values in functions]
    lattice = RangeLattice(*of)
    for values, found in zip(each, after_each(lattice, each, RangeTable()), strict=True):
        assert found.tolist() == after(lattice, values, RangeTable()).tolist()


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
