"""The mean of clipped values, straight from the rows.

Values are summed as whole steps of a grid, so the order of the rows cannot matter; whatever a row holds is mapped to a
value in the range (`rows`).

>>> from dpledger.mechanisms.entropy import seeded
>>> mean = ClippedMean(epsilon=1, lower=0, upper=10)
>>> 0 <= float(mean.release([3, 4, "unknown"], entropy=seeded(1)).value) <= 10
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from dpledger.accounting.composition import Composition, DiscreteLaplaceLaw, LaplaceLaw, Sequence
from dpledger.accounting.guarantees import PureDP
from dpledger.decimals import Number, add, multiply, read, round_up, subtract, whole
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import DiscreteLaplace, RoundedLaplace, Sensitivity, draw, half_width
from dpledger.mechanisms.numeric.as_numbers import AsNumber
from dpledger.mechanisms.numeric.distances import Distances, check_range
from dpledger.mechanisms.numeric.grid import default_grid
from dpledger.mechanisms.numeric.in_range import InRange
from dpledger.mechanisms.numeric.integers import geometric_scale, share_of
from dpledger.mechanisms.numeric.one_shot import OfRows, derived, least_epsilon, one_by_one
from dpledger.mechanisms.numeric.rows import OfUnits, count_is_public, count_sensitivity, counted, rows_of
from dpledger.mechanisms.protocol import Release
from dpledger.number_fields import OptionalPositive, OptionalSigned, Positive, Signed
from dpledger.relations import Relation, Unit
from dpledger.schema import given, record, tag

__all__ = ["ClippedMean", "MeanEstimate"]

HALF = Decimal("0.5")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanEstimate(AsNumber):
    """A released mean, which counts as that number (`2 * estimate`, `f"{estimate:.2f}"`, `estimate < 3`); JSON takes
    `float(estimate)`.

    `count`: the noisy number of rows (exact where it is public). `total`: the noisy sum of the values' distances from
    the centre of the range, in steps of the sum's grid. `lower`, `upper`: the range."""

    mean: float
    count: int
    total: int
    sum_law: RoundedLaplace
    count_law: DiscreteLaplace | None
    lower: Decimal
    upper: Decimal

    def __repr__(self) -> str:
        """The mean and the number of rows; what `interval` needs beside them has names of its own."""
        return f"MeanEstimate(mean={self.mean!r}, count={self.count})"

    def __float__(self) -> float:
        return self.mean

    def interval(self, confidence: Number) -> tuple[float, float]:
        """Two numbers that hold the mean of the clipped values between them with at least this probability over the
        noise, provided that there is a row."""
        level = read(confidence, field="confidence")
        halfway = multiply(add(level, Decimal(1)), HALF)
        each = level if self.count_law is None else halfway  # they miss with half the chance each
        slack = half_width(self.sum_law, each)
        spread = 0 if self.count_law is None else half_width(self.count_law, each)
        fewest, most = max(1, self.count - spread), max(1, self.count + spread)
        low, high = self.total - slack, self.total + slack
        return (
            self._clipped(low / (fewest if low < 0 else most) - 0.5),  # a value is within half a step of its steps
            self._clipped(high / (fewest if high > 0 else most) + 0.5),
        )

    def _clipped(self, steps: float) -> float:
        centre = float(add(self.lower, self.upper)) / 2
        return min(max(centre + steps * float(self.sum_law.grid), float(self.lower)), float(self.upper))


@record
class ClippedMean(InRange):
    """The mean of values clipped to [lower, upper].

    A noisy sum of the distances from the centre of the range, divided by the number of rows. That number is exact where
    it is public (replace_one with one row a unit; label_flip) and else a noisy count with half of epsilon; the quotient
    is post-processing. What is not a number counts as `missing`, which lies in the range (default: its centre). `grid`:
    the step of the sum, a power of two; default: 1024 times finer than the noise and the range. The value is a
    `MeanEstimate`: `float()` of it is the mean, in [lower, upper], so negative only where the range is; `count` is the
    number of rows, noisy where it is private, and then it may be negative.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> ages = dpl.ClippedMean(epsilon=1, lower=0, upper=100)
    >>> round(float(ages.release([34, 51, 29, "unknown"] * 100, entropy=seeded(1)).value))
    40
    """

    epsilon: Positive
    lower: Signed
    upper: Signed
    missing: OptionalSigned = given(default=None)
    grid: OptionalPositive = given(default=None)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["clipped_mean"] = tag(default="clipped_mean")

    def __post_init__(self) -> None:
        check_range(self.lower, self.upper, self._missing)
        self.values.check()
        self.parts()
        self._sum_law()

    @classmethod
    def for_error(cls, error: Number, confidence: Number, *, rows: int, **fields: Any) -> Self:
        """The one with the least epsilon that is `within` an error for so many rows, at this confidence; `rows`: a
        number that you know without the data, or take from a `Count`; `fields`: all but epsilon.

        >>> dpl.ClippedMean.for_error("0.5", "0.95", rows=10_000, lower=0, upper=100).epsilon
        Decimal('0.152403')
        """

        def made(epsilon: Decimal) -> OfRows:
            return OfRows(cls(epsilon=epsilon, **fields).within, rows)

        return cls(epsilon=least_epsilon(made, error, confidence), **fields)

    def within(self, confidence: Number, rows: int) -> float:
        """The most by which the released mean differs from that of the clipped values, with at least this probability,
        for so many rows, whatever they hold; infinite if the noise may hide them all.

        Claim: |(T + X)/(n + Y) - T/n| <= (|X| + |Y| |T|/n)/(n - |Y|), |T| at most n times half the range.
        Source: docs/proofs/statistics.md, section 1."""
        many = whole(rows, field="rows", least=1, most=2**53)
        level, count_law = read(confidence, field="confidence"), self._count_law()
        each = level if count_law is None else multiply(add(level, Decimal(1)), HALF)
        lost = 0 if count_law is None else half_width(count_law, each)
        if lost >= many:
            return math.inf
        off = (half_width(self._sum_law(), each) + self.values.reach * lost) / (many - lost)
        return (off + 0.5) * float(self._grid)  # a value is within half a step of its steps

    def claim(self) -> PureDP:
        """epsilon."""
        return PureDP(self.epsilon)

    def parts(self) -> Composition:
        """A Laplace leaf for the sum, and a discrete Laplace leaf for the count where it is not public."""
        sum_epsilon, count_law = self._shares[0], self._count_law()
        if count_law is None:
            return LaplaceLaw(sum_epsilon)
        return Sequence(
            (LaplaceLaw(sum_epsilon), DiscreteLaplaceLaw(scale=count_law.scale, sensitivity=rows_of(self.unit)))
        )

    def release(self, data: object, *, entropy: Entropy) -> Release[MeanEstimate]:
        """The noisy mean of the rows of `data`."""
        self.inspect(data)
        values, count_law = self.values, self._count_law()
        total, count = values.totals(counted(data, self.unit, entropy=entropy))
        total = draw(self._sum_law(), total, sensitivity=self._sum_sensitivity(), entropy=entropy)
        if count_law is not None:
            count = draw(count_law, count, sensitivity=count_sensitivity(self.unit), entropy=entropy)
        return Release(value=self.value_of((total, count)), parts=self.parts())

    def plain_of(self, value: MeanEstimate) -> tuple[int, int]:
        """The two numbers that noise was added to: the rest follows from the parameters."""
        return value.total, value.count

    def value_of(self, plain: tuple[int, int]) -> MeanEstimate:
        """The estimate of a noisy total and a count, as `plain_of` says them."""
        total, count = plain
        return MeanEstimate(
            mean=self.values.mean(total, count),
            count=count,
            total=total,
            sum_law=self._sum_law(),
            count_law=self._count_law(),
            lower=self.lower,
            upper=self.upper,
        )

    def sampled_of(self, value: MeanEstimate) -> float:
        """The mean, as `sample` gives it."""
        return value.mean

    def sample(self, data: object, size: int, entropy: Entropy) -> npt.NDArray[np.float64]:
        """The means of `size` independent releases of the same data."""
        self.inspect(data)
        if isinstance(data, OfUnits):
            return one_by_one(self, data, size, entropy)
        values, count_law = self.values, self._count_law()
        total, count = values.totals(data)
        sums, counts = np.array([total]).repeat(size), np.full(size, count)
        totals = draw(self._sum_law(), sums, sensitivity=self._sum_sensitivity(), entropy=entropy)
        if count_law is not None:
            counts = draw(count_law, counts, sensitivity=count_sensitivity(self.unit), entropy=entropy)
        pairs = zip(totals.tolist(), counts.tolist(), strict=True)
        return np.array([values.mean(total, count) for total, count in pairs])

    @property
    def _shares(self) -> tuple[Decimal, Decimal | None]:
        """epsilon of the sum, and of the count unless that is public. They add up to epsilon exactly."""
        if count_is_public(self.relation, self.unit):
            return self.epsilon, None
        count_epsilon = share_of(self.epsilon, 2)
        return subtract(self.epsilon, count_epsilon), count_epsilon

    @property
    def _half(self) -> Fraction:
        return Fraction(subtract(self.upper, self.lower)) / 2

    @property
    def _default_grid(self) -> Decimal:
        return default_grid(upper=self._half, epsilon=self._half / Fraction(self._shares[0]))

    @property
    def values(self) -> Distances:
        """How rows become whole steps."""
        return Distances(lower=self.lower, upper=self.upper, missing=self._missing, grid=self._grid)

    def noises(self) -> tuple[tuple[RoundedLaplace | DiscreteLaplace, Sensitivity], ...]:
        """The noise of the sum, and of the count where it is not public, each with how far one unit moves it."""
        total, count = (self._sum_law(), self._sum_sensitivity()), self._count_law()
        return (total,) if count is None else (total, (count, count_sensitivity(self.unit)))

    def _sum_law(self) -> RoundedLaplace:
        moved, epsilon = Fraction(self._sum_sensitivity().value), Fraction(self._shares[0])
        return RoundedLaplace(scale=derived(round_up(moved / epsilon), epsilon=self.epsilon), grid=self._grid)

    def _sum_sensitivity(self) -> Sensitivity:
        adds = self.relation in (None, Relation.ADD_REMOVE)
        moved = self.values.reach * Fraction(self._grid) * rows_of(self.unit) * (1 if adds else 2)
        why = "a unit adds values within half of the range" if adds else "a unit moves values within the range"
        return Sensitivity(derived(round_up(moved), upper=self.upper), "l1", why)

    def _count_law(self) -> DiscreteLaplace | None:
        share = self._shares[1]
        return None if share is None else DiscreteLaplace(geometric_scale(rows_of(self.unit), share))
