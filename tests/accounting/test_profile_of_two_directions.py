"""A profile asked in every way there is, against the exact numbers of a Poisson sample of randomised response."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Literal

import mpmath
import pytest

from dpledger.accounting import composition, guarantees
from dpledger.accounting.profile import compose
from dpledger.errors import ParameterError

mp = mpmath.mp.clone()
mp.dps = 40
Real = Any  # an mpmath number
Direction = Literal["add", "remove"]

RATE, EPSILON = "0.3", "1.5"
TREE = composition.PoissonSampled(composition.RandomizedResponseLaw(EPSILON), rate=RATE)
LIKELY = 1 / (1 + mp.exp(-mp.mpf(EPSILON)))
Q0 = (1 - LIKELY, LIKELY)
P0 = tuple((1 - mp.mpf(RATE)) * q + mp.mpf(RATE) * p for p, q in zip((LIKELY, 1 - LIKELY), Q0, strict=True))
RUNS = (1, 3)
DIRECTIONS: tuple[Direction, ...] = ("remove", "add")
EPSILONS = ("0", "0.05", "0.1", "0.2", "0.31", "0.5", "1.7")
DELTAS = ("0", "1e-9", "1e-3", "0.02", "0.1", "0.3")
ALPHAS = ("0", "1e-6", "0.01", "0.2", "0.5", "0.9", "1")


def test_it_is_shown_once_though_it_has_two_directions() -> None:
    assert repr(compose((TREE, 3))).count(" x 3") == 1


def outcomes(runs: int, direction: Direction) -> list[tuple[Real, Real]]:
    found = [(mp.mpf(1), mp.mpf(1))]
    for _ in range(runs):
        found = [(p * a, q * b) for p, q in found for a, b in zip(P0, Q0, strict=True)]
    return found if direction == "remove" else [(q, p) for p, q in found]


def delta(pairs: list[tuple[Real, Real]], epsilon: str) -> Real:
    return mp.fsum(max(p - mp.exp(mp.mpf(epsilon)) * q, mp.mpf(0)) for p, q in pairs)


def least_epsilon(pairs: list[tuple[Real, Real]], at: str) -> Real:
    """delta falls linearly in e^epsilon between the ratios."""
    ratios = sorted({p / q for p, q in pairs} | {mp.mpf(1)})
    for y in (ratio for ratio in ratios if ratio >= 1):
        if mp.fsum(max(p - y * q, mp.mpf(0)) for p, q in pairs) <= mp.mpf(at) + mp.mpf("1e-35"):
            below = [ratio for ratio in ratios if 1 <= ratio < y]
            if not below:
                return mp.mpf(0)
            above = [(p, q) for p, q in pairs if p / q >= y]
            return mp.log((mp.fsum(p for p, _ in above) - mp.mpf(at)) / mp.fsum(q for _, q in above))
    raise AssertionError


def power(pairs: list[tuple[Real, Real]], alpha: str) -> Real:
    """By Neyman and Pearson."""
    gained, left = mp.mpf(0), mp.mpf(alpha)
    for p, q in sorted(pairs, key=lambda one: -one[0] / one[1]):
        share = min(mp.mpf(1), left / q)
        gained, left = gained + share * p, left - share * q
    return gained


def power_of_both(runs: int, alpha: str) -> Real:
    """The least of the lines that the larger of both profiles draws, at many y."""
    each, a = [outcomes(runs, direction) for direction in DIRECTIONS], mp.mpf(alpha)
    found = mp.mpf(1)
    for k in range(501):
        y = mp.exp(mp.mpf(k) / 200)
        most = max(mp.fsum(max(p - y * q, mp.mpf(0)) for p, q in pairs) for pairs in each)
        found = min(found, most + y * a, (y - 1 + most + a) / y)
    return found


def close(found: Any, exact: Real, width: float) -> bool:
    return bool(found.lower <= exact <= found.upper and found.upper - found.lower <= width * (exact + mp.mpf("1e-6")))


def largest(runs: int, value: Any, at: str) -> Real:
    return max(value(outcomes(runs, direction), at) for direction in DIRECTIONS)


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("direction", [*DIRECTIONS, None])
def test_delta_and_epsilon_are_those_of_the_outcomes(runs: int, direction: Direction | None) -> None:
    """One by one, many at once, in any order; of both directions the larger."""
    profile = compose((TREE, runs), direction=direction)

    def exact(value: Any, at: str) -> Real:
        return largest(runs, value, at) if direction is None else value(outcomes(runs, direction), at)

    together = dict(zip(EPSILONS[::-1], profile.deltas(EPSILONS[::-1]), strict=True))
    for epsilon in EPSILONS:
        assert close(profile.delta(epsilon), exact(delta, epsilon), 1e-6)
        assert close(together[epsilon], exact(delta, epsilon), 1e-6)
    assert profile.advantage() == profile.delta(0)
    many = (*DELTAS, *(f"{k / 100:.2f}" for k in range(1, 30)))
    at_once = dict(zip(many, profile.epsilons(many), strict=True))
    few = dict(zip(DELTAS[::-1], profile.epsilons(DELTAS[::-1]), strict=True))
    for at in DELTAS:
        for found in (profile.epsilon(at), at_once[at], few[at]):
            assert close(found, exact(least_epsilon, at), 1e-5)
    curve = profile.curve(9)
    assert next(place for place, _ in curve) == 0.0
    for place, bounds in curve:
        assert close(bounds, exact(delta, repr(float(place))), 1e-5)
    assert len(curve) == 9
    last = [place for place, _ in curve][-1]
    assert last == pytest.approx(profile.epsilon("1e-12").upper)


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("direction", [*DIRECTIONS, None])
def test_trade_offs_are_those_of_the_ordered_pair_or_of_both(runs: int, direction: Direction | None) -> None:
    """In both directions no test has more than the better of the two; in one, what that pair allows."""
    profile = compose((TREE, runs), direction=direction)
    for alpha in ALPHAS:
        found = profile.true_positives(alpha)
        pairs = {one: power(outcomes(runs, one), alpha) for one in DIRECTIONS}
        if direction is None:
            exact = power_of_both(runs, alpha)
            assert max(pairs.values()) <= exact * (1 + mp.mpf("1e-3"))
            assert found.lower <= exact
            assert abs(found.upper - exact) <= mp.mpf("1e-3")
        else:
            assert found.lower - 1e-15 <= pairs[direction] <= found.upper
            assert found.upper - found.lower <= 3e-3
        missed = profile.tradeoff(alpha)
        assert missed.lower == pytest.approx(1 - found.upper, abs=1e-15)
        assert missed.upper == pytest.approx(1 - found.lower, abs=1e-15)
        assert missed.lower <= 1 - max(pairs.values()) if direction is None else missed.lower <= 1 - pairs[direction]
        if alpha != "0":
            assert_posterior(profile, alpha, found)


def assert_posterior(profile: Any, alpha: str, rate: Any) -> None:
    for prior in ("0", "0.25", "0.9", "1"):
        found = profile.posterior(prior, alpha)
        for side, end in ((rate.lower, found.lower), (rate.upper, found.upper)):
            share = mp.mpf(prior) * mp.mpf(side)
            exact = share / (share + (1 - mp.mpf(prior)) * mp.mpf(alpha))
            assert abs(end - exact) <= 1e-15
        assert found.lower <= found.upper


def test_both_directions_differ_and_are_told_apart() -> None:
    removed, added = (compose((TREE, 3), direction=one) for one in DIRECTIONS)
    assert removed.delta("0.1") != added.delta("0.1")
    assert removed.tradeoff("0.01") != added.tradeoff("0.01")
    both = compose((TREE, 3))
    assert both.delta("0.1").upper == max(removed.delta("0.1").upper, added.delta("0.1").upper)


def test_a_trade_off_of_one_direction_is_the_mirror_image_of_the_other() -> None:
    """Who misses f(a) at a false-positive rate a, has in the pair turned round a at f(a)."""
    removed, added = (compose((TREE, 3), direction=one) for one in DIRECTIONS)
    for alpha in ("0.05", "0.2", "0.6"):
        missed = removed.tradeoff(alpha)
        back = added.tradeoff(repr((missed.lower + missed.upper) / 2))
        assert back.lower - 3e-3 <= float(alpha) <= back.upper + 3e-3


@pytest.mark.parametrize("eta", ["0.3", "2"])
def test_one_bounded_range_attains_its_profile_and_several_stay_below(eta: str) -> None:
    """(1 - e^{(eps - eta)/2})^2 / (1 - e^{-eta}): run once, both ends are that number."""
    one = compose(guarantees.BoundedRange(eta))
    for share in (0, 0.3, 0.8):
        epsilon = mp.mpf(eta) * mp.mpf(share)
        exact = (1 - mp.exp((epsilon - mp.mpf(eta)) / 2)) ** 2 / -mp.expm1(-mp.mpf(eta))
        assert close(one.delta(repr(float(epsilon))), exact, 1e-6)
    assert close(one.epsilon(0), mp.mpf(eta), 1e-9)
    several = compose(composition.Repeated(guarantees.BoundedRange(eta), times=4)).delta("0.1")
    assert 0 < several.lower <= several.upper <= 1


@pytest.mark.parametrize("wrong", ["-1e-9", "nan", "inf", "-inf"])
def test_what_is_no_number_is_refused(wrong: str) -> None:
    profile = compose(TREE)
    for ask in (profile.delta, profile.epsilon, profile.tradeoff, profile.true_positives):
        with pytest.raises(ParameterError):
            ask(Decimal(wrong))
    for ask in (profile.epsilon, profile.tradeoff, profile.true_positives):
        with pytest.raises(ParameterError, match=r"\[0, 1\]"):
            ask("1.000000000000000000001")
    assert profile.epsilon(1).upper == 0
    with pytest.raises(ParameterError, match="above 0"):
        profile.posterior("0.5", 0)
    with pytest.raises(ParameterError, match="count"):
        profile.curve(1)
    assert len(profile.curve(2)) == 2
    assert profile.deltas(()) == profile.epsilons(()) == profile.tradeoffs(()) == ()


def test_runs_are_counted_up_to_ten_to_the_hundredth() -> None:
    tree: composition.Composition = composition.RandomizedResponseLaw("1e-55")
    for _ in range(8):
        tree = composition.Repeated(tree, times=10**12)
    assert compose((tree, 10**4)).cases
    with pytest.raises(ParameterError, match="at most 10\\^100"):
        compose((tree, 10**4 + 1))
