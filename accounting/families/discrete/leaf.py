"""Noise on the integers: the laws that a composition tree holds."""

from __future__ import annotations

from typing import Literal

from dpledger.number_fields import Noise, Positive
from dpledger.schema import record, tag

__all__ = ["DiscreteGaussianLaw", "DiscreteLaplaceLaw"]


@record
class DiscreteLaplaceLaw:
    """Laplace noise on the integers, pmf proportional to exp(-|k|/scale); sensitivity: l1, of an integer statistic.

    >>> round(dpl.compose(dpl.DiscreteLaplaceLaw(scale=10, sensitivity=1)).epsilon(0).upper, 4)
    0.1
    """

    scale: Noise
    sensitivity: Positive
    kind: Literal["discrete_laplace"] = tag(default="discrete_laplace")


@record
class DiscreteGaussianLaw:
    """Gaussian noise on the integers, pmf proportional to exp(-k^2/2 sigma^2); sensitivity: of one whole number. The
    zCDP price holds for a vector of them too, with the l2 norm. Canonne-Kamath-Steinke 2020.

    >>> round(dpl.compose(dpl.DiscreteGaussianLaw(sigma=4, sensitivity=1)).epsilon("1e-5").upper, 4)
    0.9274
    """

    sigma: Noise
    sensitivity: Positive
    kind: Literal["discrete_gaussian"] = tag(default="discrete_gaussian")
