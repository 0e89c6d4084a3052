"""Whether two datasets can be neighbours: how many rows differ, or how far a number moves; and whether they differ.

How many rows of each are not in the other is held against how many a unit may have; how far a number moves that
somebody computed, against the declared sensitivity.

Only what is known to be rows is compared: a list, an array, or a frame or series of pandas, row by row, as a bag (the
order of rows says nothing, and neither does the index of a frame).
Whether somebody's own function takes its list for rows, nobody here knows; so of that a result is told, not refused.

>>> apart([1] * 9, [1] * 10, Relation.ADD_REMOVE, Unit())
>>> apart([1] * 9, [1] * 12, Relation.ADD_REMOVE, Unit())
'no neighbours under add_remove: 0 rows in left alone, 3 in right alone, 1 a unit'
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from hashlib import sha256
from typing import Any, TypeAlias, assert_never

import numpy as np

from dpledger.audit.sampling import digest
from dpledger.errors import ParameterError
from dpledger.mechanisms.numeric.gaussian import Gaussian
from dpledger.mechanisms.numeric.integers import Geometric, IntegerGaussian
from dpledger.mechanisms.numeric.laplace import Laplace
from dpledger.mechanisms.numeric.one_shot import OneShot, Vouched
from dpledger.relations import Relation, Unit

__all__ = ["ONE_UNIT", "OfNumbers", "alike", "apart", "as_read", "check_pair", "norm_of", "pair_digest"]

ONE_UNIT = (
    "differ in one unit (replace_one exchanges a row for another, max_contributions allows several rows of a unit)"
)
OfNumbers: TypeAlias = Laplace | Gaussian | Geometric | IntegerGaussian
"""Mechanisms that are given numbers, and are told how far one unit moves them."""

ALIKE = "both datasets hold the same data, so no fault could show"
SCALARS = (bool, int, float, str, bytes, type(None))


def apart(left: object, right: object, relation: Relation, unit: Unit) -> str | None:
    """Why these rows are no neighbours, in words without a row of them; None where they may be, or are no rows.

    Claim: rows of which it says so differ by more than one unit under `relation`, whatever unit each row is of.
    Source: `relations.Relation`; rows that are compared as equal (`_compared`) only bring two datasets closer.
    """
    mine, other = _rows(left), _rows(right)
    if mine is None or other is None:
        return None
    ours, theirs = _bags(mine, other)
    gone, come = (ours - theirs).total(), (theirs - ours).total()
    if _may_be_neighbours(gone, come, relation, unit):
        return None
    most = unit.max_contributions
    exchanged = relation is Relation.ADD_REMOVE and gone == come <= most
    hint = "; they differ by an exchanged row: say relation='replace_one' if that is meant" if exchanged else ""
    return (
        f"no neighbours under {relation.value}: {gone:,} rows in left alone, {come:,} in right alone, {most:,} a unit"
        f"{hint}"
    )


def alike(left: object, right: object) -> str | None:
    """Why nothing can be learnt from this pair: both datasets are the same; None where they differ. Lists in another
    order do: they need not be rows.

    >>> alike([1, 2], [1, 2]) == ALIKE, alike([1, 2], [2, 1]), alike([1, 2], [1.0, 2.0])
    (True, None, None)
    """
    return ALIKE if digest(left) == digest(right) else None


def check_pair(mechanism: object, left: object, right: object, relation: Relation, unit: Unit) -> None:
    """ParameterError where no claim is about the pair: a mechanism that reads rows is given rows that are no
    neighbours, or one that takes a number (or a vector) is given two that are further apart than it declares."""
    if isinstance(mechanism, OfNumbers) and is_further_than_declared(mechanism, left, right):
        norm = "" if _width(mechanism) == 1 else f" in {norm_of(mechanism)}"
        raise ParameterError(
            "left, right",
            f"two numbers that are further apart{norm} than the declared sensitivity {mechanism.sensitivity}",
            "the numbers of two neighbouring datasets, or their true sensitivity",
        )
    reads_rows = isinstance(mechanism, OneShot) and not isinstance(mechanism, Vouched)
    if reads_rows and (distant := apart(left, right, relation, unit)) is not None:
        raise ParameterError("left, right", distant, f"data that {ONE_UNIT}")


def is_further_than_declared(mechanism: OfNumbers, left: object, right: object) -> bool:
    """Whether two numbers (or vectors), as the mechanism reads them, are further apart than its declared sensitivity.

    Claim: exact; of two numbers of neighbouring datasets, whose distance is at most the sensitivity, it is false."""
    ours, theirs = ([as_read(one, mechanism) for one in _entries(data)] for data in (left, right))
    moved = [abs(one - other) for one, other in zip(ours, theirs, strict=True)]
    declared = Fraction(mechanism.sensitivity)
    if norm_of(mechanism) == "l2":
        return sum((one * one for one in moved), Fraction()) > declared * declared
    return sum(moved, Fraction()) > declared


def norm_of(mechanism: OfNumbers) -> str:
    """In which its sensitivity is declared: "l1" or "l2"."""
    return "l2" if isinstance(mechanism, Gaussian | IntegerGaussian) else "l1"


def _width(mechanism: OfNumbers) -> int:
    return mechanism.dimension if isinstance(mechanism, Laplace | Gaussian) else 1


def _entries(data: object) -> Sequence[object]:
    if isinstance(data, (list, tuple)):
        return data
    listed = np.asarray(data).ravel().tolist() if hasattr(data, "__array__") else [data]
    return listed if isinstance(listed, list) else [listed]


def as_read(entry: object, mechanism: OfNumbers) -> Fraction:
    """A number as the mechanism reads it: nothing as `missing`, and what is beyond the bound as the bound."""
    bound, missing = Fraction(mechanism.bound), Fraction(mechanism.missing)
    plain = entry.item() if isinstance(entry, np.generic) else entry
    if not isinstance(plain, (int, float, Decimal, Fraction)) or plain != plain:
        return missing
    if plain in (float("inf"), float("-inf")):
        return bound if plain > 0 else -bound
    return min(max(Fraction(plain), -bound), bound)


def _may_be_neighbours(gone: int, come: int, relation: Relation, unit: Unit) -> bool:
    """Whether one unit can make one dataset of the other."""
    most = unit.max_contributions
    match relation:
        case Relation.ADD_REMOVE:
            return min(gone, come) == 0 and max(gone, come) <= most
        case Relation.REPLACE_ONE | Relation.ZERO_OUT:
            return max(gone, come) <= most
        case Relation.LABEL_FLIP:
            return gone == come <= most
        case _:
            assert_never(relation)


def _rows(data: Any) -> list[object] | None:
    """The rows of a dataset; None where it is not known to be rows."""
    if isinstance(data, list):
        return data
    is_table = type(data).__module__.partition(".")[0] == "pandas" and type(data).__name__ in ("DataFrame", "Series")
    if is_table and hasattr(data, "columns"):
        return list(data.itertuples(index=False, name=None))
    if is_table or (isinstance(data, np.ndarray) and data.ndim > 0):
        return list(data.tolist())
    return None


def _bags(*sides: list[object]) -> list[Counter[object]]:
    """How often each row is there, of each side; rows that cannot be compared are only counted."""
    are_plain = all(_is_plain(row) for rows in sides for row in rows)
    return [Counter(_compared(row) if are_plain else "row" for row in rows) for rows in sides]


def _is_plain(row: object) -> bool:
    return all(map(_is_plain, row)) if isinstance(row, (list, tuple)) else type(row) in SCALARS


def _compared(row: object) -> object:
    """A plain row as it is compared: 1, 1.0 and True are the same, and so are NaN and None, which is NaN in a frame."""
    if isinstance(row, (list, tuple)):
        return tuple(map(_compared, row))
    return "nan" if row is None or row != row else row


def pair_digest(left: object, right: object) -> str:
    """The SHA-256 of two datasets as JSON, of data that were MADE UP: it hides nothing that can be guessed, and of
    a few small rows everything can. ParameterError for what is no JSON."""
    try:
        said = json.dumps([left, right], sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    except (TypeError, ValueError):
        raise ParameterError(
            "left, right", "data that are no JSON", "data that are, to name them by a digest"
        ) from None
    return sha256(said.encode()).hexdigest()
