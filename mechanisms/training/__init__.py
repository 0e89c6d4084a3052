"""Private training: noisy sums of clipped gradients over secret batches."""

from dpledger.mechanisms.training.dp_sgd import DPSGD
from dpledger.mechanisms.training.run import Gradients, StepsTaken, TrainingRun

__all__ = ["DPSGD", "Gradients", "StepsTaken", "TrainingRun"]
