"""Regularised empirical risks, what one example moves in them, and hypotheses that are made of noisy statistics.

    L(theta) = sum of loss(theta, x_i, y_i) / n + (lambda / 2) |theta|_2^2,   |x_i|_1 <= 1, |y_i| <= 1

`shared` holds what follows from strong convexity and from the ball; `ridge` and `logistic` are the families.

>>> from decimal import Decimal
>>> from dpledger.relations import Relation
>>> common = {"rows": 100_000, "regularisation": Decimal("0.005"), "radius": "reference"}
>>> ridge = problem("ridge", dimension=77, **common)
>>> round(ridge.ball, 3), ridge.moved, round(float(ridge.query_moved) * 1e5, 2)
(14.142, Decimal('4'), 229.28)
>>> logistic = problem("logistic", dimension=28, **common)
>>> round(float(logistic.moved), 5)
0.02119
>>> problem("ridge", dimension=77, relation=Relation.ADD_REMOVE, **common).moved
Decimal('2')
"""

from __future__ import annotations

from typing import Any, TypeAlias

from dpledger.errors import ParameterError
from dpledger.mechanisms.refinement.erm.logistic import Logistic, LogisticExamples
from dpledger.mechanisms.refinement.erm.ridge import Post, Ridge, RidgeSums
from dpledger.mechanisms.refinement.erm.shared import Family, Minimum, Norm, Perturbed, Radius, Solved

__all__ = [
    "Family",
    "Logistic",
    "LogisticExamples",
    "Minimum",
    "Norm",
    "Perturbed",
    "Post",
    "Problem",
    "Radius",
    "Ridge",
    "RidgeSums",
    "Solved",
    "problem",
]

Problem: TypeAlias = Ridge | Logistic


def problem(family: Family, *, perturbed: Perturbed | None = None, post: Post = "clipped", **public: Any) -> Problem:
    """The problem of a family. `perturbed`: by default the sums of ridge, the minimiser of logistic. ParameterError for
    sums of logistic, which it has none of, and for a `post` of what is no sum."""
    published = perturbed or ("covariance" if family == "ridge" else "output")
    if family == "logistic" and published == "covariance":
        raise ParameterError("perturbed", published, "output: a logistic risk is no function of sums")
    if published == "output" and post != "clipped":
        raise ParameterError("post", post, "clipped: only noisy sums are solved in different ways")
    if family == "ridge":
        return Ridge(perturbed=published, post=post, **public)
    return Logistic(perturbed=published, **public)
