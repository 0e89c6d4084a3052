"""The laws that a composition tree holds as leaves, each from its family, and the promise of a mechanism whose loss
depends on what came out; `Leaf` is the union of them and of the declared guarantees.

A law names no relation: `epsilon`, `scale` and `sensitivity` are stated under the relation beside the tree, a noise
multiplier per unit's contribution (docs/adr/0003). Declared guarantees, the other leaves, are in `guarantees`: those
can be claimed and be a budget too, which `ExPostDP` cannot.
"""

from __future__ import annotations

from typing import TypeAlias

from dpledger.accounting.families.bounded_range.leaf import ExponentialLaw
from dpledger.accounting.families.declared.leaf import ExPostDP, ExPostOutcome, OffsetZCDP, PmfPair
from dpledger.accounting.families.discrete.leaf import DiscreteGaussianLaw, DiscreteLaplaceLaw
from dpledger.accounting.families.gaussian.leaf import (
    GaussianLaw,
    GaussianWithReplacementLaw,
    MixtureOfGaussiansLaw,
    TruncatedSampledGaussianLaw,
)
from dpledger.accounting.families.laplace.leaf import LaplaceLaw
from dpledger.accounting.families.permute_and_flip.leaf import PermuteAndFlipLaw
from dpledger.accounting.families.randomized_response.leaf import RandomizedResponseLaw
from dpledger.accounting.families.sparse_vector.leaf import SparseVectorLaw, SparseVectorOutcome
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, BoundedRange, PrivacyCurve, PureDP

__all__ = [
    "DiscreteGaussianLaw",
    "DiscreteLaplaceLaw",
    "ExPostDP",
    "ExPostOutcome",
    "ExponentialLaw",
    "GaussianLaw",
    "GaussianWithReplacementLaw",
    "LaplaceLaw",
    "Leaf",
    "MixtureOfGaussiansLaw",
    "OffsetZCDP",
    "PermuteAndFlipLaw",
    "PmfPair",
    "RandomizedResponseLaw",
    "SparseVectorLaw",
    "SparseVectorOutcome",
    "TruncatedSampledGaussianLaw",
]

Leaf: TypeAlias = (
    PureDP
    | ApproxDP
    | ZCDP
    | GDP
    | RDP
    | BoundedRange
    | PrivacyCurve
    | LaplaceLaw
    | GaussianLaw
    | MixtureOfGaussiansLaw
    | TruncatedSampledGaussianLaw
    | GaussianWithReplacementLaw
    | DiscreteLaplaceLaw
    | DiscreteGaussianLaw
    | RandomizedResponseLaw
    | ExponentialLaw
    | PermuteAndFlipLaw
    | PmfPair
    | OffsetZCDP
    | SparseVectorLaw
    | ExPostDP
)
"""The closed union of leaves; what each says about itself stands in `kinds`."""
