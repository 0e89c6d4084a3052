"""The attachment with noise that is taken off again: what it charges, that a run is charged whole, and how it ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dpledger as dpl
from dpledger.accounting.composition import GaussianLaw, PoissonSampled, Repeated
from dpledger.errors import BudgetRefused, ContractViolation, Halted, ParameterError, RelationError
from dpledger.ledger.entries.bodies import Committed, Reserved
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.training import DPFTRL, StepsTaken

PLAN: dict[str, Any] = {
    "steps": 40,
    "groups": 10,
    "noise_multiplier": 4,
    "clip_norm": 1,
    "dimension": 2,
    "expected_batch_size": 20,
}
ROWS = np.ones((200, 2))
private_ftrl = dpl.learning.private_ftrl


def scope_of(relation: str = "add_remove", epsilon: int = 3) -> tuple[dpl.Ledger, dpl.Scope]:
    book = dpl.Ledger.in_memory(entropy=seeded(51))
    budget = dpl.ApproxDP(epsilon, "0.000001")
    return book, book.scope("rows", unit="record", relation=relation, budget=budget)


def rows(batch: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return batch


def test_a_loop_of_ones_own_learns_and_is_accounted_for() -> None:
    """Least squares towards the mean of the rows, (1, 1): the weights arrive, and the entry holds the run."""
    book, scope = scope_of()
    weights = np.zeros(2)
    with private_ftrl(scope, ROWS, lambda batch: weights - batch, **PLAN) as run:
        for mean_gradient in run:
            weights -= 0.2 * mean_gradient
    assert weights == pytest.approx(np.ones(2), abs=0.5)
    assert run.receipt.value == StepsTaken(done=40, planned=40)
    body = run.receipt.entry.body
    assert isinstance(body, Committed)
    assert body.parts == Repeated(GaussianLaw(4), times=4)
    book.verify()
    assert 0 < scope.spent(delta="0.000001").upper <= 3


@pytest.mark.parametrize(("relation", "rate"), [("zero_out", "0.5"), ("replace_one", 1), ("replace_one", "0.5")])
def test_other_relations_are_charged_as_they_cost(relation: str, rate: Any) -> None:
    book, scope = scope_of(relation, epsilon=20)
    with private_ftrl(scope, ROWS, rows, **PLAN, rate=rate) as run:
        assert len(list(run)) == 40
    (reserved,) = (entry.body for entry in book.entries() if isinstance(entry.body, Reserved))
    leaf: Any = GaussianLaw(4) if rate == 1 else PoissonSampled(GaussianLaw(4), rate=rate)
    assert reserved.parts == Repeated(leaf, times=4)
    book.verify()


def test_a_run_that_does_not_fit_is_told_how_to_find_one_that_does() -> None:
    book, scope = scope_of(epsilon=1)
    with pytest.raises(BudgetRefused, match=r"; `dpl\.planning\.ftrl_plan\(\.\.\., scope=scope\)` finds"):
        private_ftrl(scope, ROWS, rows, **{**PLAN, "noise_multiplier": 1})
    assert not any(isinstance(entry.body, Reserved) for entry in book.entries())


def test_stopping_early_gives_nothing_back() -> None:
    (_, scope), (_, other) = scope_of(), scope_of()
    with private_ftrl(scope, ROWS, rows, **PLAN, tail_delta=0) as run:
        next(iter(run))
    with private_ftrl(other, ROWS, rows, **PLAN, tail_delta=0) as whole:
        list(whole)
    assert run.receipt.value == StepsTaken(done=1, planned=40)
    assert scope.spent(delta="0.000001").upper == other.spent(delta="0.000001").upper


def test_loops_end_quietly_once_all_steps_ran_or_the_block_was_left() -> None:
    _, scope = scope_of()
    with private_ftrl(scope, ROWS, rows, **PLAN) as run:
        for taken, _ in enumerate(run, start=1):
            if taken == 15:
                break
        assert len(list(run)) == 25
        assert list(run) == []
    assert list(run) == []
    _, other = scope_of()
    with private_ftrl(other, ROWS, rows, **PLAN) as early:
        next(iter(early))
    assert list(early) == []


def test_a_run_that_broke_does_not_look_finished() -> None:
    _, scope = scope_of()

    def gradients(batch: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return batch if not len(batch) else batch[:-1]

    run = private_ftrl(scope, ROWS, gradients, **PLAN)
    with pytest.raises(ContractViolation):
        list(run)
    with pytest.raises(Halted):
        list(run)


def test_it_is_not_resumed() -> None:
    _, scope = scope_of()
    with pytest.raises(ParameterError, match="resume"):
        scope.open(DPFTRL(**PLAN), ROWS, key="model", resume=True)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"noise_multiplier": "0.1"}, BudgetRefused),
        ({"dimension": 3}, ParameterError),
        ({"coefficients": (1, 2)}, ParameterError),
        ({"units": [1, 2]}, ParameterError),
    ],
)
def test_what_does_not_fit_spends_nothing(change: dict[str, Any], error: type[Exception]) -> None:
    book, scope = scope_of()
    with pytest.raises(error):
        private_ftrl(scope, ROWS, rows, **{**PLAN, **change})
    assert not any(isinstance(entry.body, Reserved) for entry in book.entries())
    with pytest.raises(ParameterError, match="scope"):
        private_ftrl(book, ROWS, rows, **PLAN)  # type: ignore[arg-type]
    with pytest.raises(RelationError):
        private_ftrl(scope_of("label_flip")[1], ROWS, rows, **PLAN)
