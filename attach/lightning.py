"""A callback of Lightning around a training with Opacus: each step is charged before it happens.

    model, optimizer, loader = engine.make_private(...)
    charged = ChargedTraining(scope, engine, optimizer, loader, steps=200, rate="0.05", expected_batch_size=64, ...)
    trainer = Trainer(max_epochs=-1, callbacks=[charged, ModelCheckpoint(...)])
    trainer.fit(module_of(model, optimizer), loader)

Needs pytorch_lightning, Opacus and torch: `pip install 'dpledger[lightning]'`. The module returns the private optimizer
from `configure_optimizers`, and optimizes automatically.

The charge is held when training starts, once a checkpoint is loaded, and committed when it ends, however it ends; it
stops when all steps are done. The steps are guarded as those of `attach.opacus` are. Batches, noise and dropout come
from fresh states of the generators, not from `seed_everything`: the noise of a seed that everybody knows hides nothing.

Refused before anything is charged: optimization by hand, several devices, half precision, gradients of several batches
in one step, batches in pieces, a second clipping, another loader or optimizer than those that are charged, validation
on the private rows. A `training_step` that logs is refused in its first step, with nothing out: what it logs is of
private rows.

With `key=` and `resume=True` each checkpoint has the token of the run, and `trainer.fit(..., ckpt_path=)` goes on
from there; without one, `resume=True` goes on from the model that is given, which counts as one without a step
(`StepsLost`).

>>> import warnings, opacus, torch
>>> warnings.filterwarnings("ignore", message="Secure RNG turned off|Full backward|.*LeafSpec|.*many workers")
>>> from dpledger.accounting.guarantees import ApproxDP
>>> from dpledger.ledger.ledger import Ledger
>>> class Line(pytorch_lightning.LightningModule):
...     def __init__(self, model, optimizer):
...         super().__init__()
...         self.model, self.private = model, optimizer
...     def training_step(self, batch):
...         return torch.nn.functional.mse_loss(self.model(batch[0]), batch[1])
...     def configure_optimizers(self):
...         return self.private
>>> scope = Ledger.in_memory().scope("rows", unit="record", relation="add_remove", budget=ApproxDP(3, "0.000001"))
>>> rows = torch.utils.data.TensorDataset(torch.ones(40, 2), torch.ones(40, 1))
>>> model, engine = torch.nn.Linear(2, 1), opacus.PrivacyEngine()
>>> model, optimizer, loader = engine.make_private(
...     module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
...     data_loader=torch.utils.data.DataLoader(rows, batch_size=10), noise_multiplier=4.0, max_grad_norm=1.0,
... )
>>> charged = ChargedTraining(
...     scope, engine, optimizer, loader, steps=4, rate="0.25", expected_batch_size=10,
...     by="A. Smith", reason="the model of the study",
... )
>>> pytorch_lightning.Trainer(
...     max_epochs=-1, callbacks=[charged], accelerator="cpu", logger=False, enable_checkpointing=False,
...     enable_progress_bar=False, enable_model_summary=False,
... ).fit(Line(model, optimizer), loader)
>>> charged.run
<OpacusRun: 4 of 4 steps granted>
"""

from __future__ import annotations

import os
from typing import Any

from dpledger.attach.extras import extra
from dpledger.decimals import Number
from dpledger.errors import Halted, ParameterError, ScopeError
from dpledger.ledger.charging.takeovers import Resume
from dpledger.ledger.rules import run_tokens
from dpledger.ledger.scope import Scope

with extra("lightning"):
    import pytorch_lightning

    from dpledger.attach.opacus import OpacusRun, charging
    from dpledger.attach.opacus.objects import forget_seeds, sampler_of, share_rows, watch
    from dpledger.attach.opacus.public import of_relation

__all__ = ["ChargedTraining"]

VALIDATED = "what the model is validated on, and what callbacks and loggers are given, is public"
_PRECISE = ("32-true", "64-true")


class ChargedTraining(pytorch_lightning.Callback):  # type: ignore[misc]
    """Charges a `fit` to `scope`, as `attach.opacus.charging` does a loop, whose arguments these are. One run each.

    `resume`: True begins the run under `key` or goes on with it, from the checkpoint that `fit` is given, if any; steps
    that were granted and are not in it are lost, without one all of them (`StepsLost`).
    Raises, in `fit`, with nothing charged: ParameterError naming what cannot be charged; the errors of `charging`. In a
    step, before its noise is drawn, as there; Halted for a `training_step` that logs.
    Claim: as of `charging`. Source: docs/proofs/dp_sgd.md, section 7."""

    def __init__(
        self,
        scope: Scope,
        engine: Any,
        optimizer: Any,
        loader: Any,
        *,
        steps: int,
        by: str,
        reason: str,
        noise_multiplier: Number | None = None,
        rate: Number | None = None,
        expected_batch_size: int | None = None,
        steps_before: int = 0,
        grouped: bool = False,
        evidence: str | os.PathLike[str] | None = None,
        key: str | None = None,
        tail_delta: Number | None = None,
        resume: Resume = False,
    ) -> None:
        self._made = (scope, engine, optimizer, loader)
        self._public: dict[str, Any] = {"rate": rate, "expected_batch_size": expected_batch_size}
        self._asked: dict[str, Any] = {
            "steps": steps,
            "by": by,
            "reason": reason,
            "noise_multiplier": noise_multiplier,
            "steps_before": steps_before,
            "grouped": grouped,
            "evidence": evidence,
            "key": key,
            "tail_delta": tail_delta,
        }
        self._resume: Resume = resume
        self._saved: run_tokens.RunToken | None = None
        self._run: OpacusRun | None = None
        self._is_open = False

    @property
    def run(self) -> OpacusRun:
        """The run that is charged: its receipt, its token, what it comes to. ScopeError before training started."""
        if self._run is None:
            raise ScopeError("nothing is charged yet: the run begins where training starts")
        return self._run

    # ---- called by Lightning -----------------------------------------------------------------------------------------

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Refuse what cannot be charged; let rate and batch size be the public ones, before an epoch is measured."""
        if stage != "fit":
            return
        if self._run is not None:
            raise ParameterError("callbacks", repr(self._run), "a callback of its own for each run")
        scope, _, optimizer, loader = self._made
        _require_plain(trainer, pl_module)
        sampler = sampler_of(loader)
        if loader.batch_sampler is not sampler:
            expected = (
                "whole batches: how many pieces they are cut into depends on who was drawn, and an epoch ends by pieces"
            )
            raise ParameterError("loader", "one of pieces of batches", expected)
        of_relation(scope.relation, sampler, optimizer, **self._public).impose(sampler, optimizer)
        forget_seeds()
        watch(loader, optimizer)  # before batches are drawn ahead

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """The token in a checkpoint."""
        self._saved = run_tokens.read(state_dict["run"])

    def state_dict(self) -> dict[str, Any]:
        """The token, for a checkpoint."""
        return {} if self._run is None else {"run": dict(self._run.token())}

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Hold the charge: model, optimizer and schedules are as the checkpoint has them."""
        scope, engine, optimizer, loader = self._made
        _require_only("optimizer", trainer.optimizers, optimizer)
        _require_only("loader", trainer.fit_loop._combined_loader.flattened, loader)
        self._require_public(trainer)
        if self._saved is not None and self._resume is False:
            raise ParameterError("resume", False, "True, or a checkpoint that is not of a run: this one goes on")
        run = charging(
            scope,
            engine,
            pl_module,
            optimizer,
            loader,
            **self._asked,
            **self._public,
            resume=self._saved if self._resume is True and self._saved is not None else self._resume,
            within=f"lightning {pytorch_lightning.__version__}",
            assumes=VALIDATED,
        )
        forget_seeds()
        run.__enter__()
        self._run, self._is_open = run, True
        self._stop_when_done(trainer)

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        """Refuse to validate on the private rows, also before training starts, and where loaders are made anew."""
        if trainer.state.fn == "fit":
            self._require_public(trainer)

    def on_after_backward(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        """Refuse a step that logs, before its noise is drawn."""
        self._require_silent(trainer)

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        """Refuse what was logged since, before a logger has it; stop when all steps are done."""
        self._require_silent(trainer)
        self._stop_when_done(trainer)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        """Commit the charge."""
        if self._is_open:
            self._is_open = False
            self.run.__exit__(None, None, None)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:  # noqa: ARG002
        """Commit the charge, or leave a run open that may be resumed."""
        if self._is_open:
            self._is_open = False
            self.run.__exit__(type(exception), exception, exception.__traceback__)

    # ---- in a step ---------------------------------------------------------------------------------------------------

    def _stop_when_done(self, trainer: Any) -> None:
        if self.run.done >= self._asked["steps"]:
            trainer.should_stop = True

    def _require_public(self, trainer: Any) -> None:
        validated = trainer.fit_loop.epoch_loop.val_loop._combined_loader
        for one in [] if validated is None else validated.flattened:
            if share_rows(getattr(one, "dataset", None), self._made[3].dataset):
                expected = "public rows: a loss of the private ones is a release, and nothing here charges it"
                raise ParameterError("val_dataloaders", "the private rows", expected)

    def _require_silent(self, trainer: Any) -> None:
        logged = trainer.fit_loop.epoch_loop._results
        if not logged:
            return
        names = ", ".join(sorted({name.rpartition(".")[2] for name in logged}))
        if self._is_open and not self.run.granted:
            self._is_open = False
            self.run.nothing_ran()
        raise Halted(
            f"the training logs {names}, which comes from private rows: log values of public rows, in `validation_step`"
        )


def _require_plain(trainer: Any, module: Any) -> None:
    """ParameterError naming what of a `Trainer` cannot be charged."""
    one_process = "the process that adds the noise cannot see how the others clip"
    refused = (
        (
            "automatic_optimization",
            module.automatic_optimization,
            True,
            "a step that is not Lightning's is not charged",
        ),
        ("devices", trainer.world_size, 1, one_process),
        ("accumulate_grad_batches", trainer.accumulate_grad_batches, 1, "a row may be in several batches"),
        (
            "gradient_clip_val",
            trainer.gradient_clip_val or None,
            None,
            "gradients of rows are clipped, by max_grad_norm",
        ),
    )
    for name, found, plain, why in refused:
        if found != plain:
            raise ParameterError(name, found, f"{plain}: {why}")
    if trainer.precision not in _PRECISE:
        raise ParameterError(
            "precision",
            trainer.precision,
            "32-true: a scaler skips steps that overflow, and a skipped step can be seen",
        )


def _require_only(name: str, found: list[Any], charged: Any) -> None:
    if len(found) != 1 or found[0] is not charged:
        told = f"{len(found)} of them" if len(found) != 1 else type(found[0]).__name__
        raise ParameterError(name, told, "the one that is charged, and no other")
