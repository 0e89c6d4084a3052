"""What a leaf is for several steps of its neighbouring relation at once: another leaf, under any relation.

Laplace, Gaussian, on the integers too   the shift is k times as long
randomised response                      the same: its pair is that of any two values
bounded range                            k eta: the losses of a path of k steps add up
a declared guarantee                     its group privacy: k epsilon, k mu, k^2 rho
"""

from __future__ import annotations

from decimal import Decimal
from typing import NoReturn, assert_never

from dpledger.accounting.composition import (
    DiscreteGaussianLaw,
    DiscreteLaplaceLaw,
    ExponentialLaw,
    GaussianLaw,
    LaplaceLaw,
    PmfPair,
    RandomizedResponseLaw,
    SparseVectorLaw,
)
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, BoundedRange, PrivacyCurve, PureDP
from dpledger.accounting.laws.draws import JointGaussian, Leaf, mu_squared_of
from dpledger.accounting.prices import group_delta
from dpledger.accounting.sparse_vectors.losses import certify
from dpledger.decimals import multiply
from dpledger.errors import CannotCertify
from dpledger.relations import Relation

__all__ = ["grouped"]


def grouped(leaf: Leaf, k: int, relation: Relation) -> Leaf:
    """The leaf for `k` steps of `relation`, the one that `leaf` is stated under.

    Claim: dominates `leaf` on datasets k steps apart. Source: Vadhan 2017, Lemma 2.2 (epsilon, delta);
    Bun-Steinke 2016, Proposition 1.9 (zCDP); Dong-Roth-Su 2022, Theorem 2.14 (GDP); docs/proofs/engine.md, section 7
    (longer shifts).
    """
    if k == 1 and not isinstance(leaf, GaussianLaw):
        return leaf
    match leaf:
        case GaussianLaw() | GDP() | JointGaussian():
            return JointGaussian(mu_squared_of(leaf, relation) * k * k)
        case LaplaceLaw(epsilon=epsilon):
            return LaplaceLaw(multiply(epsilon, k))
        case DiscreteLaplaceLaw(scale=scale, sensitivity=sensitivity):
            return DiscreteLaplaceLaw(scale, Decimal(int(sensitivity) * k)) if int(sensitivity) else PureDP(0)
        case DiscreteGaussianLaw(sigma=sigma, sensitivity=sensitivity):
            return DiscreteGaussianLaw(sigma, multiply(sensitivity, k))
        case RandomizedResponseLaw():
            return leaf
        case PureDP(epsilon=epsilon):
            return PureDP(multiply(epsilon, k))
        case BoundedRange(eta=eta) | ExponentialLaw(epsilon=eta):
            return BoundedRange(multiply(eta, k))
        case ApproxDP(epsilon=epsilon, delta=delta):
            return _approximate(epsilon, delta, k)
        case SparseVectorLaw(epsilon=epsilon, delta=delta):
            certify(leaf)
            return _approximate(epsilon, delta, k)
        case ZCDP(rho=rho, delta=delta):
            return ZCDP(multiply(rho, k * k)) if not delta else _refused(leaf, k)
        case RDP() | PmfPair() | PrivacyCurve():
            return _refused(leaf, k)
        case _:
            assert_never(leaf)


def _refused(leaf: Leaf, k: int) -> NoReturn:
    raise CannotCertify(f"no theorem gives this {leaf.kind} to a group of {k}")


def _approximate(epsilon: Decimal, delta: Decimal, k: int) -> ApproxDP:
    larger = group_delta(epsilon, delta, k)
    if larger is None:
        raise CannotCertify(f"a group of {k} has a delta of 1 or more")
    return ApproxDP(multiply(epsilon, k), larger)
