"""Layers below a density: they hold no more than the density does, and the decay that they prove is there."""

from __future__ import annotations

import cmath
import math
from itertools import accumulate

import mpmath
import numpy as np
from hypothesis import given, strategies as st

from dpledger.accounting.arithmetic.floating import Array
from dpledger.accounting.laws import layers
from dpledger.accounting.laws.layers import MARGIN, Layers, layers_below, lost_share

heights = st.lists(st.floats(0.01, 5.0), min_size=1, max_size=20)
NEAR = 5e-12  # of a margin: roundings


def layers_of(floor: Array, widths: Array) -> Layers:
    """Those of one density."""
    return layers_below(floor[None], widths[None])


@given(x=st.floats(1e-9, 50.0) | st.floats(1e-9, 0.02) | st.floats(2.5, 5.0))
def test_the_lost_share_is_below_one_less_the_modulus_of_a_layer(x: float) -> None:
    """And next to it up to the plateau; beyond, no more than the height of the first side lobe below it."""
    with mpmath.workdps(50):
        exact = 1 - abs(mpmath.sinc(mpmath.mpf(x)))
        found = float(lost_share(np.array([x]))[0])
        assert found <= exact * (1 + MARGIN)  # but for what the margin is for
        if x < 2.62:
            assert found >= exact * (1 - MARGIN)
        else:
            assert found >= 1 - max(min(1 / x, 0.2174), float(abs(mpmath.sinc(x))) + 1e-12)


def test_the_lost_share_rises() -> None:
    found = lost_share(np.linspace(0, 40, 20001))
    assert (np.diff(found) >= 0).all()
    assert found[0] < 1e-200


@given(floor=heights, width=st.floats(0.01, 3.0))
def test_few_layers_have_the_masses_and_lengths_of_the_unimodal_part(floor: list[float], width: float) -> None:
    """Each a little less, by the margin for roundings."""
    found = layers_of(np.array(floor), np.full(len(floor), width))
    under = layers._unimodal(np.array([floor]))
    mass = float(under.sum()) * width
    assert mass * (1 - MARGIN - NEAR) <= found.masses.sum() <= mass * (1 - MARGIN + NEAR)
    (radii,) = found.radii.tolist()
    lengths = {round(2 * radius / width, 6) for radius in radii}
    assert lengths <= {float(k) for k in range(1, len(floor) + 1)}
    for radius in radii:
        count = round(2 * radius / width)
        assert count * width / 2 * (1 - MARGIN - NEAR) <= radius <= count * width / 2 * (1 - MARGIN + NEAR)


@given(floor=heights)
def test_the_unimodal_part_is_the_largest_one_below(floor: list[float]) -> None:
    """With this mode: at each place the least of what is between it and the mode."""
    mode = int(np.argmax(floor))
    (found,) = layers._unimodal(np.array([floor])).tolist()
    assert found == [min(floor[min(i, mode) : max(i, mode) + 1]) for i in range(len(floor))]


@given(floor=heights, t=st.floats(0.0, 30.0), later=st.floats(0.0, 10.0), rest=st.floats(0.0, 1.0))
def test_no_law_with_such_a_density_decays_less(floor: list[float], t: float, later: float, rest: float) -> None:
    """The density itself, with what is missing of its mass at one point: its modulus, and later ones too."""
    widths = np.linspace(0.2, 0.6, len(floor))
    total = float(np.dot(floor, widths))
    density = np.array(floor) / total * (1 - rest / 2)
    ends = np.concatenate([[0.0], np.cumsum(widths)])
    s = t + later
    parts = (
        complex(h) * (cmath.exp(1j * s * b) - cmath.exp(1j * s * a)) / (1j * s) if s > 1e-9 else h * (b - a)
        for h, a, b in zip(density.tolist(), ends[:-1].tolist(), ends[1:].tolist(), strict=True)
    )
    modulus = abs(sum(parts)) + rest / 2
    found = float(layers_of(density, widths).log_decay(np.array([t]))[0, 0])
    assert found >= math.log(min(modulus, 1)) - 1e-9
    assert found <= 0


def test_the_decay_of_a_uniform_law_is_that_of_its_transform() -> None:
    t = np.linspace(0.01, 5.0, 40)  # half of it is before the plateau
    (found,) = layers_of(np.array([1.0]), np.array([1.0])).log_decay(t)
    exact = np.log(np.abs(np.sin(t / 2) / (t / 2)))
    assert (found >= exact).all()
    assert (found <= exact * (1 - 1e-7)).all()


def test_many_cells_become_few_layers_that_lose_little() -> None:
    x = np.linspace(-5, 5, 4000)
    density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    found = layers_of(density, np.full(x.size, x[1] - x[0]))
    assert found.masses.shape == found.radii.shape == (1, layers.MOST_LAYERS)
    assert 0.998 < found.masses.sum() < 1
    t = np.array([0.1, 1.0, 2.0])
    (decay,) = found.log_decay(t)
    assert (decay >= -t * t / 2).all()
    assert (decay <= -t * t / 2 * 0.5).all()


@given(parts=st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), min_size=1, max_size=60))
def test_layers_are_grouped_by_their_shares_of_the_variance_and_of_the_mass(parts: list[tuple[int, int]]) -> None:
    """A group begins with the first layer that brings the sum of these up to a part of all; in whole numbers here."""
    masses, lengths = [mass for mass, _ in parts], list(accumulate(length for _, length in parts))
    spread = [mass * length * length for mass, length in zip(masses, lengths, strict=True)]
    worth = [m * sum(spread) + v * sum(masses) for m, v in zip(masses, spread, strict=True)]
    reached = list(accumulate(worth))
    numbers = range(layers.MOST_LAYERS)
    first = [next(i for i, at in enumerate(reached) if layers.MOST_LAYERS * at >= k * reached[-1]) for k in numbers]
    found = layers._groups(np.array([masses], dtype=np.float64), np.array([lengths], dtype=np.float64))
    assert found.tolist() == [first]


@given(
    floors=st.lists(st.lists(st.floats(0.01, 5.0), min_size=7, max_size=7), min_size=2, max_size=5), t=st.floats(0, 30)
)
def test_layers_side_by_side_are_those_of_each_density_alone(floors: list[list[float]], t: float) -> None:
    widths = np.linspace(0.2, 0.6, 7) * np.arange(1.0, len(floors) + 1)[:, None]
    found, at = layers_below(np.array(floors), widths), np.array([t, 2 * t])
    alone = [layers_of(np.array(floor), width) for floor, width in zip(floors, widths, strict=True)]
    assert found.masses.tolist() == [one.masses[0].tolist() for one in alone]
    assert found.radii.tolist() == [one.radii[0].tolist() for one in alone]
    assert np.allclose(found.log_decay(at), [one.log_decay(at)[0] for one in alone], rtol=1e-13, atol=0)
