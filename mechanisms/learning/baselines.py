"""Learners without privacy, to compare with: plain functions, which no scope takes. Each has an infinite epsilon.

>>> from dpledger.mechanisms.learning.theory.concepts import ParityClass, ThresholdClass
>>> threshold_learner(ThresholdClass(8), LabeledSample([2, 5, 3], [1, 0, 1])).place
4
>>> parity_learner(ParityClass(3), LabeledSample([1, 2, 7], [1, 0, 1])).predict([3, 4]).tolist()
[1, 0]
"""

from __future__ import annotations

import numpy as np

from dpledger.mechanisms.learning.error_counts import error_counts
from dpledger.mechanisms.learning.hypotheses import Concept, Constant
from dpledger.mechanisms.learning.samples import LabeledSample, bits_of, check_sample, labels_of, points_of
from dpledger.mechanisms.learning.theory.concepts import ConceptClass, ParityClass, PointClass, ThresholdClass

__all__ = ["occam_learner", "parity_learner", "point_learner", "threshold_learner"]


def occam_learner(concepts: ConceptClass, sample: LabeledSample) -> Concept:
    """A concept with the fewest errors, the first in the order of the class's segments. Sizes: `sizes.occam`."""
    check_sample(sample, bits=concepts.dimension if isinstance(concepts, ParityClass) else None)
    counted = error_counts(concepts, sample)
    standing = np.where(np.asarray(counted.counts > 0, dtype=bool), counted.errors, np.iinfo(np.int64).max)
    best = int(np.argmin(standing))
    return Concept(concepts, counted.place(sum(int(many) for many in counted.counts[:best])))


def point_learner(concepts: PointClass, sample: LabeledSample) -> Concept | Constant:
    """The first point with label 1; where there is none, the constant 0, which is not in the class (so says an erratum
    to Nissim 2017). Sizes: `sizes.one_sided`."""
    check_sample(sample)
    found = points_of(sample.x, concepts.points)
    ones = found.points[found.known & (labels_of(sample.y) == 1)]
    return Concept(concepts, int(ones[0])) if len(ones) else Constant(0)


def threshold_learner(concepts: ThresholdClass, sample: LabeledSample) -> Concept:
    """One above the largest point with label 1, as concepts are 1[x < u]. Sizes: `sizes.one_sided`."""
    check_sample(sample)
    found = points_of(sample.x, concepts.points)
    ones = found.points[found.known & (labels_of(sample.y) == 1)]
    return Concept(concepts, int(ones.max()) + 1 if len(ones) else 0)


def parity_learner(concepts: ParityClass, sample: LabeledSample) -> Concept:
    """A solution of the equations, by elimination, the bits that are free being 0; an equation that contradicts earlier
    ones is left out. Sizes: `sizes.occam` of 2^dimension concepts."""
    check_sample(sample, bits=concepts.dimension)
    rows = bits_of(sample.x, concepts.dimension)
    bits, labels = rows.bits[rows.known], labels_of(sample.y)[rows.known]
    pivots: dict[int, tuple[int, int]] = {}  # the highest bit of an equation: the equation
    for row, label in zip(np.packbits(bits, axis=1, bitorder="little"), labels.tolist(), strict=True):
        left, right = int.from_bytes(row.tobytes(), "little"), int(label)
        while left and (high := left.bit_length() - 1) in pivots:
            left, right = left ^ pivots[high][0], right ^ pivots[high][1]
        if left:
            pivots[left.bit_length() - 1] = (left, right)
    solution = 0
    for high in sorted(pivots):
        left, right = pivots[high]
        solution |= (right ^ ((left & solution).bit_count() & 1)) << high
    return Concept(concepts, solution)
