"""What single runs and single parts say of delta, where nothing else does: against exact sums over finite pairs."""

from __future__ import annotations

import itertools
import math
import random
from decimal import Context, Decimal, localcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf

import dpledger as dpl
from dpledger.accounting.engine import dispatch, lattice
from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.engine.infinite_mass import with_mass
from dpledger.accounting.laws.intervals import Interval
from dpledger.accounting.laws.law import Direction

Masses = list[Decimal]


def masses(rng: random.Random, size: int, *, zeros: bool) -> Masses:
    with localcontext(Context(prec=60)):
        most = Decimal(1) / size
        found = [
            Decimal(0) if zeros and rng.random() < 0.3 else (Decimal(rng.random()).quantize(Decimal("1e-9")) * most)
            for _ in range(size - 1)
        ]
        found = [mass.quantize(Decimal("1e-12")) for mass in found]
        return [*found, 1 - sum(found, Decimal(0))]


def exact_delta(pairs: list[tuple[Masses, Masses]], epsilon: float) -> mpf:
    """By Neyman and Pearson over all outcomes of all runs."""
    with mp.workdps(50):
        y, total = mp.exp(mpf(epsilon)), mpf(0)
        for outcome in itertools.product(*(list(zip(p, q, strict=True)) for p, q in pairs)):
            p = mp.fprod(mpf(str(one)) for one, _ in outcome)
            q = mp.fprod(mpf(str(other)) for _, other in outcome)
            total += max(mpf(0), p - y * q)
        return total


@pytest.mark.parametrize("seed", range(25))
def test_runs_and_parts_alone_hold_the_exact_delta(seed: int) -> None:
    rng = random.Random(seed)
    zeros = seed % 3 == 0
    drawn = [(masses(rng, size, zeros=zeros), masses(rng, size, zeros=zeros)) for size in (2, 3, rng.choice((2, 3)))]
    counts = [rng.randint(1, 2) for _ in drawn]
    runs = [pair for pair, count in zip(drawn, counts, strict=True) for _ in range(count)]
    laws = [(dpl.PmfPair(left=tuple(p), right=tuple(q)), n) for (p, q), n in zip(drawn, counts, strict=True)]
    (case,) = dpl.compose(*laws, direction="remove").cases
    composed = Composed(case.losses)
    if composed.log_finite == -math.inf:
        return
    for epsilon in (0.0, 1e-3, 0.2, 1.0, 3.0, 9.0):
        exact = exact_delta(runs, epsilon)
        for ask in (dispatch._delta_of_runs, dispatch._delta_of_parts):
            finite = ask(composed, epsilon, Interval(0.0, 1.0))
            lower, upper = with_mass(np.array(finite.lower), np.array(finite.upper), composed.log_finite)
            assert float(lower) <= exact * (1 + mpf("1e-15")), (ask, epsilon)
            assert exact * (1 - mpf("1e-15")) <= float(upper), (ask, epsilon)


@pytest.mark.parametrize(
    ("noise", "rate", "count"), [("0.1", "1e-3", 100), ("0.1", "1e-4", 100), ("0.05", "1e-7", 9000)]
)
def test_hardly_any_noise_shows_a_unit_whenever_it_is_drawn(noise: str, rate: str, count: int) -> None:
    """And no more: delta is the chance that it is drawn at all, 1 - (1 - q)^T, nearly."""
    training = (dpl.PoissonSampled(dpl.GaussianLaw(noise), rate=rate), count)
    chance = -math.expm1(count * math.log1p(-float(rate)))
    directions: tuple[Direction | None, ...] = None, "remove"
    for direction in directions:
        profile = dpl.compose(training, direction=direction)
        for found in (profile.delta(0), profile.advantage(), profile.deltas(["0", "1"])[0], profile.delta("0.01")):
            assert chance * 0.9999 <= found.lower <= found.upper <= chance * 1.001
    assert dpl.compose(training, direction="add").delta(0).upper <= chance * 1.001


def sampled_laplace(epsilon: float, rate: float) -> float:
    """Of a noise of 1 and a sensitivity of 1, direction remove: Balle, Barthe and Gaboardi 2018, Theorem 2."""
    return rate * -math.expm1((math.log1p(math.expm1(epsilon) / rate) - 1) / 2)


@pytest.mark.parametrize("epsilon", ["0.00002", "0.005", "0.1"])
def test_a_part_that_shows_next_to_nothing_changes_next_to_nothing(epsilon: str) -> None:
    pair = dpl.PoissonSampled(dpl.LaplaceLaw("1"), rate="0.1"), dpl.PureDP("0.00001")
    found = dpl.compose(*pair, direction="remove").delta(epsilon)
    at = float(epsilon)
    assert sampled_laplace(at, 0.1) * (1 - 1e-9) <= found.upper
    assert found.lower <= sampled_laplace(max(0.0, at - 1e-5), 0.1) * (1 + 1e-9)
    assert found.upper - found.lower <= 2e-3 * found.upper


def test_one_run_more_is_no_cliff() -> None:
    """From 64 runs on a sampled Laplace is asked of a lattice as well."""
    step = dpl.PoissonSampled(dpl.LaplaceLaw("1"), rate="0.0001")
    found = [dpl.compose((step, count), direction="remove").delta(0) for count in (63, 64, 65)]
    for fewer, more in itertools.pairwise(found):
        assert fewer.lower <= more.upper
        assert more.upper <= 1.02 * fewer.upper
    assert all(at.upper - at.lower <= 1e-3 * at.upper for at in found)


@pytest.mark.parametrize("delta", ["4.1237e-9", "1e-8", "5e-8"])
def test_what_epsilon_knows_delta_knows(delta: str) -> None:
    """A delta at the epsilon that was found for it is not far above it, where no method for delta is sharp."""
    training = dpl.PoissonSampled(dpl.GaussianLaw("0.251375"), rate="2.68416e-12"), 58711
    profile = dpl.compose(training, direction="add")
    spent = profile.epsilon(delta)
    assert profile.delta(spent.upper).upper <= 1.07 * float(delta)
    if spent.lower:
        assert profile.delta(spent.lower).upper >= float(delta) * (1 - 1e-12)
        assert profile.delta(math.nextafter(spent.lower * 0.99, 0)).lower <= 1.2 * float(delta)


def test_an_advantage_is_no_delta_at_which_epsilon_is_0() -> None:
    """delta(0) = 0.006 or less, as epsilon is 0 there."""
    profile = dpl.compose((dpl.PoissonSampled(dpl.GaussianLaw("0.3"), rate="1e-4"), 100))
    assert profile.epsilon("0.006").upper == 0
    assert 0.0055 <= profile.advantage().lower <= profile.advantage().upper <= 0.0063


def test_a_lattice_whose_upper_sums_overflow_says_1() -> None:
    """Two sums that are infinite, or the first of them, are no difference of infinities."""
    mesh = SimpleNamespace(unit=0.5, width=1, spacing=0.5)
    for uppers in ([math.inf, math.inf], [math.inf, 0.25]):
        sums: Any = SimpleNamespace(
            mesh=mesh,
            start=0,
            positions=lambda numbers: 0.5 * numbers,
            uppers=lambda numbers, uppers=uppers: np.array([uppers[int(number)] for number in numbers]),
        )
        (found,) = lattice._deltas_above(sums, np.array([0.2])).tolist()
        assert 0.25 < found <= 1 + 1e-12
