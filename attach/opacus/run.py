"""`OpacusRun`: a charged run, and what stands between the optimizer and its steps while it is open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from types import TracebackType
from typing import Any, NoReturn, Self

from dpledger.accounting.composition import GaussianLaw, Group, PoissonSampled, Repeated
from dpledger.accounting.profile import Bounds, compose
from dpledger.attach.extras import extra
from dpledger.attach.fitting import told_what_fits
from dpledger.attach.opacus.layers import LayerState
from dpledger.attach.opacus.objects import (
    FINE,
    clipped_to,
    coarse_of,
    counted,
    forget_rows,
    null_odd_rows,
    reseed,
    sampler_of,
    watch,
)
from dpledger.attach.opacus.public import Public
from dpledger.decimals import Number, read, text
from dpledger.errors import ContractViolation, Halted, ParameterError
from dpledger.ledger.charging.charges import Receipt
from dpledger.ledger.charging.declared_runs import DeclaredRun
from dpledger.ledger.charging.sessions import block_of
from dpledger.ledger.entries.entry import Entry
from dpledger.ledger.rules.run_tokens import RunToken
from dpledger.mechanisms.turns import Turn
from dpledger.process import Home
from dpledger.relations import Relation

with extra("opacus"):
    from torch.utils.hooks import RemovableHandle

__all__ = ["Epsilons", "OpacusRun", "PlannedSteps", "require_counted", "require_free"]

_CHARGED_IN = "dpledger_run"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSteps:
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
        plan: PlannedSteps,
        relation: Relation,
        engine: Any,
        model: Any,
        optimizer: Any,
        loader: Any,
        steps_before: int,
        *,
        stays: bool,
    ) -> None:
        self._run, self._plan, self._relation = run, plan, relation
        self._engine, self._model, self._optimizer = engine, model, optimizer
        self._loader, self._sampler = loader, sampler_of(loader)
        self._grants = _grants(run, block_of(plan.steps, stays=stays))
        self._steps_before = steps_before
        self._before = self._counted = counted(engine)
        self._taken = 0
        self._is_over = False
        self._clipped_to, self._rows = 0.0, 0
        self._is_noised = False
        self._handles: tuple[RemovableHandle, ...] = ()
        self._home = Home("a run of Opacus")
        self._turn = Turn("a run of Opacus")

    def __repr__(self) -> str:
        return f"<OpacusRun: {self._run.granted} of {self._run.granted + self._run.left} steps granted>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a run of Opacus does not pickle: its copy would use the same granted steps again")

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

    @property
    def left(self) -> int:
        """How many planned steps are still to be taken."""
        return self._plan.steps - self.done

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
            require_free(self._optimizer)
            require_counted(self._engine, self._before, self._before)
        with told_what_fits("attach.opacus.plan_training"):
            self._run.__enter__()
        self._is_over = False
        self._attach()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over = True
        if not self._is_noised:
            self._optimizer.original_optimizer.zero_grad()
        forget_rows(self._optimizer)
        self._run.__exit__(kind, error, trace)

    # ---- in a step -------------------------------------------------------------------------------------------------

    def _attach(self) -> None:
        """Between the optimizer and the two methods that its `step` calls; and before the update of the one below it,
        and what that one loads, where torch keeps as many hooks as there are."""
        optimizer, before = self._optimizer, _guard(self._optimizer)
        if before is not None:
            for handle in before._handles:
                handle.remove()
        kind, inner = type(optimizer), optimizer.original_optimizer
        self._clip_and_accumulate = kind.clip_and_accumulate.__get__(optimizer)
        self._draw_and_add = kind.add_noise.__get__(optimizer)
        setattr(inner, _CHARGED_IN, self)
        watch(self._loader, optimizer)
        self._plan.public.impose(self._sampler, optimizer)
        self._kept = LayerState(self._model)
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
            if (rate := self._sampler.drawn_at) is None:
                raise Halted("no batch was drawn since the run began: begin the pass over the loader inside its block")
            if rate > (planned := self._plan.public.rate):
                raise Halted(f"the sampler took a row with probability {rate}, above the planned {planned}")
            if (name := self._kept.changed()) is not None:
                raise Halted(
                    f"{name}, which a layer keeps beside its weights, changed since the run began, and is as it was "
                    "again: what layers keep of rows has no noise (put the layer in eval(), replace it, or keep "
                    "what is public outside of the model)"
                )
            self._require_one_each()
            self._require_fine()
            self._clipped_to = max(self._clipped_to, clipped_to(self._optimizer))
            null_odd_rows(self._optimizer)
            self._clip_and_accumulate()

    def _add_noise(self) -> None:
        """The release of a step, once it is granted."""
        self._home.require()
        with self._turn:
            if self._is_over:
                raise Halted("the run is over, so this step is not charged: open another run for more steps")
            if not self._sampler.unused:
                raise Halted("a step without a batch of its own: each takes a new one of the loader")
            if not self._clipped_to:
                raise Halted("noise without gradients: call `backward`, then the step of the private optimizer")
            self._require_history()
            self._require_noise()
            self._require_divisor()
            if next(self._grants, None) is None:
                raise Halted(
                    f"all {self._plan.steps} planned steps have run, and a further step is not charged: train while "
                    "`run.left`, which also counts the steps of earlier processes"
                )
            reseed(self._optimizer, self._sampler)
            self._draw_and_add()
            self._clipped_to, self._is_noised = 0.0, True
            self._sampler.unused.pop(0)
            self._taken += 1

    def _require_one_each(self) -> None:
        """Halted where a sum would have more gradients than rows were drawn: of a row that is there twice, or taken
        apart, each piece is clipped by itself."""
        begun = any(one.summed_grad is not None for one in self._optimizer.params)
        self._rows = (self._rows if begun else 0) + len(self._optimizer.grad_samples[0])
        if self._rows > max(self._sampler.unused, default=self._rows):
            raise Halted(
                "a step has more gradients than rows were drawn, and each of them is clipped by itself: give the model "
                "each row once, and keep the first axis that of rows in all of its layers"
            )

    def _require_fine(self) -> None:
        """Halted for gradients that are coarser than their weights, as those of `torch.autocast` are."""
        if coarse := coarse_of(self._optimizer.grad_samples):
            raise Halted(f"gradients of {coarse}, where the charge is for {FINE} (train without autocast)")

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

    def _before_update(self, *_: object) -> None:
        self._home.require()
        if not self._is_noised:
            raise Halted("an update of gradients to which no noise was added: call the step of the private optimizer")
        self._is_noised = False
        noised = set(map(id, self._optimizer.params))
        every = (one for group in self._optimizer.param_groups for one in group["params"])
        if any(one.grad is not None and id(one) not in noised for one in every):
            raise Halted("an update of a layer that was frozen after `backward`, whose gradient has no noise")
        forget_rows(self._optimizer)
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


def require_free(optimizer: Any) -> None:
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


def require_counted(engine: Any, least: int, most: int) -> None:
    """ParameterError unless the engine's accountant counted as many steps as other charges cover, and a model that goes
    on has behind it."""
    found = counted(engine)
    if not least <= found <= most:
        expected = (
            f"{found}, as many steps as the engine's accountant has counted, if other charges cover them; else take a "
            "fresh PrivacyEngine, and for a loaded checkpoint pass its token (resume=)"
        )
        raise ParameterError("steps_before", least, expected)
