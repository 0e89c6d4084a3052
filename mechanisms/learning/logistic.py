"""Logistic regression on the bins of a table, for two classes or several: noisy steps on all rows.

A score of a class is a weight for each bin that a row is in (and, of pairs of columns, for both bins together), and one
that all rows have. So one row moves the sums that weights are learned from by at most sqrt(columns + pairs + 1) times
what its probabilities miss, and nothing needs clipping.

>>> from dpledger.mechanisms.entropy import seeded
>>> bins = Binning({"age": [18, 40, 65]}, source="the census form")
>>> learner = PrivateLogisticLearner(bins, rho=2, classes=3)
>>> rows = [{"age": age % 90} for age in range(900)]
>>> sample = LabeledSample(rows, [0 if row["age"] < 18 else 1 if row["age"] < 65 else 2 for row in rows])
>>> found = learner.release(sample, entropy=seeded(1)).value
>>> found.predict([{"age": 10}, {"age": 50}, {"age": 70}]).tolist()
[0, 1, 2]
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dpledger.accounting.composition import Composition, Repeated, Sequence
from dpledger.accounting.guarantees import ZCDP
from dpledger.decimals import exact, multiply, round_down, round_up, subtract
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.learning.row_learner import RowLearner
from dpledger.mechanisms.learning.samples import LabeledSample, class_labels_of
from dpledger.mechanisms.learning.tables.binning import MOST_BINS, Binned, Binning, BinningField
from dpledger.mechanisms.learning.tables.weighted_bins import (
    STEPS,
    BinSums,
    Pairs,
    WeightedBins,
    chances_of,
    missed_steps,
    scores_of,
)
from dpledger.mechanisms.noise import RoundedGaussian, Sensitivity, draw
from dpledger.mechanisms.numeric.gaussian import gaussian_leaf
from dpledger.mechanisms.numeric.one_shot import derived
from dpledger.mechanisms.numeric.rows import rows_of
from dpledger.mechanisms.protocol import Release
from dpledger.number_fields import Positive, Whole
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, given, plain, record, tag

__all__ = ["LogisticModel", "PrivateLogisticLearner"]

Floats = npt.NDArray[np.float64]
Wholes = npt.NDArray[np.int64]

GRID = exact(Fraction(1, STEPS))
MOST_WEIGHT = 64.0  # e^64 is beyond every odds that a sample shows
PACE = 2.0  # over the columns: bins of one row move together (measured: docs/private_learning.md)
CURVED = 0.25  # of a logistic loss, at most
_COUNT_SHARE = Decimal("0.1")  # of rho
_DIGITS = 12
_ROOM = 1 + Fraction(1, 10**10)
_WHY = "a row adds at most its missed probability, in one bin of each column and pair and in the bin of all rows"


@dataclass(frozen=True, slots=True, repr=False)
class LogisticModel:
    """Weights of bins: `weights[c][d]` is 2^20 times what bin d adds to the score of class c. With two classes there is
    one score, of the second; bin 0 is that of all rows, the others follow column by column, then pair by pair."""

    binning: Binning
    classes: int
    weights: tuple[tuple[int, ...], ...]
    pairs: Pairs = ()

    def __repr__(self) -> str:
        return f"LogisticModel({self.classes} classes, {len(self.binning.features)} columns)"

    def predict(self, x: object) -> npt.NDArray[np.uint8]:
        """The likeliest class of each row of `x`, by its number."""
        scores = self.scores(x)
        likeliest = scores > 0 if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(likeliest, dtype=np.uint8)

    def scores(self, x: object) -> Floats:
        """The score of each row of `x`: float64[rows] of two classes, above 0 where it is the second; else
        float64[rows, classes]."""
        found = self._scores(x)
        return found[0] if self.classes == 2 else np.ascontiguousarray(found.T)

    def probabilities(self, x: object) -> Floats:
        """The chance of each class for each row of `x`, by the model: float64[rows, classes]."""
        found = chances_of(self._scores(x))
        return np.ascontiguousarray((np.stack([1 - found[0], found[0]]) if self.classes == 2 else found).T)

    def _scores(self, x: object) -> Floats:
        weights = np.array(self.weights, dtype=np.float64) / STEPS
        return scores_of(weights, WeightedBins(self.binning, self.pairs).of(self.binning.read(x)))

    @property
    def params(self) -> Mapping[str, Plain]:
        """The weights, in steps."""
        result: dict[str, Plain] = plain({"weights": self.weights})
        return result

    @property
    def output_in_class(self) -> bool:
        """It is a linear model, as was asked for."""
        return True


@record
class PrivateLogisticLearner(RowLearner):
    """Logistic regression by `steps` of noisy gradients on all rows. Bassily-Smith-Thakurta 2014, on whole batches.

    `binning`: public, fixed before the data; a model is a weight for each bin of each column. `rho`: zCDP of all steps
    together, under any relation; a tenth of it goes into how many rows each bin has, by which the steps are measured
    (under label_flip these are public). `pairs`: of columns that matter together, each of which has a weight for both
    bins at once. `classes`: how many labels there are, 0 to classes - 1. `steps`: fixed
    beforehand; more of them share the rho. No accuracy is promised. `strict`: see `RowLearner`.
    The value is a `LogisticModel`: its `predict(rows)` gives uint8[rows], `probabilities(rows)` and `scores(rows)`
    floats.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> bins = dpl.learning.Binning({"age": [18, 65]}, source="the census form")
    >>> rows = dpl.learning.LabeledSample([{"age": age} for age in range(90)], [age >= 65 for age in range(90)])
    >>> learner = dpl.learning.PrivateLogisticLearner(bins, rho=5)
    >>> found = learner.release(rows, entropy=seeded(1)).value
    >>> found.predict([{"age": 70}, {"age": 30}]).tolist()
    [1, 0]
    """

    binning: BinningField
    rho: Positive
    classes: Annotated[Whole, Field(strict=True, ge=2, le=255)] = given(default=2)
    steps: Annotated[Whole, Field(strict=True, ge=1, le=10**4)] = given(default=20)
    pairs: Pairs = given(default=())
    strict: Annotated[bool, Field(strict=True)] = given(default=False)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["private_logistic_learner"] = tag(default="private_logistic_learner")

    def __post_init__(self) -> None:
        for pair in self.pairs:
            if pair[0] == pair[1] or not set(pair) <= set(self.binning.columns):
                raise ParameterError("pairs", str(pair), "two different columns of the binning")
        if len({frozenset(pair) for pair in self.pairs}) < len(self.pairs) or self._cells.bins > MOST_BINS:
            raise ParameterError("pairs", f"{len(self.pairs)} pairs", f"each once, with at most {MOST_BINS:,} bins")
        _ = self._noise, self._count_noise

    @property
    def domain(self) -> Binning:
        """The rows that it learns from."""
        return self.binning

    @property
    def labels(self) -> int:
        """As many as there are classes."""
        return self.classes

    @property
    def says(self) -> tuple[str, ...]:
        """Scores, and chances by them."""
        return "scores", "probabilities"

    def claim(self) -> ZCDP:
        """rho.

        Claim: the counts and all steps, each of which depends on those before it, compose to rho.
        Source: docs/proofs/learning_tables.md, "Logistic regression"; Bun-Steinke 2016, lemma 2.3."""
        return ZCDP(self.rho)

    def parts(self) -> Composition:
        """A Gaussian leaf for the counts, unless these are public, and one for each step."""
        steps = Repeated(gaussian_leaf(self._multiplier, self.relation), times=self.steps)
        if self._counts_are_public:
            return steps
        return Sequence((gaussian_leaf(self._count_multiplier, self.relation), steps))

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, and the deviations of the noise."""
        result: dict[str, Plain] = plain(
            {
                "binning": self.binning.described(),
                "rho": self.rho,
                "classes": self.classes,
                "steps": self.steps,
                "pairs": self.pairs,
                "strict": self.strict,
                "sigma": self._noise.sigma,
                "sigma_of_counts": None if self._counts_are_public else self._count_noise.sigma,
                "sensitivity": self._sensitivity.value,
                "justification": _WHY,
            }
        )
        return result

    def release(self, data: LabeledSample, *, entropy: Entropy) -> Release[LogisticModel]:
        """The model."""
        sample = self._taken(data, entropy)
        weights = self._learned(self.binning.read(sample.x), class_labels_of(sample.y, self.classes), entropy)
        return Release(value=self.value_of(tuple(map(tuple, weights.tolist()))), parts=self.parts())

    def plain_of(self, value: LogisticModel) -> tuple[tuple[int, ...], ...]:
        """The weights: what they are of follows from the parameters."""
        return value.weights

    def value_of(self, plain: tuple[tuple[int, ...], ...]) -> LogisticModel:
        """The model with these weights, as `plain_of` says them."""
        return LogisticModel(self.binning, self.classes, plain, self.pairs)

    def sampled_of(self, value: LogisticModel) -> Wholes:
        """The weights, as `sample` gives them."""
        return np.array(value.weights, dtype=np.int64)

    def _sampled(self, taken: LabeledSample, size: int, entropy: Entropy) -> Wholes:
        """The weights, one release a row: int64[size, scores, bins]."""
        rows, y = self.binning.read(taken.x), class_labels_of(taken.y, self.classes)
        found = [self._learned(rows, y, entropy) for _ in range(size)]
        return np.array(found, dtype=np.int64).reshape(size, self._scored, self._cells.bins)

    # ---- learning ----------------------------------------------------------------------------------------------------

    def _learned(self, rows: Binned, y: npt.NDArray[np.intp], entropy: Entropy) -> Wholes:
        """Weights, in steps: each step moves every bin by its noisy sum over what its rows weigh, a Newton step of that
        bin alone, shortened by the number of columns, and by the noise where rows are few."""
        cells = self._cells.of(rows)
        sums, spread = BinSums(cells, rows.known, self._cells.bins), float(self._noise.sigma)
        weighed = np.maximum(self._counted(sums, entropy), 1.0) * CURVED + spread
        pace = PACE / len(cells)
        weights = np.zeros((self._scored, sums.bins))
        for _ in range(self.steps):
            missed = missed_steps(chances_of(scores_of(weights, cells)), y)
            moved = np.stack([sums.of(one) for one in missed])
            noisy = draw(self._noise, moved, sensitivity=self._sensitivity, entropy=entropy)
            weights -= pace * (noisy.astype(np.float64) / STEPS) / weighed
            np.clip(weights, -MOST_WEIGHT, MOST_WEIGHT, out=weights)
        return np.rint(weights * STEPS).astype(np.int64)

    def _counted(self, sums: BinSums, entropy: Entropy) -> Floats:
        """About how many rows each bin has."""
        counts = sums.of(np.full(sums.rows, STEPS, dtype=np.int64))
        if not self._counts_are_public:
            counts = draw(self._count_noise, counts, sensitivity=self._count_sensitivity, entropy=entropy)
        return counts.astype(np.float64) / STEPS

    @property
    def _cells(self) -> WeightedBins:
        return WeightedBins(self.binning, self.pairs)

    @property
    def _scored(self) -> int:
        """How many scores: one of two classes, else one each."""
        return 1 if self.classes == 2 else self.classes

    # ---- noise -------------------------------------------------------------------------------------------------------

    @property
    def _counts_are_public(self) -> bool:
        return self.relation is Relation.LABEL_FLIP

    @property
    def _count_rho(self) -> Decimal:
        return derived(round_down(Fraction(multiply(self.rho, _COUNT_SHARE)), digits=_DIGITS), rho=self.rho)

    @property
    def _count_multiplier(self) -> Decimal:
        return _multiplier(self._count_rho, 1, self.rho)

    @property
    def _multiplier(self) -> Decimal:
        left = self.rho if self._counts_are_public else subtract(self.rho, self._count_rho)
        return _multiplier(left, self.steps, self.rho)

    @property
    def _count_sensitivity(self) -> Sensitivity:
        """In the l2 norm, of the rows of a unit in their bins."""
        times = rows_of(self.unit) * (2 if self.relation is Relation.REPLACE_ONE else 1)
        return Sensitivity(_root(times * times * self._cells.each), "l2", _WHY)

    @property
    def _sensitivity(self) -> Sensitivity:
        """In the l2 norm, of what the rows of a unit miss."""
        times = rows_of(self.unit) * (2 if self.relation is Relation.REPLACE_ONE else 1)
        missed = 1 if self.classes == 2 else 2
        return Sensitivity(_root(times * times * missed * self._cells.each), "l2", _WHY)

    @property
    def _noise(self) -> RoundedGaussian:
        return _gaussian(self._multiplier, self._sensitivity, self.rho)

    @property
    def _count_noise(self) -> RoundedGaussian:
        return _gaussian(self._count_multiplier, self._count_sensitivity, self.rho)


def _gaussian(multiplier: Decimal, sensitivity: Sensitivity, rho: Decimal) -> RoundedGaussian:
    sigma = derived(round_up(Fraction(multiplier) * Fraction(sensitivity.value), digits=_DIGITS), rho=rho)
    return RoundedGaussian(sigma=sigma, grid=GRID)


def _multiplier(rho: Decimal, times: int, given: Decimal) -> Decimal:
    """About the least noise, over the sensitivity, with which so many releases cost at most rho, sqrt(times / (2 rho)):
    with room for what a price is rounded up by."""
    near = round_up(math.sqrt(Fraction(times) / (2 * Fraction(rho))), digits=_DIGITS)
    return derived(round_up(Fraction(near) * _ROOM, digits=_DIGITS), rho=given)


def _root(square: int) -> Decimal:
    """A decimal that is at least the root of a whole number, by less than 2^-20."""
    return round_up(Fraction(math.isqrt((square << 40) - 1) + 1, 2**20))
