"""Each law's K, characteristic function and decay against 50-digit values: within the error bounds it states."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from dpledger.accounting.families.bounded_range.loss import BoundedRangeLoss
from dpledger.accounting.families.discrete.gaussian_loss import DiscreteGaussianLoss
from dpledger.accounting.families.gaussian.loss import GaussianLoss
from dpledger.accounting.families.gaussian.sampled import SampledGaussianLoss
from dpledger.accounting.families.laplace.loss import LaplaceLoss
from dpledger.accounting.families.laplace.sampled import SampledLaplaceLoss
from dpledger.accounting.laws.finite import approximate_pair, discrete_laplace_pair
from dpledger.accounting.laws.law import Loss
from engine_oracles import SampledTransform, flint_number, mp, real
from law_conformance import LawConformance, Transform
from worst_functions import worst_functions

pytestmark = pytest.mark.sliced


@pytest.fixture(scope="module", params=[0, 1, -1], ids=["ours", "above", "below"], autouse=True)
def functions(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever holds here holds with the worst elementary functions that are assumed."""
    with worst_functions(request.param):
        yield


@dataclass(frozen=True)
class Case:
    name: str
    loss: Loss
    transform: Transform  # E e^{zL} given that L is finite, for complex z


def gaussian(mu2: str) -> Case:
    return Case(f"gaussian {mu2}", GaussianLoss(float(mu2)), lambda z: mp.exp(real(mu2) * z * (z + 1) / 2))


def laplace(e0: str) -> Case:
    """Integrated: atoms at e0 and -e0, a density between."""
    e = real(e0)

    def transform(z: Any) -> Any:
        between = mp.exp(-e / 2) / 4 * (mp.exp((z + 0.5) * e) - mp.exp(-(z + 0.5) * e)) / (z + mp.mpf(1) / 2)
        return mp.exp(z * e) / 2 + mp.exp(-e - z * e) / 2 + between

    return Case(f"laplace {e0}", LaplaceLoss(float(e0)), transform)


def bounded_range(eta: str) -> Case:
    e = real(eta)

    def transform(z: Any) -> Any:
        rate = z + mp.mpf(1) / 2
        return mp.exp(-e / 2) / (2 * -mp.expm1(-e)) * (mp.exp(rate * e) - mp.exp(-rate * e)) / rate

    return Case(f"bounded range {eta}", BoundedRangeLoss(float(eta)), transform)


def response(e0: str, delta0: str) -> Case:
    e = real(e0)
    p = 1 / (1 + mp.exp(-e))
    loss = approximate_pair(float(e0), float(delta0)).loss()
    return Case(f"response {e0} {delta0}", loss, lambda z: p * mp.exp(z * e) + (1 - p) * mp.exp(-z * e))


def sampled_response(e0: str, delta0: str, rate: str, turned: bool) -> Case:
    e, d, q = real(e0), real(delta0), real(rate)
    likely, unlikely = (1 - d) / (1 + mp.exp(-e)), (1 - d) / (1 + mp.exp(e))
    pairs = [((1 - q) * b + q * a, b) for a, b in ((likely, unlikely), (unlikely, likely), (0, d))]
    if turned:
        pairs = [(b, a) for a, b in pairs]
    finite = mp.fsum(p for p, _ in pairs)
    pair = approximate_pair(float(e0), float(delta0)).sampled(float(rate))
    loss = (pair.turned() if turned else pair).loss()
    return Case(
        f"sampled response {e0} {delta0} {rate} {turned}",
        loss,
        lambda z: mp.fsum(p * mp.exp(z * mp.log(p / q_)) for p, q_ in pairs) / finite,
    )


def discrete_laplace(scale: str, shift: int) -> Case:
    b = real(scale)
    norm = mp.tanh(1 / (2 * b))
    reach = range(-int(140 * float(b)) - 10, int(140 * float(b)) + shift + 10)

    def transform(z: Any) -> Any:
        return norm * mp.fsum(mp.exp((-abs(k) + z * (abs(k - shift) - abs(k))) / b) for k in reach)

    return Case(f"discrete laplace {scale} {shift}", discrete_laplace_pair(float(scale), shift).loss(), transform)


def discrete_gaussian(sigma: str, shift: int) -> Case:
    s2 = real(sigma) ** 2
    reach = range(-int(60 * float(sigma)) - 40 * shift, int(20 * float(sigma)) + 20)
    norm = mp.fsum(mp.exp(-mp.mpf(k * k) / (2 * s2)) for k in range(-int(20 * float(sigma)) - 5, -reach.start))

    def transform(z: Any) -> Any:
        return mp.fsum(mp.exp((-(k * k) + z * (shift * shift - 2 * k * shift)) / (2 * s2)) for k in reach) / norm

    return Case(f"discrete gaussian {sigma} {shift}", DiscreteGaussianLoss(float(sigma), shift), transform)


def sampled_gaussian(rate: str, sigma: str, direction: Any) -> Case:
    ball = SampledTransform(rate, sigma)

    def transform(z: Any) -> Any:
        return flint_number(ball([flint_number.to_ball(z + 1 if direction == "remove" else -z)])[0])

    return Case(
        f"sampled gaussian {rate} {sigma} {direction}",
        SampledGaussianLoss(float(rate), float(sigma), direction),
        transform,
    )


def sampled_laplace(rate: str, e0: str, direction: Any) -> Case:
    """Two atoms and an integral over the density, under Q."""
    q, e = real(rate), real(e0)

    def transform(z: Any) -> Any:
        w = z + 1 if direction == "remove" else -z

        def powered(x: Any) -> Any:
            return mp.exp(w * mp.log(1 - q + q * mp.exp(x)))

        pieces = mp.linspace(-e, e, 2 + int(2 * float(e) * (1 + abs(z.imag) / 12)))
        with mp.workdps(22):
            between = mp.quad(lambda x: mp.exp(-(e + x) / 2) / 4 * powered(x), pieces)
        return powered(-e) / 2 + mp.exp(-e) / 2 * powered(e) + between

    loss = SampledLaplaceLoss(float(rate), float(e0), direction)
    return Case(f"sampled laplace {rate} {e0} {direction}", loss, transform)


CASES = [
    sampled_laplace("0.1", "1", "remove"),
    sampled_laplace("0.3", "1.5", "add"),
    gaussian("1e-6"),
    gaussian("2.3"),
    laplace("0.1"),
    laplace("1e-4"),
    laplace("3.7"),
    bounded_range("0.2"),
    bounded_range("5"),
    response("0.3", "0"),
    response("4", "1e-5"),
    sampled_response("1.1", "1e-4", "0.2", False),
    sampled_response("1.1", "1e-4", "0.2", True),
    discrete_laplace("0.8", 3),
    discrete_gaussian("1.7", 2),
    sampled_gaussian("0.01", "1", "remove"),
    sampled_gaussian("0.01", "1", "add"),
    sampled_gaussian("0.7", "0.4", "add"),
    sampled_gaussian("0.2", "6", "remove"),
    discrete_gaussian("5", 3),  # sums over the integers are integrals
]


class CaseConformance(LawConformance):
    """The conformance tests of one case of the table."""

    case: Case

    @property
    def loss(self) -> Loss:  # type: ignore[override]
        return self.case.loss

    @property
    def transform(self) -> Transform:  # type: ignore[override]
        return functools.partial(exactly, self.case.name)


@functools.cache
def exactly(name: str, z: Any) -> Any:
    """The exact transform of a case."""
    return next(case for case in CASES if case.name == name).transform(z)


class TestSampledLaplaceRemove(CaseConformance):
    case = CASES[0]


class TestSampledLaplaceAdd(CaseConformance):
    case = CASES[1]


class TestGaussianNarrow(CaseConformance):
    case = CASES[2]


class TestGaussianWide(CaseConformance):
    case = CASES[3]


class TestLaplaceSmall(CaseConformance):
    case = CASES[4]


class TestLaplaceTiny(CaseConformance):
    case = CASES[5]


class TestLaplaceLarge(CaseConformance):
    case = CASES[6]


class TestBoundedRangeSmall(CaseConformance):
    case = CASES[7]


class TestBoundedRangeLarge(CaseConformance):
    case = CASES[8]


class TestResponse(CaseConformance):
    case = CASES[9]


class TestResponseWithDelta(CaseConformance):
    case = CASES[10]


class TestSampledResponse(CaseConformance):
    case = CASES[11]


class TestSampledResponseTurned(CaseConformance):
    case = CASES[12]


class TestDiscreteLaplace(CaseConformance):
    case = CASES[13]


class TestDiscreteGaussian(CaseConformance):
    case = CASES[14]


class TestSampledGaussianRemove(CaseConformance):
    case = CASES[15]


class TestSampledGaussianAdd(CaseConformance):
    case = CASES[16]


class TestSampledGaussianOfHighRate(CaseConformance):
    case = CASES[17]


class TestSampledGaussianOfMuchNoise(CaseConformance):
    case = CASES[18]


class TestWideDiscreteGaussian(CaseConformance):
    case = CASES[19]


SMOOTH = [case for case in CASES if case.name.startswith(("sampled gaussian", "sampled laplace"))]


@pytest.mark.parametrize("case", SMOOTH, ids=lambda case: case.name)
def test_decay_bounds_what_comes_later_too(case: Case) -> None:
    """log_decay(t) holds for every s >= t, and is worth having."""
    tilted = case.loss.tilted(6.0)
    front = exactly(case.name, mp.mpc(6))
    deviation = float(np.sqrt(tilted.cumulants.variance))
    t = np.array([0.5, 1.0, 2.0, 4.0]) / deviation
    bounds = tilted.log_decay(t)
    assert (np.diff(bounds) <= 0).all()
    for s in (0.7, 1.3, 3.0, 6.0, 11.0):
        exact = mp.log(abs(exactly(case.name, mp.mpc(6, s / deviation)) / front))
        for start, bound in zip(t, bounds, strict=True):
            if s / deviation >= start:
                assert exact <= bound
    assert bounds[1] < -0.02


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_renyi_prices_are_tight_upper_bounds(case: Case) -> None:
    orders = np.array([1.25, 2.0, 9.5])
    for order, found in zip(orders.tolist(), case.loss.rdp_upper(orders).tolist(), strict=True):
        if case.loss.infinite_mass > 0:
            assert found == float("inf")
            continue
        exact = mp.log(exactly(case.name, mp.mpc(order - 1)).real) / mp.mpf(order - 1)
        assert exact <= found <= exact * (1 + mp.mpf("1e-9")) + mp.mpf("1e-15")
