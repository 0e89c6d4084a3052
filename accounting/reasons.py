"""Why bounds of a composition may stay apart: one sentence for each kind that is known from one side only.

>>> from dpledger.accounting.composition import GaussianLaw, Sequence
>>> reasons(Sequence((GaussianLaw(1), ZCDP("0.1"))))
('zcdp and rdp bound the loss from above only: the lower bound leaves them out',)
"""

from __future__ import annotations

from collections.abc import Iterator

from dpledger.accounting import filters
from dpledger.accounting.composition import (
    Composition,
    Converted,
    ExponentialLaw,
    Filtered,
    RandomAllocation,
    SampledWithoutReplacement,
    Shuffled,
    children,
)
from dpledger.accounting.guarantees import RDP, ZCDP, BoundedRange

__all__ = ["reasons"]

_RENYI = "zcdp and rdp bound the loss from above only: the lower bound leaves them out"
_RANGE = "bounded ranges run more than 64 times, or beside others, are bounded by more than is known to be attained"
_DOMINATED = "the pair of {kind} dominates what is released, and no mechanism is known that is as bad"


def reasons(tree: Composition) -> tuple[str, ...]:
    """What keeps the bounds of `tree` apart, whatever the work: nothing where every leaf has an exact pair."""
    return tuple(dict.fromkeys(_found(tree)))


def _found(tree: Composition) -> Iterator[str]:
    match tree:
        case ZCDP() | RDP():
            yield _RENYI
        case BoundedRange() | ExponentialLaw():
            yield _RANGE
        case Filtered(filter=admitting):  # its guarantee is its budget, whatever it admitted
            yield from _found(filters.budget_guarantee(admitting))
            return
        case Converted(to=promise):
            yield from _found(promise)
            return
        case SampledWithoutReplacement(batch=batch, population=population) if batch < population:
            yield _DOMINATED.format(kind=tree.kind)
        case RandomAllocation(steps=several) if several > 1:
            yield _DOMINATED.format(kind=tree.kind)
        case Shuffled(users=users) if users > 1:
            yield _DOMINATED.format(kind=tree.kind)
    for part in children(tree):
        yield from _found(part)
