"""Bounded ranges run many times: beside conversations that are counted exactly, on lattices of their own."""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest

from dpledger.accounting.composition import Repeated, Sequence
from dpledger.accounting.families.bounded_range import repeated
from dpledger.accounting.families.bounded_range.lattice import RangeLattice, RangeTable, after, smoothed
from dpledger.accounting.families.bounded_range.repeated import attained_by_runs
from dpledger.accounting.guarantees import BoundedRange
from dpledger.accounting.laws.finite import FiniteLoss
from dpledger.accounting.profile import compose
from range_conversations import attained

pytestmark = pytest.mark.sliced

Numbers = npt.NDArray[np.float64]


@cache
def attained_by_equal(eta: float, runs: int, cells: int) -> Numbers:
    return attained(eta / cells, [cells] * runs)


def delta_of(loss: FiniteLoss, epsilon: float) -> float:
    lost = loss.losses[loss.losses > epsilon]
    return float(np.sum(loss.masses[loss.losses > epsilon] * -np.expm1(epsilon - lost)))


@pytest.mark.parametrize(("eta", "runs"), [(0.1, 100), (1.0, 64), (1.0, 200), (4.0, 80), (7.5, 70)])
def test_what_is_attained_is_not_above_the_upper_bound(eta: float, runs: int) -> None:
    exact = attained_by_equal(eta, runs, 20)
    bounds = compose(Repeated(BoundedRange(str(eta)), times=runs))
    for wanted in (0.1, 1e-3, 1e-6):
        at = int(np.argmax(exact < wanted))
        upper = bounds.delta(eta / 20 * at).upper
        assert exact[at] <= upper
        assert upper <= exact[at] * 1.5  # 20 positions are not all


@pytest.mark.parametrize(("eta", "runs"), [(0.05, 10), (1.0, 3), (1.0, 64), (7.5, 24)])
def test_below_is_what_a_finer_lattice_attains(eta: float, runs: int) -> None:
    """At its own points and between them: a lattice thrice as fine has the same positions, and more."""
    ((loss, _),) = attained_by_runs(((eta, runs),), (1.0,), 1.0)
    assert isinstance(loss, FiniteLoss)
    lattice = repeated.Lattices(((eta, runs),), repeated._ALONE).of(eta)
    exact = attained_by_equal(eta, runs, 3 * lattice.cells)
    usual = np.flatnonzero(exact > 1e-30)
    for at in usual[:: max(1, usual.size // 97)].tolist():
        assert delta_of(loss, lattice.step / 3 * at) <= exact[at] * (1 + 1e-11)


@pytest.mark.parametrize(
    ("eta", "runs", "width"),
    [(0.05, 1000, 1e-3), (0.5, 10, 1e-3), (1.0, 64, 1e-3), (1.0, 1000, 1e-3), (2.0, 2, 1e-3), (2.0, 300, 1e-3),
     (4.0, 100, 1e-3), (8.0, 24, 1e-3), (8.0, 1000, 2e-3)],
)  # fmt: skip
@pytest.mark.parametrize("delta", ["1e-3", "1e-6", "1e-10"])
def test_the_ends_are_close(eta: float, runs: int, width: float, delta: str) -> None:
    at = compose(Repeated(BoundedRange(str(eta)), times=runs)).epsilon(delta)
    assert at.lower < at.upper <= at.lower * (1 + (width if delta == "1e-6" else 3 * width))


# ---- a loss of few values in place of a run -------------------------------------------------------------------------


def linear(step: float, values: Numbers, epsilons: Numbers) -> Numbers:
    """delta at these epsilons: linear in e^epsilon between the points, mirrored below 0."""
    above = np.abs(epsilons)
    grid = np.exp(step * np.arange(values.size))
    found = np.interp(np.exp(above), grid, values, right=0.0)
    return np.where(epsilons >= 0, found, -np.expm1(epsilons) + np.exp(epsilons) * found)


def largest_excess(eta: float, weights: repeated._Weights, step: float, values: Numbers) -> float:
    """By how much a run at any of many positions is above the loss of these weights, relative to what it adds."""
    generator = np.random.default_rng(5)
    epsilons = generator.uniform(0, step * (values.size - 1) * 0.7, 400)
    epsilons = epsilons[linear(step, values, epsilons) < 0.9]
    t = np.linspace(0, eta, 803)
    likely = np.expm1(t - eta) / math.expm1(-eta)
    before = linear(step, values, epsilons)
    instead = weights.none * before
    for weight, far in ((weights.most, 0.625 * eta), (weights.whole, eta)):
        share = 1 / (1 + math.exp(-far))
        instead += weight * share * linear(step, values, epsilons - far)
        instead += weight * (1 - share) * linear(step, values, epsilons + far)
    worst = np.max(
        [p * linear(step, values, epsilons - x) + (1 - p) * linear(step, values, epsilons - x + eta)
         for x, p in zip(t, likely, strict=True)],
        axis=0,
    )  # fmt: skip
    return float(np.max((worst - instead) / (worst - before)))


def above(lattice: RangeLattice, runs: int) -> Numbers:
    values: Numbers = np.zeros(1)
    for _ in range(runs):
        values = after(lattice, values, RangeTable())
    return values


@pytest.mark.parametrize("eta", [0.1, 1.0, 5.0])
def test_a_loss_of_few_values_is_above_a_run_at_every_position(eta: float) -> None:
    lattice = RangeLattice(eta, 40)
    finer, values = smoothed(lattice, above(lattice, 24))
    found = repeated._dominating(finer, values, RangeTable(), 1.6 / eta, 1e-250)
    assert found is not None
    weights, _ = found
    assert largest_excess(eta, weights, finer.step, values) <= 1e-9
    less = repeated._Weights(
        weights.none + 0.02 * (weights.most + weights.whole), 0.98 * weights.most, 0.98 * weights.whole
    )
    assert largest_excess(eta, less, finer.step, values) > 1e-3


def test_a_smoothed_profile_is_above_it() -> None:
    lattice = RangeLattice(1.0, 16)
    values = above(lattice, 6)
    finer, smooth = smoothed(lattice, values)
    epsilons: Numbers = finer.step * np.arange(smooth.size, dtype=np.float64)
    assert np.all(linear(lattice.step, values, epsilons) <= smooth)
    assert np.all(smooth[:60] <= linear(lattice.step, values, epsilons[:60]) * 1.01)


# ---- several ranges -------------------------------------------------------------------------------------------------


def test_the_order_of_different_ranges_matters_and_none_is_above_the_upper_bound() -> None:
    step = 0.2 / 12
    exact = {order: attained(step, order) for order in itertools.permutations((12, 24, 36, 48))}
    bounds = compose(Sequence(tuple(BoundedRange(x) for x in ("0.2", "0.4", "0.6", "0.8"))))
    for at in (20, 45, 70):
        found = [float(values[at]) for values in exact.values()]
        assert max(found) <= bounds.delta(step * at).upper
    found = [float(values[45]) for values in exact.values()]
    assert max(found) > 1.1 * min(found)


def test_among_others_they_are_still_read_from_above() -> None:
    exact = attained_by_equal(0.4, 60, 20)
    tree = Sequence((Repeated(BoundedRange("0.4"), times=60), Repeated(BoundedRange("0.0001"), times=2)))
    at = int(np.argmax(exact < 1e-6))
    assert exact[at] <= compose(tree).delta(0.02 * at).upper <= exact[at] * 1.2


def test_losses_in_the_thousands_stay_within_the_floats() -> None:
    """Of a mass below the normal floats the other side's is not to be had: it is left out, and not infinite."""
    with np.errstate(all="raise", under="ignore"):
        found = compose(Repeated(BoundedRange("8"), times=1000)).delta(1)
    assert 0.999 < found.lower <= found.upper <= 1


@pytest.mark.parametrize("eta", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("seen", [1e-1, 1e-3, 1e-30])
def test_what_rare_values_miss_is_added(eta: float, seen: float) -> None:
    """Where little is left the weights need not do: what a run is above them there is known, and no more than that."""
    lattice = RangeLattice(eta, 40)
    finer, values = smoothed(lattice, above(lattice, 24))
    found = repeated._dominating(finer, values, RangeTable(), 1.6 / eta, seen)
    assert found is not None
    weights, beyond = found
    worst, still = after(finer, values, RangeTable()), np.append(values, np.zeros(finer.cells))
    instead = repeated._composed(finer, values, weights)
    missing = (worst - instead)[still < seen]
    assert np.all(worst <= (instead + beyond) * (1 + 1e-11))
    assert beyond <= max(0.0, float(missing.max())) + 1e-11 * seen
