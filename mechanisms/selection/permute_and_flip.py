"""Permute-and-flip: one of many candidates, the one whose score is the highest once exponential noise is added.

>>> from dpledger.mechanisms.entropy import seeded
>>> best = PermuteAndFlip(candidates=("north", "south", "west"), epsilon=1, sensitivity=1)
>>> best.claim()
PureDP(epsilon=Decimal('1'), kind='pure_dp')
>>> best.release([3, 90, 8], entropy=seeded(1)).value
'south'
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from dpledger.accounting.composition import Composition, PermuteAndFlipLaw
from dpledger.accounting.guarantees import PureDP
from dpledger.mechanisms import noise
from dpledger.mechanisms.numeric.one_shot import ShortText
from dpledger.mechanisms.protocol import UNSAID
from dpledger.mechanisms.selection.scores import Candidates, ScoredChoice
from dpledger.number_fields import OptionalPositive, Positive, Signed
from dpledger.relations import Relation, Unit
from dpledger.schema import given, record, tag

__all__ = ["PermuteAndFlip"]


@record
class PermuteAndFlip(ScoredChoice):
    """Choose the one of `candidates` with the highest score + Exp(2 sensitivity / epsilon), exactly. The same as to go
    through them in random order and take one with probability e^(epsilon (score - best) / (2 sensitivity)).

    Data and parameters as of `ExponentialMechanism`. A candidate's probability is at most its weight against the best,
    so that every bound on how far the chosen one is below the best holds for it too, and on average it is nearer. Its
    losses have no range of epsilon, and compose as those of Laplace noise do: where many selections are made,
    exponential weights cost less.
    Claim: epsilon-DP, and dominated by Laplace noise of that epsilon. Source: McKenna-Sheldon 2020, Theorems 1 and 2;
    Ding et al. 2021; docs/proofs/noise.md, section 9.
    The value is as of `ExponentialMechanism`.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> best = dpl.PermuteAndFlip(candidates=("north", "south"), epsilon=1, sensitivity=1)
    >>> best.release([8, 90], entropy=seeded(1)).value
    'south'
    """

    candidates: Candidates
    epsilon: Positive
    sensitivity: Positive
    monotone: Annotated[bool, Field(strict=True)] = given(default=False)
    grid: OptionalPositive = given(default=None)
    bound: Positive = given(default=2**53)
    missing: Signed = given(default=0)
    justification: ShortText = given(default=UNSAID)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["permute_and_flip"] = tag(default="permute_and_flip")

    @property
    def law(self) -> noise.PermuteAndFlipChoice:
        """The race, by whole steps of the grid."""
        return noise.PermuteAndFlipChoice(self._plan.exponent)

    def claim(self) -> PureDP:
        """epsilon."""
        return PureDP(self.epsilon)

    def parts(self) -> Composition:
        """Its law, which Laplace noise dominates: it composes to less than its claim."""
        return PermuteAndFlipLaw(self.epsilon)
