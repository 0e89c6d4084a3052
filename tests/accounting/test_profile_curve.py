"""A whole profile at once agrees with its points one by one, and with closed forms; what an attacker may reach."""

import math
import random
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting.composition import Composition, GaussianLaw, LaplaceLaw, PoissonSampled, Repeated, Sequence
from dpledger.accounting.engine import expansion_points
from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.engine.tilt import chernoff_bounds_around, choose_contour, saddle_for_delta
from dpledger.accounting.guarantees import ZCDP, ApproxDP, PureDP
from dpledger.accounting.lowering import read_losses
from dpledger.accounting.profile import Bounds, compose
from dpledger.errors import ParameterError
from dpledger.relations import Relation
from engine_oracles import gaussian_delta, holds_delta, mp, real

pytestmark = pytest.mark.sliced

STEP = PoissonSampled(GaussianLaw(1), rate="0.01")
TREES: dict[str, Composition] = {
    "training": Repeated(STEP, times=1000),
    "gaussian": Repeated(GaussianLaw(10), times=100),
    "laplace": Repeated(LaplaceLaw("0.1"), times=300),
    "one laplace": LaplaceLaw(1),
    "one step": STEP,
    "few runs": Repeated(STEP, times=6),
    "failing": Sequence((Repeated(STEP, times=500), ApproxDP("0.1", "1e-7"))),
    "response": Repeated(PureDP("0.1"), times=50),
    "promised": Sequence((ZCDP("0.01"), GaussianLaw(5))),
    "nothing": PureDP(0),
}


@pytest.mark.parametrize("name", TREES)
def test_many_epsilons_at_once_are_the_points_one_by_one(name: str) -> None:
    profile = compose(TREES[name])
    epsilons = [0.0, 1e-6, *np.linspace(0.05, 9.0, 40).tolist()]
    for epsilon, bounds in zip(epsilons, profile.deltas(epsilons), strict=True):
        alone = profile.delta(epsilon)
        assert max(alone.lower, bounds.lower) <= min(alone.upper, bounds.upper)
        if alone.upper > 1e-300 and alone.lower > alone.upper * (1 - 1e-3):
            assert bounds.lower >= bounds.upper * (1 - 2e-3)


FEW = PoissonSampled(GaussianLaw("1.7"), rate="0.02")


@pytest.mark.parametrize("runs", [3, 4, 6, 11])
def test_epsilon_delta_and_deltas_have_one_tolerance(runs: int) -> None:
    """Of few sampled runs: 1e-6 of epsilon, and as much in delta; one point or many."""
    profile = compose(Repeated(FEW, times=runs))
    found = profile.epsilon("1e-6")
    assert found.upper <= found.lower * (1 + 1e-6)
    near = [found.upper * (1 + i / 1000) for i in range(2 * expansion_points.MANY)]
    for bounds in (profile.delta(found.upper), *profile.deltas(near)):
        assert bounds.upper <= bounds.lower * (1 + 2e-5)
    assert profile.delta(near[3]) == compose(Repeated(FEW, times=runs)).deltas([near[3]])[0]


@pytest.mark.parametrize("name", TREES)
def test_many_deltas_at_once_are_the_points_one_by_one(name: str) -> None:
    profile, alone = compose(TREES[name]), compose(TREES[name])
    deltas = ["0", "1", "0.7", "1e-7", "1.1e-7", *(f"{10 ** (-k / 3):.3e}" for k in range(1, 60, 3))]
    for delta, bounds in zip(deltas, profile.epsilons(deltas), strict=True):
        one = alone.epsilon(delta)
        assert max(one.lower, bounds.lower) <= min(one.upper, bounds.upper)
        assert one.upper == math.inf or bounds.upper - bounds.lower <= max(one.upper - one.lower, 6e-4 * one.upper)


@settings(max_examples=20, deadline=None)
@given(st.floats(0.05, 2), st.integers(1, 10**6), st.integers(0, 2**32 - 1))
def test_many_epsilons_of_gaussians_against_the_closed_form(mu: float, runs: int, seed: int) -> None:
    """Balle-Wang 2018: at the bounds of epsilon the exact delta is on either side."""
    rng = random.Random(seed)
    deltas = [f"{10 ** rng.uniform(-40, -0.01):.6e}" for _ in range(8)]
    law = GaussianLaw(f"{math.sqrt(runs) / mu:.6g}")
    exact_mu = (mp.mpf(runs) ** 0.5) / mp.mpf(str(law.noise_multiplier))
    for delta, bounds in zip(deltas, compose(Repeated(law, times=runs)).epsilons(deltas), strict=True):
        assert gaussian_delta(exact_mu, real(bounds.upper)) <= mp.mpf(delta)
        assert bounds.lower == 0 or gaussian_delta(exact_mu, real(bounds.lower)) >= mp.mpf(delta)
        assert bounds.upper - bounds.lower <= 1e-4 * bounds.upper


def test_a_case_that_is_never_the_larger_adds_nothing() -> None:
    """Of the other direction it is enough to know that it is not above; the maximum is that of both."""
    tree, deltas = TREES["training"], [f"1e-{k}" for k in range(1, 30)]
    sides = [compose(tree, direction=side).epsilons(deltas) for side in ("remove", "add")]
    for both, remove, add in zip(compose(tree).epsilons(deltas), *sides, strict=True):
        lower, upper = max(remove.lower, add.lower), max(remove.upper, add.upper)
        assert max(both.lower, lower) <= min(both.upper, upper)


def test_thirty_decades_of_a_gaussian_against_the_closed_form() -> None:
    """Balle-Wang 2018, Theorem 8; a thousand points, narrow to a part in 10^5 and never wrong."""
    profile = compose(Repeated(GaussianLaw(10), times=100))
    points = profile.curve(200)
    epsilons = [12.0 * i / 999 for i in range(1000)]
    for epsilon, bounds in zip(epsilons, profile.deltas(epsilons), strict=True):
        assert holds_delta(bounds.lower, bounds.upper, gaussian_delta(mp.mpf(1), real(epsilon)))
        assert bounds.upper <= bounds.lower * (1 + 1e-5)
    assert points[0][0] == 0
    assert all(later.upper <= earlier.upper for (_, earlier), (_, later) in pairwise(points))


def test_the_contour_says_the_same_of_many_points_as_of_each() -> None:
    (what,) = read_losses(TREES["training"], Relation.ADD_REMOVE, "remove")
    composed = Composed(what.losses)
    saddle = saddle_for_delta(composed, -12.0, 2e-4)
    for width in (2e-4, 1e-7):
        contour = choose_contour(
            composed, saddle, chernoff_bounds_around(composed, saddle.c), tolerance=1e-8, width=width
        )
        epsilons = np.linspace(-1.0, 8.0, 30)
        for epsilon, low, high in zip(epsilons.tolist(), *contour.bounds_at(epsilons), strict=True):
            alone = contour.bounds(epsilon)
            assert high == pytest.approx(alone.upper, rel=1e-9, abs=1e-12)
            assert low == alone.lower or low == pytest.approx(alone.lower, rel=1e-9, abs=1e-12)


def test_the_order_of_the_points_does_not_matter_and_none_is_none() -> None:
    profile = compose(TREES["training"])
    assert profile.deltas([2, "0.5", 2]) == tuple(profile.deltas(["0.5", 2, 2])[i] for i in (1, 0, 2))
    assert profile.deltas([]) == profile.epsilons([]) == ()
    assert profile.epsilons(["1e-5", "1e-6"]) == (profile.epsilon("1e-5"), profile.epsilon("1e-6"))
    with pytest.raises(ParameterError, match="epsilons"):
        profile.deltas([1, -1])


def counted_expansions(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """log delta of every expansion that is made."""
    made: list[float] = []

    def counted(composed: Composed, log_delta: float, most: int) -> object:
        made.append(log_delta)
        return original(composed, log_delta, most)

    original = expansion_points._expansion
    monkeypatch.setattr(expansion_points, "_expansion", counted)
    return made


def test_a_profile_makes_each_expansion_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = counted_expansions(monkeypatch)
    profile = compose(TREES["training"])
    epsilons = np.linspace(0, 6, 40).tolist()
    first = profile.deltas(epsilons)
    profile.tradeoffs(["0.1", "0.01"])
    before = len(made)
    assert before <= 40
    assert profile.deltas(epsilons) == first
    profile.tradeoff("0.05")
    profile.curve(20)
    assert len(made) == before


def test_no_expansion_is_made_beyond_what_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Chernoff bound settles epsilons far out: those between are not walked to."""
    made = counted_expansions(monkeypatch)
    (bounds, *_, beyond) = compose(TREES["training"], direction="remove").deltas([1.0] * expansion_points.MANY + [1e9])
    assert bounds.upper < bounds.lower * (1 + 1e-3)
    assert (beyond.lower, beyond.upper) == (0.0, beyond.upper)
    assert beyond.upper < 1e-300
    assert min(made) > -80


@pytest.mark.parametrize("name", ["training", "laplace", "few runs", "failing"])
def test_the_larger_direction_is_that_of_both(name: str) -> None:
    """Of the smaller direction a few points are asked first: no bound is lost, and none is wider."""
    epsilons = np.linspace(0, 7, 150).tolist()
    both = compose(TREES[name]).deltas(epsilons)
    sides = [compose(TREES[name], direction=side).deltas(epsilons) for side in ("remove", "add")]
    for found, remove, add in zip(both, *sides, strict=True):
        assert found.lower >= max(remove.lower, add.lower) * (1 - 2e-3)
        assert max(remove.lower, add.lower) <= found.upper
        assert found.upper <= max(remove.upper, add.upper) * (1 + 2e-3)


@settings(max_examples=30, deadline=None)
@given(st.decimals("0.001", 9, places=17), st.sampled_from(["training", "laplace", "failing"]))
def test_an_epsilon_between_two_floats_has_the_bounds_of_both(epsilon: Decimal, name: str) -> None:
    """delta falls: at the exact number it lies between what it is at the floats around it."""
    profile = CURVES[name]
    (found,) = profile.deltas([epsilon])
    assert found.lower <= profile.delta(Decimal(math.nextafter(float(epsilon), 0.0))).upper
    assert found.upper >= profile.delta(Decimal(math.nextafter(float(epsilon), 99.0))).lower
    assert found.upper < 1e-300 or found.upper <= found.lower * (1 + 2e-3) or float(epsilon) > 5


CURVES = {name: compose(TREES[name]) for name in ("training", "laplace", "failing")}


# ---- what an attacker may reach -------------------------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(st.floats(0.1, 3), st.sampled_from(["0.5", "0.01", "1e-4"]))
def test_true_positives_of_randomized_response(epsilon: float, rate: str) -> None:
    """At a false-positive rate a the best test has min(e^eps a, 1 - e^-eps (1 - a)). Kairouz et al. 2015."""
    found = compose(PureDP(epsilon)).true_positives(rate)
    alpha = float(rate)
    exact = min(math.exp(epsilon) * alpha, 1 - math.exp(-epsilon) * (1 - alpha))
    assert found.lower <= exact * (1 + 1e-12)
    assert found.upper >= exact * (1 - 1e-12)
    assert found.upper - found.lower < 1e-5


def test_the_posterior_is_bayes_rule() -> None:
    """e^eps times the prior odds, where the test is no sharper than that."""
    profile = compose(PureDP(1))
    for prior in (0.5, 0.01):
        odds = prior / (1 - prior) * math.e
        found = profile.posterior(prior, "0.01")
        assert found.lower <= odds / (1 + odds) <= found.upper
        assert found.upper - found.lower < 1e-4
    assert compose(PureDP(0)).posterior("0.3", "0.1").upper == pytest.approx(0.3, abs=1e-9)
    assert profile.posterior(0, "0.1") == Bounds(0.0, 5e-324) or profile.posterior(0, "0.1").upper < 1e-19
    assert profile.posterior(1, "0.1").upper == 1.0


@pytest.mark.parametrize(("prior", "rate"), [("2", "0.1"), ("nan", "0.1"), ("0.5", "0"), ("0.5", "1.5"), ("-1", "0.1")])
def test_bad_rates_are_refused(prior: str, rate: str) -> None:
    with pytest.raises(ParameterError, match=r"prior|false_positives"):
        compose(PureDP(1)).posterior(prior, rate)
