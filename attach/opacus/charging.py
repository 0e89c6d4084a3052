"""`charging`: what a run of Opacus would cost is read off its sampler and its optimizer, checked, and held."""

from __future__ import annotations

import os
from decimal import Decimal
from typing import Any

from dpledger.attach.extras import extra
from dpledger.attach.opacus.layers import require_rows_apart, require_trained
from dpledger.attach.opacus.objects import clipping_of, noise_of, require_clipped, require_relation, sampler_of
from dpledger.attach.opacus.public import of_relation
from dpledger.attach.opacus.run import OpacusRun, PlannedSteps, require_counted, require_free
from dpledger.decimals import Number, read, text, whole
from dpledger.errors import ParameterError
from dpledger.ledger.charging.takeovers import Resume
from dpledger.ledger.rules import run_tokens
from dpledger.ledger.scope import Scope
from dpledger.relations import Relation
from dpledger.schema import flag

with extra("opacus"):
    import opacus
    import torch
    from opacus.optimizers import DPOptimizer

__all__ = ["ASSUMES", "BY_ROW", "CHOSEN", "GROUPED", "KIND", "NULL_ROW", "ROWS_PUBLIC", "charging"]

ASSUMES = (
    "each step is on one batch of the loader; the gradient of a row depends on it alone, and layers keep nothing "
    "else of it; sums and noise of floats "
    "count as real numbers, their generator as random"
)
"""What the charge takes from Opacus and from the caller's code, as the record says it."""
GROUPED = "each row of the data is everything of one unit"
BY_ROW = "no unit has more rows than its scope says"
NULL_ROW = "a row that is zeroed out has no gradient"
ROWS_PUBLIC = "the number of rows, which gives rate and batch size, is public: neighbours share it"
CHOSEN = "rate, expected batch size, number of steps and noise are chosen without looking at the rows"
KIND = "opacus_dp_sgd"


def charging(
    scope: Scope,
    engine: opacus.PrivacyEngine,
    model: torch.nn.Module,
    optimizer: DPOptimizer,
    loader: torch.utils.data.DataLoader[Any],
    *,
    steps: int,
    by: str,
    reason: str,
    noise_multiplier: Number | None = None,
    rate: Number | None = None,
    expected_batch_size: int | None = None,
    steps_before: int = 0,
    grouped: bool = False,
    by_row: bool = False,
    evidence: str | os.PathLike[str] | None = None,
    key: str | None = None,
    tail_delta: Number | None = None,
    resume: Resume = False,
    within: str | None = None,
    assumes: str | None = None,
) -> OpacusRun:
    """Hold the charge of `steps` steps of `optimizer` on `model` over `loader`, as `engine` made them private: use it
    as a context and train inside. Nothing is held, and the optimizer is as it was, before the block is entered.

    `steps`: updates, not physical batches.
    `rate`, `expected_batch_size`: with which chance a row is drawn, and by what a sum is divided, both chosen without
    looking at the rows. Required but under zero_out, where neighbours share Opacus's own; set in its sampler and
    optimizer when the block is entered, and a pass then has `1 / rate` batches. Default under zero_out: Opacus's own.
    `noise_multiplier`: the least one of the run (default: the optimizer's), if a schedule lowers it. `steps_before`:
    how many steps the engine's accountant has counted already, which other entries charge. `grouped`: True declares
    that each row is everything of one unit, where a unit may contribute many; `by_row`: that no unit has more rows than
    its scope says, which are charged together. `by`, `reason`, `evidence`, `key`,
    `tail_delta`, `resume`, and what comes back of steps that were never granted: as of `Scope.charging`. Save
    `OpacusRun.token` with `engine.save_checkpoint`, and give it to `resume` once `load_checkpoint` is done: the
    accountant then counts what the model has behind it. Batches and noise are drawn from fresh states of the
    generators, whatever they were seeded with: who knows the seed knows the noise, and a script that seeds them would
    repeat it.
    `within`: the library whose loop trains, by name and version, and `assumes`: what is taken on trust of it, which the
    record says beside the rest.

    Claim: if the run is as `assumes` says, it costs at most what is charged: adaptive Poisson-sampled Gaussians, at the
    rate of the sampler and at least this noise for the largest norm that a sum was clipped to.
    Source: docs/proofs/dp_sgd.md, section 7; docs/proofs/filters.md, "Runs elsewhere".
    Raises, with nothing charged: ParameterError for batches that are no Poisson samples, for a model whose
    normalisations mix rows or keep statistics of them, for another optimizer than flat or per-layer clipping has in one
    process, for one that is charged already, for a history that `steps_before`
    and the token of `resume` do not explain; RelationError under label_flip; the errors of
    `Scope.charging`, here or where the block is entered, where what may have changed since is looked at again. In a
    step, before its noise is drawn: Halted where it does not fit the plan, TakenOver once another process has the run,
    ForkedProcess in a fork; ContractViolation, with the run ended at its full charge, where the accountant was set
    back."""
    saved = run_tokens.read(resume)
    before = whole(steps_before, field="steps_before")
    most = before + (0 if saved is None else saved["step"])
    _require_ready(scope, engine, optimizer, before, most, grouped=grouped, by_row=by_row, takes_rows=within is None)
    require_trained(model, optimizer)
    require_rows_apart(model)
    sampler = sampler_of(loader)
    public = of_relation(scope.relation, sampler, optimizer, rate=rate, expected_batch_size=expected_batch_size)
    noise = _least_noise(optimizer, noise_multiplier)
    rows = scope.unit.max_contributions if by_row else 1
    plan = PlannedSteps(
        public=public, noise=noise, steps=whole(steps, field="steps", least=1), rows=rows, relation=scope.relation
    )
    run = scope.charging(
        plan.parts(plan.steps),
        by=by,
        reason=reason,
        relation=scope.relation,
        of="unit",
        evidence=evidence,
        steps=plan.steps,
        key=key,
        tail_delta=tail_delta,
        resume=resume,
        mechanism=KIND,
        library=", ".join(
            [*([within] if within else []), f"opacus {opacus.__version__}", f"torch {torch.__version__}"]
        ),
        parameters={
            "rate": text(public.rate),
            "expected_batch_size": str(public.divisor),
            "steps": plan.steps,
            "noise_multiplier": text(noise),
            "max_grad_norm": str(getattr(optimizer, "max_grad_norms", optimizer.max_grad_norm)),
            "clipping": clipping_of(optimizer),
            "accountant": engine.accountant.mechanism(),
            "secure_mode": bool(optimizer.secure_mode),
            "steps_before": before,
            "assumes": "; ".join([_assumed(scope.relation, grouped, by_row), *([assumes] if assumes else [])]),
        },
    )
    return OpacusRun(run, plan, scope.relation, engine, model, optimizer, loader, before, stays=resume is not False)


def _require_ready(
    scope: object,
    engine: object,
    optimizer: Any,
    least: int,
    most: int,
    *,
    grouped: bool,
    by_row: bool,
    takes_rows: bool,
) -> None:
    """Errors for what no run can be charged of: whose accountant has counted less than `least` steps, or more than
    `most`, as well. `takes_rows`: whether the caller can say `by_row`, which the loops of other libraries cannot."""
    if not isinstance(scope, Scope):
        raise ParameterError("scope", type(scope).__name__, "a scope (see Ledger.scope)")
    require_relation(scope.relation)
    if not isinstance(engine, opacus.PrivacyEngine):
        raise ParameterError("engine", type(engine).__name__, "the PrivacyEngine that made the optimizer private")
    flag(by_row, field="by_row"), flag(grouped, field="grouped")
    if by_row and grouped:
        raise ParameterError("by_row", "True, and grouped", "one of them: rows that count one by one, or whole units")
    if scope.unit.max_contributions > 1 and not (grouped or by_row):
        expected = f"True, if each row is everything of one {scope.unit.name}: Opacus samples and clips rows"
        beside = "; or by_row=True, which charges all rows of one together"
        raise ParameterError("grouped", grouped, expected + (beside if takes_rows else ""))
    require_clipped(optimizer)
    require_free(optimizer)
    require_counted(engine, least, most)


def _least_noise(optimizer: Any, noise_multiplier: Number | None) -> Decimal:
    """The noise that is charged: what was asked for, at most that of the optimizer for what it clips to."""
    own = noise_of(optimizer)
    noise = read(own if noise_multiplier is None else noise_multiplier, field="noise_multiplier")
    if float(noise) > own:
        raise ParameterError("noise_multiplier", noise, f"at most that of the optimizer, {own}")
    return noise


def _assumed(relation: Relation, grouped: bool, by_row: bool) -> str:
    zeroed = relation is Relation.ZERO_OUT
    of_units = [*([GROUPED] if grouped else []), *([BY_ROW] if by_row else [])]
    return "; ".join([ASSUMES, *of_units, *([ROWS_PUBLIC, NULL_ROW] if zeroed else [CHOSEN])])
