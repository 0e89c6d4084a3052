"""When nothing can be seen: outcomes in which no test could find a fault; and when nothing varies within a side."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

from dpledger.audit.features.bank import telling_places
from dpledger.audit.features.score import Place
from dpledger.audit.outcomes.structure import ABSENT, Labels, Outcomes

__all__ = ["STILL", "are_still", "blindness"]

STILL = (
    "each side gave one output in all of its runs: nothing random is in it, or the mechanism keeps its answers; if it "
    "keeps them, audit what draws each anew"
)

_OF_TEXT = re.compile(r"(?:numbers in |len\()(.+?)\)?")


def blindness(left: Outcomes, right: Outcomes) -> str | None:
    """Why nothing can be seen in these runs; None where something can.

    All runs are alike; or more than half of them carry a label that no other run has, and no number varies but digits
    and lengths of texts that are themselves of no form that is seen again, such as a digest."""
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
    if any(_are_single(_together(path, left, right)) for path in usual):
        return "more than half of the runs gave an output that no other run gave, and no number in it can be read"
    return None


def are_still(*sides: Outcomes) -> bool:
    """Whether each side gave one output in all of its runs."""
    numbers = [block for side in sides for block in side.numbers.values()]
    labels = [column for side in sides for column in side.labels.values()]
    return all(np.array_equal(block, np.broadcast_to(block[0], block.shape), equal_nan=True) for block in numbers) and (
        all((column == column[0]).all() for column in labels)
    )


def _is_read(place: Place, left: Outcomes, right: Outcomes) -> bool:
    """It is no digit or length of a text without a form that is seen again."""
    of_text = _OF_TEXT.fullmatch(place.path)
    if of_text is None:
        return True
    texts, forms = (_together(f"{what} of {of_text[1]}", left, right) for what in ("text", "form"))
    return not _are_single(np.where(forms == ABSENT, texts, forms))


def _together(path: str, left: Outcomes, right: Outcomes) -> Labels:
    return np.concatenate([left.labels_at(path), right.labels_at(path)])


def _are_single(labels: Labels) -> bool:
    """More than half of the runs carry a label that no other run has."""
    counts = Counter(labels.tolist())
    return sum(count for count in counts.values() if count == 1) > len(labels) / 2
