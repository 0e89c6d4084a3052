"""The bank: which scores past runs suggest."""

from __future__ import annotations

from dpledger.audit.features.coordinates import Difference, Length, Total, Value
from dpledger.audit.features.score import Place, Score
from dpledger.audit.outcomes.structure import Outcomes

__all__ = ["bank"]


def bank(left: Outcomes, right: Outcomes, data: tuple[object, object] | None = None) -> tuple[Score, ...]:
    """The scores that two windows of past runs suggest, primary ones first."""
    scores: list[Score] = []
    widths: dict[str, int] = {}
    for side in (left, right):
        for path, table in side.numbers.items():
            widths[path] = max(widths.get(path, 0), table.shape[1])
    places = [Place(path, index, width) for path, width in sorted(widths.items()) for index in range(min(width, 64))]
    scores.extend(Value(place, first=len(places) <= 4) for place in places)
    wide = [path for path, width in widths.items() if width > 1]
    scores.extend(Total((path,)) for path in wide)
    scores.extend(Length((path,)) for path in wide)
    scores.extend(Difference(one, other) for one, other in zip(places, places[1:], strict=False))
    return tuple(sorted(scores, key=lambda score: not score.primary))[:200]
