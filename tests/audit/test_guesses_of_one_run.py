"""How rarely guesses of one training are right: bounds under a whole curve, against an optimum by linear programming,
mechanisms that keep the claim, and the claim that they do not keep."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st
from scipy.optimize import linprog
from scipy.stats import binom, norm

import dpledger as dpl
from audit_oracles import at_most_so_often
from dpledger.audit.training.guesses import beyond_the_curve, chance_of_guesses
from dpledger.audit.training.one_run import OneRun
from dpledger.audit.training.step_claims import step_claim

pytestmark = pytest.mark.sliced

ALPHA = 0.05
SIGNIFICANCE = 1e-7
AUDITS = 1_000
Points = list[tuple[float, float]]


def most_of_the_tail(canaries: int, guesses: int, right: int, points: Points, subsets: list[tuple[int, ...]]) -> float:
    """The largest probability of at least `right` right guesses that the theorem's inequalities leave, by a linear
    programme over the law of their number: for each set T of counts and each point, both ways."""
    rows, bounds = [], []
    for counts in subsets:
        hits, misses = np.zeros(guesses + 1), np.zeros(guesses + 1)
        for count in counts:
            hits[count] += count / canaries
            misses[count - 1] += (guesses - count + 1) / canaries
        for epsilon, delta in points:
            rows.append(hits - math.exp(epsilon) * misses)
            bounds.append(delta)
            rows.append(math.exp(epsilon) * hits - misses)  # of the complement, with the sides changed
            bounds.append(delta + math.exp(epsilon) - 1)
    aim = np.where(np.arange(guesses + 1) >= right, -1.0, 0.0)
    found = linprog(aim, rows, bounds, np.ones((1, guesses + 1)), [1.0], method="highs")
    assert found.status == 0
    return -float(found.fun or 0)


def least_that_is_beyond(canaries: int, guesses: int, right: int, points: Points) -> float:
    """The smallest chance that the bound certifies."""
    low, high = 0.0, 1.0
    if not beyond_the_curve(canaries, guesses, right, points, high):
        return high
    for _ in range(60):
        middle = (low + high) / 2
        if beyond_the_curve(canaries, guesses, right, points, middle):
            high = middle
        else:
            low = middle
    return high


@st.composite
def asked(draw: Any) -> tuple[int, int, int, Points]:
    canaries = draw(st.integers(1, 30))
    guesses = draw(st.integers(1, canaries))
    right = draw(st.integers(1, guesses))
    curve = st.tuples(st.floats(0, 4), st.floats(0, 0.5))
    return canaries, guesses, right, draw(st.lists(curve, min_size=1, max_size=4))


@given(asked())
def test_it_is_the_optimum_over_upper_sets_of_counts(given_: tuple[int, int, int, Points]) -> None:
    canaries, guesses, right, points = given_
    upper = [tuple(range(least, guesses + 1)) for least in range(1, guesses + 1)]
    most = most_of_the_tail(canaries, guesses, right, points, upper)
    assert least_that_is_beyond(canaries, guesses, right, points) == pytest.approx(most, abs=2e-5)


def test_all_sets_of_counts_leave_no_more() -> None:
    points = [(0.5, 0.1), (1.5, 0.01)]
    for guesses, right in ((5, 4), (6, 6), (7, 5)):
        every = [one for size in range(1, guesses + 1) for one in itertools.combinations(range(1, guesses + 1), size)]
        most = most_of_the_tail(8, guesses, right, points, every)
        ours = least_that_is_beyond(8, guesses, right, points)
        assert most <= ours + 1e-6
        assert ours < 1


def gaussian_curve(mu: float) -> Points:
    each = np.linspace(0, 6, 13)
    return [(float(e), float(norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu))) for e in each]


def test_it_is_above_the_tail_of_every_mechanism_that_keeps_the_curve() -> None:
    """Each canary told by itself: by a Gaussian score and its sign, or as it is with probability delta."""
    for mu in (0.5, 1.0, 2.0):
        curve = gaussian_curve(mu)
        for right in (28, 34, 40):
            told = binom.sf(right - 1, 40, norm.cdf(mu / 2))
            assert told <= least_that_is_beyond(40, 40, right, curve)
    delta = 0.2
    for right in (14, 20):
        told = binom.sf(right - 1, 20, delta + (1 - delta) / 2)
        assert told <= least_that_is_beyond(20, 20, right, [(0.0, delta)])


def test_all_together_or_none_is_allowed_and_bounded() -> None:
    """The whole data leak at once with probability delta: guesses are right together, and no binomial."""
    delta, guesses = 0.01, 50
    for right in (45, 50):
        told = delta + (1 - delta) * binom.sf(right - 1, guesses, 0.5)
        assert told <= least_that_is_beyond(guesses, guesses, right, [(0.0, delta)])


def judged(mu: float, plan: OneRun, audits: int) -> int:
    """How many one-run audits refute, of a training that tells of each canary one Gaussian score apart by `mu`."""
    rng = np.random.default_rng(7)
    fell, half = 0, plan.guesses // 2
    for audit in range(audits):
        inside = rng.random(plan.canaries) < 0.5
        scores: npt.NDArray[np.float64] = rng.normal(size=plan.canaries) + mu * inside
        rising = inside[np.argsort(scores)]
        right = int((~rising[:half]).sum() + rising[plan.canaries - half :].sum())
        is_refuted = plan.needed is not None and right >= plan.needed
        if audit < 3:
            assert plan.evidence(scores, inside).is_refuted == is_refuted
        fell += is_refuted
    return fell


@pytest.mark.slow
@pytest.mark.parametrize(("canaries", "mu"), [(100, 1.0), (400, 2.0)])
def test_a_gaussian_that_keeps_its_curve_falls_as_rarely_as_it_may(canaries: int, mu: float) -> None:
    plan = OneRun.planned(canaries, step_claim(dpl.GDP(str(mu))), alpha=Fraction(1, 20))
    assert at_most_so_often(judged(mu, plan, AUDITS), AUDITS, ALPHA) > SIGNIFICANCE
    assert plan.factor is not None
    found = judged(mu * plan.factor, plan, AUDITS)  # the power that was printed before
    assert found > 0.8 * AUDITS
    # the twin: who takes the number that a smaller claim asks for accuses often
    less = OneRun.planned(canaries, step_claim(dpl.GDP(str(mu / 2))), alpha=Fraction(1, 20))
    assert at_most_so_often(judged(mu, less, AUDITS), AUDITS, ALPHA) < SIGNIFICANCE


def test_a_curve_shows_more_than_its_points() -> None:
    """What the test of points alone cannot refute: 100 canaries, a claim of mu 1, half the noise."""
    claim = step_claim(dpl.GDP(1))
    plan = OneRun.planned(100, claim, alpha=Fraction(1, 20))
    assert plan.needed is not None
    points = [(float(one.epsilon), float(one.delta)) for one in claim.target.points]
    assert all(chance_of_guesses(100, plan.guesses, plan.needed, *one) > ALPHA for one in points)
    assert plan.factor is not None
    assert plan.factor < 2.6
    assert judged(plan.factor, plan, 400) > 320
