"""Each term of the certificate is needed: a twin without it is caught by the closed form. And the real one never is."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from dpledger.accounting.arithmetic.floating import UNIT
from dpledger.accounting.engine.composed import Composed, TiltedComposition, log_kappa
from dpledger.accounting.engine.saddle_point import ChernoffBounds, Contour
from dpledger.accounting.families.gaussian.loss import GaussianLoss
from dpledger.accounting.laws.fourier import nodes_of_sums
from dpledger.accounting.laws.law import Cumulants
from engine_oracles import gaussian_delta, mp, real


class WithoutAliases(Contour):
    """The lower sum as it is, as if the infinite sum were delta."""

    def _log_alias(self, epsilon: float) -> float:
        return -math.inf


class WithoutTruncation(Contour):
    """As if the nodes left out were nothing."""

    def _truncations(self, log_decay: float) -> tuple[float, float]:
        return 0.0, 0.0


def contour(kind: type[Contour], mu: float, c: float, *, window: float, reach: float) -> Contour:
    """A contour of a Gaussian with a window of so many deviations, and nodes up to so many inverse deviations."""
    composed = Composed(((GaussianLoss(mu * mu), 1),))
    tilts = c * np.geomspace(0.5, 4, 16)
    log_moments = composed.log_moments(tilts)
    chernoff = ChernoffBounds(tilts, log_moments, log_moments + log_kappa(tilts) + 1e-12)
    step = float(np.float32(2 * math.pi / (window * mu)))
    return kind(composed.tilted(c), chernoff, step=step, count=max(2, int(reach / (mu * step))))


def verdicts(kind: type[Contour], *, window: tuple[float, float], reach: tuple[float, float]) -> tuple[int, int, int]:
    """(bounds that fail, bounds that say something below, cases) over seeded contours, good and bad ones."""
    rng = np.random.default_rng(3)
    failed = useful = 0
    for _ in range(150):
        mu = math.exp(rng.uniform(-3, 2))
        c = math.exp(rng.uniform(-0.7, 1.5)) / mu
        epsilon = mu * mu * (c + 0.5) + mu * rng.normal()
        line = contour(kind, mu, c, window=rng.uniform(*window), reach=rng.uniform(*reach))
        exact = mp.log(gaussian_delta(mp.sqrt(mp.mpf(mu * mu)), mp.mpf(epsilon)))
        found = line.bounds(epsilon)
        failed += not found.lower <= exact <= found.upper
        useful += found.lower > -math.inf
    return failed, useful, 150


ANY = {"window": (2.0, 12.0), "reach": (1.0, 9.0)}


def test_the_certificate_holds_for_good_and_bad_contours() -> None:
    failed, useful, cases = verdicts(Contour, **ANY)
    assert failed == 0
    assert useful > cases / 4


@pytest.mark.parametrize("twin", [WithoutAliases, WithoutTruncation])
def test_a_twin_without_one_term_is_caught(twin: type[Contour]) -> None:
    failed, _, _ = verdicts(twin, **ANY)
    assert failed > 5


def test_a_transform_that_is_off_by_a_billionth_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The certificate is tight enough to tell: K off by 1e-9, with its error bound left as it is."""
    honest: Any = TiltedComposition.cumulants

    def shifted(self: TiltedComposition) -> Cumulants:
        at = honest.func(self)
        return Cumulants(at.value - 1e-9, at.error, at.mean, at.variance)

    monkeypatch.setattr(TiltedComposition, "cumulants", property(shifted))
    failed, _, cases = verdicts(Contour, window=(14.0, 16.0), reach=(9.0, 10.0))
    assert failed > cases / 4


def test_without_rounding_errors_the_narrowest_certificates_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deep in the tail, with window and nodes ample, only the roundings are left to bound."""

    class Exactly(Contour):
        __slots__ = ()

        def bounds(self, epsilon: float) -> Any:
            middle, _ = self.estimate(epsilon)
            return type(super().bounds(epsilon))(middle, middle)

    failed, _, cases = verdicts(Exactly, window=(20.0, 24.0), reach=(10.0, 11.0))
    assert failed > cases / 4
    assert verdicts(Contour, window=(20.0, 24.0), reach=(10.0, 11.0))[0] == 0


# ---- floating point -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 17, 200])
def test_node_sums_lie_within_their_rounding(count: int) -> None:
    rng = np.random.default_rng(count)
    points, weights = rng.normal(size=23) * 40, rng.dirichlet(np.ones(23))
    step = float(np.float32(0.137))
    nodes = nodes_of_sums(weights, points, step, count, np.zeros(count))
    found = np.exp(nodes.log_phi)
    errors = np.abs(found) * np.expm1(nodes.spread) * (1 + 1e-9)
    for k in range(0, count, 5):
        exact = mp.fsum(
            mp.mpf(w) * mp.exp(mp.mpc(0, mp.mpf(step) * k * mp.mpf(y))) for w, y in zip(weights, points, strict=True)
        )
        assert abs(exact - mp.mpc(found[k])) <= errors[k]
    assert errors.max() < 1e-9


def test_the_constant_of_the_chernoff_bound_does_not_cancel() -> None:
    for c in (1e-6, 0.5, 6e4, 1e9):
        exact = mp.mpf(c) * mp.log(mp.mpf(c)) - (1 + mp.mpf(c)) * mp.log1p(mp.mpf(c))
        assert abs(mp.mpf(float(log_kappa(c))) - exact) <= 8 * UNIT * (1 + abs(exact))


def test_no_float_of_a_decimal_is_trusted_beyond_its_rounding() -> None:
    """A multiplier that is no float: both sides hold for the decimal, not for its float."""
    from dpledger.accounting.composition import GaussianLaw
    from dpledger.accounting.profile import compose

    text = "0.10000000000000000277555756156289135105907917022705078125"
    for multiplier in ("0.1", text):
        at = compose(GaussianLaw(Decimal(multiplier))).epsilon("1e-9")
        mu = 1 / real(multiplier)
        assert gaussian_delta(mu, mp.mpf(at.lower)) >= real("1e-9") >= gaussian_delta(mu, mp.mpf(at.upper))
