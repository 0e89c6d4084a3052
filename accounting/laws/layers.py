"""Proven decay of a characteristic function, from a lower bound of the density: the layer-cake lemma.

Where a law has a density of at least g, g unimodal, the sets {g >= y} are intervals of length l(y), and
|phi(t)| <= 1 - int_0^inf l(y) (1 - |sinc(t l(y)/2)|) dy. Statement and proof: docs/proofs/engine.md, section 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpledger.accounting.arithmetic import elementary
from dpledger.accounting.arithmetic.floating import Array

__all__ = ["MARGIN", "Layers", "layers_below", "lost_share"]

MARGIN = 1e-9  # relative: more than every rounding made here
MOST_LAYERS = 32
_PARTS = np.arange(MOST_LAYERS) / MOST_LAYERS
_SMALL = 0.01  # below, 1 - sin x / x loses more digits than MARGIN allows
_PLATEAU = 0.2173  # sin x / x falls to 0.2173 before 2.64, is at most 0.21724 in size beyond, and at most 1/x


@dataclass(frozen=True, slots=True, eq=False)
class Layers:
    """Row by row: the `masses` of uniform layers, and the half lengths `radii` of their intervals."""

    masses: Array
    radii: Array

    def log_decay(self, t: Array) -> Array:
        """Claim: at least log |phi(s)| for every s >= t, row by row. Source: docs/proofs/engine.md, section 3."""
        lost = np.einsum("itj,ij->it", lost_share(self.radii[:, None, :] * t[:, None]), self.masses)
        bounds: Array = elementary.log1p(-np.minimum(np.maximum(lost, 0.0), 1.0) * (1 - MARGIN))
        return bounds


def layers_below(floors: Array, widths: Array) -> Layers:
    """The layers of step functions below densities: height `floors[i, j]` on consecutive cells of `widths[i, j]`."""
    floors = _unimodal(floors)
    starts = floors.shape[1] * np.arange(len(floors))[:, None]
    order = np.argsort(-floors, axis=1, kind="stable") + starts
    heights, lengths = floors.ravel()[order], np.cumsum(widths.ravel()[order], axis=1)
    falls = heights.copy()
    falls[:, :-1] -= heights[:, 1:]
    masses = falls * lengths
    groups = _groups(masses, lengths)
    merged = np.add.reduceat(masses.ravel(), (groups + starts).ravel()).reshape(groups.shape)
    merged[:, :-1] *= groups[:, 1:] > groups[:, :-1]  # of an empty one nothing
    radii = lengths.ravel()[groups + starts] / 2  # the shortest of each group
    return Layers(merged * (1 - MARGIN), radii * (1 - MARGIN))


def _groups(masses: Array, lengths: Array) -> NDArray[np.intp]:
    """Where groups of layers of about equal worth begin in each row, the first at 0; a group is empty where the next
    one begins as well. Worth: their share of the variance, which counts near frequency 0, and that of the mass, which
    counts far out."""
    spread = masses * lengths * lengths
    worth = masses * spread.sum(axis=1, keepdims=True) + spread * masses.sum(axis=1, keepdims=True)
    shares = np.cumsum(worth, axis=1)
    groups = np.minimum([share.searchsorted(share[-1] * _PARTS) for share in shares], shares.shape[1] - 1)
    groups[:, 0] = 0
    return np.asarray(groups, dtype=np.intp)


def _unimodal(floors: Array) -> Array:
    """The largest unimodal functions below, each with its mode: running minima outward."""
    behind = np.arange(floors.shape[1]) < np.argmax(floors, axis=1)[:, None]
    before = np.minimum.accumulate(np.where(behind, floors, np.inf)[:, ::-1], axis=1)[:, ::-1]
    after = np.minimum.accumulate(np.where(behind, np.inf, floors), axis=1)
    return np.minimum(before, after)


def lost_share(x: Array) -> Array:
    """A rising function that is at most 1 - |sin x / x|, x >= 0: 1 - sin x / x itself up to the plateau, and for small
    x, where that would cancel, two terms of its series."""
    x = np.maximum(x, 1e-150)
    square = x * x
    falling = np.maximum(elementary.sin(x) / x, np.minimum(1 / x, _PLATEAU))
    share: Array = np.where(x < _SMALL, square * (1 / 6 - square / 120), 1 - falling)
    return share
