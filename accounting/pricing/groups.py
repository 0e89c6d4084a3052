"""What several units see together of noise on secret samples: one law, which stands for the group.

>>> from decimal import Decimal
>>> from dpledger.accounting.leaves import GaussianLaw
>>> drawn = Drawn(GaussianLaw(noise_multiplier=1), Poisson(Decimal("0.5")))
>>> exchanged_in_samples(drawn, Relation.REPLACE_ONE).kind
'mixture_of_gaussians'
"""

from __future__ import annotations

from fractions import Fraction

from dpledger.accounting.composition import Group
from dpledger.accounting.kinds import AnyLeaf, rules_of
from dpledger.accounting.laws.draws import Poisson
from dpledger.accounting.pricing.pld import Drawn
from dpledger.errors import CannotCertify
from dpledger.relations import Relation, one_way

__all__ = ["exchanged_in_samples", "grouped_in_samples"]


def exchanged_in_samples(drawn: Drawn, relation: Relation) -> AnyLeaf:
    """What one unit that is exchanged sees of Gaussian noise on a Poisson sample; else CannotCertify. As
    `grouped_in_samples`."""
    return _in_samples(drawn, 1, relation, relation)


def grouped_in_samples(drawn: Drawn, tree: Group, relation: Relation) -> AnyLeaf:
    """What the k units of `tree` see together of Gaussian noise on Poisson samples; else CannotCertify.

    Claim: dominates, and is attained. Source: docs/proofs/mixtures.md, sections 2 and 7.
    Assumes: `require_group`."""
    return _in_samples(drawn, tree.k, tree.relation, relation)


def _in_samples(drawn: Drawn, k: int, inner: Relation, relation: Relation) -> AnyLeaf:
    """k steps of `inner`, which are one of `relation`, or k of it."""
    rules, how = rules_of(drawn.leaf), drawn.how
    squares = rules.pair.squares
    if isinstance(how, Poisson) and inner is not Relation.ADD_REMOVE and not rules.batch.null_is_absence:
        raise CannotCertify(
            f"a Poisson sample under {inner.value} is certified for Gaussian noise only, not for {drawn.leaf.kind}: "
            "state the guarantee of the batch"
        )
    if not isinstance(how, Poisson) or squares is None:
        raise CannotCertify(
            "a group in a secret batch is certified for Gaussian noise on Poisson samples only, not for this "
            f"{drawn.leaf.kind}: state the guarantee of the batch"
        )
    one = Fraction(*squares.ratio(drawn.leaf, inner)) / (1 if one_way(inner) else 4)
    found: AnyLeaf
    if inner is not relation:  # one that goes and one that comes, or a label that is exchanged as its record may be
        found = squares.exchanged(one, Fraction(how.rate), 1)
    elif one_way(inner):
        found = squares.in_samples(one, Fraction(how.rate), k)
    else:
        found = squares.exchanged(one, Fraction(how.rate), k)
    return found
