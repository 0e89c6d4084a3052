"""Groups by enumeration, sharing no code with the mechanism: the best probabilities of unknown keys at 60 digits, which
rows of a unit may count, and the law of the published keys."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from typing import TypeAlias

import mpmath

__all__ = ["Row", "best_probability", "hockey_stick", "kept_rows", "law_of_keys", "noisy_probability", "odds_below"]

Row: TypeAlias = tuple[str, str]
"""The unit, and the key."""

Law: TypeAlias = dict[frozenset[str], float]


@cache
def best_probability(epsilon: str, delta: str, units: int) -> Fraction:
    """pi(units), by its recursion. Desfontaines-Voss-Gipson-Mandayam 2022, theorem 1."""
    with mpmath.workdps(60):
        grown, failing = mpmath.exp(mpmath.mpf(epsilon)), mpmath.mpf(delta)
        found = mpmath.mpf(0)
        for _ in range(units):
            found = min(grown * found + failing, 1 - (1 - found - failing) / grown, mpmath.mpf(1))
        return Fraction(int(mpmath.floor(found * 10**55)), 10**55)


@cache
def noisy_probability(sigma: str, threshold: int, units: int) -> float:
    """The chance that one less than so many units, and Gaussian noise on the integers, are above a threshold."""
    if not units:
        return 0.0
    with mpmath.workdps(60):
        square, reach = 2 * mpmath.mpf(sigma) ** 2, int(14 * mpmath.mpf(sigma)) + 2
        masses = {noise: mpmath.exp(-(noise**2) / square) for noise in range(-reach, reach + 1)}
        above = mpmath.fsum(mass for noise, mass in masses.items() if units - 1 + noise > threshold)
        return float(above / mpmath.fsum(masses.values()))


def kept_rows(order: Sequence[Row], rows: int, groups: int, rows_a_group: int) -> list[Row]:
    """Of one unit's rows, in the order drawn, those that count: one by one."""
    kept: list[Row] = []
    seen: list[str] = []
    for row in order[:rows]:
        if row[1] not in seen:
            seen.append(row[1])
        if seen.index(row[1]) < groups and sum(other[1] == row[1] for other in kept) < rows_a_group:
            kept.append(row)
    return kept


def law_of_keys(
    data: Sequence[Row], chance_of: Callable[[int], float | Fraction], *, rows: int, groups: int, rows_a_group: int
) -> tuple[Law, dict[tuple[Row, ...], Fraction]]:
    """The law of the set of published keys, each with the chance that its number of units has; and that of the rows
    that count."""
    units = sorted({unit for unit, _ in data})
    each = [list(_ways([row for row in data if row[0] == unit], rows, groups, rows_a_group)) for unit in units]
    counted: dict[tuple[Row, ...], Fraction] = {}
    for way in itertools.product(*each):
        share = Fraction(1)
        for ways in each:
            share /= len(ways)
        held = tuple(sorted(row for part in way for row in part))
        counted[held] = counted.get(held, Fraction(0)) + share
    law: Law = {}
    for held, share in counted.items():
        having = Counter(key for _, key in set(held))
        for published in _subsets(sorted(having)):
            chance = float(share)
            for key, n in having.items():
                pi = float(chance_of(n))
                chance *= pi if key in published else 1 - pi
            law[published] = law.get(published, 0.0) + chance
    return law, counted


def _ways(own: list[Row], rows: int, groups: int, rows_a_group: int) -> Iterator[tuple[Row, ...]]:
    for order in itertools.permutations(own):
        yield tuple(kept_rows(order, rows, groups, rows_a_group))


def _subsets(keys: list[str]) -> Iterator[frozenset[str]]:
    for size in range(len(keys) + 1):
        yield from map(frozenset, itertools.combinations(keys, size))


def odds_below(epsilon: str) -> Fraction:
    """A rational number just below e^epsilon."""
    with mpmath.workdps(60):
        return Fraction(int(mpmath.floor(mpmath.exp(mpmath.mpf(epsilon)) * 10**50)), 10**50)


def hockey_stick(ours: Law, theirs: Law, epsilon: float) -> float:
    """delta at epsilon of one law against another."""
    odds = float(mpmath.exp(epsilon))
    return sum(max(0.0, mass - odds * theirs.get(one, 0.0)) for one, mass in ours.items())
