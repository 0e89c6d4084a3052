"""Blocks of runs in a journal: outputs as they were encoded, while their order is tested; then what was counted.

What is read of runs is a function of their outcomes, so blocks whose outcomes are kept are read again; of others the
record says of what plan they are, and one that was read by another plan is refused.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt

from dpledger.audit.course.blocks import Read, RunSource, Seen
from dpledger.audit.course.journal import FIELD, Journal
from dpledger.audit.evidence.reading import NextBlock, Reading
from dpledger.audit.outcomes import Floats, Outcomes, joined
from dpledger.errors import ParameterError

__all__ = ["EarlierBlocks", "RecordedBlock", "Recording", "losses_kept", "require_same_outputs"]

KINDS = ("<f8", "<i8", "<i4", "|b1")
SAME_VERSION = "a file of this version of dpledger and numpy; or a new name, to begin again"


@dataclass(frozen=True, slots=True)
class EarlierBlocks:
    """The blocks that an earlier process drew. `starts`: gets of each side the runs with which a worker began."""

    journal: Journal
    starts: tuple[list[int], list[int]]

    def __iter__(self) -> Iterator[RecordedBlock]:
        while (record := self.journal.next()) is not None:
            for side, begun in zip(self.starts, record["starts"], strict=True):
                side.extend(begun)
            yield RecordedBlock(record)


@dataclass(frozen=True, slots=True)
class RecordedBlock:
    """One of them: a source of these runs alone."""

    record: Mapping[str, Any]

    @property
    def pairs(self) -> int:
        return int(self.record["pairs"])

    def __call__(self, first: int, pairs: int, read: Read) -> tuple[Seen, Seen]:
        if (first, pairs) != (self.record["first"], self.pairs):
            raise ParameterError(FIELD, f"{self.pairs} pairs of runs in the place of {pairs}", SAME_VERSION)
        left, right = (_seen(side, read) for side in self.record["sides"])
        return left, right


@dataclass(slots=True)
class Recording:
    """A source whose blocks are written down, but for runs that nothing is bet on. `starts`: of each side the runs with
    which a worker began, so far. This process is one as well: a mechanism that begins anew in each repeats itself from
    here on."""

    journal: Journal
    source: RunSource
    starts: tuple[list[int], list[int]]
    _has_begun: bool = False

    def __call__(self, first: int, pairs: int, read: Read) -> tuple[Seen, Seen]:
        if not read.plans:
            return self.source(first, pairs, read)
        known = [len(side) for side in self.starts]
        if not self._has_begun:
            self._has_begun = True
            for side in self.starts:
                side.extend([0, first])
        left, right = self.source(first, pairs, read)
        begun = [side[count:] for side, count in zip(self.starts, known, strict=True)]
        sides = [_side(seen, read) for seen in (left, right)]
        self.journal.append({"first": first, "pairs": pairs, "starts": begun, "sides": sides})
        return left, right


def require_same_outputs(journal: Journal, shown: str | None) -> None:
    """ParameterError where the runs that are tried first do not give what they gave when the journal began: then what
    is audited has changed, though its name and its file may not have. `shown`: a digest of them."""
    record = journal.next()
    if record is None:
        journal.append({"shown": shown})
    elif None not in (shown, record["shown"]) and shown != record["shown"]:
        given = "runs of another mechanism, or of other data: the first ones give other outputs now"
        raise ParameterError(FIELD, given, "the mechanism that the file is of; or a new name, to begin again")


def losses_kept(journal: Journal | None, drawn: Callable[[], tuple[Floats, ...]]) -> tuple[Floats, ...]:
    """The losses of runs that count for nothing, by which an ex-post claim is cut into strata: those of the journal, or
    those that are drawn now."""
    record = None if journal is None else journal.next()
    if record is not None:
        return tuple(map(_array, record["losses"]))
    found = drawn()
    if journal is not None:
        journal.append({"losses": [_packed(side) for side in found]})
    return found


# ---- what was seen --------------------------------------------------------------------------------------------------


def _side(seen: Seen, read: Read) -> dict[str, Any]:
    if seen.ordered:
        return {"outcomes": _outcomes(joined(seen.ordered))}
    readings = zip(seen.readings, read.plans, strict=True)
    read_as = [_reading(reading) | {"plan": _digest(plan)} for reading, plan in readings]
    return {"readings": read_as, "unread": sorted(seen.unread)}


def _seen(side: Mapping[str, Any], read: Read) -> Seen:
    if "outcomes" in side:
        return read(_outcomes_of(side["outcomes"]))
    readings = tuple(map(_reading_of, side["readings"], read.plans))
    return Seen(readings, (), frozenset(side["unread"]))


def _digest(plan: NextBlock) -> str:
    """Of the scores and cells of a plan."""
    cells = [None if grid is None else [grid.size, grid.upper(grid.size // 2)] for grid in plan.grids]
    return sha256(repr((plan.scores, cells, plan.strata, plan.counted, plan.keep)).encode()).hexdigest()


def _reading(reading: Reading) -> dict[str, Any]:
    return {
        "runs": reading.runs,
        "read": [_packed(one) for one in reading.read],
        "strata": None if reading.strata is None else _packed(reading.strata),
        "kept": [_outcomes(piece) for piece in reading.kept],
    }


def _reading_of(record: Mapping[str, Any], plan: NextBlock) -> Reading:
    if record["plan"] != _digest(plan):
        raise ParameterError(FIELD, "runs that were read in another way", SAME_VERSION)
    strata = None if record["strata"] is None else _array(record["strata"])
    read, kept = map(_array, record["read"]), map(_outcomes_of, record["kept"])
    return Reading(record["runs"], tuple(read), plan.counted, strata, plan.keep, tuple(kept))


# ---- outcomes and arrays --------------------------------------------------------------------------------------------


def _outcomes(found: Outcomes) -> dict[str, Any]:
    return {
        "runs": found.runs,
        "numbers": {path: _packed(table) for path, table in found.numbers.items()},
        "labels": {path: _packed_texts(labels.tolist()) for path, labels in found.labels.items()},
        "losses": None if found.losses is None else _packed(found.losses),
    }


def _outcomes_of(record: Mapping[str, Any]) -> Outcomes:
    return Outcomes(
        record["runs"],
        {path: _array(table) for path, table in record["numbers"].items()},
        {path: _texts(labels) for path, labels in record["labels"].items()},
        None if record["losses"] is None else _array(record["losses"]),
    )


def _packed_texts(texts: Sequence[str]) -> dict[str, Any]:
    """Each text once, and which one each run has."""
    known = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    return {"texts": list(known), "places": _packed(np.array([known[text] for text in texts], dtype=np.int64))}


def _texts(record: Mapping[str, Any]) -> npt.NDArray[np.object_]:
    found: npt.NDArray[np.object_] = np.array([*record["texts"], None], dtype=object)[_array(record["places"])]
    return found


def _packed(array: npt.NDArray[Any]) -> dict[str, Any]:
    """An array of floats, whole numbers or truths: its bytes."""
    kind = array.dtype.newbyteorder("<").str
    if kind not in KINDS:
        raise ValueError(f"expected an array of {', '.join(KINDS)}, got {kind}")
    data = zlib.compress(np.ascontiguousarray(array.astype(kind)).tobytes(), 1)
    return {"kind": kind, "shape": list(array.shape), "bytes": base64.b64encode(data).decode("ascii")}


def _array(record: Mapping[str, Any]) -> npt.NDArray[Any]:
    flat = np.frombuffer(zlib.decompress(base64.b64decode(record["bytes"])), dtype=record["kind"])
    return flat.reshape(record["shape"]).copy()
