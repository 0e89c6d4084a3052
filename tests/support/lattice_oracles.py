"""Oracles for the lattice engine: exact profiles of laws at 60 digits, of two runs by quadrature, and random laws."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dpledger.accounting.engine.connect_the_dots import LatticeMeasure
from dpledger.accounting.families.bounded_range.loss import BoundedRangeLoss
from dpledger.accounting.families.gaussian.loss import GaussianLoss
from dpledger.accounting.families.gaussian.sampled import SampledGaussianLoss
from dpledger.accounting.families.laplace.loss import LaplaceLoss
from dpledger.accounting.families.laplace.sampled import SampledLaplaceLoss
from dpledger.accounting.laws.finite import FiniteLoss
from dpledger.accounting.laws.law import Direction, Loss
from engine_oracles import (
    Pair,
    Real,
    bounded_range_delta,
    finite_delta,
    gaussian_delta,
    laplace_delta,
    mp,
    sampled_gaussian_delta,
)

Exact = Callable[[Real], Real]


def profile_of_steps(steps: LatticeMeasure, epsilon: Real) -> Real:
    """The profile of a lattice measure, from its definition: infinite mass + sum of p (1 - e^(eps - l))_+."""
    terms = [mp.mpf(steps.infinite)]
    first = mp.mpf(steps.start) * mp.mpf(steps.mesh.unit)
    spacing = mp.mpf(steps.mesh.width) * mp.mpf(steps.mesh.unit)
    for k in np.flatnonzero(steps.masses).tolist():
        loss = first + k * spacing
        if loss > epsilon:
            terms.append(mp.mpf(float(steps.masses[k])) * -mp.expm1(epsilon - loss))
    return mp.fsum(terms)


def random_law(rng: np.random.Generator) -> tuple[Loss, Exact]:
    """A law of any family that has tails, and its profile."""
    direction: Direction = "add" if rng.random() < 0.5 else "remove"
    rate = math.exp(rng.uniform(math.log(1e-4), math.log(0.9)))
    match int(rng.integers(6)):
        case 0:
            squared = math.exp(rng.uniform(-5, 3))
            return GaussianLoss(squared), lambda at: gaussian_delta(mp.sqrt(mp.mpf(squared)), at)
        case 1:
            e0 = math.exp(rng.uniform(-4, 1.5))
            return LaplaceLoss(e0), lambda at: laplace_delta(mp.mpf(e0), at)
        case 2:
            eta = math.exp(rng.uniform(-4, 1.5))
            return BoundedRangeLoss(eta), lambda at: bounded_range_delta(mp.mpf(eta), at)
        case 3:
            finite, pair = random_finite(rng)
            return finite, lambda at: finite_delta([(pair, 1)], at)
        case 4:
            e0 = math.exp(rng.uniform(-3, 1.5))
            loss = SampledLaplaceLoss(rate, e0, direction)
            return loss, sampled_profile(rate, lambda at: laplace_delta(mp.mpf(e0), at), direction)
        case _:
            return sampled_gaussian(rate, rng.uniform(0.4, 4), direction)


def sampled_gaussian(rate: float, sigma: float, direction: Direction) -> tuple[Loss, Exact]:
    return (
        SampledGaussianLoss(rate, sigma, direction),
        lambda at: sampled_gaussian_delta(mp.mpf(rate), mp.mpf(sigma), at, direction),
    )


def sampled_profile(rate: float, base: Exact, direction: Direction) -> Exact:
    """The profile of a symmetric pair, sampled: the two formulas of Balle, Barthe and Gaboardi 2018, at any epsilon."""
    q = mp.mpf(rate)

    def remove(at: Real) -> Real:
        gap = mp.expm1(at) + q
        return -mp.expm1(at) if gap <= 0 else q * base(mp.log(gap / q))

    def add(at: Real) -> Real:
        remainder = 1 - (1 - q) * mp.exp(at)
        return mp.mpf(0) if remainder <= 0 else remainder * base(mp.log(q * mp.exp(at) / remainder))

    return remove if direction == "remove" else add


def random_finite(rng: np.random.Generator, most: int = 5) -> tuple[FiniteLoss, Pair]:
    """Two random distributions on 2 to `most` outcomes, as floats and exactly."""
    size = int(rng.integers(2, most + 1))
    p, q = (rng.dirichlet(np.ones(size) * rng.uniform(0.3, 3)) + 1e-6 for _ in range(2))
    whole_p, whole_q = mp.fsum(map(mp.mpf, p.tolist())), mp.fsum(map(mp.mpf, q.tolist()))
    pair = [(mp.mpf(a) / whole_p, mp.mpf(b) / whole_q) for a, b in zip(p.tolist(), q.tolist(), strict=True)]
    losses = np.array([float(mp.log(a / b)) for a, b in pair])
    return FiniteLoss(losses, p / p.sum(), np.abs(losses) * 2.0**-52 + 2.0**-60, 2.0**-49, 0.0), pair


def twice(rate: float, sigma: float, direction: Direction, epsilon: Real) -> Real:
    """delta of two runs of a sampled Gaussian: E_P delta_1(eps - L(x)), one integral over x of the closed form."""
    q, s = mp.mpf(rate), mp.mpf(sigma)

    def integrand(x: Any) -> Any:
        noise = mp.npdf(x, 0, s)
        mixed = (1 - q) * noise + q * mp.npdf(x, 1, s)
        loss = mp.log(1 - q + q * mp.exp((x - mp.mpf(1) / 2) / s**2))
        if direction == "remove":
            return mixed * sampled_gaussian_delta(q, s, epsilon - loss, direction)
        return noise * sampled_gaussian_delta(q, s, epsilon + loss, direction)

    with mp.workdps(25):
        return mp.quad(integrand, [s * k / 2 for k in range(-26, 27)] + [13 * s + 1])


def plain_transform(values: np.ndarray[Any, Any]) -> list[Any]:
    """The discrete Fourier transform, from its definition at 40 digits; half of it."""
    size = values.size
    with mp.workdps(40):
        turns = [mp.expjpi(-2 * mp.mpf(k) / size) for k in range(size)]
        exact = [mp.mpf(float(v)) for v in values]
        return [mp.fsum(exact[k] * turns[j * k % size] for k in range(size)) for j in range(size // 2 + 1)]
