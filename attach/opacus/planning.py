"""How much noise a run of Opacus takes, before `make_private` is called: the least one that the scope admits now.

    public = {"rate": "0.1", "expected_batch_size": 100}
    plan = plan_training(scope, model, loader, steps=100, **public, key="model")
    model, optimizer, loader = engine.make_private(..., noise_multiplier=float(plan.noise_multiplier))
    asked = {"steps": plan.steps, "tail_delta": plan.tail_delta}
    said = {"by": ..., "reason": ..., "key": "model", "resume": True}
    with charging(scope, engine, model, optimizer, loader, **asked, **public, **said):

>>> from dpledger.accounting.guarantees import ApproxDP
>>> from dpledger.ledger.ledger import Ledger
>>> scope = Ledger.in_memory().scope("rows", unit="record", relation="add_remove", budget=ApproxDP(2, "0.00001"))
>>> rows = torch.utils.data.TensorDataset(torch.ones(1200, 2))
>>> loader = torch.utils.data.DataLoader(rows, batch_size=100)
>>> plan = plan_training(
...     scope, torch.nn.Linear(2, 1), loader, steps=100, rate="0.1", expected_batch_size=100
... )
>>> plan.steps, 2 < plan.noise_multiplier < 3
(100, True)
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dpledger.attach.extras import extra
from dpledger.attach.opacus.objects import rate_at, rate_of, require_relation, require_unweighted, sampler_of
from dpledger.attach.opacus.public import by_declaration, require_declared
from dpledger.decimals import Number, round_up
from dpledger.errors import ParameterError
from dpledger.ledger.scope import Scope
from dpledger.mechanisms.training.training_plans import TrainingPlan
from dpledger.relations import Relation

with extra("opacus"):
    import torch
    from opacus.data_loader import DPDataLoader

__all__ = ["plan_training"]


def plan_training(
    scope: Scope,
    model: torch.nn.Module,
    loader: torch.utils.data.DataLoader[Any],
    *,
    steps: int,
    rate: Number | None = None,
    expected_batch_size: int | None = None,
    key: str | None = None,
) -> TrainingPlan:
    """The least noise with which `scope` admits so many steps over `loader` now, by the cheapest way of asking: give
    its `noise_multiplier` to `make_private`, its `tail_delta` to `charging`. Of a run that is charged under `key`
    already: the noise and the `tail_delta` that it was admitted with, so that the script that began it goes on with it.

    `loader`: the one that `make_private` is given, or returned. `steps`: updates. `rate`,
    `expected_batch_size`: as of `charging`, and required but under zero_out, as there. Of the model only
    its size is looked at, for what the plan says of signal and noise.
    Claim: such a run is admitted as long as nothing else is charged before it, or is charged. Source:
    `Scope.plan_training`, at the rate of Opacus's sampler.
    Raises, as `Scope.plan_training` does; RelationError under label_flip."""
    if not isinstance(scope, Scope):
        raise ParameterError("scope", type(scope).__name__, "a scope (see Ledger.scope)")
    require_relation(scope.relation)
    if not isinstance(model, torch.nn.Module):
        raise ParameterError("model", type(model).__name__, "the module that is trained")
    if not isinstance(loader, torch.utils.data.DataLoader):
        raise ParameterError("loader", type(loader).__name__, "the DataLoader that make_private is given")
    require_unweighted(loader)
    if scope.relation is not Relation.ZERO_OUT:
        require_declared("rate", rate)
        require_declared("expected_batch_size", expected_batch_size)
    try:
        rows, batches = len(loader.dataset), len(loader)
    except TypeError:
        raise ParameterError("loader", "one of a stream", "one of rows that are counted: Opacus samples them") from None
    if not batches:
        raise ParameterError("loader", "no batches", "one of at least one batch")
    if rate is not None:
        drawn = by_declaration(rate=rate, expected_batch_size=expected_batch_size).rate
    else:
        drawn = rate_of(sampler_of(loader)) if isinstance(loader, DPDataLoader) else rate_at(1 / batches)
    trained = sum(one.numel() for one in model.parameters() if one.requires_grad)
    size = round_up(Fraction(rows) * Fraction(drawn)) if expected_batch_size is None else expected_batch_size
    sizes: Any = {"rate": drawn, "steps": steps, "expected_batch_size": size, "dimension": max(1, trained)}
    return scope.plan_training(**sizes, key=key)
