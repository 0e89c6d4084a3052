"""Training with Lightning and Opacus in a ledger: what is charged, what is refused, what stops, and a run that goes on.
Against the library itself, on a model of ten weights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import opacus
import pytest
import pytorch_lightning as pl
import torch
from opacus.utils.batch_memory_manager import wrap_data_loader
from torch.utils.data import DataLoader, TensorDataset

from dpledger.accounting.guarantees import ApproxDP
from dpledger.attach.lightning import VALIDATED, ChargedTraining
from dpledger.errors import BudgetRefused, Halted, ParameterError, PolicyError, ScopeError, StepsLost
from dpledger.ledger.entries.bodies import Committed, Reserved
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.scope import Scope

pytestmark = [
    pytest.mark.filterwarnings("ignore:Secure RNG turned off"),
    pytest.mark.filterwarnings("ignore:Full backward hook is firing"),
    pytest.mark.filterwarnings("ignore:Optimal order is the largest alpha"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec"),
    pytest.mark.filterwarnings("ignore:You defined a `validation_step` but have no"),
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*dataloader is not resumable"),
    pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists"),
    pytest.mark.filterwarnings("ignore:.*but it is not resumable"),
]
PUBLIC: dict[str, Any] = {"rate": 1 / 6, "expected_batch_size": 10}
WHO: dict[str, Any] = {"by": "A. Smith", "reason": "the model of the study"}
OPENED = 2  # entries of a ledger with a scope: nothing was charged


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def book() -> Iterator[Ledger]:
    with Ledger.in_memory() as made:
        yield made


@pytest.fixture
def scope(book: Ledger) -> Scope:
    return book.scope("rows", unit="record", relation="add_remove", budget=ApproxDP(8, "1e-6"))


class Module(pl.LightningModule):  # type: ignore[misc]
    def __init__(self, model: Any, optimizer: Any) -> None:
        super().__init__()
        self.model, self.private = model, optimizer
        self.logs = self.dies_after = 0
        self.seen: list[list[float]] = []

    def training_step(self, batch: Any) -> Any:
        self.seen.append(batch[0][:, 0].tolist())
        loss = torch.nn.functional.cross_entropy(self.model(batch[0]), batch[1])
        if self.logs:
            self.log("train_loss", loss)
        return loss

    def on_train_batch_end(self, *_: Any) -> None:
        if self.dies_after and self.global_step == self.dies_after:
            raise OSError("the machine goes down")

    def validation_step(self, batch: Any) -> None:
        self.log("val_loss", torch.nn.functional.cross_entropy(self.model(batch[0]), batch[1]))

    def configure_optimizers(self) -> Any:
        return self.private


class Process:
    """What a script makes when it starts, its generators seeded as ever."""

    def __init__(self, rows: int = 60, seed: int = 14, workers: int = 0) -> None:
        torch.manual_seed(seed)
        x = torch.randn(rows, 4)
        self.public = DataLoader(TensorDataset(x[:6], (x[:6, 0] > 0).long()), batch_size=6)
        plain = torch.nn.Linear(4, 2)
        self.engine: Any = opacus.PrivacyEngine()
        made: Any = self.engine.make_private(
            module=plain,
            optimizer=torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.5),
            data_loader=DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), batch_size=10, num_workers=workers),
            noise_multiplier=4.0,
            max_grad_norm=1.0,
        )
        model, self.optimizer, self.loader = made
        self.module = Module(model, self.optimizer)

    def charged(self, scope: Scope, **more: Any) -> ChargedTraining:
        asked = {"steps": 8, "tail_delta": 0, **PUBLIC, **WHO, **more}
        return ChargedTraining(scope, self.engine, self.optimizer, self.loader, **asked)

    def weights(self) -> torch.Tensor:
        return torch.cat([one.detach().flatten() for one in self.module.parameters()])


def fit(charged: ChargedTraining, module: Module, *loaders: Any, ckpt: Any = None, **more: Any) -> Any:
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    callbacks = [charged, *more.pop("callbacks", [])]
    quiet["enable_checkpointing"] = len(callbacks) > 1
    trainer = pl.Trainer(**{"max_epochs": -1, **quiet, **more}, callbacks=callbacks)
    trainer.fit(module, *loaders, ckpt_path=ckpt)
    return trainer


def test_a_fit_is_charged_as_its_steps_and_stops_with_them(book: Ledger, scope: Scope) -> None:
    one = Process()
    charged = one.charged(scope)
    with pytest.raises(ScopeError, match="nothing is charged yet"):
        _ = charged.run
    trainer = fit(charged, one.module, one.loader, one.public)
    assert (trainer.global_step, charged.run.done, trainer.num_training_batches) == (8, 8, 6)
    assert set(trainer.callback_metrics) == {"val_loss"}
    body = charged.run.receipt.entry.body
    assert isinstance(body, Committed)
    assert body.parts.done == 8  # type: ignore[union-attr]
    [note] = [entry.body.mechanism for entry in book.entries() if isinstance(entry.body, Reserved)]
    assert note.library.startswith(f"lightning {pl.__version__}, opacus")
    assert str(note.parameters["assumes"]).endswith(VALIDATED)
    book.verify()
    with pytest.raises(ParameterError, match="a callback of its own for each run"):
        fit(charged, one.module, one.loader)


def test_epochs_and_steps_do_not_follow_the_number_of_rows(scope: Scope) -> None:
    """Of 60 rows Opacus makes six batches, of 61 seven."""
    for rows in (60, 61):
        one = Process(rows)
        charged = one.charged(scope)
        trainer = fit(charged, one.module, one.loader, max_epochs=1)
        assert trainer.num_training_batches == charged.run.done == 6


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_do_not_follow_the_seed_also_where_workers_draw_them_ahead(scope: Scope, workers: int) -> None:
    drawn: list[list[list[float]]] = []
    for _ in range(2):
        one = Process(workers=workers)
        fit(one.charged(scope, steps=3), one.module, one.loader)
        drawn.append(one.module.seen)
    assert all(here != there for here, there in zip(*drawn, strict=True))


def test_noise_does_not_follow_the_seed(scope: Scope) -> None:
    found = []
    for _ in range(2):
        one = Process()
        pl.seed_everything(7, verbose=False)
        fit(one.charged(scope, steps=1), one.module, one.loader)
        found.append(one.weights())
    assert not torch.equal(*found)


def test_a_training_that_logs_is_refused_with_nothing_charged(book: Ledger, scope: Scope) -> None:
    one = Process()
    before, one.module.logs = one.weights(), 1
    charged = one.charged(scope)
    with pytest.raises(Halted, match="the training logs train_loss, which comes from private rows"):
        fit(charged, one.module, one.loader)
    assert torch.equal(before, one.weights())
    assert [release.status for release in scope.releases()] == ["aborted"]
    later = Process()
    charged = later.charged(scope)

    class Later(pl.Callback):  # type: ignore[misc]
        def on_train_batch_start(self, trainer: Any, module: Any, *_: Any) -> None:
            module.logs = trainer.global_step == 3

    with pytest.raises(Halted, match="train_loss"):
        fit(charged, later.module, later.loader, callbacks=[Later()])
    assert charged.run.taken == 3
    with pytest.raises(PolicyError):
        charged.run.nothing_ran()
    assert [release.status for release in scope.releases()] == ["aborted", "committed"]


@pytest.mark.parametrize(
    ("named", "more"),
    [
        ("accumulate_grad_batches", {"accumulate_grad_batches": 2}),
        ("gradient_clip_val", {"gradient_clip_val": 1.0}),
        ("precision", {"precision": "bf16-mixed"}),
    ],
)
def test_a_trainer_that_cannot_be_charged_is_refused_by_name(
    book: Ledger, scope: Scope, named: str, more: dict[str, Any]
) -> None:
    one = Process()
    with pytest.raises(ParameterError, match=f"^{named}: "):
        fit(one.charged(scope), one.module, one.loader, **more)
    assert len(tuple(book.entries())) == OPENED


def test_what_else_cannot_be_charged_is_refused_by_name(book: Ledger, scope: Scope) -> None:
    one, another = Process(), Process()
    private = DataLoader(one.loader.dataset, batch_size=10)
    with pytest.raises(ParameterError, match=r"^optimizer: "):
        fit(one.charged(scope), another.module, one.loader)
    with pytest.raises(ParameterError, match=r"^loader: "):
        fit(one.charged(scope), one.module, another.loader)
    pieces = wrap_data_loader(data_loader=another.loader, max_batch_size=3, optimizer=another.optimizer)
    with pytest.raises(ParameterError, match=r"^loader: expected whole batches"):
        fit(
            ChargedTraining(scope, another.engine, another.optimizer, pieces, steps=8, **PUBLIC, **WHO),
            another.module,
            pieces,
        )
    with pytest.raises(ParameterError, match=r"^val_dataloaders: "):
        fit(one.charged(scope), one.module, one.loader, private, num_sanity_val_steps=0)
    with pytest.raises(ParameterError, match=r"^rate: "):
        fit(one.charged(scope, rate=None), one.module, one.loader)
    one.module.automatic_optimization = False
    with pytest.raises(ParameterError, match=r"^automatic_optimization: "):
        fit(one.charged(scope), one.module, one.loader)
    assert len(tuple(book.entries())) == OPENED
    third = Process()
    with pytest.raises(BudgetRefused):
        fit(third.charged(scope, steps=10_000), third.module, third.loader)


def _saves(folder: Path) -> Any:
    return pl.callbacks.ModelCheckpoint(folder, filename="{step}", every_n_train_steps=2, save_top_k=-1)


def test_a_run_goes_on_from_a_checkpoint_of_lightning(book: Ledger, scope: Scope, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"steps": 14, "key": "model", "resume": True}
    first = Process()
    first.module.dies_after = 7
    with pytest.raises(OSError, match="goes down"):
        fit(first.charged(scope, **asked), first.module, first.loader, callbacks=[_saves(tmp_path)])
    saved = tmp_path / "step=6.ckpt"
    second = Process(seed=15)
    with pytest.raises(ParameterError, match=r"^resume: "):
        fit(
            second.charged(scope, **{**asked, "resume": False}),
            second.module,
            second.loader,
            ckpt=saved,
            callbacks=[_saves(tmp_path)],
        )
    second = Process(seed=15)
    charged = second.charged(scope, **asked)
    with pytest.warns(StepsLost, match="has run 6 steps .* 7 of 14 are granted"):
        fit(charged, second.module, second.loader, ckpt=saved, callbacks=[_saves(tmp_path)])
    assert (charged.run.taken, charged.run.done) == (7, 14)
    assert [(one.status, one.granted) for one in scope.releases()] == [("committed", 14)]
    book.verify()


def test_a_run_of_which_all_steps_were_granted_ends_without_another(scope: Scope) -> None:
    asked: dict[str, Any] = {"steps": 3, "key": "model", "resume": True}
    first = Process()
    first.module.dies_after = 3
    with pytest.raises(OSError, match="goes down"):
        fit(first.charged(scope, **asked), first.module, first.loader)
    second = Process()
    before = second.weights()
    charged = second.charged(scope, **asked)
    with pytest.warns(StepsLost, match="has run 0 steps .* 3 of 3 are granted .* if there is a checkpoint"):
        fit(charged, second.module, second.loader)
    assert (charged.run.taken, charged.run.done) == (0, 3)
    assert torch.equal(before, second.weights())
    assert [one.status for one in scope.releases()] == ["committed"]


def test_a_module_whose_layers_keep_statistics_is_refused_with_nothing_charged(book: Ledger, scope: Scope) -> None:
    one = Process()
    one.module.normal = torch.nn.BatchNorm1d(2, affine=False)  # beside the private model, in the same checkpoint
    with pytest.raises(ParameterError, match=r"model: .*got normal, a BatchNorm1d that mixes the rows of a batch"):
        fit(one.charged(scope), one.module, one.loader)
    assert len(book) == OPENED


class OfPrivate(TensorDataset):  # type: ignore[misc]
    """Says when a row of it is read."""

    def __init__(self, rows: Any) -> None:
        super().__init__(*rows.tensors)
        self.read = 0

    def __getitem__(self, place: Any) -> Any:
        self.read += 1
        return super().__getitem__(place)


@pytest.mark.parametrize("sanity", [0, 2])
def test_what_has_private_rows_in_it_is_not_validated_on_and_not_read(book: Ledger, scope: Scope, sanity: int) -> None:
    one = Process()
    private = one.loader.dataset
    private.__class__, private.read = OfPrivate, 0
    for rows in (
        private,
        torch.utils.data.Subset(private, [1, 2]),
        torch.utils.data.ConcatDataset([one.public.dataset, torch.utils.data.Subset(private, [1])]),
    ):
        validated = DataLoader(rows, batch_size=2)
        with pytest.raises(ParameterError, match="val_dataloaders"):
            fit(one.charged(scope), one.module, one.loader, validated, num_sanity_val_steps=sanity)
    assert private.read == 0
    assert len(book) == OPENED
