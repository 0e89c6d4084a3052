"""The law of a threshold learner's whole transcript, composed from the exact law of each step, one user and one example
at a time. Shares no code with the learner: binomial laws are scipy's, choices are enumerated."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.stats import binom

__all__ = ["Learner", "Transcript", "User", "neighbours", "users_on", "worst_loss"]

User = tuple[tuple[int, int], ...]
"""Examples (point, label)."""
Path = tuple[tuple[int, str], ...]
"""Each place and the side that was taken."""
Transcript = tuple[tuple[bool, ...], int, Path]
"""The answers of the tests; the direction, 0 of 1[x < v] and 1 of 1[x >= v]; the rounds."""

STEPS = 2**20
SIDES = ("left", "here", "right")
FAR = 400  # noise beyond it is left out of sums


@lru_cache(maxsize=4096)
def level_of(m: int, low: float, high: float) -> int:
    """The level that tells two errors apart best; the least of equals."""
    return int(np.argmax(np.round(binom.sf(range(m), m, high) - binom.sf(range(m), m, low), 12)))


@dataclass(frozen=True)
class Learner:
    """The learner's public numbers; `sharp` and `scale` as they are used in a comparison, `exponent` in a median."""

    points: int
    m: int
    resolution: float
    margin: float
    masses: tuple[float, ...]
    tests: int
    test_epsilon: float
    test_moved: Callable[[int], int]
    exponent: float
    comparison: str
    scale: float
    ways: int = 1

    def law(self, users: Sequence[User]) -> dict[Transcript, float]:
        """The probability of every transcript."""
        found: dict[Transcript, float] = {}
        for bits, low, chance in self._searches(users, 0.0, 1.0, (), 1.0):
            upper = min(1.0, low + self.resolution)
            if upper + self.margin >= 1 - 1e-12:
                found[bits, 0, ()] = chance
                continue
            level = level_of(self.m, round(upper, 12), round(upper + self.margin, 12))
            chosen = self._least([min(self._counts(users, level, way)) for way in range(self.ways)])
            for way, taken in enumerate(chosen):
                for path, more in self._rounds(users, level, way, 0, self.points, 0, ()):
                    found[bits, way, path] = chance * taken * more
        return found

    def _searches(
        self, users: Sequence[User], low: float, high: float, bits: tuple[bool, ...], chance: float
    ) -> Iterator[tuple[tuple[bool, ...], float, float]]:
        """The answers of the tests, the upper end of what is left, and how likely they are."""
        if len(bits) == self.tests:
            yield bits, high, chance
            return
        guess = (low + high) / 2
        passed = self._passes(users, guess)
        if passed > 0:
            yield from self._searches(users, low, guess, (*bits, True), chance * passed)
        if passed < 1:
            yield from self._searches(users, guess, high, (*bits, False), chance * (1 - passed))

    def _passes(self, users: Sequence[User], guess: float) -> float:
        if guess + self.resolution >= 1:
            return 1.0
        low, high = round(guess, 12), round(guess + self.resolution, 12)
        level = level_of(self.m, low, high)
        middle = round(STEPS * (binom.sf(level, self.m, low) + binom.sf(level, self.m, high)) / 2)
        fewest = min(min(self._counts(users, level, way)) for way in range(self.ways))
        excess = STEPS * fewest - len(users) * middle
        scale = self.test_moved(middle) / self.test_epsilon
        q = math.exp(-1 / scale)  # P(Z <= -excess), Z discrete Laplace
        return q**excess / (1 + q) if excess >= 0 else 1 - q ** (1 - excess) / (1 + q)

    def _counts(self, users: Sequence[User], level: int, way: int) -> list[int]:
        def errs(v: int, x: int, y: int) -> bool:
            return (x >= v if way else x < v) != y

        return [sum(sum(errs(v, x, y) for x, y in user) > level for user in users) for v in range(self.points + 1)]

    def _rounds(
        self, users: Sequence[User], level: int, way: int, low: int, high: int, t: int, path: Path
    ) -> Iterator[tuple[Path, float]]:
        if low == high or t == len(self.masses):
            yield path, 1.0
            return
        more_than = level_of(self.m, round(self.masses[t] / 2, 15), round(3 * self.masses[t] / 4, 15))
        counts = self._counts(users, level, way)
        for w, chosen in zip(range(low, high + 1), self._median(users, low, high, more_than), strict=True):
            around = {"left": range(low, w), "here": range(w, w + 1), "right": range(w + 1, high + 1)}
            standing = {side: min(counts[v] for v in where) for side, where in around.items() if where}
            for side, taken in zip(standing, self._least(list(standing.values())), strict=True):
                where = around[side]
                for rest, further in self._rounds(users, level, way, where[0], where[-1], t + 1, (*path, (w, side))):
                    yield rest, chosen * taken * further

    def _median(self, users: Sequence[User], low: int, high: int, more_than: int) -> list[float]:
        def beyond(first: int, last: int) -> int:
            return sum(sum(first <= x <= last for x, _ in user) > more_than for user in users)

        scores = [max(beyond(low, w - 1), beyond(w + 1, high)) for w in range(low, high + 1)]
        weights = [math.exp(-self.exponent * score) for score in scores]
        return [weight / sum(weights) for weight in weights]

    def _least(self, counts: list[int]) -> list[float]:
        if self.comparison == "sharp":  # in random order, each taken with probability e^(-(count - least)/scale)
            found = [0.0] * len(counts)
            for order in itertools.permutations(range(len(counts))):
                missed = 1 / math.factorial(len(counts))
                for place in order:
                    weight = math.exp(-(counts[place] - min(counts)) / self.scale)
                    found[place] += missed * weight
                    missed *= 1 - weight
            return found
        noise = np.arange(-FAR, FAR + 1)
        q = math.exp(-1 / self.scale)
        chances = (1 - q) / (1 + q) * q ** np.abs(noise)

        def above(value: np.ndarray, *, ties: bool) -> np.ndarray:
            """P(Z >= value), or P(Z > value)."""
            k = value if ties else value + 1
            return np.asarray(np.where(k > 0, q ** np.maximum(k, 0) / (1 + q), 1 - q ** np.maximum(1 - k, 0) / (1 + q)))

        found = []
        for place, count in enumerate(counts):
            beaten = [above(count + noise - other, ties=place < at) for at, other in enumerate(counts) if at != place]
            found.append(float((chances * np.prod(beaten, axis=0)).sum()))
        return found


def users_on(points: int, m: int) -> list[User]:
    """Every user, but for the order of the examples."""
    examples = list(itertools.product(range(points), (0, 1)))
    return list(itertools.combinations_with_replacement(examples, m))


def neighbours(users: tuple[User, ...], every: list[User], relation: str) -> Iterator[tuple[User, ...]]:
    """Those that are reached by changing, removing or relabelling one user."""
    for at, user in enumerate(users):
        rest = users[:at] + users[at + 1 :]
        match relation:
            case "add_remove" | "zero_out":
                yield rest
            case "replace_one":
                yield from ((*rest, other) for other in every)
            case "label_flip":
                points = sorted(x for x, _ in user)
                yield from ((*rest, other) for other in every if sorted(x for x, _ in other) == points)
            case _:
                raise ValueError(relation)


def worst_loss(
    law: Callable[[tuple[User, ...]], dict[Transcript, float]], every: list[User], n: int, relation: str
) -> float:
    """The exact epsilon on all pairs of neighbours, the larger of which has n users; infinite where a transcript is
    possible on one side alone."""
    known = lru_cache(maxsize=None)(lambda users: law(users))
    worst = 0.0
    for users in itertools.combinations_with_replacement(every, n):
        here = known(users)
        for other in neighbours(users, every, relation):
            there = known(tuple(sorted(other)))
            if here.keys() != there.keys():
                return math.inf
            worst = max(worst, max(abs(math.log(here[key] / there[key])) for key in here))
    return worst
