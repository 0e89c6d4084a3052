"""The conformance class of laws: what every dominating pair of `accounting/laws` must hold, against an exact transform.

A new law inherits these tests: a class with `loss` and `transform`, the exact E e^{zL} given that L is finite, for
complex z, at 50 digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dpledger.accounting.laws.law import Loss
from engine_oracles import mp

__all__ = ["LawConformance", "Transform"]

Transform = Callable[[Any], Any]


class LawConformance:
    """Tests of one law. Set `loss` and `transform` (a static method)."""

    loss: Loss
    transform: Transform

    tilts = (0.3, 4.0, 13.5)

    def test_k_lies_within_its_stated_error(self) -> None:
        for c in self.tilts:
            at = self.loss.tilted(c).cumulants
            exact = mp.log(self.transform(mp.mpc(c)).real)
            assert abs(mp.mpf(at.value) - exact) <= at.error < 3e-13 * (1 + abs(at.value))

    def test_a_search_sees_the_same_moments(self) -> None:
        for c in self.tilts:
            at, rough = self.loss.tilted(c).cumulants, self.loss.cumulants(c)
            assert rough.error == math.inf or rough == at
            for exact, found in ((at.value, rough.value), (at.mean, rough.mean), (at.variance, rough.variance)):
                assert math.isclose(exact, found, rel_tol=1e-7), c

    def test_the_upper_bounds_of_k_hold_and_are_close(self) -> None:
        c = np.array(self.tilts)
        for at, bound in zip(c, self.loss.log_moments(c), strict=True):
            exact = mp.log(self.transform(mp.mpc(float(at))).real)
            assert exact <= bound <= exact + 3e-13 * (1 + abs(bound))

    def test_nodes_and_decay_lie_within_their_stated_errors(self) -> None:
        for c in self.tilts:
            tilted = self.loss.tilted(c)
            at = tilted.cumulants
            step, count = float(np.float32(0.6 / max(float(np.sqrt(at.variance)), 1e-3))), 9
            nodes = tilted.nodes(step, count, 1 << 20)
            decay = tilted.log_decay(step * np.arange(count, dtype=np.float64))
            front = self.transform(mp.mpc(c))
            for k in range(0, count, 2):
                t = mp.mpf(step) * k
                exact = self.transform(mp.mpc(c, t)) / front * mp.exp(mp.mpc(0, -t * mp.mpf(at.mean)))
                computed = mp.exp(mp.mpc(nodes.log_phi[k]))
                spread = mp.mpf(nodes.spread[k])
                assert abs(computed) * mp.expm1(spread) < 2e-11, (c, k)
                assert abs(exact - computed) <= abs(computed) * mp.expm1(spread), (c, k)
                assert abs(exact) <= abs(computed) * mp.exp(spread)
                assert mp.log(abs(exact) + mp.mpf("1e-300")) <= decay[k] + 1e-12, (c, k)

    def test_the_largest_loss_bounds_the_growth_of_k(self) -> None:
        assert 0 <= self.loss.infinite_mass < 1
        assert self.loss.largest_down <= self.loss.largest
        if np.isfinite(self.loss.largest):
            for c in self.tilts:
                assert mp.log(self.transform(mp.mpc(c)).real) <= mp.mpf(c) * mp.mpf(self.loss.largest) * (1 + mp.eps)

    def test_the_renyi_price_bounds_the_divergence_and_rises_with_the_order(self) -> None:
        prices = self.loss.rdp_upper(1 + np.array(self.tilts)).tolist()
        assert prices == sorted(prices)
        for c, price in zip(self.tilts, prices, strict=True):
            if self.loss.infinite_mass:
                assert price == np.inf
            else:
                assert price >= mp.log(self.transform(mp.mpc(c)).real) / c

    def test_a_renyi_price_does_not_depend_on_the_orders_that_are_asked_for_with_it(self) -> None:
        orders = np.append(1 + np.array(self.tilts), (1.001, 1 + 1e-6, 2.0))
        together = self.loss.rdp_upper(orders)
        alone = np.array([self.loss.rdp_upper(orders[i : i + 1])[0] for i in range(orders.size)])
        assert together.tobytes() == alone.tobytes()
        assert self.loss.rdp_upper(orders[::-1].copy()).tobytes() == alone[::-1].tobytes()
