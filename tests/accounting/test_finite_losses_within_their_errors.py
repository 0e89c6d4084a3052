"""A finite loss whose values and masses are off by all that they say: K, its nodes, prices and tails hold all the same,
and say hardly more than that."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest

from dpledger.accounting.arithmetic.floating import ULPS, UNIT, Array
from dpledger.accounting.engine.enumeration import _once
from dpledger.accounting.laws.finite import FiniteLoss, FinitePair
from engine_oracles import mp
from worst_functions import worst_functions

VALUE, MASS = 1e-5, 1e-5  # of a value, and of the logarithm of a mass: far more than all roundings
TILTS = (0.3, 2.0, 9.0)


@dataclass(frozen=True)
class Truth:
    """The exact loss beside one that is stated of it."""

    losses: Array
    masses: Array
    infinite: float
    stated: FiniteLoss
    off: float  # values, absolute

    def moment(self, z: complex) -> complex:
        """E e^{zL}, given that it is finite."""
        return complex((self.masses * np.exp(z * self.losses)).sum() / (1 - self.infinite))

    def tail(self, level: float, c: float) -> float:
        """Of e^{cL} above a level, given that L is finite: P for c = 0, Q for c = -1."""
        above = self.losses > level
        return float((self.masses * np.exp(c * self.losses))[above].sum() / (1 - self.infinite))


def truths() -> list[Truth]:
    """Random losses; values and masses, or masses alone, off one way, or each its own way."""
    found = []
    for seed, off in product(range(12), (VALUE, 0.0)):
        rng = np.random.default_rng(seed)
        size = int(rng.integers(2, 7))
        infinite = 0.0 if seed % 2 else float(rng.uniform(0, 0.3))
        masses = rng.dirichlet(np.ones(size)) * (1 - infinite)
        losses = rng.uniform(-2, 2, size)
        signs, ways = (np.ones(size), rng.choice([-1.0, 1.0], size)) if seed % 3 else (-np.ones(size), np.ones(size))
        stated = FiniteLoss(
            losses - off * signs,
            masses * np.exp(-MASS * ways),
            np.full(size, off * (1 + 1e-9)),
            MASS * (1 + 1e-9),
            infinite * np.exp(-MASS * float(ways[0])),
        )
        found.append(Truth(losses, masses, infinite, stated, off))
    return found


TRUTHS = truths()


@pytest.mark.parametrize("truth", TRUTHS, ids=map(str, range(len(TRUTHS))))
def test_k_and_prices_own_up(truth: Truth) -> None:
    odds = truth.infinite / (1 - truth.infinite)
    for c in TILTS:
        exact, most = float(np.log(truth.moment(c).real)), c * truth.off + MASS * (1 + 2 * odds)
        at, (upper,) = truth.stated.tilted(c).cumulants, truth.stated.log_moments(np.array([c])).tolist()
        assert abs(at.value - exact) <= at.error <= 1.02 * most
        assert exact <= upper <= exact + 2.02 * most
        (price,) = truth.stated.rdp_upper(np.array([1 + c])).tolist()
        assert exact / c <= price
        assert truth.infinite or price <= (exact + 2.02 * most) / c + 1e-12
    assert truth.stated.largest_down <= truth.losses.max() <= truth.stated.largest
    assert truth.stated.largest - truth.stated.largest_down <= 2.01 * truth.off + 1e-14


@pytest.mark.parametrize("truth", TRUTHS, ids=map(str, range(len(TRUTHS))))
def test_nodes_and_decay_own_up(truth: Truth) -> None:
    odds = truth.infinite / (1 - truth.infinite)
    for c, step in product(TILTS, (0.75, 0.04)):
        tilted, count = truth.stated.tilted(c), 12
        t = step * np.arange(count, dtype=np.float64)
        nodes, decay = tilted.nodes(step, count, 1 << 20), tilted.log_decay(t)
        mean = tilted.cumulants.mean
        exact = np.array(
            [truth.moment(complex(c, at)) / truth.moment(c) * np.exp(-1j * at * mean) for at in t.tolist()]
        )
        found = np.exp(nodes.log_phi)
        stated = np.abs(found) * np.expm1(nodes.spread)
        assert np.all(np.abs(found - exact) <= stated + 1e-14)
        assert np.all(stated <= 2.3 * (c + t) * truth.off + 3.3 * MASS * (1 + 2 * odds))
        assert np.all(np.log(np.abs(exact)) <= decay + 1e-3)


@pytest.mark.parametrize("truth", TRUTHS, ids=map(str, range(len(TRUTHS))))
def test_tails_own_up(truth: Truth) -> None:
    profile, odds = truth.stated.profile(), truth.infinite / (1 - truth.infinite)
    for level in np.linspace(-2.5, 2.2, 40).tolist():
        left, right = truth.tail(level, 0.0), truth.tail(level, -1.0)
        exact = left - np.exp(level) * right
        (above,) = profile.above(np.array([level])).tolist()
        heights, falls = profile.lines(np.array([level]))
        most = (MASS * (1 + 2 * odds) + 2 * truth.off) * (left + np.exp(level) * right)
        assert exact - 1e-12 <= above
        if np.abs(truth.losses - level).min() > 3 * truth.off:
            assert above <= exact + 2.1 * most + 4.1 * truth.off * np.exp(level) * right + 1e-12
            assert float(heights[0]) >= left - 2.1 * most - 1e-12
        for other in (-3.0, level - 0.3, level, level + 0.3):
            curve = truth.tail(other, 0.0) - np.exp(other) * truth.tail(other, -1.0)
            assert float(heights[0]) - float(falls[0]) * np.exp(other) <= curve + 1e-12


@pytest.mark.parametrize("side", [0, 1, -1], ids=["ours", "above", "below"])
@pytest.mark.parametrize("wide", [0.5, 30.0])
def test_roundings_alone_own_up(wide: float, side: int) -> None:
    """Of values and masses that are what they are said to be, with elementary functions as wrong as they may be."""
    rng = np.random.default_rng(1)
    losses, masses = np.sort(rng.uniform(-wide, wide, 100)), rng.dirichlet(np.ones(100))
    levels = np.linspace(-wide, wide, 9)
    with worst_functions(side):
        stated = FiniteLoss(losses, masses, np.zeros(100), 0.0, 0.0)
        moments = [(c, stated.tilted(c).cumulants) for c in TILTS]
        tails = stated.profile().tails(levels)
    for c, at in moments:
        terms = [mp.mpf(mass) * mp.exp(mp.mpf(c) * mp.mpf(x)) for x, mass in zip(losses, masses, strict=True)]
        exact = mp.log(mp.fsum(terms))
        assert abs(at.value - exact) <= at.error <= 1e-11 * (1 + c * wide)
    for level, left, right, error in zip(levels, tails.left, tails.right, tails.error, strict=True):
        above = [(mp.mpf(x), mp.mpf(mass)) for x, mass in zip(losses, masses, strict=True) if x > level]
        for found, exact in ((left, mp.fsum(p for _, p in above)), (right, mp.fsum(p * mp.exp(-x) for x, p in above))):
            assert abs(found - exact) <= error * exact
        assert error <= 1e-12


@pytest.mark.parametrize("side", [0, 1, -1], ids=["ours", "above", "below"])
@pytest.mark.parametrize(("loss", "c"), [(76.0, 9.0), (230.0, 3.0), (690.0, 1.0), (70.3, 9.7)])
def test_the_logarithm_of_a_tiny_mass_owns_up_to_its_rounding(loss: float, c: float, side: int) -> None:
    """Of a mass that rules K: what its logarithm misses is as much as the whole exponent may be."""
    losses, masses = np.array([-1.0, loss]), np.array([1.0, 1e-300])
    with worst_functions(side):
        stated = FiniteLoss(losses, masses, np.zeros(2), 0.0, 0.0)
        at, listed = stated.tilted(c).cumulants, _once(stated)
    exact = mp.log(mp.fsum(mp.mpf(m) * mp.exp(mp.mpf(c) * mp.mpf(x)) for x, m in zip(losses, masses, strict=True)))
    assert abs(at.value - exact) <= at.error
    for mass, log_mass, error in zip(masses, listed.log_masses, listed.mass_errors, strict=True):
        assert abs(log_mass - mp.log(mp.mpf(mass))) <= error


@pytest.mark.parametrize("side", [0, 1, -1], ids=["ours", "above", "below"])
@pytest.mark.parametrize("rate", [1e-307, 1e-300, 1e-6, 0.3, 0.999])
def test_a_sample_of_exact_losses_owns_up_to_its_roundings(rate: float, side: int) -> None:
    """Of every rate that is rounded to this one."""
    losses = (-300.0, -1.0, 0.5, 30.0, 701.0, 900.0)
    weights, none = (1e-9,) * len(losses), (0.0,) * len(losses)
    with worst_functions(side, ULPS):  # of log1p, which asks log, more
        sampled = FinitePair(losses, weights, weights, 0.0, 0.5, none, 0.0).sampled(rate)
    for moved in (-1, 0, 1):
        q = mp.mpf(rate) * (1 + moved * mp.mpf(UNIT))
        exact = [*(mp.log1p(q * mp.expm1(x)) for x in losses), mp.log1p(-q)]
        for loss, error, true in zip(sampled.losses, sampled.loss_errors, exact, strict=True):
            assert abs(loss - true) <= error
