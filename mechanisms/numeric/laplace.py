"""The Laplace mechanism for a number, or a vector of a public dimension, that the caller computed.

Each entry is rounded to the grid, and a Laplace variable, rounded to the same grid, is added as whole steps. The
release is a post-processing of the continuous mechanism on the rounded vector, so its leaf is `LaplaceLaw(epsilon)`.

>>> from dpledger.mechanisms.entropy import seeded
>>> count = Laplace(sensitivity=1, epsilon="0.1")
>>> count.claim(), count.parameters()["scale"], count.parameters()["grid"]
(PureDP(epsilon=Decimal('0.1'), kind='pure_dp'), '10', '0.0009765625')
>>> count.release(1234, entropy=seeded(5)).parts == count.parts()
True
>>> pair = Laplace(sensitivity=2, epsilon=1, dimension=2, justification="one record, two counts")
>>> pair.release([40, 2], entropy=seeded(5)).value.shape
(2,)
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field

from dpledger.accounting.composition import Composition, LaplaceLaw
from dpledger.accounting.guarantees import PureDP
from dpledger.decimals import Number, round_up
from dpledger.mechanisms.noise import RoundedLaplace
from dpledger.mechanisms.numeric.added import NoisePlan, RealNumbers
from dpledger.mechanisms.numeric.grid import check_map, default_grid, on_grid
from dpledger.mechanisms.numeric.one_shot import ShortText, derived, exactly_one, least_epsilon
from dpledger.mechanisms.protocol import UNSAID
from dpledger.number_fields import OptionalPositive, Positive, Signed, Whole
from dpledger.relations import Relation, Unit
from dpledger.schema import given, record, tag

__all__ = ["Laplace"]


@record
class Laplace(RealNumbers):
    """Release a number or a vector with Laplace noise. Dwork-McSherry-Nissim-Smith 2006, proposition 1.

    `sensitivity`: how far one unit moves it in the l1 norm, under the relation (the caller vouches for it;
    `justification` says why, in one line). Exactly one of `epsilon` and `scale` is given; the other follows, rounded to
    the safe side. `dimension`: 1 for a number, else the length of the vector. `grid`: the step of the result, a power
    of two; default: the largest that is 1024 times finer than the scale and the sensitivity of an entry. An entry
    beyond `bound` counts as the bound, and one that is not a number as `missing`; no value raises. Data that are not
    one number, or not a vector of this length, are refused.

    A mean of m values in [0, b] has sensitivity b/m where a record is replaced and m is public; values in [-b, b] have
    twice as much. The published proof leaves out the normaliser m epsilon/(2 b) and says probabilities for densities;
    its "differ by one element" has to be a replacement for b/m to hold, and for m to be used in the scale
    (CS6781, lecture 25, definition 2.5 and theorem 2.6).
    The value is a float, or float64[dimension]; any entry may be negative.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> count = dpl.Laplace(sensitivity=1, epsilon="0.1")
    >>> round(float(count.release(1234, entropy=seeded(1)).value), 2)
    1208.95
    >>> count.interval("0.95")
    29.958984375
    """

    norm: ClassVar[Literal["l1", "l2"]] = "l1"

    sensitivity: Positive
    epsilon: OptionalPositive = given(default=None)
    scale: OptionalPositive = given(default=None)
    dimension: Annotated[Whole, Field(strict=True, ge=1, lt=2**31)] = given(default=1)
    grid: OptionalPositive = given(default=None)
    bound: Positive = given(default=2**53)
    missing: Signed = given(default=0)
    justification: ShortText = given(default=UNSAID)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["laplace"] = tag(default="laplace")

    def __post_init__(self) -> None:
        exactly_one(epsilon=self.epsilon, scale=self.scale)
        check_map(self._plan.grid, self.bound, self.missing)

    @classmethod
    def for_error(cls, error: Number, confidence: Number, **fields: Any) -> Self:
        """The mechanism of least epsilon whose `interval` at this confidence is at most `error`; `fields`: all but
        epsilon and scale. About sensitivity ln(1/(1 - confidence)) / error. InfeasiblePlan where the grid alone is
        coarser.

        >>> Laplace.for_error(10, "0.95", sensitivity=1).claim().epsilon
        Decimal('0.299618')
        """
        return cls(epsilon=least_epsilon(lambda one: cls(epsilon=one, **fields), error, confidence), **fields)

    @property
    def _plan(self) -> _Plan:
        return _planned(self.sensitivity, self.epsilon, self.scale, self.grid, self.dimension)

    @property
    def noise(self) -> RoundedLaplace:
        """The law of the noise of each entry, on its grid."""
        return RoundedLaplace(scale=self._plan.scale, grid=self._plan.grid)

    def claim(self) -> PureDP:
        """epsilon = sensitivity / scale, rounded up."""
        return PureDP(self._plan.epsilon)

    def parts(self) -> Composition:
        """One Laplace leaf. A vector loses at most what a number does that moves as far: docs/proofs/noise.md,
        section 6."""
        return LaplaceLaw(self._plan.epsilon)

    def _used(self) -> Mapping[str, Decimal]:
        return {"epsilon": self._plan.epsilon, "scale": self._plan.scale}

    def interval(self, confidence: Number) -> float:
        """The half-width around the released value that holds the number (within the bound), of a vector all entries at
        once, with at least this probability; counts the rounding to the grid."""
        return self._within(confidence, self.dimension)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Plan(NoisePlan):
    """With the parameters of the noise."""

    epsilon: Decimal
    scale: Decimal


@functools.lru_cache(maxsize=512)
def _planned(
    sensitivity: Decimal, epsilon: Decimal | None, scale: Decimal | None, grid: Decimal | None, dimension: int
) -> _Plan:
    """Claim: sensitivity / scale <= epsilon, exactly, for the values in the plan."""
    length = Fraction(sensitivity)
    if grid is None:
        wide = {"epsilon": length / Fraction(epsilon)} if epsilon is not None else {"scale": Fraction(scale or 0)}
        grid = default_grid(**wide, sensitivity=length / dimension)
    moved = on_grid(sensitivity, grid, dimension)
    if epsilon is not None:
        used = derived(round_up(Fraction(moved) / Fraction(epsilon)), epsilon=epsilon)
        return _Plan(epsilon=epsilon, scale=used, grid=grid, sensitivity=moved)
    assert scale is not None, "exactly one of them is given"
    loss = derived(round_up(Fraction(moved) / Fraction(scale)), scale=scale)
    return _Plan(epsilon=loss, scale=scale, grid=grid, sensitivity=moved)
