"""Noise that is added: `draw` adds a declared law to whole numbers.

A mechanism turns its statistic into whole numbers of steps, says how far one unit may move them and why, and calls
`draw`. What is chosen, tossed or refined has functions of its own (`choices`, `bernoulli`, `chains`). There is no other
way to noise, so each call can be recorded and replayed (`randomness_log`).

>>> from dpledger.mechanisms.entropy import seeded
>>> from dpledger.mechanisms.noise.laws import DiscreteLaplace, Sensitivity
>>> from dpledger.mechanisms.noise.randomness_log import recording
>>> one = Sensitivity(1, "l1", "a record changes a count by one")
>>> with recording() as draws:
...     noisy = draw(DiscreteLaplace(scale=2), 100, sensitivity=one, entropy=seeded(1))
>>> draws[0].value, draws[0].output == noisy
(100, True)
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np
import numpy.typing as npt

from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise.laws import (
    DiscreteGaussian,
    DiscreteLaplace,
    Law,
    RoundedGaussian,
    RoundedLaplace,
    Sensitivity,
)
from dpledger.mechanisms.noise.randomness_log import logged
from dpledger.mechanisms.noise.sampling import LIMIT, Cells, sample, sample_one

__all__ = ["draw"]

_LAWS = (DiscreteLaplace, DiscreteGaussian, RoundedLaplace, RoundedGaussian)


@overload
def draw(law: Law, value: int, *, sensitivity: Sensitivity, entropy: Entropy) -> int: ...
@overload
def draw(law: Law, value: npt.NDArray[Any], *, sensitivity: Sensitivity, entropy: Entropy) -> Cells: ...
def draw(law: Law, value: int | Cells, *, sensitivity: Sensitivity, entropy: Entropy) -> int | Cells:
    """`value` plus independent noise of `law` on each entry, exactly; in whole steps of `law.grid`.

    `value`: an int, or an array of integers (int64, or Python integers in an object array) of any shape.
    Returns the same shape: an int for an int; int64, or an object array of Python integers where a sum does not fit,
    so nothing ever wraps. `sensitivity`: what one unit may change, for the record. Raises ParameterError for a `law`,
    `sensitivity` or `value` of another type; never because of a number.
    Source: docs/proofs/noise.md.
    """
    if not isinstance(law, _LAWS):
        raise ParameterError("law", type(law).__name__, "a noise law, like DiscreteLaplace(scale=2)")
    if not isinstance(sensitivity, Sensitivity):
        raise ParameterError("sensitivity", type(sensitivity).__name__, "a Sensitivity with norm and justification")
    noisy = _added(law, value, entropy)
    shape = noisy.shape if isinstance(noisy, np.ndarray) else ()
    return logged(law, noisy, value=value, shape=shape, sensitivity=sensitivity)


def _added(law: Law, value: int | Cells, entropy: Entropy) -> int | Cells:
    if isinstance(value, np.ndarray):
        values = _whole(np.asarray(value))  # of a masked array every entry
        return _sum(values.reshape(-1), sample(law, values.size, entropy)).reshape(values.shape)
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return int(value) + sample_one(law, entropy)
    raise ParameterError("value", type(value).__name__, "whole numbers of steps: an int or an array of integers")


def _whole(values: Cells) -> Cells:
    if values.dtype.kind == "i":
        return values.astype(np.int64, copy=False)
    if values.dtype.kind == "u" or (values.dtype.kind == "O" and all(type(item) is int for item in values.flat)):
        return values.astype(object)
    raise ParameterError("value", f"an array of {values.dtype}", "an array of whole numbers of steps")


def _sum(values: Cells, noise: Cells) -> Cells:
    """values + noise. Two int64 numbers below LIMIT in size do not wrap; all else is added as Python integers."""
    small = values.dtype != object and noise.dtype != object and (not values.size or _largest(values) < LIMIT)
    total: Cells = values + noise if small else values.astype(object) + noise.astype(object)
    if small or not total.size or not -(2**63) <= total.min() <= total.max() < 2**63:
        return total
    return total.astype(np.int64)


def _largest(values: Cells) -> int:
    return max(abs(int(values.min())), abs(int(values.max())))
