"""Statistics of records: exact on their rows, and no neighbour moves them by more than is declared."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import binom

from dpledger.accounting.composition import DiscreteLaplaceLaw, LaplaceLaw, Sequence
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.noise import Draw, recording
from dpledger.mechanisms.numeric import ClippedMean, Count, Histogram
from dpledger.mechanisms.statistics import ClippedSum, Variance
from dpledger.relations import Relation, Unit
from exact_tests import SIGNIFICANCE
from logged_draws import declared, grid_of

pytestmark = pytest.mark.sliced

MECHANISMS = [
    Count(epsilon="0.5", of="rows"),
    Count(epsilon="0.5", of="true"),
    ClippedMean(epsilon="0.5", lower=0, upper=100),
    ClippedMean(epsilon="0.5", lower="-0.1", upper="0.25", missing="0.2", grid="0.125"),
    ClippedSum(epsilon="0.5", lower=90, upper=100),
    ClippedSum(epsilon="0.5", lower="0.1", upper="0.3", grid="0.125"),
    Histogram(epsilon="0.5", edges=(0, 10, 20, 100)),
    Histogram(epsilon="0.5", edges=("-1.5", 3), others="counted"),
    Histogram(epsilon="0.5", categories=("a", "b")),
    Histogram(epsilon="0.5", categories=("a", "b"), others="counted"),
]

THREE = [Variance(epsilon="0.5", lower=0, upper=100), Variance(epsilon="0.7", lower=-1, upper=3, grid="0.5")]

rows = st.one_of(
    st.floats(),
    st.integers(-(10**30), 10**30),
    st.booleans(),
    st.sampled_from(["a", "b", "c", None, (), 1j, Decimal("sNaN"), Decimal("1e99999"), Fraction(1, 3), np.float32(7)]),
)


def drawn(mechanism: Any, data: object, seed: int = 1) -> list[Draw]:
    with recording() as draws:
        mechanism.release(data, entropy=seeded(seed))
    return draws


def moved(left: Draw, right: Draw) -> Fraction:
    """How far the value moved, in the l1 norm and the units of the law's scale."""
    pairs = zip(np.atleast_1d(left.value).tolist(), np.atleast_1d(right.value).tolist(), strict=True)
    return sum((abs(Fraction(a - b)) for a, b in pairs), Fraction(0)) * Fraction(grid_of(left))


@pytest.mark.parametrize("mechanism", [*MECHANISMS, *THREE], ids=lambda mechanism: mechanism.kind)
@settings(max_examples=40, deadline=None)
@given(data=st.lists(rows, max_size=8), own=st.lists(rows, max_size=3), other=st.lists(rows, max_size=3))
def test_no_neighbour_moves_a_value_by_more_than_its_declared_sensitivity(
    mechanism: Any, data: list[object], own: list[object], other: list[object]
) -> None:
    unit = Unit("user", max_contributions=3)
    neighbours: dict[Relation, tuple[list[object], list[object]]] = {
        Relation.ADD_REMOVE: (own, []),
        Relation.ZERO_OUT: (own, [None] * len(own)),
        Relation.REPLACE_ONE: (own, other),
        Relation.LABEL_FLIP: (own, (other * 3 + [0] * 3)[: len(own)]),
    }
    for relation, (mine, theirs) in neighbours.items():
        placed = mechanism.under(relation, unit)
        left, right = drawn(placed, [*data, *mine]), drawn(placed, [*theirs, *data])
        assert [d.law for d in left] == [d.law for d in right]
        for a, b in zip(left, right, strict=True):
            assert a.sensitivity == b.sensitivity
            assert moved(a, b) <= Fraction(declared(a).value)


@pytest.mark.parametrize("mechanism", [*MECHANISMS, *THREE], ids=lambda mechanism: mechanism.kind)
def test_a_twin_that_forgets_to_count_a_users_rows_is_caught(mechanism: Any) -> None:
    forgetful = mechanism.under(Relation.ADD_REMOVE, Unit("user", max_contributions=1))
    word = "a" if getattr(mechanism, "categories", None) else getattr(mechanism, "of", None) == "true"
    left, right = drawn(forgetful, [word] * 3), drawn(forgetful, [])
    assert any(moved(a, b) > Fraction(declared(a).value) for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize("mechanism", [*MECHANISMS, *THREE], ids=lambda mechanism: mechanism.kind)
@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("contributions", [1, 7])
def test_the_noise_of_each_draw_is_that_of_its_leaf(mechanism: Any, relation: Relation, contributions: int) -> None:
    """sensitivity / scale of what is drawn never exceeds what the leaves of the tree say, in total."""
    placed = mechanism.under(relation, Unit("user", max_contributions=contributions))
    loss = sum(Fraction(declared(d).value) / Fraction(getattr(d.law, "scale", 0)) for d in drawn(placed, [1.0, 2.0]))
    assert loss <= Fraction(placed.claim().epsilon)
    assert loss >= Fraction(placed.claim().epsilon) * (1 - Fraction(1, 10**9))


@settings(max_examples=30, deadline=None)
@given(data=st.lists(st.floats(-1e3, 1e3), max_size=30), seed=st.integers(0, 99))
def test_the_order_of_rows_cannot_matter(data: list[float], seed: int) -> None:
    mechanism = ClippedMean(epsilon=1, lower=-5, upper=7)
    shuffled = np.random.default_rng(seed).permutation(data)
    first, second = (mechanism.release(rows, entropy=seeded(seed)).value for rows in (np.array(data), shuffled))
    assert first == second


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.kind)
def test_many_runs_at_once_are_as_many_independent_releases(mechanism: Any) -> None:
    data = np.array((["a", "b", "z"] if getattr(mechanism, "categories", None) else [1.0, 7.0, 12.0]) * 20)
    at_once = mechanism.sample(data, 4000, seeded(37))
    one_by_one = [mechanism.release(data, entropy=seeded(38, i)).value for i in range(400)]
    flat = np.array([getattr(value, "counts", getattr(value, "mean", value)) for value in one_by_one], dtype=float)
    assert at_once.shape == (4000, *flat.shape[1:])
    assert len(np.unique(at_once, axis=0)) > 10
    for many, few in zip(at_once.reshape(4000, -1).T, flat.reshape(400, -1).T, strict=True):
        split = np.median(many)
        below, at = np.mean(many < split), np.mean(many == split)
        assert binom.cdf(np.count_nonzero(few < split), 400, max(below - 0.05, 0)) > SIGNIFICANCE
        assert binom.sf(np.count_nonzero(few <= split) - 1, 400, min(below + at + 0.05, 1)) > SIGNIFICANCE


# ---- count ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "every", "true"),
    [
        ([1, 2, 3], 3, 1),
        ((), 0, 0),
        (np.array([True, False, True]), 3, 2),
        ([True, False, None], 3, 1),
        (np.array([0.0, np.nan]), 2, 0),
        (np.array([True, 0, None], dtype=object), 3, 1),
        (pd.Series([1, 2]) > 1, 2, 1),
        (pd.Series([True, None], dtype="boolean"), 2, 1),
        (range(4), 4, 1),
        (np.array([0, 1, 0]), 3, 1),
        (["True", "true", b"True"], 3, 2),
    ],
)
def test_a_count_is_of_every_row_or_of_those_that_are_true(data: object, every: int, true: int) -> None:
    (of_rows,), (of_true,) = drawn(Count(epsilon=1, of="rows"), data), drawn(Count(epsilon=1, of="true"), data)
    assert (of_rows.value, of_true.value) == (every, true)


@pytest.mark.parametrize("wrong", [{}, {"of": None}, {"of": "ill"}])
def test_what_a_count_counts_is_said_by_whoever_asks(wrong: dict[str, Any]) -> None:
    """A condition is rows as well: a count that took them for what is counted would tell how many rows there are."""
    with pytest.raises(ParameterError) as raised:
        Count(epsilon=1, **wrong)
    assert raised.value.field == "Count.of"
    assert raised.value.expected == "'rows' (every row, whatever it holds) or 'true' (rows that are true)"


def test_a_table_has_rows_and_no_truth() -> None:
    table = pd.DataFrame({"a": [1, 2], "b": [3, 4]})
    (draw,) = drawn(Count(epsilon=1, of="rows"), table)
    assert draw.value == 2
    with pytest.raises(ParameterError, match="one column"):
        Count(epsilon=1, of="true").inspect(table)


def test_a_count_of_users_has_the_noise_of_all_their_rows() -> None:
    placed = Count(epsilon="0.5", of="rows").under(Relation.ADD_REMOVE, Unit("user", max_contributions=4))
    assert placed.parts() == DiscreteLaplaceLaw(scale=8, sensitivity=4)


# ---- clipped mean ---------------------------------------------------------------------------------------------------


def test_the_count_is_noisy_unless_the_relation_makes_it_public() -> None:
    mechanism = ClippedMean(epsilon=1, lower=0, upper=10)
    one, many = Unit(), Unit("user", max_contributions=2)
    half = Sequence((LaplaceLaw("0.5"), DiscreteLaplaceLaw(scale=2, sensitivity=1)))
    assert mechanism.under(Relation.ADD_REMOVE, one).parts() == half
    assert mechanism.under(Relation.ZERO_OUT, one).parts() == half
    assert mechanism.under(Relation.REPLACE_ONE, one).parts() == LaplaceLaw(1)
    assert mechanism.under(Relation.LABEL_FLIP, many).parts() == LaplaceLaw(1)
    assert isinstance(mechanism.under(Relation.REPLACE_ONE, many).parts(), Sequence)


def test_a_mean_is_near_the_mean_of_the_clipped_values_and_never_leaves_the_range() -> None:
    data = np.concatenate([np.full(5000, 3.0), np.full(5000, 1e9), [np.nan, np.inf, -np.inf]])
    mechanism = ClippedMean(epsilon=1, lower=0, upper=10)
    estimate = mechanism.release(data, entropy=seeded(1)).value
    exact = (5000 * 3 + 5000 * 10 + 5 + 10 + 0) / 10003
    assert abs(float(estimate) - exact) < 0.02
    for seed in range(200):
        assert 0 <= mechanism.release([], entropy=seeded(seed)).value.mean <= 10


def test_missing_values_count_as_declared() -> None:
    mechanism = ClippedMean(epsilon=1, lower=0, upper=10, missing=2)
    assert drawn(mechanism, [float("nan"), "x"])[0].value == drawn(mechanism, [2, 2])[0].value
    centre = ClippedMean(epsilon=1, lower=0, upper=10)
    assert centre.parameters()["missing"] == "5"
    assert drawn(centre, [None])[0].value == 0


def test_intervals_of_means_cover_at_their_confidence() -> None:
    data = np.linspace(2, 9, 400)
    for relation in (Relation.ADD_REMOVE, Relation.REPLACE_ONE):
        mechanism = ClippedMean(epsilon=1, lower=0, upper=10).under(relation, Unit())
        missed = 0
        for seed in range(1000):
            low, high = mechanism.release(data, entropy=seeded(36, seed)).value.interval("0.9")
            missed += not low <= data.mean() <= high
            assert 0 <= low <= high <= 10
        assert binom.sf(missed - 1, 1000, 0.1) > SIGNIFICANCE
        assert missed > 10  # and they are not wide without need


def test_sums_beyond_int64_are_exact() -> None:
    mechanism = ClippedMean(
        epsilon="1e12", lower=0, upper=1, grid="0.00000000000000088817841970012523233890533447265625"
    )
    assert drawn(mechanism, np.ones(5))[0].value == 5 * 2**49
    assert drawn(mechanism, np.ones(2**14))[0].value == 2**63


# ---- histogram ------------------------------------------------------------------------------------------------------


def counted(mechanism: Histogram, data: object) -> list[int]:
    (draw,) = drawn(mechanism, data)
    result: list[int] = np.atleast_1d(draw.value).tolist()
    return result


def test_intervals_hold_their_lower_edge_and_the_last_one_both() -> None:
    data = [-0.1, 0, 9.99, 10, 20, 20.1, float("nan"), "x", None]
    assert counted(Histogram(epsilon=1, edges=(0, 10, 20)), data) == [2, 2]
    assert counted(Histogram(epsilon=1, edges=(0, 10, 20), others="counted"), data) == [2, 2, 5]
    assert counted(Histogram(epsilon=1, edges=(0, 10, 20)), np.array([0.0, 10.0, 20.0])) == [1, 2]


def test_categories_are_words() -> None:
    data = ["a", "b", "a", "A", 1, None, np.str_("b"), ["a"]]
    numbers = Histogram(epsilon=1, categories=("1", "2.5", "01"), others="counted")
    assert counted(numbers, [1, True, 1.0, "1.0", np.float32(2.5), "01", "2.50", None]) == [4, 1, 1, 2]
    assert counted(Histogram(epsilon=1, categories=("a", "b")), data) == [2, 2]
    assert counted(Histogram(epsilon=1, categories=("b", "a"), others="counted"), pd.Series(data)) == [2, 2, 4]


def test_labels_stand_beside_their_counts() -> None:
    mechanism = Histogram(epsilon=1000, edges=("0.5", 10, 20), others="counted")
    assert mechanism.labels() == ("[0.5, 10)", "[10, 20]", "other")
    value = mechanism.release([1, 2, 15, -3], entropy=seeded(1)).value
    assert dict(value) == {"[0.5, 10)": 2, "[10, 20]": 1, "other": 1}


@pytest.mark.parametrize("edges", [(1000001, 1000002, 1000003), ("0.1000001", "0.1000002", "0.1000003")])
def test_no_two_intervals_have_one_label(edges: tuple[Any, ...]) -> None:
    """Found: edges were told in six digits, so that one count of a mapping took the place of another."""
    mechanism = Histogram(epsilon=1000, edges=edges)
    first, second, third = map(str, edges)
    assert mechanism.labels() == (f"[{first}, {second})", f"[{second}, {third}]")
    value = mechanism.release([float(second)] * 3, entropy=seeded(1)).value
    assert list(dict(value).values()) == [0, 3]


def test_a_changed_unit_moves_two_counts() -> None:
    mechanism = Histogram(epsilon=1, categories=("a", "b"))
    leaf = DiscreteLaplaceLaw(scale=2, sensitivity=1)
    assert mechanism.under(Relation.ADD_REMOVE, Unit()).parts() == DiscreteLaplaceLaw(scale=1, sensitivity=1)
    for relation in (Relation.REPLACE_ONE, Relation.ZERO_OUT, Relation.LABEL_FLIP):
        assert mechanism.under(relation, Unit()).parts() == Sequence((leaf, leaf))


@pytest.mark.parametrize("scale", ["0.3", "1", "7.5"])
@pytest.mark.parametrize("shifts", [(1, 1), (2, 1), (3, 2)])
def test_one_leaf_in_the_l1_norm_dominates_every_way_to_spread_it(scale: str, shifts: tuple[int, int]) -> None:
    """By enumeration: the hockey-stick divergence of two counts that move by a and b is at most that of one count that
    moves by a + b, at every epsilon."""
    ratio = float(np.exp(-1 / float(scale)))
    grid = np.arange(-400, 401)

    def law(shift: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        weights: np.ndarray[Any, np.dtype[np.float64]] = ratio ** np.abs(grid - shift) * (1 - ratio) / (1 + ratio)
        return weights

    def divergence(p: Any, q: Any, epsilon: float) -> float:
        return float(np.maximum(p - np.exp(epsilon) * q, 0).sum())

    spread = np.outer(law(shifts[0]), law(shifts[1])), np.outer(law(0), law(0))
    single = law(sum(shifts)), law(0)
    greatest = sum(shifts) / float(scale)
    for epsilon in np.linspace(0, greatest, 23):
        assert divergence(*spread, epsilon) <= divergence(*single, epsilon) + 1e-12
    half = greatest / 2
    assert divergence(*spread, half) > divergence(law(max(shifts)), law(0), half)  # the larger move alone is too little


def test_edges_or_categories_not_both_and_not_neither() -> None:
    for choice in ({}, {"edges": (0, 1), "categories": ("a",)}):
        with pytest.raises(ParameterError, match="exactly one of edges and categories"):
            Histogram(epsilon=1, **choice)  # type: ignore[arg-type]
