"""The sum of clipped values, straight from the rows.

Values are summed as whole steps of a grid, so the order of the rows cannot matter; whatever a row holds is mapped to a
value in the range (`rows`).

>>> from dpledger.mechanisms.entropy import seeded
>>> spent = ClippedSum(epsilon=1, lower=0, upper=10)
>>> spent.release([3, 4, "unknown"], entropy=seeded(1)).parts
LaplaceLaw(epsilon=Decimal('1'), kind='laplace')
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from dpledger.accounting.composition import Composition, LaplaceLaw
from dpledger.accounting.guarantees import PureDP
from dpledger.decimals import Number, round_up
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import RoundedLaplace, Sensitivity, draw, half_width
from dpledger.mechanisms.numeric.distances import check_range
from dpledger.mechanisms.numeric.grid import default_grid, exact_decimal, to_floats
from dpledger.mechanisms.numeric.in_range import InRange
from dpledger.mechanisms.numeric.one_shot import derived, least_epsilon, one_by_one
from dpledger.mechanisms.numeric.rows import OfUnits, counted, rows_of
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.statistics.values import Values
from dpledger.number_fields import OptionalPositive, OptionalSigned, Positive, Signed
from dpledger.relations import Relation, Unit
from dpledger.schema import given, record, tag

__all__ = ["ClippedSum"]

_FINER = 2**20  # than the default grid of one number: a sum has as many roundings as rows
_MOST = 2**38  # and as much, so that a value has fewer than 2^49 steps
_FINEST = Fraction(1, 2**60)


@record
class ClippedSum(InRange):
    """The sum of values clipped to [lower, upper]. Laplace noise.

    What is not a number counts as `missing`, which lies in the range (default: the value nearest to 0, so that it adds
    nothing if it can). `grid`: the step to which each value is rounded, a power of two; default: 2^30 times finer than
    the noise and the range, so that a million roundings are far below the noise. A row that is added moves the sum by
    at most the larger of |lower| and |upper|; a row that is changed, by upper - lower. Where 0 is far outside of the
    range and the number of rows is private, a `ClippedMean` and its count are more precise. The value is a float, which
    may lie outside of the possible sums.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> spent = dpl.ClippedSum(epsilon=1, lower=0, upper=100)
    >>> round(spent.release([34, 51, 29, "unknown"] * 100, entropy=seeded(1)).value)
    11149
    >>> round(spent.interval("0.95"))
    300
    """

    epsilon: Positive
    lower: Signed
    upper: Signed
    missing: OptionalSigned = given(default=None)
    grid: OptionalPositive = given(default=None)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["clipped_sum"] = tag(default="clipped_sum")

    def __post_init__(self) -> None:
        check_range(self.lower, self.upper, self._missing)
        self.values.check()
        self.parts()
        self.noise  # noqa: B018  # ParameterError where there is none

    @classmethod
    def for_error(cls, error: Number, confidence: Number, **fields: Any) -> Self:
        """The mechanism of least epsilon whose `interval` at this confidence is at most `error`; `fields`: all but
        epsilon, `relation` and `unit` among them where they are not add_remove and one row.

        >>> dpl.ClippedSum.for_error(300, "0.95", lower=0, upper=100).epsilon
        Decimal('0.998578')
        """
        return cls(epsilon=least_epsilon(lambda one: cls(epsilon=one, **fields), error, confidence), **fields)

    @property
    def noise(self) -> RoundedLaplace:
        """The law of the noise."""
        ideal = Fraction(self._declared.value) / Fraction(self.epsilon)
        return RoundedLaplace(scale=derived(round_up(ideal), epsilon=self.epsilon), grid=self._grid)

    def claim(self) -> PureDP:
        """epsilon."""
        return PureDP(self.epsilon)

    def parts(self) -> Composition:
        """One Laplace leaf."""
        return LaplaceLaw(self.epsilon)

    def _used(self) -> Mapping[str, object]:
        return {"scale": self.noise.scale}

    def release(self, data: object, *, entropy: Entropy) -> Release[float]:
        """The noisy sum of the rows of `data`."""
        self.inspect(data)
        total = self.values.total(counted(data, self.unit, entropy=entropy))
        noisy = draw(self.noise, total, sensitivity=self._declared, entropy=entropy)
        return Release(value=self.in_units(noisy), parts=self.parts())

    def sample(self, data: object, size: int, entropy: Entropy) -> npt.NDArray[np.float64]:
        """`size` independent releases of the same data: float64[size]."""
        self.inspect(data)
        if isinstance(data, OfUnits):
            return one_by_one(self, data, size, entropy)
        totals = np.array([self.values.total(data)]).repeat(size)
        return to_floats(draw(self.noise, totals, sensitivity=self._declared, entropy=entropy), self._grid)

    def interval(self, confidence: Number) -> float:
        """The half-width around the released value that holds the sum of the values, clipped and rounded to the grid,
        with at least this probability. Rounding moves the sum by at most half a step a row."""
        return self.in_units(half_width(self.noise, confidence))

    def noises(self) -> tuple[tuple[RoundedLaplace, Sensitivity], ...]:
        """The noise of the sum, with how far one unit moves it."""
        return ((self.noise, self._declared),)

    def in_units(self, steps: int) -> float:
        """So many steps as a float."""
        return float(to_floats(np.array([steps]), self._grid)[0])

    @property
    def _missing(self) -> Decimal:
        return self.missing if self.missing is not None else min(max(self.lower, Decimal(0)), self.upper)

    @property
    def _default_grid(self) -> Decimal:
        reach = max(abs(Fraction(self.lower)), abs(Fraction(self.upper)))
        coarse = default_grid(upper=Fraction(self.upper) - Fraction(self.lower), epsilon=reach / Fraction(self.epsilon))
        exact = Fraction(default_grid(upper=reach)) / _MOST
        return exact_decimal(max(Fraction(coarse) / _FINER, exact, _FINEST))

    @property
    def values(self) -> Values:
        """How rows become whole steps."""
        return Values(lower=self.lower, upper=self.upper, missing=self._missing, grid=self._grid)

    @property
    def _declared(self) -> Sensitivity:
        """Claim: how far the rows of a unit move the sum of the values as they are rounded.
        Source: docs/proofs/statistics.md, section 1."""
        rows, first, last = rows_of(self.unit), self.values.first, self.values.last
        if self.relation in (None, Relation.ADD_REMOVE):
            moved, why = max(-first, last), "a unit adds values between lower and upper"
        elif rows == 1 or self.relation is Relation.LABEL_FLIP:
            moved, why = last - first, "a unit moves values between lower and upper"
        else:
            moved, why = max(last, 0) - min(first, 0), "a unit changes values between lower and upper, and their number"
        return Sensitivity(derived(round_up(moved * rows * Fraction(self._grid)), upper=self.upper), "l1", why)
