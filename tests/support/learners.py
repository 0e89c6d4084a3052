"""Learners for ensembles: some that tests look into, some that would carry one chunk's data into another. In a module
of their own, so that they travel to worker processes."""

from __future__ import annotations

import random
import sys
import warnings
from typing import Any

import numpy as np

__all__ = [
    "Constant",
    "Failing",
    "InPlace",
    "Majority",
    "ToldAbroad",
    "Unpicklable",
    "UsesGlobalCoins",
    "majority",
]


def majority(rows: Any, labels: Any) -> Any:
    """The most frequent label, for every query."""
    top = int(np.bincount(labels).argmax())
    return lambda asked: np.full(len(asked), top)


class Majority:
    """The same as an estimator of no library."""

    def fit(self, rows: Any, labels: Any) -> Majority:
        self.top_ = int(np.bincount(labels).argmax())
        return self

    def predict(self, asked: Any) -> Any:
        return [self.top_] * len(asked)


class Constant:
    """Predicts what it is made with, whatever that is."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def __call__(self, rows: Any, labels: Any) -> Any:
        return lambda asked: self._answer(asked) if callable(self._answer) else self._answer


class Failing:
    """Raises, warns and prints where a chunk has a row of sevens; else the majority."""

    def __init__(self, error: type[BaseException] = ValueError) -> None:
        self._error = error

    def __call__(self, rows: Any, labels: Any) -> Any:
        warnings.warn(f"{len(rows)} rows", stacklevel=1)
        print(f"loss {rows.sum()}")
        np.log(np.zeros(1))
        if (rows == 7).any():
            raise self._error(f"a secret: {rows.tolist()}")
        return majority(rows, labels)


class UsesGlobalCoins:
    """Draws from the generators that all chunks share, as often as its rows say, and votes by the next number."""

    def __call__(self, rows: Any, labels: Any) -> Any:
        for _ in range(int(rows.sum())):
            np.random.random()
            random.random()
        return lambda asked: ((np.random.random(len(asked)) + random.random()) % 1 > 0.5).astype(int)


class InPlace:
    """Centres what it is asked in its own array, by the mean of its chunk."""

    def __call__(self, rows: Any, labels: Any) -> Any:
        middle = rows.mean()

        def predict(asked: Any) -> Any:
            asked -= middle
            return (asked[:, 0] > 0).astype(int)

        return predict


class Unpicklable:
    """A model that does not travel between processes."""

    def __call__(self, rows: Any, labels: Any) -> Any:
        frame = sys._getframe()
        return lambda asked: np.zeros(len(asked), dtype=int) if frame else None


class ToldAbroad:
    """Keeps count, in one object for all chunks, of what it saw: it breaks the contract of learners, unless copied."""

    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, rows: Any, labels: Any) -> Any:
        self.seen += int(rows.sum())
        answer = self.seen % 2
        return lambda asked: np.full(len(asked), answer)
