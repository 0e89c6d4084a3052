"""The `Trainer` of Hugging Face, private: what a step does, what is charged, what is not told, what is refused, and a
run that goes on. Against the library itself, on models of some thousand weights that are made here."""

from __future__ import annotations

import gc
import json
import math
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from opacus.optimizers import DPOptimizer
from transformers import TrainerCallback, TrainingArguments

from dpledger.accounting.composition import PoissonSampled, Repeated
from dpledger.accounting.guarantees import ApproxDP
from dpledger.attach.huggingface import PrivateTrainer
from dpledger.attach.huggingface.batches import RUN_FILE, Pieces
from dpledger.attach.huggingface.rows import row_losses_of
from dpledger.attach.huggingface.trainer import EVALUATED
from dpledger.attach.opacus.objects import rate_at
from dpledger.decimals import text
from dpledger.errors import (
    AlreadySpent,
    BudgetRefused,
    ChargeInProgress,
    ContractViolation,
    Halted,
    InfeasiblePlan,
    ParameterError,
    RelationError,
    ScopeError,
    StepsLost,
)
from dpledger.ledger.entries.bodies import Committed, Reserved
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.scope import Scope
from dpledger.relations import Unit

pytestmark = [
    pytest.mark.sliced,
    pytest.mark.filterwarnings("ignore:Secure RNG turned off"),
    pytest.mark.filterwarnings("ignore:Full backward hook is firing"),
    pytest.mark.filterwarnings("ignore:Optimal order is the largest alpha"),
]
WHO: dict[str, Any] = {"by": "A. Smith", "reason": "the model of the study"}
RATE = 0.2
ADD_NOISE = DPOptimizer.add_noise
OPENED = 2  # entries of a ledger with a scope: nothing was charged
SMALL: dict[str, Any] = {
    "vocab_size": 30,
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
    "max_position_embeddings": 16,
}
ROWS = [{"input_ids": [row % 30, 3, row % 7], "label": row % 3} for row in range(40)]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True, scope="module")
def _collects_fast() -> Iterator[None]:
    """A `Trainer` collects garbage when it begins, through all modules of torch and transformers."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def book() -> Iterator[Ledger]:
    with Ledger.in_memory() as made:
        yield made


@pytest.fixture
def scope(book: Ledger) -> Scope:
    return scope_of(book)


def scope_of(book: Ledger, relation: str = "add_remove", epsilon: int = 8, unit: Unit | str = "record") -> Scope:
    return book.scope("rows", unit=unit, relation=relation, budget=ApproxDP(epsilon, "1e-6"))


def bert(**more: Any) -> Any:
    torch.manual_seed(3)
    return transformers.BertForSequenceClassification(transformers.BertConfig(**SMALL, num_labels=3, **more))


def gpt2(**more: Any) -> Any:
    torch.manual_seed(3)
    small = {"n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 16, "bos_token_id": 0, "eos_token_id": 0}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=30, **small, **more))


def arguments(folder: Path, **more: Any) -> TrainingArguments:
    quiet = {"use_cpu": True, "report_to": "none", "disable_tqdm": True, "save_strategy": "no"}
    sizes = {"max_steps": 4, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}
    return TrainingArguments(str(folder), **{**quiet, **sizes, **more})


def trainer_of(scope: Scope, folder: Path, model: Any = None, rows: Any = ROWS, **more: Any) -> PrivateTrainer:
    options = {name: more.pop(name) for name in list(more) if name in TrainingArguments.__dataclass_fields__}
    asked = {"rate": RATE, "noise_multiplier": 4, "tail_delta": 0, **WHO, **more}
    return PrivateTrainer(
        bert() if model is None else model, arguments(folder, **options), train_dataset=rows, scope=scope, **asked
    )


def weights(model: Any) -> torch.Tensor:
    return torch.cat([one.detach().flatten() for one in model.parameters()])


# ---- what is charged -------------------------------------------------------------------------------------------------


def test_a_training_is_planned_and_charged_as_its_steps(book: Ledger, scope: Scope, tmp_path: Path) -> None:
    trainer = trainer_of(scope, tmp_path, noise_multiplier=None, save_strategy="steps", save_steps=2, logging_steps=1)
    plan = trainer.plan()
    assert len(tuple(book.entries())) == OPENED
    with pytest.raises(ScopeError, match="nothing is charged yet"):
        _ = trainer.run
    done = trainer.train()
    assert done.global_step == 4
    assert math.isnan(done.training_loss)
    body = trainer.run.receipt.entry.body
    assert isinstance(body, Committed)
    assert isinstance(body.parts, Repeated)
    assert (replace(body.parts, done=None), body.parts.done) == (plan.parts(), 4)
    [note] = [entry.body.mechanism for entry in book.entries() if isinstance(entry.body, Reserved)]
    assert note.library.startswith(f"transformers {transformers.__version__}, opacus")
    assert str(note.parameters["assumes"]).endswith(EVALUATED)
    assert (note.parameters["expected_batch_size"], note.parameters["max_grad_norm"]) == ("8", "1.0")
    epsilons = trainer.run.epsilons("1e-6")
    assert epsilons.opacus is not None
    assert epsilons.opacus > epsilons.certified.upper
    book.verify()
    with pytest.raises(ParameterError, match="a trainer of its own"):
        trainer.train()
    again = transformers.BertForSequenceClassification.from_pretrained(tmp_path / "checkpoint-4")
    assert torch.equal(weights(again), weights(trainer.model))
    assert not hasattr(next(trainer.model.parameters()), "grad_sample")  # it is a model as any other


def test_epochs_are_counted_by_the_rate_and_not_by_the_rows(scope: Scope, tmp_path: Path) -> None:
    for rows in (ROWS, ROWS[:-1]):
        trainer = trainer_of(scope, tmp_path, rows=rows, max_steps=-1, num_train_epochs=1.5)
        assert trainer.plan().steps == 8  # 1.5 / 0.2, rounded up
        assert trainer.args.max_steps == 8
    trainer.train()
    assert trainer.run.done == 8
    assert trainer.num_examples(trainer.callback_handler.train_dataloader) == 40


def test_under_zero_out_the_rate_is_that_of_the_rows(book: Ledger, tmp_path: Path) -> None:
    trainer = trainer_of(scope_of(book, "zero_out"), tmp_path, rate=None)
    trainer.train()
    parts = trainer.run.receipt.entry.body.parts  # type: ignore[union-attr]
    assert isinstance(parts, Repeated)
    assert isinstance(parts.of, PoissonSampled)
    assert parts.of.rate == rate_at(8 / 40)


def test_a_noise_of_ones_own(scope: Scope, tmp_path: Path) -> None:
    trainer = trainer_of(scope, tmp_path, noise_multiplier=6, tail_delta=0)
    trainer.train()
    assert float(trainer.run.receipt.entry.body.parts.of.of.noise_multiplier) == 6  # type: ignore[union-attr]


def test_a_budget_that_is_too_small_is_told_before_anything_is_charged(book: Ledger, tmp_path: Path) -> None:
    scope = scope_of(book, epsilon=1)
    with pytest.raises(BudgetRefused):
        trainer_of(scope, tmp_path, noise_multiplier=0.5).train()
    scope.charge(ApproxDP("0.999", "5e-7"), relation="add_remove", **WHO)
    with pytest.raises(InfeasiblePlan):
        trainer_of(scope, tmp_path, noise_multiplier=None).train()
    assert not [one for one in scope.releases() if one.mechanism.kind == "opacus_dp_sgd"]


# ---- a step ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model_of", [bert, gpt2])
@pytest.mark.parametrize("most", [2, 100])
def test_a_step_sums_the_clipped_gradients_of_single_rows(
    scope: Scope, tmp_path: Path, model_of: Any, most: int
) -> None:
    """Against one pass for each row without Opacus, whatever the pieces are: of rows of different lengths, padded."""
    lengths = [3, 5, 2, 5, 4]
    if model_of is bert:
        rows = [
            {"input_ids": [4] * n + [0] * (5 - n), "attention_mask": [1] * n + [0] * (5 - n), "label": n % 3}
            for n in lengths
        ]
    else:
        rows = [{"input_ids": [4] * 5, "labels": [4] * n + [-100] * (5 - n)} for n in lengths]
    model = model_of()
    trainer = trainer_of(scope, tmp_path, model, rows, max_grad_norm=0.05, max_steps=1)
    trainer.get_train_dataloader()
    _without_dropout(model)
    optimizer = trainer.optimizer
    pieces = Pieces(trainer._collator(), most)(rows)
    model.train = lambda _=True: model
    trainer.training_step(model, pieces)
    optimizer.clip_and_accumulate()
    found = torch.cat([one.summed_grad.flatten() for one in model.parameters()])

    plain = model_of()
    _without_dropout(plain)
    expected = torch.zeros_like(found)
    for row in rows:
        batch = trainer._collator()([row])
        plain.zero_grad()
        plain(**batch).loss.backward()  # of one row alone, the loss of transformers
        gradient = torch.cat([one.grad.flatten() for one in plain.parameters()])
        expected += gradient * min(1, 0.05 / float(gradient.norm() + 1e-6))
    assert float((found - expected).norm()) < 1e-5
    assert float(found.norm()) > 0.01


def _without_dropout(model: Any) -> None:
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if hasattr(module, "config"):
            module.config.attention_probs_dropout_prob = 0.0
    model.eval()
    for module in model.modules():
        module.training = next(module.parameters(recurse=False), None) is not None


def test_steps_in_which_nobody_is_drawn_are_steps(scope: Scope, tmp_path: Path) -> None:
    model = bert()
    before = weights(model)
    trainer = trainer_of(scope, tmp_path, model, rate=1e-6, max_steps=3)
    trainer.train()
    assert trainer.run.taken == 3
    assert not torch.equal(before, weights(model))


class Begun(TrainerCallback):  # type: ignore[misc]
    """Whether the training has begun: before, losses are tried on made-up rows."""

    has_begun = False

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self.has_begun = True


def test_a_row_whose_gradient_is_not_finite_counts_as_zero(scope: Scope, tmp_path: Path) -> None:
    usual, training, odd_rows = row_losses_of(bert()), Begun(), 0

    def odd(model: Any, batch: Any) -> torch.Tensor:
        nonlocal odd_rows
        losses, is_odd = usual(model, batch), batch["labels"] == 2
        odd_rows += int(is_odd.sum()) * training.has_begun
        return losses * torch.where(is_odd, torch.nan, 1.0) if training.has_begun else losses

    model = bert()
    trainer = trainer_of(scope, tmp_path, model, row_losses=odd, max_steps=4)
    trainer.add_callback(training)
    before = weights(model)
    trainer.train()
    assert odd_rows > 0
    assert bool(weights(model).isfinite().all())
    assert not torch.equal(before, weights(model))


def test_batches_and_noise_do_not_follow_the_seed(book: Ledger, scope: Scope, tmp_path: Path) -> None:
    trained = []
    for key in ("one", "another"):
        model = bert()
        trainer_of(scope, tmp_path, model, rate=1e-6, key=key, seed=7, noise_multiplier=20, max_steps=1).train()
        trained.append(weights(model))
    assert not torch.equal(*trained)


class Seeds(TrainerCallback):  # type: ignore[misc]
    """What the generators that everybody shares would draw next, when a step begins."""

    def __init__(self) -> None:
        self.drawn: list[tuple[float, float, float]] = []

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.drawn.append((random.random(), float(np.random.rand()), float(torch.rand(()))))


def test_masks_of_dropout_do_not_follow_the_seed(scope: Scope, tmp_path: Path) -> None:
    """With a seed that is known, a row more would change the masks of those behind it in a batch."""
    both = [Seeds(), Seeds()]
    for seeds in both:
        trainer_of(scope, tmp_path, callbacks=[seeds], seed=7, noise_multiplier=20, max_steps=1).train()
    [[one], [another]] = [seeds.drawn for seeds in both]
    assert all(left != right for left, right in zip(one, another, strict=True))


def test_losses_that_are_not_one_a_row_end_the_run_at_its_full_charge(scope: Scope, tmp_path: Path) -> None:
    usual = row_losses_of(bert())

    def of_large_batches(model: Any, batch: Any) -> torch.Tensor:
        losses = usual(model, batch)
        return losses if len(losses) < 4 else losses[:1]  # the rehearsal has three rows

    trainer = trainer_of(scope, tmp_path, row_losses=of_large_batches, rate=1)
    with pytest.raises(ContractViolation, match="not one for each row"):
        trainer.train()
    [release] = scope.releases()
    assert release.outside_guarantee


def test_rows_whose_columns_hold_no_labels_are_refused_before_anything_is_charged(
    book: Ledger, scope: Scope, tmp_path: Path
) -> None:
    class Named(list[Any]):
        column_names = ("input_ids",)

    with pytest.raises(ParameterError, match="train_dataset: expected rows with a column 'label'"):
        trainer_of(scope, tmp_path, rows=Named({"input_ids": [1, 2, 3]} for _ in range(40)))
    assert len(book.entries()) == OPENED


def test_a_batch_without_labels_ends_the_run_at_its_full_charge(scope: Scope, tmp_path: Path) -> None:
    trainer = trainer_of(scope, tmp_path, rows=[{"input_ids": [1, 2, 3]} for _ in range(40)], rate=1)
    with pytest.raises(ContractViolation, match="a batch has no labels"):
        trainer.train()
    [release] = scope.releases()
    assert release.outside_guarantee


# ---- what is not told ------------------------------------------------------------------------------------------------


class Heard(TrainerCallback):  # type: ignore[misc]
    def __init__(self) -> None:
        self.told: list[dict[str, float]] = []

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        self.told.append(dict(logs))


def test_nothing_of_private_rows_is_logged_or_saved(scope: Scope, tmp_path: Path) -> None:
    """The twin, a `Trainer`, tells its loss, the norms of its gradients, operations, and the state of its generator."""
    folders = {}
    for kind in (PrivateTrainer, transformers.Trainer):
        heard, folder = Heard(), tmp_path / kind.__name__
        more = {"scope": scope, "rate": RATE, **WHO} if kind is PrivateTrainer else {}
        args = arguments(folder, save_strategy="steps", save_steps=2, logging_steps=1)
        kind(bert(), args, train_dataset=ROWS, callbacks=[heard], **more).train()
        state = json.loads((folder / "checkpoint-4" / "trainer_state.json").read_text())
        names = {name for one in [*heard.told, *state["log_history"]] for name in one}
        files = {path.name for path in (folder / "checkpoint-4").iterdir()}
        folders[kind] = (names & {"loss", "grad_norm", "train_loss"}, state["total_flos"] > 0, "rng_state.pth" in files)
    assert folders[transformers.Trainer] == ({"loss", "grad_norm", "train_loss"}, True, True)
    assert folders[PrivateTrainer] == (set(), False, False)


def test_it_is_evaluated_on_public_rows_alone(scope: Scope, tmp_path: Path) -> None:
    public = [{"input_ids": [row % 30, 5, 5], "label": row % 3} for row in range(6)]
    trainer = trainer_of(scope, tmp_path, eval_dataset=public, eval_strategy="steps", eval_steps=2)
    trainer.train()
    assert sum("eval_loss" in one for one in trainer.state.log_history) == 2
    assert trainer.evaluate()["eval_loss"] > 0
    assert len(trainer.predict(public).predictions) == 6
    part = torch.utils.data.Subset(ROWS, range(3))
    for private in (ROWS, part, {"some": part}):
        with pytest.raises(ParameterError, match="eval_dataset: expected public rows"):
            trainer.evaluate(private)
    with pytest.raises(ParameterError, match="expected public rows"):
        trainer.predict(ROWS)
    with pytest.raises(ParameterError, match="expected public rows"):
        trainer_of(scope, tmp_path, eval_dataset=ROWS)
    for named in ({"eval": ROWS}, torch.utils.data.ConcatDataset([ROWS[:2], torch.utils.data.Subset(ROWS, [1])])):
        with pytest.raises(ParameterError, match="expected public rows"):
            trainer_of(scope, tmp_path, eval_dataset=named)
    with pytest.raises(ParameterError, match="private_search"):
        trainer.hyperparameter_search()


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"label_smoothing_factor": 0.1}, "label_smoothing_factor"),
        ({"train_sampling_strategy": "group_by_length"}, "train_sampling_strategy"),
        ({"dataloader_drop_last": True}, "dataloader_drop_last"),
        ({"auto_find_batch_size": True}, "auto_find_batch_size"),
        ({"bf16": True}, "bf16"),
        ({"activation_checkpointing": True}, "activation_checkpointing"),
        ({"neftune_noise_alpha": 1.0}, "neftune_noise_alpha"),
        ({"include_num_input_tokens_seen": "all"}, "include_num_input_tokens_seen"),
        ({"skip_memory_metrics": False}, "skip_memory_metrics"),
        ({"optim": "lomo"}, "optim"),
        ({"max_grad_norm": 0.0}, "max_grad_norm"),
        ({"rate": None}, "rate"),
        ({"rate": 1.5}, "rate"),
        ({"rows": []}, "train_dataset"),
        ({"rows": iter(ROWS)}, "train_dataset"),
        ({"data_collator": transformers.DataCollatorWithFlattening()}, "data_collator"),
        ({"model": transformers.BertModel(transformers.BertConfig(**SMALL))}, "model"),
    ],
)
def test_what_cannot_be_charged_is_refused_by_name(
    book: Ledger, scope: Scope, tmp_path: Path, asked: dict[str, Any], named: str
) -> None:
    with pytest.raises(ParameterError, match=f"^{named}: "):
        trainer_of(scope, tmp_path, **asked)
    assert len(tuple(book.entries())) == OPENED


def test_several_devices_and_a_scaler_are_refused(scope: Scope, tmp_path: Path) -> None:
    for name, value in {"_n_gpu": 2, "fp16": True, "deepspeed": {"stage": 2}}.items():
        args = arguments(tmp_path)
        args.__dict__[name] = value
        with pytest.raises(ParameterError, match=f"^{name.lstrip('_')}: "):
            PrivateTrainer(bert(), args, train_dataset=ROWS, scope=scope, rate=RATE, **WHO)


def test_half_precision_that_the_launcher_asks_for_is_refused(
    book: Ledger, scope: Scope, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`accelerate launch --mixed_precision bf16`, of which the arguments know nothing."""
    state = type(trainer_of(scope, tmp_path).accelerator.state)  # which a process has once
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    state._reset_state(True)
    try:
        with pytest.raises(ParameterError, match=r"^mixed_precision: expected 'no': .*got bf16"):
            trainer_of(scope, tmp_path)
    finally:
        state._reset_state(True)
    assert len(tuple(book.entries())) == OPENED


def test_other_relations_and_units_of_many_rows_are_refused(book: Ledger, tmp_path: Path) -> None:
    with pytest.raises(RelationError):
        trainer_of(scope_of(book, "label_flip"), tmp_path)
    many = book.scope("many", unit=Unit("user", 3), relation="add_remove", budget=ApproxDP(8, "1e-6"))
    with pytest.raises(ParameterError, match=r"^grouped: (?!.*by_row)"):  # which it does not take
        trainer_of(many, tmp_path).train()
    trainer_of(many, tmp_path, grouped=True).train()


def _means_over_all_tokens(model: Any, batch: Any) -> torch.Tensor:
    """As transformers has it: every loss is over the number of tokens of the batch."""
    logits = model(**batch).logits[:, :-1]
    losses = torch.nn.functional.cross_entropy(logits.transpose(1, 2), batch["labels"][:, 1:], reduction="none")
    return losses.sum(1) / losses.numel()


@pytest.mark.parametrize(
    ("model", "more", "why"),
    [
        (gpt2, {"row_losses": _means_over_all_tokens}, "changes with the rest of its batch"),
        (gpt2, {"row_losses": lambda model, batch: model(**batch).loss}, "losses of shape"),
        (lambda: transformers.BertForMaskedLM(transformers.BertConfig(**SMALL)), {}, "takes apart by rows"),
        (
            lambda: transformers.BertForTokenClassification(transformers.BertConfig(**SMALL)),
            {
                "row_losses": lambda model, batch: (
                    model(**batch, output_hidden_states=True).hidden_states[-1].square().mean((1, 2))
                )
            },
            "classifier.weight has no gradient: freeze it",
        ),
    ],
)
def test_a_model_whose_gradients_are_not_of_rows_is_refused_before_it_trains(
    book: Ledger, scope: Scope, tmp_path: Path, model: Any, more: dict[str, Any], why: str
) -> None:
    rows = [{"input_ids": [3, 4, 5], "labels": [3, 4, 5]}] * 20
    with pytest.raises(ParameterError, match=why):
        trainer_of(scope, tmp_path, model(), rows, **more).train()
    assert len(tuple(book.entries())) == OPENED


class Centred(torch.nn.Module):  # type: ignore[misc]
    """It acts in training alone, as dropout does, and mixes rows."""

    def forward(self, rows: Any) -> Any:
        return rows - rows.mean(0) if self.training else rows


@pytest.mark.parametrize(
    ("layer", "match"),
    [(torch.nn.BatchNorm1d(8, affine=False), "running_mean keeps"), (Centred(), "in training, with the rest")],
    ids=["batch norm", "centred"],
)
def test_a_layer_without_weights_that_mixes_rows_in_training_is_refused(
    scope: Scope, tmp_path: Path, layer: Any, match: str
) -> None:
    model = bert()
    model.dropout = layer
    with pytest.raises(ParameterError, match=match):
        trainer_of(scope, tmp_path, model).train()
    assert scope.spent(delta="1e-6").upper == 0


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_row_moves_a_sum_by_its_own_gradient_whichever_side_is_padded(
    scope: Scope, tmp_path: Path, side: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Positions are counted from the first token of a row, and padding predicts nothing."""

    def collated(rows: list[Any]) -> dict[str, torch.Tensor]:
        most = max(len(row["input_ids"]) for row in rows)
        padded: dict[str, list[list[int]]] = {"input_ids": [], "attention_mask": [], "labels": []}
        for row in rows:
            tokens, missing = row["input_ids"], most - len(row["input_ids"])
            for name, said, filled in (
                ("input_ids", tokens, 0),
                ("attention_mask", [1] * len(tokens), 0),
                ("labels", tokens, -100),
            ):
                padded[name].append([filled] * missing + said if side == "left" else said + [filled] * missing)
        return {name: torch.tensor(found) for name, found in padded.items()}

    sums: list[torch.Tensor] = []

    def add_noise(optimizer: Any) -> None:
        sums.append(torch.cat([one.summed_grad.flatten() for one in optimizer.params]))
        ADD_NOISE(optimizer)

    monkeypatch.setattr(DPOptimizer, "add_noise", add_noise)
    rows = [{"input_ids": [3, row % 20 + 4, 7]} for row in range(20)]
    examples = [{"input_ids": [3, 5, 7]}, {"input_ids": [3, 5, 7, 9, 11]}, {"input_ids": [8, 8]}]
    for data in (rows, [*rows, {"input_ids": list(range(2, 14))}]):
        model = gpt2(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
        asked = {"data_collator": collated, "example_rows": examples, "rate": 1, "max_steps": 1}
        sizes = {"per_device_train_batch_size": 32, "gradient_accumulation_steps": 1, "max_grad_norm": 0.1}
        trainer_of(
            scope, tmp_path, model, data, noise_multiplier=50, remove_unused_columns=False, **asked, **sizes
        ).train()
    assert float((sums[0] - sums[1]).norm()) <= 0.1 * (1 + 1e-4)


@pytest.mark.parametrize("odd", [[7, 99, 2], ["a word", 9, 2]], ids=["model", "collator"])
def test_a_row_of_which_model_or_collator_raises_ends_the_run_outside_of_its_guarantee(
    scope: Scope, tmp_path: Path, odd: list[Any]
) -> None:
    trainer = trainer_of(scope, tmp_path, rows=[*ROWS, {"input_ids": odd, "label": 0}], rate=1)
    with pytest.raises(ContractViolation, match="raised of a batch") as raised:
        trainer.train()
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None
    assert [one.outside_guarantee for one in scope.releases()] == [True]


def _unmasked(rows: list[Any]) -> dict[str, torch.Tensor]:
    """A collator that pads and does not say where."""
    longest = max(len(row["input_ids"]) for row in rows)
    ids = [row["input_ids"] + [0] * (longest - len(row["input_ids"])) for row in rows]
    return {"input_ids": torch.tensor(ids), "labels": torch.tensor([row["label"] for row in rows])}


def _mixed_up(rows: list[Any]) -> dict[str, torch.Tensor]:
    """A collator that gives each row the label of the first one."""
    return _unmasked([{**row, "label": rows[0]["label"]} for row in rows])


def _deaf_to_masks(model: Any, batch: Any) -> torch.Tensor:
    heard = {name: value for name, value in batch.items() if name not in ("labels", "attention_mask")}
    return torch.nn.functional.cross_entropy(model(**heard).logits, batch["labels"], reduction="none")


def _ratings(**more: Any) -> Any:
    torch.manual_seed(3)
    return transformers.BertForSequenceClassification(transformers.BertConfig(**SMALL, num_labels=1, **more))


LONG, PLAIN = {"input_ids": list(range(2, 14)), "label": 1}, {"input_ids": [3, 5, 7], "label": 2}
SHORT = [{"input_ids": [3, row % 20 + 4, 7], "label": row % 3} for row in range(20)]


@pytest.mark.parametrize(
    ("model", "rows", "more", "asked"),
    [
        (bert, SHORT, LONG, {"data_collator": _unmasked}),
        (bert, SHORT, LONG, {"data_collator": _unmasked, "example_rows": [PLAIN, LONG]}),
        (bert, SHORT, LONG, {"data_collator": _unmasked, "example_rows": [PLAIN, PLAIN]}),
        (bert, SHORT, LONG, {"data_collator": _unmasked, "row_losses": _deaf_to_masks}),
        (bert, SHORT, PLAIN, {"data_collator": _mixed_up}),
        (_ratings, [{**row, "label": 0.75} for row in SHORT], {**PLAIN, "label": 0}, {}),
    ],
    ids=["unmasked", "of lengths", "of one length", "deaf to masks", "mixed up", "floats beside whole numbers"],
)
def test_a_row_more_moves_a_sum_by_its_own_gradient_whatever_the_collator_makes_of_rows_together(
    scope: Scope, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: Any, rows: Any, more: Any, asked: Any
) -> None:
    """The default collator of transformers reads all labels as the first one is: behind a whole number, whole ones."""
    sums: list[torch.Tensor] = []

    def add_noise(optimizer: Any) -> None:
        sums.append(torch.cat([one.summed_grad.flatten() for one in optimizer.params]))
        ADD_NOISE(optimizer)

    monkeypatch.setattr(DPOptimizer, "add_noise", add_noise)
    off = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    sizes = {"per_device_train_batch_size": 32, "gradient_accumulation_steps": 1, "max_grad_norm": 0.1}
    said = {"rate": 1, "max_steps": 1, "noise_multiplier": 50, "remove_unused_columns": False, **sizes, **asked}
    for data in (rows, [more, *rows]):
        trainer_of(scope, tmp_path, model(**off), data, **said).train()
    assert float((sums[0] - sums[1]).norm()) <= 0.1 * (1 + 1e-4)


def test_rows_are_padded_where_that_changes_nothing_and_else_taken_apart(scope: Scope, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"data_collator": _unmasked, "remove_unused_columns": False}
    for more, sizes in (({}, [4]), ({"row_losses": _deaf_to_masks}, [2, 2])):
        trainer = trainer_of(scope, tmp_path, rows=SHORT, **asked, **more)
        pieces = trainer.get_train_dataloader().collate_fn([PLAIN, LONG, PLAIN, LONG])
        trainer._hooks.cleanup()
        assert [size for size, _ in pieces] == sizes
        assert ("attention_mask" in pieces[0][1]) is (sizes == [4])


def test_a_collator_that_draws_from_a_seed_of_its_own_is_refused(scope: Scope, tmp_path: Path) -> None:
    """A row more would give those behind it other masks, which everybody knows who knows the seed."""
    collator = SimpleNamespace(seed=3)
    with pytest.raises(ParameterError, match=r"^data_collator: .*from the operating system.*seed 3"):
        trainer_of(scope, tmp_path, data_collator=collator)


@pytest.mark.parametrize(
    ("model", "label"),
    [
        (lambda: transformers.BertForSequenceClassification(transformers.BertConfig(**SMALL, num_labels=1)), 0.5),
        (lambda: bert(problem_type="multi_label_classification"), [1.0, 0.0, 1.0]),
        (lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL)), [1, 2, 3]),
        (lambda: transformers.BertForTokenClassification(transformers.BertConfig(**SMALL)), [1, 0, -100]),
    ],
)
def test_other_kinds_of_models_train(scope: Scope, tmp_path: Path, model: Any, label: Any) -> None:
    name = "labels" if isinstance(label, list) else "label"
    trainer = trainer_of(scope, tmp_path, model(), [{"input_ids": [1, 2, 3], name: label}] * 20)
    trainer.train()
    assert trainer.run.done == 4


# ---- a run that goes on ----------------------------------------------------------------------------------------------


class Dies(TrainerCallback):  # type: ignore[misc]
    def __init__(self, after: int) -> None:
        self._after = after

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == self._after:
            raise OSError("the machine goes down")


def test_a_run_goes_on_from_the_last_whole_checkpoint(book: Ledger, scope: Scope, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"save_strategy": "steps", "save_steps": 2, "key": "model", "max_steps": 12}
    first = trainer_of(scope, tmp_path, callbacks=[Dies(5)], **asked)
    with pytest.raises(OSError, match="goes down"):
        first.train(resume_from_checkpoint=True)
    torn = tmp_path / "checkpoint-8"
    torn.mkdir()
    (torn / RUN_FILE).write_text("{")  # the process died before it was whole
    with pytest.raises(ChargeInProgress, match=r"train\(resume_from_checkpoint=True\)"):
        trainer_of(scope, tmp_path, **asked).train()
    second = trainer_of(scope, tmp_path, **asked)
    with pytest.warns(StepsLost, match="has run 4 steps .* 5 of 12 are granted"):
        done = second.train(resume_from_checkpoint=True)
    assert done.global_step == 12
    assert (second.run.taken, second.run.done) == (7, 12)
    assert [(one.status, one.granted) for one in scope.releases()] == [("committed", 12)]
    assert json.loads((tmp_path / "checkpoint-12" / RUN_FILE).read_text())["step"] == 12
    with pytest.raises(AlreadySpent):
        trainer_of(scope, tmp_path / "elsewhere", **asked).train()
    book.verify()


def test_a_run_that_died_before_its_first_checkpoint_begins_again_with_what_is_left(
    scope: Scope, tmp_path: Path
) -> None:
    first = trainer_of(scope, tmp_path, callbacks=[Dies(1)], key="model", max_steps=3, noise_multiplier=None)
    with pytest.raises(OSError, match="goes down"):
        first.train(resume_from_checkpoint=True)
    second = trainer_of(scope, tmp_path, key="model", max_steps=3, noise_multiplier=None)
    [charged] = scope.releases()
    assert text(second.plan().noise_multiplier.exact) == charged.mechanism.parameters["noise_multiplier"]
    assert second.plan().tail_delta == charged.tail_delta
    with pytest.warns(StepsLost, match="has run 0 steps .* 1 of 3 are granted .* if there is a checkpoint"):
        second.train(resume_from_checkpoint=True)
    assert (second.run.taken, second.run.done) == (2, 3)


def test_a_run_of_which_all_steps_were_granted_ends_without_another(scope: Scope, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"save_strategy": "steps", "save_steps": 1, "key": "model", "max_steps": 3}
    with pytest.raises(OSError, match="goes down"):
        trainer_of(scope, tmp_path, callbacks=[Dies(3)], **asked).train(resume_from_checkpoint=True)
    last = trainer_of(scope, tmp_path, **asked)
    with pytest.warns(StepsLost):
        last.train(resume_from_checkpoint=True)
    assert (last.run.taken, last.run.done) == (0, 3)
    assert [one.status for one in scope.releases()] == ["committed"]


def test_a_run_goes_on_by_its_token_and_under_its_key(scope: Scope, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="without a token"):
        trainer_of(scope, tmp_path, key="model").train(resume_from_checkpoint=tmp_path)
    (tmp_path / RUN_FILE).write_text("{")
    with pytest.raises(ParameterError, match="a checkpoint whose token is damaged"):
        trainer_of(scope, tmp_path, key="model").train(resume_from_checkpoint=tmp_path)
    with pytest.raises(ParameterError, match=r"^key: "):
        trainer_of(scope, tmp_path).train(resume_from_checkpoint=True)


def test_a_step_beyond_the_plan_is_refused(scope: Scope, tmp_path: Path) -> None:
    trainer = trainer_of(scope, tmp_path)
    trainer.train()
    with pytest.raises(Halted, match="the run is over"):
        trainer._private.add_noise()
