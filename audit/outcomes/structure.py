"""Outcomes: what the runs of one side gave, as numbers and labels at paths.

A path is the words of a place: `output`, `output[1].w`, `output["mean"]`. What a number cannot hold stands at a path
beside it: `low bits of output`, `len(output)`, `text of output`. What stands at a path in a run is a function of that
run alone, whatever other runs there are: `joined` gives for runs in any chunks what all of them together would have
given. So there are as many paths as the runs have. A path that few runs have is held as those runs (`Columns`), so
memory grows with what the outputs hold, and not with the number of runs times the number of paths.

>>> from dpledger.audit.outcomes.encoding import encode
>>> found = joined([encode([0.5, None]), encode([{"mean": 1.0}])])
>>> found.numbers["output"].ravel().tolist(), found.labels["output"].tolist()
([0.5, nan, nan], ['', 'None', 'dict of "mean"'])
>>> found.labels['output["mean"]'].tolist()
['absent', 'absent', '']
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = [
    "ABSENT",
    "DEEPEST",
    "MOST_PARTS",
    "RAISES",
    "ROOT",
    "TOO_DEEP",
    "TOO_MANY",
    "UNREAD",
    "Chosen",
    "Columns",
    "Floats",
    "Labels",
    "Outcomes",
    "Piece",
    "Raised",
    "Rows",
    "gathered",
    "joined",
    "name_of_error",
]

Floats: TypeAlias = npt.NDArray[np.float64]
Labels: TypeAlias = npt.NDArray[np.object_]
Chosen: TypeAlias = "slice | npt.NDArray[np.bool_]"
Rows: TypeAlias = "npt.NDArray[np.intp] | None"  # the runs of a piece of a column; None: all
Piece: TypeAlias = "tuple[Rows | slice, npt.NDArray[Any] | str]"  # a text stands for itself in all runs of it

ROOT = "output"
RAISES = "raises "  # begins the label of a run that raised
ABSENT = "absent"  # the label of a run that has nothing at a path
DEEPEST = 12  # levels of parts within parts
MOST_PARTS = 4096  # parts of one run that are read, in their order
TOO_MANY, TOO_DEEP = f"more than {MOST_PARTS:,} parts of {ROOT}", f"more than {DEEPEST} levels in {ROOT}"
UNREAD = {
    TOO_MANY: f"some outputs have more than {MOST_PARTS:,} parts, and what comes after those was not read: return "
    "arrays of numbers, or only what may tell the two datasets apart",
    TOO_DEEP: f"some outputs have more than {DEEPEST} levels of parts within parts, and what is deeper was not read: "
    "return it in fewer levels",
}
"""Paths of runs of which not all is read, and what their author is told."""

FEW = 8  # a column that less than one in so many runs have is held as those runs


@dataclass(frozen=True, slots=True)
class Raised:
    """The outcome of a run that raised: the exception's type, as `name_of_error` says it. `text`: its message, where
    that is asked for, as it may hold data. `error`: the exception itself, of the runs that are tried first; it is no
    part of the outcome."""

    name: str
    text: str | None = None
    error: BaseException | None = field(default=None, compare=False, repr=False)


def name_of_error(error: BaseException) -> str:
    """The name of an exception's type, with its module unless it is Python's own: two types of one name are two.

    >>> name_of_error(KeyError("x")), name_of_error(np.linalg.LinAlgError())
    ('KeyError', 'numpy.linalg.LinAlgError')
    """
    kind = type(error)
    if kind.__module__ == "builtins":
        return kind.__qualname__
    module = "__main__" if kind.__module__ == "__mp_main__" else kind.__module__  # in a process that was spawned
    return f"{module}.{kind.__qualname__.replace('<locals>.', '')}"


@dataclass(frozen=True, slots=True)
class Columns(Mapping[str, npt.NDArray[Any]]):
    """Columns by path, one row a run. `few`: those that few runs have: the runs and their rows, from which the column
    is made where it is asked for. `missing`: what all other runs have there."""

    runs: int
    whole: Mapping[str, npt.NDArray[Any]]
    few: Mapping[str, tuple[npt.NDArray[np.intp], npt.NDArray[Any]]]
    missing: float | str

    def __getitem__(self, path: str) -> npt.NDArray[Any]:
        if path not in self.few:
            return self.whole[path]
        rows, part = self.few[path]
        made = np.full((self.runs, *part.shape[1:]), self.missing, dtype=part.dtype)
        made[rows] = part
        return made

    def __contains__(self, path: object) -> bool:
        return path in self.few or path in self.whole

    def __iter__(self) -> Iterator[str]:
        yield from self.whole
        yield from self.few

    def __len__(self) -> int:
        return len(self.whole) + len(self.few)

    def where(self, chosen: Chosen) -> Columns:
        """The chosen runs."""
        kept = np.arange(self.runs)[chosen]
        places = np.full(self.runs, -1)
        places[kept] = np.arange(len(kept))
        few = {}
        for path, (rows, part) in self.few.items():
            stays = places[rows] >= 0
            few[path] = (places[rows[stays]], part[stays])
        return Columns(len(kept), {path: table[chosen] for path, table in self.whole.items()}, few, self.missing)


def gathered(runs: int, pieces: Mapping[str, Sequence[Piece]], missing: float | str) -> Mapping[str, npt.NDArray[Any]]:
    """Columns of so many runs from pieces of them."""
    whole: dict[str, npt.NDArray[Any]] = {}
    few: dict[str, tuple[npt.NDArray[np.intp], npt.NDArray[Any]]] = {}
    for path, some in pieces.items():
        first, table = some[0]
        if len(some) == 1 and first is None and not isinstance(table, str):
            whole[path] = table
            continue
        held = sum(_count(rows, runs) for rows, _ in some)
        if held * FEW >= runs:
            whole[path] = _filled(runs, some, missing)
            continue
        ends = np.cumsum([0, *(_count(rows, runs) for rows, _ in some)]).tolist()
        stacked = [(slice(*ends[place : place + 2]), part) for place, (_, part) in enumerate(some)]
        few[path] = (
            np.concatenate([np.arange(runs)[_index(rows)] for rows, _ in some]),
            _filled(held, stacked, missing),
        )
    return Columns(runs, whole, few, missing) if few else whole


def _count(rows: Rows | slice, runs: int) -> int:
    return runs if rows is None else rows.stop - rows.start if isinstance(rows, slice) else len(rows)


def _index(rows: Rows | slice) -> slice | npt.NDArray[np.intp]:
    return slice(None) if rows is None else rows


def _filled(runs: int, pieces: Sequence[Piece], missing: float | str) -> npt.NDArray[Any]:
    if isinstance(missing, str):
        column: npt.NDArray[Any] = np.full(runs, missing, dtype=object)
        for rows, labels in pieces:
            column[_index(rows)] = labels
        return column
    tables = [(rows, table) for rows, table in pieces if not isinstance(table, str)]
    block = np.full((runs, max(table.shape[1] for _, table in tables)), missing)
    for rows, table in tables:
        block[_index(rows), : table.shape[1]] = table
    return block


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
    def unread(self) -> frozenset[str]:
        """Why not all of some outputs was read: names of `UNREAD`."""
        return frozenset(path for path in UNREAD if path in self.labels)

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

    def runs_at(self, path: str) -> int:
        """How many runs may have something at a path, at most."""
        counts = [
            len(columns.few[path][0]) if isinstance(columns, Columns) and path in columns.few else self.runs
            for columns in (self.numbers, self.labels)
            if path in columns
        ]
        return max(counts, default=0)

    def cells(self, path: str) -> int:
        """How many numbers are held at a path, of all runs together."""
        columns = self.numbers
        if isinstance(columns, Columns) and path in columns.few:
            return int(columns.few[path][1].size)
        return int(columns[path].size)

    def where(self, chosen: Chosen) -> Outcomes:
        """The chosen runs."""
        runs = len(range(*chosen.indices(self.runs))) if isinstance(chosen, slice) else int(np.count_nonzero(chosen))
        return Outcomes(
            runs,
            _where(self.numbers, chosen),
            _where(self.labels, chosen),
            None if self.losses is None else self.losses[chosen],
        )


def joined(pieces: Sequence[Outcomes]) -> Outcomes:
    """The runs of several chunks, in their order."""
    if len(pieces) == 1:
        return pieces[0]
    kept = [piece for piece in pieces if piece.runs]
    if not kept:
        return Outcomes(0, {}, {})
    runs, starts = sum(map(len, kept)), np.cumsum([0, *map(len, kept)]).tolist()
    numbers: dict[str, list[Piece]] = {}
    labels: dict[str, list[Piece]] = {path: [] for path in _with_labels(kept)}
    for piece, start in zip(kept, starts, strict=False):
        for path in piece.numbers:
            numbers.setdefault(path, []).append(_placed(piece.numbers, path, start, len(piece)))
            if path in labels and path not in piece.labels:
                labels[path].append((slice(start, start + len(piece)), ""))
        for path in piece.labels:
            labels[path].append(_placed(piece.labels, path, start, len(piece)))
    losses = [piece.losses for piece in kept if piece.losses is not None]
    return Outcomes(
        runs,
        gathered(runs, numbers, np.nan),
        gathered(runs, labels, ABSENT),
        np.concatenate(losses) if losses else None,
    )


def _where(columns: Mapping[str, npt.NDArray[Any]], chosen: Chosen) -> Mapping[str, npt.NDArray[Any]]:
    if isinstance(columns, Columns):
        return columns.where(chosen)
    return {path: table[chosen] for path, table in columns.items()}


def _placed(columns: Mapping[str, npt.NDArray[Any]], path: str, start: int, runs: int) -> Piece:
    """A column as a piece of a longer one, from the run `start` on."""
    if isinstance(columns, Columns) and path in columns.few:
        rows, part = columns.few[path]
        return rows + start, part
    return slice(start, start + runs), columns[path]


def _ordered(names: Iterable[Iterable[str]]) -> dict[str, None]:
    return {name: None for some in names for name in some}


def _with_labels(pieces: Sequence[Outcomes]) -> dict[str, None]:
    """The paths at which some run is something else than plain floats."""
    counts = Counter(path for piece in pieces for path in piece.numbers)
    return _ordered([*(piece.labels for piece in pieces), [path for path in counts if counts[path] < len(pieces)]])
