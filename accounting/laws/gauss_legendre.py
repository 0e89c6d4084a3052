"""Gauss-Legendre nodes and weights, correct to the last rounding: Newton's method in 50-digit decimals."""

from __future__ import annotations

import functools
import math
from decimal import Decimal, localcontext

import numpy as np

from dpledger.accounting.arithmetic import scalars
from dpledger.accounting.arithmetic.floating import Array
from dpledger.decimals import in_own_context, own_context

__all__ = ["gauss_legendre"]


@functools.cache
def gauss_legendre(points: int) -> tuple[Array, Array]:
    """Rising nodes in (-1, 1) and weights, each the float nearest to the exact one (or its neighbour).

    Source: Davis-Rabinowitz 1984, section 2.7 (nodes: the zeros of P_n; weights 2 / ((1 - x^2) P_n'(x)^2)).
    """
    nodes, weights = [], []
    with localcontext(own_context(50)):
        for i in range(points):
            x = Decimal.from_float(-scalars.cos(math.pi * (i + 0.75) / (points + 0.5)))
            for _ in range(6):  # quadratic from three digits: 50 after five steps
                value, slope = _legendre(points, x)
                x -= value / slope
            _, slope = _legendre(points, x)
            nodes.append(float(x))
            weights.append(float(2 / ((1 - x * x) * slope * slope)))
    return np.array(nodes), np.array(weights)


@in_own_context
def _legendre(degree: int, x: Decimal) -> tuple[Decimal, Decimal]:
    """P_n(x) and P_n'(x), by the three-term recurrence."""
    before, now = Decimal(1), x
    for k in range(1, degree):
        before, now = now, ((2 * k + 1) * x * now - k * before) / (k + 1)
    return now, degree * (x * now - before) / (x * x - 1)
