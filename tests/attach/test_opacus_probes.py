"""Probes of set-ups of Opacus itself: a fault planted for each is found and named, and correct set-ups pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import opacus
import pytest
import torch
from opacus.optimizers import DPOptimizer
from opacus.utils.batch_memory_manager import wrap_data_loader
from torch.utils.data import DataLoader, RandomSampler, TensorDataset, WeightedRandomSampler

from dpledger.attach.opacus import probe
from dpledger.errors import ParameterError, RelationError

pytestmark = [
    pytest.mark.sliced,
    pytest.mark.filterwarnings("ignore:Secure RNG turned off"),
    pytest.mark.filterwarnings("ignore:Full backward hook is firing"),
]
ROWS, BATCH = 64, 8
PUBLIC: dict[str, Any] = {"relation": "add_remove", "rate": "0.125", "expected_batch_size": BATCH}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(14)
    yield
    torch.set_num_threads(before)


def rows_of(count: int = ROWS) -> Any:
    generator = torch.Generator().manual_seed(3)
    return TensorDataset(torch.randn(count, 3, generator=generator), torch.randn(count, 16, generator=generator))


def loader_of(rows: Any, **options: Any) -> Any:
    return DataLoader(rows, **{"batch_size": BATCH, **options})


def make(rows: Any, loader: Callable[[Any], Any] = loader_of, *, module: Any = None, **options: Any) -> Any:
    engine: Any = opacus.PrivacyEngine(accountant="rdp")
    model = torch.nn.Linear(3, 16) if module is None else module()
    made = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5),
        data_loader=loader(rows),
        **{"noise_multiplier": 2.0, "max_grad_norm": 0.5, **options},
    )
    return engine, *made


def step(model: Any, optimizer: Any, batch: Any) -> None:
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(batch[0]), batch[1]).backward()
    optimizer.step()


def patched(change: Callable[[Any, Any], None], **options: Any) -> Callable[[Any], Any]:
    """`make`, after which something of optimizer and engine is changed."""

    def made(rows: Any) -> Any:
        engine, model, optimizer, loader = make(rows, **options)
        change(engine, optimizer)
        return engine, model, optimizer, loader

    return made


# ---- faults ---------------------------------------------------------------------------------------------------------


def clips_the_batch(_: Any, optimizer: Any) -> None:
    def clip() -> None:
        total = [one.grad_sample.sum(dim=0) for one in optimizer.params]
        size = torch.sqrt(sum(one.square().sum() for one in total))
        for one, sum_of_rows in zip(optimizer.params, total, strict=True):
            one.summed_grad = sum_of_rows * (optimizer.max_grad_norm / size).clamp(max=1)

    optimizer.clip_and_accumulate = clip


def clips_to_more(_: Any, optimizer: Any) -> None:
    def clip() -> None:
        optimizer.max_grad_norm *= 1.25
        DPOptimizer.clip_and_accumulate(optimizer)
        optimizer.max_grad_norm /= 1.25

    optimizer.clip_and_accumulate = clip


def half_the_noise(_: Any, optimizer: Any) -> None:
    def add() -> None:
        optimizer.noise_multiplier /= 2
        DPOptimizer.add_noise(optimizer)
        optimizer.noise_multiplier *= 2

    optimizer.add_noise = add


def one_layer_without(_: Any, optimizer: Any) -> None:
    def add() -> None:
        DPOptimizer.add_noise(optimizer)
        optimizer.params[-1].grad = optimizer.params[-1].summed_grad.clone()

    optimizer.add_noise = add


def own_size(model: Any, optimizer: Any, batch: Any) -> None:
    optimizer.expected_batch_size = max(1, len(batch[0]))
    step(model, optimizer, batch)


def hook_lost(_: Any, optimizer: Any) -> None:
    optimizer.attach_step_hook(lambda _: None)


def fed_in_each_pass(engine: Any, optimizer: Any) -> None:
    def clip() -> None:
        DPOptimizer.clip_and_accumulate(optimizer)
        engine.accountant.step(noise_multiplier=2.0, sample_rate=0.125)

    optimizer.clip_and_accumulate = clip
    optimizer.attach_step_hook(lambda _: None)


def weighted(rows: Any) -> Any:
    weights = torch.where(torch.arange(len(rows)) < 10, 3.0, 1.0).tolist()
    return loader_of(rows, sampler=WeightedRandomSampler(weights, len(rows), replacement=False))


def higher_rate(rows: Any) -> Any:
    made = make(rows)
    made[-1].batch_sampler.sample_rate = 0.25
    return made


def shuffled(rows: Any) -> Any:
    return make(rows, lambda own: loader_of(own, shuffle=True), poisson_sampling=False)


def without_the_last(rows: Any) -> Any:
    options: dict[str, Any] = {"shuffle": True, "drop_last": True, "batch_size": 9}
    return make(rows, lambda own: loader_of(own, **options), poisson_sampling=False)


def drawn_again(rows: Any) -> Any:
    sampler = RandomSampler(rows, replacement=True, num_samples=ROWS)
    return make(rows, lambda own: loader_of(own, sampler=sampler), poisson_sampling=False)


DECLARED, AS_OPACUS = PUBLIC, {"relation": "zero_out"}
FAULTS: dict[str, tuple[str, Callable[[Any], Any], Callable[..., Any], dict[str, Any], str]] = {
    "the batch is clipped": ("clipping", patched(clips_the_batch), step, DECLARED, "per example|moves the sum by"),
    "a larger norm": ("clipping", patched(clips_to_more), step, DECLARED, "moves the sum by 1.25 clip norms"),
    "half the noise": ("noise", patched(half_the_noise), step, DECLARED, "where 2 are charged"),
    "a layer without noise": ("noise", patched(one_layer_without), step, DECLARED, "clip norms of noise"),
    "the batch's own size": ("divisor", make, own_size, DECLARED, "divided by a number that is"),
    "Opacus as it is": (
        "divisor",
        make,
        step,
        {"relation": "add_remove"},
        "follows the number of rows: 0.875 times",
    ),
    "shuffled": ("sampler", shuffled, step, AS_OPACUS, "8 rows, never another number"),
    "drop_last": ("sampler", without_the_last, step, AS_OPACUS, "9 rows, never another number: .*drop_last"),
    "weights": (
        "sampler",
        lambda rows: make(rows, weighted, poisson_sampling=False),
        step,
        AS_OPACUS,
        "8 rows, never another number",
    ),
    "drawn with replacement": ("sampler", drawn_again, step, AS_OPACUS, "drawn twice"),
    "a higher rate": ("sampler", higher_rate, step, AS_OPACUS, "rows are drawn at 0.2.*, and 0.125 is charged"),
    "the hook is lost": ("accountant", patched(hook_lost), step, DECLARED, "counted 0 steps"),
    "fed in each pass": ("accountant", patched(fed_in_each_pass), step, DECLARED, "after 3 updates .* counted 4"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_a_set_up_is_found_by_its_probe_alone(name: str) -> None:
    asked, made, own_step, options, match = FAULTS[name]
    report = probe(made, own_step, rows_of(), **options)
    assert report.faults == (asked,), str(report)
    assert_said(report.finding(asked).evidence, match)


def assert_said(evidence: str, match: str) -> None:
    with pytest.raises(AssertionError, match=match):
        raise AssertionError(evidence)


def alike(_: int) -> Any:
    return make(rows_of(), noise_generator=torch.Generator().manual_seed(5))


def nobody_s_seed(_: int) -> Any:
    """Every new generator of torch has the same one."""
    return make(rows_of(), noise_generator=torch.Generator())


def torch_s_own(_: int) -> Any:
    return make(rows_of())


def by_rank(rank: int) -> Any:
    return make(rows_of(), noise_generator=torch.Generator().manual_seed(5 + rank))


@pytest.mark.parametrize("ranks", [alike, nobody_s_seed])
def test_ranks_that_start_alike_are_found(ranks: Callable[[int], Any]) -> None:
    report = probe(make, step, rows_of(), ranks=ranks, **PUBLIC)
    assert report.faults == ("ranks",), str(report)
    assert_said(report.finding("ranks").evidence, "correlation 1")


# ---- correct set-ups ------------------------------------------------------------------------------------------------


def with_dropout() -> Any:
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Dropout(0.2), torch.nn.Linear(4, 16))


class Drawing(torch.nn.Module):  # type: ignore[misc]  # untyped
    """A layer that draws, and is no dropout."""

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return rows + 0.01 * torch.randn_like(rows)


def in_parts(rows: Any) -> Any:
    engine, model, optimizer, loader = make(rows)
    return engine, model, optimizer, wrap_data_loader(data_loader=loader, max_batch_size=4, optimizer=optimizer)


CORRECT: dict[str, Callable[[Any], Any]] = {
    "flat": make,
    "by layer": lambda rows: make(rows, clipping="per_layer", max_grad_norm=[0.5, 0.5]),
    "summed": lambda rows: make(rows, loss_reduction="sum"),
    "a generator": lambda rows: make(rows, noise_generator=torch.Generator().manual_seed(5)),
    "weights that make_private drops": lambda rows: make(rows, weighted),
}


@pytest.mark.parametrize("name", CORRECT)
def test_a_correct_set_up_has_no_fault(name: str) -> None:
    report = probe(CORRECT[name], step, rows_of(), ranks=by_rank, relation="zero_out")
    assert report.faults == (), str(report)


def test_a_declared_rate_and_batch_size_make_six_times_yes() -> None:
    report = probe(make, step, rows_of(), ranks=torch_s_own, **PUBLIC)
    assert all(one.answer == "yes" for one in report.findings), str(report)


def test_physical_batches_and_dropout_have_no_fault() -> None:
    assert probe(in_parts, step, rows_of(), relation="zero_out").faults == ()
    assert probe(lambda rows: make(rows, module=with_dropout), step, rows_of(), **PUBLIC).faults == ()


def test_a_model_that_draws_cannot_be_told_of() -> None:
    report = probe(
        lambda rows: make(rows, module=lambda: torch.nn.Sequential(Drawing(), torch.nn.Linear(3, 16))),
        step,
        rows_of(),
        **PUBLIC,
    )
    assert report.faults == ()
    assert {"clipping", "noise", "divisor"} <= set(report.unknown)


def test_a_probe_leaves_the_generator_of_torch_as_it_was() -> None:
    before = torch.get_rng_state()
    probe(make, step, rows_of(), relation="zero_out")
    assert torch.equal(before, torch.get_rng_state())


def test_what_is_no_set_up_is_refused() -> None:
    with pytest.raises(ParameterError, match="make"):
        probe(lambda rows: make(rows)[1:], step, rows_of(), **PUBLIC)
    with pytest.raises(ParameterError, match="made_up_rows"):
        probe(make, step, rows_of(5), **PUBLIC)
    with pytest.raises(ParameterError, match="rate"):
        probe(make, step, rows_of(), relation="add_remove", rate="0.1")
    with pytest.raises(ParameterError, match="exploding"):
        probe(make, step, torch.utils.data.Subset(rows_of(), range(20)), **PUBLIC)
    with pytest.raises(ParameterError, match=r"step.*no update"):
        probe(make, lambda model, optimizer, batch: None, rows_of(), **PUBLIC)
    with pytest.raises(RelationError, match="label_flip"):
        probe(make, step, rows_of(), relation="label_flip")
