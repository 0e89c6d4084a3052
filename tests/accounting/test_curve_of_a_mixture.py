"""The loss of a mixture of Gaussians at a point, and the point of a loss, against mpmath."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, strategies as st

from dpledger.accounting.arithmetic import scalars
from dpledger.accounting.arithmetic.floating import ULPS
from dpledger.accounting.families.gaussian import mixture_curve
from dpledger.accounting.families.gaussian.mixture_curve import Mixture
from dpledger.accounting.families.gaussian.mixture_loss import MixtureLoss
from dpledger.accounting.laws.law import Direction
from dpledger.errors import WorkLimit
from worst_functions import worst_functions

mp = mpmath.mp.clone()
mp.dps = 60
Real = Any  # an mpmath number

UNIT = 2.0**-53


@pytest.fixture(scope="module", params=[0, 1, -1], ids=["ours", "above", "below"], autouse=True)
def functions(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever holds here holds with functions that err by all of what `elementary` claims, two units."""
    with worst_functions(request.param, ULPS):
        yield


def mixture(sigma: float, shifts: tuple[float, ...], weights: tuple[float, ...], rest: float) -> Mixture:
    return Mixture(sigma, shifts, weights, tuple(math.log(weight) for weight in weights), rest)


MIXTURES = (
    mixture(0.2, (1.0,), (0.25,), 0.75),
    mixture(1.0, (0.25, 1.0), (0.5, 0.25), 0.25),
    mixture(1.0, (0.5, 0.75, 1.0), (0.25, 0.5, 0.25), 0.0),
    mixture(4.0, (0.125, 0.5, 1.0), (0.125, 2.0**-20, 2.0**-30), 1 - 0.125 - 2.0**-20 - 2.0**-30),
    mixture(0.05, (0.5, 1.0), (2.0**-10, 2.0**-300), 1 - 2.0**-10),
)


def loss(mixed: Mixture, x: float) -> Real:
    return mp.log(weights_at(mixed, x)[0])


def weights_at(mixed: Mixture, x: float) -> tuple[Real, Real]:
    """The sum of the weighted likelihood ratios, and the same with each times its shift."""
    variance = mp.mpf(mixed.sigma) ** 2
    pairs = zip(map(mp.mpf, mixed.shifts), map(mp.mpf, mixed.weights), strict=True)
    terms = [(r, w * mp.exp((r * mp.mpf(x) - r * r / 2) / variance)) for r, w in pairs]
    rest = 1 - mp.fsum(mp.mpf(weight) for weight in mixed.weights) if mixed.rest else mp.mpf(0)
    return rest + mp.fsum(term for _, term in terms), mp.fsum(r * term for r, term in terms)


def points(mixed: Mixture) -> list[float]:
    near = [-3.0, -1.0, -0.3, 0.0, 0.1, 0.5, 0.6, 1.0, 2.0, 7.0]
    return sorted([*near, *(x * mixed.sigma**2 for x in (-900.0, -40.0, -2.0, 3.0, 100.0, 590.0, 620.0, 2000.0))])


@pytest.mark.parametrize("mixed", MIXTURES)
def test_values_and_slopes_err_by_no_more_than_is_stated(mixed: Mixture) -> None:
    """And what is stated is at most some hundred roundings of the exponents."""
    x = points(mixed)
    found = mixed.curve(np.array(x))
    used = mp.mpf(0)
    for place, value, slope, error in zip(
        x, found.values.tolist(), found.slopes.tolist(), found.errors.tolist(), strict=True
    ):
        total, shifted = weights_at(mixed, place)
        exact, exponent = mp.log(total), (abs(place) + 1) * mixed.inverse
        assert abs(value - exact) <= error, place
        assert error <= 40 * UNIT * (exponent + abs(exact) + 1) + 700 * 40 * UNIT * (exponent > 600), place
        assert abs(slope - shifted / total) <= found.slope_error * shifted / total + mp.mpf("1e-60")
        used = max(used, abs(value - exact) / error) if error else used
    largest = (max(map(abs, x)) + 1) * mixed.inverse
    assert found.slope_error <= 160 * UNIT * (largest + 2)
    assert used > 0.003


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("mixed", MIXTURES)
def test_the_one_row_that_the_rule_sees_is_the_curve(mixed: Mixture, direction: Direction) -> None:
    """Of both directions: the rule turns the sign. Its slope is that of the curve, at one point too."""
    pairs, x = MixtureLoss(mixed, direction).pairs, np.array(points(mixed))
    whole, row = mixed.curve(x), pairs.curve(x[None])
    assert (pairs.sigma.tolist(), pairs.direction, pairs.cut) == ([[mixed.sigma]], direction, None)
    assert row.values.tolist() == [whole.values.tolist()]
    assert row.slopes.tolist() == [whole.slopes.tolist()]
    assert row.errors.tolist() == [whole.errors.tolist()]
    assert row.slope_error == whole.slope_error
    for place, slope in zip(x.tolist(), whole.slopes.tolist(), strict=True):
        (found,) = pairs.slope(np.array([[place]])).ravel().tolist()
        assert found == pytest.approx(slope, rel=1e-13)


@pytest.mark.parametrize("mixed", MIXTURES)
def test_both_ways_to_sum_agree(mixed: Mixture) -> None:
    """From 1, and as the logarithm of a sum whose largest term is taken out: each within its own errors."""
    x = np.linspace(-2, 3, 40) * max(1.0, mixed.sigma)
    found = mixed.curve(x)
    shifts = np.array(mixed.shifts)[:, None]
    u = shifts * (x - shifts / 2) * mixed.inverse
    moved = UNIT * (24 * np.abs(u) + 8 * shifts * shifts * mixed.inverse)
    values, slopes, errors = mixed._by_logarithms(u, moved)
    for place, value, slope, error in zip(x.tolist(), values.tolist(), slopes.tolist(), errors.tolist(), strict=True):
        total, shifted = weights_at(mixed, place)
        assert abs(value - mp.log(total)) <= error
        assert error <= 60 * UNIT * ((abs(place) + 1) * mixed.inverse + abs(value) + 10 - min(mixed.log_weights))
        assert abs(slope - shifted / total) <= 1e-11 * slope
    assert (np.abs(found.values - values) <= found.errors + errors).all()


@pytest.mark.parametrize("mixed", MIXTURES)
@given(share=st.floats(0.0, 1.0), far=st.sampled_from([1e-9, 1e-3, 1.0, 30.0, 400.0]))
def test_the_place_of_a_loss_has_that_loss(mixed: Mixture, share: float, far: float) -> None:
    least = math.log(mixed.rest) if mixed.rest else -far
    losses = np.array([least + share * far + 1e-9, 0.0, share * far])
    losses = losses[losses > least]
    found, slack = mixed.places(losses), mixed.slack(losses)
    for value, place, room in zip(losses.tolist(), found.tolist(), slack.tolist(), strict=True):
        assert abs(loss(mixed, place) - value) <= room
        assert room <= 3e-14 * (1 + abs(value) + mixed.inverse - min(mixed.log_weights))
        assert room >= 1e-14 * (1 + abs(value) + mixed.inverse - min(mixed.log_weights))


@pytest.mark.parametrize("mixed", MIXTURES)
def test_a_loss_below_every_one_is_nowhere(mixed: Mixture) -> None:
    """Where nothing else is left but the rest, the loss is its logarithm; it is not reached."""
    if mixed.rest:
        least = scalars.log(mixed.rest)
        found = mixed.places(np.array([least - 1.0, least, least + 0.5]))
        assert found[:2].tolist() == [-math.inf, -math.inf]
        assert math.isfinite(found[2])
        assert mixed.places(np.array([least - 2])).tolist() == [-math.inf]
    else:
        found = mixed.places(np.array([-600.0, 0.0]))
        assert np.isfinite(found).all()
        assert found[0] < found[1]


def test_places_are_found_in_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """By Newton's rule from a table of points, and some halving; a slack below every rounding is an error."""
    mixed, calls = MIXTURES[1], []
    whole = Mixture.curve

    def counted(self: Mixture, x: Any) -> Any:
        calls.append(x.size)
        return whole(self, x)

    monkeypatch.setattr(Mixture, "curve", counted)
    mixed.places(np.linspace(-1.3, 20, 50))
    assert calls[0] == mixture_curve._TABLE + 1
    assert len(calls) <= 25
    monkeypatch.setattr(mixture_curve, "SLACK", 1e-19)
    calls.clear()
    with pytest.raises(WorkLimit, match="not found"):
        mixed.places(np.array([1.0]))
    assert len(calls) == 1 + mixture_curve._STEPS
