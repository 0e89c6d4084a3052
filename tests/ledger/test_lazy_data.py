"""Data that are computed when they are looked at: no function of the caller's runs on a record before the charge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dpledger as dpl
from dpledger import errors

MECHANISMS = [
    dpl.Count(epsilon="0.1", of="rows"),
    dpl.Count(epsilon="0.1", of="true"),
    dpl.ClippedMean(epsilon="0.1", lower=0, upper=1),
    dpl.Quantile(epsilon="0.1", q="0.5", lower=0, upper=1),
    dpl.Histogram(epsilon="0.1", categories=("a", "b")),
    dpl.TopK(epsilon="0.1", categories=("a", "b"), k=1),
    dpl.Laplace(epsilon="0.1", sensitivity=1),
    dpl.Laplace(epsilon="0.1", sensitivity=1, dimension=2),
    dpl.Gaussian(noise_multiplier=50, sensitivity=1, dimension=2),
]


class Lazy:
    """A column that is parsed when it is read."""

    def __init__(self) -> None:
        self.reads = 0

    def __len__(self) -> int:
        return 2

    def __iter__(self) -> Iterator[float]:
        self.reads += 1
        raise ValueError("could not convert 'HIV positive'")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        self.reads += 1
        raise ValueError("could not convert 'HIV positive'")


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda one: f"{one.kind} {getattr(one, 'dimension', '')}")
def test_a_lazy_column_is_refused_unread(mechanism: Any) -> None:
    scope = dpl.Ledger.in_memory().scope("s", unit="row", relation="add_remove", budget=dpl.ApproxDP(1, "1e-6"))
    data = Lazy()
    with pytest.raises(errors.ParameterError, match="data: expected"):
        scope.release(mechanism, data)
    assert data.reads == 0
    assert scope.spent("1e-6").upper == 0


def test_computed_it_is_taken() -> None:
    scope = dpl.Ledger.in_memory().scope("s", unit="row", relation="add_remove", budget=dpl.PureDP(1))
    count: Any = MECHANISMS[0]
    assert scope.release(count, np.asarray([1.0, 2.0])).has_value
