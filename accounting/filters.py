"""Filters: the rule by which a scope admits requests while parameters are chosen adaptively (spec/expost.md 1.4).

A filter is constants, fixed when its scope opens. It turns the cost of a request into *coordinates* (what is summed and
written on the wire) and says whether sums of coordinates are admitted. It has no state of its own.

    F1 `pure`    epsilon                                    sum of pure prices <= epsilon
    F2 `basic`   epsilon, delta_sum                         that, and sum of deltas <= delta_sum
    F7 `mixed`   epsilon, delta_boundary, delta_sum,        pure + rdp + offset <= epsilon,
                 order_minus_one, offset                    and sum of deltas <= delta_sum
    F8 `either`  as F7                                      F2's test or F7's, both accounts kept side by side
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import Field

from dpledger.decimals import Exact, OpenProbability, Positive, Probability
from dpledger.schema import record, tag

__all__ = ["BasicFilter", "Coordinates", "EitherFilter", "Filter", "MixedFilter", "PureFilter"]

Coordinates = Mapping[str, Decimal]
"""A filter's sums by name. A coordinate that is absent has no price: as a sum it counts as infinite."""


@record
class PureFilter:
    """F1. Guarantee: epsilon-DP. Source: Rogers-Roth-Ullman-Vadhan 2016; spec/expost.md 1.2 theorem 1."""

    epsilon: Positive
    kind: Literal["pure"] = tag(default="pure")


@record
class BasicFilter:
    """F2. Guarantee: (epsilon, delta_sum)-DP. Source: Rogers et al. 2016, Lemma 3.5; spec/expost.md 1.2 theorem 1."""

    epsilon: Positive
    delta_sum: Probability
    kind: Literal["basic"] = tag(default="basic")


@record
class MixedFilter:
    """F7. Guarantee: (epsilon, delta_boundary + delta_sum)-DP. Source: spec/expost.md 1.4, proof of F7."""

    epsilon: Positive
    delta_boundary: OpenProbability
    delta_sum: Probability
    order_minus_one: Positive
    offset: Exact
    kind: Literal["mixed"] = tag(default="mixed")


@record
class EitherFilter:
    """F8. Guarantee: (epsilon, delta_boundary + delta_sum)-DP. Source: spec/expost.md 1.4, proof of F8."""

    epsilon: Positive
    delta_boundary: OpenProbability
    delta_sum: Probability
    order_minus_one: Positive
    offset: Exact
    kind: Literal["either"] = tag(default="either")


Filter: TypeAlias = PureFilter | BasicFilter | MixedFilter | EitherFilter

if not TYPE_CHECKING:
    Filter = Annotated[Filter, Field(discriminator="kind")]
