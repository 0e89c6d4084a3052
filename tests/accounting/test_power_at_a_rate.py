"""The greatest true-positive rate at a false-positive rate, from profiles: against exact trade-off functions."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from scipy.stats import norm

import dpledger as dpl
from dpledger.accounting.arithmetic.floating import Array
from dpledger.accounting.engine import tradeoff
from dpledger.accounting.engine.tradeoff import Deltas, power_bounds
from dpledger.accounting.laws.law import Direction

ALPHAS = np.array([0.0, 1e-9, 1e-4, 0.01, 0.05, 0.2, 0.5, 0.8, 0.99, 1.0])
NARROW = 3e-3  # relative, where the profile has corners between its points


class Pair(NamedTuple):
    """Distributions on a few outcomes."""

    p: tuple[float, ...]
    q: tuple[float, ...]

    def profile(self) -> Deltas:
        p, q = np.array(self.p), np.array(self.q)

        def deltas(epsilons: Array) -> tuple[Array, Array]:
            y = np.exp(np.minimum(epsilons, 700.0))[:, None]
            exact = np.maximum(p - np.where(q > 0, y * q, 0.0), 0.0).sum(axis=1)
            return exact * (1 - 1e-14), exact * (1 + 1e-14)

        return deltas

    def turned(self) -> Pair:
        return Pair(self.q, self.p)

    def power(self, alpha: float) -> float:
        """By Neyman and Pearson: the outcomes of the largest ratios, the last one by a coin."""
        order = sorted(zip(self.p, self.q, strict=True), key=lambda one: -one[0] / one[1] if one[1] else -math.inf)
        gained, left = 0.0, alpha
        for p, q in order:
            share = min(1.0, left / q) if q else 1.0
            gained, left = gained + share * p, left - share * q
        return gained


def gaussian(mu: float) -> Deltas:
    def deltas(epsilons: Array) -> tuple[Array, Array]:
        near = np.minimum(epsilons, 700.0)
        first, second = norm.logsf(near / mu - mu / 2), near + norm.logsf(near / mu + mu / 2)
        exact = np.exp(first) * -np.expm1(np.minimum(second - first, 0.0))
        exact = np.where(epsilons > 700, 0.0, exact)
        return exact * (1 - 1e-11), exact * (1 + 1e-11)

    return deltas


def check(there: Deltas, back: Deltas, reach: float, exact: Callable[[float], float], narrow: float = NARROW) -> None:
    lower, upper = power_bounds(there, back, reach, ALPHAS)
    for alpha, low, high in zip(ALPHAS.tolist(), lower.tolist(), upper.tolist(), strict=True):
        true = exact(alpha)
        assert low <= true * (1 + 1e-12), alpha
        assert true * (1 - 1e-12) <= high, alpha
        assert high - low <= narrow * true + 1e-13, alpha
        assert alpha <= high <= 1
        assert 0 <= low <= 1


@pytest.mark.parametrize("mu", [0.01, 0.3, 1.0, 4.0])
def test_that_of_a_gaussian(mu: float) -> None:
    def exact(alpha: float) -> float:
        return float(norm.sf(norm.isf(alpha) - mu))

    deltas = gaussian(mu)
    check(deltas, deltas, 8 * mu + mu * mu / 2, exact, narrow=1e-5)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 2.0, 9.0])
@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.1])
def test_that_of_the_worst_case_of_two_parameters(epsilon: float, delta: float) -> None:
    """At 0 it is what only one of the two shows."""
    high = (1 - delta) / (1 + math.exp(-epsilon))
    pair = Pair((delta, high, 1 - delta - high, 0.0), (0.0, 1 - delta - high, high, delta))
    same = pair.profile()
    check(same, same, epsilon, pair.power)
    check(pair.profile(), pair.turned().profile(), epsilon, pair.power)
    lower, upper = power_bounds(same, same, epsilon, np.array([0.0]))
    assert lower[0] <= delta <= upper[0] <= delta * (1 + 1e-13)


PAIRS = (
    Pair((0.9, 0.1), (0.99, 0.01)),
    Pair((0.01, 0.99), (0.001, 0.999)),
    Pair((0.02, 0.5, 0.48, 0.0), (0.0, 0.3, 0.6, 0.1)),
    Pair((0.3, 0.3, 0.2, 0.2), (0.01, 0.19, 0.3, 0.5)),
    Pair((1e-5, 0.5, 0.5 - 1e-5), (1e-7, 0.2, 0.8 - 1e-7)),
)


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("turn", [False, True])
def test_that_of_a_pair_whose_two_profiles_differ(pair: Pair, turn: bool) -> None:
    """Each of the two profiles says another part of it; a reach that is too short is found out."""
    pair = pair.turned() if turn else pair
    for reach in (6.0, 12.0):
        check(pair.profile(), pair.turned().profile(), reach, pair.power)


@pytest.mark.parametrize("mu", [0.3, 2.0])
def test_a_reach_that_is_too_short_is_made_longer(mu: float) -> None:
    """Until what is left is far below the least rate that is asked for, or powers end."""
    deltas = gaussian(mu)
    check(deltas, deltas, 0.1, lambda alpha: float(norm.sf(norm.isf(alpha) - mu)), narrow=1e-5)
    far = tradeoff._far_enough(deltas, 0.1, 1e-6)
    assert deltas(np.array([far]))[1][0] <= 1e-9 < deltas(np.array([far / 1.5]))[1][0]
    assert tradeoff._far_enough(deltas, 5000.0, 1e-6) == 5000.0
    never = Pair((0.5, 0.5), (0.0, 1.0)).profile()
    assert tradeoff._far_enough(never, 1.0, 1e-6) == 690.0


@pytest.mark.parametrize("wide", [1e-3, 1e-8])
def test_what_is_not_known_of_a_profile_is_not_known_of_the_rate(wide: float) -> None:
    """Bounds that are wide by a share stay bounds, and are hardly wider than that."""

    def deltas(epsilons: Array) -> tuple[Array, Array]:
        lower, upper = gaussian(1.0)(epsilons)
        return lower * (1 - wide), upper * (1 + wide)

    lower, upper = power_bounds(deltas, deltas, 9.0, ALPHAS[1:-1])
    exact = norm.sf(norm.isf(ALPHAS[1:-1]) - 1)
    assert (lower <= exact).all()
    assert (exact <= upper).all()
    assert (upper - lower <= (6 * wide + 2e-5) * exact).all()
    assert (upper - exact <= (1.01 * wide + 4e-6) * exact).all()


def tiny_pair(rng: random.Random) -> tuple[list[Decimal], list[Decimal]]:
    """Two laws on few outcomes, the second the first but for a little that moves from one outcome to another."""
    with localcontext(Context(prec=60)):
        left = [Decimal(rng.randint(1, 10**6)) / 10 ** rng.randint(7, 20) for _ in range(rng.randint(1, 4))]
        left.append(1 - sum(left))
        right = list(left)
        start, end = rng.sample(range(len(left)), 2)
        moved = (left[start] * rng.randint(1, 99)).scaleb(-rng.randint(2, 16))
        right[start], right[end] = right[start] - moved, right[end] + moved
    return left, right


@pytest.mark.parametrize("seed", range(40))
def test_that_of_a_pair_that_shows_next_to_nothing(seed: int) -> None:
    """However near to each other the points come that are asked: Neyman and Pearson, in whole fractions."""
    rng = random.Random(seed)
    left, right = tiny_pair(rng)
    law = dpl.PmfPair(left=tuple(left), right=tuple(right))
    ways: tuple[tuple[Direction, list[Decimal], list[Decimal]], ...] = ("remove", left, right), ("add", right, left)
    for direction, p, q in ways:
        profile = dpl.compose(law, direction=direction)
        for alpha in (Decimal(rng.randint(1, 99)).scaleb(-rng.randint(2, 20)), min(q) / 3, Decimal("0.5")):
            exact = exact_power(p, q, Fraction(alpha))
            found = profile.true_positives(alpha)
            assert Fraction(found.lower) <= exact <= Fraction(found.upper), (direction, alpha)
            assert found.upper - found.lower <= NARROW * found.upper, (direction, alpha)


def exact_power(p: list[Decimal], q: list[Decimal], alpha: Fraction) -> Fraction:
    pairs = sorted(((Fraction(a), Fraction(b)) for a, b in zip(p, q, strict=True)), key=lambda one: -one[0] / one[1])
    gained, left = Fraction(0), alpha
    for a, b in pairs:
        share = min(Fraction(1), left / b)
        gained, left = gained + share * a, left - share * b
    return gained


@pytest.mark.parametrize(
    ("law", "direction", "alpha", "least"),
    [
        (dpl.PoissonSampled(dpl.GaussianLaw("0.0855496"), rate="1.5e-5"), "remove", "4.95799e-10", 1.50004e-5),
        (dpl.ApproxDP("0.000004", "2e-24"), "add", "1.85782e-7", 1.8578274e-7),
        (dpl.PureDP("1e-8"), "remove", "1e-12", 1.000000009e-12),
    ],
)
def test_more_points_never_say_less(
    law: dpl.Composition, direction: Direction, alpha: str, least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where one direction shows all it has within an epsilon of the sampling rate, or little within any."""
    ends = []
    for rounds in range(7):
        monkeypatch.setattr(tradeoff, "_ROUNDS", rounds)
        ends.append(dpl.compose(law, direction=direction).true_positives(alpha))
    for coarse, fine in itertools.pairwise(ends):
        assert coarse.lower <= fine.lower <= fine.upper <= coarse.upper
    assert ends[-1].lower >= least
    assert ends[-1].upper <= 1.00001 * least


def test_points_are_few() -> None:
    """Only the segments that decide are looked at again: a hundred points, and some dozen a round."""
    asked: list[int] = []

    def deltas(epsilons: Array) -> tuple[Array, Array]:
        asked.append(epsilons.size)
        return gaussian(1.0)(epsilons)

    power_bounds(deltas, deltas, 9.0, np.array([0.05]))
    assert len(asked) <= 12
    assert sum(asked) < 400


def test_corners_lie_on_or_below_a_convex_profile() -> None:
    """Two points and the meeting of two lines for each segment; where it is known to the last digit, hardly below."""
    epsilons = np.linspace(0, 6, 40)
    over, exact = np.expm1(epsilons), gaussian(1.0)(epsilons)[0]
    curve = tradeoff._Curve(over, exact * (1 - 1e-13), exact * (1 + 1e-13))
    at, low = tradeoff._corners(curve)
    assert at.shape == low.shape == (3, 39)
    assert (low <= gaussian(1.0)(np.log1p(at.ravel()))[1].reshape(3, 39) * (1 + 1e-9)).all()
    true = gaussian(1.0)(np.log1p(at[2]))[0]
    assert (low[2][2:-2] >= true[2:-2] - 0.5 * np.abs(np.diff(exact))[2:-2]).all()
    assert (at[0] == over[:-1]).all()
    assert (at[1] == over[1:]).all()
    assert ((over[:-1] <= at[2]) & (at[2] <= over[1:])).all()


def test_more_points_are_kept_in_order_and_apart() -> None:
    deltas = gaussian(1.0)
    curve = tradeoff._asked(deltas, np.array([0.0, 1.0, 2.0, 3.0]))
    more = tradeoff._between(curve, np.array([1]))
    assert more.size == tradeoff._MORE
    assert (more > 0).all()
    assert (more < 3).all()
    both = curve.with_points(deltas, np.concatenate([more, [1.0, 2.0 + 1e-13]]))
    assert both.over.size == 4 + more.size
    assert (np.diff(both.over) > 0).all()
    assert np.allclose(both.upper, deltas(np.log1p(both.over))[1], rtol=1e-12)
    assert np.allclose(both.lower, deltas(np.log1p(both.over))[0], rtol=1e-12)


def test_no_more_points_are_asked_than_what_is_known_of_delta_is_worth() -> None:
    """Of a profile known within a tenth a few rounds tell all there is; of an exact one they lie where the rate is."""
    exact, asked = gaussian(1.0), list[Array]()

    def known(epsilons: Array) -> tuple[Array, Array]:
        asked.append(epsilons)
        lower, upper = exact(epsilons)
        return 0.9 * lower, upper

    power_bounds(known, known, 8.0, np.array([0.05]))
    assert sum(epsilons.size for epsilons in asked) <= 130
    asked.clear()

    def sharp(epsilons: Array) -> tuple[Array, Array]:
        asked.append(epsilons)
        return exact(epsilons)

    power_bounds(sharp, sharp, 8.0, np.array([0.05]))
    least = norm.isf(0.05) - 0.5  # the epsilon whose line is the least
    assert all(abs(epsilon - least) < 1 for epsilons in asked[4:] for epsilon in epsilons.tolist())


def test_a_power_asks_for_no_delta_far_below_its_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    profile = dpl.compose((dpl.PoissonSampled(dpl.GaussianLaw(1), rate="0.01"), 100))
    asked = list[float]()
    real = tradeoff.power_bounds

    def spied(there: Deltas, back: Deltas, reach: float, alphas: Array) -> tuple[Array, Array]:
        asked.append(reach)
        return real(there, back, reach, alphas)

    monkeypatch.setattr("dpledger.accounting.profile.power_bounds", spied)
    profile.tradeoff("0.05")
    assert asked[0] <= profile.epsilon("4.9e-8").upper


@pytest.mark.parametrize(
    "draw",
    [
        dpl.planning.GaussianWithReplacementLaw(noise_multiplier=2, population=1000, draws=10),
        dpl.planning.TruncatedSampledGaussianLaw(noise_multiplier=1, rate="0.01", population=1000, batch=30),
    ],
)
def test_what_dominates_both_ways_of_an_exchange_is_asked_once(draw: dpl.Composition) -> None:
    profile = dpl.compose((draw, 10), relation="replace_one")
    assert sum(case.covers for case in profile.cases) == 1
