"""Outputs of runs as numbers and labels: whatever a run gives is an outcome, and none is ever dropped.

A run whose output is `width` numbers (a number, a list, an array) becomes a row of `values`. Everything else (text,
None, another number of numbers, an exception) becomes a label `head` or `head: text`; its row is NaN. Of a `Release`
the value counts: the rest is its record. Merging outcomes (two whole numbers beyond 2^53 that fall on one float) is
post-processing: it can hide a fault, never invent one.

>>> found = encode([0.5, Raised("ValueError"), None, (1, 2)], width=1)
>>> found.values.ravel().tolist(), found.labels.tolist()
([0.5, nan, nan, nan], ['', 'raises ValueError', 'None', '2 numbers: 1.0, 2.0'])
"""

from __future__ import annotations

import hashlib
import numbers
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.audit.outcomes.structure import Raised
from dpledger.mechanisms.protocol import Release

__all__ = ["Floats", "Labels", "Outcomes", "Raised", "encode", "head_of", "joined", "usual_width"]

Floats: TypeAlias = npt.NDArray[np.float64]
Labels: TypeAlias = npt.NDArray[np.object_]
Outputs: TypeAlias = "Sequence[object] | npt.NDArray[np.generic]"

_LONGEST_LABEL = 160  # characters; a longer text is cut and told apart by its digest


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Runs of one side. `values`: float64[runs, width], NaN in the rows of labelled runs. `labels`: object[runs], ""
    where the run gave numbers; None where every run did. `losses`: float64[runs], what an ex-post claim says of each;
    None where no such claim is tested."""

    values: Floats
    labels: Labels | None
    losses: Floats | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def sole(self) -> bytes | str | None:
        """What all runs gave, numbers or label, if all gave the same; None if they differ, or there are none."""
        if not len(self):
            return None
        if self.labels is not None and self.labels[0]:
            return str(self.labels[0]) if (self.labels == self.labels[0]).all() else None
        numbers = np.ascontiguousarray(self.values).view(np.uint64)  # bit for bit: NaN is NaN
        is_one = bool((numbers == numbers[0]).all()) and (self.labels is None or not self.labels.any())
        return self.values[0].tobytes() if is_one else None

    def where(self, chosen: npt.NDArray[np.bool_]) -> Outcomes:
        """The chosen runs: bool[runs]."""
        labels = None if self.labels is None else self.labels[chosen]
        return Outcomes(self.values[chosen], labels, None if self.losses is None else self.losses[chosen])


def encode(outputs: Outputs, width: int) -> Outcomes:
    """The outcomes of `outputs`, one run an item. Total: no output raises."""
    if isinstance(outputs, np.ndarray) and outputs.dtype.kind in "biufc":
        table = _flat(outputs)
        if table.shape[1] == width:
            return Outcomes(table, None)
        return _one_by_one(list(table), width)
    if width == 1 and all(type(item) is float for item in outputs):
        return Outcomes(np.array(outputs, dtype=np.float64).reshape(-1, 1), None)
    return _one_by_one(outputs, width)


def _flat(array: npt.NDArray[np.generic]) -> Floats:
    rows = array.reshape(len(array), -1)
    if array.dtype.kind == "c":
        rows = np.concatenate([rows.real, rows.imag], axis=1)
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(rows, dtype=np.float64)


def _one_by_one(outputs: Outputs, width: int) -> Outcomes:
    values = np.full((len(outputs), width), np.nan)
    labels = np.full(len(outputs), "", dtype=object)
    for place, output in enumerate(outputs):
        row = _numbers(output)
        if row is not None and row.size == width:
            values[place] = row
        else:
            labels[place] = _label(output, row)
    return Outcomes(values, labels if any(labels) else None)


def _numbers(output: object) -> Floats | None:
    """The numbers that an output is, flattened; None where it is anything else."""
    try:
        match output:
            case bool() | np.bool_() | numbers.Real() | Decimal():
                return np.full(1, float(output))
            case Release(value=value):
                return _numbers(value)
            case complex() | np.ndarray() if np.asarray(output).dtype.kind in "biufc":
                return _flat(np.asarray(output)[np.newaxis]).ravel()
            case list() | tuple():
                parts = [_numbers(part) for part in output]
                found = [part for part in parts if part is not None]
                return np.concatenate([np.empty(0), *found]) if len(found) == len(parts) else None
            case _:
                return None
    except Exception:  # the output's own conversion to a number failed: then it is no number
        return None


def _label(output: object, row: Floats | None) -> str:
    match output:
        case Raised(name=name):
            return f"raises {name}"
        case Release(value=value):
            return _label(value, row)
        case None:
            return "None"
        case _ if row is not None:
            return _shortened(f"{row.size} numbers: " + ", ".join(map(repr, row[:1000].tolist())))
        case _:
            return _shortened(f"{type(output).__name__}: {_text(output)}")


def _text(output: object) -> str:
    """A text that is the same for equal outputs of the plain types; empty for objects that print their address."""
    if isinstance(output, (set, frozenset)):
        return ", ".join(sorted(_text(item) for item in output))
    if isinstance(output, dict):
        return ", ".join(sorted(f"{_text(key)}={_text(item)}" for key, item in output.items()))
    try:
        text = repr(output)
    except Exception as error:  # the output's own code: what it raises is part of the outcome
        return f"unprintable {type(error).__name__}"
    return "" if " at 0x" in text else text


def _shortened(label: str) -> str:
    if len(label) <= _LONGEST_LABEL:
        return label
    digest = hashlib.sha256(label.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{label[:_LONGEST_LABEL]}... {digest}"


def head_of(label: str) -> str:
    """What kind of outcome a label names: its part before the first colon."""
    return label.partition(":")[0]


def usual_width(outputs: Outputs) -> int:
    """How many numbers the outputs usually are (the commonest count; 1 where none is made of numbers)."""
    sizes = Counter(row.size for row in map(_numbers, outputs) if row is not None and row.size)
    return min(sizes, key=lambda size: (-sizes[size], size)) if sizes else 1


def joined(pieces: Sequence[Outcomes]) -> Outcomes:
    """The runs of several chunks, in their order."""
    values = np.concatenate([piece.values for piece in pieces])
    stated = [piece.losses for piece in pieces if piece.losses is not None]
    losses = np.concatenate(stated) if stated else None
    if all(piece.labels is None for piece in pieces):
        return Outcomes(values, None, losses)
    return Outcomes(values, np.concatenate([_labels(piece) for piece in pieces]), losses)


def _labels(piece: Outcomes) -> Labels:
    return piece.labels if piece.labels is not None else np.full(len(piece), "", dtype=object)
