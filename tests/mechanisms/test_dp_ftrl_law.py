"""The law of a DP-FTRL run: C times what leaves is C times the sums with white noise, and one unit loses no more by its
turns than the parts say; mutants are found."""

from __future__ import annotations

import itertools
import math
from typing import Any

import mpmath
import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

import dpledger as dpl
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.noise import recording
from dpledger.mechanisms.training import DPFTRL
from dpledger.mechanisms.training.factor import column_norm
from training_mutants import EveryGroup, ForgottenNorm

pytestmark = pytest.mark.sliced

SIGNIFICANCE = 1e-9
PLAN: dict[str, Any] = {
    "steps": 10,
    "groups": 4,
    "coefficients": (1, "0.75", "0.5", "0.25"),
    "noise_multiplier": 2,
    "clip_norm": 1,
    "dimension": 2000,
    "expected_batch_size": 3,
}
FACTOR = (1.0, 0.75, 0.5, 0.25)
Floats = npt.NDArray[np.float64]


def dense(factor: Any, steps: int) -> Floats:
    return np.array([[factor[i - j] if 0 <= i - j < len(factor) else 0.0 for j in range(steps)] for i in range(steps)])


def nothing(batch: Any) -> Floats:
    return np.zeros((len(batch), 2000))


def answers_of(kind: type[DPFTRL], seed: int, gradients: Any = nothing, **changes: Any) -> Floats:
    """What leaves, times the expected batch size: float64[steps, dimension]."""
    plan = kind(**{**PLAN, **changes})
    run = plan.open(np.zeros((0, 1)), entropy=seeded(seed))
    return np.array([run.ask(gradients) for _ in run.steps()]) * float(plan.expected_batch_size)


def whitened(kind: type[DPFTRL], seed: int) -> Floats:
    """C times answers to no gradients, over the deviation that the noise should have."""
    sigma = 2 * float(column_norm(DPFTRL(**PLAN).factor)) * float(DPFTRL(**PLAN).sensitivity.value)
    white: Floats = dense(FACTOR, 10) @ answers_of(kind, seed) / sigma
    return white


def least_p_value(white: Floats) -> float:
    """Of the exact laws of 2,000 standard normals in each row: their mean square, and their products with other rows
    (a row's product with an independent one is, given the other, normal). Times how many there are."""
    steps, size = white.shape
    squares = [2 * min(stats.chi2.cdf(s, size), stats.chi2.sf(s, size)) for s in (white * white).sum(axis=1)]
    products = [
        2 * stats.norm.sf(abs(float((white[i] * white[j]).sum())) / math.sqrt(float((white[i] ** 2).sum())))
        for i, j in itertools.combinations(range(steps), 2)
    ]
    return float(min([*squares, *products])) * (len(squares) + len(products))


def test_c_times_what_leaves_is_white_noise() -> None:
    assert least_p_value(whitened(DPFTRL, 11)) > SIGNIFICANCE


def test_the_same_test_rejects_noise_of_another_size_and_of_another_factor() -> None:
    assert least_p_value(whitened(ForgottenNorm, 12)) < SIGNIFICANCE
    other = answers_of(DPFTRL, 12, coefficients=(1, "0.75", "0.5", "0.05"))
    sigma = math.sqrt(1 + 0.75**2 + 0.5**2 + 0.05**2) * 2 * float(DPFTRL(**PLAN).sensitivity.value)
    assert least_p_value(dense((1.0, 0.75, 0.5, 0.05), 10) @ other / sigma) > SIGNIFICANCE
    assert least_p_value(dense(FACTOR, 10) @ other / sigma) < SIGNIFICANCE


def test_a_forgotten_norm_loses_as_much_as_it_says() -> None:
    """The unit's turn, over the noise that there is: ||c|| times as far apart as claimed."""
    plan = ForgottenNorm(**{**PLAN, "dimension": 1, "steps": 4})
    distance = float(np.linalg.norm(FACTOR)) / float(plan.noise.sigma)
    claimed = dpl.compose(plan.parts()).delta("0.5").upper
    assert profile(distance, 0.5) > 2 * claimed


def test_what_leaves_is_computed_from_c_times_the_sums_with_fresh_noise() -> None:
    """Entry by entry, from the log. Its values are C times the clipped sums, in whole numbers; what leaves is C^-1
    times its outputs."""
    plan = DPFTRL(**{**PLAN, "dimension": 3})
    data = np.random.default_rng(3).normal(size=(30, 3)) / 2
    clipped: list[Floats] = []

    def gradients(batch: Floats) -> Floats:
        grid = float(plan.step_size)
        short = batch * np.minimum(1, 1 / np.maximum(np.linalg.norm(batch, axis=1), 1e-9))[:, None]
        clipped.append(np.rint(short / grid).sum(axis=0))
        return batch

    run = plan.open(data, entropy=seeded(13))
    with recording() as log:
        left = np.array([run.ask(gradients) for _ in run.steps()]) * 3
    noisy = [draw for draw in log if draw.law == plan.noise]
    sums = np.array(clipped[1:])  # the first is the probe
    c = dense(FACTOR, 10)
    assert np.array_equal(np.array([draw.value for draw in noisy]), np.rint(c @ sums * 100))
    assert np.allclose(c @ left, np.array([draw.output for draw in noisy]) * float(plan.noise.grid), rtol=1e-9)
    assert all(draw.sensitivity == plan.sensitivity for draw in noisy)


# ---- what one unit loses --------------------------------------------------------------------------------------------


def profile(distance: float, epsilon: float) -> float:
    """delta at epsilon of N(0, 1) and N(distance, 1), at 40 digits. Balle-Wang 2018, theorem 8."""
    with mpmath.workdps(40):
        a, b = distance / 2 - epsilon / distance, -distance / 2 - epsilon / distance
        return float(mpmath.ncdf(a) - mpmath.exp(epsilon) * mpmath.ncdf(b))


def test_the_parts_are_exactly_what_a_unit_loses_by_its_turns() -> None:
    """In one dimension, one unit with gradient clip_norm in group 0 against none: C times its gradients, over sigma, is
    how far two Gaussians are apart. The parts say as much, but for the grid and the rounding of the norm."""
    plan = DPFTRL(**{**PLAN, "dimension": 1, "steps": 12})
    gradients = np.array([1.0 if step % 4 == 0 else 0.0 for step in range(12)])
    distance = float(np.linalg.norm(dense(FACTOR, 12) @ gradients)) / float(plan.noise.sigma)
    for epsilon in (0.1, 1.0, 3.0):  # delta moves by more than the noise does
        bounds = dpl.compose(plan.parts()).delta(str(epsilon))
        assert profile(distance, epsilon) <= bounds.upper
        assert profile(distance, epsilon) == pytest.approx(bounds.upper, rel=0.02)


def test_a_sampled_turn_is_a_mixture_of_two_gaussians() -> None:
    """At rate q, delta of the exact mixture with and without the unit's block of rows, by quadrature."""
    plan = DPFTRL(**{**PLAN, "dimension": 1, "steps": 4}, rate="0.3")
    mu = float(column_norm(plan.factor)) / float(plan.noise.sigma)
    grid = np.linspace(-15, 15 + mu, 600_001)
    without = stats.norm.pdf(grid)
    with_unit = 0.3 * stats.norm.pdf(grid, mu) + 0.7 * without
    for epsilon in (0.05, 0.3):
        exceeds = [
            float(np.trapezoid(np.maximum(p - math.exp(epsilon) * q, 0), grid))
            for p, q in ((with_unit, without), (without, with_unit))
        ]
        upper = dpl.compose(plan.parts()).delta(str(epsilon)).upper
        assert max(exceeds) <= upper * (1 + 1e-6)
        assert max(exceeds) == pytest.approx(upper, rel=0.01)


@pytest.mark.parametrize("turns", [1, 2])
def test_a_unit_that_is_exchanged_costs_what_is_said_and_more_than_one_that_comes(turns: int) -> None:
    """Gradient 1 in one dataset, -1 in the other, at rate q: what each turn moves is orthogonal to what others do, so
    the pair is that of as many independent numbers, here summed over a grid."""
    plan = DPFTRL(**{**PLAN, "dimension": 1, "steps": 4 * turns}, rate="0.3")
    moved = dense(FACTOR, 4 * turns)[:, :: plan.groups] / float(plan.noise.sigma)
    assert np.allclose(moved.T @ moved, np.diag(np.full(turns, float(np.dot(moved[:, 0], moved[:, 0])))))
    mu = float(np.linalg.norm(moved[:, 0]))
    grid = np.linspace(-8 - mu, 8 + mu, 1601)
    there = (0.3 * stats.norm.pdf(grid, mu) + 0.7 * stats.norm.pdf(grid)) * (grid[1] - grid[0])
    back = there[::-1]  # the mirror image
    for _ in range(turns - 1):
        there, back = np.multiply.outer(there, there).ravel(), np.multiply.outer(back, back).ravel()
    for epsilon in (0.05, 0.3):
        exact = float(np.maximum(there - math.exp(epsilon) * back, 0).sum())
        upper = dpl.compose(plan.parts(), relation="replace_one").delta(str(epsilon)).upper
        assert exact <= upper * (1 + 1e-4)
        assert exact == pytest.approx(upper, rel=0.02)
        assert exact > 1.5 * dpl.compose(plan.parts(), relation="add_remove").delta(str(epsilon)).upper


@pytest.mark.parametrize("kind", [DPFTRL, EveryGroup])
def test_the_auditor_finds_that_groups_take_no_turns(kind: type[DPFTRL]) -> None:
    """One unit, of gradient 1, against nobody. What is looked at is the statistic of somebody who takes it to be in
    every step; the claim is what the parts of a run with noise multiplier 1 lose, certified. Each entry of a run with
    a clip norm of sqrt(dimension) is a run of its own."""
    moved = dense(FACTOR, 8) @ np.ones(8)

    def statistics(data: Any, size: int, rng: np.random.Generator) -> Floats:
        clip = math.isqrt(size - 1) + 1
        plan = kind(
            **{**PLAN, "steps": 8, "dimension": size, "clip_norm": clip, "noise_multiplier": f"{1 / clip + 1e-6:.6f}"}
        )
        run = plan.open(data, entropy=seeded(int(rng.integers(2**62))))
        left = np.array([run.ask(lambda batch: np.ones((len(batch), size))) for _ in range(8)]) * 3
        found: Floats = np.round(moved @ dense(FACTOR, 8) @ left / 8)
        return found

    parts = kind(**{**PLAN, "steps": 8, "noise_multiplier": 1}).parts()
    claim = dpl.ApproxDP(math.ceil(dpl.compose(parts).epsilon("0.01").upper * 100) / 100, "0.01")
    truly = float(np.linalg.norm(moved) / np.linalg.norm(FACTOR))
    assert profile(truly, float(claim.epsilon)) > 0.8  # in every step; of turns it is the claim's 0.01
    result = dpl.audit_mechanism(
        statistics, [1.0], [], claim=claim, trials=3_000, confidence="0.999999", batched=True, seed=5, progress=False
    )
    assert result.verdict == ("violation" if kind is EveryGroup else "not_refuted")


def test_a_replay_sees_a_unit_in_steps_that_its_group_has_not() -> None:
    """It keeps each unit's coins: in steps of other groups, nothing of a unit is passed to the noise. Of two turns in a
    row the second row of C times the sums moves by more than one."""
    data = np.random.default_rng(2).normal(size=(12, 2))
    found = {}
    for kind in (DPFTRL, EveryGroup):
        plan = kind(**{**PLAN, "dimension": 2}).under(dpl.Relation.ADD_REMOVE, dpl.Unit())

        def run(rows: Any, entropy: Any, plan: Any = plan) -> object:
            conversation = plan.open(rows, entropy=entropy)
            return [conversation.ask(lambda batch: batch * 3) for _ in range(4)]

        found[kind] = dpl.audit_replay(run, data, np.delete(data, 4, axis=0), claim=plan.claim(), relation="add_remove")
    assert found[DPFTRL].verdict == "not_refuted"
    assert found[EveryGroup].verdict == "violation"
