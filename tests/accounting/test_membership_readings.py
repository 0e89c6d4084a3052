"""Trade-off, true positives, advantage and posterior against closed forms: both directions, one, and the ends."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any, Literal

import mpmath
import pytest

from dpledger.accounting.composition import GaussianLaw, PmfPair, PoissonSampled, Repeated
from dpledger.accounting.documents import parse_document
from dpledger.accounting.guarantees import ApproxDP
from dpledger.accounting.profile import Bounds, compose

mp = mpmath.mp.clone()
mp.dps = 60
Real = Any  # an mpmath number

ALPHAS = ["1e-20", "1e-9", "0.000001", "0.001", "0.1", "0.31", "0.5", "0.9", "0.999999"]


def shifted(alpha: Real, mu: Real) -> Real:
    """Phi(Phi^-1(alpha) + mu): the power of the best test between N(0, 1) and N(mu, 1)."""
    side = min(alpha, 1 - alpha)
    guess = NormalDist().inv_cdf(float(side)) if side > 1e-16 else -mp.sqrt(-2 * mp.log(side))
    quantile = mp.findroot(lambda x: mp.log(mp.ncdf(x)) - mp.log(side), guess)
    return mp.ncdf((quantile if side == alpha else -quantile) + mu)


def sampled(alpha: Real, rate: Real, mu: Real) -> Real:
    """The same between N(0, 1) and its mixture with N(mu, 1): the likelihood ratio rises, so the tests are those."""
    return (1 - rate) * alpha + rate * shifted(alpha, mu)


def holds(found: Bounds, exact: Real, width: float) -> bool:
    return bool(found.lower <= exact <= found.upper and found.upper - found.lower <= width * exact)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("noise", ["0.8", "1", "20"])
def test_the_true_positives_of_a_gaussian_at_every_rate(noise: str, alpha: str) -> None:
    exact = shifted(mp.mpf(alpha), 1 / mp.mpf(noise))
    profile = compose(GaussianLaw(noise))
    assert holds(profile.true_positives(alpha), exact, 3e-6)
    missed = profile.tradeoff(alpha)
    assert missed.lower <= 1 - exact <= missed.upper


@pytest.mark.parametrize("alpha", ["0.000001", "0.001", "0.1", "0.5", "0.9"])
def test_one_direction_alone_is_the_ordered_pair(alpha: str) -> None:
    """A sample of a Gaussian, found (remove) or missed (add): two different curves, inverse to one another."""
    step, rate, mu = PoissonSampled(GaussianLaw(1), rate="0.2"), mp.mpf("0.2"), mp.mpf(1)
    finding = compose(step, direction="remove").true_positives(alpha)
    exact = sampled(mp.mpf(alpha), rate, mu)
    assert holds(finding, exact, 1e-5)
    at = 1 - mp.mpf(alpha)  # a test that misses: its false positives are the missed units of one that finds
    crossing = compose(step, direction="add").true_positives(mp.nstr(1 - sampled(at, rate, mu), 40))
    assert crossing.lower - 1e-5 <= mp.mpf(alpha) <= crossing.upper + 1e-5


def test_a_document_for_one_direction_has_the_readings_too() -> None:
    document = parse_document(
        {
            "relation": "add_remove",
            "direction": "remove",
            "entries": [{"mechanism": {"kind": "poisson_sampled", "rate": "0.2", "of": {"kind": "gdp", "mu": "1"}}}],
        }
    )
    profile = compose(document)
    assert holds(profile.true_positives("0.1"), sampled(mp.mpf("0.1"), mp.mpf("0.2"), mp.mpf(1)), 1e-5)
    assert profile.posterior("0.5", "0.1").lower > 0.5


@pytest.mark.parametrize("direction", [None, "add", "remove"])
def test_both_ends(direction: Literal["add", "remove"] | None) -> None:
    """At 0 only what one side alone shows is found; at 1, everything."""
    profile = compose(Repeated(PoissonSampled(GaussianLaw(1), rate="0.1"), times=100), direction=direction)
    assert profile.true_positives(0).lower == 0
    assert profile.true_positives(0).upper <= 1e-300
    assert profile.true_positives(1) == Bounds(1.0, 1.0)
    assert profile.tradeoff(1).upper <= 5e-324


def test_what_one_side_alone_shows_is_found_without_false_positives() -> None:
    assert holds(compose(ApproxDP(1, "0.01")).true_positives(0), mp.mpf("0.01"), 1e-12)


@pytest.mark.parametrize(("alpha", "finding"), [("0", "0.2"), ("0.1", "0.8"), ("0.3", "0.85"), ("0.9", "1")])
def test_a_lopsided_pair_by_hand(alpha: str, finding: str) -> None:
    """Left 0.2, 0.6, 0.2, 0; right 0, 0.1, 0.8, 0.1: the best test takes outcomes in the order of their ratios."""
    pair = PmfPair(left=("0.2", "0.6", "0.2", "0"), right=("0", "0.1", "0.8", "0.1"))
    found = compose(pair, direction="remove").true_positives(alpha)
    assert found.lower - 1e-9 <= float(finding) <= found.upper + 1e-9
    assert found.upper - found.lower <= 1e-4  # of a curve with corners


def test_the_advantage_is_the_most_that_true_positives_exceed_false_ones() -> None:
    """For mu: at alpha = Phi(-mu/2), 2 Phi(mu/2) - 1."""
    profile = compose(GaussianLaw(1))
    exact = 2 * mp.ncdf(mp.mpf("0.5")) - 1
    assert profile.advantage().lower <= exact <= profile.advantage().upper
    best = profile.true_positives(mp.nstr(mp.ncdf(mp.mpf("-0.5")), 30))
    assert abs(best.upper - float(mp.ncdf(mp.mpf("-0.5"))) - float(exact)) < 1e-5


def test_the_posterior_is_that_of_bayes() -> None:
    exact = shifted(mp.mpf("0.001"), mp.mpf(1))
    found = compose(GaussianLaw(1)).posterior("0.3", "0.001")
    share = mp.mpf("0.3") * exact
    assert holds(found, share / (share + mp.mpf("0.7") * mp.mpf("0.001")), 1e-5)
