"""Banded factors: how the noise of a step is taken off in the steps after it, and by how much that helps.

    C  the factor, steps x steps: lower triangular, constant on diagonals, 1 on the main one, `bands` diagonals
    A  what is done with gradients: sums of all up to a step (momentum: each counts 1 + m + m^2 + ... times)
    a step adds its row of C^-1 z, z independent noise; so what is done with gradients has the noise A C^-1 z

A unit that takes part once moves C times the gradients by ||c|| (the norm of a column) as far as its gradient reaches,
so noise has to be ||c|| times as large. `banded_factor` makes the mean square error of A C^-1 z times ||c||^2 small.
Coefficients are rounded before anything is certified: the norm is that of the rounded ones, exactly.
Source: Denisov et al. 2022; Choquette-Choo et al. 2023b, section 4.

The search computes with additions, products and quotients of floats alone, so it finds the same on every processor.

>>> [str(one) for one in banded_factor(steps=64, bands=3)]
['1', '0.7031', '0.579']
>>> column_norm(banded_factor(steps=64, bands=3))
Decimal('1.35262360249')
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from dpledger.decimals import Number, read, round_up, whole
from dpledger.errors import ParameterError
from dpledger.mechanisms.training.of_gradients import root_up

__all__ = [
    "MOST_BANDS",
    "MOST_STEPS",
    "banded_factor",
    "check_coefficients",
    "column_norm",
    "error_of",
    "places_of",
    "shown",
]

MOST_BANDS = 1024
MOST_STEPS = 50_000
"""Of a search, which takes about a second for each ten thousand."""
_PLACES = 4
_MOST_PLACES = 6  # so that C times whole numbers has whole numbers of 10^-6
_ROUNDS = 200
_FLAT = 2.0**-40  # a relative gain below which the search ends
_SHORTEST = 2.0**-30  # a share of a direction

_Floats = npt.NDArray[np.float64]


def banded_factor(steps: int, bands: int, *, momentum: Number = 0) -> tuple[Decimal, ...]:
    """The coefficients c_0 = 1 >= c_1 >= ... > 0 of a factor with so many bands, for a training of so many steps.

    `steps`: 1 to 50,000; `bands`: 1 to 1024, at most `steps`. `momentum`: in [0, 1), of the optimiser that the noisy
    gradients go to. Four digits after the point. Raises ParameterError naming the field.
    Claim: none; any coefficients are private (`DPFTRL`). Within a thousandth of the least error in all cases that were
    tried (tests/mechanisms/test_banded_factor.py).

    >>> [float(one) for one in dpl.learning.banded_factor(steps=100, bands=4)]
    [1.0, 0.7069, 0.6068, 0.5252]
    """
    planned = whole(steps, field="steps", least=1, most=MOST_STEPS)
    width = whole(bands, field="bands", least=1, most=min(MOST_BANDS, planned))
    kept = read(momentum, field="momentum")
    if not kept < 1:
        raise ParameterError("momentum", momentum, "a number in [0, 1)")
    return _found(planned, width, kept)


def check_coefficients(coefficients: Sequence[Decimal]) -> None:
    """ParameterError unless they begin with 1, never rise, stay above 0 and have few digits. Then all roots of
    c_0 + c_1 x + ... are on or outside the unit circle (Eneström-Kakeya), and C^-1 z does not grow without bound."""
    if not 1 <= len(coefficients) <= MOST_BANDS or coefficients[0] != 1:
        raise ParameterError("coefficients", shown(coefficients), f"1 to {MOST_BANDS} numbers, of which the first is 1")
    if any(after > before for before, after in pairwise(coefficients)):
        raise ParameterError("coefficients", shown(coefficients), "numbers that never rise")
    if not coefficients[-1] > 0 or places_of(coefficients) > _MOST_PLACES:
        expected = f"numbers above 0 with at most {_MOST_PLACES} digits after the point"
        raise ParameterError("coefficients", shown(coefficients), expected)


def shown(coefficients: Sequence[Decimal]) -> str:
    """Coefficients for a message: not all of very many."""
    more = ", ..." if len(coefficients) > 4 else ""
    return f"({', '.join(map(str, coefficients[:4]))}{more})"


def places_of(coefficients: Sequence[Decimal]) -> int:
    """How many digits after the point they need."""
    exponents = (number.as_tuple().exponent for number in coefficients)
    return max(0, *(-exponent for exponent in exponents if isinstance(exponent, int)))


def column_norm(coefficients: Sequence[Decimal]) -> Decimal:
    """The l2 norm of a column of C, rounded up to twelve digits.

    Claim: the result is at least sqrt(sum c_j^2), exactly. A column that is cut off at the last step is shorter.
    Source: docs/proofs/matrix_factorisation.md, section 2."""
    return round_up(root_up(sum((Fraction(number) ** 2 for number in coefficients), Fraction(0))))


def error_of(coefficients: Sequence[Decimal], steps: int, momentum: Decimal) -> float:
    """The root of the mean, over the steps, of the square error that noise of deviation ||c|| leaves in the sums of
    gradients: it is times the noise multiplier and the clip norm what a training sees. Bounds nothing."""
    factor = np.array([float(number) for number in coefficients])
    return math.sqrt(_cost(factor, _sums(steps, float(momentum)))[0])


@functools.lru_cache(maxsize=64)
def _found(steps: int, bands: int, momentum: Decimal) -> tuple[Decimal, ...]:
    sums = _sums(steps, float(momentum))
    best = _least(_root_of_sums(bands, float(momentum)), sums)
    falling = np.minimum.accumulate(np.maximum(best, 10.0**-_PLACES))
    return tuple(read(f"{number:.{_PLACES}f}") for number in falling.tolist())


def _sums(steps: int, momentum: float) -> _Floats:
    """The first column of A."""
    column = np.ones(steps)
    if momentum:
        for step in range(1, steps):
            column[step] = 1 + momentum * column[step - 1]
    return column


def _root_of_sums(bands: int, momentum: float) -> _Floats:
    """The first coefficients of the root of A: of (1 - x)^-1/2 (1 - m x)^-1/2. Where the search begins."""
    root, late = np.ones(bands), np.ones(bands)
    for place in range(1, bands):
        root[place] = root[place - 1] * (2 * place - 1) / (2 * place)
        late[place] = late[place - 1] * momentum * (2 * place - 1) / (2 * place)
    return np.array([(root[: place + 1] * late[place::-1]).sum() for place in range(bands)])


def _divided(column: _Floats, factor: _Floats) -> _Floats:
    """The first column of what is left of C after division: the series `column` over the polynomial `factor`."""
    bands = len(factor)
    left = np.concatenate([column, np.zeros(bands - 1)])
    for step in range(len(column)):
        left[step + 1 : step + bands] -= left[step] * factor[1:]
    return left[: len(column)]


def _cost(factor: _Floats, sums: _Floats) -> tuple[float, _Floats]:
    """The mean square error of A C^-1 z times ||c||^2, and its gradient: float64[bands], 0 for c_0, which stays."""
    steps = len(sums)
    weights = np.arange(steps, 0, -1) / steps  # entry i of the column stands in so many rows
    noise = _divided(sums, factor)
    errors, norm = float((weights * noise * noise).sum()), float((factor * factor).sum())
    moved = _divided(noise, factor)
    slopes = [float((weights[lag:] * noise[lag:] * moved[: steps - lag]).sum()) for lag in range(len(factor))]
    gradient = 2 * (factor * errors - norm * np.array(slopes))
    gradient[0] = 0.0
    return errors * norm, gradient


def _least(factor: _Floats, sums: _Floats) -> _Floats:
    """Where the cost is least, near `factor`: by the method of Broyden, Fletcher, Goldfarb and Shanno."""
    value, gradient = _cost(factor, sums)
    inverse = np.eye(len(factor)) / value
    for _ in range(_ROUNDS):
        direction = -(inverse * gradient).sum(axis=1)
        slope, share = float((direction * gradient).sum()), 1.0
        tried = factor + direction
        found, turned = _cost(tried, sums)
        while not found <= value + 0.0001 * share * slope and share > _SHORTEST:
            share /= 2
            tried = factor + share * direction
            found, turned = _cost(tried, sums)
        if not found < value - _FLAT * value:
            break
        inverse = _updated(inverse, tried - factor, turned - gradient)
        factor, value, gradient = tried, found, turned
    return factor


def _updated(inverse: npt.NDArray[np.float64], moved: _Floats, turned: _Floats) -> npt.NDArray[np.float64]:
    """The inverse of the curvature, after a move turned the gradient so; as it was where that is not positive."""
    curvature = float((moved * turned).sum())
    if not curvature > 0:
        return inverse
    towards = (inverse * turned).sum(axis=1)
    scale = (curvature + float((turned * towards).sum())) / (curvature * curvature)
    mixed = moved[:, np.newaxis] * towards
    result: npt.NDArray[np.float64] = inverse + scale * moved[:, np.newaxis] * moved - (mixed + mixed.T) / curvature
    return result
