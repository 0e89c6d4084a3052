"""Laplace noise: the law that a composition tree holds."""

from __future__ import annotations

from typing import Literal

from dpledger.number_fields import Exact
from dpledger.schema import record, tag

__all__ = ["LaplaceLaw"]


@record
class LaplaceLaw:
    """Laplace noise; epsilon = sensitivity (l1) / scale, under the relation beside the tree.

    >>> round(dpl.compose((dpl.LaplaceLaw("0.1"), 20)).epsilon("1e-6").upper, 4)
    1.774
    """

    epsilon: Exact
    kind: Literal["laplace"] = tag(default="laplace")
