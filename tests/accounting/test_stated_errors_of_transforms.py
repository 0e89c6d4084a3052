"""What a transform on a lattice says it may err by: no less than it does, and no more than its theorem asks for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting.arithmetic.floating import UNIT
from dpledger.accounting.engine.connect_the_dots import LatticeMeasure, Mesh
from dpledger.accounting.engine.convolution import convolve, transformed
from dpledger.accounting.laws.fourier import nodes_of_sums
from engine_oracles import mp
from lattice_oracles import profile_of_steps

THEOREM = 6.7
"""Higham 2002, Theorem 24.2, with the twiddle factors of the doubles: ||error|| <= 6.7 u log2(N) ||transform||."""
LENGTH = 64


def spread_law(seed: int, size: int, start: int = -40) -> LatticeMeasure:
    """Masses of about one size, on neighbouring points, of sum about 1."""
    masses = np.random.default_rng(seed).uniform(0.5, 1.5, size)
    return LatticeMeasure(Mesh.near(0.02), start * Mesh.near(0.02).width, masses / masses.sum(), 0.0)


def tilted_exactly(steps: LatticeMeasure, c: float, length: int) -> tuple[list[Any], Any]:
    """Tilted masses of sum 1, folded, and K, at 60 digits."""
    spacing, first = mp.mpf(steps.mesh.width) * mp.mpf(steps.mesh.unit), mp.mpf(steps.start) * mp.mpf(steps.mesh.unit)
    terms = [mp.mpf(float(mass)) * mp.exp(c * (first + k * spacing)) for k, mass in enumerate(steps.masses)]
    whole, folded = mp.fsum(terms), [mp.mpf(0)] * length
    for k, term in enumerate(terms):
        folded[k % length] += term / whole
    return folded, mp.log(whole)


def spectrum(masses: list[Any]) -> list[Any]:
    """Half of the transform, from its definition."""
    size = len(masses)
    turns = [mp.expjpi(-2 * mp.mpf(k) / size) for k in range(size)]
    return [mp.fsum(masses[k] * turns[j * k % size] for k in range(size)) for j in range(size // 2 + 1)]


@pytest.mark.parametrize(("size", "c"), [(1, 1.0), (2, 0.3), (17, 4.0), (64, 1.0), (150, 2.0)])
def test_a_transform_errs_by_less_than_it_says_and_says_no_more_than_the_theorem(size: int, c: float) -> None:
    steps = spread_law(size, size)
    found = transformed(steps, c, LENGTH)
    masses, moment = tilted_exactly(steps, c, LENGTH)
    norm = mp.sqrt(mp.fsum(mass * mass for mass in masses))
    by_theorem = UNIT * math.log2(LENGTH) * math.sqrt(LENGTH) * float(norm)
    for value, exact, log_size, lost in zip(
        found.value.tolist(), spectrum(masses), found.logs, found.lost, strict=True
    ):
        missed = float(lost * np.exp(log_size))
        assert THEOREM * by_theorem <= missed <= 3 * THEOREM * by_theorem
        assert abs(mp.mpc(value) - exact) <= missed + found.relative
        assert max(abs(exact) * (1 - found.relative), abs(value)) <= math.exp(log_size) * (1 + 1e-12)
    assert abs(mp.mpf(found.log_moment) - moment) <= found.relative + 8 * UNIT * (1 + abs(moment))
    assert found.relative <= 1e-12
    assert found.log_whole <= 1e-12


@pytest.mark.parametrize("step", [1e-3, 0.01])
def test_a_sum_over_nodes_errs_by_less_than_it_says_and_by_little_near_0(step: float) -> None:
    """What it says grows with t, from a few units: near 1 the logarithm has the digits of phi - 1."""
    draw = np.random.default_rng(4)
    weights, points, t = draw.uniform(0.5, 1.5, 9), draw.uniform(-2, 2, 9), step * np.arange(40, dtype=np.float64)
    weights /= weights.sum()
    found = nodes_of_sums(weights, points, step, 40, np.zeros(40))
    for at, log_phi, spread in zip(t.tolist(), found.log_phi.tolist(), found.spread.tolist(), strict=True):
        terms = [mp.mpf(w) * mp.expj(mp.mpf(at) * mp.mpf(y)) for w, y in zip(weights, points, strict=True)]
        assert abs(mp.mpc(log_phi) - mp.log(mp.fsum(terms) / mp.fsum(map(mp.mpf, weights)))) <= spread
        assert spread <= UNIT * (20 + 600 * at)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 99), size=st.integers(2, 24), count=st.integers(1, 2), c=st.sampled_from([0.5, 3.0]))
def test_the_error_of_a_composition_is_of_the_size_of_its_roundings(seed: int, size: int, count: int, c: float) -> None:
    """In units of the tilted sum, where the kernel is about 1/ch: a product of so many transforms, back again."""
    steps = spread_law(seed, size, 0)
    sums = convolve([(steps, count)], c, LENGTH)
    spacing = steps.mesh.spacing
    assert sums.error <= 100 * math.log2(LENGTH) * UNIT * (count + 2) / (c * spacing)
    for j in range(0, LENGTH, 7):
        if count == 1:
            exact = profile_of_steps(steps, mp.mpf(sums.start + j * steps.mesh.width) * mp.mpf(steps.mesh.unit))
            assert exact <= sums.upper(j)
            assert sums.upper(j) <= exact + mp.exp(-c * spacing * j + sums.log_front) * (2 * sums.error) + aliases(
                steps, c, j
            )


def aliases(steps: LatticeMeasure, c: float, j: int) -> Any:
    """What the period before adds, at most: the profile is at most 1."""
    window = LENGTH * steps.mesh.spacing
    return mp.exp(-c * window) / -mp.expm1(-c * window)
