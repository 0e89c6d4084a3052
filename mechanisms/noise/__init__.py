"""Noise has few doors, all exact and on one tape: `draw` adds a declared law to whole numbers, `happens` and `sampled`
toss coins."""

from dpledger.mechanisms.noise.coins import Positions, happens, sampled
from dpledger.mechanisms.noise.door import draw
from dpledger.mechanisms.noise.laws import (
    AnyLaw,
    Bernoulli,
    DiscreteGaussian,
    DiscreteLaplace,
    ExpMinus,
    Law,
    RoundedGaussian,
    RoundedLaplace,
    Sensitivity,
    half_width,
)
from dpledger.mechanisms.noise.tape import Draw, recording, replaying, unrecorded

__all__ = [
    "AnyLaw",
    "Bernoulli",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Draw",
    "ExpMinus",
    "Law",
    "Positions",
    "RoundedGaussian",
    "RoundedLaplace",
    "Sensitivity",
    "draw",
    "half_width",
    "happens",
    "recording",
    "replaying",
    "sampled",
    "unrecorded",
]
