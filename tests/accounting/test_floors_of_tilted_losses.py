"""The steps below the density of a sampled loss: on no cell above it, and on none far below it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from dpledger.accounting.arithmetic.floating import Array
from dpledger.accounting.families.gaussian import sampled as gaussian, tilted_rows
from dpledger.accounting.families.gaussian.sampled import SampledGaussianLoss
from dpledger.accounting.families.laplace import sampled as laplace
from dpledger.accounting.families.laplace.sampled import SampledLaplaceLoss
from dpledger.accounting.laws.law import Direction
from dpledger.accounting.laws.layers import Layers, layers_below
from dpledger.accounting.laws.sampled_curve import LossCurve, mixed_curve

CLOSE = 0.98
"""Of the least density on a cell: its floor is at least so much."""
ALL = 0.92  # of the mass


@dataclass(frozen=True)
class Case:
    """A sampled loss: `parameter` is sigma, or the epsilon of the Laplace pair."""

    family: str
    rate: float
    parameter: float
    direction: Direction

    @property
    def loss(self) -> SampledGaussianLoss | SampledLaplaceLoss:
        kind = SampledGaussianLoss if self.family == "gaussian" else SampledLaplaceLoss
        return kind(self.rate, self.parameter, self.direction)

    def log_density(self, u: Array, w: float, moment: float) -> Array:
        """Of L, tilted, from its definition: that of the noise, times e^{wL - K}, over dL/du."""
        gains = self.rate * np.expm1(u)
        slopes = self.rate * np.exp(u) / (1 + gains)
        if self.family == "laplace":
            noise = -(self.parameter + u) / 2 - math.log(4)
        else:
            variance = self.parameter**2
            x = variance * u + 0.5
            noise = -x * x / (2 * variance) - math.log(math.sqrt(2 * math.pi) * self.parameter) + math.log(variance)
        found: Array = noise + w * np.log1p(gains) - moment - np.log(slopes)
        return found


CASES = [
    Case("laplace", 0.2, 1.0, "remove"),
    Case("laplace", 0.02, 3.0, "add"),
    Case("laplace", 0.7, 0.3, "remove"),
    Case("gaussian", 0.2, 1.0, "remove"),
    Case("gaussian", 0.05, 0.6, "add"),
    Case("gaussian", 0.01, 3.0, "remove"),
]


def cells(case: Case, c: float, monkeypatch: pytest.MonkeyPatch) -> tuple[Array, Array, Array, Array]:
    """Both ends of each cell, in u; floors and widths."""
    curves: list[Array] = []
    given: list[tuple[Array, Array]] = []

    def curve(rate: float | Array, u: Array) -> LossCurve:
        curves.append(u)
        return mixed_curve(rate, u)

    def below(floors: Array, widths: Array) -> Layers:
        given.append((floors[0], widths[0]))
        return layers_below(floors, widths)

    tilted = case.loss.tilted(c)
    _ = tilted.cumulants
    for module, name, told in (
        (gaussian, "mixed_curve", curve),
        (laplace, "mixed_curve", curve),
        (tilted_rows, "layers_below", below),
        (laplace, "layers_below", below),
    ):
        monkeypatch.setattr(module, name, told)
    tilted.log_decay(np.ones(1))
    ((floors, widths),), ends = given, curves[-1].ravel()
    ends = ends[:: (ends.size - 1) // floors.size]
    return ends[:-1], ends[1:], floors, widths


@pytest.mark.parametrize("c", [0.3, 2.0, 9.0, 30.0])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_floor_is_below_the_density_on_its_cell_and_close_to_it(
    case: Case, c: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    w, moment = c + 1 if case.direction == "remove" else -c, case.loss.tilted(c).cumulants.value
    left, right, floors, widths = cells(case, c, monkeypatch)
    places = left[:, None] + (right - left)[:, None] * np.linspace(0, 1, 9)
    least = np.exp(case.log_density(places, w, moment)).min(axis=1)
    far, near = (np.log1p(case.rate * np.expm1(ends)) for ends in (right, left))
    assert np.all(floors <= least * (1 + 1e-9))
    assert np.all(floors >= CLOSE * least)
    assert np.all(widths <= (far - near) * (1 + 1e-12))
    assert np.all(widths >= (far - near) * (1 - 1e-6) - 1e-13)
    atoms = 0.0
    if case.family == "laplace":
        atoms = sum(
            math.exp(w * math.log1p(case.rate * math.expm1(sign * case.parameter)) - moment - rest) / 2
            for sign, rest in ((-1.0, 0.0), (1.0, case.parameter))
        )
    assert ALL * (1 - atoms) <= float(floors @ widths) <= 1 - atoms + 1e-9
