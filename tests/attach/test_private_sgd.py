"""The three-line attachment: what it charges, when it refuses, and that leaving the block settles the run."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from dpledger.accounting.composition import GaussianLaw, Group, PoissonSampled, Repeated
from dpledger.accounting.guarantees import ApproxDP, PureDP
from dpledger.accounting.profile import compose
from dpledger.attach.training import private_sgd
from dpledger.errors import BudgetRefused, CannotCertify, ContractViolation, Halted, ParameterError
from dpledger.ledger.entries.bodies import Committed, Progress, Reserved
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.scope import Scope
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.training import DPSGD, StepsTaken, check_batch_invariance
from dpledger.mechanisms.units import ByUnit
from dpledger.relations import Relation, Unit

PLAN: dict[str, Any] = {
    "rate": "0.1",
    "steps": 40,
    "noise_multiplier": 4,
    "clip_norm": 1,
    "dimension": 2,
    "expected_batch_size": 20,
}
ROWS = np.ones((200, 2))


def scope_of(relation: str = "add_remove", epsilon: int = 3) -> tuple[Ledger, Scope]:
    book = Ledger.in_memory(entropy=seeded(51))
    budget = ApproxDP(epsilon, "0.000001")
    return book, book.scope("rows", unit="record", relation=relation, budget=budget)


def rows(batch: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return batch


def test_a_loop_of_ones_own_learns_and_is_accounted_for() -> None:
    """Least squares towards the mean of the rows, (1, 1): the weights arrive, and the entry holds the run."""
    book, scope = scope_of()
    weights = np.zeros(2)
    with private_sgd(scope, ROWS, lambda batch: weights - batch, **PLAN) as run:
        for mean_gradient in run:
            weights -= 0.2 * mean_gradient
    assert weights == pytest.approx(np.ones(2), abs=0.5)
    assert run.receipt.value == StepsTaken(done=40, planned=40)
    body = run.receipt.entry.body
    assert isinstance(body, Committed)
    assert isinstance(body.parts, Repeated)
    assert (body.parts.times, body.parts.done) == (40, 40)
    book.verify()
    assert 0 < scope.spent(delta="0.000001").upper <= 3


def test_steps_are_granted_before_they_run() -> None:
    """When the first mean gradient arrives, a grant is already in the ledger; each later one stays ahead."""
    book, scope = scope_of()
    with private_sgd(scope, ROWS, rows, **PLAN) as run:
        for done, _ in enumerate(run, start=1):
            granted = [entry.body.upto for entry in book.entries() if isinstance(entry.body, Progress)]
            assert granted[-1] >= done


def test_stopping_early_settles_the_steps_that_ran() -> None:
    """Of a run that is priced step by step."""
    _, scope = scope_of()
    with private_sgd(scope, ROWS, rows, **PLAN, tail_delta=0) as run:
        next(iter(run))
    assert run.receipt.value == StepsTaken(done=1, planned=40)
    _, other = scope_of()
    with private_sgd(other, ROWS, rows, **PLAN, tail_delta=0) as whole:
        list(whole)
    assert scope.spent(delta="0.000001").upper < other.spent(delta="0.000001").upper


def test_an_exception_in_the_loop_settles_the_run_and_reaches_the_caller() -> None:
    _, scope = scope_of()
    run = private_sgd(scope, ROWS, rows, **PLAN)

    def loop() -> None:
        with run:
            next(iter(run))
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        loop()
    assert run.receipt.value == StepsTaken(done=1, planned=40)


def test_looping_over_a_finished_run_ends_quietly() -> None:
    """Over one that took all its steps, inside its block and after it."""
    _, scope = scope_of()
    with private_sgd(scope, ROWS, rows, **PLAN) as run:
        assert len(list(run)) == 40
        assert list(run) == []
        assert list(run._session.steps()) == []
    assert list(run) == []
    assert run.receipt.value == StepsTaken(done=40, planned=40)


def test_a_second_loop_goes_on_where_the_first_one_stopped() -> None:
    _, scope = scope_of()
    with private_sgd(scope, ROWS, rows, **PLAN) as run:
        for taken, _ in enumerate(run, start=1):
            if taken == 15:
                break
        assert list(run._session.steps()) == list(range(15, 40))
        assert len(list(run)) == 25
    assert run.receipt.value == StepsTaken(done=40, planned=40)


def test_after_the_block_there_are_no_more_steps() -> None:
    """A loop that is under way ends, a new one does not begin; a step that is asked for says why there is none."""
    _, scope = scope_of()
    with private_sgd(scope, ROWS, rows, **PLAN) as run:
        steps = iter(run)
        next(steps)
    assert list(steps) == []
    assert list(run) == []
    with pytest.raises(Halted):
        run._session.ask(rows)
    assert run.receipt.value == StepsTaken(done=1, planned=40)


def test_a_run_that_broke_does_not_look_finished() -> None:
    _, scope = scope_of()

    def gradients(batch: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return batch[:0]

    run = private_sgd(scope, ROWS, gradients, **PLAN)
    with pytest.raises(ContractViolation), run:
        list(run)
    with pytest.raises(Halted, match="full charge"):
        list(run)


# ---- refusals that spend nothing ------------------------------------------------------------------------------------


def nothing_was_spent(book: Ledger) -> bool:
    return {entry.body.kind for entry in book.entries()} <= {"ledger_opened", "scope_opened", "refused"}


@pytest.mark.parametrize(
    ("data", "gradients", "change", "field"),
    [
        (ROWS, lambda batch: batch.mean(axis=0), {}, "gradients"),
        (ROWS, lambda batch: batch[0], {}, "gradients"),
        (ROWS, rows, {"dimension": 3}, "gradients"),
        (7, rows, {}, "data"),
        ((ROWS, ROWS[:1]), rows, {}, "data"),
        (ROWS, rows, {"noise_multiplier": 0}, "noise_multiplier"),
        (ROWS, rows, {"rate": "nan"}, "rate"),
    ],
)
@pytest.mark.filterwarnings("ignore:Mean of empty slice:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
def test_what_cannot_be_used_is_refused_before_the_charge(
    data: Any, gradients: Any, change: dict[str, Any], field: str
) -> None:
    book, scope = scope_of()
    with pytest.raises(ParameterError, match=field):
        private_sgd(scope, data, gradients, **{**PLAN, **change})
    assert nothing_was_spent(book)


def users_scope() -> tuple[Ledger, Scope]:
    """A scope in which one user may have ten rows."""
    book = Ledger.in_memory(entropy=seeded(52))
    unit = Unit("user", max_contributions=10)
    return book, book.scope("users", unit=unit, relation="add_remove", budget=ApproxDP(3, "0.000001"))


def of_users(users: list[npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
    return np.array([user.mean(axis=0) for user in users]).reshape(len(users), 2)


def test_rows_of_users_are_refused_until_somebody_says_whose_they_are() -> None:
    """Clipped one by one, ten rows would move the sum ten times as far as is claimed."""
    book, scope = users_scope()
    with pytest.raises(ParameterError, match=r"units: expected an id for each row.*units=ids.*grouped=True"):
        private_sgd(scope, ROWS, rows, **PLAN)
    with pytest.raises(ParameterError, match="units"):
        scope.open(DPSGD(**PLAN), ROWS)
    with pytest.raises(ParameterError, match="units"):
        private_sgd(scope, ROWS, of_users, units=[1, 2], **PLAN)
    with pytest.raises(ParameterError, match="grouped"):
        private_sgd(scope, ROWS, of_users, units=np.arange(200), grouped=True, **PLAN)
    assert nothing_was_spent(book)


def test_users_are_told_apart_by_the_ids_of_their_rows() -> None:
    book, scope = users_scope()
    with private_sgd(scope, ROWS, of_users, units=np.arange(200) // 10, **PLAN) as run:
        for mean_gradient in run:
            assert mean_gradient.shape == (2,)
    book.verify()
    assert parameters_of(book)["assumes"].startswith("gradients are batch-invariant")
    assert "grouped" not in parameters_of(book)


def test_items_that_are_whole_users_are_declared_in_the_entry() -> None:
    book, scope = users_scope()
    with private_sgd(scope, [ROWS[:10], ROWS[10:13]], of_users, grouped=True, microbatch=3, **PLAN) as run:
        next(iter(run))
    book.verify()
    assert parameters_of(book)["grouped"] is True
    assert parameters_of(book)["microbatch"] == 3


def test_rows_that_are_drawn_one_by_one_are_charged_for_all_that_a_user_has() -> None:
    book, scope = users_scope()
    with private_sgd(scope, ROWS, rows, by_row=True, tail_delta="1e-7", key="rows", **{**PLAN, "rate": "0.01"}) as run:
        for mean_gradient in run:
            assert mean_gradient.shape == (2,)
    book.verify()
    assert parameters_of(book)["by_row"] is True
    assert "no unit has more of them than its scope says" in parameters_of(book)["assumes"]
    together = Group(PoissonSampled(GaussianLaw(4), rate="0.01"), k=10, relation=Relation.ADD_REMOVE)
    assert run.receipt.entry.body.parts == Repeated(together, times=40, done=40)  # type: ignore[union-attr]
    assert 0 < compose((together, 40)).epsilon("1e-6").lower <= scope.spent("0.000001").upper <= 3


def parameters_of(book: Ledger) -> Any:
    """The parameters of the one mechanism that was admitted."""
    (reserved,) = (entry.body for entry in book.entries() if isinstance(entry.body, Reserved))
    return reserved.mechanism.parameters


def test_a_run_that_the_budget_does_not_hold_is_refused() -> None:
    book, scope = scope_of(epsilon=1)
    with pytest.raises(BudgetRefused, match=r"; `scope\.plan_training` finds the least noise") as refused:
        private_sgd(scope, ROWS, rows, **{**PLAN, "noise_multiplier": 1, "steps": 4000})
    assert set(refused.value.asked) == set(refused.value.left)
    assert nothing_was_spent(book)


def test_gradients_that_fail_on_a_batch_end_the_run_at_the_full_charge() -> None:
    book, scope = scope_of()

    def gradients(batch: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        if len(batch):
            raise ValueError(f"the first row is {batch[0]}")
        return batch

    with pytest.raises(ContractViolation) as violation, private_sgd(scope, ROWS, gradients, **PLAN) as run:
        list(run)
    assert "first row" not in str(violation.value)
    last = [entry.body for entry in book.entries()][-1]
    assert isinstance(last, Committed)
    assert last.outside_guarantee
    book.verify()


@pytest.mark.parametrize("scope", [None, "rows", Ledger.in_memory()])
def test_what_is_no_scope_is_named(scope: Any) -> None:
    with pytest.raises(ParameterError, match="scope: expected a scope"):
        private_sgd(scope, ROWS, rows, **PLAN)


def test_a_budget_of_pure_epsilons_says_what_it_lacks() -> None:
    book = Ledger.in_memory()
    scope = book.scope("rows", unit="record", relation="add_remove", budget=PureDP(3))
    with pytest.raises(CannotCertify, match=r"counts pure epsilons.*use an approx_dp budget"):
        private_sgd(scope, ROWS, rows, **PLAN)
    assert len(book) == 2


# ---- functions that cannot take an empty batch ----------------------------------------------------------------------


def scaled(batch: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Rows beside the largest of them all: of none there is no largest."""
    return np.divide(batch, np.max(batch))


def test_what_a_function_raised_on_nobody_is_told_with_the_way_out() -> None:
    book, scope = scope_of()
    with pytest.raises(ParameterError, match=r"example_rows=.* ValueError on an empty batch: zero-size array"):
        private_sgd(scope, ROWS, scaled, **PLAN)
    assert len(book.entries()) == 2


def test_rows_in_a_list_come_to_the_function_as_a_list() -> None:
    """Of made-up rows as well; where the function computes with arrays, it is told what to give."""
    _, scope = scope_of()
    listed = [list(row) for row in ROWS]
    with pytest.raises(ParameterError, match=r"rows in a list come as a list: give numpy\.array\(rows\)"):
        private_sgd(scope, listed, lambda batch: -batch, **PLAN)
    with private_sgd(scope, listed, lambda batch: np.array(batch).reshape(len(batch), 2), **PLAN) as run:
        list(run)
    assert run.receipt.value.done == PLAN["steps"]


def test_a_function_that_cannot_take_an_empty_batch_is_tried_on_made_up_rows_and_runs() -> None:
    """At a rate at which most batches are empty."""
    _, scope = scope_of()
    called: list[int] = []

    def gradients(batch: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        called.append(len(batch))
        return scaled(batch)

    plan = {**PLAN, "rate": "0.001"}
    with private_sgd(scope, ROWS, gradients, example_rows=np.full((3, 2), 7.0), **plan) as run:
        assert called == [3]
        assert len(list(run)) == 40
    assert 0 not in called
    assert len(called) < 40


@pytest.mark.parametrize(
    ("example_rows", "microbatch", "what"),
    [
        (np.zeros((0, 2)), None, "at least one made-up row"),
        (np.ones((3, 5)), None, r"shape \(3, 5\) on 3 made-up rows"),
        (np.ones((3, 5)), 1, r"shape \(1, 5\) on 1 made-up row"),
        (np.ones((3, 5)), 4, r"shape \(4, 5\) on 4 made-up rows"),
        (["a"], None, "Error on 1 made-up row: "),
    ],
)
def test_made_up_rows_are_tried_in_the_form_of_the_run(example_rows: Any, microbatch: int | None, what: str) -> None:
    _, scope = scope_of()
    with pytest.raises(ParameterError, match=what):
        private_sgd(scope, ROWS, scaled, example_rows=example_rows, microbatch=microbatch, **PLAN)


def test_made_up_rows_of_units_are_by_unit() -> None:
    _, scope = scope_of()
    ids = np.arange(200) // 5

    def of_people(people: list[npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
        return np.stack([own.mean(axis=0) for own in people])

    with pytest.raises(ParameterError, match=r"ByUnit\(rows, units=ids\)"):
        private_sgd(scope, ROWS, of_people, units=ids, example_rows=np.ones((3, 2)), **PLAN)
    made_up = ByUnit(np.ones((3, 2)), units=["a", "b", "a"])
    with private_sgd(scope, ROWS, of_people, units=ids, example_rows=made_up, **PLAN) as run:
        assert len(list(run)) == 40


def test_gradients_by_torch_run_one_unit_at_a_time() -> None:
    """`vmap` of `grad`, which takes no empty batch: least squares towards the mean of the rows."""
    _, scope = scope_of()
    weights = torch.zeros(2, dtype=torch.float64)

    def loss(at: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        return ((at - row) ** 2).sum() / 2

    of_each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))

    def gradients(batch: npt.NDArray[np.float64]) -> torch.Tensor:
        return of_each(weights, torch.from_numpy(batch))

    with pytest.raises(ParameterError, match="IndexError on an empty batch: select"):
        private_sgd(scope, ROWS, gradients, **PLAN)
    made_up = np.zeros((2, 2))
    check_batch_invariance(gradients, np.random.default_rng(2).normal(size=(20, 2)), microbatch=1)
    with private_sgd(scope, ROWS, gradients, example_rows=made_up, microbatch=1, **PLAN) as run:
        for mean_gradient in run:
            weights -= 0.2 * torch.from_numpy(mean_gradient)
    assert weights.numpy() == pytest.approx(np.ones(2), abs=0.5)
