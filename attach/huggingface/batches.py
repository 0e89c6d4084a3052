"""The batches of a private `Trainer`: how large, how many, in which pieces; and the last checkpoint that is whole.

>>> pieces = Pieces(list, 2)
>>> pieces([5, 6, 7]), pieces([])
([(2, [5, 6]), (1, [7])], [])
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from dpledger.attach.extras import extra
from dpledger.attach.huggingface.refusals import require_rows
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
    "checkpoint",
    "drawn",
    "fresh",
    "public_numbers",
    "require_labels",
    "steps_of",
]

RUN_FILE = "dpledger_run.json"  # in a checkpoint: where its model stands in the run
STATE_FILE = "trainer_state.json"  # which transformers writes last
LABELS = frozenset({"label", "label_ids", "labels"})  # columns that the collators of transformers take for labels
LABELS_EXPECTED = "rows with a column 'label' or 'labels', or row_losses= for a loss that needs none"


class Pieces:
    """The rows of one step as batches of at most `most` of them, each with how many it has; None in place of one of
    which the collator raised, for that may be of one row."""

    def __init__(self, collate: Callable[[list[Any]], Mapping[str, Any]], most: int) -> None:
        self._collate, self._most = collate, most

    def __call__(self, rows: list[Any]) -> list[tuple[int, Mapping[str, Any] | None]]:
        pieces = [rows[start : start + self._most] for start in range(0, len(rows), self._most)]
        return [(len(piece), self._collated(piece)) for piece in pieces]

    def _collated(self, piece: list[Any]) -> Mapping[str, Any] | None:
        found = came_to(lambda: self._collate(piece))
        return None if found is None else found[0]


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
        num_samples=len(dataset), sample_rate=public.sample_rate, generator=fresh("cpu"), steps=public.batches
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


def fresh(device: Any) -> torch.Generator:
    """A generator that the operating system seeds."""
    made = torch.Generator(device=device)
    made.seed()
    return made


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
