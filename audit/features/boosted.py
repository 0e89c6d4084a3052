"""One learned score: boosted trees on the numbers and kinds of an outcome, for faults that no single score sees."""

from __future__ import annotations

import hashlib
import pickle
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpledger.audit.features import telling
from dpledger.audit.features.bank import telling_labels, telling_places, window
from dpledger.audit.features.cells import Label
from dpledger.audit.features.score import MOST_CATEGORIES, Number, Place, table
from dpledger.audit.outcomes.structure import Floats, Outcomes

__all__ = ["Boosted", "learned"]

FEWEST_RUNS = 64  # of each side
MOST_KINDS = 16  # paths whose kinds are read
TREES = 40
LEAVES = 8
RATE = 0.15


@dataclass(frozen=True, slots=True)
class Boosted(Number):
    """The log odds of the side by a classifier of scikit-learn. `digest`: of the classifier, by which it is told from
    others."""

    digest: str
    places: tuple[Place, ...]
    kinds: tuple[Label, ...]
    model: Any = field(compare=False, repr=False)

    @property
    def fitted(self) -> str:
        return "trees"

    def of(self, outcomes: Outcomes) -> Floats:
        if not len(outcomes):
            return np.empty(0)
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1):
            odds: Floats = self.model.decision_function(_features(outcomes, self.places, self.kinds))
        return odds

    @property
    def words(self) -> str:
        return f"boosted trees of {len(self.places)} numbers and {len(self.kinds)} kinds"


def learned(left: Outcomes, right: Outcomes) -> Boosted | None:
    """A classifier of the side, trained on these past runs; the latest 4,096 of each side say which numbers are read:
    at most 64. Deterministic. None where scikit-learn is missing, there are fewer than 64 runs of a side, or nothing to
    learn from."""
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier  # the extra `audit`; half a second
        from threadpoolctl import threadpool_limits
    except ImportError:
        return None
    ours, theirs = window(left), window(right)
    if min(len(ours), len(theirs)) < FEWEST_RUNS:
        return None
    places, kinds = telling_places(ours, theirs), _kinds(ours, theirs)
    if not places and not kinds:
        return None
    rows = np.concatenate([_features(side, places, kinds) for side in (left, right)])
    sides = np.repeat([1, 0], [len(left), len(right)])
    model = HistGradientBoostingClassifier(
        max_iter=TREES, max_leaf_nodes=LEAVES, learning_rate=RATE, early_stopping=False, random_state=0
    )
    with threadpool_limits(1):  # workers share the processors; threads that wait for each other take seconds
        model.fit(rows, sides)
    digest = hashlib.sha256(pickle.dumps((rows.tobytes(), sides.tobytes(), places, kinds))).hexdigest()[:16]
    return Boosted(digest, places, kinds, model)


def _kinds(left: Outcomes, right: Outcomes) -> tuple[Label, ...]:
    """The labels that are few and vary: all up to 16, else those that differ most, in their order."""
    found = []
    for path in sorted(telling_labels(left, right)):
        labels = sorted({*left.labels_at(path), *right.labels_at(path)})
        if 1 < len(labels) < MOST_CATEGORIES:
            found.append(Label(path, tuple(labels)))
    if len(found) > MOST_KINDS:
        ranks = {kind: telling.of_cells(kind.of(left), kind.of(right), kind.categories) for kind in found}
        chosen = set(sorted(found, key=lambda kind: -ranks[kind])[:MOST_KINDS])
        found = [kind for kind in found if kind in chosen]
    return tuple(found)


def _features(outcomes: Outcomes, places: tuple[Place, ...], kinds: tuple[Label, ...]) -> Floats:
    numbers = [np.clip(table(outcomes, places), -1e300, 1e300)] if places else []
    return np.concatenate([*numbers, *(kind.of(outcomes).reshape(-1, 1) for kind in kinds)], axis=1)
