"""Choices: one of many by their scores, and answers that are sometimes drawn at random.

`choose` takes whole scores, one a candidate; segments of candidates with one score are given by how many they are, so
that a class of 2^64 costs what its segments cost. How far one unit moves a score is said in the law's exponent.

>>> from dpledger.mechanisms.entropy import seeded
>>> one = Sensitivity(1, "linf", "a record changes each count of errors by at most one")
>>> law = ExponentialWeights(exponent_for(epsilon=1, sensitivity=1))
>>> choose(law, [-40, 0, -40], sensitivity=one, entropy=seeded(0), counts=[10, 2**64, 10]) in range(10, 10 + 2**64)
True
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from dpledger.decimals import Number, read, round_down
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise.bernoulli import falls, uniform_below, uniforms
from dpledger.mechanisms.noise.brackets import Bracket, Outward
from dpledger.mechanisms.noise.exponential_race import race
from dpledger.mechanisms.noise.laws import (
    ExponentialWeights,
    PermuteAndFlipChoice,
    RandomizedAnswer,
    Sensitivity,
    Weighted,
)
from dpledger.mechanisms.noise.randomness_log import logged

__all__ = ["choose", "exponent_for", "respond"]

Wholes: TypeAlias = npt.NDArray[Any] | Sequence[int]
"""Whole numbers in one row: an array of integers (int64, uint64, or Python integers), or a list of ints."""

_ROW = "a row of whole numbers: a list of ints or an array of integers with one axis"
_WEIGHTED = (ExponentialWeights, PermuteAndFlipChoice)


def choose(
    law: Weighted, scores: Wholes, *, sensitivity: Sensitivity, entropy: Entropy, counts: Wholes | None = None
) -> int:
    """The place of one candidate, chosen by `law` exactly. The higher its score, the likelier.

    `scores`: one a candidate, in whole steps. With `counts`, score i stands counts[i] times in a row, and the place is
    among all of them: 0 to sum(counts) - 1. `sensitivity`: what one unit may change of each score, for the record.
    Raises ParameterError for parameters of another type or shape, if nobody stands for choice, and for a count below 0;
    never because of a score. How many words are drawn depends on how many scores (and, with `counts`, candidates) there
    are, and on what the scores are only in cases of probability below 2^-30.
    Source: docs/proofs/noise.md, section 9; McSherry-Talwar 2007; McKenna-Sheldon 2020.
    """
    if not isinstance(law, _WEIGHTED):
        raise ParameterError("law", type(law).__name__, "ExponentialWeights or PermuteAndFlip")
    if not isinstance(sensitivity, Sensitivity):
        raise ParameterError("sensitivity", type(sensitivity).__name__, "a Sensitivity with norm and justification")
    row, many = _row(scores, "scores"), None if counts is None else _row(counts, "counts")
    among = _standing(row, many)
    place = race(law, row, many, entropy)
    if many is not None:
        place = _summed(many[:place]) + uniform_below(int(many[place]), entropy, words=2 + among.bit_length() // 64)
    return logged(law, place, value=row if many is None else (row, many), shape=(among,), sensitivity=sensitivity)


def exponent_for(epsilon: Number, *, sensitivity: Number, monotone: bool = False) -> Decimal:
    """The exponent (of one step of score) with which a choice is epsilon-DP: epsilon / (2 sensitivity), rounded down.

    `sensitivity`: by how much, in steps, one unit moves a score at most. `monotone`: all scores move in one direction
    between neighbours (which holds under add_remove or zero_out at best); then twice as much.
    Claim: ExponentialWeights is epsilon-bounded-range and so epsilon-DP; PermuteAndFlip is epsilon-DP.
    Source: McSherry-Talwar 2007; Durfee-Rogers 2019; McKenna-Sheldon 2020.
    """
    promised, moved = read(epsilon, field="epsilon"), read(sensitivity, field="sensitivity")
    for field, number in (("epsilon", promised), ("sensitivity", moved)):
        if not number > 0:
            raise ParameterError(field, number, "a number above 0")
    return round_down(Fraction(promised) / Fraction(moved) / (1 if monotone else 2))


@overload
def respond(law: RandomizedAnswer, answer: int, *, entropy: Entropy) -> int: ...
@overload
def respond(law: RandomizedAnswer, answer: npt.NDArray[Any], *, entropy: Entropy) -> npt.NDArray[np.int64]: ...
def respond(law: RandomizedAnswer, answer: int | npt.NDArray[Any], *, entropy: Entropy) -> int | npt.NDArray[np.int64]:
    """`answer`, or one of the others: each of these e^epsilon times less likely. Of an array, each entry independently.

    What is not one of the answers 0 to k - 1 is read as the nearest that is. Raises ParameterError for another type.
    Two words of entropy an answer. Source: Warner 1965; docs/proofs/noise.md, section 9.
    """
    if not isinstance(law, RandomizedAnswer):
        raise ParameterError("law", type(law).__name__, "RandomizedResponse(epsilon=1, k=2)")
    if isinstance(answer, np.ndarray) and answer.dtype.kind in "iu":
        wide = np.asarray(answer).astype(np.int64 if answer.dtype.kind == "i" else np.uint64)
        known = np.clip(wide, 0, law.k - 1).astype(np.int64).reshape(-1)
        found = _responses(law, known, entropy).reshape(answer.shape)
        return logged(law, found, value=answer, shape=answer.shape)
    if isinstance(answer, (int, np.integer)) and not isinstance(answer, bool):
        one = np.array([min(max(int(answer), 0), law.k - 1)])
        return logged(law, int(_responses(law, one, entropy)[0]), value=int(answer), shape=())
    raise ParameterError("answer", type(answer).__name__, "a whole number, or an array of integers")


def _responses(law: RandomizedAnswer, answers: npt.NDArray[np.int64], entropy: Entropy) -> npt.NDArray[np.int64]:
    """Each replaced, with probability k / (e^epsilon + k - 1), by a uniform one of all k."""
    replaced = falls(lambda at: _replaced(law, at), entropy.words(len(answers)), entropy)
    others = uniforms(law.k, entropy.words(len(answers)), entropy)
    return np.where(replaced, others.astype(np.int64), answers)


def _replaced(law: RandomizedAnswer, at: Outward) -> Bracket:
    """k e^-epsilon / (1 + (k - 1) e^-epsilon)."""
    rarer = at.exp(at.negative(at.exact(Fraction(law.epsilon))))
    others = at.add(at.exact(Fraction(1)), at.times(at.exact(Fraction(law.k - 1)), rarer))
    return at.over(at.times(at.exact(Fraction(law.k)), rarer), others)


def _row(values: Wholes, field: str) -> npt.NDArray[Any]:
    if isinstance(values, np.ndarray) and values.ndim == 1:
        row = np.asarray(values)  # of a masked array every entry
        if row.dtype.kind == "i":
            return row.astype(np.int64, copy=False)
        if row.dtype.kind == "u":
            return row.astype(np.uint64, copy=False)
        if row.dtype.kind == "O" and all(type(item) is int for item in row):
            return row
    elif isinstance(values, (list, tuple)) and all(type(item) is int for item in values):
        fits = all(-(2**63) <= item < 2**63 for item in values)
        return np.array(values, dtype=np.int64 if fits else object)
    raise ParameterError(field, f"{type(values).__name__}", _ROW)


def _standing(scores: npt.NDArray[Any], counts: npt.NDArray[Any] | None) -> int:
    """How many candidates there are."""
    if counts is None:
        among = len(scores)
    elif len(counts) != len(scores):
        raise ParameterError("counts", f"{len(counts)} counts", "as many counts as scores")
    elif len(counts) and counts.min() < 0:
        raise ParameterError("counts", "a negative count", "counts of at least 0")
    else:
        among = _summed(counts)
    if among == 0:
        raise ParameterError("scores" if counts is None else "counts", "nobody", "at least one candidate")
    return among


def _summed(counts: npt.NDArray[Any]) -> int:
    """The exact sum of counts of at least 0."""
    small = counts.dtype != object and (not len(counts) or len(counts) * int(counts.max()) < 2**63)
    return int(counts.sum()) if small else sum(map(int, counts))
