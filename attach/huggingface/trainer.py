"""The `Trainer` of Hugging Face, private: each of its steps is one of DP-SGD by Opacus, charged before it happens.

    trainer = PrivateTrainer(
        model, TrainingArguments(..., per_device_train_batch_size=16, gradient_accumulation_steps=4, max_steps=200),
        train_dataset=rows, scope=scope, rate="0.05", by="A. Smith", reason="the model of the study", key="model",
    )
    print(trainer.plan().words())  # which noise fits, before anything is charged
    trainer.train(resume_from_checkpoint=True)

Needs transformers, accelerate, Opacus and torch: `pip install 'dpledger[huggingface]'`.

Some of its arguments have another meaning here. A step draws each row by its own chance, `rate`, and takes what it drew
in pieces of `per_device_train_batch_size` rows. The noisy sum is divided by that number times
`gradient_accumulation_steps`, chosen without looking at the rows. `max_grad_norm` is what the gradient of a row is
clipped to. An epoch has `1 / rate` steps. Batches, noise and dropout come from the operating system, never from `seed`,
and no state of a generator is saved: with it, whoever reads a checkpoint would know the noise.

What `Trainer` tells of private rows is not told: its training loss, the norms of gradients, tokens, operations.
`eval_dataset` must be public: nothing here charges what is computed of it. Rows whose gradients are not finite count as
zero. What cannot be charged is refused by name before anything is spent (`refusals`), and so is a model
whose gradients are not those of single rows (`rows`).

>>> import tempfile, warnings, transformers
>>> warnings.filterwarnings("ignore", message="Secure RNG turned off|Full backward hook")
>>> from dpledger.accounting.guarantees import ApproxDP
>>> from dpledger.ledger.ledger import Ledger
>>> scope = Ledger.in_memory().scope("rows", unit="record", relation="add_remove", budget=ApproxDP(3, "0.000001"))
>>> model = transformers.BertForSequenceClassification(transformers.BertConfig(
...     vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8,
... ))
>>> rows = [{"input_ids": [row % 20, 1, 2], "label": row % 2} for row in range(40)]
>>> with tempfile.TemporaryDirectory() as folder:
...     args = transformers.TrainingArguments(
...         folder, max_steps=3, per_device_train_batch_size=8, use_cpu=True, report_to="none",
...         save_strategy="no", disable_tqdm=True, logging_strategy="no",
...     )
...     trainer = PrivateTrainer(
...         model, args, train_dataset=rows, scope=scope, rate="0.2", by="A. Smith", reason="the model of the study",
...     )
...     done = trainer.train()  # doctest: +ELLIPSIS
{'train_runtime': ...}
>>> trainer.run
<OpacusRun: 3 of 3 steps granted>
"""

from __future__ import annotations

import copy
import functools
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

from dpledger.attach.extras import extra
from dpledger.attach.huggingface.batches import (
    LABELS_EXPECTED,
    RUN_FILE,
    Pieces,
    alike,
    alone,
    are_padded,
    checkpoint,
    drawn,
    public_numbers,
    require_labels,
    stacked,
    steps_of,
    token_of,
)
from dpledger.attach.huggingface.quiet import SHOWN, QuietTrainer
from dpledger.attach.huggingface.refusals import (
    FULL_PRECISION,
    require_public,
    require_rows,
    require_supported,
    require_unpacked,
)
from dpledger.attach.huggingface.rows import (
    RowLosses,
    made_up_rows,
    of_lengths,
    one_by_one,
    rehearse,
    row_losses_of,
)
from dpledger.attach.opacus import OpacusRun, charging
from dpledger.attach.opacus.objects import forget_seeds, freshen, require_relation
from dpledger.decimals import Number, read, whole
from dpledger.errors import ChargeInProgress, ContractViolation, ParameterError, ScopeError
from dpledger.ledger.charging.takeovers import Resume
from dpledger.ledger.scope import Scope
from dpledger.mechanisms.callers import came_to
from dpledger.mechanisms.training.training_plans import TrainingPlan

with extra("huggingface"):
    import opacus
    import torch
    import transformers
    from transformers import TrainerCallback
    from transformers.trainer_utils import TrainOutput

__all__ = ["PrivateTrainer"]

_TRY = "which may tell of its rows (try both on made-up ones, in the form of yours: `example_rows`)"
EVALUATED = "what the model is evaluated on, and what callbacks and loggers are given, is public"


class PrivateTrainer(QuietTrainer):
    """A `Trainer` whose training is charged to `scope`: one run, whose steps are granted in blocks before they happen.

    `rate`: with which chance a step draws a row, chosen without looking at the rows. Required under add_remove; under
    zero_out, where neighbours share the number of rows, by default the batch size over that number.
    `noise_multiplier`, `tail_delta`: of a plan of your own (default: those of `plan`). `key`: under which it is charged
    once, and goes on. `grouped`: True declares that each row is everything of one unit. `row_losses`: a function of the
    model and a batch (a dictionary of tensors, of which the model is given all but the labels) to the loss of each row,
    for models that classify neither sequences nor tokens and predict no next one. `example_rows`: rows that are made
    up, in the form of `train_dataset`, on which gradients are tried, padding too where their lengths differ (default:
    random tokens or pixels). `data_collator`: is given one row at a time; rows of different lengths are padded here,
    and masked, where that changed no gradient of those. `by`, `reason`, `evidence`: as of `Scope.charging`. All else is
    as of `Trainer`.

    Claim: if the run is as its record's `assumes` says, it costs at most what is charged.
    Source: docs/proofs/dp_sgd.md, section 7; `attach.opacus.charging`.
    Raises ParameterError naming the argument, with nothing charged; RelationError under label_flip."""

    def __init__(
        self,
        model: Any,
        args: Any,
        data_collator: Callable[[list[Any]], Mapping[str, Any]] | None = None,
        train_dataset: Any = None,
        eval_dataset: Any = None,
        processing_class: Any = None,
        *,
        scope: Scope,
        by: str,
        reason: str,
        rate: Number | None = None,
        noise_multiplier: Number | None = None,
        tail_delta: Number | None = None,
        key: str | None = None,
        grouped: bool = False,
        evidence: str | os.PathLike[str] | None = None,
        row_losses: RowLosses | None = None,
        example_rows: Sequence[Any] | None = None,
        compute_metrics: Any = None,
        callbacks: Sequence[Any] = (),
        optimizers: tuple[Any, Any] = (None, None),
        optimizer_cls_and_kwargs: Any = None,
        preprocess_logits_for_metrics: Any = None,
    ) -> None:
        if not isinstance(scope, Scope):
            raise ParameterError("scope", type(scope).__name__, "a scope (see Ledger.scope)")
        require_relation(scope.relation)
        require_supported(args)
        require_unpacked(data_collator)
        require_public(eval_dataset, train_dataset)
        self._labelled = row_losses is None
        if self._labelled and data_collator is None:
            require_labels(train_dataset)
        self._physical = args.per_device_train_batch_size
        self._public = public_numbers(scope.relation, args, train_dataset, rate)
        self._steps = steps_of(args, self._public)
        self._scope, self._key, self._given = scope, key, (noise_multiplier, tail_delta)
        self._said: dict[str, Any] = {"by": by, "reason": reason, "evidence": evidence, "grouped": grouped}
        self._row_losses = row_losses_of(model) if row_losses is None else row_losses
        self._example_rows = example_rows
        self._clip_norm = args.max_grad_norm
        self._run: OpacusRun | None = None
        own = copy.copy(args)
        own.gradient_accumulation_steps, own.max_grad_norm, own.max_steps = 1, 0.0, self._steps
        own.ignore_data_skip = True  # batches are fresh: none is drawn again to skip it
        super().__init__(
            model,
            own,
            data_collator,
            train_dataset,
            eval_dataset,
            processing_class,
            compute_metrics=compute_metrics,
            callbacks=[*callbacks, _Charged(self)],
            optimizers=optimizers,
            optimizer_cls_and_kwargs=optimizer_cls_and_kwargs,
            preprocess_logits_for_metrics=preprocess_logits_for_metrics,
        )
        if self.accelerator.mixed_precision != "no":  # as `accelerate launch` has it, whatever the arguments say
            raise ParameterError("mixed_precision", self.accelerator.mixed_precision, f"'no': {FULL_PRECISION}")

    # ---- what is charged -------------------------------------------------------------------------------------------

    def plan(self) -> TrainingPlan:
        """The least noise with which the scope admits this training now; nothing is charged. Of a run that is charged
        under the key already: the noise that it was begun with. Raises as `Scope.plan_training` does."""
        trained = sum(one.numel() for one in self.model.parameters() if one.requires_grad)
        return self._scope.plan_training(
            rate=self._public.rate,
            steps=self._steps,
            expected_batch_size=self._divisor,
            dimension=max(1, trained),
            key=self._key,
        )

    @property
    def run(self) -> OpacusRun:
        """The run that is charged: its receipt, its token, what it comes to. ScopeError before it began."""
        if self._run is None:
            raise ScopeError("nothing is charged yet: `train` begins the run")
        return self._run

    @property
    def _divisor(self) -> int:
        return whole(self._public.divisor, field="expected_batch_size")

    def train(
        self,
        resume_from_checkpoint: str | os.PathLike[str] | bool | None = None,
        trial: None = None,
        ignore_keys_for_eval: list[str] | None = None,
    ) -> TrainOutput:
        """Train once, under one charge. The training loss of what comes back is NaN: it is private.

        `resume_from_checkpoint`: True begins the run under the key or goes on with it, from the last whole checkpoint
        of `output_dir` where there is one; a path goes on from that checkpoint. Steps that were granted and are not in
        the checkpoint, or of which there is none, are lost (`StepsLost`), and none runs twice.
        Raises, with nothing charged, ParameterError for a checkpoint without a token, and for a model whose gradients
        are not those of rows; the errors of `attach.opacus.charging`; AlreadySpent for a key whose run is over.
        In a step ContractViolation, with the run ended at its full charge, for losses or gradients that are not one for
        each row."""
        if self._run is not None:
            raise ParameterError("train", repr(self._run), "a trainer of its own for each run")
        if trial is not None:
            self.hyperparameter_search()
        self._checkpoint = checkpoint(resume_from_checkpoint, Path(self.args.output_dir))
        self._resume: Resume = bool(resume_from_checkpoint)
        if self._checkpoint is not None:
            self._resume = token_of(self._checkpoint)
        if self._resume and self._key is None:
            raise ParameterError("key", None, "the key under which the run was begun, or is to go on")
        try:
            with ExitStack() as self._open:
                done = super().train(
                    None if self._checkpoint is None else str(self._checkpoint),
                    ignore_keys_for_eval=ignore_keys_for_eval,
                )
        finally:
            if hasattr(self, "_hooks"):
                self._hooks.cleanup()
        metrics = {name: value for name, value in done.metrics.items() if name not in SHOWN}
        return TrainOutput(done.global_step, math.nan, metrics)

    def get_train_dataloader(self) -> Any:
        """Batches of rows, each drawn by its own chance, in pieces of `per_device_train_batch_size`: with it the
        optimizer is made private."""
        rows = require_rows(self.train_dataset)
        noise, self._tail_delta = self._noise()
        self.model.train()
        self.engine = opacus.PrivacyEngine(accountant="rdp")
        trained = super().create_optimizer()
        self._hooks, self.optimizer, _ = self.engine.make_private(
            module=self.model,
            optimizer=trained,
            data_loader=torch.utils.data.DataLoader(range(rows)),
            poisson_sampling=False,  # which is below, at the rate that is declared
            noise_multiplier=float(noise),
            max_grad_norm=self._clip_norm,
            noise_generator=freshen(torch.Generator(device=self.args.device)),
            wrap_model=False,
        )
        self._hooks.forbid_grad_accumulation()
        self._private, public = self.optimizer, self._public
        self._private.expected_batch_size = public.divisor
        self._private.attach_step_hook(self.engine.accountant.get_optimizer_hook_fn(sample_rate=public.sample_rate))
        self._losses, pads = self._rehearsed()
        pieces = Pieces(self._collator(), self._physical, pad_token=self._pad_token if pads else None)
        self._loader = drawn(self.train_dataset, pieces, public, self.args)
        return self._loader

    def _collator(self) -> Callable[[list[Any]], Mapping[str, Any]]:
        """What makes a batch of rows, without columns that the model does not take."""
        made: Callable[[list[Any]], Mapping[str, Any]]
        made = self._get_collator_with_removed_columns(self.data_collator, description="training")
        return made

    @property
    def _pad_token(self) -> int:
        return getattr(self.model.config, "pad_token_id", None) or 0

    def _rehearsed(self) -> tuple[RowLosses, bool]:
        """The losses of rows, and whether padding changed none of their gradients, tried on rows that are made up."""
        if self._example_rows is None:
            rows: Sequence[Any] = one_by_one(self._prepare_inputs(made_up_rows(self.model)))
            tries = [of_lengths(self.model, rows), rows]
        else:
            collate = self._collator()
            rows = [self._prepare_inputs(alone(collate, row)) for row in self._example_rows]
            tries = [max(alike(rows, padded=padded), key=len) for padded in (True, False)]
        longer, equal = tries
        if not are_padded(longer):
            return self._rehearsed_on(longer), False
        try:
            return self._rehearsed_on(longer), True
        except ParameterError:
            if len(equal) < 2:
                raise
        return self._rehearsed_on(equal), False

    def _rehearsed_on(self, rows: Sequence[Any]) -> RowLosses:
        batch = stacked(rows, pad_token=self._pad_token)
        return rehearse(self.model, self._private.params, self._row_losses, batch, rows)

    def _noise(self) -> tuple[Decimal, Number | None]:
        """The noise of the run and how its price is asked for: as given, as of the run that goes on, else by plan."""
        noise, tail_delta = self._given
        if noise is not None:
            return read(noise, field="noise_multiplier"), tail_delta
        plan = self.plan()
        return plan.noise_multiplier.exact, plan.tail_delta

    def _enter(self, state: Any) -> None:
        """Hold the charge, once model, optimizer and schedule are as the checkpoint has them; the steps that were
        granted before count as done."""
        run = charging(
            self._scope,
            self.engine,
            self.model,
            self._private,
            self._loader,
            steps=self._steps,
            rate=self._public.sample_rate,
            expected_batch_size=self._divisor,
            key=self._key,
            tail_delta=self._tail_delta,
            resume=self._resume,
            within=f"transformers {transformers.__version__}",
            assumes=EVALUATED,
            **self._said,
        )
        forget_seeds()
        try:
            self._open.enter_context(run)
        except ChargeInProgress as error:
            raise ChargeInProgress(f"{error}. Here `train(resume_from_checkpoint=True)` goes on with it") from error
        self._run, state.global_step = run, run.done

    # ---- a step ----------------------------------------------------------------------------------------------------

    def _run_epoch(self, **said: Any) -> None:
        """A pass, while steps of the plan are left."""
        if self.run.done < self._steps:
            super()._run_epoch(**said)

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:  # noqa: ARG002
        """The gradients of the rows of one step, in pieces that are clipped and added up; the step of the optimizer
        adds noise. What is returned is no loss, but zero: losses are private."""
        model.train()
        trained = self._private.params
        self._private.zero_grad()
        for piece in range(max(1, len(inputs))):
            if piece:
                self._private.signal_skip_step(do_skip=True)
                self._private.step()
                self._private.zero_grad()
            if inputs:
                found = came_to(functools.partial(self._wrong_of, model, *inputs[piece]))
                if found != (None,):
                    self._break(f"the model raised of a batch, {_TRY}" if found is None else str(found[0]))
            else:  # nobody was drawn
                for one in trained:
                    one.grad_sample = torch.zeros(0, *one.shape, dtype=one.dtype, device=one.device)
        self._private.signal_skip_step(do_skip=False)
        return torch.zeros((), device=self.args.device)

    def _wrong_of(self, model: Any, rows: int, piece: Mapping[str, Any] | None) -> str | None:
        """The gradients of the rows of a piece; what is wrong with it, or None."""
        if piece is None:
            return f"the collator raised of a batch, {_TRY}"
        if self._labelled and "labels" not in piece:
            return f"a batch has no labels (expected {LABELS_EXPECTED})"
        losses = self._losses(model, self._prepare_inputs(piece))
        if losses.shape != (rows,):
            return "the losses of a batch are not one for each row"
        losses.mean().backward()
        if any(len(one.grad_sample) != rows for one in self._private.params):
            return "the gradients of a batch are not one for each row"
        return None

    def _break(self, why: str) -> NoReturn:
        self.run.broke_off(why)
        raise ContractViolation(f"{why}: the run is closed, and the full charge stands")

    # ---- what is told, and kept -----------------------------------------------------------------------------------

    def num_examples(self, dataloader: Any) -> int:
        """Of the private rows an expected number: by what sums are divided, over the rate."""
        if dataloader is not getattr(self, "_loader", None):
            return int(super().num_examples(dataloader))
        return round(self._divisor / self._public.sample_rate)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        """And the token of the run, before the file that makes a checkpoint whole."""
        super()._save_optimizer_and_scheduler(output_dir)
        Path(output_dir, RUN_FILE).write_text(json.dumps(self.run.token()))


class _Charged(TrainerCallback):  # type: ignore[misc]
    """The charge of a trainer, held before its first step."""

    def __init__(self, trainer: PrivateTrainer) -> None:
        self._trainer = trainer

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        self._trainer._enter(state)
