"""What learners do, from their definitions: predictions one by one, laws by enumeration. Shares no code with them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["Example", "datasets", "errors_of", "exponential_law", "neighbours", "worst_loss"]

Example = tuple[int, int]
Floats = npt.NDArray[np.float64]
Law = Callable[[Sequence[Example]], Floats]


def errors_of(concepts: npt.NDArray[np.bool_], data: Sequence[Example]) -> list[int]:
    """Of each concept (row), one example at a time."""
    return [sum(int(row[x]) != y for x, y in data) for row in concepts]


def exponential_law(concepts: npt.NDArray[np.bool_], exponent: float) -> Law:
    """The law of the exponential mechanism on the concepts."""

    def law(data: Sequence[Example]) -> Floats:
        weights = np.exp(-exponent * np.array(errors_of(concepts, data), dtype=np.float64))
        found: Floats = weights / weights.sum()
        return found

    return law


def datasets(points: int, size: int) -> Iterator[tuple[Example, ...]]:
    """All multisets of that many examples."""
    return itertools.combinations_with_replacement(list(itertools.product(range(points), (0, 1))), size)


def neighbours(data: tuple[Example, ...], points: int, relation: str) -> Iterator[tuple[Example, ...]]:
    """Every neighbour that is reached by changing, adding or relabelling the last example or any other."""
    examples = list(itertools.product(range(points), (0, 1)))
    match relation:
        case "add_remove":
            yield from (data[:at] + data[at + 1 :] for at in range(len(data)))
        case "replace_one":
            yield from ((*data[:at], new, *data[at + 1 :]) for at in range(len(data)) for new in examples)
        case "label_flip":
            yield from ((*data[:at], (x, 1 - y), *data[at + 1 :]) for at, (x, y) in enumerate(data))
        case _:
            raise ValueError(relation)


def worst_loss(law: Law, points: int, size: int, relation: str) -> float:
    """The exact epsilon of a law of finitely many outcomes on all neighbours, the larger of which has `size` examples;
    infinite where the support moves."""
    worst = 0.0
    for data in datasets(points, size):
        here = law(data)
        for other in neighbours(data, points, relation):
            there = law(other)
            if ((here > 0) != (there > 0)).any():
                return math.inf
            kept = here > 0
            worst = max(worst, float(np.abs(np.log(here[kept] / there[kept])).max()))
    return worst
