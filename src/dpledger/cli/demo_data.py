"""The data of the demo: the breast cancer data that ships with scikit-learn, one row a patient.

398 rows are the private data of the demo; the other 171 play the public, held-out part on which accuracy is measured.
Features are scaled by ranges that are fixed here, taken from the published description of the data: never by the
private rows themselves, since one patient could then move everybody else's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpledger.errors import ParameterError
from dpledger.mechanisms.training import row_sums

__all__ = ["PRIVATE_ROWS", "Patients", "accuracy", "gradients", "load", "scaled"]

Floats = npt.NDArray[np.float64]

PRIVATE_ROWS = 398
SHUFFLE_SEED = 0  # which rows are private is public

# (lowest, highest) published of mean, standard error and worst value of each of ten measurements, rounded outward
_RANGES = (
    (5, 30), (5, 40), (40, 190), (100, 2600), (0, 0.2), (0, 0.4), (0, 0.5), (0, 0.25), (0.1, 0.35), (0, 0.1),
    (0, 3), (0, 5), (0, 25), (0, 600), (0, 0.05), (0, 0.15), (0, 0.4), (0, 0.06), (0, 0.1), (0, 0.03),
    (5, 40), (10, 50), (50, 260), (100, 4500), (0, 0.25), (0, 1.2), (0, 1.3), (0, 0.3), (0.1, 0.7), (0, 0.25),
)  # fmt: skip


ORDINARY = 0.7  # values beyond this share of a range are rare and clipped: they would squeeze all others together


@dataclass(frozen=True, slots=True)
class Patients:
    """Rows of patients: `raw` features (n, 30), `features` scaled to [-1, 1] with a constant 1 behind (n, 31),
    `malignant` as 0 or 1 (n,)."""

    raw: Floats
    features: Floats
    malignant: Floats


def load() -> tuple[Patients, Patients]:
    """The private and the public part. ParameterError if scikit-learn is not there."""
    try:
        from sklearn.datasets import load_breast_cancer
    except ImportError:
        raise ParameterError("demo", "no scikit-learn", "the extra: pip install 'dpledger[demo]'") from None
    bunch = load_breast_cancer()
    order = np.random.default_rng(SHUFFLE_SEED).permutation(len(bunch.data))
    raw, malignant = bunch.data[order], 1.0 - bunch.target[order]
    everyone = Patients(raw, scaled(raw), malignant)
    parts = (slice(0, PRIVATE_ROWS), slice(PRIVATE_ROWS, None))
    private, public = (Patients(everyone.raw[p], everyone.features[p], everyone.malignant[p]) for p in parts)
    return private, public


def scaled(raw: Floats) -> Floats:
    """Features clipped to their public, ordinary ranges and scaled to [-1, 1], and a constant 1: (n, 30) to (n, 31)."""
    low, most = np.array(_RANGES).T
    high = low + ORDINARY * (most - low)
    inside = (np.clip(raw, low, high) - low) / (high - low)
    return np.hstack([2 * inside - 1, np.ones((len(raw), 1))])


def gradients(weights: Floats, features: Floats, malignant: Floats) -> Floats:
    """Per-example gradients of the logistic loss: (31,), (b, 31), (b,) to (b, 31). Batch-invariant: each row's product
    is added in one order, which `features @ weights` does not promise."""
    predicted = 1 / (1 + np.exp(-row_sums(features * weights)))
    result: Floats = (predicted - malignant)[:, None] * features
    return result


def accuracy(weights: Floats, patients: Patients) -> float:
    """The share of patients on the right side."""
    return float(np.mean((patients.features @ weights > 0) == (patients.malignant > 0.5)))
