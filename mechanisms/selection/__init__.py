"""One of many: by scores, and answers that are sometimes drawn at random."""

from dpledger.mechanisms.selection.exponential import ExponentialMechanism
from dpledger.mechanisms.selection.permute_and_flip import PermuteAndFlip
from dpledger.mechanisms.selection.private_selection import PrivateSelection
from dpledger.mechanisms.selection.randomized_response import RandomizedResponse
from dpledger.mechanisms.selection.scores import Segments

__all__ = ["ExponentialMechanism", "PermuteAndFlip", "PrivateSelection", "RandomizedResponse", "Segments"]
