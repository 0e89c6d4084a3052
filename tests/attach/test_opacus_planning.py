"""How much noise a run of Opacus takes: what is planned before `make_private` is what is charged, and is admitted."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import opacus
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from dpledger.accounting.guarantees import ZCDP, ApproxDP, Guarantee, PureDP
from dpledger.attach.opacus import charging, plan_training
from dpledger.attach.opacus.objects import rate_of
from dpledger.decimals import text
from dpledger.errors import BudgetRefused, InfeasiblePlan, ParameterError, RelationError
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.scope import Scope
from dpledger.mechanisms.training.training_plans import TrainingPlan

pytestmark = [
    pytest.mark.filterwarnings("ignore:Secure RNG turned off"),
    pytest.mark.filterwarnings("ignore:Full backward hook is firing"),
]
WHO: dict[str, Any] = {"by": "A. Smith", "reason": "the model of the study"}
STEPS = 120
PUBLIC: dict[str, Any] = {"rate": 1 / 12, "expected_batch_size": 100}


def scope_of(budget: Guarantee | None = None, relation: str = "add_remove") -> Scope:
    said = ApproxDP(2, "0.00001") if budget is None else budget
    return Ledger.in_memory().scope("rows", unit="record", relation=relation, budget=said)


def loader_of(rows: int = 1200, batch: int = 100, **options: Any) -> DataLoader[Any]:
    return DataLoader(TensorDataset(torch.ones(rows, 3)), batch_size=batch, **options)


def model() -> torch.nn.Module:
    return torch.nn.Linear(3, 2)


def made_private(loader: DataLoader[Any], noise: float) -> tuple[Any, Any, Any, Any]:
    """The engine, the model, the optimizer and the loader that `make_private` returns."""
    module, engine = model(), opacus.PrivacyEngine(accountant="rdp")
    made: Any = engine.make_private(
        module=module,
        optimizer=torch.optim.SGD(module.parameters(), lr=0.1),
        data_loader=loader,
        noise_multiplier=noise,
        max_grad_norm=1.0,
    )
    return engine, *made


def plan_of(scope: Scope, loader: DataLoader[Any]) -> TrainingPlan:
    return plan_training(scope, model(), loader, steps=STEPS, **PUBLIC)


@pytest.mark.parametrize(
    ("rows", "batch", "drop_last"),
    [(1200, 100, False), (1201, 100, False), (1201, 100, True), (37, 5, False), (9, 9, True)],
)
def test_the_rate_is_that_of_the_sampler_that_is_made(rows: int, batch: int, drop_last: bool) -> None:
    loader, scope = loader_of(rows, batch, drop_last=drop_last), scope_of(ApproxDP(60, "0.00001"), "zero_out")
    plan = plan_training(scope, model(), loader, steps=3)
    *_, private = made_private(loader, 1.0)
    assert plan.rate == rate_of(private.batch_sampler)
    assert plan_training(scope, model(), private, steps=3) == plan


@pytest.mark.parametrize("budget", [ApproxDP(2, "0.00001"), ApproxDP("0.5", "0.000001")], ids=["2", "0.5"])
def test_a_planned_run_is_admitted_and_one_with_less_noise_is_not(budget: ApproxDP) -> None:
    scope, loader = scope_of(budget), loader_of()
    plan = plan_of(scope, loader)
    asked: dict[str, Any] = {"steps": STEPS, "tail_delta": plan.tail_delta, **PUBLIC | WHO}
    less = charging(scope, *made_private(loader, 0.99 * float(plan.noise_multiplier)), **asked)
    with pytest.raises(BudgetRefused), less:
        pass
    with charging(scope, *made_private(loader, float(plan.noise_multiplier)), **asked) as run:
        assert run.granted == 0
    assert plan_of_what_is_left(scope, loader) is None


def plan_of_what_is_left(scope: Scope, loader: DataLoader[Any]) -> TrainingPlan | None:
    try:
        return plan_of(scope, loader)
    except InfeasiblePlan:
        return None


def test_without_the_tail_delta_the_same_run_is_refused_and_told_of_it() -> None:
    scope, loader = scope_of(), loader_of()
    scope.charge(PureDP("0.001"), relation="add_remove", **WHO)  # the first charge of a scope may take all of delta
    plan = plan_of(scope, loader)
    private = made_private(loader, float(plan.noise_multiplier))
    with pytest.raises(BudgetRefused) as refused, charging(scope, *private, steps=STEPS, **PUBLIC | WHO):
        pass
    assert refused.value.tail_delta == plan.tail_delta
    assert f"tail_delta={plan.tail_delta:f}" in str(refused.value)
    with charging(scope, *private, steps=STEPS, tail_delta=refused.value.tail_delta, **PUBLIC | WHO):
        pass


def test_of_the_model_its_trained_size_is_told() -> None:
    scope, loader, frozen = scope_of(), loader_of(), model()
    whole = plan_training(scope, frozen, loader, steps=STEPS, **PUBLIC).signal_to_noise
    frozen.bias.requires_grad_(False)
    assert plan_training(scope, frozen, loader, steps=STEPS, **PUBLIC).signal_to_noise == pytest.approx(
        whole * (8 / 6) ** 0.5
    )


def test_a_budget_without_delta_is_planned_as_it_is_charged() -> None:
    scope, loader = scope_of(ZCDP("0.5")), loader_of()
    plan = plan_of(scope, loader)
    assert plan.tail_delta == 0
    private = made_private(loader, float(plan.noise_multiplier))
    with charging(scope, *private, steps=STEPS, tail_delta=plan.tail_delta, **PUBLIC | WHO):
        pass


@pytest.mark.parametrize("missing", sorted(PUBLIC))
def test_under_add_remove_both_numbers_are_declared_before_the_plan_as_well(missing: str) -> None:
    with pytest.raises(ParameterError, match=missing):
        plan_training(scope_of(), model(), loader_of(), steps=3, **PUBLIC | {missing: None})


@pytest.mark.parametrize("rows", [1199, 1200, 1201])
def test_under_add_remove_neighbours_are_planned_alike(rows: int) -> None:
    assert plan_of(scope_of(), loader_of(rows)) == plan_of(scope_of(), loader_of(1300))


def test_rows_with_weights_are_refused_before_opacus_drops_the_weights() -> None:
    weighted = torch.utils.data.WeightedRandomSampler([1.0] * 1200, num_samples=100)
    with pytest.raises(ParameterError, match="WeightedRandomSampler"):
        plan_of(scope_of(), loader_of(sampler=weighted))


class Stream(IterableDataset[Any]):  # type: ignore[misc]
    """Rows that nobody has counted."""

    def __iter__(self) -> Any:
        yield torch.ones(3)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"scope": None}, "scope"),
        ({"model": "linear"}, "model"),
        ({"loader": [1, 2]}, "loader"),
        ({"loader": DataLoader(Stream(), batch_size=2)}, "loader"),
        ({"loader": loader_of(3, 5, drop_last=True)}, "loader"),
        ({"steps": 0}, "steps"),
    ],
    ids=["no scope", "no module", "no loader", "a stream", "no batches", "no steps"],
)
def test_a_wrong_argument_is_named(changes: dict[str, Any], field: str) -> None:
    given: dict[str, Any] = {"scope": scope_of(), "model": model(), "loader": loader_of(), "steps": STEPS, **changes}
    with pytest.raises(ParameterError) as raised:
        plan_training(given["scope"], given["model"], given["loader"], steps=given["steps"], **PUBLIC)
    assert raised.value.field == field


def test_a_relation_without_a_price_is_refused_as_charging_does() -> None:
    with pytest.raises(RelationError, match="label_flip"):
        plan_of(scope_of(relation="label_flip"), loader_of())


def test_a_run_of_replaced_units_is_planned_with_more_noise_and_declared_numbers() -> None:
    scope, loader = scope_of(relation="replace_one"), loader_of()
    plan = plan_of(scope, loader)
    assert plan.noise_multiplier > plan_of(scope_of(), loader).noise_multiplier * Decimal("1.2")
    with pytest.raises(ParameterError, match="rate"):
        plan_training(scope, model(), loader, steps=STEPS)
    private = made_private(loader, float(plan.noise_multiplier))
    with charging(scope, *private, steps=STEPS, tail_delta=plan.tail_delta, **PUBLIC | WHO) as run:
        assert run.granted == 0
    assert scope.spent().upper <= 2


def test_the_plan_of_a_run_that_is_open_is_the_one_that_it_was_admitted_with() -> None:
    """A script whose first step raises, run again with nothing changed: the scope has nothing left for a second run."""
    scope = scope_of()

    def script(*, fails: bool) -> TrainingPlan:
        plan = plan_training(scope, model(), loader_of(), steps=STEPS, **PUBLIC, key="model")
        private = made_private(loader_of(), float(plan.noise_multiplier))
        asked: dict[str, Any] = {"steps": plan.steps, "tail_delta": plan.tail_delta, **PUBLIC, **WHO}
        with charging(scope, *private, **asked, key="model", resume=True) as run:
            if fails:
                raise OSError("the machine goes down")
            assert run.left == STEPS
        return plan

    with pytest.raises(OSError, match="goes down"):
        script(fails=True)
    with pytest.raises(InfeasiblePlan, match="is open already"):
        plan_of(scope, loader_of())
    plan = script(fails=False)
    [one] = scope.releases()
    assert (one.parts, one.tail_delta, plan.fits) == (plan.parts(), plan.tail_delta, True)
    assert plan.prices == {one.account: text(one.reserved[one.account])}
    assert plan.others == {}
    with pytest.raises(InfeasiblePlan):
        plan_training(scope, model(), loader_of(), steps=STEPS, **PUBLIC, key="another")
