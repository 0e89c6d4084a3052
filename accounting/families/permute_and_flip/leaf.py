"""Permute-and-flip: the law that a composition tree holds."""

from __future__ import annotations

from typing import Literal

from dpledger.number_fields import Exact
from dpledger.schema import record, tag

__all__ = ["PermuteAndFlipLaw"]


@record
class PermuteAndFlipLaw:
    """Permute-and-flip: candidates are tried in random order, each taken with probability e^{epsilon (score - best) /
    (2 sensitivity)}. Laplace noise of this epsilon dominates it, however many candidates there are. McKenna-Sheldon
    2020; docs/proofs/events.md, section 1.

    >>> round(dpl.compose((dpl.planning.PermuteAndFlipLaw("0.1"), 20)).epsilon("1e-6").upper, 4)
    1.774
    """

    epsilon: Exact
    kind: Literal["permute_and_flip"] = tag(default="permute_and_flip")
