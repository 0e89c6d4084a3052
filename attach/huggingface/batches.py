"""The batches of a private `Trainer`: how large, how many, in which pieces; and the last checkpoint that is whole.

>>> pieces = Pieces(lambda rows: {"labels": torch.tensor(rows)}, 2)
>>> pieces([5, 6, 7]), pieces([])
([(2, {'labels': tensor([5, 6])}), (1, {'labels': tensor([7])})], [])
"""

from __future__ import annotations

import functools
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from dpledger.attach.extras import extra
from dpledger.attach.huggingface.refusals import require_rows
from dpledger.attach.huggingface.rows import IGNORED, Batch
from dpledger.attach.opacus.objects import freshen
from dpledger.attach.opacus.public import Public, by_declaration, require_declared
from dpledger.decimals import Number, whole
from dpledger.errors import ParameterError
from dpledger.mechanisms.callers import came_to
from dpledger.relations import Relation

with extra("huggingface"):
    import torch
    from opacus.utils.uniform_sampler import UniformWithReplacementSampler

__all__ = [
    "LABELS_EXPECTED",
    "RUN_FILE",
    "Pieces",
    "alike",
    "alone",
    "are_padded",
    "checkpoint",
    "drawn",
    "public_numbers",
    "require_labels",
    "stacked",
    "steps_of",
    "token_of",
]

RUN_FILE = "dpledger_run.json"  # in a checkpoint: where its model stands in the run
STATE_FILE = "trainer_state.json"  # which transformers writes last
LABELS = frozenset({"label", "label_ids", "labels"})  # columns that the collators of transformers take for labels
LABELS_EXPECTED = "rows with a column 'label' or 'labels', or row_losses= for a loss that needs none"


class Pieces:
    """The rows of one step as batches of at most `most` of them, each with how many it has; None in place of a row of
    which the collator raised.

    The collator is given one row at a time, so that no row changes what it makes of another. Rows whose tensors have
    the same shapes are one batch, and others too where they are padded: `pad_token` is the token of padding, None
    where padding is not known to change nothing."""

    def __init__(
        self, collate: Callable[[list[Any]], Mapping[str, Any]], most: int, *, pad_token: int | None = None
    ) -> None:
        self._collate, self._most, self._pad_token = collate, most, pad_token

    def __call__(self, rows: list[Any]) -> list[tuple[int, Batch | None]]:
        found = [came_to(functools.partial(alone, self._collate, row)) for row in rows]
        whole = [one[0] for one in found if one is not None]
        batches: list[tuple[int, Batch | None]] = [(1, None)] * (len(rows) - len(whole))
        for start in range(0, len(whole), self._most):
            groups = alike(whole[start : start + self._most], padded=self._pad_token is not None)
            batches += [(len(group), stacked(group, pad_token=self._pad_token or 0)) for group in groups]
        return batches


def alone(collate: Callable[[list[Any]], Mapping[str, Any]], row: Any) -> Batch:
    """What `collate` makes of one row. ParameterError unless it is a tensor of one entry for each name."""
    batch = dict(collate([row]))
    for name, value in batch.items():
        if not isinstance(value, torch.Tensor) or not value.dim() or len(value) != 1:
            found = f"{name!r} of one row is no tensor of one entry"
            raise ParameterError("data_collator", found, "one that keeps rows apart, in a tensor for each name")
    return batch


def alike(rows: Sequence[Batch], *, padded: bool) -> list[list[Batch]]:
    """Rows that can be one batch, together: of the same names, types and shapes, where rows are padded up to the second
    axis."""
    groups: dict[object, list[Batch]] = {}
    for row in rows:
        form = frozenset((name, one.dtype, one.dim(), one.shape[1 + padded :]) for name, one in row.items())
        groups.setdefault(form, []).append(row)
    return list(groups.values())


def are_padded(rows: Sequence[Batch]) -> bool:
    """Whether rows of one batch differ in how long they are."""
    return len(alike(rows, padded=False)) > 1


def stacked(rows: Sequence[Batch], *, pad_token: int) -> Batch:
    """Batches of one row each as one batch, filled up behind each row where their second axes differ: labels by those
    that have no loss, tokens by `pad_token`, all else by 0. Then there is a mask of the tokens that are no padding."""
    if are_padded(rows):
        rows = [_masked(row) for row in rows]
    return {name: _filled_up([row[name] for row in rows], _filling(name, pad_token)) for name in rows[0]}


def _masked(row: Batch) -> Batch:
    if "input_ids" not in row:
        return row
    return {"attention_mask": torch.ones_like(row["input_ids"]), **row}


def _filling(name: str, pad_token: int) -> int:
    return IGNORED if name in LABELS else pad_token if name == "input_ids" else 0


def _filled_up(values: list[torch.Tensor], filling: int) -> torch.Tensor:
    if values[0].dim() == 1:
        return torch.cat(values)
    longest = max(value.shape[1] for value in values)
    rows = [
        torch.cat([value, value.new_full((1, longest - value.shape[1], *value.shape[2:]), filling)], dim=1)
        for value in values
    ]
    return torch.cat(rows)


def require_labels(dataset: Any) -> None:
    """ParameterError for rows whose columns are known by name, none of them that of labels."""
    columns = getattr(dataset, "column_names", None)
    if isinstance(columns, list | tuple) and not LABELS.intersection(columns):
        raise ParameterError("train_dataset", f"rows of the columns {', '.join(map(str, columns))}", LABELS_EXPECTED)


def public_numbers(relation: Relation, args: Any, dataset: object, rate: Number | None) -> Public:
    """The rate and the divisor of a run with these `TrainingArguments`. ParameterError for a rate that is missing, but
    under zero_out."""
    size = args.per_device_train_batch_size * args.gradient_accumulation_steps
    rows = require_rows(dataset)
    if relation is not Relation.ZERO_OUT:
        require_declared("rate", rate)
    chance = min(Fraction(1), Fraction(size, rows)) if rate is None else rate
    return by_declaration(rate=chance, expected_batch_size=size)


def steps_of(args: Any, public: Public) -> int:
    """How many steps: `max_steps`, or those of so many epochs of `1 / rate` steps."""
    if args.max_steps > 0:
        return int(args.max_steps)
    return whole(math.ceil(args.num_train_epochs * public.batches), field="num_train_epochs", least=1)


def drawn(dataset: Any, pieces: Pieces, public: Public, args: Any) -> Any:
    """A loader of Poisson samples of `dataset`, in pieces."""
    sampler = UniformWithReplacementSampler(
        num_samples=len(dataset),
        sample_rate=public.sample_rate,
        generator=freshen(torch.Generator()),
        steps=public.batches,
    )
    return torch.utils.data.DataLoader(
        dataset,
        batch_sampler=sampler,
        collate_fn=pieces,
        num_workers=args.dataloader_num_workers,
        pin_memory=args.dataloader_pin_memory,
        persistent_workers=args.dataloader_persistent_workers,
        prefetch_factor=args.dataloader_prefetch_factor,
    )


def checkpoint(asked: str | os.PathLike[str] | bool | None, folder: Path) -> Path | None:
    """The checkpoint to go on from: the one that is named, or the last whole one. ParameterError for one without a
    token."""
    if isinstance(asked, bool) or asked is None:
        found = (path.parent for path in folder.glob(f"checkpoint-*/{STATE_FILE}") if (path.parent / RUN_FILE).exists())
        return max(found, key=lambda path: int(path.name.rpartition("-")[2]), default=None) if asked else None
    if not (Path(asked) / RUN_FILE).exists():
        expected = f"one of this trainer, which keeps its token in {RUN_FILE}"
        raise ParameterError("resume_from_checkpoint", "a checkpoint without a token", expected)
    return Path(asked)


def token_of(saved: Path) -> Any:
    """What a checkpoint says of the run that it is of. ParameterError for a token that is damaged."""
    try:
        return json.loads((saved / RUN_FILE).read_text())
    except ValueError:
        expected = "one that is whole: an older one of this trainer"
        raise ParameterError("resume_from_checkpoint", "a checkpoint whose token is damaged", expected) from None
