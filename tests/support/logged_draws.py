"""What a call of `noise.draw` declared, for tests that look at a log of mechanisms that add noise alone."""

from __future__ import annotations

from decimal import Decimal

from dpledger.mechanisms.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    Draw,
    RoundedGaussian,
    RoundedLaplace,
    Sensitivity,
)

__all__ = ["declared", "grid_of"]


def declared(draw: Draw) -> Sensitivity:
    """The sensitivity that was declared."""
    assert draw.sensitivity is not None
    return draw.sensitivity


def grid_of(draw: Draw) -> Decimal:
    """The step of the law that was added."""
    assert isinstance(draw.law, (DiscreteLaplace, DiscreteGaussian, RoundedLaplace, RoundedGaussian))
    return draw.law.grid
