"""How a Poisson-sampled Gaussian is cut far out, where a few large losses may be told from many small ones.

Direction remove only: in the direction add the loss is bounded. docs/proofs/engine.md, sections 10 and 11.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import Array
from dpledger.accounting.families.gaussian.jumping_runs import CutLoss, JumpingRuns, RunsOfOneLaw
from dpledger.accounting.families.gaussian.smooth_cut import Cut, mass_beyond
from dpledger.errors import WorkLimit

__all__ = ["RareGaussian"]

_DEVIATIONS = 38.4  # standard deviations: normal tails beyond are no floats


@dataclass(frozen=True, slots=True, eq=False)
class RareGaussian:
    """Of an uncut sampled Gaussian, direction remove. `cut_at`: the loss with this cut."""

    rate: float
    sigma: float
    chi_squared: float
    cut_at: Callable[[Cut], CutLoss]

    def log_density(self, losses: Array) -> Array:
        """log of the density of the loss under P."""
        x = self._outcomes(losses)
        density: Array = losses - x * x / (2 * scalars.square(self.sigma)) + scalars.log(self.sigma)
        return density - self._log_slopes(losses)

    def _log_slopes(self, losses: Array) -> Array:
        """log(1 - (1 - q) e^{-l}), of the rate q, however small both are."""
        return elementary.log(self.rate * elementary.exp(-losses) - elementary.expm1(-losses))

    def _outcomes(self, losses: Array) -> Array:
        """x, where L(x) = l > 0."""
        far = losses - scalars.log(self.rate) + self._log_slopes(losses)
        outcomes: Array = 0.5 + scalars.square(self.sigma) * far
        return outcomes

    def mass_above(self, level: float) -> float:
        """About the mass that P has where the loss is above a level > 0."""
        return self._mass_to_the_right(float(self._outcomes(np.array([level]))[0]))

    def _mass_to_the_right(self, outcome: float) -> float:
        near, far = (scalars.erfc((outcome - mean) / (self.sigma * math.sqrt(2))) / 2 for mean in (0.0, 1.0))
        return (1 - self.rate) * near + self.rate * far

    def loss_beyond(self, mass: float) -> float:
        """About the loss beyond which P has this mass."""
        low, high = 0.0, _DEVIATIONS * self.sigma
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if self._mass_to_the_right(middle) > mass else (low, middle)
        return float(
            elementary.logaddexp(
                scalars.log1p(-self.rate), scalars.log(self.rate) + (high - 0.5) / scalars.square(self.sigma)
            )
        )

    def nested(self, levels: Array, tilt: float) -> NestedCuts:
        """Nested: of one width, so narrow that e^{tilt L} does not outgrow it, and at most a quarter of any layer."""
        points = self._outcomes(levels)
        width = 1.6 * scalars.square(self.sigma) / math.sqrt(2.4 * (tilt + 1) + 2)
        width = min(width, float(np.min(np.diff(points))) / 4 * (1 - 1e-9))
        if not (width > 0 and points[0] > 0):
            raise WorkLimit("the layers cannot be told apart")
        points[-1] *= scalars.hypot(self.sigma, width) / self.sigma
        return NestedCuts(self, tuple(Cut(point, width, tilt=tilt) for point in points.tolist()))


@dataclass(frozen=True, slots=True, eq=False)
class NestedCuts:
    """Cuts of one law, each further out than the last."""

    rare: RareGaussian
    cuts: tuple[Cut, ...]

    @property
    def first(self) -> CutLoss:
        """The loss within the first cut."""
        return self.rare.cut_at(self.cuts[0])

    @property
    def lost(self) -> float:
        """The mass that the last cut takes away, rounded up."""
        return mass_beyond(self.rare.rate, self.rare.sigma, self.cuts[-1])

    def layer(self, every: Sequence[tuple[NestedCuts, int]], place: int) -> JumpingRuns:
        """The runs of all these laws, with the layer between cut number `place` and the next: none jumps yet."""
        return JumpingRuns(tuple(own._runs(place, count) for own, count in every), 0, 0)

    def _runs(self, place: int, count: int) -> RunsOfOneLaw:
        near, far = self.cuts[place], self.cuts[place + 1]
        return RunsOfOneLaw(self.rare.cut_at(near), self.rare.cut_at(replace(far, start=near.point)), count)
