"""The exponential mechanism: one of many candidates, the likelier the higher its score.

>>> from dpledger.mechanisms.entropy import seeded
>>> best = ExponentialMechanism(candidates=("north", "south", "west"), epsilon=1, sensitivity=1)
>>> best.claim()
BoundedRange(eta=Decimal('1'), kind='bounded_range')
>>> best.release([3, 90, 8], entropy=seeded(1)).value
'south'
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from dpledger.accounting.composition import Composition, ExponentialLaw
from dpledger.accounting.guarantees import BoundedRange
from dpledger.mechanisms.noise import ExponentialWeights
from dpledger.mechanisms.numeric.one_shot import ShortText
from dpledger.mechanisms.protocol import UNSAID
from dpledger.mechanisms.selection.scores import Candidates, ScoredChoice
from dpledger.number_fields import OptionalPositive, Positive, Signed
from dpledger.relations import Relation, Unit
from dpledger.schema import given, record, tag

__all__ = ["ExponentialMechanism"]


@record
class ExponentialMechanism(ScoredChoice):
    """Choose one of `candidates` with probability proportional to e^(epsilon score / (2 sensitivity)), exactly.

    Data are the scores, a number for each candidate, which the caller computed; `Segments` if many in a row share one.
    `candidates`: their names, or how many there are; public. `sensitivity`: how far one unit moves each score, under
    the relation (the caller vouches for it; `justification` says why, in one line). `monotone`: True declares that a
    unit that is added moves all scores in one direction, like counts: then e^(epsilon score / sensitivity), under
    add_remove and zero_out alone. `grid`: a power of two to which scores are rounded; default: 1024 times finer than
    sensitivity and sensitivity / epsilon. A score beyond `bound` counts as the bound, and NaN as `missing`; no value
    raises.

    It costs a bounded range, which composes at about half the cost of the same epsilon: take it for many selections;
    for a single one, `PermuteAndFlip` is never worse.
    Claim: epsilon-bounded range, so epsilon-DP. Source: McSherry-Talwar 2007; Dong-Durfee-Rogers 2020.
    The value is the name of a candidate or, where `candidates` is a number, its place from 0 on.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> best = dpl.ExponentialMechanism(candidates=("north", "south"), epsilon=1, sensitivity=1)
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
    kind: Literal["exponential_mechanism"] = tag(default="exponential_mechanism")

    @property
    def law(self) -> ExponentialWeights:
        """The weights, by whole steps of the grid."""
        return ExponentialWeights(self._plan.exponent)

    def claim(self) -> BoundedRange:
        """eta = epsilon: all losses of two neighbours lie in an interval of this length."""
        return BoundedRange(self.epsilon)

    def parts(self) -> Composition:
        """One leaf of the exponential mechanism."""
        return ExponentialLaw(self.epsilon)
