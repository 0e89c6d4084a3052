"""What the two datasets hold: numbers, texts and vectors that an output may repeat.

>>> found = Inputs.of([1.0, 2.0], [1.0, 2.0, 40.0])
>>> 40.0 in found.right, 43.0 in found.right, 1.0 in found.both
(True, True, True)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpledger.audit.outcomes.encoding import encode
from dpledger.audit.outcomes.structure import Floats

__all__ = ["Inputs"]

MOST_VALUES = 1024  # of each sort; those of one side alone are all the more telling
MOST_TEXTS = 31  # of each side


@dataclass(frozen=True, slots=True)
class Inputs:
    """Numbers of the left data alone, of the right data alone and of both (their sums, means, extremes and lengths
    among them), texts, and blocks of numbers that both have, at the same path and of the same width."""

    left: tuple[float, ...] = ()
    right: tuple[float, ...] = ()
    both: tuple[float, ...] = ()
    texts: tuple[str, ...] = ()
    vectors: tuple[tuple[tuple[float, ...], tuple[float, ...]], ...] = ()

    @classmethod
    def of(cls, left: object, right: object) -> Inputs:
        """What the two datasets hold."""
        if isinstance(left, Iterator) or isinstance(right, Iterator):  # reading would use them up
            return cls()
        ours, theirs = encode([left]), encode([right])
        mine, other = (_values(dict(side.numbers)) for side in (ours, theirs))
        texts = [
            {str(label) for path, labels in side.labels.items() if path.startswith("text of") for label in labels}
            for side in (ours, theirs)
        ]
        vectors = [
            (tuple(block[0].tolist()), tuple(theirs.numbers[path][0].tolist()))
            for path, block in ours.numbers.items()
            if path in theirs.numbers and 1 < block.shape[1] == theirs.numbers[path].shape[1] <= MOST_VALUES
        ]
        return cls(
            _some(np.setdiff1d(mine, other)),
            _some(np.setdiff1d(other, mine)),
            _some(np.intersect1d(mine, other)),
            tuple(sorted(texts[0] - texts[1])[:MOST_TEXTS] + sorted(texts[1] - texts[0])[:MOST_TEXTS]),
            tuple(pair for pair in vectors if pair[0] != pair[1])[:4],
        )


def _values(blocks: dict[str, Floats]) -> Floats:
    """All numbers, and the simplest statistics of each block."""
    found = [np.empty(0)]
    with np.errstate(all="ignore"):
        for block in blocks.values():
            row = block[0][~np.isnan(block[0])]
            found.append(row)
            if row.size > 1:
                found.append(np.array([row.sum(), row.mean(), np.median(row), row.size]))
    return np.unique(np.concatenate(found))


def _some(values: Floats) -> tuple[float, ...]:
    kept = values if values.size <= MOST_VALUES else values[np.linspace(0, values.size - 1, MOST_VALUES).astype(int)]
    return tuple(kept.tolist())
