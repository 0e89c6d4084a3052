"""Statistics of records: a count, a mean of clipped values, a histogram, straight from the rows.

Data are rows: a sequence, an array or a column of a table. Whatever a row holds is mapped to something: values are
clipped to the declared range, what is no number counts as a declared value, an unknown category as another or as none.
Values are summed as whole steps of a grid, so the order of the rows cannot matter. One unit may contribute up to
`unit.max_contributions` rows (one, while no unit is fixed), and each sensitivity is multiplied by that.

>>> from dpledger.mechanisms.entropy import seeded
>>> Count(epsilon=1).release(["a", "b", "c"], entropy=seeded(1)).parts == Count(epsilon=1).parts()
True
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dpledger.accounting.composition import Composition, DiscreteLaplaceLaw, LaplaceLaw, Sequence
from dpledger.accounting.guarantees import PureDP
from dpledger.decimals import (
    Number,
    OptionalPositive,
    OptionalSigned,
    OptionalSignedNumbers,
    Positive,
    Signed,
    add,
    multiply,
    read,
    round_down,
    round_up,
    subtract,
)
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import DiscreteLaplace, RoundedLaplace, Sensitivity, draw, half_width
from dpledger.mechanisms.numeric.grid import Floats, check_map, default_grid, nearest_whole
from dpledger.mechanisms.numeric.integers import geometric_scale
from dpledger.mechanisms.numeric.one_shot import Line, OneShot, derived, exactly_one
from dpledger.mechanisms.numeric.rows import interval_positions, numbers, tally, word_positions
from dpledger.mechanisms.protocol import Release
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, given, plain, record, tag

__all__ = ["ClippedMean", "Count", "Counts", "Histogram", "MeanEstimate"]


_MOST_STEPS = 2**52  # so that a value in steps is an exact float


def _rows_of(unit: Unit | None) -> int:
    return 1 if unit is None else unit.max_contributions


@record
class Count(OneShot):
    """How many rows there are; of an array of booleans, how many are true. Discrete Laplace noise.

    `counted` says in words what a row (or a true one) is. One unit moves the count by at most its rows, under every
    relation. The value is a whole number, and may be negative.
    """

    epsilon: Positive
    counted: Line = given(default="rows")
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["count"] = tag(default="count")

    def __post_init__(self) -> None:
        self.parts()

    @property
    def noise(self) -> DiscreteLaplace:
        """The law of the noise."""
        return DiscreteLaplace(geometric_scale(_rows_of(self.unit), self.epsilon))

    def claim(self) -> PureDP:
        """epsilon."""
        return PureDP(self.epsilon)

    def parts(self) -> Composition:
        """One discrete Laplace leaf."""
        return DiscreteLaplaceLaw(scale=self.noise.scale, sensitivity=_rows_of(self.unit))

    def parameters(self) -> Mapping[str, Plain]:
        """epsilon, what is counted, the scale of the noise."""
        result: dict[str, Plain] = plain({"epsilon": self.epsilon, "counted": self.counted, "scale": self.noise.scale})
        return result

    def release(self, data: object, *, entropy: Entropy) -> Release[int]:
        """The noisy count of the rows of `data`."""
        noisy = draw(self.noise, tally(data), sensitivity=self._declared, entropy=entropy)
        return Release(value=noisy, parts=self.parts())

    def sample(self, data: object, size: int, entropy: Entropy) -> npt.NDArray[Any]:
        """`size` independent releases of the same data, as whole numbers."""
        return draw(self.noise, np.full(size, tally(data)), sensitivity=self._declared, entropy=entropy)

    def interval(self, confidence: Number) -> int:
        """The half-width around the released value that holds the count with at least this probability."""
        return half_width(self.noise, confidence)

    @property
    def _declared(self) -> Sensitivity:
        return _count_sensitivity(self.unit)


def _count_sensitivity(unit: Unit | None) -> Sensitivity:
    return Sensitivity(_rows_of(unit), "l1", "a unit changes a count by at most the rows it contributes")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanEstimate:
    """A released mean. `count`: the noisy number of rows (exact where it is public). `total`: the noisy sum of the
    values' distances from the centre of the range, in steps of the sum's grid."""

    mean: float
    count: int
    total: int
    sum_law: RoundedLaplace
    count_law: DiscreteLaplace | None
    lower: Decimal
    upper: Decimal

    def __float__(self) -> float:
        return self.mean

    def interval(self, confidence: Number) -> tuple[float, float]:
        """Two numbers that hold the mean of the clipped values between them with at least this probability over the
        noise, provided that there is a row."""
        level = read(confidence, field="confidence")
        each = level if self.count_law is None else add(level, (1 - level) / 2)  # they miss with half the chance each
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
class ClippedMean(OneShot):
    """The mean of values clipped to [lower, upper].

    A noisy sum of the distances from the centre of the range, divided by the number of rows. That number is exact where
    it is public (replace_one with one row a unit; label_flip) and else a noisy count with half of epsilon; the quotient
    is post-processing. What is no number counts as `missing`, in the range (default: its centre). `grid`: the step of
    the sum, a power of two; default: 1024 times finer than the noise and the range.
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
        if self.lower >= self.upper:
            raise ParameterError("upper", str(self.upper), f"a number above lower, {self.lower}")
        if not self.lower <= self._missing <= self.upper:
            raise ParameterError("missing", str(self.missing), "a number between lower and upper")
        check_map(self._grid, self.upper - self.lower, Decimal(0))
        if self._reach >= _MOST_STEPS:
            raise ParameterError("grid", str(self._grid), "a grid with fewer than 2^52 steps in the range")
        self.parts()
        self._sum_law()

    def claim(self) -> PureDP:
        """epsilon."""
        return PureDP(self.epsilon)

    def parts(self) -> Composition:
        """A Laplace leaf for the sum, and a discrete Laplace leaf for the count where it is not public."""
        sum_epsilon, count_law = self._shares[0], self._count_law()
        if count_law is None:
            return LaplaceLaw(sum_epsilon)
        return Sequence(
            (LaplaceLaw(sum_epsilon), DiscreteLaplaceLaw(scale=count_law.scale, sensitivity=_rows_of(self.unit)))
        )

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with the grid as it is used."""
        values = {
            "epsilon": self.epsilon,
            "lower": self.lower,
            "upper": self.upper,
            "missing": self._missing,
            "grid": self._grid,
        }
        result: dict[str, Plain] = plain(values)
        return result

    def release(self, data: object, *, entropy: Entropy) -> Release[MeanEstimate]:
        """The noisy mean of the rows of `data`."""
        steps = self._steps(numbers(data, missing=float(self._missing)))
        sum_law, count_law = self._sum_law(), self._count_law()
        total = draw(sum_law, _exact_sum(steps, self._reach), sensitivity=self._sum_sensitivity(), entropy=entropy)
        count = len(steps)
        if count_law is not None:
            count = draw(count_law, count, sensitivity=_count_sensitivity(self.unit), entropy=entropy)
        centre = float(add(self.lower, self.upper)) / 2
        mean = centre + total / max(count, 1) * float(self._grid)
        estimate = MeanEstimate(
            mean=min(max(mean, float(self.lower)), float(self.upper)),
            count=count,
            total=total,
            sum_law=sum_law,
            count_law=count_law,
            lower=self.lower,
            upper=self.upper,
        )
        return Release(value=estimate, parts=self.parts())

    def _automatic(self) -> dict[str, Any]:
        return {"grid": self._grid, "missing": self._missing}

    @property
    def _shares(self) -> tuple[Decimal, Decimal | None]:
        """epsilon of the sum, and of the count unless that is public. They add up to epsilon exactly."""
        public = self.relation is Relation.LABEL_FLIP or (
            self.relation is Relation.REPLACE_ONE and _rows_of(self.unit) == 1
        )
        if public:
            return self.epsilon, None
        count_epsilon = _share(self.epsilon, 2)
        return subtract(self.epsilon, count_epsilon), count_epsilon

    @property
    def _missing(self) -> Decimal:
        return self.missing if self.missing is not None else multiply(add(self.lower, self.upper), Decimal("0.5"))

    @property
    def _half(self) -> Fraction:
        return Fraction(subtract(self.upper, self.lower)) / 2

    @property
    def _grid(self) -> Decimal:
        if self.grid is not None:
            return self.grid
        return default_grid(upper=self._half, epsilon=self._half / Fraction(self._shares[0]))

    @property
    def _reach(self) -> int:
        """The most steps that a value lies from the centre."""
        return math.ceil(self._half / Fraction(self._grid))

    def _sum_law(self) -> RoundedLaplace:
        moved, epsilon = Fraction(self._sum_sensitivity().value), Fraction(self._shares[0])
        return RoundedLaplace(scale=derived(round_up(moved / epsilon), epsilon=self.epsilon), grid=self._grid)

    def _sum_sensitivity(self) -> Sensitivity:
        adds = self.relation in (None, Relation.ADD_REMOVE)
        moved = self._reach * Fraction(self._grid) * _rows_of(self.unit) * (1 if adds else 2)
        why = "a unit adds values within half of the range" if adds else "a unit moves values within the range"
        return Sensitivity(derived(round_up(moved), upper=self.upper), "l1", why)

    def _count_law(self) -> DiscreteLaplace | None:
        share = self._shares[1]
        return None if share is None else DiscreteLaplace(geometric_scale(_rows_of(self.unit), share))

    def _steps(self, values: Floats) -> npt.NDArray[np.int64]:
        """The clipped values as whole steps from the centre, each by itself."""
        clipped = np.clip(values, float(self.lower), float(self.upper))
        centre = float(add(self.lower, self.upper)) / 2
        steps = nearest_whole((clipped - centre) / float(self._grid))
        return np.clip(steps, -self._reach, self._reach).astype(np.int64)


def _share(epsilon: Decimal, of: int) -> Decimal:
    """One `of`-th of epsilon, rounded down to what is kept of a price."""
    return derived(round_down(Fraction(epsilon) / of), epsilon=epsilon)


def _exact_sum(steps: npt.NDArray[np.int64], reach: int) -> int:
    if len(steps) * reach < 2**62:
        return int(steps.sum())
    return sum(steps.tolist())


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """A released histogram: a whole number, possibly negative, for each label."""

    labels: tuple[str, ...]
    counts: tuple[int, ...]

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return iter(zip(self.labels, self.counts, strict=True))


@record
class Histogram(OneShot):
    """How many rows fall in each interval between `edges`, or in each of `categories`; exactly one of them is given.

    Intervals hold their lower edge, the last one both. Rows that fall nowhere (out of range, not a number, unknown) are
    `ignored`, or `counted` under the label "other". Discrete Laplace noise on each count: a unit added moves the counts
    by its rows in total, a unit changed by twice that.
    """

    epsilon: Positive
    edges: OptionalSignedNumbers = given(default=None)
    categories: tuple[Line, ...] | None = given(default=None)
    others: Literal["ignored", "counted"] = given(default="ignored")
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["histogram"] = tag(default="histogram")

    def __post_init__(self) -> None:
        exactly_one(edges=self.edges, categories=self.categories)
        if self.edges is not None and (len(self._edges) < 2 or any(b <= a for a, b in pairwise(self._edges))):
            raise ParameterError("edges", str(list(self._edges)), "at least two numbers, rising")
        if self.categories is not None and (not self.categories or len(set(self.labels())) < len(self.labels())):
            raise ParameterError("categories", str(list(self.categories)), "at least one word, each once")
        self.parts()

    def labels(self) -> tuple[str, ...]:
        """What each count is of."""
        if self.categories is not None:
            named = self.categories
        else:
            edges = [f"{edge:g}" for edge in self._edges]
            ends = [")"] * (len(edges) - 2) + ["]"]
            named = tuple(f"[{low}, {high}{end}" for (low, high), end in zip(pairwise(edges), ends, strict=True))
        return (*named, "other") if self.others == "counted" else named

    @property
    def noise(self) -> DiscreteLaplace:
        """The law of the noise of each count."""
        return DiscreteLaplace(geometric_scale(_rows_of(self.unit), _share(self.epsilon, self._times)))

    def claim(self) -> PureDP:
        """epsilon."""
        return PureDP(self.epsilon)

    def parts(self) -> Composition:
        """A discrete Laplace leaf in the l1 norm; two of them, for the counts that fall and those that rise, where a
        unit is changed."""
        leaf = DiscreteLaplaceLaw(scale=self.noise.scale, sensitivity=_rows_of(self.unit))
        return leaf if self._times == 1 else Sequence((leaf, leaf))

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, and the scale of the noise."""
        values = {
            "epsilon": self.epsilon,
            "edges": self.edges,
            "categories": self.categories,
            "others": self.others,
            "scale": self.noise.scale,
        }
        result: dict[str, Plain] = plain(values)
        return result

    def release(self, data: object, *, entropy: Entropy) -> Release[Counts]:
        """The noisy counts of the rows of `data`."""
        noisy = draw(self.noise, self._counts(data), sensitivity=self._declared, entropy=entropy)
        value = Counts(labels=self.labels(), counts=tuple(int(count) for count in noisy))
        return Release(value=value, parts=self.parts())

    def interval(self, confidence: Number) -> int:
        """The half-width around one released count that holds it with at least this probability (each by itself)."""
        return half_width(self.noise, confidence)

    @property
    def _edges(self) -> tuple[float, ...]:
        """The edges as they are compared with values."""
        return tuple(float(edge) for edge in self.edges or ())

    @property
    def _times(self) -> int:
        """How many times its rows a unit moves the counts, in total."""
        return 1 if self.relation in (None, Relation.ADD_REMOVE) else 2

    @property
    def _declared(self) -> Sensitivity:
        why = "a unit adds its rows" if self._times == 1 else "a unit moves its rows from some counts to others"
        return Sensitivity(self._times * _rows_of(self.unit), "l1", why)

    def _counts(self, data: object) -> npt.NDArray[np.int64]:
        if self.categories is not None:
            positions, inside = word_positions(data, self.categories), len(self.categories)
        else:
            positions, inside = interval_positions(data, np.array(self._edges)), len(self._edges) - 1
        counts = np.bincount(positions, minlength=inside + 1).astype(np.int64)
        return counts if self.others == "counted" else counts[:inside]
