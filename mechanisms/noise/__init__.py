"""All functions that draw noise, exact and in one log: `draw` adds a declared law to whole numbers, `happens`,
`happens_each` and `sampled` toss coins, `uniform` deals whole numbers, `choose` picks one of many by their scores,
`RisingPlaces` several of one column, `respond` answers at random, `chain` answers ever more precisely."""

from dpledger.mechanisms.noise.api import draw
from dpledger.mechanisms.noise.bernoulli import Positions, happens, happens_each, sampled, uniform
from dpledger.mechanisms.noise.chains import NoiseChain, chain
from dpledger.mechanisms.noise.choices import choose, exponent_for, respond
from dpledger.mechanisms.noise.laws import (
    AnyLaw,
    Bernoulli,
    DiscreteGaussian,
    DiscreteLaplace,
    ExpMinus,
    ExponentialWeights,
    Law,
    PermuteAndFlipChoice,
    RandomizedAnswer,
    Refinement,
    RoundedGaussian,
    RoundedLaplace,
    Sensitivity,
    Uniform,
    Weighted,
    half_width,
)
from dpledger.mechanisms.noise.randomness_log import Draw, answering, recording, replaying, scripted, unrecorded
from dpledger.mechanisms.noise.rising import RisingPlaces

__all__ = [
    "AnyLaw",
    "Bernoulli",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Draw",
    "ExpMinus",
    "ExponentialWeights",
    "Law",
    "NoiseChain",
    "PermuteAndFlipChoice",
    "Positions",
    "RandomizedAnswer",
    "Refinement",
    "RisingPlaces",
    "RoundedGaussian",
    "RoundedLaplace",
    "Sensitivity",
    "Uniform",
    "Weighted",
    "answering",
    "chain",
    "choose",
    "draw",
    "exponent_for",
    "half_width",
    "happens",
    "happens_each",
    "recording",
    "replaying",
    "respond",
    "sampled",
    "scripted",
    "uniform",
    "unrecorded",
]
