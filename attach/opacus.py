"""A few lines around training with Opacus: what its sampler and its optimizer do is charged, and recorded as attested.

    public = {"rate": "0.1", "expected_batch_size": 100}
    plan = plan_training(scope, model, loader, steps=100, **public)
    model, optimizer, loader = engine.make_private(module=..., noise_multiplier=float(plan.noise_multiplier), ...)
    asked = {"steps": plan.steps, "tail_delta": plan.tail_delta}
    with charging(scope, engine, optimizer, loader, **asked, **public, by=..., reason=...) as run:
        train(model, optimizer, loader)
    print(run.epsilons("1e-6"))

Needs Opacus and torch: `pip install 'dpledger[opacus]'`.

The planned run is held before the first step. Each step passes the optimizer's `add_noise`, where its steps are granted
in blocks, durably, before its noise is drawn; skipped steps (`BatchMemoryManager`) draw none and cost none. What does
not fit the plan is refused there, when nothing of that step is out: less noise for the norm that gradients were clipped
to, gradients of several passes in one sum, a higher rate, more steps, a generator whose state had given noise before,
another optimizer state that is loaded, an update of gradients without noise. An accountant that was set back ends the
run at its full charge. Hooks of others detach nothing: Opacus's own slot for one is not used. After the block the
optimizer stays guarded, until another run is charged: it draws no noise that nobody pays for.

The rate is the chance with which its sampler takes a row: 24 random bits below a number, a little above that number.
Opacus takes that number, and the one that sums are divided by, from the number of rows, which neighbours share under
zero_out alone (its issues 571 and 819): elsewhere both are declared, and set for the run (`opacus_public`).
That the batches are those of the loader, and one for each step, nothing here sees; what else is taken on trust stands
in the record as `assumes`.

With `key=` and `resume=` a run outlives its process: it goes on from the checkpoint of Opacus and the token in it
(`OpacusRun.token`), its generators in fresh states.

>>> import warnings, opacus, torch
>>> warnings.filterwarnings("ignore", message="Secure RNG turned off|Full backward hook")
>>> from dpledger.accounting.guarantees import ApproxDP
>>> from dpledger.ledger.ledger import Ledger
>>> scope = Ledger.in_memory().scope("rows", unit="record", relation="add_remove", budget=ApproxDP(3, "0.000001"))
>>> rows = torch.utils.data.TensorDataset(torch.ones(40, 2), torch.ones(40, 1))
>>> model, engine = torch.nn.Linear(2, 1), opacus.PrivacyEngine(accountant="rdp")
>>> model, optimizer, loader = engine.make_private(
...     module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
...     data_loader=torch.utils.data.DataLoader(rows, batch_size=10), noise_multiplier=4.0, max_grad_norm=1.0,
... )
>>> who, public = {"by": "A. Smith", "reason": "the model of the study"}, {"rate": "0.25", "expected_batch_size": 10}
>>> with charging(scope, engine, optimizer, loader, steps=4, **public, **who) as run:
...     for x, y in loader:
...         optimizer.zero_grad()
...         torch.nn.functional.mse_loss(model(x), y).backward()
...         optimizer.step()
>>> run
<OpacusRun: 4 of 4 steps granted>
>>> run.receipt.entry.body.parts.done, run.epsilons("1e-6").opacus > run.epsilons("1e-6").certified.upper
(4, True)
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from types import TracebackType
from typing import Any, NoReturn, Self

from dpledger.accounting.composition import GaussianLaw, Group, PoissonSampled, Repeated
from dpledger.accounting.profile import Bounds, compose
from dpledger.attach.extras import extra
from dpledger.attach.opacus_objects import (
    WholeBatches,
    clipped_to,
    clipping_of,
    counted,
    noise_of,
    rate_of,
    require_clipped,
    require_relation,
    reseed,
    sampler_of,
    state_of,
)
from dpledger.attach.opacus_planning import plan_training
from dpledger.attach.opacus_probes import probe
from dpledger.attach.opacus_public import Public, of_relation
from dpledger.decimals import Number, read, text, whole
from dpledger.errors import ContractViolation, Halted, ParameterError
from dpledger.ledger.charges import Receipt
from dpledger.ledger.declared_runs import DeclaredRun
from dpledger.ledger.entries.entry import Entry
from dpledger.ledger.rules import run_tokens
from dpledger.ledger.rules.run_tokens import RunToken
from dpledger.ledger.scope import Scope
from dpledger.ledger.sessions import block_of
from dpledger.ledger.takeovers import Resume
from dpledger.mechanisms.turns import Turn
from dpledger.process import Home
from dpledger.relations import Relation

with extra("opacus"):
    import opacus
    import torch
    from opacus.optimizers import DPOptimizer
    from torch.utils.hooks import RemovableHandle

__all__ = ["ASSUMES", "KIND", "Epsilons", "OpacusRun", "charging", "plan_training", "probe"]

ASSUMES = (
    "each step is on one batch of the loader; the gradient of a row depends on it alone; sums and noise of floats "
    "count as real numbers, their generator as random"
)
"""What the charge takes from Opacus and from the caller's code, as the record says it."""
GROUPED = "each row of the data is everything of one unit"
BY_ROW = "no unit has more rows than its scope says"
NULL_ROW = "a row that is zeroed out has no gradient"
ROWS_PUBLIC = "the number of rows, which gives rate and batch size, is public: neighbours share it"
CHOSEN = "rate, expected batch size, number of steps and noise are chosen without looking at the rows"
KIND = "opacus_dp_sgd"
_CHARGED_IN = "dpledger_run"


def charging(
    scope: Scope,
    engine: opacus.PrivacyEngine,
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
    """Hold the charge of `steps` steps of `optimizer` over `loader`, as `engine` made both private: use it as a context
    and train inside. Nothing is held, and the optimizer is as it was, before the block is entered.

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
    accountant then counts what the model has behind it. A run that goes on draws batches and noise from fresh states of
    the generators, whatever they were seeded with: a script that seeds them would repeat what it drew before.
    `within`: the library whose loop trains, by name and version, and `assumes`: what is taken on trust of it, which the
    record says beside the rest.

    Claim: if the run is as `assumes` says, it costs at most what is charged: adaptive Poisson-sampled Gaussians, at the
    rate of the sampler and at least this noise for the largest norm that a sum was clipped to.
    Source: docs/proofs/dp_sgd.md, section 7; docs/proofs/filters.md, "Runs elsewhere".
    Raises, with nothing charged: ParameterError for batches that are no Poisson samples, for another optimizer than
    flat or per-layer clipping has in one process, for one that is charged already, for a history that `steps_before`
    and the token of `resume` do not explain; RelationError under label_flip; the errors of
    `Scope.charging`, here or where the block is entered, where what may have changed since is looked at again. In a
    step, before its noise is drawn: Halted where it does not fit the plan, TakenOver once another process has the run,
    ForkedProcess in a fork; ContractViolation, with the run ended at its full charge, where the accountant was set
    back."""
    saved = run_tokens.read(resume)
    before = whole(steps_before, field="steps_before")
    most = before + (0 if saved is None else saved["step"])
    _require_ready(scope, engine, optimizer, before, most, grouped=grouped, by_row=by_row)
    sampler = sampler_of(loader)
    public = of_relation(scope.relation, sampler, optimizer, rate=rate, expected_batch_size=expected_batch_size)
    noise = _least_noise(optimizer, noise_multiplier)
    rows = scope.unit.max_contributions if by_row else 1
    plan = _Plan(
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
    return OpacusRun(run, plan, scope.relation, engine, optimizer, sampler, before, stays=resume is not False)


def _require_ready(
    scope: object, engine: object, optimizer: Any, least: int, most: int, *, grouped: bool, by_row: bool
) -> None:
    """Errors for what no run can be charged of: whose accountant has counted less than `least` steps, or more than
    `most`, as well."""
    if not isinstance(scope, Scope):
        raise ParameterError("scope", type(scope).__name__, "a scope (see Ledger.scope)")
    require_relation(scope.relation)
    if not isinstance(engine, opacus.PrivacyEngine):
        raise ParameterError("engine", type(engine).__name__, "the PrivacyEngine that made the optimizer private")
    if by_row and grouped:
        raise ParameterError("by_row", "True, and grouped", "one of them: rows that count one by one, or whole units")
    if scope.unit.max_contributions > 1 and not (grouped or by_row):
        expected = (
            f"True, if each row is everything of one {scope.unit.name}: Opacus samples and clips rows; or by_row=True, "
            "which charges all rows of one together"
        )
        raise ParameterError("grouped", grouped, expected)
    require_clipped(optimizer)
    _require_free(optimizer)
    _require_counted(engine, least, most)


def _require_counted(engine: Any, least: int, most: int) -> None:
    """ParameterError unless the engine's accountant counted as many steps as other charges cover, and a model that goes
    on has behind it."""
    found = counted(engine)
    if not least <= found <= most:
        expected = (
            f"{found}, as its accountant counted: say so if other charges cover them, or take a fresh engine; of a "
            "checkpoint that was loaded give the token (resume=)"
        )
        raise ParameterError("steps_before", least, expected)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """`steps` Poisson-sampled Gaussians at the rate of `public`, of up to `rows` rows of a unit; `noise` is the least
    one."""

    public: Public
    noise: Decimal
    steps: int
    rows: int
    relation: Relation

    def parts(self, steps: int) -> Repeated:
        step = PoissonSampled(GaussianLaw(self.noise), rate=self.public.rate)
        if self.rows == 1:
            return Repeated(step, times=steps)
        return Repeated(Group(step, k=self.rows, relation=self.relation), times=steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Epsilons:
    """The epsilon of a run at `delta`, twice.

    `certified`: bounds of the granted steps, at the sampler's rate and the noise that was planned. `opacus`: what the
    accountant of Opacus says, `accountant` by name, of all that it has counted; None where it did not count every step,
    or was set back."""

    delta: str
    certified: Bounds
    opacus: float | None
    accountant: str


class OpacusRun:
    """A run of Opacus whose charge is held while its block is open; made by `charging`. Leaving the block commits it,
    also by an exception, which leaves a run open that may be resumed.

    Threads take turns; it does not pickle, and draws nothing in a forked child."""

    def __init__(
        self,
        run: DeclaredRun,
        plan: _Plan,
        relation: Relation,
        engine: Any,
        optimizer: Any,
        sampler: Any,
        steps_before: int,
        *,
        stays: bool,
    ) -> None:
        self._run, self._plan, self._relation = run, plan, relation
        self._engine, self._optimizer, self._sampler = engine, optimizer, sampler
        self._grants = _grants(run, block_of(plan.steps, stays=stays))
        self._steps_before = steps_before
        self._before = self._counted = counted(engine)
        self._taken = 0
        self._is_over = False
        self._clipped_to = 0.0
        self._is_noised = False
        self._drawn_from: set[bytes | None] = set()
        self._handles: tuple[RemovableHandle, ...] = ()
        self._home = Home("a run of Opacus")
        self._turn = Turn("a run of Opacus")

    def __repr__(self) -> str:
        return f"<OpacusRun: {self._run.granted} of {self._run.granted + self._run.left} steps granted>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a run of Opacus does not pickle: a copy would train under the steps granted to it")

    @property
    def granted(self) -> int:
        """How many steps were granted, and count as run."""
        return self._run.granted

    @property
    def taken(self) -> int:
        """How many steps drew their noise in this process."""
        return self._taken

    @property
    def done(self) -> int:
        """How many steps of the plan are behind the model: those granted to processes before, and those taken."""
        return self._run.granted_before + self._taken

    def token(self) -> RunToken:
        """What to save beside the model, after the step of the optimizer, so that `resume=` knows where it stands.
        ScopeError before the block is entered."""
        return self._run.token(self.done)

    @property
    def receipt(self) -> Receipt[None]:
        """The receipt of the commit, once charged. ScopeError before, and for a charge that was given back."""
        return self._run.receipt

    def epsilons(self, delta: Number) -> Epsilons:
        """What the granted steps come to at `delta`, certified, and beside it Opacus's own answer. ParameterError while
        no step was granted.

        Claim: the upper end of `certified` bounds the epsilon of the granted steps, if the run is as `assumes` says.
        Source: docs/proofs/dp_sgd.md, section 7."""
        if not self.granted:
            raise ParameterError("run", repr(self), "a run with steps")
        at = read(delta, field="delta")
        counts_all = counted(self._engine) == self._steps_before + self.done
        return Epsilons(
            delta=text(at),
            certified=compose(self._plan.parts(self.granted), relation=self._relation).epsilon(at),
            opacus=float(self._engine.get_epsilon(float(at))) if counts_all else None,
            accountant=self._engine.accountant.mechanism(),
        )

    def nothing_ran(self) -> Entry:
        """Give the whole charge back, on the word of whoever declared the run. PolicyError once a step was granted."""
        entry = self._run.nothing_ran()
        self._is_over = True
        return entry

    def broke_off(self, why: str) -> Receipt[None]:
        """End the run outside of its guarantee: the full charge stands, and the record says `why`."""
        receipt = self._run.broke_off(why)
        self._is_over = True
        return receipt

    def close(self) -> Receipt[None]:
        """Commit the charge: at the steps that were granted, if any were, else at its cap."""
        self._is_over = True
        return self._run.close()

    def __enter__(self) -> Self:
        self._home.require()
        if _guard(self._optimizer) is not self:
            _require_free(self._optimizer)
            _require_counted(self._engine, self._before, self._before)
        self._run.__enter__()
        self._is_over = False
        self._attach()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over = True
        self._run.__exit__(kind, error, trace)

    @property
    def _is_resumed(self) -> bool:
        return self._run.granted_before > 0

    # ---- in a step -------------------------------------------------------------------------------------------------

    def _attach(self) -> None:
        """Between the optimizer and the two methods that its `step` calls; and before the update of the one below it,
        and what that one loads, where torch keeps as many hooks as there are."""
        optimizer, before = self._optimizer, _guard(self._optimizer)
        if before is not None:
            self._drawn_from = before._drawn_from
            for handle in before._handles:
                handle.remove()
        kind, inner = type(optimizer), optimizer.original_optimizer
        self._clip_and_accumulate = kind.clip_and_accumulate.__get__(optimizer)
        self._draw_and_add = kind.add_noise.__get__(optimizer)
        setattr(inner, _CHARGED_IN, self)
        WholeBatches.watch(self._sampler, optimizer, reseeds=self._is_resumed)
        self._plan.public.impose(self._sampler, optimizer)
        optimizer.clip_and_accumulate = self._clip
        optimizer.add_noise = self._add_noise
        self._handles = (
            inner.register_step_pre_hook(self._before_update),
            inner.register_load_state_dict_pre_hook(self._before_load),
        )

    def _clip(self) -> None:
        """One physical batch into the sum: of one pass, at the planned rate; its clip norm is remembered."""
        self._home.require()
        with self._turn:
            passes = self._optimizer.accumulated_iterations
            if passes != 1:
                raise Halted(f"gradients of {passes} passes in one sum, where a row may be in several: one pass a step")
            if (rate := rate_of(self._sampler)) > (planned := self._plan.public.rate):
                raise Halted(f"the sampler takes a row with probability {rate}, above the planned {planned}")
            self._clipped_to = max(self._clipped_to, clipped_to(self._optimizer))
            self._clip_and_accumulate()

    def _add_noise(self) -> None:
        """The release of a step, once it is granted."""
        self._home.require()
        with self._turn:
            if self._is_over:
                raise Halted("the run is over, and this step is charged to nobody: open another one for more")
            self._require_history()
            self._require_noise()
            self._require_divisor()
            if self._is_resumed:
                reseed(self._optimizer, self._sampler)
            state = self._require_new_state()
            if next(self._grants, None) is None:
                raise Halted(f"all {self._plan.steps} planned steps have run: a step beyond them is charged to nobody")
            try:
                self._draw_and_add()
            finally:
                if state_of(self._optimizer) != state:
                    self._drawn_from.add(state)
            self._clipped_to, self._is_noised = 0.0, True
            self._taken += 1

    def _require_history(self) -> None:
        found = counted(self._engine)
        if found >= self._counted:
            return
        why = f"the accountant of Opacus was set back from {self._counted} steps to {found}"
        self.broke_off(why)
        raise ContractViolation(f"{why}: the run is closed, and the full charge stands")

    def _require_noise(self) -> None:
        noise, norm = float(self._optimizer.noise_multiplier), float(self._optimizer.max_grad_norm)
        if not noise * norm >= float(self._plan.noise) * self._clipped_to:
            raise Halted(
                f"noise of {noise} times {norm}, for gradients clipped to {self._clipped_to}: the plan has at least "
                f"{self._plan.noise} times that"
            )

    def _require_divisor(self) -> None:
        found, planned = self._optimizer.expected_batch_size, self._plan.public.divisor
        if planned is not None and found != planned:
            raise Halted(
                f"the noisy sum would be divided by {found}, not by {planned} as charged: set it before the run"
            )

    def _require_new_state(self) -> bytes | None:
        state = state_of(self._optimizer)
        if state is not None and state in self._drawn_from:
            raise Halted(
                "the generator of the noise is in a state that gave noise before: seed it once, before the run"
            )
        return state

    def _before_update(self, *_: object) -> None:
        self._home.require()
        if not self._is_noised:
            raise Halted("an update of gradients to which no noise was added: call the step of the private optimizer")
        self._is_noised = False
        self._counted = max(self._counted, counted(self._engine))

    def _before_load(self, *_: object) -> None:
        if not self._is_over:
            raise Halted("the state of an optimizer is loaded before its run is charged, not in the middle of it")


def _grants(run: DeclaredRun, block: int) -> Iterator[int]:
    """One item for each step, granted in blocks before the first of them runs."""
    while run.left:
        count = min(block, run.left)
        run.grant(count)
        yield from range(count)


def _require_free(optimizer: Any) -> None:
    """ParameterError while a run of the optimizer is open, and where its noise or its clipping was replaced."""
    before = _guard(optimizer)
    if before is not None and not before._is_over:
        raise ParameterError("optimizer", repr(before), "one whose run is over: two runs would share its steps")
    own = [vars(optimizer)[name] for name in ("add_noise", "clip_and_accumulate") if name in vars(optimizer)]
    if any(before is None or getattr(method, "__self__", None) is not before for method in own):
        raise ParameterError("optimizer", "one whose noise or clipping was replaced", "the one of make_private")


def _guard(optimizer: Any) -> OpacusRun | None:
    """The run that an optimizer was charged in last, or one below it that was made private again."""
    before: OpacusRun | None = vars(optimizer.original_optimizer).get(_CHARGED_IN)
    return before
