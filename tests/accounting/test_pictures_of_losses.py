"""The rough picture of losses that a lattice is laid by: it has about their moments, it ends where they hardly go on,
and what is chosen by it is about the best."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, strategies as st

from dpledger.accounting.engine.support_estimate import DIGITS, Atoms, SupportEstimate, support_estimate
from dpledger.accounting.families.gaussian.sampled import SampledGaussianLoss
from dpledger.accounting.laws.law import Loss
from engine_oracles import mp
from lattice_oracles import Exact, random_law
from seed_batches import over_seeds

SHARE = 1e-3  # of delta, beyond the highest atom
BENT = 0.35  # of a least bound: by so much a tilt may miss it, where rare losses make a sharp bend between two tilts


def drawn(seed: int) -> tuple[Loss, Exact, int, float, SupportEstimate]:
    """A loss with its profile, how often it is run, log delta, and the picture."""
    rng = np.random.default_rng(seed)
    loss, exact = random_law(rng)
    log_delta = math.log(10) * rng.uniform(-10, -1) + float(mp.log(exact(mp.mpf(0))))
    runs = int(rng.integers(1, 40))
    profile = loss.profile()
    assert profile is not None
    return loss, exact, runs, log_delta, support_estimate([(profile, runs)], log_delta, math.log(SHARE))


def mass_above(exact: Exact, loss: float) -> float:
    """P of what is above a loss: delta less its slope."""
    at, near = mp.mpf(loss), mp.mpf(10) ** -20
    return float(exact(at) + (exact(at) - exact(at + near)) / near)


@over_seeds(40, 200)
def test_a_picture_has_about_the_moments_of_its_loss(seed: int) -> None:
    """Of rare samples less: losses are left out that may rule a moment."""
    loss, _, runs, log_delta, picture = drawn(seed)
    tilts = min(picture.saddle_for_delta(log_delta)[0], 1000.0) * np.array([0.3, 0.6, 1.0])
    moments, found = runs * loss.log_moments(tilts), picture.chernoff(tilts).log_moments
    assert np.all(found <= moments * 1.01)
    if not isinstance(loss, SampledGaussianLoss):
        assert np.all(found >= 0.9 * moments)


@over_seeds(40, 200)
def test_a_picture_ends_where_little_is_left(seed: int) -> None:
    """Above a share of delta, below a mass that is never seen: further in there is more."""
    loss, exact, _, log_delta, picture = drawn(seed)
    (part,), share = picture.parts, SHARE * math.exp(log_delta)
    assert part.low < part.high
    step = (part.high - part.low) / 3
    assert mass_above(exact, part.high) <= share
    assert part.high >= loss.largest_down * (1 - 1e-9) or mass_above(exact, part.high - step) > share
    assert 1 - mass_above(exact, part.low) <= 1e-9
    assert 1 - mass_above(exact, part.low + step) > 1e-13


@given(
    gaps=st.lists(st.floats(0.01, 1), min_size=3, max_size=30),
    masses=st.lists(st.floats(-30, 0), min_size=30, max_size=30),
    c=st.floats(0.1, 20),
    log_share=st.floats(-15, -1),
)
def test_a_range_leaves_out_less_than_a_share_when_tilted_and_nearly_all_that_it_may(
    gaps: list[float], masses: list[float], c: float, log_share: float
) -> None:
    losses = np.cumsum(gaps) - 3
    part = Atoms(losses, np.array(masses[: len(gaps)]), 1, float(losses[0]) - 1, float(losses[-1]))
    low, high = part.range(c, log_share)
    assert high == part.high
    exponents = part.log_masses + c * losses
    tilted = np.exp(exponents - exponents.max())
    share = np.cumsum(tilted) / tilted.sum()
    left_out = np.append(0.0, share[losses <= low])[-1]
    assert left_out < math.exp(log_share - 5)
    assert share[np.count_nonzero(losses <= low) + 1] > math.exp(log_share - 7.5)
    assert (low == part.low) == (share[1] >= math.exp(log_share - 7))


@over_seeds(40, 200)
def test_the_least_bound_of_one_run_is_above_its_delta_and_not_far(seed: int) -> None:
    loss, exact, _, log_delta, _ = drawn(seed)
    profile = loss.profile()
    assert profile is not None
    picture = support_estimate([(profile, 1)], log_delta, math.log(SHARE))
    _, epsilon = picture.saddle_for_delta(log_delta)
    assert exact(mp.mpf(epsilon)) <= 1.1 * math.exp(log_delta)
    _, log_bound = picture.saddle_for_epsilon(epsilon / 2)
    true = exact(mp.mpf(epsilon / 2))
    if true > math.exp(log_delta):
        assert mp.log(true) - 0.1 <= log_bound <= mp.log(true) + 12


@over_seeds(40, 200)
def test_tilts_are_about_those_with_the_least_bounds(seed: int) -> None:
    *_, log_delta, picture = drawn(seed)
    c = np.geomspace(1e-3, 1e5, 2000)
    bounds = picture.chernoff(c).log_bounds
    tilt, epsilon = picture.saddle_for_delta(log_delta)
    least = float(((bounds - log_delta) / c).min())
    assert least - 1e-5 * abs(least) <= epsilon <= least + BENT * abs(least) + 1e-9
    tilt, log_bound = picture.saddle_for_epsilon(epsilon)
    at = picture.chernoff(np.array([tilt])).log_bounds[0] - tilt * epsilon
    assert math.isclose(at, log_bound, rel_tol=1e-12)
    least = float((bounds - c * epsilon).min())
    assert least - 1e-5 * abs(least) <= log_bound <= least + BENT * abs(least) + 1e-9


@over_seeds(40, 200)
def test_aliases_are_small_at_the_window_that_is_chosen_and_not_much_smaller(seed: int) -> None:
    """What lies a window before comes to e^{-c W}; what lies one ahead is at most a Chernoff bound at a higher tilt."""
    *_, log_delta, picture = drawn(seed)
    about, epsilon = picture.saddle_for_delta(log_delta)
    c, window = picture.tilt_and_window(about, epsilon, log_delta)
    higher = about * np.geomspace(0.35, 2.4, 300)

    def worst(c: float, window: float) -> float:
        chernoff = picture.chernoff(higher[higher > 1.001 * c])
        ahead = chernoff.log_bounds - chernoff.c * (epsilon + window) + c * window
        return max(-c * window, float(ahead.min())) - log_delta

    assert worst(c, window) <= -DIGITS
    assert all(worst(other, 0.75 * window) > -DIGITS - 4 for other in about * np.geomspace(0.35, 2.0, 40))
