"""The caller's function: each gradient by itself, in any company; what breaks that is found on made-up rows."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from hypothesis import given, strategies as st

import dpledger as dpl
from dpledger.cli import demo_data
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.noise import recording
from dpledger.mechanisms.training import DPSGD, BatchInvariance, check_batch_invariance, row_sums
from dpledger.mechanisms.training.gradients import unit_rows
from dpledger.mechanisms.units import Units

Floats = npt.NDArray[np.float64]
Gradients = Callable[[Any], Any]

GENERATOR = np.random.default_rng(11)
ROWS = GENERATOR.normal(size=(40, 784))
LAYER = GENERATOR.normal(size=(784, 32)) / 28


def blas(rows: Floats) -> Floats:
    """A product by BLAS: its last bits change with the number of rows."""
    hidden: Floats = np.tanh(rows @ LAYER)
    return hidden


def ours(rows: Floats) -> Floats:
    """The same product, each row in the one order."""
    hidden: Floats = np.tanh(row_sums(rows[:, np.newaxis, :] * LAYER.T))
    return hidden


def batch_normalised(rows: Floats) -> Floats:
    return rows - rows.mean(axis=0) if len(rows) else rows


def by_layout(rows: Floats) -> Floats:
    """numpy's own sum: one row is contiguous, so it is added in another order than rows of a column-major array."""
    added: Floats = np.asfortranarray(rows).sum(axis=1, keepdims=True)
    return added


def numbered(rows: Floats) -> Floats:
    return np.arange(len(rows), dtype=np.float64)[:, np.newaxis] + rows[:, :1]


# ---- the checker ----------------------------------------------------------------------------------------------------


def test_a_function_that_keeps_every_bit_is_told_what_was_tried() -> None:
    tried = check_batch_invariance(ours, ROWS)
    assert tried == BatchInvariance(rows=40, batches=tried.batches)
    assert tried.batches > 80
    assert "does not prove" in str(tried)


@pytest.mark.parametrize("gradients", [blas, batch_normalised, by_layout, numbered])
def test_a_function_whose_rows_look_at_the_batch_is_found(gradients: Gradients) -> None:
    with pytest.raises(ParameterError, match=r"gradients: expected .* bit for bit.*row_sums.*microbatch=1.*changed"):
        check_batch_invariance(gradients, ROWS)


@pytest.mark.parametrize("gradients", [blas, batch_normalised, by_layout, numbered])
def test_one_unit_at_a_time_keeps_every_bit_whatever_the_function(gradients: Gradients) -> None:
    check_batch_invariance(gradients, ROWS, microbatch=1)


def test_calls_of_several_units_are_tried_as_they_will_run() -> None:
    """A fixed shape mends what depends on the size of a batch; not what depends on the place in it or on the others."""

    def sized(rows: Floats) -> Floats:
        return rows[:, :2] * (1 + len(rows) * 2.0**-40)

    check_batch_invariance(sized, ROWS, microbatch=8)
    for gradients in (sized, numbered):
        with pytest.raises(ParameterError, match="gradients"):
            check_batch_invariance(gradients, ROWS)
    for gradients in (numbered, batch_normalised):
        with pytest.raises(ParameterError, match="gradients"):
            check_batch_invariance(gradients, ROWS, microbatch=8)


def test_a_change_that_large_batches_alone_show_is_found() -> None:
    with pytest.raises(ParameterError, match=r"39 of 39|40 of 40"):
        check_batch_invariance(lambda rows: rows[:, :3] + (len(rows) > 38), ROWS)


def test_what_the_clipped_sum_does_not_see_is_no_change() -> None:
    """A row that is not finite counts as zero, and so does -0.0."""

    def gradients(rows: Floats) -> Floats:
        nothing = np.nan if len(rows) % 2 else np.inf
        sign = -0.0 if len(rows) % 3 else 0.0
        return np.array([[nothing if row[0] > 0 else sign, 1.0] for row in rows]).reshape(len(rows), 2)

    check_batch_invariance(gradients, ROWS)


@pytest.mark.parametrize(
    ("gradients", "what"),
    [
        (lambda rows: rows[0], r"shape \(784,\) on 40 made-up rows"),
        (lambda rows: rows.sum(axis=1), r"shape \(40,\) on 40 made-up rows"),
        (lambda rows: rows[: max(0, len(rows) - 1)], r"shape \(39, 784\) on 40 made-up rows"),
        (lambda rows: rows if len(rows) < 2 else rows / None, "TypeError on 40 made-up rows: unsupported"),
        (lambda rows: rows.astype(complex), r"complex128 of shape \(40, 784\) on 40 made-up rows"),
    ],
)
def test_a_function_that_breaks_its_contract_is_told_where(gradients: Gradients, what: str) -> None:
    with pytest.raises(ParameterError, match=what):
        check_batch_invariance(gradients, ROWS)


@pytest.mark.parametrize(("rows", "microbatch"), [(ROWS[:1], None), (7, None), (ROWS, 0), (ROWS, True), (ROWS, 1.5)])
def test_what_cannot_be_tried_is_refused(rows: Any, microbatch: Any) -> None:
    with pytest.raises(ParameterError, match=r"made_up_rows|data|microbatch"):
        check_batch_invariance(ours, rows, microbatch=microbatch)


def test_tables_lists_and_rows_by_unit_are_tried_in_their_own_form() -> None:
    table = pd.DataFrame(ROWS[:, :30])
    check_batch_invariance(lambda rows: row_sums(rows.to_numpy())[:, np.newaxis], table)
    with pytest.raises(ParameterError, match="changed"):
        check_batch_invariance(lambda rows: rows.to_numpy().sum(axis=1, keepdims=True), table)
    users = dpl.ByUnit(ROWS, units=[i // 3 for i in range(40)])
    check_batch_invariance(lambda users: np.array([u.sum(axis=0) for u in users]).reshape(len(users), 784), users)


def test_the_gradients_that_we_ship_keep_every_bit() -> None:
    """Those of the demo, on made-up rows and weights; the example tries its own, and the README's are differences."""
    generator = np.random.default_rng(12)
    rows, labels = generator.uniform(-1, 1, (150, 31)), generator.integers(0, 2, 150).astype(np.float64)
    for scale in (0.1, 1, 30):
        weights = generator.normal(size=31) * scale
        for features in (rows, np.asfortranarray(rows)):
            check_batch_invariance(partial(shipped, weights), (features, labels))
            with pytest.raises(ParameterError, match="changed"):
                check_batch_invariance(partial(by_product, weights), (features, labels))


def shipped(weights: Floats, batch: tuple[Floats, Floats]) -> Floats:
    return demo_data.gradients(weights, *batch)


def by_product(weights: Floats, batch: tuple[Floats, Floats]) -> Floats:
    """What the demo must not do."""
    features, labels = batch
    gradients: Floats = (1 / (1 + np.exp(-features @ weights)) - labels)[:, np.newaxis] * features
    return gradients


# ---- microbatches ---------------------------------------------------------------------------------------------------


@given(units=st.integers(0, 20), size=st.integers(1, 8), rate=st.sampled_from(["1", "0.5"]))
def test_every_call_has_the_declared_size_and_null_rows_add_nothing(units: int, size: int, rate: str) -> None:
    """The sum is that of one call for all, which knows no null rows."""
    data = np.arange(2.0 * units).reshape(units, 2) / 100
    sizes: list[int] = []

    def gradients(rows: Floats) -> Floats:
        sizes.append(len(rows))
        return rows

    def sums(microbatch: int | None) -> list[int]:
        plan = DPSGD(
            rate=rate,
            steps=1,
            noise_multiplier=1,
            clip_norm=1,
            dimension=2,
            expected_batch_size=4,
            microbatch=microbatch,
        )
        with recording() as draws:
            plan.open(data, entropy=seeded(3)).ask(gradients)
        value: list[int] = np.asarray(draws[0].value).tolist()
        return value

    assert sums(size) == sums(None)
    *calls, probe, at_once = sizes
    assert calls == [0] + [size] * -(-at_once // size)
    assert probe == 0


@pytest.mark.parametrize("gradients", [blas, batch_normalised])
def test_one_unit_at_a_time_a_further_unit_adds_its_own_steps_alone(gradients: Gradients) -> None:
    plan = DPSGD(rate=1, steps=1, noise_multiplier=1, clip_norm=1, dimension=32, expected_batch_size=4, microbatch=1)

    def passed(rows: Floats) -> npt.NDArray[Any]:
        with recording() as draws:
            plan.open(rows, entropy=seeded(3)).ask(lambda batch: gradients(batch)[:, :32])
        return np.asarray(draws[0].value)

    assert np.array_equal(passed(ROWS) - passed(ROWS[:39]), passed(ROWS[39:]))


def test_a_null_row_is_an_item_for_which_the_function_is_made() -> None:
    """A repeat of the last unit of the call: not a row of zeros, which a function may not know what to do with."""
    seen: list[list[str]] = []

    def gradients(items: list[str]) -> Floats:
        seen.append(items)
        return np.array([[float(len(item))] for item in items]).reshape(len(items), 1)

    units = Units.of(["a", "bb", "ccc"])
    found = unit_rows(gradients, units, np.arange(3), dimension=1, microbatch=2)
    assert found.tolist() == [[1.0], [2.0], [3.0]]
    assert seen == [["a", "bb"], ["ccc", "ccc"]]


def test_the_record_says_how_many_units_a_call_had_and_what_is_assumed() -> None:
    plan = {"rate": 1, "steps": 1, "noise_multiplier": 1, "clip_norm": 1, "dimension": 2, "expected_batch_size": 4}
    assert "microbatch" not in DPSGD(**plan).parameters()  # type: ignore[arg-type]
    stated = DPSGD(**plan, microbatch=4).parameters()  # type: ignore[arg-type]
    assert stated["microbatch"] == 4
    assert "batch-invariant" in str(stated["assumes"])


# ---- each row, each entry by itself ---------------------------------------------------------------------------------

PLAIN = [0.5, 2.0**53 + 2, -3.0]
COMPANY: list[Any] = [
    [1j, 0.0, 0.0],
    ["x", 1.0, 1.0],
    [None, 1.0, 1.0],
    [np.longdouble("1e4000"), 0.0, 0.0],
    [10**400, 0, 0],
    [2**64 - 1, 1, 1],
    [True, False, True],
    [Decimal("sNaN"), 1, 1],
    [float("nan")] * 3,
    np.array([1.5, 2.5, 3.5], dtype=np.float16),
]


@pytest.mark.parametrize("company", COMPANY, ids=repr)
def test_in_a_list_a_row_is_read_by_itself_whatever_stands_beside_it(company: Any) -> None:
    """Never by the dtype that the rows have in common: 2^53 + 3 among floats, 2^70 + 1 among wider ones, a number among
    words."""
    for row in (PLAIN, [2**53 + 3, 1, 2], [2**70 + 1, 0, 0], [Decimal("0.1"), 1, 2]):
        alone = rows_of([row])
        assert rows_of([row, company])[:1].tolist() == alone.tolist()
        assert rows_of([company, row])[1:].tolist() == alone.tolist()


def test_in_an_array_of_objects_an_entry_is_read_by_itself() -> None:
    rows = np.array([[2**53 + 3, 1, 10**400], ["x", 0.5, None]], dtype=object)
    found = rows_of(rows)
    assert found[0].tolist()[:2] == [2.0**53 + 4, 1.0]
    assert found[0, 2] == np.inf
    assert np.isnan(found[1, [0, 2]]).all()
    assert found[1, 1] == 0.5


@pytest.mark.parametrize("company", COMPANY, ids=repr)
def test_no_row_of_a_list_ends_a_run_by_what_it_holds(company: Any) -> None:
    rows: list[Any] = [PLAIN, company]
    plan = DPSGD(rate=1, steps=1, noise_multiplier=1, clip_norm=1, dimension=3, expected_batch_size=4)
    run = plan.open([0, 1], entropy=seeded(1))
    assert run.ask(lambda items: [rows[i] for i in items] or np.zeros((0, 3))).shape == (3,)
    assert not run.close().outside_guarantee


@pytest.mark.parametrize("company", [0.5, 2**53 + 1, 1j, "x", b"x", None, np.float32(0.1)], ids=repr)
def test_in_an_array_an_entry_is_read_alike_whatever_numpy_makes_of_it(company: Any) -> None:
    """One record among 0.5 and True makes the array complex, of text, or of objects; theirs stay what they are."""
    rows = np.array([[0.5, True, -2.0], [company, 1.0, 0.0]])
    assert rows_of(rows)[0].tolist() == [0.5, 1.0, -2.0]


@pytest.mark.parametrize("dtype", ["U3", "S3", "complex128", "datetime64[s]"])
def test_no_dtype_ends_a_run(dtype: str) -> None:
    """One record may have decided it. On an empty batch it is public, and refused there."""
    plan = DPSGD(rate=1, steps=1, noise_multiplier=1, clip_norm=1, dimension=2, expected_batch_size=4)
    run = plan.open(np.ones((3, 2)), entropy=seeded(1))
    assert run.ask(lambda rows: np.zeros((len(rows), 2), dtype=dtype) if len(rows) else rows).shape == (2,)
    assert not run.close().outside_guarantee


def rows_of(result: Any) -> Floats:
    units = Units.of(list(range(len(result))))
    found = unit_rows(lambda _: result, units, np.arange(len(result)), dimension=3)
    return np.asarray(found, dtype=np.float64)
