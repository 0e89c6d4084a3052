"""One number told in every type of output that a user's code returns; a simple test that tells two samples apart."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import torch
from scipy.stats import beta

from dpledger.audit.features.bank import bank
from dpledger.audit.features.score import Score
from dpledger.audit.outcomes.encoding import encode
from dpledger.audit.outcomes.structure import Floats, Outcomes, Raised


@dataclass
class Told:
    mean: float
    unit: str = "kg"


class Attributes:
    def __init__(self, value: float) -> None:
        self.value = value


def whole(x: float) -> int:
    return 10**20 + round(x * 2**40)


TOLD: dict[str, Callable[[float], Any]] = {
    "float": lambda x: x,
    "float32": np.float32,
    "dict of one": lambda x: {"mean": x},
    "dict of two": lambda x: {"mean": x, "rows": 20},
    "tuple with a text": lambda x: ("mean", x),
    "tuple with None": lambda x: (None, x),
    "dataclass": Told,
    "text": lambda x: f"the mean is {x}",
    "text .3f": lambda x: f"{x:.3f}",
    "text .1f": lambda x: f"{x:.1f} of 20",
    "JSON bytes": lambda x: json.dumps({"mean": x}).encode(),
    "exception": lambda x: Raised("ValueError", f"mean {x}"),
    "Series": lambda x: pd.Series([x, 1.0]),
    "DataFrame": lambda x: pd.DataFrame({"mean": [x], "unit": ["kg"]}),
    "polars": lambda x: pl.DataFrame({"mean": [x, None], "unit": ["kg", "kg"]}),
    "Arrow": lambda x: pa.table({"mean": [x], "unit": ["kg"]}),
    "masked array": lambda x: np.ma.MaskedArray([x, 1.0], mask=[True, False]),
    "Timestamp": lambda x: pd.Timestamp(int((100 + x) * 1e9)),
    "datetime64": lambda x: np.datetime64(int((100 + x) * 1e6), "us"),
    "objects, mixed": lambda x: np.array(["mean", x, None], dtype=object),
    "objects, floats": lambda x: np.array([x, 1.0], dtype=object),
    "list of variable length": lambda x: [x] * (1 + int(abs(x) * 1000) % 3),
    "generator": lambda x: (part for part in (x, 1.0)),
    "structured": lambda x: np.array([(x, 3)], dtype=[("mean", float), ("rows", int)]),
    "set": lambda x: {x, 1000.0},
    "Fraction": Fraction,
    "Decimal": lambda x: Decimal(repr(x)),
    "longdouble": lambda x: np.longdouble(x) / 3,
    "big whole number": whole,
    "range": lambda x: range(round(x * 100), 10_000),
    "scalar tensor": lambda x: torch.tensor(x),
    "tensor": lambda x: torch.tensor([x, 1.0], requires_grad=True),
    "state": lambda x: {"layer.weight": torch.tensor([[x, 0.0]]), "layer.bias": torch.tensor([0.0])},
    "attributes": Attributes,
    "function": lambda x: lambda: x,
}


def told(name: str, size: int, shift: float, seed: int) -> Outcomes:
    """Half-noise Laplace: sensitivity 1, scale 1/2, so that the claim of 1 is wrong by half."""
    noise = np.random.default_rng(seed).laplace(scale=0.5, size=size) + shift
    return encode([TOLD[name](float(x)) for x in noise])


def lower_bound(left: Outcomes, right: Outcomes, scores: tuple[Score, ...], alpha: float = 1e-4) -> float:
    """The log ratio of an event that the first half of the runs suggests, by exact limits on the second half: of each
    score one threshold or one cell, and of all scores the best. Naive on purpose."""
    half = len(left) // 2
    past, later = slice(0, half), slice(half, None)
    best, event = 0.0, None
    for score in scores:
        ours, theirs = score.of(left.where(past)), score.of(right.where(past))
        for holds in events(score, ours, theirs):
            p, q = holds(ours).mean(), holds(theirs).mean()
            gap = abs(p - q) / np.sqrt(max(min(p, q), 8 / half))
            if gap > best:
                best, event = gap, (score, holds, p > q)
    if event is None:
        return 0.0
    score, holds, up = event
    counts = [int(np.count_nonzero(holds(score.of(side.where(later))))) for side in (left, right)]
    runs = len(left) - half
    likelier, rarer = counts if up else counts[::-1]
    low = beta.ppf(alpha, likelier, runs - likelier + 1) if likelier else 0.0
    high = beta.ppf(1 - alpha, rarer + 1, runs - rarer) if rarer < runs else 1.0
    return float(np.log(low / high)) if low else 0.0


def events(score: Score, left: Floats, right: Floats) -> list[Callable[[Floats], Any]]:
    """Thresholds in both directions, or cells; and not being defined."""
    found: list[Callable[[Floats], Any]] = [np.isnan, lambda numbers: ~np.isnan(numbers)]
    pooled = np.concatenate([left, right])
    if score.categories:
        cells = np.unique(pooled[~np.isnan(pooled)])
        return [*found, *(partial(np.equal, cell) for cell in cells)]
    ascending = np.sort(pooled[~np.isnan(pooled)])
    tails = np.array([2**k for k in range(3, max(4, ascending.size.bit_length() - 4))])
    places = np.concatenate([np.arange(0, ascending.size, max(1, ascending.size // 40)), tails, ascending.size - tails])
    edges = np.unique(ascending[places[(places >= 0) & (places < ascending.size)]])
    return found + [partial(compare, edge) for edge in edges for compare in (np.less, np.greater_equal, np.equal)]


def found_by_bank(left: Outcomes, right: Outcomes, data: tuple[object, object] | None = None) -> float:
    """The lower bound with the bank that the first half of the runs suggests."""
    half = len(left) // 2
    return lower_bound(left, right, bank(left.where(slice(0, half)), right.where(slice(0, half)), data))
