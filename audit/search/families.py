"""Families of neighbouring datasets that a schema allows, those that tell most first.

Rows: one unit added to none, one, two, ten, or as many rows as fill a byte or a word, at their end or at their
beginning; or exchanged; of values at the ends of a column, and of those that code forgets. Answers: the count patterns
of StatDP (Ding, Wang, Wang, Zhang, Kifer, Detecting Violations of Differential Privacy, 2018, section 4.2).

>>> from dpledger.audit.search.columns import read_schema
>>> from dpledger.relations import Relation, Unit
>>> schema = read_schema({"rows": {"type": "boolean"}})
>>> [(pair.left, pair.right) for pair in pairs_of(schema, Relation.ADD_REMOVE, Unit())][:2]
[([], [False]), ([], [True])]
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import assert_never

import numpy as np

from dpledger.audit.search.columns import Answers, Row, RowSchema, Schema
from dpledger.errors import ParameterError
from dpledger.relations import Relation, Unit

__all__ = ["NeighbourPair", "RowPair", "pairs_of", "smaller", "varied"]

Rows = tuple[Row, ...]
FEW = 2  # usual rows of which there are few or many
SPREAD = 10  # rows of a spread dataset
SIZES = (4, 9, 19, 49, 99)  # rows after which one more may be enough to be published
FULL = tuple(2**bits - 1 for bits in (7, 8, 15, 16, 31, 32))  # what words of one, two and four bytes hold
OTHERS = 3  # rows for which one is exchanged
MANY = 400  # rows of a large dataset
DOUBLINGS = 8  # rows that are drawn at random: up to 1, 2, 4, ... 128
HALVED = 4  # common rows from which halves are dropped before single ones


@dataclass(frozen=True, slots=True)
class RowPair:
    """Rows that both datasets have, and those of one unit on each side, at the end or at the beginning (`in_front`)."""

    schema: RowSchema
    common: Rows
    left: Rows
    right: Rows
    in_front: bool = False
    turned: bool = False  # the common rows of the right dataset stand in the opposite order

    @property
    def sizes(self) -> tuple[int, int]:
        return len(self.common) + len(self.left), len(self.common) + len(self.right)

    def datasets(self) -> tuple[object, object]:
        theirs = self.common[::-1] if self.turned else self.common
        sides = ((self.common, self.left), (theirs, self.right))
        left, right = (self.schema.data(own + common if self.in_front else common + own) for common, own in sides)
        return left, right


@dataclass(frozen=True, slots=True, eq=False)
class NeighbourPair:
    """Two neighbouring datasets. `why`: how they differ, in words; `rows`: what they are made of, None where somebody
    else made them."""

    left: object
    right: object
    why: str
    rows: RowPair | None = None


def pairs_of(schema: Schema, relation: Relation, unit: Unit) -> Iterator[NeighbourPair]:
    """The pairs of a schema, no two alike. ParameterError for a relation under which a schema says too little."""
    if isinstance(schema, Answers):
        yield from _of_answers(schema)
        return
    seen: set[str] = set()
    for rows in _of_rows(schema, relation, unit):
        fit = all(schema.fewest_rows <= size <= schema.most_rows for size in rows.sizes)
        if fit and (told := repr((rows.common, rows.left, rows.right, rows.in_front, rows.turned))) not in seen:
            seen.add(told)
            yield _pair(rows)


def smaller(pair: NeighbourPair, *, each: int = HALVED) -> Iterator[NeighbourPair]:
    """Pairs of fewer common rows, or of plainer ones, the smallest first; each as far apart as `pair` is. `each`: how
    many rows, from the first on, are left out or made plain one by one."""
    rows = pair.rows
    if rows is None:
        return
    common, schema = rows.common, rows.schema
    kept: list[Rows] = [()]
    if len(common) > HALVED:
        kept += [common[: len(common) // 2], common[len(common) // 2 :]]
    kept += [common[:place] + common[place + 1 :] for place in range(min(len(common), each))]
    for fewer in kept:
        made = replace(rows, common=fewer)
        if len(fewer) < len(common) and min(made.sizes) >= schema.fewest_rows:
            yield _pair(made)
    if rows.in_front or rows.turned:
        yield _pair(replace(rows, in_front=False, turned=False))
    plain = _single_rows(schema)[0][:FEW]
    if not rows.left and rows.right[0] not in plain:
        yield from (_pair(replace(rows, right=(row,) * len(rows.right))) for row in plain)
    for place in range(min(len(common), each)):
        if common[place] not in plain:
            others = ((*common[:place], row, *common[place + 1 :]) for row in plain)
            yield from (_pair(replace(rows, common=other)) for other in others)


def varied(pair: NeighbourPair, rng: np.random.Generator) -> NeighbourPair:
    """A pair that is made like `pair`, of other common rows and, where a row is added, another one, drawn from all that
    the schema allows; `pair` itself where somebody else made it."""
    rows = pair.rows
    if rows is None:
        return pair
    schema, own = rows.schema, (len(rows.left), len(rows.right))
    least = max(0, schema.fewest_rows - min(own))
    most = max(least, min(schema.most_rows - max(own), 2 ** int(rng.integers(DOUBLINGS))))
    common = tuple(schema.at_random(rng) for _ in range(int(rng.integers(least, most + 1))))
    right = rows.right if rows.left else (schema.at_random(rng),) * len(rows.right)
    return _pair(replace(rows, common=common, right=right))


def _pair(rows: RowPair) -> NeighbourPair:
    left, right = rows.datasets()
    return NeighbourPair(left, right, _words(rows), rows)


def _words(rows: RowPair) -> str:
    own = max(len(rows.left), len(rows.right))
    many = "a row is" if own == 1 else f"{own} rows are"
    how = "exchanged" if len(rows.left) == len(rows.right) else "added"
    where = f", before {len(rows.common)} others" if rows.in_front else f", beside {len(rows.common)} others"
    return f"{many} {how}{where if rows.common else ''}{', which are turned round' if rows.turned else ''}"


# ---- rows -----------------------------------------------------------------------------------------------------------


def _of_rows(schema: RowSchema, relation: Relation, unit: Unit) -> Iterator[RowPair]:
    usual, odd = _single_rows(schema)
    own = [*_mixed(usual, odd)]
    changes: list[tuple[Rows, Rows]]
    match relation:
        case Relation.ADD_REMOVE:
            changes = [((), (row,) * unit.max_contributions) for row in own]
        case Relation.REPLACE_ONE:
            most = unit.max_contributions
            pairs = ((one, other) for place, one in enumerate(own) for other in own[:place][:OTHERS])
            changes = [((other,) * most, (one,) * most) for one, other in pairs]
        case Relation.LABEL_FLIP:
            changes = _flipped(schema, own, unit)
        case Relation.ZERO_OUT:
            wanted = "add_remove, replace_one or label_flip; or your own pairs, as what the null row is no schema says"
            raise ParameterError("relation", relation.value, wanted)
        case _:
            assert_never(relation)
    commons = list(_commons(schema, usual, odd))
    for total in range(len(changes) + len(commons)):
        for place in range(max(0, total - len(changes) + 1), min(total + 1, len(commons))):
            left, right = changes[total - place]
            made = RowPair(schema, commons[place], left, right)
            yield made
            if commons[place]:
                yield replace(made, in_front=True)
            if schema.bag and len(set(map(repr, commons[place]))) > 1:
                yield replace(made, turned=True)


def _single_rows(schema: RowSchema) -> tuple[list[Row], list[Row]]:
    """Usual rows, and odd ones: of one column a value that code forgets, of the others a usual one."""
    columns = [column.usual for column in schema.columns]
    widest = max(len(column) for column in columns)
    usual = [tuple(column[min(place, len(column) - 1)] for column in columns) for place in range(widest)]
    usual += [tuple(column[place % len(column)] for column in columns) for place in range(widest)]
    first = usual[0]
    for place, column in enumerate(columns):
        usual += [(*first[:place], value, *first[place + 1 :]) for value in column]
    odd = [
        (*first[:place], value, *first[place + 1 :])
        for place, column in enumerate(schema.columns)
        for value in column.odd
    ]
    return list({repr(row): row for row in usual}.values()), list({repr(row): row for row in odd}.values())


def _mixed(usual: list[Row], odd: list[Row]) -> Iterator[Row]:
    """Usual and odd rows by turns."""
    yield usual[0]
    others, strange = iter(usual[1:]), iter(odd)
    for source in islice(cycle((others, strange)), 2 * max(len(usual), len(odd)) + 2):
        yield from islice(source, 1)


def _commons(schema: RowSchema, usual: list[Row], odd: list[Row]) -> Iterator[Rows]:
    """Rows that both datasets have."""
    few = usual[:FEW]
    spread = tuple(islice(cycle(usual), SPREAD))
    yield ()
    for row in few:
        yield (row,)
    yield tuple(few)
    yield (few[0],) * 2
    yield spread
    for row in (*few, *(one for one in odd if None in one)):
        yield (row,) * SPREAD
    for size in SIZES:
        yield (few[0],) * size
    for row in odd[:FEW]:
        yield (row,)
    yield tuple(odd)
    for row in few:
        for size in _filling(row, schema.most_rows):
            yield (row,) * size
    yield (few[0],) * min(schema.most_rows - 1, MANY)


def _filling(row: Row, most: int) -> list[int]:
    """How many such rows there are, fewer than `most`, where the next is more than a word holds that counts or adds
    them up, by their largest number."""
    numbers = [abs(int(one)) for one in row if isinstance(one, (int, float)) and math.isfinite(one)]
    sizes = {held // each for held in FULL for each in (1, max(numbers, default=1)) if each}
    return sorted(size for size in sizes if 0 < size < most)


def _flipped(schema: RowSchema, own: list[Row], unit: Unit) -> list[tuple[Rows, Rows]]:
    place = schema.label
    if place is None:
        raise ParameterError("relation", "label_flip", "a schema with a label: the column that one unit changes")
    labels = (*schema.columns[place].usual, *schema.columns[place].odd)
    most = unit.max_contributions
    return [
        ((row,) * most, ((*row[:place], label, *row[place + 1 :]),) * most)
        for row in own
        for label in labels[:OTHERS]
        if row[place] is not label and row[place] != label
    ]


# ---- answers --------------------------------------------------------------------------------------------------------


def _of_answers(schema: Answers) -> Iterator[NeighbourPair]:
    """The patterns of StatDP: where each answer of the right side moves, up (1), down (-1) or not."""
    count, half = schema.count, schema.count // 2
    patterns = {
        "one answer is above": [1] + [0] * (count - 1),
        "one answer is below": [-1] + [0] * (count - 1),
        "one above, the rest below": [1] + [-1] * (count - 1),
        "one below, the rest above": [-1] + [1] * (count - 1),
        "half above, half below": [1] * half + [-1] * (count - half),
        "half below, half above": [-1] * half + [1] * (count - half),
        "all above": [1] * count,
        "all below": [-1] * count,
    }
    bases = {"equal": [1.0] * count, "X": [1.0] * half + [0.0] * (count - half), "none": [0.0] * count,
             "rising": [float(place) for place in range(count)]}  # fmt: skip
    for base, values in bases.items():
        for words, pattern in patterns.items():
            if not (schema.monotone and len({step for step in pattern if step}) > 1):
                left = [value * schema.moves for value in values]
                moved = [value + step * schema.moves for value, step in zip(left, pattern, strict=True)]
                yield NeighbourPair(left, moved, f"{words}, of answers that are {base}")
