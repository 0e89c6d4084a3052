"""Proven decay of a characteristic function, from a lower bound of the density: the layer-cake lemma.

Where a law has a density of at least g, g unimodal, the sets {g >= y} are intervals of length l(y), and
|phi(t)| <= 1 - int_0^inf l(y) (1 - |sinc(t l(y)/2)|) dy. Statement and proof: docs/proofs/engine.md, section 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpledger.accounting.arithmetic import elementary
from dpledger.accounting.arithmetic.floating import Array

__all__ = ["MARGIN", "PARTS", "Layers", "layers_below", "lost_share", "worth"]

MARGIN = 1e-9  # relative: more than every rounding made here
MOST_LAYERS = 32
PARTS, _FIRST = np.arange(MOST_LAYERS) / MOST_LAYERS, np.array([True])
_SMALL = 0.01  # below, 1 - sin x / x loses more digits than MARGIN allows
_RISE, _PLATEAU = 4.4, 0.2173  # |sin x / x| falls to 0.2173 at 2.63, is at most 0.21724 beyond, and at most 1/x


@dataclass(frozen=True, slots=True, eq=False)
class Layers:
    """Uniform layers: `masses`, and the half lengths `radii` of their intervals."""

    masses: Array
    radii: Array

    def log_decay(self, t: Array) -> Array:
        """Claim: at least log |phi(s)| for every s >= t. Source: docs/proofs/engine.md, section 3."""
        lost = elementary.product(lost_share(np.multiply.outer(t, self.radii)), self.masses)
        bounds: Array = elementary.log1p(-np.minimum(np.maximum(lost, 0.0), 1.0) * (1 - MARGIN))
        return bounds


def layers_below(floor: Array, widths: Array) -> Layers:
    """The layers of a step function below the density: height `floor[j]` on consecutive cells of length `widths[j]`."""
    floor = _unimodal(floor)
    order = (-floor).argsort(kind="stable")
    heights, lengths = floor[order], widths[order].cumsum()
    falls = heights.copy()
    falls[:-1] -= heights[1:]
    masses = falls * lengths
    share = worth(masses, lengths).cumsum()
    groups = np.minimum(share.searchsorted(share[-1] * PARTS), masses.size - 1)
    groups[0] = 0
    starts = groups[np.concatenate([_FIRST, groups[1:] > groups[:-1]])]
    merged = np.add.reduceat(masses, starts)
    return Layers(merged * (1 - MARGIN), lengths[starts] * ((1 - MARGIN) / 2))  # the shortest of each group


def worth(masses: Array, lengths: Array) -> Array:
    """By what layers are grouped, row by row: their share of the variance, which counts near frequency 0, and that of
    the mass, which counts far out."""
    spread = masses * lengths * lengths
    shares: Array = masses * spread.sum(axis=-1, keepdims=True) + spread * masses.sum(axis=-1, keepdims=True)
    return shares


def _unimodal(floor: Array) -> Array:
    """The largest unimodal function below `floor` with its mode: running minima outward."""
    mode = int(floor.argmax())
    unimodal = np.minimum.accumulate(floor[mode::-1])[::-1]
    return np.concatenate([unimodal, np.minimum.accumulate(floor[mode:])[1:]])


def lost_share(x: Array) -> Array:
    """A rising function that is at most 1 - |sin x / x|, x >= 0: 1 - sin x / x itself up to the plateau, and for small
    x, where that would cancel, two terms of its series."""
    x = np.maximum(x, 1e-150)
    square = x * x
    falling = np.where(x < _RISE, np.maximum(elementary.sin(x) / x, _PLATEAU), np.minimum(1 / x, _PLATEAU))
    share: Array = np.where(x < _SMALL, square * (1 / 6 - square / 120), 1 - falling)
    return share
