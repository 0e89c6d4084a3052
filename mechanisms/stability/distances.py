"""Under which relation a distance was counted, and what that makes of a guarantee.

A guarantee stands in the relation of its distance. Where the scope has another, of whose steps each is a few of those,
`group` says so in the parts; nothing converts silently.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, TypeAlias

from pydantic import StringConstraints

from dpledger.accounting.arithmetic.prices import group_delta
from dpledger.accounting.composition import Composition, Group
from dpledger.accounting.guarantees import ApproxDP, Failure, PrivacyFailure
from dpledger.decimals import multiply, subtract
from dpledger.errors import InfeasiblePlan, RelationError
from dpledger.relations import Relation

__all__ = ["Justification", "grouped", "grouped_claim", "grouped_failures", "steps_between"]

Justification: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=500)]
"""One line that says why one unit moves a distance by no more than one, and a value only at distance 0."""


def steps_between(inner: Relation | None, outer: Relation | None) -> int | None:
    """How many steps of the distance's relation one of the scope's is; None where they are the same, or open.
    RelationError where it is not known to be any number."""
    match inner, outer:
        case (None, _) | (_, None):
            return None
        case own, others if own is others:
            return None
        case ((Relation.ADD_REMOVE | Relation.ZERO_OUT), Relation.REPLACE_ONE):
            return 2
        case Relation.REPLACE_ONE, Relation.LABEL_FLIP:
            return 1
        case _:
            raise RelationError(
                f"the distance was counted under {inner.value}, the scope is {outer.value}: count it under the "
                "scope's, or under one of which a step of the scope's is known to be one or two"
            )


def grouped(parts: Composition, k: int | None, inner: Relation | None) -> Composition:
    """The parts, in a group where the scope's step is k of the distance's."""
    return parts if k is None or inner is None else Group(parts, k=k, relation=inner)


def grouped_claim(epsilon: Decimal, delta: Decimal, k: int | None) -> ApproxDP:
    """What (epsilon, delta) comes to for k steps. Source: Vadhan 2017, Lemma 2.2. InfeasiblePlan where no delta below 1
    is left."""
    return ApproxDP(epsilon, delta) if k is None else ApproxDP(multiply(epsilon, k), _delta(epsilon, delta, k))


def grouped_failures(
    epsilon: Decimal, delta: Decimal, failures: tuple[PrivacyFailure, ...], k: int | None
) -> tuple[Failure, ...]:
    """The causes for k steps, which add up to the delta of `grouped_claim`: each but the first grows alone."""
    if k is None or not failures:
        return failures
    first, *others = failures
    grown = tuple(PrivacyFailure(_delta(epsilon, one.delta, k), one.cause) for one in others)
    rest = _delta(epsilon, delta, k)
    for one in grown:
        rest = subtract(rest, one.delta)
    return (PrivacyFailure(rest, first.cause), *grown)


def _delta(epsilon: Decimal, delta: Decimal, k: int) -> Decimal:
    found = group_delta(epsilon, delta, k)
    if found is None:
        raise InfeasiblePlan(f"{k} steps at epsilon {epsilon} and delta {delta} leave no delta below 1")
    return found
