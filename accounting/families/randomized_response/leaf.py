"""Randomised response: the law that a composition tree holds."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from dpledger.number_fields import Exact, Whole
from dpledger.schema import given, record, tag

__all__ = ["RandomizedResponseLaw"]

Categories = Annotated[Whole, Field(strict=True, ge=2, le=10**12)]
"""How many values a randomised answer chooses from: 2 to 10^12."""


@record
class RandomizedResponseLaw:
    """One of `k` values is published: the true one with probability e^epsilon / (e^epsilon + k - 1), each other one
    with probability 1 / (e^epsilon + k - 1). Warner 1965; Kairouz-Bonawitz-Ramage 2016.

    A neighbour may have any other true value.

    >>> answer = dpl.RandomizedResponseLaw(epsilon=1, k=4)
    >>> round(dpl.compose(answer, relation="replace_one").epsilon(0).upper, 4)
    1.0
    """

    epsilon: Exact
    k: Categories = given(default=2)
    kind: Literal["randomized_response"] = tag(default="randomized_response")
