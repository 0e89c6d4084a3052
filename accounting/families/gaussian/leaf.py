"""Gaussian noise: the law that a composition tree holds."""

from __future__ import annotations

from typing import Literal

from dpledger.number_fields import Noise
from dpledger.schema import record, tag

__all__ = ["GaussianLaw"]


@record
class GaussianLaw:
    """Gaussian noise; noise_multiplier = sigma / the l2 bound of one unit's contribution.

    Adding, removing or zeroing a unit moves the mean by at most that bound (mu = 1/noise_multiplier); replacing one,
    or flipping its label, by at most twice that (mu = 2/noise_multiplier).

    >>> round(dpl.compose((dpl.GaussianLaw(noise_multiplier=4), 10)).epsilon("1e-6").upper, 4)
    3.7472
    """

    noise_multiplier: Noise
    kind: Literal["gaussian"] = tag(default="gaussian")
