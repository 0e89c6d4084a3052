"""Threshold tests on a stream of queries."""

from dpledger.mechanisms.threshold.above_threshold import AboveThreshold
from dpledger.mechanisms.threshold.run import AnswerCounts, Outcome, SparseVectorRun
from dpledger.mechanisms.threshold.sparse_vector import SparseVector

__all__ = ["AboveThreshold", "AnswerCounts", "Outcome", "SparseVector", "SparseVectorRun"]
