"""The `Trainer` of Hugging Face, private and charged: `PrivateTrainer` (`trainer`), for models of `transformers`."""

from dpledger.attach.huggingface.trainer import PrivateTrainer

__all__ = ["PrivateTrainer"]
