"""What is refused before a training is charged is not decided by one record: the caller's function is tried on an empty
batch whose types are no data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from dpledger.accounting.guarantees import ZCDP
from dpledger.attach.training import private_sgd
from dpledger.errors import ParameterError
from dpledger.ledger.ledger import Ledger
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.training import DPSGD
from dpledger.mechanisms.training.empty_batches import empty_batches
from dpledger.mechanisms.units import ByUnit, Units

PLAN: dict[str, Any] = {
    "rate": 1,
    "steps": 4,
    "noise_multiplier": 4,
    "clip_norm": 1,
    "dimension": 2,
    "expected_batch_size": 20,
}
FINE: dict[str, list[Any]] = {"age": [40, 50, 60], "sex": ["f", "m", "f"]}
NEIGHBOURS: list[dict[str, list[Any]]] = [
    FINE,
    {**FINE, "age": [40, None, 60]},
    {**FINE, "age": [40, "n/a", 60]},
    {**FINE, "age": [40, 50.5, 60]},
    {**FINE, "sex": ["f", 1, None]},
]


def of_frame(columns: dict[str, list[Any]]) -> Any:
    return pd.DataFrame(columns)


def of_array(columns: dict[str, list[Any]]) -> Any:
    return np.array(columns["age"])


def beside(columns: dict[str, list[Any]]) -> Any:
    return np.ones((3, 2)), np.array(columns["age"])


def places(ages: Any) -> Any:
    return np.ones((200, 2))[ages]


@pytest.mark.parametrize(
    ("form", "gradients", "is_fine"),
    [
        (of_frame, lambda batch: np.where(np.isnan(batch[["age", "age"]].to_numpy()), 0.0, 1.0), True),
        (of_frame, lambda batch: np.stack([batch["sex"].str.len(), batch["age"].astype(float)], axis=1), True),
        (of_frame, lambda batch: places(batch["age"].to_numpy()), True),
        (of_frame, lambda batch: torch.from_numpy(batch["age"].to_numpy())[:, None] * torch.ones(2), True),
        (of_frame, lambda batch: batch[["age", "weight"]].to_numpy(), False),
        (of_frame, lambda batch: places(batch["sex"].str.len()) * np.isnan(batch["age"]), False),
        (of_array, places, True),
        (of_array, lambda batch: np.isnan(batch)[:, None] * np.ones(2), True),
        (of_array, lambda batch: np.char.str_len(batch)[:, None] * np.ones(2), True),
        (of_array, lambda batch: batch @ np.ones(2), False),
        (beside, lambda batch: batch[0] * places(batch[1]), True),
    ],
)
def test_which_functions_are_refused_is_not_decided_by_one_record(
    form: Callable[[Any], Any], gradients: Callable[[Any], Any], is_fine: bool
) -> None:
    """A column is of another type where one entry is missing, a word or no whole number."""
    plan, told = DPSGD(**PLAN), set()
    for columns in NEIGHBOURS:
        data = form(columns)
        for tried in (plan.probe, lambda function, rows: plan.open(rows, entropy=seeded(1)).ask(function)):
            try:
                tried(gradients, data)
            except ParameterError as error:
                told.add(str(error))
            except Exception:
                told.add("")  # on a batch
            else:
                told.add("")
    assert len(told) == 1
    assert (told == {""}) is is_fine


@pytest.mark.parametrize(
    "data",
    [
        np.zeros((3, 2), dtype=np.int64),
        np.zeros(3, dtype=[("a", "f4"), ("b", "U3", (2,))]),
        (np.zeros((3, 2)), np.array(["a", "b", None], dtype=object)),
        pd.DataFrame(FINE),
        pd.Series([1, 2, 3], name="a"),
        pl.DataFrame(FINE),
        pl.Series("a", ["x", "y", None]),
        torch.zeros((3, 2, 2), dtype=torch.uint8),
        ByUnit([1, 2, 3], units=["a", "b", "a"]),
        [1, 2, 3],
    ],
    ids=lambda one: type(one).__name__,
)
def test_nobody_comes_in_the_form_of_the_data(data: Any) -> None:
    units = Units.of(data)
    own = units.take(np.zeros(0, dtype=np.int64))
    batches = list(empty_batches(units))
    for batch in batches:
        of_each = zip(batch, own, strict=True) if isinstance(own, tuple) else [(batch, own)]
        for found, expected in of_each:
            assert type(found) is type(expected)
            assert len(found) == 0
            for name in ("shape", "name"):
                assert getattr(found, name, None) == getattr(expected, name, None)
            assert list(getattr(found, "columns", [])) == list(getattr(expected, "columns", []))
            assert getattr(getattr(found, "dtype", None), "names", None) == (
                getattr(getattr(expected, "dtype", None), "names", None)
            )


def test_rows_that_no_array_of_positions_takes_are_refused() -> None:
    book = Ledger.in_memory(entropy=seeded(51))
    scope = book.scope("rows", unit="record", relation="add_remove", budget=ZCDP(1))
    with pytest.raises(ParameterError, match=r"data: expected rows that an array of positions takes.*got Table"):
        private_sgd(scope, pa.table(FINE), lambda batch: batch, **PLAN)
    assert len(book) == 2
