"""An audit's state as plain data that JSON holds exactly: numbers, texts, and arrays as base64 of their bytes."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dpledger.audit.evidence.estimates import Cut, Grid, Lattice
from dpledger.audit.evidence.tracks import Track
from dpledger.audit.features.score import Score

__all__ = ["array_of", "packed", "packed_track", "track_of"]

KINDS = ("<f8", "<i8", "|b1")


def packed(array: npt.NDArray[Any]) -> dict[str, Any]:
    """An array of floats, whole numbers or truths."""
    kind = KINDS[0] if array.dtype.kind == "f" else KINDS[1] if array.dtype.kind in "iu" else KINDS[2]
    whole = np.ascontiguousarray(array.astype(kind))
    return {"kind": kind, "shape": list(whole.shape), "bytes": base64.b64encode(whole.tobytes()).decode("ascii")}


def array_of(state: Mapping[str, Any]) -> npt.NDArray[Any]:
    """The array that was packed. ValueError if none was."""
    if state["kind"] not in KINDS:
        raise ValueError(f"expected an array of {', '.join(KINDS)}, got {state['kind']!r}")
    flat = np.frombuffer(base64.b64decode(state["bytes"], validate=True), dtype=state["kind"])
    return flat.reshape(state["shape"]).copy()


def packed_track(track: Track, score: int) -> dict[str, Any]:
    """A track, with the place of its score."""
    return {
        "score": score,
        "law": track.arms[0].law,
        "strata": track.strata,
        "past": None if track.past is None else [packed(side) for side in track.past],
        "where": None if track.where is None else [packed(side) for side in track.where],
        "grid": _packed_grid(track.grid),
        "counts": packed(track.counts),
        "cell": packed(track.cell),
        "cells": track.cells,
        "cut_at": track.cut_at,
        "live": track.live,
    }


def track_of(state: Mapping[str, Any], scores: tuple[Score, ...]) -> Track:
    """The track that was packed."""
    score, strata = scores[state["score"]], int(state["strata"])
    track = Track.of(score, strata, law=bool(state["law"]))
    past, where = state["past"], state["where"]
    track.past = None if past is None else (array_of(past[0]), array_of(past[1]))
    track.where = None if where is None else (array_of(where[0]), array_of(where[1]))
    track.grid = _grid_of(state["grid"])
    track.counts, track.cell = array_of(state["counts"]), array_of(state["cell"])
    track.cells, track.cut_at, track.live = int(state["cells"]), int(state["cut_at"]), bool(state["live"])
    return track


def _packed_grid(grid: Grid) -> dict[str, Any]:
    if isinstance(grid, Cut):
        return {"edges": packed(grid.edges)}
    numbers = packed(np.array([grid.low, grid.high, grid.middle, grid.unit]))
    return {"numbers": numbers, "atoms": packed(grid.atoms), "bent": grid.bent}


def _grid_of(state: Mapping[str, Any]) -> Grid:
    if "edges" in state:
        return Cut(array_of(state["edges"]))
    low, high, middle, unit = array_of(state["numbers"]).tolist()
    return Lattice(low, high, array_of(state["atoms"]), bool(state["bent"]), middle, unit)
