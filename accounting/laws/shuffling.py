"""Shuffled local randomisers: upper bounds of the profile, from the clones of the unit among the other users.

One user's value is exchanged; each of the n - 1 others hides it: with probability 2p, independently, an other user's
output is drawn as if it came from one of the two hypotheses, by a fair coin. With C ~ Bin(n - 1, 2p) clones, m = C + 1
and A ~ Bin(m, 1/2),

    delta(eps) <= w E[(2 kappa / m) (g - A)_+],  kappa = (e^e0 - 1)(1 + e^eps) / (e^e0 + 1),
    g = m (e^e0 - e^eps) / ((e^e0 - 1)(1 + e^eps)),

    any e0-DP randomiser              2p = e^{-e0}                 w = 1
    randomised response, k values     p = 1 / (e^e0 + k - 1)       w = p (e^e0 + 1)

Source: Feldman-McMillan-Talwar 2021 (hiding among the clones); docs/proofs/amplification.md, section 5, proves both.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass

import numpy as np

from dpledger.accounting.engine.floating import UNIT, Array
from dpledger.accounting.laws.envelope import envelope
from dpledger.accounting.laws.finite import FinitePair
from dpledger.errors import CannotCertify

__all__ = ["clones", "responses_below", "shuffled_delta", "shuffled_pair"]

POINTS = 96  # epsilons of the envelope up to where delta is FAR
FEW_POINTS = 24  # from there to the local epsilon
FAR = 1e-25
LARGEST_EPSILON = 40.0  # of a local randomiser: beyond, hardly a clone is expected among 10^9 users
GROUPS = 64  # of numbers of clones
BLOCKS = 512  # of a binomial tail
MOST_RESPONSES = 2048  # outcomes of the lower bound
REACH = 16.0  # standard deviations of the number of clones that are looked at one by one
UNLISTED = 1e-35  # at least the probability of all other numbers of clones
_STIRLING = (1 / 12, -1 / 360, 1 / 1260)
_FIRST = 32  # log n! by Stirling's series from here on: its error is below the next term, 2e-14


@dataclass(frozen=True, slots=True)
class Clones:
    """`epsilon` of the local randomiser; `chance`, 2p, that another user is a clone, rounded down; `weight` w."""

    epsilon: float
    chance: float
    weight: float


def clones(epsilon: float, categories: int | None) -> tuple[Clones, ...]:
    """The theorems that apply to a randomiser: the general one; that of randomised response on so many values."""
    if epsilon > LARGEST_EPSILON:
        raise CannotCertify(f"shuffled is certified for local epsilons up to {LARGEST_EPSILON:g}, not {epsilon:g}")
    error = 16 * UNIT * (1 + epsilon)
    general = Clones(epsilon, math.exp(-epsilon) * (1 - error), 1.0)
    if categories is None:
        return (general,)
    odds = 1 + (categories - 1) * math.exp(-epsilon)
    chance = 2 * math.exp(-epsilon) / odds * (1 - error)
    special = Clones(epsilon, chance, min(1.0, (1 + math.exp(-epsilon)) / odds * (1 + error)))
    return (special,) if categories == 2 else (general, special)


@functools.lru_cache(maxsize=64)
def shuffled_pair(epsilon: float, categories: int | None, users: int) -> FinitePair:
    """A symmetric pair that dominates the shuffled outputs of `users` randomisers, each `epsilon`-DP; `categories`: of
    randomised response, None for any other.

    Claim: dominates, under replace_one. Assumes: `epsilon` is at least the exact one. Source:
    docs/proofs/amplification.md, sections 3 and 5. Raises CannotCertify above LARGEST_EPSILON.
    """
    kinds = clones(epsilon, categories)

    def delta(at: float) -> float:
        return min(shuffled_delta(kind, users, at) for kind in kinds)

    far = epsilon
    if delta(0.0) > FAR:
        low = 0.0
        for _ in range(20):
            middle = (low + far) / 2
            low, far = (low, middle) if delta(middle) <= FAR else (middle, far)
    else:
        far = epsilon * 1e-6
    grid = np.unique(np.concatenate([np.linspace(0.0, far, POINTS), np.geomspace(far, epsilon, FEW_POINTS)]))
    grid = np.append(grid[grid < epsilon * (1 - 1e-9)], epsilon)
    deltas = np.array([*(delta(at) for at in grid[:-1].tolist()), 0.0])  # to shuffle is to post-process: 0 at epsilon
    return envelope(grid, deltas)


@functools.lru_cache(maxsize=64)
def responses_below(epsilon: float, users: int) -> FinitePair:
    """What `users` randomised responses on two values show of one of them, where all others hold its first value: the
    number of answers that name the second, some of them taken together, far ones left out.

    Claim: dominated by the worst `epsilon`-DP local randomiser, shuffled. Assumes: `epsilon` is at most the exact one.
    Source: docs/proofs/amplification.md, section 5.
    """
    rare = math.exp(-epsilon) / (1 + math.exp(-epsilon))
    others = users - 1
    mean, spread = others * rare, math.sqrt(others * rare * (1 - rare)) + 1
    first, last = max(0, math.floor(mean - REACH * spread)), min(others, math.ceil(mean + REACH * spread))
    masses, common = _binomial_around(others, math.floor(mean), first, last, math.exp(-epsilon), rare)
    none, one = np.append(masses, 0.0), np.insert(masses, 0, 0.0)  # user 1 names the first value, the second
    starts = np.arange(0, none.size, -(-none.size // MOST_RESPONSES))
    left = np.add.reduceat((1 - rare) * none + rare * one, starts)
    right = np.add.reduceat(rare * none + (1 - rare) * one, starts)
    relative = UNIT * (16 * masses.size + 64 * (1 + epsilon))
    seen = np.minimum(left, right) > 1e-290
    losses = np.log(left[seen] / right[seen])
    errors = tuple((2 * relative + 4 * UNIT * (1 + np.abs(losses))).tolist())
    return FinitePair(
        tuple(losses.tolist()),
        tuple(left[seen].tolist()),
        tuple(right[seen].tolist()),
        0.0,
        0.0,
        errors,
        relative + common,
    )


def _binomial_around(trials: int, mode: int, first: int, last: int, odds: float, chance: float) -> tuple[Array, float]:
    """P(Bin(trials, chance) = first..last), from the one at `mode` by ratios, and a relative error that all share. The
    errors between them are below 12 UNIT a step. odds = chance / (1 - chance)."""
    rising = np.arange(mode, last, dtype=np.float64)
    falling = np.arange(mode, first, -1, dtype=np.float64)
    above = np.cumprod((trials - rising) / (rising + 1) * odds)
    below = np.cumprod(falling / (trials - falling + 1) / odds)
    at = np.array([float(mode)])
    error = 2 * float(_binomial_error(trials, at, chance)[0])
    centre = math.exp(float(_log_binomial(trials, at, chance)[0]))
    return centre * np.concatenate([below[::-1], [1.0], above]), error * (1 + error)


def shuffled_delta(kind: Clones, users: int, epsilon: float) -> float:
    """An upper bound of delta(epsilon), 0 <= epsilon < the local one.

    Claim: at least delta(epsilon). More clones hide more, so each group of their numbers is taken at its least.
    Source: module.
    """
    total = 0.0
    for least, mass in _groups(users - 1, kind.chance):
        total += mass * (_one_count(kind.epsilon, least + 1, epsilon) if mass > UNLISTED else 1.0)
    return min(1.0, kind.weight * (total * (1 + 1e-12) + UNLISTED))


@functools.lru_cache(maxsize=64)
def _groups(trials: int, chance: float) -> tuple[tuple[int, float], ...]:
    """Groups of numbers of clones: the least of each, and at least its probability.

    What is not listed has a probability below UNLISTED in all: Bernstein's inequality at 16 (s + 4), s the standard
    deviation, is 2 exp(-128 (s + 4)^2 / (s^2 + 16 (s + 4)/3)) <= 2 e^{-96}, the least at s = 0.
    """
    mean = trials * chance
    spread = math.sqrt(mean * (1 - chance)) + 4
    first, last = max(0, math.floor(mean - REACH * spread)), min(trials, math.ceil(mean + REACH * spread))
    edges = np.unique(np.linspace(first, last + 1, GROUPS + 1).astype(np.int64)).tolist()
    groups = []
    for low, high in itertools.pairwise(edges):
        masses = np.exp(_log_binomial(trials, np.arange(low, high, dtype=np.float64), chance))
        groups.append((low, float(np.sum(masses)) * (1 + 1e-12)))
    return tuple(groups)


def _one_count(local: float, m: int, epsilon: float) -> float:
    """At least E[(2 kappa / m)(g - A)_+], A ~ Bin(m, 1/2), in blocks that take the mass at their largest.

    Claim: at least that mean. Source: the mass falls from m/2 >= g downward; the rest is below a geometric series.
    """
    whole = math.expm1(local) * (1 + math.exp(epsilon))
    g = m * (math.exp(epsilon) * math.expm1(local - epsilon) / whole) * (1 + 64 * UNIT)
    front = 2 * whole / (math.exp(local) + 1) / m * (1 + 64 * UNIT)
    top = math.ceil(g) - 1
    if top < 0:
        return 0.0
    falling = -math.log(top / (m - top + 1)) if top else math.inf
    depth = min(top + 1, math.ceil(_depth(falling, m)) + 1)
    stride = -(-depth // BLOCKS)
    ends = top - stride * np.arange(-(-depth // stride), dtype=np.float64)  # the largest of each block
    ends = ends[ends >= 0]
    sizes = np.minimum(stride, ends + 1)
    sums = sizes * (g - ends) + sizes * (sizes - 1) / 2
    total = float(_masses(m, ends, stride) @ sums)
    after = float(ends[-1] - sizes[-1])  # the largest that is left
    if after >= 0:
        ratio = after / (m - after + 1)
        tail = (g - after) / (1 - ratio) + ratio / (1 - ratio) ** 2
        total += math.exp(_log_half_binomial(m, after)) * tail
    return min(1.0, front * total * (1 + 1e-12))


def _masses(m: int, ends: Array, stride: int) -> Array:
    """At least P(Bin(m, 1/2) = k) at the ends of blocks; where these are neighbours, by their ratios."""
    if stride > 1:
        return np.exp(_log_binomial(m, ends, 0.5))
    ratios = ends / (m - ends + 1)
    first = math.exp(_log_half_binomial(m, float(ends[0])))
    masses: Array = first * np.cumprod(np.concatenate([[1.0], ratios[:-1]])) * (1 + 8 * BLOCKS * UNIT)
    return masses


def _depth(falling: float, m: int) -> float:
    """How far down the masses fall to e^-45 of the first: 2 x^2/m + falling x = 45."""
    return 90 / (falling + math.sqrt(falling * falling + 360 / m)) if math.isfinite(falling) else 0.0


def _log_binomial(trials: int, k: Array, chance: float) -> Array:
    """Upper bounds of log P(Bin(trials, chance) = k)."""
    rest = trials - k
    ways = _log_factorial_of(float(trials)) - _log_factorial(k) - _log_factorial(rest)
    bounds: Array = ways + k * math.log(chance) + rest * math.log1p(-chance) + _binomial_error(trials, k, chance)
    return bounds


def _binomial_error(trials: int, k: Array, chance: float) -> Array:
    """At least the error of the logarithm before this is added, `chance` within 4 UNIT of what is meant."""
    sizes = 3 * _log_factorial_of(float(trials)) + k * (1 - math.log(chance)) - (trials - k) * math.log1p(-chance)
    errors: Array = (16 * UNIT) * (sizes + 1 + (trials - k) * (chance / (1 - chance))) + 1e-13
    return errors


def _log_half_binomial(m: int, k: float) -> float:
    """An upper bound of log P(Bin(m, 1/2) = k)."""
    whole, coins = _log_factorial_of(float(m)), m * math.log(2)
    value = whole - _log_factorial_of(k) - _log_factorial_of(m - k) - coins
    return value + 16 * UNIT * (3 * whole + coins + 1) + 1e-13


def _log_factorial_of(n: float) -> float:
    """log n!, within 8 UNIT (1 + log n!) and 2e-14."""
    if n < _FIRST:
        return float(_SMALL[int(n)])
    square = 1 / (n * n)
    series = (_STIRLING[0] + square * (_STIRLING[1] + square * _STIRLING[2])) / n
    return (n + 0.5) * math.log(n) - n + math.log(2 * math.pi) / 2 + series


def _log_factorial(n: Array) -> Array:
    """log n!, within 8 UNIT (1 + log n!) and 2e-14."""
    large = np.maximum(n, _FIRST)
    square = 1 / (large * large)
    series = (_STIRLING[0] + square * (_STIRLING[1] + square * _STIRLING[2])) / large
    stirling = (large + 0.5) * np.log(large) - large + math.log(2 * math.pi) / 2 + series
    return np.where(n < _FIRST, _SMALL[np.minimum(n, _FIRST - 1).astype(np.int64)], stirling)


_SMALL = np.array([math.log(math.factorial(n)) for n in range(_FIRST)])
