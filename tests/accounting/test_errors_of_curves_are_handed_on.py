"""What a curve of losses may miss is owned up to by all that is made of it: K, nodes, decay, layers, prices.

The curve is moved by as much as it says, far more than any rounding. What is computed from it must still hold for the
true one; and of K, where all values move one way, it may say hardly more than that.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest

from dpledger.accounting.arithmetic.floating import Array
from dpledger.accounting.families.gaussian import sampled as gaussian, sampled_price
from dpledger.accounting.families.gaussian.sampled import SampledGaussianLoss
from dpledger.accounting.families.laplace import sampled as laplace
from dpledger.accounting.families.laplace.sampled import SampledLaplaceLoss
from dpledger.accounting.laws.law import Loss
from dpledger.accounting.laws.sampled_curve import LossCurve, mixed_curve
from worst_functions import worst_functions

LAWS: dict[str, Loss] = {
    "laplace removed": SampledLaplaceLoss(0.2, 1.0, "remove"),
    "laplace added": SampledLaplaceLoss(0.3, 1.5, "add"),
    "gaussian removed": SampledGaussianLoss(0.2, 1.0, "remove"),
    "gaussian added": SampledGaussianLoss(0.3, 0.8, "add"),
}
TILTS = (0.3, 2.0, 9.0)
SMALL = 1e-9  # of a value: a bound that forgets it fails

Signs = Callable[[int], Array]
PATTERNS: dict[str, Signs] = {
    "up": lambda size: np.ones(size),
    "down": lambda size: -np.ones(size),
    "to and fro": lambda size: 1 - 2 * np.mod(np.arange(size, dtype=np.float64), 2),
    "fro and to": lambda size: 2 * np.mod(np.arange(size, dtype=np.float64), 2) - 1,
}


@dataclass(frozen=True, eq=False)
class Stated(LossCurve):
    """A curve that says what it misses."""

    missed: float = 0.0

    @functools.cached_property
    def errors(self) -> Array:
        return np.full(self.values.shape, self.missed)

    @property
    def gain_errors(self) -> Array:
        bounds: Array = 1.001 * self.missed * (np.abs(self.gains) + 1)
        return bounds


@contextmanager
def moved(signs: Signs, missed: float) -> Iterator[None]:
    """Each value of each curve is off by `missed`, up or down by the sign of its place."""

    def curve(rate: float | Array, u: Array) -> LossCurve:
        at = mixed_curve(rate, u)
        off = missed * signs(u.shape[-1])
        values, gains = at.values + off, at.gains + (at.gains + 1) * np.expm1(off)
        return Stated(at.rate, at.u, at.far, values, gains, at.slope_error, missed * (1 + 1e-6))

    with worst_functions(0), pytest.MonkeyPatch.context() as patch:
        for module in (gaussian, laplace, sampled_price):
            patch.setattr(module, "mixed_curve", curve)
        yield


def afresh(loss: Loss) -> Loss:
    """The same loss, which keeps nothing of what was computed."""
    return replace(loss)  # type: ignore[type-var]


def power(name: str, c: float) -> float:
    return c + 1 if name.endswith("removed") else c


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("name", LAWS)
def test_k_owns_up_to_what_its_curve_misses(name: str, pattern: str) -> None:
    for c in TILTS:
        exact = afresh(LAWS[name]).tilted(c).cumulants.value
        with moved(PATTERNS[pattern], SMALL):
            loss = afresh(LAWS[name])
            at, (upper,) = loss.tilted(c).cumulants, loss.log_moments(np.array([c])).tolist()
        most = power(name, c) * SMALL
        assert abs(at.value - exact) <= at.error <= 2.5 * most
        assert exact <= upper <= exact + 5 * most
        if pattern in {"up", "down"}:
            assert abs(at.value - exact) >= 0.9 * c * SMALL  # it is needed


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("name", LAWS)
def test_nodes_own_up_to_what_their_curve_misses(name: str, pattern: str) -> None:
    for c in TILTS:
        honest = afresh(LAWS[name]).tilted(c)
        step = float(np.float32(0.5 / np.sqrt(honest.cumulants.variance)))
        t = step * np.arange(12, dtype=np.float64)
        exact = np.exp(honest.nodes(step, t.size, 1 << 20).log_phi)
        with moved(PATTERNS[pattern], SMALL):
            tilted = afresh(LAWS[name]).tilted(c)
            nodes, shift = tilted.nodes(step, t.size, 1 << 20), honest.cumulants.mean - tilted.cumulants.mean
            decay = tilted.log_decay(t)
        found, true = np.exp(nodes.log_phi), exact * np.exp(1j * t * shift)
        stated = np.abs(found) * np.expm1(nodes.spread)
        assert np.all(np.abs(found - true) <= stated)
        assert np.all(stated <= 8 * (power(name, c) + t) * SMALL)
        assert np.all(np.log(np.abs(true)) <= decay + 1e-7)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("name", LAWS)
def test_no_layer_rests_on_what_a_curve_misses(name: str, pattern: str) -> None:
    """Decay that is proven of a curve with large errors is no faster than that of the true one."""
    for c in TILTS:
        honest = afresh(LAWS[name]).tilted(c)
        t = np.array([0.3, 1.0, 3.0]) / np.sqrt(honest.cumulants.variance)
        proven = honest.log_decay(t)
        with moved(PATTERNS[pattern], 1e-4):
            found = afresh(LAWS[name]).tilted(c).log_decay(t)
        assert np.all(found >= proven * (1 - 1e-3))
        assert np.all(found <= 0.7 * proven)


@pytest.mark.parametrize("name", LAWS)
def test_the_largest_loss_and_prices_own_up_to_what_their_curve_misses(name: str) -> None:
    honest, orders = LAWS[name], np.array([1.5, 4.0, 20.0])
    exact = honest.rdp_upper(orders)
    for pattern in PATTERNS.values():
        with moved(pattern, SMALL):
            loss = afresh(honest)
            largest, least, found = loss.largest, loss.largest_down, loss.rdp_upper(orders)
        assert least <= honest.largest
        assert honest.largest_down <= largest
        assert np.all(exact <= found * (1 + 1e-12))


def test_patterns_differ() -> None:
    assert all(not np.array_equal(a(5), b(5)) for a, b in pairwise(PATTERNS.values()))
