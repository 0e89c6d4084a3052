"""Private training: noisy sums of clipped gradients over secret batches."""

from dpledger.mechanisms.training.dp_ftrl import DPFTRL
from dpledger.mechanisms.training.dp_sgd import DPSGD
from dpledger.mechanisms.training.gradients import Gradients
from dpledger.mechanisms.training.invariance import BatchInvariance, check_batch_invariance
from dpledger.mechanisms.training.row_sums import row_sums
from dpledger.mechanisms.training.training_run import StepsTaken, TrainingRun

__all__ = [
    "DPFTRL",
    "DPSGD",
    "BatchInvariance",
    "Gradients",
    "StepsTaken",
    "TrainingRun",
    "check_batch_invariance",
    "row_sums",
]
