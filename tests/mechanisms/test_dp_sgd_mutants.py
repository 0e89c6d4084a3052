"""Each mutant is told from the correct mechanism by what it passes to the noise functions, or by its batches."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

from dpledger.accounting.composition import Repeated
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.noise import Draw, recording
from dpledger.mechanisms.training import DPSGD
from logged_draws import declared, grid_of
from training_mutants import MUTANTS, MutantWorkers

SIGNIFICANCE = 1e-9
PLAN: dict[str, Any] = {
    "rate": 1,  # everyone is in every batch, so that two runs differ by the neighbour alone
    "steps": 2,
    "noise_multiplier": 1,
    "clip_norm": 1,
    "dimension": 3,
    "expected_batch_size": 4,
}

Data = npt.NDArray[np.float64]


def rows(batch: Data) -> Data:
    """The gradient of a unit is its row."""
    return batch


def draws_of(kind: type[DPSGD], data: Any, gradients: Any = rows, **changes: Any) -> list[Draw]:
    """What two steps of a mechanism pass to the noise functions."""
    with recording() as draws:
        run = kind(**{**PLAN, **changes}).open(data, entropy=seeded(1))
        for _ in run.steps():
            run.ask(gradients)
    return draws


def excess(kind: type[DPSGD], data: Any, neighbour: Any) -> float:
    """The largest l2 distance of what is passed for two neighbours, over what was declared: at most 1 where right."""
    worst = 0.0
    for left, right in zip(draws_of(kind, data), draws_of(kind, neighbour), strict=True):
        steps = [int(a) - int(b) for a, b in zip(np.ravel(left.value), np.ravel(right.value), strict=True)]
        distance = math.isqrt(sum((2**20 * step) ** 2 for step in steps)) / 2**20 * float(grid_of(left))
        worst = max(worst, distance / float(declared(left).value))
    return worst


def with_unit(data: Data, unit: list[float]) -> Data:
    return np.concatenate([data, np.array([unit])])


@given(
    data=st.lists(st.lists(st.floats(), min_size=3, max_size=3), min_size=0, max_size=5),
    unit=st.lists(st.floats(), min_size=3, max_size=3),
)
@settings(max_examples=60)
def test_the_correct_mechanism_never_moves_further_than_it_declares(data: list[list[float]], unit: list[float]) -> None:
    before = np.array(data, dtype=np.float64).reshape(len(data), 3)
    assert excess(DPSGD, before, with_unit(before, unit)) <= 1


def test_b1_a_clipped_mean_moves_twice_as_far() -> None:
    """Four units of gradient (C, 0, 0) against the same and one of -100 C: the clipped mean turns over."""
    data = np.array([[1.0, 0, 0]] * 4)
    neighbour = with_unit(data, [-100.0, 0, 0])
    assert excess(MUTANTS["TRN-B1"], data, neighbour) > 1.5
    assert excess(DPSGD, data, neighbour) <= 1


def test_b2_dividing_by_the_batch_shows_in_the_size_of_a_step() -> None:
    """The same noise, another divisor: what comes out is not the noisy sum over the declared batch size."""
    data = np.zeros((8, 3))
    for kind, same in ((DPSGD, True), (MUTANTS["TRN-B2"], False)):
        with recording() as draws:
            mean = kind(**PLAN).open(data, entropy=seeded(2)).ask(rows)
        declared = np.asarray(draws[0].output, dtype=np.float64) * float(grid_of(draws[0])) / 4
        assert np.array_equal(mean, declared) is same


def test_b3_a_partition_repeats_no_unit_in_an_epoch() -> None:
    """Ten batches at rate 1/10: under Poisson a unit is missed by all with probability 0.9^10; in a partition, none."""
    missed = {kind: _never_drawn(kind) for kind in (DPSGD, MUTANTS["TRN-B3"])}
    assert stats.binomtest(missed[DPSGD], 1000, 0.9**10).pvalue > SIGNIFICANCE
    assert stats.binomtest(missed[MUTANTS["TRN-B3"]], 1000, 0.9**10).pvalue < SIGNIFICANCE


def _never_drawn(kind: type[DPSGD]) -> int:
    seen = np.zeros(1000, dtype=bool)

    def gradients(batch: npt.NDArray[np.int64]) -> Data:
        seen[batch] = True
        return np.zeros((len(batch), 1))

    run = kind(**{**PLAN, "rate": "0.1", "steps": 10, "dimension": 1}).open(np.arange(1000), entropy=seeded(3))
    for _ in run.steps():
        run.ask(gradients)
    return int((~seen).sum())


def test_b4_noise_that_is_reused_is_drawn_once() -> None:
    """Two steps, one draw; and the difference of the two outputs has no noise in it."""
    data = np.zeros((4, 3))
    assert len(draws_of(MUTANTS["TRN-B4"], data)) == 1
    assert len(draws_of(DPSGD, data)) == PLAN["steps"]
    run = MUTANTS["TRN-B4"](**PLAN).open(data, entropy=seeded(5))
    assert np.array_equal(run.ask(rows), run.ask(rows))


def test_b5_a_forgotten_step_shows_in_the_parts_that_ran() -> None:
    """The plan of the run that was closed is not the plan that was priced."""
    for kind, honest in ((DPSGD, True), (MUTANTS["TRN-B5"], False)):
        plan = kind(**PLAN)
        run = plan.open(np.zeros((4, 3)), entropy=seeded(6))
        for _ in run.steps():
            run.ask(rows)
        parts = run.close().parts
        assert isinstance(parts, Repeated)
        assert (parts.times == plan.parts().times) is honest
        assert parts.done == PLAN["steps"]


def test_b6_users_clipped_by_the_row_move_as_far_as_they_have_rows() -> None:
    """Users are items of shape (rows, dimension); the correct loop gives one gradient a user."""
    users = [np.array([[1.0, 0, 0]] * 5), np.array([[0, 1.0, 0]])]
    assert excess(MUTANTS["TRN-B6"], users, users[1:]) > 4

    def of_users(batch: list[Data]) -> Data:
        return np.array([user.sum(axis=0) for user in batch]).reshape(len(batch), 3)

    left, right = draws_of(DPSGD, users, of_users), draws_of(DPSGD, users[1:], of_users)
    moved = np.linalg.norm(np.asarray(left[0].value) - np.asarray(right[0].value)) * float(grid_of(left[0]))
    assert moved <= float(declared(left[0]).value)


@pytest.mark.parametrize("size", [1e20, 1e160, 1e300])
def test_b7_a_norm_that_overflows_leaves_a_row_unclipped(size: float) -> None:
    data = np.zeros((2, 3))
    neighbour = with_unit(data, [size, size, 0.0])
    assert excess(MUTANTS["TRN-B7"], data, neighbour) > 1e10
    assert 0.9 < excess(DPSGD, data, neighbour) <= 1


def test_b8_workers_forked_alike_share_their_noise() -> None:
    """The difference of the two halves' first steps is the exact difference of their sums."""
    data = np.array([[0.5, 0, 0]] * 3 + [[0, 0.25, 0]] * 3)
    left, right = (worker.ask(rows) for worker in MutantWorkers(DPSGD(**PLAN), data, seed=8).workers)
    assert np.array_equal(left - right, np.array([1.5, -0.75, 0]) / 4)


def test_b9_twice_the_rate_is_seen_in_the_batch_sizes() -> None:
    for kind, right in ((DPSGD, True), (MUTANTS["TRN-B9"], False)):
        sizes: list[int] = []

        def gradients(batch: npt.NDArray[np.int64], sizes: list[int] = sizes) -> Data:
            sizes.append(len(batch))
            return np.zeros((len(batch), 1))

        plan = kind(**{**PLAN, "rate": "0.1", "steps": 20, "dimension": 1})
        run = plan.open(np.arange(1000), entropy=seeded(9))
        for _ in run.steps():
            run.ask(gradients)
        drawn = sum(sizes[1:])  # the first call is the probe, with nobody
        assert bool(stats.binomtest(drawn, 20 * 1000, 0.1).pvalue > SIGNIFICANCE) is right
