"""Cases of labels by votes, for students and as scores: samplers of continuous noise, in plain numpy.

    labels of rows      votes as in `aggregates`; a row that is unstable, or comes after the end, gets a fair coin
    soft labels         data: rows of (plain distance, shifted distance); W = threshold + Laplace(threshold_scale)
        plain distance + Laplace(query_scale) > W: plain;  else, after a fresh W, shifted distance + ... > W: shifted
        a fresh W after each failed test; the end with the `failed`-th

An outcome is the whole transcript, as one number.
Sources: Bassily-Thakkar-Thakurta 2018; docs/proofs/stability.md, sections 9 and 10.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from dpledger.accounting.guarantees import ApproxDP, PureDP
from dpledger.audit.zoo.cases import Case
from dpledger.audit.zoo.implementations import Implementation, Numbers, Rng
from house_cases.stability import aggregates

__all__ = [
    "LABELLED",
    "AskedAgain",
    "CountedOnce",
    "LabelledRows",
    "LargerDistance",
    "MeanGrid",
    "PluralityLabels",
    "PrivateRows",
    "SoftTests",
    "WarmStart",
]

Bools = npt.NDArray[np.bool_]
PLAIN, SHIFTED, UNSTABLE = 1, 2, 3
SOFT_BASE = 4
COIN = 3  # and 4: the sides of a coin; 1 and 2 are classes that were answered
LABEL_BASE = 5


# ---- labels of rows -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LabelledRows(aggregates.VotedAnswers):
    """Each row's label, and whether it is a coin: one number to the base 5."""

    def __call__(self, data: Any, size: int, rng: Rng) -> Numbers:
        answers = aggregates.VotedAnswers.__call__(self, data, size, rng)
        places = aggregates.BASE ** np.arange(self.votes(data).shape[1])[::-1]
        code = np.zeros(size, dtype=np.int64)
        for digit in (answers[:, None] // places % aggregates.BASE).T:
            is_answer = (digit > 0) & (digit != aggregates.UNSTABLE)
            code = LABEL_BASE * code + np.where(is_answer, digit, COIN + rng.integers(0, 2, size))
        return code


@dataclass(frozen=True)
class PluralityLabels(aggregates.Plurality):
    """A row that is unstable is labelled by the class with more votes."""


@dataclass(frozen=True)
class WarmStart(LabelledRows):
    """The last column is a row that is not asked: what the student says there, which goes on from the first model."""

    def __call__(self, data: Any, size: int, _rng: Rng) -> Numbers:
        return np.full(size, int(np.asarray(data)[0, -1]))


@dataclass(frozen=True)
class PrivateRows(LabelledRows):
    """Data: the features of the private units, which are labelled in place of public rows, and published beside their
    labels: of the outcome, their sum alone."""

    def __call__(self, data: Any, size: int, _rng: Rng) -> Numbers:
        return np.full(size, float(np.sum(data)))


@dataclass(frozen=True)
class AskedAgain(LabelledRows):
    """One row is asked again until it is answered, so many times at most, and no failure is charged. The outcome is the
    class, or 0 where none was ever answered."""

    tries: Decimal = Decimal(50)

    def __call__(self, data: Any, size: int, rng: Rng) -> Numbers:
        votes = self.votes(data)[:, 0]
        ahead = np.array([2 * votes.sum() - len(votes)])
        distance, tries = int(self.distances(ahead)[0]), int(self.tries)
        above = self._thresholds(size * tries, rng)
        passed = distance + rng.laplace(0.0, float(self.query_scale), size * tries) > above
        return np.where(passed.reshape(size, tries).any(axis=1), 1 + int(ahead[0] > 0), 0)


# ---- soft labels ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SoftTests(Implementation):
    """Each query is tested in the plain and, where that fails, in the shifted partition, on a fresh threshold."""

    threshold_scale: Decimal
    query_scale: Decimal
    threshold: Decimal
    failed: Decimal

    def charges(self, plain_failed: Bools, shifted_failed: Bools) -> npt.NDArray[np.int64]:
        """What a query's failed tests count."""
        return plain_failed.astype(np.int64) + shifted_failed

    def ends(self, left: npt.NDArray[np.int64]) -> Bools:
        """Whether a failed plain test is the last one."""
        return np.asarray(left == 1)

    def answers(self, data: Any, size: int, rng: Rng) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The transcripts, and how many thresholds were drawn in each run."""
        left = np.full(size, int(self.failed))
        above, drawn = self._above(size, rng), np.ones(size, dtype=np.int64)
        code = np.zeros(size, dtype=np.int64)
        for plain, shifted in np.asarray(data).tolist():
            open_ = left > 0
            fails = open_ & ~self._passes(plain, above, rng)
            is_over = fails & self.ends(left)
            again = fails & ~is_over
            above = np.where(again, self._above(size, rng), above)
            second = again & self._passes(shifted, above, rng)
            both = again & ~second
            left = left - self.charges(fails, both)
            renewed = both & (left > 0)
            above = np.where(renewed, self._above(size, rng), above)
            drawn += again.astype(np.int64) + renewed
            said = np.where(fails, np.where(second, SHIFTED, UNSTABLE), PLAIN)
            code = SOFT_BASE * code + np.where(open_, said, 0)
        return code, drawn

    def __call__(self, data: Any, size: int, rng: Rng) -> Numbers:
        return self.answers(data, size, rng)[0]

    def _above(self, size: int, rng: Rng) -> Numbers:
        return float(self.threshold) + rng.laplace(0.0, float(self.threshold_scale), size)

    def _passes(self, distance: float, above: Numbers, rng: Rng) -> Bools:
        return np.asarray(distance + rng.laplace(0.0, float(self.query_scale), len(above)) > above)


@dataclass(frozen=True)
class CountedOnce(SoftTests):
    """A query that fails both tests counts as one failure, so that a run draws up to twice as many thresholds."""

    def charges(self, plain_failed: Bools, shifted_failed: Bools) -> npt.NDArray[np.int64]:
        return (plain_failed | shifted_failed).astype(np.int64)

    def ends(self, left: npt.NDArray[np.int64]) -> Bools:
        return np.zeros(len(left), dtype=np.bool_)


@dataclass(frozen=True)
class LargerDistance(SoftTests):
    """Both histograms are counted, and the one with the larger distance is tested, once."""

    def __call__(self, data: Any, size: int, rng: Rng) -> Numbers:
        ((plain, shifted),) = np.asarray(data).tolist()
        said = SHIFTED if shifted > plain else PLAIN
        return np.where(self._passes(max(plain, shifted), self._above(size, rng), rng), said, UNSTABLE)


@dataclass(frozen=True)
class MeanGrid(SoftTests):
    """Data: the scores of the models, all in one bin of a grid around their mean: it is tested, and its middle, in
    thousandths, released."""

    def __call__(self, data: Any, size: int, rng: Rng) -> Numbers:
        scores = np.asarray(data, dtype=np.float64)
        passed = self._passes((len(scores) - 1) // 2, self._above(size, rng), rng)
        return np.where(passed, round(1000 * float(scores.mean())), -1)


# ---- cases -------------------------------------------------------------------------------------------------------

_ONE_UNSTABLE = (Decimal(2), Decimal(4), Decimal("35.219351047"))
_TWO_FAILED = (Decimal(4), Decimal(8), Decimal(4), Decimal(2))
_FAR = ((3, 9),) * 6, ((2, 8), (2, 8), (4, 10), (2, 8), (2, 8), (4, 10))


def _case(
    about: str,
    mechanism: Callable[..., Any],
    pair: tuple[object, object],
    true_epsilon: float = math.inf,
    claim: ApproxDP | PureDP | None = None,
) -> Case:
    """Claimed at (1, 10^-4), if nothing else is said."""
    return Case(
        about=about,
        mechanism=mechanism,
        left=pair[0],
        right=pair[1],
        claim=ApproxDP(1, "1e-4") if claim is None else claim,
        true_epsilon=true_epsilon,
    )


LABELLED: Mapping[str, Case] = MappingProxyType(
    {
        "labelled_rows": _case(
            "what 101 models answer on public rows, and fair coins where they do not, as claimed",
            LabelledRows(*_ONE_UNSTABLE),
            aggregates.far_flip(71, 71, 9),
            0.9751203828,
        ),
        "labelled_rows_by_plurality": _case(
            "rows that are unstable are labelled by the plurality, in place of a coin",
            PluralityLabels(*_ONE_UNSTABLE),
            aggregates.narrow_flip(101, 1),
        ),
        "labelled_rows_warm_start": _case(
            "the student goes on from a model of one chunk, and tells of a row that is in no other",
            WarmStart(*_ONE_UNSTABLE),
            (aggregates.models(71, 101), np.eye(1, 101).T.astype(np.int64) * [[0, 1]] + aggregates.models(71, 101)),
        ),
        "labelled_rows_private": _case(
            "the rows are the features of the private units, under add_remove",
            PrivateRows(*_ONE_UNSTABLE),
            ((0.25, 0.5), (0.25, 0.5, 0.125)),
        ),
        "labelled_rows_asked_again": _case(
            "a row is asked until it is answered, and no failure is charged; true delta 0.7226104269",
            AskedAgain(Decimal(4), Decimal(8), Decimal("26.0883188928"), Decimal(2)),
            aggregates.narrow_flip(101, 1),
            claim=ApproxDP(1, "0.05"),
        ),
        "soft_labels": _case(
            "scores in a partition or its shift, with two failed tests, as claimed",
            SoftTests(*_TWO_FAILED),
            _FAR,
            0.5705887341,
            PureDP(1),
        ),
        "soft_labels_noise_of_queries": _case(
            "noise for as many failed tests as queries may fail, each of which has two; at worst 2",
            SoftTests(Decimal(2), Decimal(4), Decimal(4), Decimal(2)),
            _FAR,
            1.2241120577,
            PureDP(1),
        ),
        "soft_labels_larger_distance": _case(
            "of both partitions the one with the larger distance, tested once; true delta 0.9128290843",
            LargerDistance(*_TWO_FAILED),
            (((20, 20),), ((19, 20),)),
        ),
        "soft_labels_grid_of_the_mean": _case(
            "bins around the mean of the scores",
            MeanGrid(*_TWO_FAILED),
            ((0.5,) * 101, (0.5,) * 100 + (0.9,)),
        ),
    }
)
"""Labels by votes, right and wrong, by name."""
