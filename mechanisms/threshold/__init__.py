"""Threshold tests on a stream of queries."""

from dpledger.mechanisms.threshold.above_threshold import AboveThreshold
from dpledger.mechanisms.threshold.run import Counts, Outcome, SparseVectorRun
from dpledger.mechanisms.threshold.sparse_vector import SparseVector

__all__ = ["AboveThreshold", "Counts", "Outcome", "SparseVector", "SparseVectorRun"]
