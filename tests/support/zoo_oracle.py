"""What the ex-post cases of the zoo really lose, by enumeration and quadrature; shares no code with them.

A law is a mapping from a claimed loss to the outcomes of that stratum with their probabilities on the two sides.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from scipy import stats

from above_threshold_oracle import Run

Floats = npt.NDArray[np.float64]
Pairs = Mapping[float, list[tuple[float, float]]]


def worst(pairs: Iterable[tuple[float, float]]) -> float:
    """The greatest absolute log ratio of some outcomes."""
    return max(abs(math.log(p / q)) if p and q else math.inf if p or q else 0.0 for p, q in pairs)


def kept(epsilon: float) -> float:
    return 1 / (1 + math.exp(-epsilon))


# ---- finite supports ------------------------------------------------------------------------------------------------


def coin_law(epsilons: Sequence[float], first: float | None = None) -> dict[tuple[int, ...], tuple[float, float]]:
    """A published fair coin and its answer, with the answer to a response before it: {outcome: (left, right)}."""
    found: dict[tuple[int, ...], tuple[float, float]] = {}
    for which, answer, before in itertools.product((0, 1), (0, 1), (0, 1) if first else (0,)):
        chances = []
        for bit in (1, 0):
            chance = kept(epsilons[which]) if answer == bit else 1 - kept(epsilons[which])
            if first:
                chance *= kept(first) if before == bit else 1 - kept(first)
            chances.append(chance / 2)
        found[which, answer, before] = (chances[0], chances[1])
    return found


def rare_law(steps: int, gain: float, fall: float) -> list[tuple[float, float]]:
    """Of how many steps are rare, with its probability on either side."""
    rare = (1 - math.exp(-gain)) / (math.exp(fall) - math.exp(-gain))
    counts = np.arange(steps + 1)
    laws = [stats.binom.pmf(counts, steps, chance) for chance in (rare, rare * math.exp(fall))]
    return list(zip(laws[0].tolist(), laws[1].tolist(), strict=True))


def doubling_law(first: float, rounds: int, check: float) -> dict[tuple[int, int], tuple[float, float]]:
    """Round of the first accepted answer (rounds + 1: none), and how many answers up to it are at most 0. Left: value
    and error 0; right: value 1, error -1."""
    sides = []
    for value, error in ((0.0, 0.0), (1.0, -1.0)):
        accepted = stats.laplace.cdf(-error * check)
        low = [stats.laplace.cdf(-value * first * 2.0**s) for s in range(rounds)]
        counts: dict[tuple[int, int], float] = {}
        for ended in range(1, rounds + 2):
            published = min(ended, rounds)
            chance = (1 - accepted) ** (ended - 1) * (accepted if ended <= rounds else 1)
            for bits in itertools.product((0, 1), repeat=published):
                key = ended, sum(bits)
                odds = math.prod(low[s] if bit else 1 - low[s] for s, bit in enumerate(bits))
                counts[key] = counts.get(key, 0.0) + chance * odds
        sides.append(counts)
    return {key: (sides[0][key], sides[1][key]) for key in sides[0]}


def by_round(law: Mapping[tuple[int, int], tuple[float, float]]) -> dict[int, float]:
    """The greatest loss of the outcomes that end at each round."""
    found: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for (ended, _), pair in law.items():
        found[ended].append(pair)
    return {ended: worst(pairs) for ended, pairs in found.items()}


# ---- a threshold ----------------------------------------------------------------------------------------------------


def comparison_losses(
    threshold_scale: float, query_scale: float, left: Sequence[float], right: Sequence[float]
) -> dict[int, float]:
    """The greatest loss of (place, value that was compared), by quadrature over the threshold; the last is of none."""
    run = Run(threshold_scale, query_scale)
    found = {len(left): worst([(run.below(left), run.below(right))])}
    for t in range(len(left)):
        found[t] = max(
            worst([tuple(_compared(threshold_scale, query_scale, side[: t + 1], value) for side in (left, right))])  # type: ignore[list-item]
            for value in np.linspace(-30, 10, 161)
        )
    return found


def _compared(threshold_scale: float, query_scale: float, values: Sequence[float], value: float) -> float:
    """The density of halting at the last of `values` with this noisy value."""
    unit, weights = _gauss()
    edges = sorted({value, *(edge for edge in (0.0, *values[:-1]) if edge < value), *(value - np.arange(0, 81, 4.0))})
    low, high = np.array(edges[:-1])[:, None], np.array(edges[1:])[:, None]
    z = (low + high) / 2 + (high - low) / 2 * unit
    density = np.exp(-np.abs(z) / threshold_scale) / (2 * threshold_scale)
    for below, times in Counter(values[:-1]).items():
        density *= stats.laplace.cdf((z - below) / query_scale) ** times
    total = float((weights * density * (high - low) / 2).sum())
    return total * math.exp(-abs(value - values[-1]) / query_scale) / (2 * query_scale)


@functools.cache
def _gauss() -> tuple[Floats, Floats]:
    points, weights = np.polynomial.legendre.leggauss(60)
    return points, weights


# ---- accuracy first -------------------------------------------------------------------------------------------------

CURVATURE, SLACK = 1.25, 1.5
PLACES = np.linspace(-3, 3, 61)


def accurate_losses(
    sides: tuple[Sequence[float], Sequence[float]],
    *,
    epsilons: tuple[float, float],
    check: float,
    chain_noise: float = 1,
    check_noise: float = 1,
    tolerance: float = 0,
    all_shown: bool = False,
) -> dict[int, float]:
    """The greatest loss of (which passed, levels up to it) for each of which = 1, 2, 3 (none): the chain's part is that
    of the last published level, the check's an integral over the threshold's noise."""
    rows = len(sides[0])
    least = [sum(labels) / rows / CURVATURE for labels in sides]
    at = [low + tolerance / CURVATURE * math.copysign(1, labels[0]) for low, labels in zip(least, sides, strict=True)]
    scales = [2 / (rows * CURVATURE) * chain_noise / epsilon for epsilon in epsilons]
    run = Run(*(times * 4 / rows * check_noise / check for times in (2, 4)))

    def query(level: float, side: int) -> float:
        return SLACK - CURVATURE / 2 * (min(max(level, -1.0), 1.0) - least[side]) ** 2

    def chain(level: float, scale: float) -> float:
        return (abs(level - at[1]) - abs(level - at[0])) / scale

    def checked(probability: Callable[[list[float]], float], levels: Sequence[float]) -> float:
        return math.log(probability([query(one, 0) for one in levels]) / probability([query(one, 1) for one in levels]))

    published = 1 if all_shown else 0
    found = {1: 0.0, 2: 0.0, 3: 0.0}
    extreme = max(abs(chain(level, scales[1])) for level in PLACES) * published
    for first in PLACES:
        alone = checked(run.above_at_last, [first])
        found[1] = max(found[1], abs(chain(first, scales[0]) + alone) if not published else extreme + abs(alone))
        for second in PLACES:
            last = chain(second, scales[1])
            found[2] = max(found[2], abs(last + checked(run.above_at_last, [first, second])))
            found[3] = max(found[3], abs(last + checked(run.below, [first, second])))
    return found
