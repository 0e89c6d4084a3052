"""How a promise may fail: a part of its delta with the cause, or the accuracy that was promised beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import Field

from dpledger.number_fields import OpenProbability
from dpledger.schema import record, tag

__all__ = ["AccuracyFailure", "Failure", "PrivacyFailure"]


@record
class PrivacyFailure:
    """A part of a claim's delta and its cause; the parts of one mechanism add up to the delta of its claim."""

    delta: OpenProbability
    cause: Literal["approximation", "composition", "stability", "tail_conversion", "time_uniform_boundary", "numeric"]
    kind: Literal["privacy"] = tag(default="privacy")


@record
class AccuracyFailure:
    """With probability at most beta the stated utility fails. Never part of a delta."""

    beta: OpenProbability
    statement: str
    kind: Literal["accuracy"] = tag(default="accuracy")


Failure: TypeAlias = PrivacyFailure | AccuracyFailure

if not TYPE_CHECKING:
    Failure = Annotated[Failure, Field(discriminator="kind")]
