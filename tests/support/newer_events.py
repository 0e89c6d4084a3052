"""Kinds of events that dp_accounting has on its main branch and not in 0.6: the same names and fields."""

from __future__ import annotations

from typing import Any

import attr
import dp_accounting

__all__ = ["NEWER", "event"]


@attr.s(frozen=True, slots=True, auto_attribs=True)
class EpsilonDeltaDpEvent(dp_accounting.DpEvent):  # type: ignore[misc]
    epsilon: float
    delta: float


@attr.s(frozen=True, slots=True, auto_attribs=True)
class DiscreteGaussianDpEvent(dp_accounting.DpEvent):  # type: ignore[misc]
    sigma: float
    sensitivity: float = 1.0
    dimension: int | None = None


@attr.s(frozen=True, slots=True, auto_attribs=True)
class ExponentialMechanismDpEvent(dp_accounting.DpEvent):  # type: ignore[misc]
    epsilon: float


@attr.s(frozen=True, slots=True, auto_attribs=True)
class PermuteAndFlipDpEvent(dp_accounting.DpEvent):  # type: ignore[misc]
    epsilon: float


NEWER = {
    kind.__name__: kind
    for kind in (EpsilonDeltaDpEvent, DiscreteGaussianDpEvent, ExponentialMechanismDpEvent, PermuteAndFlipDpEvent)
}


def event(name: str, *values: Any) -> Any:
    """An event of this kind: the library's, or the one here that a newer version has."""
    return (getattr(dp_accounting.dp_event, name, None) or NEWER[name])(*values)
