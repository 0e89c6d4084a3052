"""Losses and gradients of single rows, for models of Hugging Face: what its `Trainer` does not compute.

Its losses are means over all tokens of a batch, so that a long row makes the gradients of the others smaller: clipping
does not bound that. Here a row has a loss of its own: of a row of tokens, the mean over its tokens. Whether gradients
are of single rows is tried on made-up ones, before anything is spent: models of which position embeddings are summed
over the batch, or whose layers Opacus cannot take apart, show there.

>>> logits = torch.zeros(2, 3, 4)
>>> of_tokens(logits, torch.tensor([[0, 1, 2], [3, -100, -100]]))
tensor([1.3863, 1.3863])
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from dpledger.attach.extras import extra
from dpledger.attach.opacus.layers import LayerState
from dpledger.errors import ParameterError

with extra("huggingface"):
    import torch

__all__ = [
    "IGNORED",
    "Batch",
    "RowLosses",
    "clear",
    "made_up_rows",
    "of_lengths",
    "of_tokens",
    "one_by_one",
    "rehearse",
    "row_losses_of",
    "with_positions",
]

Batch: TypeAlias = Mapping[str, torch.Tensor]
RowLosses: TypeAlias = Callable[[torch.nn.Module, Batch], torch.Tensor]
"""The loss of each row of a batch, float[rows], which depends on that row alone."""

IGNORED = -100  # the label of a token that has no loss, as transformers has it
_SEQUENCES = frozenset(
    {"ForSequenceClassification", "ForImageClassification", "ForVideoClassification", "ForAudioClassification"}
)
_TOKENS = frozenset({"ForTokenClassification", "ForMaskedLM"})
_CLOSE = 1e-4  # relative, between sums of float32 in two orders
_ROWS, _LENGTH = 3, 6  # of what is made up
_OF_ONE_ROW = "one whose gradients of a row depend on that row alone, and which keeps nothing else of rows"


def row_losses_of(model: torch.nn.Module) -> RowLosses:
    """The loss of a row as the loss of transformers for this kind of model has it, of a batch of that row alone.

    ParameterError for a model of another kind, which needs `row_losses=`."""
    kind = _kind_of(model)
    if kind in _SEQUENCES:
        return _of_sequences
    if kind in _TOKENS:
        return lambda model, batch: of_tokens(_logits(model, batch), batch["labels"])
    if kind == "ForCausalLM":
        return _of_next_tokens
    expected = (
        "row_losses=, a function of the model and a batch to the loss of each row: this kind of model has none here"
    )
    raise ParameterError("model", type(model).__name__, expected)


def of_tokens(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The mean cross entropy of each row of `logits`, float[rows, tokens, classes], over the tokens of that row that
    have a label, int[rows, tokens]; 0 of a row that has none."""
    losses = torch.nn.functional.cross_entropy(logits.transpose(1, 2), labels, ignore_index=IGNORED, reduction="none")
    return losses.sum(1) / labels.ne(IGNORED).sum(1).clamp(min=1)


def _of_next_tokens(model: torch.nn.Module, batch: Batch) -> torch.Tensor:
    """Of each token but the first one, whether that stands behind padding or not."""
    following, mask = batch["labels"][:, 1:], batch.get("attention_mask")
    if mask is not None:
        following = following.masked_fill(mask[:, :-1] == 0, IGNORED)
    return of_tokens(_logits(model, batch)[:, :-1], following)


def _of_sequences(model: torch.nn.Module, batch: Batch) -> torch.Tensor:
    logits, labels = _logits(model, batch), batch["labels"]
    match _problem_of(model):
        case "regression":
            return (logits - labels.view(logits.shape)).square().mean(1)
        case "multi_label_classification":
            losses = torch.nn.functional.binary_cross_entropy_with_logits(
                logits, labels.to(logits.dtype), reduction="none"
            )
            return losses.mean(1)
        case _:
            return torch.nn.functional.cross_entropy(logits, labels.view(-1), reduction="none")


def _logits(model: torch.nn.Module, batch: Batch) -> torch.Tensor:
    found: torch.Tensor = model(**{name: value for name, value in batch.items() if name != "labels"}).logits
    return found


def _kind_of(model: Any) -> str | None:
    name = type(model).__name__
    return "ForCausalLM" if name.endswith("LMHeadModel") else getattr(model, "loss_type", None)


def _problem_of(model: Any) -> str:
    """What the labels of a classifier are: as its configuration says, never as the labels of a batch look."""
    said = model.config.problem_type
    return str(said) if said else "regression" if model.config.num_labels == 1 else "single_label_classification"


def made_up_rows(model: Any) -> dict[str, torch.Tensor]:
    """A batch for a model of tokens or of pixels, of which no row is anybody's. ParameterError for other models."""
    config, by = model.config, torch.Generator().manual_seed(0)
    batch: dict[str, torch.Tensor] = {}
    if model.main_input_name == "input_ids":
        batch["input_ids"] = torch.randint(config.vocab_size, (_ROWS, _LENGTH), generator=by)
        batch["attention_mask"] = torch.ones_like(batch["input_ids"])
    elif model.main_input_name == "pixel_values" and isinstance(config.image_size, int):
        shape = (_ROWS, config.num_channels, config.image_size, config.image_size)
        batch["pixel_values"] = torch.rand(shape, generator=by)
    else:
        raise ParameterError("example_rows", None, "made-up rows, in the form of the data: this model takes no tokens")
    match _kind_of(model):
        case "ForCausalLM" | "ForMaskedLM":
            batch["labels"] = batch["input_ids"]
        case "ForTokenClassification":
            batch["labels"] = torch.randint(config.num_labels, (_ROWS, _LENGTH), generator=by)
        case _ if _problem_of(model) == "single_label_classification":
            batch["labels"] = torch.randint(config.num_labels, (_ROWS,), generator=by)
        case _:
            batch["labels"] = torch.randint(2, (_ROWS, config.num_labels), generator=by).float()
    return batch


def one_by_one(batch: Batch) -> list[Batch]:
    """Each row of `batch` as a batch of its own, as long as it is there."""
    rows = len(next(iter(batch.values())))
    return [{name: value[row : row + 1] for name, value in batch.items()} for row in range(rows)]


def of_lengths(model: Any, rows: Sequence[Batch]) -> list[Batch]:
    """Rows that are made up for `model`, each a token shorter than the one before; as they are where they are no
    tokens."""
    of_tokens = {"input_ids", "attention_mask", *(() if _kind_of(model) in _SEQUENCES else ("labels",))}
    return [
        {name: value[:, : _LENGTH - place] if name in of_tokens else value for name, value in row.items()}
        for place, row in enumerate(rows)
    ]


def with_positions(row_losses: RowLosses) -> RowLosses:
    """The same losses, with the positions of tokens given for each row, from the first that is no padding: models that
    look them up once for a batch have no gradients of single rows there."""

    def told(model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        counted = batch.get("attention_mask", torch.ones_like(batch["input_ids"]))
        positions = (counted.long().cumsum(1) - 1).clamp(min=0)
        return row_losses(model, {"position_ids": positions, **batch})

    return told


def rehearse(
    model: torch.nn.Module, trained: Iterable[Any], row_losses: RowLosses, batch: Batch, alone: Sequence[Batch]
) -> RowLosses:
    """The losses of rows to train with: `row_losses`, or the same `with_positions`, once the gradients of each row of
    `batch`, in which no row is anybody's, are those of its batch in `alone`.

    Assumes: `model` has the hooks of Opacus. Dropout is off; then all is as in training, twice with the same draws.
    ParameterError where neither passes: whatever goes wrong is told, for it is of made-up rows."""
    trained = list(trained)
    ways = [row_losses]
    if (
        "position_ids" in inspect.signature(model.forward).parameters
        and "input_ids" in batch
        and "position_ids" not in batch
    ):
        ways.append(with_positions(row_losses))
    if any(len(value) != len(alone) for value in batch.values()):
        raise ParameterError(
            "data_collator", "a batch that keeps no row apart", "one entry a row in each of its tensors"
        )
    _only_layers_train(model)
    why = None
    try:
        gradients = [_gradients_alone(model, trained, row_losses, row) for row in alone]
        for way in ways:
            found = _difference(model, trained, way, batch, gradients)
            if found is None:
                mixed = _mixed(model, trained, way, batch)
                if mixed is not None:
                    raise ParameterError("model", mixed, _OF_ONE_ROW)
                return way
            why = found
    except ParameterError:
        raise
    except Exception as error:
        raise ParameterError(
            "model", f"{type(error).__name__}: {error}", "one that Opacus takes apart by rows"
        ) from error
    finally:
        clear(trained)
        model.train()
    raise ParameterError("model", why, _OF_ONE_ROW)


def _only_layers_train(model: torch.nn.Module) -> None:
    """Layers that have weights keep what Opacus needs of them; dropout, which has none, is off."""
    for module in model.modules():
        module.training = next(module.parameters(recurse=False), None) is not None


def _gradients_alone(
    model: torch.nn.Module, trained: list[Any], row_losses: RowLosses, row: Batch
) -> list[torch.Tensor]:
    clear(trained)
    row_losses(model, row).sum().backward()
    return [torch.zeros_like(one) if one.grad is None else one.grad.clone() for one in trained]


def _difference(
    model: torch.nn.Module, trained: list[Any], row_losses: RowLosses, batch: Batch, alone: list[list[torch.Tensor]]
) -> str | None:
    """Why the gradients of rows in one batch are not those that they have alone; None where they are."""
    clear(trained)
    losses = row_losses(model, batch)
    if losses.shape != (len(alone),):
        return f"losses of shape {tuple(losses.shape)} for {len(alone)} rows"
    losses.mean().backward()
    names = {id(one): name for name, one in model.named_parameters()}
    for one in trained:
        if one.grad_sample is None:
            return f"{names[id(one)]} has no gradient: freeze it (requires_grad_(False)) if it is not trained"
        if one.grad_sample.shape != (len(alone), *one.shape):
            return f"gradients of shape {tuple(one.grad_sample.shape)} of {names[id(one)]}, for {len(alone)} rows"
    unlearnt = _unlearnt(model)
    for row, gradients in enumerate(alone):
        size = sum(float(one.square().sum()) for one in gradients) ** 0.5
        off = 0.0
        for one, own in zip(trained, gradients, strict=True):
            between = one.grad_sample[row] - own
            if id(one) in unlearnt:
                between[unlearnt[id(one)]] = 0
            off += float(between.square().sum())
        if not off**0.5 <= _CLOSE * size:
            return "the gradient of a row changes with the rest of its batch"
    return None


def _mixed(model: torch.nn.Module, trained: list[Any], row_losses: RowLosses, batch: Batch) -> str | None:
    """What one row shows of the others in training, which `_only_layers_train` leaves out; None where it is nothing:
    its gradient among others and among copies of itself, with the same draws; and what layers keep of rows."""
    model.train()
    kept = LayerState(model)
    copies = {name: value[:1].expand(value.shape).clone() for name, value in batch.items()}
    found: list[list[torch.Tensor]] = []
    for rows in (batch, copies):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            clear(trained)
            row_losses(model, rows).mean().backward()
        found.append([one.grad_sample[0].clone() for one in trained])
    if (name := kept.changed()) is not None:
        return f"{name} keeps what rows were like, exactly"
    size = sum(float(one.square().sum()) for one in found[0]) ** 0.5
    off = sum(float((one - other).square().sum()) for one, other in zip(*found, strict=True)) ** 0.5
    return None if off <= _CLOSE * size else "the gradient of a row changes, in training, with the rest of its batch"


def _unlearnt(model: torch.nn.Module) -> dict[int, int]:
    """The entry of padding in each embedding, which has gradients of rows in Opacus, and none in torch."""
    found = (one for one in model.modules() if isinstance(one, torch.nn.Embedding))
    return {id(one.weight): one.padding_idx for one in found if one.padding_idx is not None}


def clear(trained: Iterable[Any]) -> None:
    """No gradient of any row is left."""
    for one in trained:
        one.grad = one.grad_sample = None
