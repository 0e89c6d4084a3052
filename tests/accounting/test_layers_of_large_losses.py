"""Layers of large losses: what they are cut into adds up to the list, and nothing but what is said is lost."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dpledger.accounting.engine import large_loss_layers
from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.engine.large_loss_layers import Layered, has_large_losses, layered
from dpledger.accounting.families.gaussian.jumping_runs import JumpingRuns
from dpledger.accounting.families.gaussian.loss import GaussianLoss
from dpledger.accounting.families.gaussian.sampled import SampledGaussianLoss
from dpledger.accounting.laws.law import Loss
from dpledger.errors import WorkLimit

SAMPLED = SampledGaussianLoss(0.0004925, 1.4052, "remove"), 956
WIDE = SampledGaussianLoss(0.003566, 2.4686, "remove"), 1480
FEW = SampledGaussianLoss(0.003566, 2.4686, "remove"), 3
OTHERS: tuple[tuple[Loss, int], ...] = ((GaussianLoss(0.02), 3), (GaussianLoss(0.001), 7))
LISTS: dict[str, tuple[tuple[tuple[Loss, int], ...], float]] = {
    "one law": ((SAMPLED,), 1e-100),
    "beside others": ((SAMPLED, *OTHERS), 1e-100),
    "two jumps": ((WIDE,), 1e-120),
    "two jumps beside others": ((WIDE, *OTHERS), 1e-120),
    "few runs": ((FEW, *OTHERS), 1e-60),
}
STEEPNESS = (1.0, 0.3)


def made(name: str, steepness: float) -> tuple[Composed, Layered, np.ndarray]:
    parts, delta = LISTS[name]
    found = layered(Composed(parts), delta, steepness)
    return Composed(parts), found, found.terms[0][1].c


def log_sum(rows: list[np.ndarray]) -> np.ndarray:
    found: np.ndarray = np.logaddexp.reduce(rows)
    return found


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("steepness", STEEPNESS)
def test_the_moments_of_the_terms_add_up_to_those_of_the_list(name: str, steepness: float) -> None:
    """At tilts that do not see the last cut. What more jumps add is hardly anything, and the sum never falls short."""
    composed, found, c = made(name, steepness)
    seen = c <= c[-1] / 20
    assert np.count_nonzero(seen) > 10
    exact = composed.log_moments(c[seen])
    terms = log_sum([chernoff.log_moments[seen] for _, chernoff in found.terms])
    whole = log_sum([terms, *(chernoff.log_moments[seen] for chernoff in found.beyond)])
    assert (whole >= exact - 1e-9 * (1 + np.abs(exact))).all()
    assert (whole <= exact + 1e-9 * (1 + np.abs(exact))).all()
    assert (terms >= exact - 1e-9 * (1 + np.abs(exact))).all()


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("steepness", STEEPNESS)
def test_each_term_has_the_bounds_of_its_own_moments(name: str, steepness: float) -> None:
    """The loss of a term is one of jumps, beside all other losses: its bounds are those of both."""
    _, found, c = made(name, steepness)
    for term, chernoff in found.terms:
        assert np.array_equal(chernoff.c, c)
        assert np.allclose(chernoff.log_moments, term.log_moments(c), rtol=1e-11, atol=1e-9)
        assert (chernoff.log_bounds <= chernoff.log_moments + 1e-12 * np.abs(chernoff.log_moments)).all()
    assert (np.diff(c) > 0).all()


@pytest.mark.parametrize(
    ("alone", "together"), [("one law", "beside others"), ("two jumps", "two jumps beside others")]
)
def test_what_is_beyond_all_jumps_runs_beside_the_others_too(alone: str, together: str) -> None:
    """Cuts are those of the large losses alone, so that the bounds differ by the transform of the others."""
    _, without, c = made(alone, 1.0)
    _, beside, same = made(together, 1.0)
    assert np.array_equal(c, same)
    assert without.lost == beside.lost
    added = Composed(OTHERS).log_moments(c)
    assert len(without.beyond) >= 1
    assert len(without.beyond) == len(beside.beyond)
    for one, other in zip(without.beyond, beside.beyond, strict=True):
        assert np.allclose(other.log_moments - added, one.log_moments, rtol=1e-9, atol=1e-6)
    first = beside.terms[0][1].log_moments - added
    assert np.allclose(first, without.terms[0][1].log_moments, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", LISTS)
def test_little_is_lost_and_as_much_as_is_said(name: str) -> None:
    """A hundred-millionth of delta in all, for every run what lies beyond the last cut."""
    parts, delta = LISTS[name]
    found = layered(Composed(parts), delta, 1.0)
    assert 0 <= found.lost <= 1.01e-8 * delta
    assert found.lost > 1e-11 * delta


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("steepness", STEEPNESS)
def test_levels_rise_from_a_jump_in_two_to_where_nothing_is_left(name: str, steepness: float) -> None:
    parts, delta = LISTS[name]
    runs = [(loss.rare, count) for loss, count in parts if loss.rare is not None]
    levels, tilt = large_loss_layers._levels(runs, delta, steepness)
    rare, count = runs[0]
    assert (np.diff(levels) > 0).all()
    assert 2 <= levels.size <= large_loss_layers.MOST_LAYERS + 1
    assert levels[-1] == pytest.approx(rare.loss_beyond(large_loss_layers.LOST * delta / count), rel=1e-9)
    assert levels[0] >= rare.loss_beyond(large_loss_layers.MOST_EXPECTED / count) * (1 - 1e-9)
    assert tilt >= 1.5 * -math.log(delta) / rare.loss_beyond(delta / count) * (1 - 1e-9)
    point = rare.loss_beyond(delta / count)
    near = rare.log_density(np.array([point * (1 - 1e-4), point * (1 + 1e-4)]))
    falls = float(near[0] - near[1]) / (2e-4 * point)
    assert tilt >= 0.98 * 2.5 * 2 * max(falls, 1.0)
    assert tilt <= max(1.02 * 2.5 * 2 * max(falls, 1.0), 1.5001 * -math.log(delta) / point)
    fewer, _ = large_loss_layers._levels(runs, delta, 2 * steepness)
    assert fewer[0] <= levels[0] * (1 + 1e-9)


def test_where_a_jump_is_no_rarer_than_delta_there_is_one_scale_only() -> None:
    with pytest.raises(WorkLimit, match="one scale only"):
        layered(Composed((SAMPLED,)), 0.9, 1.0)


def test_only_losses_that_are_cut_can_be_told_apart_and_not_too_many() -> None:
    sampled = [SampledGaussianLoss(float(Fraction(k, 10**6)), 1.5, "remove") for k in range(1, 131)]
    assert has_large_losses(Composed(tuple((loss, 2) for loss in sampled[:128])))
    assert not has_large_losses(Composed(tuple((loss, 2) for loss in sampled[:129])))
    assert not has_large_losses(Composed(OTHERS))
    assert has_large_losses(Composed((*OTHERS, (sampled[0], 1))))


@pytest.mark.parametrize("name", LISTS)
def test_more_jumps_than_are_likely_are_bounded_by_all_runs(name: str) -> None:
    """Where more jumps are to be expected than a term holds, those beyond it are at most all: A + b, run by run."""
    _, found, c = made(name, 1.0)
    compared = 0
    for term, _ in found.terms:
        for loss in (loss for loss, _ in term.parts if isinstance(loss, JumpingRuns)):
            expected = loss.log_expected(c)
            sums = [
                runs.count * np.logaddexp(runs.within.log_moments(c), runs.jump.log_moments(c)) for runs in loss.groups
            ]
            many = np.isfinite(np.sum(sums, axis=0)) & (expected > math.log(loss.most + 1))
            exact, size = np.sum(sums, axis=0)[many], np.sum(np.abs(sums), axis=0)[many]
            beyond = loss.log_moments_beyond(c)[many]
            assert np.all(exact <= beyond)
            assert np.all(beyond <= exact + 1e-8 * (1 + size))
            compared += int(many.sum())
    assert compared or name == "few runs"
