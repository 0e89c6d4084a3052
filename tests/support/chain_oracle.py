"""Two levels of a chain once more, from the kernels of the literature: joint laws in floats and in mpmath.

The older, coarser level x has the larger scale b; the newer, finer one y the scale b'. Continuous: x is y with
probability r^2 (r = b'/b), else y plus an independent Laplace variable of scale b. Discrete: with q = e^(-1/b), x is y
with probability (q'/q) ((1 - q)/(1 - q'))^2, else y plus an independent discrete Laplace variable of ratio q.
`keep` and `added` make the faulty variants. Shares no code with the sampler, which never uses a kernel.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

__all__ = ["coarsening_keeps", "continuous_joint_cdf", "discrete_joint", "discrete_laplace"]


def discrete_laplace(scale: float) -> Callable[[int], float]:
    """Its probability mass function."""
    q = math.exp(-1 / scale)
    return lambda k: (1 - q) / (1 + q) * q ** abs(k)


def coarsening_keeps(scale: float, finer: float) -> float:
    """The probability of the discrete kernel that a level stays as it is when it is coarsened to `scale`."""
    q, q1 = math.exp(-1 / scale), math.exp(-1 / finer)
    return q1 / q * ((1 - q) / (1 - q1)) ** 2


def discrete_joint(
    scale: float, finer: float, *, keep: float | None = None, added: float | None = None
) -> Callable[[int, int], float]:
    """P(x, y) of noise alone."""
    kept = coarsening_keeps(scale, finer) if keep is None else keep
    noise, moved = discrete_laplace(finer), discrete_laplace(scale if added is None else added)
    return lambda x, y: noise(y) * ((kept if x == y else 0.0) + (1 - kept) * moved(x - y))


def continuous_joint_cdf(scale: float, finer: float, *, keep: float | None = None) -> Callable[[float, float], float]:
    """P(x <= a, y <= b), by quadrature of 4000 cells between the kinks out to 40 finer scales."""
    kept = (finer / scale) ** 2 if keep is None else keep

    def cdf(t: float, b: float) -> float:
        return math.exp(t / b) / 2 if t < 0 else 1 - math.exp(-t / b) / 2

    def joint(a: float, b: float) -> float:
        ends = sorted({-40 * finer, *(t for t in (0.0, a) if -40 * finer < t < b), b})
        convolved = 0.0
        for low, high in itertools.pairwise(ends):
            width = (high - low) / 1000
            for i in range(1000):
                y = low + (i + 0.5) * width
                convolved += math.exp(-abs(y) / finer) / (2 * finer) * cdf(a - y, scale) * width
        return kept * cdf(min(a, b), finer) + (1 - kept) * convolved

    return joint
