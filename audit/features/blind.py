"""When nothing can be seen: outcomes in which no test could find a fault; and when nothing varies within a side."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np

from dpledger.audit.features.bank import telling_places
from dpledger.audit.features.score import Place
from dpledger.audit.outcomes.structure import ABSENT, Floats, Labels, Outcomes

__all__ = ["STILL", "are_still", "blindness"]

STILL = (
    "each side gave one output in all of its runs: nothing random is in it, or the mechanism keeps its answers; if it "
    "keeps them, audit what draws each anew"
)

_WITHIN = re.compile(r"(?:(?:len\()?(?:bytes of |doubles in )|numbers in |len\()(.+?)\)?")
"""Paths of what is read within a text, or within bytes, and where these stand."""

UNEVEN = 5.0  # standard errors by which a byte is repeated more often than by chance, where it says something


def blindness(left: Outcomes, right: Outcomes) -> str | None:
    """Why nothing can be seen in these runs; None where something can.

    All runs are alike; or more than half of them carry a label that no other run has, and no number varies but digits
    and lengths of texts that are themselves of no form that is seen again, such as a digest; or the same of bytes."""
    runs = len(left) + len(right)
    if not runs:
        return "there are no runs"
    places = telling_places(left, right)
    if any(_is_read(place, left, right) for place in places):
        return None
    paths = sorted({*left.labels, *right.labels})
    if not places and all((labels == labels[0]).all() for labels in (_together(path, left, right) for path in paths)):
        return "all runs of both sides gave the same output"
    usual = [path for path in paths if left.runs_at(path) + right.runs_at(path) > runs / 2]
    in_bytes = any(_bytes_around(place, left, right) is not None for place in places)
    if in_bytes or any(_are_single(_together(path, left, right).tolist()) for path in usual):
        return "more than half of the runs gave an output that no other run gave, and no number in it can be read"
    return None


def are_still(*sides: Outcomes) -> bool:
    """Whether each side gave one output in all of its runs, bit for bit."""
    numbers = [np.ascontiguousarray(block).view(np.uint64) for side in sides for block in side.numbers.values()]
    labels = [column for side in sides for column in side.labels.values()]
    return all((column == column[0]).all() for column in (*numbers, *labels))


def _is_read(place: Place, left: Outcomes, right: Outcomes) -> bool:
    """It is no digit or length of a text without a form that is seen again, and none of bytes like those of a
    digest."""
    raw = _bytes_around(place, left, right)
    if raw is not None:
        return not _are_like_a_digest(raw)
    of_text = _WITHIN.fullmatch(place.path)
    if of_text is None:
        return True
    texts, forms = (_together(f"{what} of {of_text[1]}", left, right) for what in ("text", "form"))
    return not _are_single(np.where(forms == ABSENT, texts, forms).tolist())


def _bytes_around(place: Place, left: Outcomes, right: Outcomes) -> list[Floats] | None:
    """Of both sides the bytes in which a number is read, or of which it is the length; None of any other number."""
    within = _WITHIN.fullmatch(place.path)
    if within is None:
        return None
    found = [side.numbers[path] for side in (left, right) if (path := f"bytes of {within[1]}") in side.numbers]
    return found or None


def _are_like_a_digest(blocks: Sequence[Floats]) -> bool:
    """More than half of the runs carry bytes that no other run has, and at each place every byte is as frequent as by
    chance: a digest, or what is encrypted. In numbers that are written as bytes some are more frequent."""
    if not _are_single([row.tobytes() for block in blocks for row in block if not np.isnan(row).all()]):
        return False
    for index in range(max(block.shape[1] for block in blocks)):
        column = np.concatenate([block[:, index] for block in blocks if index < block.shape[1]])
        counts = np.bincount(column[~np.isnan(column)].astype(np.int64), minlength=256)
        if counts.max() == counts.sum():
            continue  # it never varies
        pairs, expected = (counts * (counts - 1)).sum() / 2, counts.sum() * (counts.sum() - 1) / 2 / 256
        if pairs > expected + UNEVEN * np.sqrt(expected):
            return False
    return True


def _together(path: str, left: Outcomes, right: Outcomes) -> Labels:
    return np.concatenate([left.labels_at(path), right.labels_at(path)])


def _are_single(labels: Sequence[Hashable]) -> bool:
    """More than half of the runs carry a label that no other run has."""
    counts = Counter(labels)
    return sum(count for count in counts.values() if count == 1) > len(labels) / 2
