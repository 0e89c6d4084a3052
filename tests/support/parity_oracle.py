"""The exact law of parities learned from a random part of the examples, and all neighbours of small samples.

An example is (x, y), x a number whose bits are its columns. The set of parities that fit those kept so far is a bit
mask, and a law of such masks is carried through the examples, in fractions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TypeAlias

from dpledger.relations import Relation

__all__ = [
    "Law",
    "Rows",
    "capped",
    "first_success",
    "hockey_stick",
    "largest_loss",
    "neighbours",
    "one_run",
    "until_success",
]

Rows: TypeAlias = tuple[tuple[int, int], ...]
Law: TypeAlias = list[Fraction]
"""The probability of each parity, by its number; FAIL is the last."""


def fits(example: tuple[int, int], dimension: int) -> int:
    """The parities that fit an example, as a mask."""
    x, y = example
    return sum(1 << r for r in range(1 << dimension) if (r & x).bit_count() % 2 == y)


def one_run(rows: Rows, dimension: int, rate: Fraction, fail: Fraction, *, uniform: bool = True) -> Law:
    """One run. Not `uniform`: the least of the parities that fit, a solution without chance."""
    masks = {(1 << (1 << dimension)) - 1: 1 - fail}
    for example in rows:
        fitting, after = fits(example, dimension), dict[int, Fraction]()
        for mask, chance in masks.items():
            for part, weight in ((mask, 1 - rate), (mask & fitting, rate)):
                after[part] = after.get(part, Fraction(0)) + chance * weight
        masks = after
    law = [Fraction(0)] * (1 << dimension) + [fail]
    for mask, chance in masks.items():
        found = [r for r in range(1 << dimension) if mask >> r & 1]
        if not uniform:
            found = found[:1]
        for r in found:
            law[r] += chance / len(found)
        if not found:
            law[-1] += chance
    return law


def first_success(law: Law, runs: int) -> Law:
    """The first parity that so many runs find."""
    tries, failed = Fraction(0), Fraction(1)
    for _ in range(runs):
        tries, failed = tries + failed, failed * law[-1]
    return [*(chance * tries for chance in law[:-1]), failed]


def until_success(law: Law, stop: Fraction) -> Law:
    """The parity found before a coin stops the runs."""
    going = 1 - (1 - stop) * law[-1]
    return [*(chance / going for chance in law[:-1]), stop * law[-1] / going]


def capped(law: Law, stop: Fraction, runs: int) -> Law:
    """As `until_success`, with so many runs at most."""
    tries = sum((((1 - stop) * law[-1]) ** run for run in range(runs)), start=Fraction(0))
    found = [chance * tries for chance in law[:-1]]
    return [*found, 1 - sum(found, start=Fraction(0))]


def largest_loss(left: Sequence[Fraction], right: Sequence[Fraction]) -> Fraction | None:
    """The greatest ratio of two probabilities of one outcome, either way; None where it is infinite."""
    pairs = [(p, q) for p, q in zip(left, right, strict=True) if p or q]
    if any(not p or not q for p, q in pairs):
        return None
    return max(max(p / q, q / p) for p, q in pairs)


def hockey_stick(left: Law, right: Law, epsilon: float) -> float:
    """The least delta with which `left` keeps epsilon against `right`."""
    return math.fsum(max(0.0, float(p) - math.exp(epsilon) * float(q)) for p, q in zip(left, right, strict=True))


def neighbours(relation: Relation, dimension: int, size: int) -> Iterator[tuple[Rows, Rows]]:
    """All pairs of neighbours of at most `size` rows, up to the order of rows and of the two."""
    rows = [(x, y) for x in range(1 << dimension) for y in (0, 1)]
    changes: dict[Relation, list[tuple[Rows, Rows]]] = {
        Relation.REPLACE_ONE: [((a,), (b,)) for a, b in itertools.combinations(rows, 2)],
        Relation.LABEL_FLIP: [(((x, 0),), ((x, 1),)) for x in range(1 << dimension)],
        Relation.ADD_REMOVE: [((), (a,)) for a in rows],
        Relation.ZERO_OUT: [(((0, 0),), (a,)) for a in rows],  # the null row fits every parity
    }
    for others in range(size):
        for rest in itertools.combinations_with_replacement(rows, others):
            yield from ((rest + left, rest + right) for left, right in changes[relation])
