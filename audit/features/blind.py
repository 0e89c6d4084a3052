"""When nothing can be seen: outcomes in which no test could find a fault."""

from __future__ import annotations

from collections import Counter

import numpy as np

from dpledger.audit.features.bank import telling_places
from dpledger.audit.outcomes.structure import Outcomes

__all__ = ["blindness"]


def blindness(left: Outcomes, right: Outcomes) -> str | None:
    """Why nothing can be seen in these runs; None where something can.

    All runs are alike; or no number varies and more than half of the runs carry a label that no other run has."""
    runs = len(left) + len(right)
    if not runs:
        return "there are no runs"
    if telling_places(left, right):
        return None
    paths = sorted({*left.labels, *right.labels})
    together = {path: np.concatenate([left.labels_at(path), right.labels_at(path)]) for path in paths}
    if all((labels == labels[0]).all() for labels in together.values()):
        return "all runs of both sides gave the same output"
    for labels in together.values():
        counts = Counter(labels.tolist())
        if sum(count for count in counts.values() if count == 1) > runs / 2:
            return "more than half of the runs gave an output that no other run gave, and no number in it varies"
    return None
