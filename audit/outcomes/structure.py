"""Outcomes: what the runs of one side gave, as numbers and labels at paths.

A path is the words of a place: `output`, `output[1].w`, `output["mean"]`. What a number cannot hold stands at a path
beside it: `low bits of output`, `len(output)`, `text of output`. Every path is a function of the single run, so runs
may be encoded in any chunks: `joined` gives what all of them together would have given.

>>> from dpledger.audit.outcomes.encoding import encode
>>> found = joined([encode([0.5, None]), encode([{"mean": 1.0}])])
>>> found.numbers["output"].ravel().tolist(), found.labels["output"].tolist()
([0.5, nan, nan], ['', 'None', 'dict of "mean"'])
>>> found.labels['output["mean"]'].tolist()
['absent', 'absent', '']
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["ABSENT", "RAISES", "ROOT", "Chosen", "Floats", "Labels", "Outcomes", "Raised", "joined"]

Floats: TypeAlias = npt.NDArray[np.float64]
Labels: TypeAlias = npt.NDArray[np.object_]
Chosen: TypeAlias = "slice | npt.NDArray[np.bool_]"

ROOT = "output"
RAISES = "raises "  # begins the label of a run that raised
ABSENT = "absent"  # the label of a run that has nothing at a path


@dataclass(frozen=True, slots=True)
class Raised:
    """The outcome of a run that raised: the exception's type name. `text`: its message, where that is asked for, as it
    may hold data. `error`: the exception itself, of the runs that are tried first; it is no part of the outcome."""

    name: str
    text: str | None = None
    error: BaseException | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Runs of one side.

    `numbers`: path -> float64[runs, width]; the row of a run with fewer numbers there ends in NaN. `labels`: path ->
    object[runs] of text: what kind of thing is there; "" for plain floats, "absent" for nothing. A path of `numbers`
    without labels has "" in every run. `losses`: float64[runs], what an ex-post claim says of each run; None where no
    such claim is tested."""

    runs: int
    numbers: Mapping[str, Floats]
    labels: Mapping[str, Labels]
    losses: Floats | None = None

    def __len__(self) -> int:
        return self.runs

    @property
    def paths(self) -> tuple[str, ...]:
        """All paths, in a fixed order."""
        return tuple(sorted({*self.numbers, *self.labels}))

    def column(self, path: str, place: int = 0) -> Floats:
        """One of the numbers at a path: float64[runs]; NaN where there is none."""
        table = self.numbers.get(path)
        if table is None or place >= table.shape[1]:
            return np.full(self.runs, np.nan)
        return table[:, place]

    def labels_at(self, path: str) -> Labels:
        """The labels at a path: object[runs]."""
        if path in self.labels:
            return self.labels[path]
        return np.full(self.runs, "" if path in self.numbers else ABSENT, dtype=object)

    def where(self, chosen: Chosen) -> Outcomes:
        """The chosen runs."""
        runs = len(range(*chosen.indices(self.runs))) if isinstance(chosen, slice) else int(np.count_nonzero(chosen))
        return Outcomes(
            runs,
            {path: table[chosen] for path, table in self.numbers.items()},
            {path: labels[chosen] for path, labels in self.labels.items()},
            None if self.losses is None else self.losses[chosen],
        )


def joined(pieces: Sequence[Outcomes]) -> Outcomes:
    """The runs of several chunks, in their order."""
    if len(pieces) == 1:
        return pieces[0]
    kept = [piece for piece in pieces if piece.runs]
    if not kept:
        return Outcomes(0, {}, {})
    numbers = {path: _stacked(kept, path) for path in _ordered(piece.numbers for piece in kept)}
    labels = {path: np.concatenate([piece.labels_at(path) for piece in kept]) for path in _with_labels(kept)}
    losses = [piece.losses for piece in kept if piece.losses is not None]
    return Outcomes(sum(map(len, kept)), numbers, labels, np.concatenate(losses) if losses else None)


def _ordered(names: Iterable[Iterable[str]]) -> dict[str, None]:
    return {name: None for some in names for name in some}


def _with_labels(pieces: Sequence[Outcomes]) -> dict[str, None]:
    """The paths at which some run is something else than plain floats."""
    partly = [
        path for path in _ordered(piece.numbers for piece in pieces) if any(path not in p.numbers for p in pieces)
    ]
    return _ordered([*(piece.labels for piece in pieces), partly])


def _stacked(pieces: Sequence[Outcomes], path: str) -> Floats:
    tables = [piece.numbers.get(path) for piece in pieces]
    width = max(table.shape[1] for table in tables if table is not None)
    if all(table is not None and table.shape[1] == width for table in tables):
        return np.concatenate([table for table in tables if table is not None])
    whole = np.full((sum(map(len, pieces)), width), np.nan)
    first = 0
    for piece, table in zip(pieces, tables, strict=True):
        if table is not None:
            whole[first : first + len(piece), : table.shape[1]] = table
        first += len(piece)
    return whole
