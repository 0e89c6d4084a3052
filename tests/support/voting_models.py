"""Ensembles whose models vote as a test says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpledger.mechanisms.stability.ensembles.chunkers import Hashed
from dpledger.mechanisms.stability.ensembles.ensemble import Ensemble

__all__ = ["scoring", "speaking", "spread", "threshold"]


def threshold(rows: Any, labels: Any) -> Any:
    """A model that votes 1 above the least row of its chunk."""
    least = rows.min()
    return lambda asked: (np.asarray(asked, dtype=float).reshape(-1) > least).astype(int)


def spread(chunks: int = 101, chunker: Any = "slots", **given: Any) -> Ensemble:
    """Of k models, round(x) vote 1 on the query x."""
    units = (np.arange(chunks), np.zeros(chunks))
    if isinstance(chunker, Hashed):
        given.setdefault("ids", range(chunks))
    return Ensemble.fit(threshold, units, chunks, chunker, progress=False, **given)


def speaking(table: Sequence[Sequence[int]], classes: int) -> Ensemble:
    """An ensemble whose models vote as a table says: a row a model; query j is the number j."""

    def learner(rows: Any, labels: Any) -> Any:
        own = table[int(rows[0])]
        return lambda asked: [own[int(query)] for query in np.asarray(asked).reshape(-1)]

    units = (np.arange(len(table)), np.zeros(len(table)))
    return Ensemble.fit(learner, units, len(table), "slots", classes=classes, progress=False)


def scoring(table: Any, chunker: Any = "slots", **given: Any) -> Ensemble:
    """An ensemble whose models score as a table says: a row a model; query j is the number j."""
    scores = np.asarray(table, dtype=float)

    def learner(rows: Any, labels: Any) -> Any:
        own = scores[int(np.asarray(rows)[0])]
        return lambda asked: own[np.asarray(asked).reshape(-1).astype(int)]

    units = (np.arange(len(scores)), np.zeros(len(scores)))
    return Ensemble.fit(learner, units, len(scores), chunker, classes=None, progress=False, **given)
