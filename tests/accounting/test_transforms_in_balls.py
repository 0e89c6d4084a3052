"""What the engine states of each law, against ball arithmetic: K(c) and its error, phi at every node and its spread,
Chernoff points from above, the decay from above."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import flint
import numpy as np
import pytest

from ball_contours import Gaussian, Laplace, Patience, SampledGaussian, Unresolved, nodes
from ball_profiles import Ball, ball, precision
from dpledger.accounting.families.bounded_range.loss import BoundedRangeLoss
from dpledger.accounting.families.gaussian.loss import GaussianLoss
from dpledger.accounting.families.gaussian.sampled import SampledGaussianLoss
from dpledger.accounting.families.laplace.loss import LaplaceLoss
from dpledger.accounting.laws.finite import FiniteLoss
from dpledger.accounting.laws.law import Cumulants, Direction, Loss, Tilted
from dpledger.errors import WorkLimit
from soundness import Random, decimal

Complex = Any  # flint.acb
NODES = 24
BLOCK, BLOCKS = 100, 200
Exact = tuple[Loss, Any]  # a loss and its exact twin: `log_moment(c)` and `transform(c, step)`


class BoundedRange:
    """The envelope's transform: e^(z eta) (1 - e^(-(2z+1) eta)) / ((2z+1)(1 - e^-eta))."""

    def __init__(self, eta: str) -> None:
        self.eta = ball(eta)

    def log_moment(self, c: float) -> Ball:
        return self._moment(flint.acb(ball(c))).real.log()

    def transform(self, c: float, step: float, limits: Patience) -> Iterator[Complex]:
        return map(self._moment, nodes(c, step, limits))

    def _moment(self, z: Complex) -> Complex:
        width = 2 * z + 1
        return (z * self.eta).exp() * (1 - (-width * self.eta).exp()) / (width * (1 - (-self.eta).exp()))


class Atoms:
    """Finitely many losses with masses."""

    def __init__(self, losses: Sequence[Ball], masses: Sequence[Ball]) -> None:
        self.losses, self.masses = losses, masses

    def log_moment(self, c: float) -> Ball:
        return self._moment(flint.acb(ball(c))).real.log()

    def transform(self, c: float, step: float, limits: Patience) -> Iterator[Complex]:
        return map(self._moment, nodes(c, step, limits))

    def _moment(self, z: Complex) -> Complex:
        return sum((mass * (z * loss).exp() for loss, mass in zip(self.losses, self.masses, strict=True)), flint.acb(0))


def sampled_gaussian(rng: Random) -> Exact:
    rate, sigma = decimal(rng, 1e-6, 0.9), decimal(rng, 0.35, 8)
    direction: Direction = "add" if rng.random() < 0.5 else "remove"
    return SampledGaussianLoss(float(rate), float(sigma), direction), SampledGaussian(rate, sigma, direction)


def closed_form(rng: Random) -> Exact:
    size = decimal(rng, 1e-3, 5)
    match int(rng.integers(4)):
        case 0:
            squared = float(size)
            return GaussianLoss(squared), Gaussian(str(1 / ball(squared).sqrt().mid()))
        case 1:
            return LaplaceLoss(float(size)), Laplace(size)
        case 2:
            return BoundedRangeLoss(float(size)), BoundedRange(size)
        case _:
            return finite(rng)


def finite(rng: Random) -> Exact:
    """Losses and masses within the errors that the law states, no more."""
    count = int(rng.integers(2, 12))
    losses = rng.normal(size=count) * math.exp(rng.uniform(-4, 1))
    masses = rng.dirichlet(np.ones(count))
    errors, relative = np.abs(losses) * 2.0**-50, 2.0**-48
    off = [
        ball(float(sign)) * ball(float(error)) for sign, error in zip(rng.uniform(-1, 1, count), errors, strict=True)
    ]
    exact_masses = [
        ball(float(m)) * (1 + ball(float(s)) * relative / 2)
        for m, s in zip(masses, rng.uniform(-1, 1, count), strict=True)
    ]
    whole = sum(exact_masses, ball(0))
    exact = Atoms([ball(float(x)) + d for x, d in zip(losses, off, strict=True)], [m / whole for m in exact_masses])
    return FiniteLoss(losses, masses, errors, relative, 0.0), exact


def wrong_statements(loss: Loss, exact: Any, rng: Random) -> list[str]:
    """What the law states at a random tilt and a random step that is not so."""
    c = float(math.exp(rng.uniform(math.log(0.05), math.log(60))))
    k = exact.log_moment(c)
    tilted = loss.tilted(c)
    at = tilted.cumulants
    sound = math.isfinite(at.error) and abs(ball(at.value) - k) <= ball(at.error)
    wrong = [] if sound else [f"K({c!r}) = {at.value!r} of {loss}"]
    if ball(float(loss.log_moments(np.array([c, 2 * c]))[0])) < k:
        wrong.append(f"the Chernoff point at {c!r} of {loss}")
    deviation = max(math.sqrt(max(at.variance, 0.0)), 0.02)
    step = float(np.float32(math.exp(rng.uniform(-4, -0.5)) / deviation))
    return wrong + [f"{what} at c {c!r}, step {step!r} of {loss}" for what in wrong_nodes(tilted, exact, c, k, step)]


def wrong_nodes(tilted: Tilted, exact: Any, c: float, k: Ball, step: float) -> list[str]:
    stated = tilted.nodes(step, NODES, 1 << 26)
    decay = tilted.log_decay(step * np.arange(NODES, dtype=np.float64))
    decay = np.minimum.accumulate(decay)  # each bounds what comes later too
    mean, wrong = ball(tilted.cumulants.mean), []
    for i, moment in enumerate(itertools.islice(exact.transform(c, step, Patience(NODES)), NODES)):
        phi = moment * flint.acb(-k, -ball(step) * i * mean).exp()
        log_phi = complex(stated.log_phi[i])
        computed = flint.acb(ball(log_phi.real), ball(log_phi.imag)).exp()
        if abs(phi - computed) > abs(computed) * ball(float(stated.spread[i])).expm1():
            wrong.append(f"node {i}")
        if abs(phi) > ball(float(decay[i])).exp():
            wrong.append(f"the decay at node {i}")
    return wrong


def checked(seed: int, laws: int) -> tuple[int, list[str]]:
    rng = np.random.default_rng([7, seed])
    done, wrong = 0, []
    with precision():
        while done < laws:
            try:
                loss, exact = sampled_gaussian(rng) if rng.random() < 0.5 else closed_form(rng)
                wrong += wrong_statements(loss, exact, rng)
            except (Unresolved, WorkLimit):  # the oracle, or the law, does not say
                continue
            done += 1
    return done, wrong


def test_some_laws() -> None:
    _, wrong = checked(0, 25)
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, BLOCKS + 1))
def test_many_laws(seed: int) -> None:
    done, wrong = checked(seed, BLOCK)
    assert done == BLOCK
    assert not wrong


@pytest.mark.parametrize("part", ["value", "error"])
def test_a_transform_that_is_off_is_seen(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """K off by 1e-12, or its error stated as nothing."""
    honest = LaplaceLoss.cumulants

    def off(self: LaplaceLoss, c: float) -> Cumulants:
        at = honest(self, c)
        return replace(at, value=at.value * (1 + 1e-12)) if part == "value" else replace(at, error=0.0)

    monkeypatch.setattr(LaplaceLoss, "cumulants", off)
    with precision():
        assert wrong_statements(LaplaceLoss(0.7), Laplace("0.7"), np.random.default_rng(1))
