"""The kinds of leaves, each with one object of rules: what a leaf costs, what it shows, how it settles.

A folder a family; `families.leaf_rules` says which facts a kind must state, and `rules_of` finds them. The table is
checked against the union `leaves.Leaf` when this is imported: a kind of the union without rules, and rules of a
kind that is not in it, are a TypeError.

>>> from dpledger.accounting.families.laplace.leaf import LaplaceLaw
>>> rules_of(LaplaceLaw(1)).price.loss_fields
frozenset({'epsilon'})
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias, get_args

from dpledger.accounting.families.bounded_range.rules import BOUNDED_RANGE, EXPONENTIAL
from dpledger.accounting.families.declared.ex_post import EX_POST_DP
from dpledger.accounting.families.declared.pmf import PMF
from dpledger.accounting.families.declared.privacy_curve import PRIVACY_CURVE
from dpledger.accounting.families.declared.renyi import OFFSET_ZCDP, RDP_RULES, ZCDP_RULES
from dpledger.accounting.families.declared.worst_case import APPROX_DP, PURE_DP
from dpledger.accounting.families.discrete.gaussian import DISCRETE_GAUSSIAN
from dpledger.accounting.families.discrete.laplace import DISCRETE_LAPLACE
from dpledger.accounting.families.gaussian.mixtures import (
    JOINT_MIXTURE,
    MIXTURE_OF_GAUSSIANS,
    OPPOSED_MIXTURE,
    JointMixture,
    OpposedMixture,
)
from dpledger.accounting.families.gaussian.rules import GAUSSIAN, GDP_RULES, JOINT_GAUSSIAN, JointGaussian
from dpledger.accounting.families.gaussian.truncated import TRUNCATED_SAMPLED_GAUSSIAN
from dpledger.accounting.families.gaussian.with_replacement import GAUSSIAN_WITH_REPLACEMENT
from dpledger.accounting.families.laplace.rules import LAPLACE
from dpledger.accounting.families.leaf_rules import ExPost, LeafRules
from dpledger.accounting.families.permute_and_flip.rules import PERMUTE_AND_FLIP
from dpledger.accounting.families.randomized_response.rules import RANDOMIZED_RESPONSE
from dpledger.accounting.families.sparse_vector.rules import SPARSE_VECTOR
from dpledger.accounting.leaves import Leaf

__all__ = [
    "EVERY_KIND",
    "AnyLeaf",
    "ExPost",
    "JointGaussian",
    "JointMixture",
    "LeafRules",
    "OpposedMixture",
    "rules_of",
    "table",
]

AnyLeaf: TypeAlias = Leaf | JointGaussian | JointMixture | OpposedMixture
"""A leaf of a tree, or what several of them are together, or one of them to a group."""


def table(*every: LeafRules[Any], leaves: frozenset[type]) -> Mapping[type, LeafRules[Any]]:
    """The rules by kind. TypeError unless there is exactly one object of rules for each of `leaves`, and no field is
    noise in one kind and loss in another: a document says "free" of a field by its name."""
    found = {rules.kind: rules for rules in every}
    missing, unknown = leaves - found.keys(), found.keys() - leaves
    if missing or unknown or len(found) < len(every):
        names = ", ".join(sorted(kind.__name__ for kind in missing | unknown)) or "a kind stated twice"
        raise TypeError(f"accounting/kinds and the union leaves.Leaf differ in: {names}")
    noise = {name for rules in every for name in rules.price.noise_fields}
    loss = {name for rules in every for name in rules.price.loss_fields}
    if noise & loss:
        raise TypeError(f"noise in one kind and loss in another: {', '.join(sorted(noise & loss))}")
    return MappingProxyType(found)


EVERY_KIND: Final = table(
    PURE_DP,
    APPROX_DP,
    ZCDP_RULES,
    GDP_RULES,
    RDP_RULES,
    BOUNDED_RANGE,
    PRIVACY_CURVE,
    LAPLACE,
    GAUSSIAN,
    MIXTURE_OF_GAUSSIANS,
    TRUNCATED_SAMPLED_GAUSSIAN,
    GAUSSIAN_WITH_REPLACEMENT,
    DISCRETE_LAPLACE,
    DISCRETE_GAUSSIAN,
    RANDOMIZED_RESPONSE,
    EXPONENTIAL,
    PERMUTE_AND_FLIP,
    PMF,
    OFFSET_ZCDP,
    SPARSE_VECTOR,
    EX_POST_DP,
    JOINT_GAUSSIAN,
    JOINT_MIXTURE,
    OPPOSED_MIXTURE,
    leaves=frozenset({*get_args(Leaf), JointGaussian, JointMixture, OpposedMixture}),
)


def rules_of(leaf: AnyLeaf) -> LeafRules[Any]:
    """What the kind of `leaf` says about itself."""
    return EVERY_KIND[type(leaf)]
