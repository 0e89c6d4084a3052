"""A DP-SGD run: its parameters, its steps, its end; data never raise, the caller's code may."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from dpledger.accounting.composition import GaussianLaw, PoissonSampled, Repeated
from dpledger.accounting.rules import check, cost
from dpledger.errors import ContractViolation, Halted, ParameterError, RelationError
from dpledger.mechanisms.entropy import Words, seeded
from dpledger.mechanisms.noise import recording
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.training import DPSGD, StepsTaken
from dpledger.relations import Relation
from mechanism_conformance import MechanismConformance

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE

PLAN: dict[str, Any] = {
    "rate": "0.5",
    "steps": 3,
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
    *each("noise_multiplier", 0, -1, "nan", float("inf"), "1e-13", None),
    *each("clip_norm", 0, -1, "nan", float("inf"), "1e-40"),
    *each("dimension", 0, -1, 2.5, True, 2**32),
    *each("expected_batch_size", 0, -1, "nan", float("inf")),
    *each("grid", 0, -1, 0.3, 1, "nan"),
)

Data = npt.NDArray[np.float64]


def rows(batch: Any) -> Any:
    """The gradient of a unit is its row."""
    return batch


class TestConformance(MechanismConformance):
    relations = (Relation.ADD_REMOVE, Relation.ZERO_OUT, Relation.REPLACE_ONE)
    good_data: ClassVar[object] = np.ones((5, 2))
    bad_data = (np.full((3, 2), np.nan), np.full((3, 2), 1e308), np.zeros((0, 2)), np.full((2, 2), -np.inf))
    bad_parameters = BAD

    def make(self, **changes: Any) -> Any:
        return DPSGD(**{**PLAN, **changes})

    def run(self, mechanism: Any, data: Any, seed: int) -> Release[Any]:
        """The release, with the means of the steps in place of its value."""
        run = mechanism.open(data, entropy=seeded(seed))
        means = [run.ask(rows) for _ in run.steps()]
        return dataclasses.replace(run.close(), value=np.array(means))


# ---- parameters -----------------------------------------------------------------------------------------------------

SIZES = st.decimals("0.000001", "1000000", places=6)


@given(noise=SIZES, clip=SIZES, dimension=st.integers(1, 10**6))
def test_the_default_grid_is_the_largest_that_costs_little(noise: Decimal, clip: Decimal, dimension: int) -> None:
    """g <= z C / 1024 and g sqrt(d) <= C / 64, and 2 g breaks one of the two; sigma grows by at most 0.8 %."""
    plan = DPSGD(**{**PLAN, "noise_multiplier": noise, "clip_norm": clip, "dimension": dimension})

    def fine(grid: Fraction) -> bool:
        return grid * 1024 <= Fraction(noise) * Fraction(clip) and 4096 * grid**2 * dimension <= Fraction(clip) ** 2

    grid = Fraction(plan.step_size)
    assert fine(grid)
    assert not fine(2 * grid) or dimension != math.isqrt(dimension) ** 2  # the root is rounded by 2^-40
    assert math.log2(grid) == int(math.log2(grid))
    ideal = Fraction(noise) * Fraction(clip)
    assert ideal < Fraction(plan.noise.sigma) <= ideal * Fraction(1009, 1000)


@given(noise=SIZES, clip=SIZES, dimension=st.integers(1, 10**6))
def test_sigma_covers_the_rounding_exactly(noise: Decimal, clip: Decimal, dimension: int) -> None:
    """sigma / z - C >= g sqrt(d) / 2, squared to stay rational."""
    plan = DPSGD(**{**PLAN, "noise_multiplier": noise, "clip_norm": clip, "dimension": dimension})
    spare = Fraction(plan.noise.sigma) / Fraction(noise) - Fraction(clip)
    assert (2 * spare) ** 2 >= Fraction(plan.step_size) ** 2 * dimension


def test_a_grid_too_coarse_for_the_dimension_is_refused_with_one_that_would_do() -> None:
    with pytest.raises(ParameterError, match=r"DPSGD\.grid.*0\.0009765625 would do"):
        DPSGD(**{**PLAN, "dimension": 100, "grid": "0.125"})


def test_other_relations_have_no_guarantee_here() -> None:
    with pytest.raises(RelationError, match="label_flip"):
        DPSGD(**PLAN, relation=Relation.LABEL_FLIP)


def test_a_unit_that_is_replaced_moves_a_sum_by_twice_the_bound() -> None:
    """Without sampling four times the rho; on samples more than a unit that comes, at every order."""
    come, replaced = (cost(DPSGD(**{**PLAN, "rate": 1}).parts(), r).rho for r in (ADD, REPLACE))
    assert come is not None
    assert replaced == 4 * come
    claims = [DPSGD(**{**PLAN, "rate": "0.1"}, relation=relation).claim() for relation in (ADD, REPLACE)]
    both = [dict(zip(claim.orders, claim.epsilons, strict=True)) for claim in claims]
    shared = both[0].keys() & both[1].keys()
    assert len(shared) > 5
    assert all(both[0][order] < both[1][order] < 4 * both[0][order] for order in shared)


# ---- what it is made of ---------------------------------------------------------------------------------------------


def test_its_parts_are_sampled_gaussians_with_the_declared_numbers() -> None:
    assert DPSGD(**PLAN).parts() == Repeated(PoissonSampled(GaussianLaw(1), rate="0.5"), times=3)


def test_without_sampling_the_claim_is_that_of_the_gaussian() -> None:
    """Order a of T Gaussians with noise multiplier z: T a / (2 z^2)."""
    claim = DPSGD(**{**PLAN, "rate": 1, "noise_multiplier": 2}).claim()
    assert dict(zip(claim.orders, claim.epsilons, strict=True))[Decimal(8)] == Decimal("3")


def test_the_claim_is_checked_against_its_parts() -> None:
    plan = DPSGD(**PLAN)
    check(plan.claim(), plan.parts(), Relation.ADD_REMOVE)


def test_a_run_stopped_early_costs_the_steps_that_were_started() -> None:
    plan = DPSGD(**PLAN)
    run = plan.open(np.ones((5, 2)), entropy=seeded(1))
    run.ask(rows)
    release = run.close()
    assert release.value == StepsTaken(done=1, planned=3)
    order = Decimal(4)
    of_one, of_all = (cost(p, Relation.ADD_REMOVE, orders=(order,)).rdp[order] for p in (release.parts, plan.parts()))
    assert of_one is not None
    assert of_all == 3 * of_one


# ---- steps ----------------------------------------------------------------------------------------------------------


def test_a_step_is_the_clipped_sum_over_the_expected_batch_size() -> None:
    """With everyone in the batch and next to no noise: rows (3,4)/5 and (0, 0.5), divided by 4."""
    plan = DPSGD(**{**PLAN, "rate": 1, "noise_multiplier": "0.000001", "grid": "0.0000152587890625"})
    mean = plan.open(np.array([[3.0, 4.0], [0.0, 0.5]]), entropy=seeded(1)).ask(rows)
    assert mean == pytest.approx(np.array([0.6, 1.3]) / 4, abs=1e-4)


def test_each_step_has_a_batch_of_its_own() -> None:
    batches: list[list[int]] = []

    def gradients(batch: npt.NDArray[np.int64]) -> Data:
        batches.append(batch.tolist())
        return np.zeros((len(batch), 2))

    run = DPSGD(**PLAN).open(np.arange(200), entropy=seeded(2))
    for _ in run.steps():
        run.ask(gradients)
    assert batches[0] == []
    assert len({tuple(batch) for batch in batches[1:]}) == 3


def test_after_the_last_step_it_halts_and_draws_nothing() -> None:
    entropy = Counting()
    run = DPSGD(**PLAN).open(np.ones((5, 2)), entropy=entropy)
    for _ in run.steps():
        run.ask(rows)
    drawn = entropy.drawn
    with pytest.raises(Halted):
        run.ask(rows)
    assert entropy.drawn == drawn
    assert list(run.steps()) == []


def test_a_run_that_was_closed_early_has_no_steps_left() -> None:
    run = DPSGD(**PLAN).open(np.ones((5, 2)), entropy=seeded(1))
    run.ask(rows)
    assert list(run.steps()) == [1, 2]
    run.close()
    assert list(run.steps()) == []


def test_nothing_of_the_data_leaves_at_the_end() -> None:
    release = DPSGD(**PLAN).open(np.ones((5, 2)), entropy=seeded(1)).close()
    assert release.value == StepsTaken(done=0, planned=3)
    assert release.warnings == ()
    assert release.parts == Repeated(PoissonSampled(GaussianLaw(1), rate="0.5"), times=3, done=0)


@pytest.mark.parametrize(
    "data",
    [
        [[1.0, 1.0]] * 6,
        pd.DataFrame({"a": [1.0] * 6, "b": [1.0] * 6}),
        (np.ones((6, 1)), [1.0] * 6),
    ],
    ids=["list", "table", "columns side by side"],
)
def test_data_are_anything_with_items_by_position(data: Any) -> None:
    plan = DPSGD(**{**PLAN, "rate": 1})
    expected = plan.open(np.ones((6, 2)), entropy=seeded(3)).ask(rows)

    def gradients(batch: Any) -> Data:
        if isinstance(batch, tuple):
            return np.hstack([batch[0], np.array(batch[1]).reshape(-1, 1)])
        return np.array(batch, dtype=np.float64).reshape(len(batch), 2)

    plan.probe(gradients, data)
    assert np.array_equal(plan.open(data, entropy=seeded(3)).ask(gradients), expected)


@pytest.mark.parametrize(
    "data",
    [7, None, "text", {"a": 1}, {"a": 1}.keys(), {"a": 1}.values(), np.float64(1), iter([1]), (), ([1], [1, 2])],
)
def test_data_without_positions_are_refused_before_anything_is_drawn(data: Any) -> None:
    entropy = Counting()
    plan = DPSGD(**PLAN)
    for refuse in (lambda: plan.inspect(data), lambda: plan.open(data, entropy=entropy)):
        with pytest.raises(ParameterError, match="data"):
            refuse()
    assert entropy.drawn == 0


# ---- the caller's code ----------------------------------------------------------------------------------------------


def fails_on(size: Callable[[int], bool], fault: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Gradients that are right except on batches of some sizes."""
    return lambda batch: fault(batch) if size(len(batch)) else np.zeros((len(batch), 2))


def raises(batch: Any) -> Any:
    raise ValueError(f"the rows are {batch}")


class Panic(BaseException):
    """As libraries written in Rust raise it."""


def panics(batch: Any) -> Any:
    raise Panic(f"the rows are {batch}")


FAULTS: list[Callable[[Any], Any]] = [
    raises,
    lambda batch: None,
    lambda batch: np.zeros(2),
    lambda batch: np.zeros((len(batch), 3)),
    lambda batch: np.zeros((len(batch) + 1, 2)),
    lambda batch: [[0.0]] * len(batch),
    lambda batch: [[0.0, [1.0]]] * len(batch),
]
DTYPES = [complex, "U3", "S3", "datetime64[s]"]


@pytest.mark.parametrize("fault", [*FAULTS, *(lambda batch, d=dtype: np.zeros((0, 2), dtype=d) for dtype in DTYPES)])
def test_gradients_that_fail_on_nobody_are_refused_before_anything_is_drawn(fault: Callable[[Any], Any]) -> None:
    entropy = Counting()
    plan = DPSGD(**PLAN)
    gradients = fails_on(lambda size: size == 0, fault)
    with pytest.raises(ParameterError, match="gradients"):
        plan.probe(gradients, np.ones((5, 2)))
    run = plan.open(np.ones((5, 2)), entropy=entropy)
    with pytest.raises(ParameterError, match="gradients"):
        run.ask(gradients)
    assert entropy.drawn == 0
    assert run.close().value == StepsTaken(done=0, planned=3)


@pytest.mark.parametrize("fault", [*FAULTS, panics])
def test_gradients_that_fail_on_a_batch_end_the_run_at_its_cap(fault: Callable[[Any], Any]) -> None:
    plan = DPSGD(**{**PLAN, "rate": 1})
    run = plan.open(np.full((5, 2), 123.0), entropy=seeded(1))
    with pytest.raises(ContractViolation) as violation:
        run.ask(fails_on(lambda size: size > 0, fault))
    assert "123" not in str(violation.value)
    assert violation.value.__cause__ is None
    assert violation.value.__context__ is None
    release = run.close()
    assert release.outside_guarantee
    assert release.parts == plan.parts()
    with pytest.raises(Halted):
        run.ask(rows)


def test_gradients_that_close_the_run_get_no_step() -> None:
    run = DPSGD(**PLAN).open(np.ones((5, 2)), entropy=seeded(1))
    run.ask(rows)

    def gradients(batch: Any) -> Any:
        run.close()
        return batch

    with recording() as draws, pytest.raises(Halted):
        run.ask(gradients)
    assert [draw.law.kind for draw in draws] == ["bernoulli"]  # the batch, and no noise


def test_a_run_does_not_pickle_and_shows_no_data() -> None:
    run = DPSGD(**PLAN).open(np.full((5, 2), 123.0), entropy=seeded(1))
    assert repr(run) == str(run) == f"<TrainingRun: 0 of {PLAN['steps']} steps>"
    with pytest.raises(TypeError):
        run.__reduce__()
    run.close()
    assert repr(run) == f"<TrainingRun: 0 of {PLAN['steps']} steps, closed>"


class Counting:
    """Seeded entropy that counts the words it hands out."""

    def __init__(self) -> None:
        self._source = seeded(7)
        self.drawn = 0

    def words(self, count: int, /) -> Words:
        self.drawn += count
        return self._source.words(count)
