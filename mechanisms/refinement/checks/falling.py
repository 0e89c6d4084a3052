"""A check whose noise falls along the walk: ReducedAboveThreshold of Whitehouse et al. 2022, in a few stages.

Hypotheses of a stage are tested with the same scales and one threshold. From stage to stage both scales fall in one
ratio, the threshold's noise along a chain; so who passes early has paid for the coarse noise alone
(docs/proofs/sparse_vector.md, "Noise that falls"). The first half of a walk is one stage, and the last quarter.

Nothing here certifies privacy. `room_of` says how far above what may not pass a threshold has to be, with beta.

>>> stages = stages_of(walk=80, levels=100)
>>> stages.ends, [str(round(ratio, 2)) for ratio in stages.ratios]
((40, 45, 50, 55, 60, 100), ['2.00', '1.74', '1.52', '1.32', '1.15', '1.00'])
>>> stages.ratio(40), stages.ratio(80)
(Decimal('2'), Decimal('1'))
"""

from __future__ import annotations

import bisect
import functools
import math
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import numpy.typing as npt

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.mechanisms.refinement.accuracy_plans import crossing
from dpledger.mechanisms.refinement.levels import level

__all__ = ["Stages", "room_of", "stages_of"]

Array = npt.NDArray[np.float64]

_TIMES = Decimal(2)  # the coarsest scale, in units of the finest; with 4 walks cost as much, with 8 more
_STAGES = 6  # with 12 walks cost as much
_LEAST = 4  # with fewer stages there is next to nothing to fall
_REACH = 17.0  # scales of noise, beyond which all mass counts as passing: e^-17 of beta
_CELLS = 32  # of the threshold's noise, a finest scale: rounded up it is 2/32 larger, on the average, at the end


@dataclass(frozen=True, slots=True)
class Stages:
    """`ends`: the last level of each stage, from 1. `ratios`: its scales, in units of those of the last stage."""

    ends: tuple[int, ...]
    ratios: tuple[Decimal, ...]

    def at(self, k: int) -> int:
        """The stage of level k, from 0."""
        return bisect.bisect_left(self.ends, k)

    def ratio(self, k: int) -> Decimal:
        """That of level k."""
        return self.ratios[self.at(k)]


def stages_of(*, walk: int, levels: int) -> Stages | None:
    """The stages of a walk that ends at level `walk`, and may go on to `levels` at the last stage; None where it is too
    short for stages."""
    coarse, fine = walk // 2, 3 * walk // 4
    count = min(_STAGES, fine - coarse + 2)
    if count < _LEAST:
        return None
    ends = [coarse + (fine - coarse) * stage // (count - 2) for stage in range(count - 1)]
    ratios = tuple(level(Decimal(1), _TIMES, count, count - stage) for stage in range(count))
    return Stages((*ends, levels), ratios)


@functools.lru_cache(maxsize=64)
@np.errstate(all="ignore")  # what is lost below the normal floats passes
def room_of(stages: Stages, *, wide: float, missed: float, least: float) -> float:
    """How far below a threshold what may not pass has to be, in units of a stage's scale, so that some of it passes
    with chance `missed` at most: `wide` is the scale of a query's noise in units of the threshold's, and `least` where
    one threshold alone would have it.

    Claim: P(X_k - Z_k > room m_k for some level k) <= missed, Z the chain of the threshold's noise, of scales m_k, X
    independent noise of scales wide m_k, both Laplace. Source: docs/proofs/accuracy_first.md, section 4."""
    wanted, reach = scalars.log(missed), _REACH - scalars.log(missed)

    def above(room: float) -> float:
        return scalars.log(max(_some_pass(stages, room, wide, reach), math.ulp(0.0))) - wanted

    low, high = least / 2, least + wide
    while above(high) > 0:
        low, high = high, 2 * high
    return crossing(above, low, high, within=1e-6) if above(low) > 0 else low


def _some_pass(stages: Stages, room: float, wide: float, reach: float) -> float:
    """At least that chance: the mass of the threshold's noise, from the finest stage to the coarsest, without what lets
    a query pass. Each noise is rounded up to whole cells, and what is beyond the reach passes; as rounded sums of more
    noise are, thresholds are the lower."""
    scales = [float(ratio) for ratio in stages.ratios]
    edge = math.ceil(reach * scales[0] * _CELLS)
    places: Array = np.arange(-edge, edge + 1, dtype=np.float64) / _CELLS
    kept: Array = np.zeros_like(places)
    kept[edge] = 1.0
    kept = _spread(kept, scales[-1])
    starts = (0, *stages.ends[:-1])
    for stage in reversed(range(len(scales))):
        scale = scales[stage]
        if stage < len(scales) - 1:
            same = (scales[stage + 1] / scale) ** 2
            kept = same * kept + (1 - same) * _spread(kept, scale)
        x = (places / scale - room) / wide
        far = elementary.exp(-np.abs(x)) / 2
        passes = np.minimum(np.where(x < 0, far, 1 - far), 1 - 2.0**-53)
        kept = kept * elementary.exp((stages.ends[stage] - starts[stage]) * elementary.log1p(-passes))
    return 1 - float(kept.sum())


def _spread(mass: Array, scale: float) -> Array:
    """Mass on cells, with Laplace noise of this scale that is rounded up to whole cells: up by k >= 1 with chance
    (1 - q) q^(k-1)/2, and down by k >= 0 with (1 - q) q^k/2."""
    q = scalars.exp(-1 / (scale * _CELLS))
    up = np.append(0.0, _geometric(mass, q)[:-1])
    down = _geometric(mass[::-1], q)[::-1]
    spread: Array = (1 - q) / 2 * (up + down)
    return spread


def _geometric(mass: Array, q: float) -> Array:
    """The sums of q^k mass[i-k] over k >= 0, by doubling, in the same digits on every machine."""
    total, shift, factor = mass.copy(), 1, q
    while shift < mass.size and factor:
        total[shift:] += factor * total[:-shift].copy()
        shift, factor = 2 * shift, factor * factor
    return total
