"""Threshold tests on a stream of queries."""

from dpledger.mechanisms.threshold.above_threshold import AboveThreshold
from dpledger.mechanisms.threshold.sparse_vector import SparseVector
from dpledger.mechanisms.threshold.threshold_run import AnswerCounts, Outcome, SparseVectorRun

__all__ = ["AboveThreshold", "AnswerCounts", "Outcome", "SparseVector", "SparseVectorRun"]
