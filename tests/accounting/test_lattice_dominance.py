"""A lattice law bounds the profile it stands for at every point, however coarse the lattice."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dpledger.accounting.arithmetic.floating import Array
from dpledger.accounting.engine import connect_the_dots
from dpledger.accounting.engine.connect_the_dots import LatticeMeasure, Mesh, lower_steps, upper_steps
from dpledger.accounting.laws.law import Profiled
from engine_oracles import mp
from lattice_oracles import Exact, profile_of_steps, random_law
from seed_batches import over_seeds


def drawn(seed: int) -> tuple[Profiled, Exact, Mesh, float, float]:
    """A law, its profile, a coarse mesh, and a range: around its losses, or cut short on either side."""
    rng = np.random.default_rng(seed)
    loss, exact = random_law(rng)
    law = loss.profile()
    assert law is not None
    at = loss.cumulants(0.5)
    deviation = math.sqrt(max(at.variance, 1e-8))
    spacing = deviation * math.exp(rng.uniform(-2.5, 1.5))
    low = max(law.smallest, at.mean - deviation * rng.uniform(0, 9))
    high = min(law.largest, at.mean + deviation * rng.uniform(0, 9))
    return law, exact, Mesh.near(spacing), low, max(high, low + spacing / 8)


def probes(steps: LatticeMeasure, rng: np.random.Generator) -> list[float]:
    """Points of the lattice, points between, and points beyond its ends."""
    points, spacing = steps.points, steps.mesh.spacing
    chosen = rng.choice(points, min(4, points.size))
    between = rng.choice(points, 5) + spacing * rng.uniform(-1, 1, 5)
    beyond = [float(points[0]) - spacing * rng.exponential(3), float(points[-1]) + spacing * rng.exponential(3)]
    return [*chosen.tolist(), *between.tolist(), *beyond]


def crossings(steps: LatticeMeasure, exact: Exact, side: int, rng: np.random.Generator) -> list[tuple[float, Any, Any]]:
    """Where the lattice's profile is on the wrong side of the law's."""
    wrong = []
    for epsilon in probes(steps, rng):
        here, there = profile_of_steps(steps, mp.mpf(epsilon)), exact(mp.mpf(epsilon))
        if side * (here - there) < 0:
            wrong.append((epsilon, here, there))
    return wrong


@over_seeds(300, 4000)
def test_dominance(seed: int) -> None:
    law, exact, mesh, low, high = drawn(seed)
    rng = np.random.default_rng(seed)
    assert not crossings(upper_steps(law, mesh, low, high), exact, 1, rng)
    assert not crossings(lower_steps(law, mesh, low, high), exact, -1, rng)


def test_a_law_too_narrow_for_the_lattice_is_one_loss_below_it() -> None:
    """It keeps nearly all its mass: without one, a composition with wide laws would have no lower bound at all."""
    alone = 0
    for seed in range(80):
        law, exact, _, low, high = drawn(seed)
        rng = np.random.default_rng(seed)
        spacing = min(60.0, (high - low) * 10 ** rng.uniform(0.5, 4))
        steps = lower_steps(law, Mesh.near(spacing), low, low + (high - low) / 1e3)
        assert not crossings(steps, exact, -1, rng)
        if steps.masses.size == 1:
            alone += 1
            there, far = mp.mpf(float(law.lines(np.array([low]))[0][0])), mp.mpf(-60)
            assert profile_of_steps(steps, far) >= there * (1 - mp.mpf(10) ** -15)
    assert alone >= 20


def test_the_convex_polygon_in_one_pass_is_as_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect_the_dots, "_ROUNDS", 0)
    for seed in range(40):
        law, exact, mesh, low, high = drawn(seed)
        assert not crossings(lower_steps(law, mesh, low, high), exact, -1, np.random.default_rng(seed))


def patched_locally(ratios: Array, allowed: Array, whole: float, spacing: float) -> Array:
    """The twin: a negative change of slope is set to zero, its neighbours left as they are."""
    at, heights = np.concatenate([[0.0], ratios]), np.concatenate([[whole], allowed])
    return np.maximum(np.diff(np.append(np.diff(heights) / np.diff(at), 0.0)), 0.0)


def unchecked(weights: Array, widths: Array) -> Array:
    """The twin does not look at what it built."""
    return np.zeros(weights.size)


def test_a_local_patch_of_negative_masses_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def failures() -> int:
        found = 0
        for seed in range(60):
            law, exact, mesh, low, high = drawn(seed)
            found += bool(crossings(lower_steps(law, mesh, low, high), exact, -1, np.random.default_rng(seed)))
        return found

    assert failures() == 0
    monkeypatch.setattr(connect_the_dots, "_convex", patched_locally)
    assert failures() == 0, "what is built wrongly is scaled down until it is right"
    monkeypatch.setattr(connect_the_dots, "_heights", unchecked)
    assert failures() >= 10


def test_the_lines_touch_the_profile_and_never_cross_it() -> None:
    for seed in range(120):
        law, exact, _, low, high = drawn(seed)
        rng = np.random.default_rng(seed)
        points = np.sort(rng.uniform(low, high, 3))
        upper = law.above(points)
        heights, falls = law.lines(points)
        for i, point in enumerate(points.tolist()):
            truth = exact(mp.mpf(point))
            assert truth <= mp.mpf(float(upper[i])) <= truth + mp.mpf(1e-12) + truth * mp.mpf(1e-9)
            line = [mp.mpf(float(heights[i])) - mp.mpf(float(falls[i])) * mp.exp(at) for at in (point - 1, point)]
            assert line[1] >= truth - mp.mpf(1e-11)
            assert line[0] <= exact(mp.mpf(point - 1)), "a line lies below the profile elsewhere too"
            assert line[1] <= truth


def test_a_mesh_is_exact() -> None:
    for spacing in (0.3, 1e-9, 7.0, 2.0**-20):
        mesh = Mesh.near(spacing)
        assert mesh.width % 2 == 0
        assert mesh.width < 1 << 25
        assert spacing * (1 - 2.0**-22) <= mesh.spacing <= spacing
        assert math.frexp(mesh.unit)[0] == 0.5
