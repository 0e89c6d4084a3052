"""Why bounds of a composition may stay apart: one sentence for each kind that is known from one side only.

>>> from dpledger.accounting.guarantees import ZCDP
>>> from dpledger.accounting.leaves import GaussianLaw
>>> reasons(Sequence((GaussianLaw(1), ZCDP("0.1"))))
('zcdp and rdp bound the loss from above only: the lower bound leaves them out',)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from dpledger.accounting.composition import (
    Chain,
    Composition,
    Converted,
    Filtered,
    Group,
    Leaf,
    Node,
    Parallel,
    PoissonSampled,
    PostProcessed,
    RandomAllocation,
    Repeated,
    SampledWithoutReplacement,
    Selected,
    Sequence,
    Shuffled,
    children,
    leaves,
)
from dpledger.accounting.kinds import rules_of
from dpledger.accounting.pricing.allowances import promised

__all__ = ["reasons"]

_DOMINATED = "the pair of {kind} bounds what is released, but no known mechanism reaches it"
_ANY_ORDER = (
    "different bounded ranges may run in any order, chosen by what came out. The bounds are closer if the order of the "
    'document was fixed beforehand (order="given", --order given), or with more work (effort=12, --effort 12)'
)


def reasons(tree: Composition, *, in_any_order: bool = True) -> tuple[str, ...]:
    """What keeps the bounds of `tree` apart, whatever the work: nothing where every leaf has an exact pair.
    `in_any_order`: whether its bounded ranges were read so."""
    ranges = {envelope.eta(leaf) for leaf in leaves(tree) if (envelope := rules_of(leaf).pair.envelope) is not None}
    several = (_ANY_ORDER,) if in_any_order and len(ranges) > 1 else ()
    return tuple(dict.fromkeys((*_found(tree), *several)))


def _found(tree: Composition) -> Iterator[str]:
    if isinstance(tree, Leaf):
        reason = rules_of(tree).pair.reason
        if reason is not None:
            yield reason
        return
    if _is_dominated(tree):
        yield _DOMINATED.format(kind=tree.kind)
    for part in _counted(tree):
        yield from _found(part)


def _is_dominated(node: Node) -> bool:
    """Whether what the node shows is known by a pair that dominates it only."""
    match node:
        case SampledWithoutReplacement(batch=batch, population=population):
            return batch < population
        case RandomAllocation(steps=several):
            return several > 1
        case Shuffled(users=users):
            return users > 1
        case Sequence() | Repeated() | PoissonSampled() | Group() | Parallel() | PostProcessed():
            return False
        case Selected():
            return True
        case Converted() | Filtered() | Chain():
            return False
        case _:
            assert_never(node)


def _counted(node: Node) -> tuple[Composition, ...]:
    """What the guarantee of a node is made of: its parts, or what it promises, whatever is below."""
    match node:
        case Filtered(filter=admitting):
            return (promised(admitting),)
        case Converted(to=promise):
            return (promise,)
        case Sequence() | Repeated() | PoissonSampled() | Group() | Parallel() | PostProcessed():
            return children(node)
        case SampledWithoutReplacement() | RandomAllocation() | Shuffled() | Selected() | Chain():
            return children(node)
        case _:
            assert_never(node)
