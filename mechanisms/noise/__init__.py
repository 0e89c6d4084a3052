"""Noise has one door, `draw`: exact samplers of a few declared laws on a stated grid."""

from dpledger.mechanisms.noise.door import Draw, draw, recording, replaying, unrecorded
from dpledger.mechanisms.noise.laws import (
    DiscreteGaussian,
    DiscreteLaplace,
    Law,
    RoundedGaussian,
    RoundedLaplace,
    Sensitivity,
    half_width,
)

__all__ = [
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Draw",
    "Law",
    "RoundedGaussian",
    "RoundedLaplace",
    "Sensitivity",
    "draw",
    "half_width",
    "recording",
    "replaying",
    "unrecorded",
]
