"""What learners of users do, from their definitions: levels by search, tests by their closed form, laws of whole runs
by walking every path. Shares no code with them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import binom

from sparse_vector_oracle import Law as TestsLaw, Noise

__all__ = [
    "User",
    "Users",
    "datasets_of_users",
    "errors_by_user",
    "estimate_law",
    "every_user",
    "level_between",
    "passes",
    "proper_law",
    "scan_law",
    "scanned",
    "worst_of_users",
]

User = tuple[tuple[int, int], ...]
Users = tuple[User, ...]
Law = Mapping[Any, float]
Matrix = npt.NDArray[np.bool_]


def every_user(points: int, m: int) -> list[User]:
    """All users with m examples (x, y), the order of which is nothing to anybody."""
    return list(itertools.combinations_with_replacement(list(itertools.product(range(points), (0, 1))), m))


def datasets_of_users(points: int, m: int, size: int) -> Iterator[Users]:
    """All multisets of so many users."""
    return itertools.combinations_with_replacement(every_user(points, m), size)


def errors_by_user(concept: npt.NDArray[np.bool_], users: Sequence[User]) -> list[int]:
    """a_i(f), one example at a time."""
    return [sum(int(concept[x]) != y for x, y in user) for user in users]


@lru_cache(maxsize=4096)
def level_between(m: int, p: float, q: float) -> int:
    """The level whose event tells Bin(m, p) from Bin(m, q) best; of two that are equally good the larger."""
    gaps = binom.sf(np.arange(m), m, q) - binom.sf(np.arange(m), m, p)
    return int(np.flatnonzero(gaps >= gaps.max() - 1e-12)[-1])


def passes(excess: float, scale: float) -> float:
    """P(excess + Z <= 0), Z discrete Laplace of that scale on the grid 2^-20, of which the excess is a multiple."""
    tau = round(excess * 2**20)
    q = math.exp(-1 / (scale * 2**20))
    return q**tau / (1 + q) if tau >= 0 else 1 - q ** (1 - tau) / (1 + q)


def estimate_law(
    concepts: Matrix, m: int, resolution: float, scale: Callable[[float], float], start: float = 1.0
) -> Callable[[Users], Law]:
    """The law of `low` after all tests. `scale`: of a test's noise in users, by its threshold."""
    rounds = max(1, math.ceil(math.log2(start / resolution)))

    def law(users: Users) -> Law:
        errors = np.array([errors_by_user(row, users) for row in concepts]).reshape(len(concepts), len(users))

        def walk(low: float, high: float, left: int) -> Iterator[tuple[float, float]]:
            if not left:
                yield low, 1.0
                return
            guess = (low + high) / 2
            if guess + resolution >= 1:
                bit = 1.0
            else:
                level = level_between(m, guess, guess + resolution)
                both = binom.sf(level, m, guess) + binom.sf(level, m, guess + resolution)
                threshold = round(both / 2 * 2**20) / 2**20
                fewest = int((errors > level).sum(axis=1).min())
                bit = passes(fewest - len(users) * threshold, scale(threshold))
            yield from ((end, bit * p) for end, p in walk(low, guess, left - 1))
            yield from ((end, (1 - bit) * p) for end, p in walk(guess, high, left - 1))

        return dict(walk(0.0, start, rounds))

    return law


def proper_law(
    concepts: Matrix, m: int, resolution: float, margin: float, scale: Callable[[float], float], exponent: float
) -> Callable[[Users], Law]:
    """The law of (`low`, the place of the concept)."""
    estimate = estimate_law(concepts, m, resolution, scale)
    width = 2.0 ** -max(1, math.ceil(math.log2(1 / resolution)))

    def law(users: Users) -> Law:
        errors = np.array([errors_by_user(row, users) for row in concepts]).reshape(len(concepts), len(users))
        found: dict[Any, float] = {}
        for low, chance in estimate(users).items():
            upper = low + width + resolution
            if upper + margin >= 1:
                found[low, 0] = found.get((low, 0), 0.0) + chance
                continue
            failed = (errors > level_between(m, upper, upper + margin)).sum(axis=1)
            weights = np.exp(-exponent * (failed - failed.min()))
            for place, weight in enumerate(weights / weights.sum()):
                found[low, place] = chance * float(weight)
        return found

    return law


def scanned(m: int, resolution: float, top: float = 1.0) -> list[tuple[int, float]]:
    """The level and the fraction of users of each guess of a scan, from 0 on."""
    found: list[tuple[int, float]] = []
    while len(found) * resolution < top - 1e-12 and (len(found) + 1) * resolution < 1 - 1e-12:
        p, q = len(found) * resolution, (len(found) + 1) * resolution
        level = level_between(m, p, q)
        found.append((level, round(float(binom.sf(level, m, p) + binom.sf(level, m, q)) / 2 * 2**20) / 2**20))
    return found


def scan_law(
    concepts: Matrix, m: int, resolution: float, threshold_scale: float, query_scale: float, top: float = 1.0
) -> Callable[[Users], Law]:
    """The law of a scan's tests, "1" for each guess that was passed over and "0" for the one it stopped at. Scales of
    continuous noise, in users: that of the grid 2^-20 is as good."""
    guesses = scanned(m, resolution, top)
    noises = Noise(threshold_scale, discrete=False), Noise(query_scale, discrete=False)
    tests = TestsLaw(*noises, threshold=0, cutoff=1, refreshed=False)

    def law(users: Users) -> Law:
        errors = np.array([errors_by_user(row, users) for row in concepts]).reshape(len(concepts), len(users))
        return tests.distribution(
            [float((errors > level).sum(axis=1).min()) - len(users) * nu for level, nu in guesses]
        )

    return law


def worst_of_users(law: Callable[[Users], Law], points: int, m: int, size: int, relation: str) -> float:
    """The exact epsilon of a law of finitely many outcomes on all neighbours, the larger of which has `size` users."""
    laws: dict[Users, npt.NDArray[np.float64]] = {}

    def logs(users: Users) -> npt.NDArray[np.float64]:
        key = tuple(sorted(users))
        if key not in laws:
            found = law(key)
            with np.errstate(divide="ignore"):
                laws[key] = np.log(np.array([found[outcome] for outcome in sorted(found)]))
        return laws[key]

    worst = 0.0
    for rest in datasets_of_users(points, m, size - 1):
        around = [logs((*rest, user)) for user in every_user(points, m)]
        match relation:
            case "add_remove" | "zero_out":  # the null user counts nowhere
                pairs = [(one, logs(rest)) for one in around]
            case "replace_one":
                pairs = list(itertools.combinations(around, 2))
            case "label_flip":
                users = zip(every_user(points, m), around, strict=True)
                seen = [(sorted(x for x, _ in user), log) for user, log in users]
                pairs = [(one, other) for (x, one), (z, other) in itertools.combinations(seen, 2) if x == z]
            case _:
                raise ValueError(relation)
        for here, there in pairs:
            kept = np.isfinite(here) | np.isfinite(there)
            worst = max(worst, float(np.abs(here[kept] - there[kept]).max()))
    return worst
