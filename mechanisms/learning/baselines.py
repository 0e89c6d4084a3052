"""Learners without privacy, to compare with: plain functions, which no scope takes. Each has an infinite epsilon.

>>> from dpledger.mechanisms.learning.theory.concepts import ParityClass, ThresholdClass
>>> threshold_learner(ThresholdClass(8), LabeledSample([2, 5, 3], [1, 0, 1])).place
4
>>> parity_learner(ParityClass(3), LabeledSample([1, 2, 7], [1, 0, 1])).place
1
"""

from __future__ import annotations

import numpy as np

from dpledger.errors import ParameterError
from dpledger.mechanisms.learning.domains import check_rows_of
from dpledger.mechanisms.learning.equations import Echelon
from dpledger.mechanisms.learning.hypotheses import Concept, ConstantLabel
from dpledger.mechanisms.learning.samples import LabeledSample, bits_of, check_sample, labels_of, points_of
from dpledger.mechanisms.learning.theory.concepts import AnyClass, ParityClass, PointClass, ThresholdClass

__all__ = ["occam_learner", "parity_learner", "point_learner", "threshold_learner"]


def occam_learner(concepts: AnyClass, sample: LabeledSample) -> Concept:
    """A concept with the fewest errors, the first in the order of the class's segments. Sizes: `sizes.occam`."""
    check_rows_of(concepts.domain, sample)
    counted = concepts.errors(sample)
    standing = np.where(np.asarray(counted.counts > 0, dtype=bool), counted.errors, np.iinfo(np.int64).max)
    best = int(np.argmin(standing))
    return Concept(concepts, counted.place(sum(int(many) for many in counted.counts[:best])))


def point_learner(concepts: PointClass, sample: LabeledSample) -> Concept | ConstantLabel:
    """The first point with label 1; where there is none, the constant 0, which is not in the class (so says an erratum
    to Nissim 2017). Sizes: `sizes.one_sided`."""
    check_sample(sample)
    found = points_of(sample.x, concepts.points)
    ones = found.points[found.known & (labels_of(sample.y) == 1)]
    return Concept(concepts, int(ones[0])) if len(ones) else ConstantLabel(0)


def threshold_learner(concepts: ThresholdClass, sample: LabeledSample) -> Concept:
    """One above the largest point with label 1, as concepts are 1[x < u] (Nissim 2017 has x < j in one place and x <= j
    in another). Sizes: `sizes.one_sided`."""
    check_sample(sample)
    if concepts.both_ways:
        raise ParameterError("concepts", "both_ways=True", "thresholds one way: any consistent one learns both ways")
    found = points_of(sample.x, concepts.points)
    ones = found.points[found.known & (labels_of(sample.y) == 1)]
    return Concept(concepts, int(ones.max()) + 1 if len(ones) else 0)


def parity_learner(concepts: ParityClass, sample: LabeledSample) -> Concept | None:
    """A parity that agrees with the sample, the bits that are free being 0; None where there is none. Sizes:
    `sizes.occam` of 2^dimension concepts."""
    check_sample(sample, bits=concepts.dimension)
    rows = bits_of(sample.x, concepts.dimension)
    system = Echelon.of(rows.bits[rows.known], labels_of(sample.y)[rows.known])
    if system is None:
        return None
    solution = system.solution(np.zeros(concepts.dimension, dtype=np.uint8))
    return Concept(concepts, int.from_bytes(np.packbits(solution, bitorder="little").tobytes(), "little"))
