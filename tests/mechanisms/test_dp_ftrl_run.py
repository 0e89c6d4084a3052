"""A DP-FTRL run: its parameters, whose turn it is, its steps and its end."""

from __future__ import annotations

import dataclasses
import math
import threading
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st

from dpledger.accounting.composition import GaussianLaw, PoissonSampled, Repeated
from dpledger.errors import ContractViolation, Halted, ParameterError, RelationError
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.noise import recording
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.training import DPFTRL, DPSGD, StepsTaken
from dpledger.mechanisms.training.factor import banded_factor
from dpledger.mechanisms.training.ftrl_run import mixed
from dpledger.mechanisms.units import ByUnit
from dpledger.relations import Relation, Unit
from mechanism_conformance import MechanismConformance

PLAN: dict[str, Any] = {
    "steps": 7,
    "groups": 3,
    "noise_multiplier": 1,
    "clip_norm": 1,
    "dimension": 2,
    "expected_batch_size": 4,
}


def each(field: str, *values: object) -> list[dict[str, object]]:
    """One change of the parameters for each value."""
    return [{field: value} for value in values]


BAD: tuple[dict[str, object], ...] = (
    *each("rate", 0, -1, 1.1, "nan", float("inf"), None),
    *each("steps", 0, -1, 1.5, True, 10**13),
    *each("groups", 0, -1, 1.5, True, 2**32),
    *each("noise_multiplier", 0, -1, "nan", float("inf"), "1e-13", None),
    *each("clip_norm", 0, -1, "nan", float("inf"), "1e-40"),
    *each("dimension", 0, -1, 2.5, True, 2**32),
    *each("expected_batch_size", 0, -1, "nan", float("inf")),
    *each("grid", 0, -1, 0.3, 1, "nan"),
    *each("coefficients", (2,), (1, "0.5", "0.6"), (1, 0), (1, -1), (1, "0.1234567"), (1, 1, 1, 1), ("0.5", "0.5"), 1),
    {"steps": 50_001, "coefficients": ()},
)

Data = npt.NDArray[np.float64]


def rows(batch: Any) -> Any:
    """The gradient of a unit is its row."""
    return batch


class TestConformance(MechanismConformance):
    relations: ClassVar[tuple[Relation, ...]] = (Relation.ADD_REMOVE, Relation.ZERO_OUT, Relation.REPLACE_ONE)
    good_data: ClassVar[object] = np.ones((5, 2))
    bad_data = (np.full((3, 2), np.nan), np.full((3, 2), 1e308), np.zeros((0, 2)), np.full((2, 2), -np.inf))
    bad_parameters = BAD

    def make(self, **changes: Any) -> Any:
        return DPFTRL(**{**PLAN, **changes})

    def run(self, mechanism: Any, data: Any, seed: int) -> Release[Any]:
        """The release, with the means of the steps in place of its value."""
        run = mechanism.open(data, entropy=seeded(seed))
        means = [run.ask(rows) for _ in run.steps()]
        return dataclasses.replace(run.close(), value=np.array(means))


class TestSampledConformance(TestConformance):
    def make(self, **changes: Any) -> Any:
        return DPFTRL(**{**PLAN, "rate": "0.5", "coefficients": (1, "0.5"), **changes})


# ---- parameters and parts -------------------------------------------------------------------------------------------

SIZES = st.decimals("0.000001", "1000000", places=6)


@given(noise=SIZES, clip=SIZES, dimension=st.integers(1, 10**6), tail=st.integers(1, 10**6))
def test_sigma_covers_the_norm_and_the_rounding_exactly(
    noise: Decimal, clip: Decimal, dimension: int, tail: int
) -> None:
    """sigma >= z ||c|| (C + g sqrt(d) / 2), in squares to stay rational: sigma^2 / (z^2 ||c||^2) = D^2, D >= C, and
    (D - C)^2 >= g^2 d / 4 by (D^2 + C^2 - g^2 d / 4)^2 >= 4 C^2 D^2 where the left side is not negative."""
    second = Fraction(tail, 10**6)
    plan = DPFTRL(
        **{**PLAN, "noise_multiplier": noise, "clip_norm": clip, "dimension": dimension},
        coefficients=(1, str(Decimal(tail).scaleb(-6))),
    )
    reach = Fraction(plan.noise.sigma) ** 2 / (Fraction(noise) ** 2 * (1 + second**2))
    rounding = Fraction(plan.step_size) ** 2 * dimension / 4
    assert reach >= Fraction(clip) ** 2
    assert (reach + Fraction(clip) ** 2 - rounding) ** 2 >= 4 * Fraction(clip) ** 2 * reach
    ideal = float(noise) * float(clip) * math.sqrt(1 + float(second) ** 2)
    assert float(plan.noise.sigma) <= 1.01 * ideal


def test_its_parts_are_a_gaussian_for_each_turn() -> None:
    assert DPFTRL(**PLAN).parts() == Repeated(GaussianLaw(1), times=3)
    assert DPFTRL(**{**PLAN, "steps": 6}).parts() == Repeated(GaussianLaw(1), times=2)
    assert DPFTRL(**PLAN, rate="0.5").parts() == Repeated(PoissonSampled(GaussianLaw(1), rate="0.5"), times=3)


def test_one_group_is_dp_sgd() -> None:
    """The same parts, and from the same entropy the same answers."""
    plan = {**PLAN, "rate": "0.5", "dimension": 3, "groups": 1}
    ours = DPFTRL(**plan)
    theirs = DPSGD(**{name: value for name, value in plan.items() if name != "groups"})
    assert ours.parts() == theirs.parts()
    assert ours.noise == theirs.noise
    data = np.linspace(-1, 1, 30).reshape(10, 3)
    answers = []
    for mechanism in (ours, theirs):
        run: Any = mechanism.open(data, entropy=seeded(4))
        answers.append([run.ask(rows) for _ in run.steps()])
    assert np.allclose(answers[0], answers[1], rtol=1e-12)


def test_replacing_a_unit_is_charged_twice_the_move() -> None:
    replaced = DPFTRL(**PLAN).under(Relation.REPLACE_ONE, Unit())
    added = DPFTRL(**PLAN).under(Relation.ADD_REMOVE, Unit())
    assert replaced.claim().epsilons[0] == 4 * added.claim().epsilons[0]
    for rate in ("0.5", 1):
        with pytest.raises(RelationError, match="label_flip"):
            DPFTRL(**PLAN, rate=rate).under(Relation.LABEL_FLIP, Unit())


def test_the_factor_is_fixed_with_the_relation_and_recorded() -> None:
    plan = DPFTRL(**PLAN)
    fixed = plan.under(Relation.ADD_REMOVE, Unit())
    assert fixed.coefficients == banded_factor(7, 3)
    assert plan.parameters()["coefficients"] == [str(one) for one in banded_factor(7, 3)]


# ---- whose turn it is -----------------------------------------------------------------------------------------------


def batches_of(run: Any, dimension: int = 2) -> list[list[int]]:
    """Who is in each batch, of data that are their own positions."""
    seen: list[list[int]] = []

    def gradients(batch: npt.NDArray[np.int64]) -> Data:
        seen.append(batch.tolist())
        return np.zeros((len(batch), dimension))

    for _ in run.steps():
        run.ask(gradients)
    return seen[1:]  # the first is the probe


@pytest.mark.parametrize("rate", [1, "0.4"])
def test_nobody_is_in_steps_that_are_closer_than_the_groups(rate: Any) -> None:
    plan = DPFTRL(**{**PLAN, "steps": 13, "groups": 4}, rate=rate)
    batches = batches_of(plan.open(np.arange(300), entropy=seeded(5)))
    steps = {unit: [t for t, batch in enumerate(batches) if unit in batch] for unit in range(300)}
    assert all(len({t % 4 for t in taken}) <= 1 and len(taken) <= plan.turns for taken in steps.values())
    if rate == 1:
        assert batches[0] == batches[4] == batches[12]
        assert sorted(unit for batch in batches[:4] for unit in batch) == list(range(300))
    else:
        assert batches[0] != batches[4]


def test_the_group_of_a_unit_is_a_coin_of_its_own() -> None:
    """Groups are as large as coins make them."""
    plan = DPFTRL(**{**PLAN, "steps": 3})
    batches = batches_of(plan.open(np.arange(30_000), entropy=seeded(6)))
    assert all(abs(len(batch) - 10_000) < 7 * math.sqrt(30_000 * 2 / 9) for batch in batches)


def test_all_rows_of_a_unit_take_part_together() -> None:
    plan = DPFTRL(**PLAN).under(Relation.ADD_REMOVE, Unit("person", max_contributions=9))
    data = ByUnit(np.arange(90), units=np.arange(90) % 10)
    with pytest.raises(ParameterError, match="private_ftrl"):
        plan.inspect(np.arange(90))
    seen: Counter[int] = Counter()

    def gradients(people: Any) -> Data:
        seen.update(int(person[0]) for person in people)
        assert all((person % 10 == person[0] % 10).all() and len(person) == 9 for person in people)
        return np.zeros((len(people), 2))

    run = plan.open(data, entropy=seeded(7))
    for _ in run.steps():
        run.ask(gradients)
    assert set(seen) == set(range(10))
    assert set(seen.values()) <= {2, 3}


# ---- steps ----------------------------------------------------------------------------------------------------------


def test_with_next_to_no_noise_a_step_is_the_sum_of_its_batch() -> None:
    """Whatever the factor is: it takes off what it put in."""
    plan = DPFTRL(**{**PLAN, "noise_multiplier": "0.000001", "grid": "0.0000152587890625"})
    data = np.random.default_rng(1).normal(size=(40, 2)) / 9
    run = plan.open(data, entropy=seeded(8))
    taken: list[Data] = []

    def gradients(batch: Data) -> Data:
        taken.append(batch)
        return batch

    for _ in run.steps():
        mean = run.ask(gradients)
        assert mean == pytest.approx(taken[-1].sum(axis=0) / 4, abs=1e-3)


def test_a_run_stopped_early_is_charged_whole() -> None:
    plan = DPFTRL(**PLAN)
    run = plan.open(np.ones((5, 2)), entropy=seeded(1))
    run.ask(rows)
    assert not run.halted
    release = run.close()
    assert run.halted
    assert release.value == StepsTaken(done=1, planned=7)
    assert release.parts == plan.parts()


def test_after_the_last_step_it_halts() -> None:
    run = DPFTRL(**PLAN).open(np.ones((5, 2)), entropy=seeded(1))
    for _ in run.steps():
        run.ask(rows)
    assert run.halted
    assert list(run.steps()) == []
    with pytest.raises(Halted, match="7 of 7"):
        run.ask(rows)


def test_a_step_that_was_interrupted_counts_as_one_without_gradients() -> None:
    """The next steps go on, unbiased: what was to be taken off for it was never put in."""
    plan = DPFTRL(**{**PLAN, "noise_multiplier": "0.000001", "grid": "0.0000152587890625"})
    data = np.full((9, 2), 0.01)
    run = plan.open(data, entropy=seeded(9))
    sizes = [round(float(run.ask(rows)[0] * 400)) for _ in range(2)]

    def interrupted(batch: Data) -> Data:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.ask(interrupted)
    left = [round(float(run.ask(rows)[0] * 400)) for _ in range(4)]
    assert left[:2] == sizes
    assert sum(sizes) + left[2] == 9


def test_threads_take_turns_and_a_step_inside_a_step_breaks_the_contract() -> None:
    run = DPFTRL(**{**PLAN, "steps": 40}).open(np.full((30, 2), 0.1), entropy=seeded(2))
    inside: list[int] = []

    def gradients(batch: Data) -> Data:
        inside.append(1)
        assert len(inside) == 1
        inside.pop()
        return batch

    threads = [threading.Thread(target=lambda: [run.ask(gradients) for _ in range(10)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert run.halted
    other = DPFTRL(**PLAN).open(np.ones((5, 2)), entropy=seeded(1))
    other.ask(rows)
    with pytest.raises(ContractViolation):
        other.ask(lambda batch: other.ask(rows))
    assert other.close().outside_guarantee


def test_gradients_that_fail_end_the_run_at_its_cap() -> None:
    plan = DPFTRL(**PLAN)
    run = plan.open(np.full((5, 2), 123.0), entropy=seeded(1))
    run.ask(rows)
    with pytest.raises(ContractViolation), recording() as draws:
        run.ask(lambda batch: [[0.0]] * 99)
    assert list(draws) == []
    assert run.close().outside_guarantee


# ---- whole numbers --------------------------------------------------------------------------------------------------


@given(
    coefficients=st.lists(st.integers(0, 10**6), min_size=1, max_size=4),
    size=st.sampled_from([3, 2**40, 2**61]),
    seed=st.integers(0, 100),
)
def test_mixed_sums_are_exact(coefficients: list[int], size: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    columns = [generator.integers(-size, size, 5) for _ in coefficients]
    if seed % 2:
        columns[0] = columns[0].astype(object) * 2**30
    found = mixed(coefficients, columns)
    expected = [sum(c * int(column[i]) for c, column in zip(coefficients, columns, strict=True)) for i in range(5)]
    assert [int(one) for one in found] == expected
