"""What a row adds to the clipped sum is a function of that row alone, bit for bit: in any layout, beside any rows."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from dpledger.audit import audit_mechanism
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.noise import recording
from dpledger.mechanisms.training import DPSGD, row_sums
from dpledger.mechanisms.training.clipping import clipped_sum
from rounding_edges import GRID, Edge, edge
from training_mutants import MUTANTS, layout_clipped_sum

pytestmark = pytest.mark.sliced

Floats = npt.NDArray[np.float64]
Sum = Callable[..., npt.NDArray[Any]]

# dimension, steps of an entry, rows, and how many times its bound one NaN row moved the sum in the order of the layout
ATTACKS = [(256, 65, 255, 3), (16, 67, 4095, 50), (3, 181, 20_000, 90)]
WILD = [np.nan, np.inf, -np.inf, 1e200, -1e308, 5e-324]


def moved(total: Sum, attack: Edge, copies: int, wild: float) -> float:
    """How far one wild row moves the sum of column-major copies of a row at an edge, over the declared bound."""
    rows = np.asfortranarray(np.tile(attack.row, (copies, 1)))
    extra = np.vstack([rows, np.full(len(attack.row), wild)])
    before = total(rows, clip_norm=attack.clip_norm, grid=GRID)
    after = total(np.asfortranarray(extra), clip_norm=attack.clip_norm, grid=GRID)
    bound = attack.clip_norm / GRID + np.sqrt(len(attack.row)) / 2
    return float(np.linalg.norm((after - before).astype(np.float64)) / bound)


@pytest.mark.parametrize(("dimension", "steps", "copies", "times"), ATTACKS)
def test_a_wild_row_moves_the_sum_by_no_more_than_its_own_bound(
    dimension: int, steps: int, copies: int, times: int
) -> None:
    attack = edge(dimension, steps)
    assert max(moved(clipped_sum, attack, copies, wild) for wild in WILD) <= 1
    assert moved(clipped_sum, attack, copies, np.nan) == 0
    assert moved(layout_clipped_sum, attack, copies, np.nan) > times  # the mutant: the order of the layout


# ---- any layout, any neighbours -------------------------------------------------------------------------------------

ENTRIES = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=True), st.sampled_from(WILD), st.floats(-2, 2)
)
ROWS = hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=9), elements=ENTRIES)


def strided(rows: Floats) -> Floats:
    """Every third row and every second column of a larger array."""
    larger = np.full((3 * len(rows), 2 * rows.shape[1]), np.nan)
    larger[::3, ::2] = rows
    return larger[::3, ::2]


def reversed_columns(rows: Floats) -> Floats:
    return rows[:, ::-1].copy()[:, ::-1]


def unaligned(rows: Floats) -> Floats:
    packed = np.zeros(len(rows), dtype=[("odd", "u1"), ("row", np.float64, rows.shape[1])])
    packed["row"] = rows
    view: Floats = packed["row"]
    return view


LAYOUTS: list[Callable[[Floats], Any]] = [
    np.ascontiguousarray,
    np.asfortranarray,
    strided,
    lambda rows: np.asfortranarray(strided(rows)),
    lambda rows: rows[::-1].copy()[::-1],
    reversed_columns,
    unaligned,
    lambda rows: rows.astype(">f8"),
    lambda rows: pd.DataFrame(np.asfortranarray(rows)).iloc[:, :].to_numpy(),
    lambda rows: rows.astype(np.longdouble),
]


def one_by_one(rows: npt.NDArray[Any], clip_norm: float) -> list[int]:
    """The sum of what each row, copied into an array of its own, gives alone."""
    alone = [clipped_sum(np.array([row]), clip_norm=clip_norm, grid=GRID).tolist() for row in rows]
    return [sum(column) for column in zip(*alone, strict=True)]


@given(rows=ROWS, layout=st.sampled_from(LAYOUTS))
def test_the_sum_is_that_of_its_rows_one_by_one_in_every_layout(rows: Floats, layout: Callable[[Floats], Any]) -> None:
    assert clipped_sum(layout(rows), clip_norm=0.7, grid=GRID).tolist() == one_by_one(rows, 0.7)


@pytest.fixture(scope="module")
def edges() -> dict[int, Edge]:
    """Rows whose steps hang on the order of their squares."""
    return {dimension: edge(dimension, steps) for dimension, steps, _, _ in ATTACKS}


@given(
    dimension=st.sampled_from([3, 16, 256]),
    layout=st.sampled_from(LAYOUTS),
    copies=st.integers(1, 12),
    wild=st.lists(st.tuples(st.integers(0, 12), st.sampled_from(WILD)), max_size=3),
)
@settings(max_examples=100)
def test_rows_at_a_rounding_edge_keep_their_steps_beside_wild_rows(
    edges: dict[int, Edge],
    dimension: int,
    layout: Callable[[Floats], Any],
    copies: int,
    wild: list[tuple[int, float]],
) -> None:
    at = edges[dimension]
    rows = np.tile(at.row, (copies, 1))
    for place, value in wild:
        rows = np.insert(rows, min(place, len(rows)), value, axis=0)
    assert clipped_sum(layout(rows), clip_norm=at.clip_norm, grid=GRID).tolist() == one_by_one(rows, at.clip_norm)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.longdouble, np.int8, np.uint64, np.int64, np.bool_])
def test_every_dtype_counts_as_the_nearest_float64_of_each_entry(dtype: Any) -> None:
    rows = (np.random.default_rng(3).normal(size=(50, 7)) * 1000).astype(dtype)
    expected = one_by_one(rows.astype(np.float64), 3.0)
    for layout in (np.ascontiguousarray, np.asfortranarray, lambda rows: rows[::2]):
        assert clipped_sum(rows, clip_norm=3.0, grid=GRID).tolist() == expected
        assert clipped_sum(layout(rows), clip_norm=3.0, grid=GRID).tolist() == one_by_one(layout(rows), 3.0)


def test_one_row_seen_many_times_counts_each_time() -> None:
    """A broadcast row has a stride of zero."""
    row = np.array([0.3, -0.4, 1e-3])
    alone = clipped_sum(row[np.newaxis], clip_norm=0.1, grid=GRID)
    repeated = clipped_sum(np.broadcast_to(row, (30_000, 3)), clip_norm=0.1, grid=GRID)
    assert repeated.tolist() == (30_000 * alone).tolist()


@given(wild=st.lists(st.tuples(st.integers(0, 9999), st.sampled_from(WILD)), max_size=4), order=st.sampled_from("CF"))
@settings(max_examples=20)
def test_no_row_changes_another_block_or_its_own(
    edges: dict[int, Edge], wild: list[tuple[int, float]], order: Any
) -> None:
    """10,000 rows of dimension 16 are several blocks: the sum is 10,000 times that of one, and what wild rows add."""
    at = edges[16]
    rows = np.tile(at.row, (10_000, 1))
    for place, value in wild:
        rows = np.insert(rows, place, value, axis=0)
    expected = 10_000 * np.array(one_by_one(at.row[np.newaxis], at.clip_norm))
    expected += sum(np.array(one_by_one(np.full((1, 16), value), at.clip_norm)) for _, value in wild)
    total = clipped_sum(np.array(rows, order=order), clip_norm=at.clip_norm, grid=GRID)
    assert total.tolist() == expected.tolist()


# ---- the order is ours ----------------------------------------------------------------------------------------------


def naive(row: list[float]) -> float:
    """The documented order, in Python's own floats."""
    while len(row) > 1:
        half = len(row) // 2
        row = [a + b for a, b in zip(row[:half], row[len(row) - half :], strict=True)] + row[half : len(row) - half]
    return row[0]


@given(rows=hnp.arrays(np.float64, (4, 37), elements=st.floats(-1e100, 1e100)), width=st.integers(1, 37))
def test_sums_of_rows_add_in_the_documented_order(rows: Floats, width: int) -> None:
    terms = rows[:, :width]
    expected = [naive(row.tolist()) for row in terms]
    for layout in (np.ascontiguousarray, np.asfortranarray, strided, reversed_columns, unaligned):
        assert row_sums(layout(terms)).tolist() == expected


def test_sums_of_rows_leave_their_terms_alone_and_take_any_number_of_axes() -> None:
    terms = np.arange(24.0).reshape(2, 3, 4)
    kept = terms.copy()
    assert np.array_equal(row_sums(terms), terms.sum(axis=-1))
    assert np.array_equal(terms, kept)
    assert row_sums(np.zeros((5, 0))).tolist() == [0.0] * 5
    assert row_sums([[1, 2], [3, 4]]).tolist() == [3, 7]
    assert row_sums([[True, True, False]]).tolist() == [2]


@pytest.mark.parametrize("terms", ["x", 7, None, [["a"]], [[1, 2], [3]], {}, np.array([None])])
def test_what_has_no_rows_of_numbers_is_refused(terms: Any) -> None:
    with pytest.raises(ParameterError, match="terms"):
        row_sums(terms)


# ---- the auditor ----------------------------------------------------------------------------------------------------

COPIES = 255


class ColumnMajorStep:
    """One step of a DP-SGD over column-major gradients, as a function for the auditor: the mean of the entries."""

    def __init__(self, kind: type[DPSGD], attack: Edge) -> None:
        self.plan = kind(
            rate=1,
            steps=1,
            noise_multiplier=1,
            clip_norm=attack.clip_decimal,
            dimension=len(attack.row),
            expected_batch_size=1,
            grid=Decimal(GRID),
        )

    def __call__(self, data: Floats, rng: np.random.Generator) -> float:
        run = self.plan.open(data, entropy=seeded(int(rng.integers(2**53))))
        return float(run.ask(np.asfortranarray).mean())


@pytest.mark.parametrize(("kind", "verdict"), [(MUTANTS["TRN-B10"], "violation"), (DPSGD, "not_refuted")])
def test_the_auditor_refutes_the_order_of_the_layout_and_not_ours(kind: type[DPSGD], verdict: str) -> None:
    attack = edge(256, 65)
    rows = np.tile(attack.row, (COPIES, 1))
    with_wild = np.vstack([rows, np.full(256, np.nan)])
    step = ColumnMajorStep(kind, attack)
    result = audit_mechanism(step, rows, with_wild, step.plan.claim(), trials=300, delta="1e-5", seed=4)
    assert result.verdict == verdict


def test_a_run_passes_the_same_steps_whatever_the_layout_of_the_gradients() -> None:
    """Through the mechanism: what reaches the noise functions is one and the same."""
    attack = edge(16, 67)
    rows = np.tile(attack.row, (200, 1))
    plan = ColumnMajorStep(DPSGD, attack).plan
    passed = []
    for layout in LAYOUTS:
        with recording() as draws:
            plan.open(rows, entropy=seeded(1)).ask(layout)
        passed.append(np.asarray(draws[0].value).tolist())
    assert passed == [passed[0]] * len(LAYOUTS)
