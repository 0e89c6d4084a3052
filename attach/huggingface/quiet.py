"""A `Trainer` that tells nothing of private rows: no loss, no norm, no state of a generator, and no search."""

from __future__ import annotations

from typing import Any, NoReturn

from dpledger.attach.extras import extra
from dpledger.attach.huggingface.refusals import require_public
from dpledger.errors import ParameterError

with extra("huggingface"):
    from transformers import Trainer

__all__ = ["SHOWN", "QuietTrainer"]

SHOWN = frozenset({"loss", "grad_norm", "train_loss", "total_flos", "num_input_tokens_seen"})
"""What `Trainer` logs of private rows."""


class QuietTrainer(Trainer):  # type: ignore[misc]
    """A `Trainer` whose `train_dataset` is private and whose other data are public. It charges nothing."""

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """As `Trainer` does, without what it would tell of private rows."""
        told = {name: value for name, value in logs.items() if name not in SHOWN}
        super().log(told, start_time)

    def floating_point_ops(self, inputs: Any) -> int:  # noqa: ARG002
        """Zero: how many there were would tell how many rows were drawn."""
        return 0

    def _get_grad_norm(self, *_: Any, **__: Any) -> None:
        """None: it would be of gradients without noise."""

    def _save_rng_state(self, output_dir: str) -> None:
        """None: the states of generators would give away the noise."""

    def _load_rng_state(self, checkpoint: str | None) -> None:
        """None: batches and noise are fresh."""

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        """As `Trainer` does; ParameterError for the private rows."""
        named = self.eval_dataset[eval_dataset] if isinstance(eval_dataset, str) else eval_dataset
        require_public(named, self.train_dataset)
        return super().get_eval_dataloader(eval_dataset)

    def get_test_dataloader(self, test_dataset: Any) -> Any:
        """As `Trainer` does; ParameterError for the private rows."""
        require_public(test_dataset, self.train_dataset)
        return super().get_test_dataloader(test_dataset)

    def hyperparameter_search(self, *_: Any, **__: Any) -> NoReturn:
        """ParameterError: each trial would be a run of its own."""
        raise ParameterError("hyperparameter_search", "many runs", "`private_search`, which charges a search as one")
