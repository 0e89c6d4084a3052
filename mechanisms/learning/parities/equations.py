"""Linear equations over GF(2): whether they have a solution, and a uniform one.

`Echelon` eliminates one system of any size, sixty-four columns to a word. `Systems` takes equations one by one into
many systems of up to 63 unknowns at once, each equation into those systems that keep it.

>>> import numpy as np
>>> found = Echelon.of(np.array([[1, 1, 0], [0, 1, 1]], dtype=np.uint8), np.array([1, 0], dtype=np.uint8))
>>> found.solution(np.array([0, 0, 1], dtype=np.uint8)).tolist()
[0, 1, 1]
>>> Echelon.of(np.zeros((1, 3), dtype=np.uint8), np.ones(1, dtype=np.uint8)) is None
True
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["MOST_UNKNOWNS", "Bits", "Echelon", "Systems", "Words", "odd"]

Bits = npt.NDArray[np.uint8]
"""Zeros and ones."""

Words = npt.NDArray[np.uint64]

MOST_UNKNOWNS = 63
"""Unknowns that `Systems` may have: the right side is one bit more of a word."""

_WORD = 64
_ONE = np.uint64(1)


@dataclass(frozen=True, slots=True, eq=False)
class Echelon:
    """Solvable equations, eliminated: row i begins at column pivots[i], and the pivots rise. The right side is the bit
    after the last column."""

    rows: Words
    pivots: tuple[int, ...]
    unknowns: int

    @classmethod
    def of(cls, left: Bits, right: Bits) -> Echelon | None:
        """The equations left x = right, eliminated; None where they have no solution. `left`: (equations, unknowns)."""
        unknowns = left.shape[1]
        rows = _packed(left, right)
        pivots: list[int] = []
        for column in range(unknowns):
            rank = len(pivots)
            if rank == len(rows):
                break
            word, place = divmod(column, _WORD)
            having = np.flatnonzero(rows[rank:, word] >> np.uint64(place) & _ONE) + rank
            if not len(having):
                continue
            rows[[rank, having[0]]] = rows[[having[0], rank]]
            rows[having[1:], word:] ^= rows[rank, word:]
            pivots.append(column)
        word, place = divmod(unknowns, _WORD)
        if (rows[len(pivots) :, word] >> np.uint64(place) & _ONE).any():
            return None
        return cls(rows[: len(pivots)], tuple(pivots), unknowns)

    def solution(self, free: Bits) -> Bits:
        """The solution that has these bits where no row begins. Of uniform bits, a uniform solution."""
        found = free.copy()
        found[list(self.pivots)] = 0
        packed = _packed(found[None, :], np.ones(1, dtype=np.uint8))[0]
        for row, column in zip(self.rows[::-1], self.pivots[::-1], strict=True):
            if int(np.bitwise_xor.reduce(row & packed)).bit_count() & 1:
                found[column] = 1
                packed[column // _WORD] |= np.uint64(1 << column % _WORD)
        return found


def _packed(left: Bits, right: Bits) -> Words:
    """Each row and its right side as words, the first column the lowest bit."""
    rows, unknowns = left.shape
    padded = np.zeros((rows, -(-(unknowns + 1) // _WORD) * _WORD), dtype=np.uint8)
    padded[:, :unknowns], padded[:, unknowns] = left, right
    return np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64)


class Systems:
    """Many systems of equations in the same few unknowns. An unknown is a bit of a word, the right side the next."""

    def __init__(self, count: int, unknowns: int) -> None:
        self._unknowns = unknowns
        self._rows = np.zeros((unknowns, count), dtype=np.uint64)  # the one whose highest unknown this is, or 0
        self._unsolvable = np.zeros(count, dtype=np.bool_)

    def add(self, equation: int, where: npt.NDArray[np.bool_]) -> None:
        """Take an equation, a word, into the systems where it is kept."""
        rest = np.where(where, np.uint64(equation), np.uint64(0))
        for unknown in range(self._unknowns - 1, -1, -1):
            row, has = self._rows[unknown], (rest >> np.uint64(unknown) & _ONE).astype(np.bool_)
            if not has.any():
                continue
            fresh = has & (row == 0)
            rest ^= np.where(has, row, np.uint64(0))
            row[fresh] = rest[fresh]
            rest[fresh] = 0
        self._unsolvable |= rest != 0

    @property
    def solvable(self) -> npt.NDArray[np.bool_]:
        """Which systems have a solution."""
        return ~self._unsolvable

    def solutions(self, free: Words) -> Words:
        """Of each system the solution with these bits where it leaves a choice; without meaning where it has none."""
        found = free & np.uint64((1 << self._unknowns) - 1) | np.uint64(1 << self._unknowns)
        for unknown, row in enumerate(self._rows):
            bit = np.uint64(1 << unknown)
            found ^= np.where((row != 0) & odd(row & found), bit, np.uint64(0))
        return found & np.uint64((1 << self._unknowns) - 1)


def odd(words: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Which words have an odd number of ones."""
    folded = words
    for shift in (32, 16, 8, 4, 2, 1):
        folded = folded ^ folded >> np.uint64(shift)
    return (folded & _ONE).astype(np.bool_)
