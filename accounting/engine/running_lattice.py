"""A list that grows, on a lattice: for lists that no contour is narrow for, as few runs of sampled mechanisms.

Two lattices, one above and one below the profile, at one *plan* (tilt, window, spacing): each loss is put on both once,
and what is added multiplies their transforms. The plan is that of the lattice which answered for the whole list, with
room for more; where its answer is no longer as narrow, the whole list is asked anew. docs/proofs/lattice.md, section 6.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import replace

from dpledger.accounting.arithmetic import scalars
from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.engine.convolution import Moments, Product, Transformed, transformed
from dpledger.accounting.engine.lattice import (
    RUNGS,
    Plan,
    epsilon_above,
    epsilon_below,
    planned_epsilon,
    range_for,
)
from dpledger.accounting.engine.solve import Interval
from dpledger.accounting.engine.staircase import MOST_CELLS, Mesh, lower_steps, upper_steps
from dpledger.accounting.laws.law import Loss
from dpledger.accounting.laws.tails import profile_of
from dpledger.errors import WorkLimit

__all__ = ["RunningLattice"]

FINER = 0.55  # of the spacing that is enough now
WIDER = 1.4  # times the window, for aliases of more losses
MORE = 3  # times the runs that there are: so many are to have room
MOST_KEPT = 8  # losses whose transforms are kept


class RunningLattice:
    """Losses on the lattices of one plan, with room for so many `runs`."""

    def __init__(self, plan: Plan, runs: int, log_delta: float) -> None:
        """Raises WorkLimit where a transform would be too long."""
        self._plan, self._runs, self._log_delta = plan, runs, log_delta
        self._mesh = Mesh.near(plan.spacing)
        self._above, self._below = (Product(self._mesh, plan.c, plan.length) for _ in range(2))
        self._moments = Moments.none(plan.c * RUNGS)
        self._laws: dict[Loss, tuple[Transformed, Transformed, Moments]] = {}
        self._guess = plan.epsilon

    @classmethod
    def begun(cls, parts: tuple[tuple[Loss, int], ...], down: float, up: float) -> Iterator[RunningLattice]:
        """Lattices of a list, fit for its epsilon at a delta from `down` to `up`: one with room for more of the same,
        then one as the list itself asks for. None where they are too large."""
        _, plan = planned_epsilon(Composed(parts), down, up)
        if plan is None:
            return
        finest = max((high - low) / MOST_CELLS for low, high in plan.ranges)
        roomy = replace(plan, spacing=max(FINER * plan.spacing, 1.02 * finest), window=WIDER * plan.window)
        for each in (roomy, plan):
            with contextlib.suppress(WorkLimit):
                lattice = cls(each, MORE * sum(count for _, count in parts), scalars.log(down))
                for loss, count in parts:
                    lattice.add(loss, count)
                yield lattice

    def add(self, loss: Loss, count: int) -> None:
        """`count` more runs. Raises WorkLimit where the loss does not fit the lattice."""
        above, below, moments = self._laws.get(loss) or self._formed(loss)
        self._above.multiply(above, count)
        self._below.multiply(below, count)
        self._moments = self._moments.plus(moments, count)

    def _formed(self, loss: Loss) -> tuple[Transformed, Transformed, Moments]:
        law, plan = profile_of(loss), self._plan
        if law is None:
            raise WorkLimit("a loss has no tails to put on a lattice")
        low, high = range_for(law, self._runs, self._log_delta, plan.c)
        above, below = upper_steps(law, self._mesh, low, high), lower_steps(law, self._mesh, low, high)
        formed = (
            transformed(above, plan.c, plan.length),
            transformed(below, plan.c, plan.length),
            Moments.of(below, plan.c * RUNGS),
        )
        if len(self._laws) >= MOST_KEPT:
            self._laws.pop(next(iter(self._laws)))
        self._laws[loss] = formed
        return formed

    def epsilon(self, down: float, up: float) -> Interval:
        """Bounds of the least epsilon >= 0 with d(epsilon) <= delta.

        Claim: the upper bound holds for every delta >= down, the lower for every delta <= up. Source:
        docs/proofs/lattice.md, section 6.
        """
        upper = epsilon_above(self._above.convolved(None), down, self._guess, Interval(0.0, math.inf))
        if upper <= 0 or upper == math.inf:
            return Interval(0.0, max(0.0, upper))
        self._guess = upper
        below = self._below.convolved(self._moments.ladder())
        return Interval(epsilon_below(below, up, upper), upper)
