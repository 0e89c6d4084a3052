"""Many distinct losses of one kind as one, where their kind has a way to (`Loss.bundled`)."""

from __future__ import annotations

import functools
from collections.abc import Hashable

from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.laws.law import Loss

__all__ = ["bundled"]


@functools.lru_cache(maxsize=16)
def bundled(composed: Composed) -> Composed:
    """The same composition, its losses of one kind as one where they are many."""
    alike: dict[Hashable, list[tuple[Loss, int]]] = {}
    whole: list[tuple[Loss, int]] = []
    for loss, count in composed.parts:
        if loss.kin is None:
            whole.append((loss, count))
        else:
            alike.setdefault(loss.kin, []).append((loss, count))
    for some in alike.values():
        bundles = some[0][0].bundled(some)
        whole.extend(some if bundles is None else [(bundle, 1) for bundle in bundles])
    return composed if len(whole) == len(composed.parts) else Composed(tuple(whole))
