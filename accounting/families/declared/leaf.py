"""What somebody declares beside a guarantee: a pair of distributions, and a bound that depends on what came out.

>>> PmfPair(left=("0.75", "0.25"), right=("0.25", "0.75")).kind
'pmf'
>>> PmfPair(left=("0.75", "0.2"), right=("0.25", "0.75"))
Traceback (most recent call last):
...
dpledger.errors.ParameterError: PmfPair.left: expected probabilities that add up to exactly 1, got ('0.75', '0.2')
"""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from pydantic import ValidationInfo, field_validator

from dpledger.decimals import total
from dpledger.number_fields import Exact, Exacts, Positive, Probability
from dpledger.schema import given, record, tag

__all__ = ["ExPostDP", "ExPostOutcome", "OffsetZCDP", "PmfPair"]

MOST_OUTCOMES = 4096
"""Outcomes that a pair of distributions may list."""


@record
class PmfPair:
    """A dominating pair, outcome by outcome: `left` with the unit, `right` without it; each adds up to exactly 1.

    An outcome that only one of them allows is a loss of infinity, in that direction. Claim made by whoever writes it:
    for all a >= 0 and neighbours D (with the unit) and D', sup_S M(D)(S) - a M(D')(S) is at most that of the pair.

    >>> answers = dpl.PmfPair(left=("0.75", "0.25"), right=("0.25", "0.75"))
    >>> round(dpl.compose(answers).epsilon(0).upper, 4)
    1.0986
    """

    left: Exacts
    right: Exacts
    kind: Literal["pmf"] = tag(default="pmf")

    @field_validator("left", "right")
    @classmethod
    def _add_up(cls, masses: tuple[Decimal, ...]) -> tuple[Decimal, ...]:
        if not 1 <= len(masses) <= MOST_OUTCOMES:
            raise ValueError(f"1 to {MOST_OUTCOMES} probabilities")
        if total(masses) != 1:
            raise ValueError("probabilities that add up to exactly 1")
        return masses

    @field_validator("right")
    @classmethod
    def _same_outcomes(cls, right: tuple[Decimal, ...], info: ValidationInfo) -> tuple[Decimal, ...]:
        if len(right) != len(info.data.get("left", right)):
            raise ValueError("as many probabilities as left")
        return right


@record
class OffsetZCDP:
    """(xi, rho)-zero-concentrated DP: the Renyi divergence of order a is at most xi + rho a, for every a > 1.
    Bun-Steinke 2016, Definition 1.1; with xi = 0 it is `ZCDP`.

    >>> promised = dpl.planning.OffsetZCDP(rho="0.01", xi="0.001")
    >>> round(dpl.compose(promised).epsilon("1e-6").upper, 4)
    0.6228
    """

    rho: Positive
    xi: Positive
    kind: Literal["offset_zcdp"] = tag(default="offset_zcdp")


@record
class ExPostOutcome:
    """What a run of `ExPostDP` lost, in the mechanism's own word: its bound at what it published.

    >>> dpl.ex_post.ExPostDP(epsilon=1, sense="pure", outcome=dpl.ex_post.ExPostOutcome("0.25")).outcome.epsilon
    Decimal('0.25')
    """

    epsilon: Exact
    kind: Literal["ex_post_outcome"] = tag(default="ex_post_outcome")


@record
class ExPostDP:
    """A declared bound E(o) <= epsilon of the loss at each published outcome o; `outcome` says what it came to. A
    function of what was published alone. Ligett et al. 2017; Whitehouse et al. 2022.

    `sense`: pure: log P(o)/Q(o) <= E(o) at every o. integrated: the sum over o of max(0, P(o) - e^E(o) Q(o)) is at most
    delta. probabilistic: under P the loss is above E(o) with probability at most delta; read as integrated, which
    follows from it and which post-processing keeps. For every ordered pair of neighbours P, Q.

    >>> search = dpl.ex_post.ExPostDP(epsilon=1, sense="pure", outcome=dpl.ex_post.ExPostOutcome("0.25"))
    >>> round(dpl.compose(search).epsilon(0).upper, 4)  # as a plan: the cap
    1.0
    """

    epsilon: Exact
    sense: Literal["pure", "integrated", "probabilistic"]
    delta: Probability = given(default=Decimal(0))
    outcome: ExPostOutcome | None = given(default=None)
    kind: Literal["ex_post"] = tag(default="ex_post")

    @field_validator("delta")
    @classmethod
    def _pure_never_fails(cls, delta: Decimal, info: ValidationInfo) -> Decimal:
        if delta and info.data.get("sense") == "pure":
            raise ValueError("0 in the sense pure")
        return delta
