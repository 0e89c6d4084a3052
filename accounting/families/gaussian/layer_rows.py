"""Proven decay of many characteristic functions side by side: `laws.layers`, row by row.

docs/proofs/engine.md, section 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpledger.accounting.arithmetic import elementary
from dpledger.accounting.arithmetic.floating import Array
from dpledger.accounting.laws.layers import MARGIN, PARTS, lost_share, worth

__all__ = ["LayerRows", "layer_rows_below"]


@dataclass(frozen=True, slots=True, eq=False)
class LayerRows:
    """Row by row: the `masses` of uniform layers, and the half lengths `radii` of their intervals."""

    masses: Array
    radii: Array

    def log_decay(self, t: Array) -> Array:
        """Claim: at least log |phi(s)| for every s >= t, row by row. Source: docs/proofs/engine.md, section 3."""
        lost = np.einsum("itj,ij->it", lost_share(self.radii[:, None, :] * t[:, None]), self.masses)
        bounds: Array = elementary.log1p(-np.clip(lost * (1 - MARGIN), 0.0, 1 - MARGIN))
        return bounds


def layer_rows_below(floors: Array, widths: Array) -> LayerRows:
    """The layers of step functions below densities: height `floors[i, j]` on consecutive cells of `widths[i, j]`."""
    floors = _unimodal(floors)
    order = np.argsort(-floors, axis=1, kind="stable")
    heights = np.take_along_axis(floors, order, axis=1)
    lengths = np.cumsum(np.take_along_axis(widths, order, axis=1), axis=1)
    falls = heights.copy()
    falls[:, :-1] -= heights[:, 1:]
    masses = falls * lengths
    starts, empty = _groups(worth(masses, lengths))
    merged = np.add.reduceat(masses.ravel(), starts.ravel()).reshape(starts.shape)
    merged[empty] = 0.0
    return LayerRows(merged * (1 - MARGIN), lengths.ravel()[starts] * ((1 - MARGIN) / 2))  # the shortest of each group


def _groups(worths: Array) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Where groups of about equal worth begin in each row, counted through all rows, and which of them are empty."""
    rows, cells = worths.shape
    share = np.cumsum(worths, axis=1)
    ends = [np.searchsorted(row, row[-1] * PARTS) for row in share]
    groups = np.minimum(np.array(ends, dtype=np.intp), cells - 1)
    groups[:, 0] = 0
    empty = np.zeros(groups.shape, dtype=np.bool_)
    empty[:, :-1] = groups[:, 1:] == groups[:, :-1]
    return groups + cells * np.arange(rows)[:, None], empty


def _unimodal(floors: Array) -> Array:
    """The largest unimodal functions below, each with its mode: running minima outward."""
    behind = np.arange(floors.shape[1]) < np.argmax(floors, axis=1)[:, None]
    before = np.minimum.accumulate(np.where(behind, floors, np.inf)[:, ::-1], axis=1)[:, ::-1]
    after = np.minimum.accumulate(np.where(behind, np.inf, floors), axis=1)
    return np.minimum(before, after)
