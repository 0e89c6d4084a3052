"""Threshold tests on a stream of queries."""

from dpledger.mechanisms.threshold.run import Counts, Outcome, SparseVectorRun
from dpledger.mechanisms.threshold.sparse_vector import SparseVector

__all__ = ["Counts", "Outcome", "SparseVector", "SparseVectorRun"]
