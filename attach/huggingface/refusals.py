"""What of a `Trainer` of Hugging Face cannot be charged, by the name of its argument, and why: refused before anything
is spent.

>>> require_supported(TrainingArguments(output_dir="unused", use_cpu=True, report_to="none", fp16=True))
Traceback (most recent call last):
...
dpledger.errors.ParameterError: fp16: expected False: its scaler skips steps whose gradients overflow, and a skipped \
step can be seen, got True
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpledger.attach.extras import extra
from dpledger.attach.opacus.objects import share_rows
from dpledger.errors import ParameterError

with extra("huggingface"):
    import torch
    from transformers import TrainingArguments

__all__ = ["FULL_PRECISION", "require_public", "require_rows", "require_supported", "require_unpacked"]

FULL_PRECISION = "gradients of rows are clipped in full precision here"
_ONE_PROCESS = "the process that adds the noise cannot see how the others clip"
_REFUSED: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("fp16", bool, "False: its scaler skips steps whose gradients overflow, and a skipped step can be seen"),
    ("bf16", bool, f"False: {FULL_PRECISION}"),
    ("n_gpu", lambda found: found > 1, f"one device (CUDA_VISIBLE_DEVICES=0): {_ONE_PROCESS}"),
    ("world_size", lambda found: found > 1, f"1: {_ONE_PROCESS}"),
    ("deepspeed", bool, f"None: {_ONE_PROCESS}"),
    ("fsdp", bool, f"None: {_ONE_PROCESS}"),
    ("parallelism_config", bool, f"None: {_ONE_PROCESS}"),
    ("label_smoothing_factor", bool, "0: it is a mean over all tokens of a batch; smooth the losses of `row_losses`"),
    ("neftune_noise_alpha", bool, "None: its noise follows the longest row of a batch"),
    (
        "train_sampling_strategy",
        lambda found: found != "random",
        "'random': every row has the same chance, whatever it holds",
    ),
    ("dataloader_drop_last", bool, "False: no batch is left out for its size"),
    ("auto_find_batch_size", bool, "False: which size fits would depend on who was drawn"),
    ("torch_compile", bool, "False: the hooks of Opacus do not see compiled layers"),
    ("use_liger_kernel", bool, "False: the hooks of Opacus do not see fused layers"),
    ("activation_checkpointing", bool, "False: the hooks of Opacus see layers once"),
    ("gradient_checkpointing", bool, "False: the hooks of Opacus see layers once"),
    ("include_num_input_tokens_seen", lambda found: found != "no", "'no': how many tokens were drawn is private"),
    ("skip_memory_metrics", lambda found: not found, "True: memory depends on how many rows were drawn"),
    ("debug", bool, "nothing: it shows what layers made of private rows"),
    ("enable_jit_checkpoint", bool, "False: a checkpoint between two steps has no place in the plan"),
)
_LAYERWISE = ("lomo", "layerwise")  # in names of optimizers that update a layer while gradients come in


def require_supported(args: Any) -> None:
    """ParameterError naming the first of `args`, `TrainingArguments`, that cannot be charged."""
    if not isinstance(args, TrainingArguments):
        raise ParameterError("args", type(args).__name__, "TrainingArguments")
    for name, is_refused, expected in _REFUSED:
        found = getattr(args, name)
        if is_refused(found):
            raise ParameterError(name, found, expected)
    optim = str(getattr(args.optim, "value", args.optim))
    if any(word in optim for word in _LAYERWISE):
        raise ParameterError("optim", optim, "one that updates once all gradients are there, with their noise")
    if not args.max_grad_norm > 0:
        raise ParameterError("max_grad_norm", args.max_grad_norm, "above 0: what the gradient of a row is clipped to")


def require_rows(dataset: object) -> int:
    """How many rows `dataset` has, at least one. ParameterError for a stream, whose rows cannot be drawn."""
    if isinstance(dataset, torch.utils.data.IterableDataset) or not hasattr(dataset, "__len__"):
        raise ParameterError(
            "train_dataset", type(dataset).__name__, "rows that are counted: each is drawn by its own chance"
        )
    if not len(dataset):
        raise ParameterError("train_dataset", "no rows", "one row at least")
    return len(dataset)


def require_unpacked(collator: object) -> None:
    """ParameterError for a collator that packs rows into one, or draws from a seed that may be known."""
    seed = getattr(collator, "seed", None)
    if seed is not None:
        expected = "None: what it draws comes from the operating system, since a row more moves the draws of others"
        raise ParameterError("data_collator", f"one with the seed {seed}", expected)
    if type(collator).__name__ == "DataCollatorWithFlattening":
        raise ParameterError(
            "data_collator", type(collator).__name__, "one that keeps rows apart: packed rows have one gradient"
        )


def require_public(dataset: object, private: object) -> None:
    """ParameterError for a dataset to evaluate on that is the private one, part of it, or has it among others."""
    if dataset is not None and share_rows(dataset, private):
        expected = "public rows: a loss or a metric of the private ones is a release, and nothing here charges it"
        raise ParameterError("eval_dataset", "train_dataset", expected)
