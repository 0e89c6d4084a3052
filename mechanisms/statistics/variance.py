"""The variance of clipped values with their mean, one release, straight from the rows.

Of each row its distance from the centre of the range and the square of it are summed as whole numbers, so the order of
the rows cannot matter; the number of rows is the third, where it is private.

>>> from dpledger.mechanisms.entropy import seeded
>>> spread = Variance(epsilon=1, lower=0, upper=10)
>>> found = spread.release([3, 4, 8] * 500, entropy=seeded(1)).value
>>> round(found.mean, 1), round(found.deviation, 1)
(5.0, 2.1)
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
from dpledger.decimals import Number, add, round_up, subtract, total, whole
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import DiscreteLaplace, RoundedLaplace, Sensitivity, draw, half_width
from dpledger.mechanisms.numeric.as_numbers import AsNumber
from dpledger.mechanisms.numeric.distances import Distances, check_range
from dpledger.mechanisms.numeric.grid import default_grid
from dpledger.mechanisms.numeric.in_range import InRange
from dpledger.mechanisms.numeric.integers import geometric_scale, share_of
from dpledger.mechanisms.numeric.one_shot import OfRows, derived, least_epsilon, one_by_one
from dpledger.mechanisms.numeric.rows import OfUnits, blocks, count_is_public, count_sensitivity, counted, rows_of
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.statistics.ranks import missed_by
from dpledger.number_fields import OptionalPositive, OptionalSigned, Positive, Signed
from dpledger.relations import Relation, Unit
from dpledger.schema import given, record, tag

__all__ = ["Variance", "VarianceEstimate"]

HALF = Decimal("0.5")
_FINER = 2**10  # than the default grid of one number: a square is read off its steps
_MOST_REACH = 2**24  # so that squares, summed in int64 over a block of rows, stay exact


@dataclass(frozen=True, slots=True, kw_only=True)
class VarianceEstimate(AsNumber):
    """A released variance, which counts as that number (`2 * estimate`, `f"{estimate:.2f}"`, `estimate < 3`); JSON
    takes `float(estimate)`. `mean`, `deviation` (its root) and `count` are of the same release.

    `variance`: the mean square less the square of the mean, both noisy: with few rows it is off in both directions,
    clipped to what values in the range can have. `count`: the noisy number of rows (exact where it is public).
    `totals`: the noisy sums of the distances from the centre, in steps, and of the squares: of 2 steps^2 - reach^2,
    with at most `reach` steps from the centre to an end."""

    variance: float
    mean: float
    count: int
    totals: tuple[int, int]
    sum_law: RoundedLaplace
    square_law: RoundedLaplace
    count_law: DiscreteLaplace | None
    reach: int

    def __repr__(self) -> str:
        """The variance, the mean and the number of rows; what `interval` needs beside them has names of its own."""
        return f"VarianceEstimate(variance={self.variance!r}, mean={self.mean!r}, count={self.count})"

    def __float__(self) -> float:
        return self.variance

    @property
    def deviation(self) -> float:
        """The standard deviation: the root of the variance."""
        return math.sqrt(self.variance)

    def interval(self, confidence: Number) -> tuple[float, float]:
        """Two numbers that hold the variance of the clipped values between them with at least this probability over
        the noise, provided that there is a row. Wide: each of two or three numbers may miss with an equal share."""
        each = _near(1 - Fraction(missed_by(confidence)) / (2 if self.count_law is None else 3))
        spread = 0 if self.count_law is None else half_width(self.count_law, each)
        counts = max(1, self.count - spread), max(1, self.count + spread)
        low, high = _quotients(self.totals[0], half_width(self.sum_law, each), counts)
        least, most = _quotients(self.totals[1], half_width(self.square_law, each), counts)
        squares = [(float(self.reach) ** 2 + end) / 2 for end in (least, most)]
        nearest = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
        narrow, wide = squares[0] - max(abs(low), abs(high)) ** 2, squares[1] - nearest**2
        return (
            self._in_units(max(0.0, math.sqrt(max(0.0, narrow)) - 0.5)),  # a value is within half a step of its steps
            self._in_units(min(float(self.reach), math.sqrt(max(0.0, wide)) + 0.5)),
        )

    def _in_units(self, deviation: float) -> float:
        return float((deviation * float(self.sum_law.grid)) ** 2)


def _near(level: Fraction) -> Decimal:
    """A level to 12 digits, rounded up; below 1."""
    found = round_up(level)
    if found >= 1:
        raise ParameterError("confidence", str(float(level)), "a number in (0, 1), less near to 1")
    return found


def _quotients(noisy: int, slack: int, counts: tuple[int, int]) -> tuple[float, float]:
    """Between which numbers a sum lies that is divided by a number of rows."""
    low, high, (fewest, most) = noisy - slack, noisy + slack, counts
    return low / (fewest if low < 0 else most), high / (fewest if high > 0 else most)


@record
class Variance(InRange):
    """The variance of values clipped to [lower, upper], with their mean and number: one release, one epsilon.

    Noisy sums of the distances from the centre of the range and of their squares, each with an equal share of epsilon;
    the number of rows is exact where it is public (replace_one with one row a unit; label_flip) and else a noisy count
    with a share as well. What is not a number counts as `missing`, which lies in the range (default: its centre).
    `grid`: the step of the values, a power of two; default: a millionth of the range. The value is a
    `VarianceEstimate`: `float()` of it is the variance (of the rows themselves, divided by n), at least 0; `mean`,
    `deviation` and `count` are of the same release.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> ages = dpl.Variance(epsilon=1, lower=0, upper=100)
    >>> found = ages.release([34, 51, 29, 40] * 1000, entropy=seeded(1)).value
    >>> round(found.mean), round(found.deviation)
    (38, 8)
    """

    epsilon: Positive
    lower: Signed
    upper: Signed
    missing: OptionalSigned = given(default=None)
    grid: OptionalPositive = given(default=None)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["variance"] = tag(default="variance")

    def __post_init__(self) -> None:
        check_range(self.lower, self.upper, self._missing)
        self.values.check()
        if self.values.reach >= _MOST_REACH:
            raise ParameterError("grid", str(self._grid), "a grid with fewer than 2^25 steps in the range")
        self._laws()
        self.parts()

    @classmethod
    def for_error(cls, error: Number, confidence: Number, *, rows: int, **fields: Any) -> Self:
        """The one with the least epsilon that is `within` an error for so many rows, at this confidence; `rows`: a
        number that you know without the data, or take from a `Count`; `fields`: all but epsilon.

        >>> dpl.Variance.for_error(50, "0.95", rows=10_000, lower=0, upper=100).epsilon
        Decimal('0.309591')
        """

        def made(epsilon: Decimal) -> OfRows:
            return OfRows(cls(epsilon=epsilon, **fields).within, rows)

        return cls(epsilon=least_epsilon(made, error, confidence), **fields)

    def within(self, confidence: Number, rows: int) -> float:
        """The most by which the released variance differs from that of the clipped values, with at least this
        probability, for so many rows, whatever they hold; infinite if the noise may hide them all.

        Claim: both quotients are off as a mean is (`ClippedMean.within`), and the square of a mean by at most that
        times the range. Source: docs/proofs/statistics.md, section 1."""
        many, count_law = whole(rows, field="rows", least=1, most=2**53), self._count_law()
        each = _near(1 - Fraction(missed_by(confidence)) / (2 if count_law is None else 3))
        lost = 0 if count_law is None else half_width(count_law, each)
        if lost >= many:
            return math.inf
        (sum_law, square_law), reach = self._laws(), float(self.values.reach)
        mean = (half_width(sum_law, each) + reach * lost) / (many - lost)
        square = (half_width(square_law, each) + reach**2 * lost) / (many - lost) / 2
        rounded = reach + 0.25  # a value is within half a step of its steps
        return (square + 2 * reach * mean + rounded) * float(self._grid) ** 2

    def claim(self) -> PureDP:
        """epsilon."""
        return PureDP(self.epsilon)

    def parts(self) -> Composition:
        """Two Laplace leaves for the sums, and a discrete Laplace leaf for the count where it is not public."""
        share, rest = self._shares
        sums = LaplaceLaw(rest), LaplaceLaw(share)
        count_law = self._count_law()
        if count_law is None:
            return Sequence(sums)
        return Sequence((*sums, DiscreteLaplaceLaw(scale=count_law.scale, sensitivity=rows_of(self.unit))))

    def release(self, data: object, *, entropy: Entropy) -> Release[VarianceEstimate]:
        """The noisy variance and mean of the rows of `data`."""
        self.inspect(data)
        value = self.value_of(self._drawn(self._totals(counted(data, self.unit, entropy=entropy)), entropy))
        return Release(value=value, parts=self.parts())

    def plain_of(self, value: VarianceEstimate) -> tuple[int, int, int]:
        """The three numbers that noise was added to: the rest follows from the parameters."""
        return *value.totals, value.count

    def value_of(self, plain: tuple[int, int, int]) -> VarianceEstimate:
        """The estimate of two noisy totals and a count, as `plain_of` says them."""
        total, squares, count = plain
        values, rows = self.values, max(count, 1)
        mean = values.mean(total, count)
        centre = float(add(self.lower, self.upper)) / 2
        step, reach = float(self._grid), float(values.reach)
        mean_square = min(max((reach**2 + squares / rows) / 2, 0.0), reach**2)
        variance = max(mean_square - ((mean - centre) / step) ** 2, 0.0) * step**2
        sum_law, square_law = self._laws()
        return VarianceEstimate(
            variance=variance,
            mean=mean,
            count=count,
            totals=(total, squares),
            sum_law=sum_law,
            square_law=square_law,
            count_law=self._count_law(),
            reach=values.reach,
        )

    def sampled_of(self, value: VarianceEstimate) -> tuple[float, float]:
        """The variance and the mean, as `sample` gives them."""
        return value.variance, value.mean

    def sample(self, data: object, size: int, entropy: Entropy) -> npt.NDArray[np.float64]:
        """The variances and means of `size` independent releases of the same data: float64[size, 2]."""
        self.inspect(data)
        if isinstance(data, OfUnits):
            return one_by_one(self, data, size, entropy)
        totals = self._totals(data)
        drawn = [self.value_of(self._drawn(totals, entropy)) for _ in range(size)]
        return np.array([(one.variance, one.mean) for one in drawn]).reshape(size, 2)

    def _drawn(self, totals: tuple[int, int, int], entropy: Entropy) -> tuple[int, int, int]:
        (sum_law, square_law), count_law = self._laws(), self._count_law()
        sums, squares, count = totals
        sums = draw(sum_law, sums, sensitivity=self._sum_sensitivity(), entropy=entropy)
        squares = draw(square_law, squares, sensitivity=self._square_sensitivity(), entropy=entropy)
        if count_law is not None:
            count = draw(count_law, count, sensitivity=count_sensitivity(self.unit), entropy=entropy)
        return sums, squares, count

    def _totals(self, data: object) -> tuple[int, int, int]:
        """The sum of the distances in steps, that of 2 steps^2 - reach^2, and the number of rows."""
        values = self.values
        sums = squares = count = 0
        for block in blocks(data, missing=float(self._missing)):
            steps = values.steps(block)
            sums += int(steps.sum())
            squares += _sum_of_squares(steps)
            count += len(steps)
        return sums, 2 * squares - count * values.reach**2, count

    @property
    def _shares(self) -> tuple[Decimal, Decimal]:
        """epsilon of the squares and of the count, and of the sum. All of them add up to epsilon exactly."""
        others = 1 if count_is_public(self.relation, self.unit) else 2
        share = share_of(self.epsilon, others + 1)
        return share, subtract(self.epsilon, total([share] * others))

    @property
    def _default_grid(self) -> Decimal:
        return default_grid(upper=Fraction(subtract(self.upper, self.lower)) / _FINER)

    @property
    def values(self) -> Distances:
        """How rows become whole steps."""
        return Distances(lower=self.lower, upper=self.upper, missing=self._missing, grid=self._grid)

    def _laws(self) -> tuple[RoundedLaplace, RoundedLaplace]:
        """Of the sum, in the units of the values; of the squares, in whole numbers."""
        share, rest = self._shares
        return (
            RoundedLaplace(scale=self._scale(self._sum_sensitivity(), rest), grid=self._grid),
            RoundedLaplace(scale=self._scale(self._square_sensitivity(), share), grid=Decimal(1)),
        )

    def _scale(self, moved: Sensitivity, epsilon: Decimal) -> Decimal:
        return derived(round_up(Fraction(moved.value) / Fraction(epsilon)), epsilon=self.epsilon)

    def _sum_sensitivity(self) -> Sensitivity:
        moved = self.values.reach * Fraction(self._grid) * rows_of(self.unit) * self._ways
        why = "a unit adds values within half of the range" if self._ways == 1 else "a unit moves values in the range"
        return Sensitivity(derived(round_up(moved), upper=self.upper), "l1", why)

    def _square_sensitivity(self) -> Sensitivity:
        """Claim: 2 steps^2 - reach^2 of a row is between -reach^2 and reach^2."""
        moved = self.values.reach**2 * rows_of(self.unit) * self._ways
        return Sensitivity(derived(round_up(Fraction(moved)), grid=self._grid), "l1", "a square, less half of the most")

    @property
    def _ways(self) -> int:
        """By how many times what one row has at most the sums are moved."""
        return 1 if self.relation in (None, Relation.ADD_REMOVE) else 2

    def _count_law(self) -> DiscreteLaplace | None:
        if count_is_public(self.relation, self.unit):
            return None
        return DiscreteLaplace(geometric_scale(rows_of(self.unit), self._shares[0]))


def _sum_of_squares(steps: npt.NDArray[np.int64]) -> int:
    """The exact sum: a square is below 2^48, and 2^14 of them below 2^62."""
    return sum(int((part * part).sum()) for part in np.array_split(steps, len(steps) // 2**14 + 1))
