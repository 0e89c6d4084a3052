"""Proven decay of a characteristic function, from a lower bound of the density: the layer-cake lemma.

Where a law has a density of at least g, g unimodal, the sets {g >= y} are intervals of length l(y), and
|phi(t)| <= 1 - int_0^inf l(y) (1 - |sinc(t l(y)/2)|) dy. Statement and proof: docs/proofs/engine.md, section 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpledger.accounting.engine.floating import Array

__all__ = ["Layers", "layers_below"]

MARGIN = 1e-9  # relative: more than every rounding made here
MOST_LAYERS = 24
_DIP, _RISE, _PLATEAU = 2.4, 4.4, 0.2173  # |sin x / x| <= 0.21724 from 2.72 to 4.5, and <= 1/x everywhere


@dataclass(frozen=True, slots=True, eq=False)
class Layers:
    """Uniform layers: `masses`, and the half lengths `radii` of their intervals."""

    masses: Array
    radii: Array

    def log_decay(self, t: Array) -> Array:
        """Claim: at least log |phi(s)| for every s >= t. Source: docs/proofs/engine.md, section 3."""
        lost = (1 - _falling_sinc(np.multiply.outer(t, self.radii))) @ self.masses
        bounds: Array = np.log1p(-np.clip(lost * (1 - MARGIN), 0.0, 1 - MARGIN))
        return bounds


def layers_below(floor: Array, widths: Array) -> Layers:
    """The layers of a step function below the density: height `floor[j]` on consecutive cells of length `widths[j]`."""
    floor = _unimodal(floor)
    order = np.argsort(-floor, kind="stable")
    heights = floor[order]
    lengths = np.cumsum(widths[order])
    masses = (heights - np.append(heights[1:], 0.0)) * lengths
    share = np.cumsum(masses)
    groups = np.searchsorted(share, share[-1] * np.arange(MOST_LAYERS) / MOST_LAYERS)
    starts = np.unique(np.minimum(groups, masses.size - 1))
    starts[0] = 0
    merged = np.add.reduceat(masses, starts)
    return Layers(merged * (1 - MARGIN), lengths[starts] / 2 * (1 - MARGIN))  # the shortest of each group


def _unimodal(floor: Array) -> Array:
    """The largest unimodal function below `floor` with its mode: running minima outward."""
    mode = int(np.argmax(floor))
    right = np.minimum.accumulate(floor[mode:])
    left = np.minimum.accumulate(floor[: mode + 1][::-1])[::-1]
    return np.concatenate([left[:-1], right])


def _falling_sinc(x: Array) -> Array:
    """A falling function that is at least |sin x / x|, x >= 0."""
    ratio = np.abs(np.sinc(x / np.pi))
    tail = np.minimum(_PLATEAU, 1 / np.maximum(x, 1.0))
    middle = np.maximum(ratio, _PLATEAU)
    falling: Array = np.where(x < _DIP, ratio, np.where(x < _RISE, middle, tail))
    return falling
