"""Classic mechanisms, right and wrong, written from their papers and apart from `audit.zoo`: each draws a batch.

What is right is right on every pair; what is wrong is wrong on the pair that is given. Epsilon is 1 unless said.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpledger.accounting.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP

__all__ = ["FAULTY", "RIGHT", "Classic"]

Rng = np.random.Generator
Batch = Callable[[Any, int, Rng], Any]


ONE = PureDP(1)


@dataclass(frozen=True)
class Classic:
    """A mechanism f(data, size, rng), a pair of neighbouring data, and the claim."""

    mechanism: Batch
    left: Any
    right: Any
    claim: Guarantee = ONE


ZEROS, ONES = (0.0,) * 5, (1.0,) * 5
FIRST, OTHERS = (1.0, 0.0, 0.0, 0.0, 0.0), (0.0, 1.0, 1.0, 1.0, 1.0)
SIGMA = 3.7306316349  # of (1, 10^-5) at distance 1. Source: Balle-Wang 2018


# ---- numbers and vectors ---------------------------------------------------------------------------------------------


def laplace(scale: float, then: Callable[[Any], Any] = np.asarray) -> Batch:
    """Each number with Laplace noise, and what is made of the sums. Source: Dwork et al. 2006."""
    return lambda data, size, rng: then(np.asarray(data) + rng.laplace(0, scale, (size, *np.shape(data))))


def gaussian(sigma: float) -> Batch:
    """A number with normal noise."""
    return lambda data, size, rng: data + rng.normal(0, sigma, size)


def geometric(epsilon: float, low: int = -(10**9), high: int = 10**9) -> Batch:
    """A whole number with two-sided geometric noise, clamped. Source: Ghosh-Roughgarden-Sundararajan 2009."""
    stops = -math.expm1(-epsilon)
    return lambda data, size, rng: np.clip(data + rng.geometric(stops, size) - rng.geometric(stops, size), low, high)


def conditioned(weights: Callable[[float], Any]) -> Batch:
    """One of some outputs, by weights that sum to a number that depends on the data."""

    def draw(data: float, size: int, rng: Rng) -> Any:
        mass = weights(data)
        return rng.choice(len(mass), size, p=mass / mass.sum())

    return draw


def prefix_sums(data: Sequence[float], size: int, rng: Rng) -> Any:
    """Sums of noisy numbers."""
    return np.cumsum(np.asarray(data) + rng.laplace(size=(size, len(data))), axis=1)


def noisy_prefix_sums(data: Sequence[float], size: int, rng: Rng) -> Any:
    """Sums with the noise of one number each: each of them moves."""
    return np.cumsum(data) + rng.laplace(size=(size, len(data)))


def staircase(data: float, size: int, rng: Rng) -> Any:
    """Source: Geng-Viswanath 2014, algorithm 1, for epsilon 1 with gamma = 1/(1 + e^(1/2))."""
    b, gamma = math.exp(-1), 1 / (1 + math.exp(0.5))
    outer = rng.random(size) < (1 - gamma) * b / (gamma + (1 - gamma) * b)
    within = np.where(outer, gamma + (1 - gamma) * rng.random(size), gamma * rng.random(size))
    return data + rng.choice([-1, 1], size) * (rng.geometric(1 - b, size) - 1 + within)


def sampled_count(data: float, size: int, rng: Rng) -> Any:
    """Half of the rows, counted with Laplace noise of scale 1: log(1/2 + e/2) = 0.62. Source: Li et al. 2012."""
    return data * (rng.random(size) < 0.5) + rng.laplace(size=size)


def told_with(share: float) -> Batch:
    """A number with Laplace noise, or at times the number."""
    return lambda data, size, rng: np.where(rng.random(size) < share, data, data + rng.laplace(size=size))


def scale_of_the_data(data: float, size: int, rng: Rng) -> Any:
    """Noise as large as the data."""
    return rng.laplace(0, data, size)


def clamped_to_the_data(data: Sequence[float], size: int, rng: Rng) -> Any:
    """A noisy mean, clamped to between the smallest and the largest row."""
    noisy = np.mean(data) + rng.laplace(0, 1, size)
    return np.clip(noisy, min(data), max(data))


def bounded_laplace(data: float, size: int, rng: Rng) -> Any:
    """Laplace noise of scale 1, drawn again until the sum lies in [0, 1], by inversion."""
    low, high = (0.5 * math.exp(-data), 1 - 0.5 * math.exp(data - 1))
    u = rng.uniform(low, high, size)
    return data + np.where(u < 0.5, np.log(2 * u), -np.log(2 * (1 - u)))


# ---- selections ------------------------------------------------------------------------------------------------------


def largest(noise: Callable[[Rng, tuple[int, int]], Any], *, value: bool = False) -> Batch:
    """Report noisy max: its place, or its value. Source: Ding et al. 2018."""

    def draw(data: Sequence[float], size: int, rng: Rng) -> Any:
        noisy = np.asarray(data) + noise(rng, (size, len(data)))
        return noisy.max(1) if value else noisy.argmax(1)

    return draw


def exponential(factor: float) -> Batch:
    """The exponential mechanism with weights exp(factor q). Source: McSherry-Talwar 2007."""
    return lambda data, size, rng: (factor * np.asarray(data) + rng.gumbel(size=(size, len(data)))).argmax(1)


def permute_and_flip(data: Sequence[float], size: int, rng: Rng) -> Any:
    """The first in a random order that is accepted, by a coin of exp((q - max)/2). Source: McKenna-Sheldon 2020."""
    shape, q = (size, len(data)), np.asarray(data)
    accepted = rng.random(shape) < np.exp((q - q.max()) / 2)
    return np.where(accepted, rng.random(shape), 2.0).argmin(1)


def first_above(threshold: float, query: float) -> Batch:
    """Which query is the first above 0, with noise of these scales. Source: Lyu-Su-Li 2017, algorithms 1, 4."""

    def draw(data: Sequence[float], size: int, rng: Rng) -> Any:
        above = np.asarray(data) + _noise(rng, query, (size, len(data))) >= _noise(rng, threshold, (size, 1))
        return np.where(above.any(1), above.argmax(1), len(data))

    return draw


def all_above(threshold: float, query: float) -> Batch:
    """Which queries are above 0, however many. Source: Lyu-Su-Li 2017, algorithms 5, 6."""

    def draw(data: Sequence[float], size: int, rng: Rng) -> Any:
        above = np.asarray(data) + _noise(rng, query, (size, len(data))) >= _noise(rng, threshold, (size, 1))
        return above.astype(np.int64)

    return draw


def first_above_with_value(data: Sequence[float], size: int, rng: Rng) -> Any:
    """Place and noisy value of the first query above 0. Source: Lyu-Su-Li 2017, algorithm 3."""
    noisy = np.asarray(data) + rng.laplace(0, 2, (size, len(data)))
    above = noisy >= rng.laplace(0, 2, (size, 1))
    place = np.where(above.any(1), above.argmax(1), len(data))
    padded = np.column_stack([noisy, np.full(size, -1e3)])
    return np.column_stack([place, padded[np.arange(size), place]])


def _noise(rng: Rng, scale: float, shape: tuple[int, int]) -> Any:
    return rng.laplace(0, scale, shape) if scale else np.zeros(shape)


# ---- local reports ---------------------------------------------------------------------------------------------------


def response(keep: float, kinds: int = 2) -> Batch:
    """A category, kept or exchanged for another one. Source: Warner 1965, Kairouz et al. 2014."""

    def draw(data: int, size: int, rng: Rng) -> Any:
        return np.where(rng.random(size) < keep, data, (data + rng.integers(1, kinds, size)) % kinds)

    return draw


def unary(one: float, zero: float) -> Batch:
    """A category of four as bits: its own is 1 with probability `one`, others with `zero`. Source: Wang et al. 2017."""

    def draw(data: int, size: int, rng: Rng) -> Any:
        chances = np.where(np.arange(4) == data, one, zero)
        return (rng.random((size, 4)) < chances).astype(np.int64)

    return draw


def rappor(data: float, size: int, rng: Rng) -> Any:
    """One-time RAPPOR with two hashes and f = 1/2: 4 log 3. Source: Erlingsson-Pihur-Korolova 2014, theorem 1."""
    bits = np.zeros(16, dtype=bool)
    bits[[2, 11] if data else [5, 7]] = True
    return ((rng.random((size, 16)) < 0.75) == bits).astype(np.int64)


# ---- outputs that are no numbers -------------------------------------------------------------------------------------


def stable_histogram(threshold: float) -> Batch:
    """A count that is told only above a threshold; of no rows nothing is. Source: Korolova et al. 2009."""

    def draw(data: int, size: int, rng: Rng) -> Any:
        if not data:
            return [None] * size
        noisy = data + rng.laplace(size=size)
        return [x if x > threshold else None for x in noisy.tolist()]

    return draw


def with_none(data: float, size: int, rng: Rng) -> Any:
    """No answer one time in ten, whatever the data."""
    noisy = data + rng.laplace(size=size)
    return [None if missing else x for missing, x in zip(rng.random(size) < 0.1, noisy.tolist(), strict=True)]


def as_dict(noise: float) -> Batch:
    """A noisy sum, and a constant beside it."""
    return lambda data, size, rng: [{"sum": x, "rows": 7} for x in (data + rng.laplace(0, noise, size)).tolist()]


def as_text(noise: float) -> Batch:
    """A noisy number in words."""
    return lambda data, size, rng: [f"the mean is {x:.3f}" for x in (data + rng.laplace(0, noise, size)).tolist()]


def as_long_as_the_data(data: Sequence[float], size: int, rng: Rng) -> Any:
    """A list of noise, as long as the data one time in fifty."""
    lengths = np.where(rng.random(size) < 0.02, len(data), 3)
    return [rng.laplace(size=length).tolist() for length in lengths.tolist()]


def _geometric_weights(data: float) -> Any:
    return np.exp(-np.abs(np.arange(5) - data))


def _lap(scale: float) -> Callable[[Rng, tuple[int, int]], Any]:
    return lambda rng, shape: rng.laplace(0, scale, shape)


def _exp(scale: float) -> Callable[[Rng, tuple[int, int]], Any]:
    return lambda rng, shape: rng.exponential(scale, shape)


# ---- the corpus ------------------------------------------------------------------------------------------------------

MOVED = (0.2,) * 5
ONE_OF_FIVE = (0.0, 0.0, 1.0, 0.0, 0.0)
BEFORE, AFTER = (0.0,) * 8 + (1.0,), (1.0,) * 8 + (0.0,)
HALVES = (0.0,) * 5 + (1.0,) * 5, (1.0,) * 5 + (0.0,) * 5
KEEP = math.e / (1 + math.e)

RIGHT: dict[str, Classic] = {
    "Laplace": Classic(laplace(1), 0.0, 1.0),
    "Laplace, rounded": Classic(laplace(1, np.round), 0.0, 1.0),
    "Laplace, clamped": Classic(laplace(1, lambda x: np.clip(x, 0, 1)), 0.0, 1.0),
    "sign of Laplace": Classic(laplace(1, lambda x: x > 0), 0.0, 1.0),
    "five numbers that share a unit": Classic(laplace(1), ZEROS, MOVED),
    "histogram, a row more": Classic(laplace(1), ZEROS, ONE_OF_FIVE),
    "histogram, a row exchanged": Classic(laplace(2), FIRST, ONE_OF_FIVE),
    "two answers": Classic(laplace(2), (0.0, 0.0), (1.0, 1.0)),
    "prefix sums": Classic(prefix_sums, ZEROS, ONE_OF_FIVE),
    "staircase": Classic(staircase, 0.0, 1.0),
    "Gaussian": Classic(gaussian(SIGMA), 0.0, 1.0, ApproxDP(1, "1e-5")),
    "Gaussian against its curve": Classic(gaussian(1), 0.0, 1.0, GDP(1)),
    "Gaussian, zCDP": Classic(gaussian(1), 0.0, 1.0, ZCDP("0.5")),
    "geometric": Classic(geometric(1), 3, 4),
    "geometric, clamped": Classic(geometric(1, 0, 7), 3, 4),
    "sampled count": Classic(sampled_count, 0.0, 1.0, PureDP("0.6201145070")),
    "noisy max": Classic(largest(_lap(2)), FIRST, OTHERS),
    "noisy max, exponential noise": Classic(largest(_exp(2)), FIRST, OTHERS),
    "exponential mechanism": Classic(exponential(0.5), FIRST, OTHERS),
    "permute and flip": Classic(permute_and_flip, FIRST, OTHERS),
    "sparse vector 1": Classic(first_above(2, 4), BEFORE, AFTER),
    "randomised response": Classic(response(KEEP), 0, 1),
    "randomised response of five": Classic(response(math.e / (math.e + 4), 5), 1, 3),
    "optimised unary encoding": Classic(unary(0.5, 1 / (1 + math.e)), 0, 2),
    "RAPPOR at its loss": Classic(rappor, 0.0, 1.0, PureDP("4.3944491547")),
    "stable histogram": Classic(stable_histogram(5), 0, 1, ApproxDP(1, "0.0092")),
    "None at times": Classic(with_none, 0.0, 1.0),
    "a dict": Classic(as_dict(1), 0.0, 1.0),
    "a text": Classic(as_text(1), 0.0, 1.0),
    "the number at times, within delta": Classic(told_with(0.01), 0.0, 1.0, ApproxDP(1, "0.01")),
}

FAULTY: dict[str, Classic] = {
    "Laplace, half noise": Classic(laplace(0.5), 0.0, 1.0),
    "Laplace, four fifths of the noise": Classic(laplace(0.8), 0.0, 1.0),
    "by the l2 norm": Classic(laplace(1), (0.0,) * 4, (0.5,) * 4),
    "two answers, one paid": Classic(laplace(1), (0.0, 0.0), (1.0, 1.0)),
    "histogram, scale epsilon": Classic(laplace(0.5), ZEROS, ONE_OF_FIVE, PureDP("0.5")),
    "histogram, a row exchanged": Classic(laplace(1), FIRST, ONE_OF_FIVE),
    "noisy prefix sums": Classic(noisy_prefix_sums, ZEROS, FIRST),
    "noise as large as the data": Classic(scale_of_the_data, 1.0, 2.0),
    "clamped to the data": Classic(clamped_to_the_data, (0.0, 0.0, 1.0), (0.0, 0.0)),
    "bounded Laplace": Classic(bounded_laplace, 0.0, 0.5, PureDP("0.5")),
    "truncated geometric": Classic(conditioned(_geometric_weights), 0, 1),
    "geometric, half noise": Classic(geometric(2), 3, 4),
    "sampled count, amplified too far": Classic(sampled_count, 0.0, 1.0, PureDP("0.5")),
    "the number once in a thousand": Classic(told_with(1e-3), 0.0, 1.0, ApproxDP(1, "1e-6")),
    "Gaussian, half sigma": Classic(gaussian(SIGMA / 2), 0.0, 1.0, ApproxDP(1, "1e-5")),
    "Gaussian, against a curve": Classic(gaussian(0.85), 0.0, 1.0, GDP(1)),
    "Gaussian as pure": Classic(gaussian(1), 0.0, 1.0),
    "noisy max with its value": Classic(largest(_lap(2), value=True), ONES, ZEROS),
    "noisy max with its value, exponential noise": Classic(largest(_exp(2), value=True), ONES, ZEROS),
    "exponential mechanism, twice the factor": Classic(exponential(1), FIRST, OTHERS),
    "sparse vector 3": Classic(first_above_with_value, BEFORE, AFTER),
    "sparse vector 4": Classic(first_above(4, 4 / 3), BEFORE, AFTER),
    "sparse vector 5": Classic(all_above(2, 0), *HALVES),
    "sparse vector 6": Classic(all_above(2, 2), *HALVES),
    "sparse vector, no noise on the threshold": Classic(first_above(0, 2), BEFORE, AFTER),
    "randomised response, 4 in 5": Classic(response(0.8), 0, 1),
    "unary encoding, half the loss counted": Classic(unary(0.75, 0.25), 0, 2),
    "RAPPOR": Classic(rappor, 0.0, 1.0),
    "stable histogram, threshold 2": Classic(stable_histogram(2), 0, 1, ApproxDP(1, "0.0092")),
    "a dict, half noise": Classic(as_dict(0.5), 0.0, 1.0),
    "a text, half noise": Classic(as_text(0.5), 0.0, 1.0),
    "as long as the data": Classic(as_long_as_the_data, (0.0,) * 4, (0.0,) * 5, ApproxDP(1, "1e-3")),
}
