"""Profiles that need no contour: those in closed form, and sums over outcomes where these are few."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.engine.enumeration import enumerated, ratios
from dpledger.accounting.laws.law import ClosedForm, Deltas, ListedLosses

__all__ = ["Direct", "closed_form", "direct_deltas", "outcomes_of"]

LEAST_LOG_DELTA = -690.0  # of outcomes that are listed for every delta


@dataclass(frozen=True, slots=True)
class Direct:
    """The profile of a finite loss without a contour. `is_sharp`: nothing else could be narrower. `one_by_one`: as
    `ClosedForm`."""

    deltas: Deltas
    is_sharp: bool
    one_by_one: bool


def closed_form(composed: Composed) -> ClosedForm | None:
    """The profile of the finite loss in closed form: of one run, and of losses that are one together."""
    whole = composed.parts[0][0].joined(composed.parts)
    return None if whole is None else whole.closed


def direct_deltas(composed: Composed) -> Direct | None:
    """Where the finite loss has a profile in closed form or as a sum over few outcomes; None: a contour answers."""
    closed = closed_form(composed)
    if closed is not None:
        return Direct(closed.deltas, is_sharp=True, one_by_one=closed.one_by_one)
    outcomes = outcomes_of(composed, LEAST_LOG_DELTA)
    if outcomes is None:
        return None
    deltas = functools.partial(ratios, outcomes, log_scale=0.0)
    return Direct(deltas, is_sharp=outcomes.log_beyond == float("-inf"), one_by_one=False)


def outcomes_of(composed: Composed, log_delta: float) -> ListedLosses | None:
    """The outcomes of a finite loss, but for a mass that is small beside e^log_delta; None where they are too many."""
    if len(composed.parts) == 1:
        ((loss, count),) = composed.parts
        counted = loss.counted(count, log_delta)
        if counted is not None:
            return counted
    return enumerated(composed.parts)
