"""Answers that grow finer until somebody is content: what was published costs what its last level costs."""

from dpledger.mechanisms.refinement.accuracy_first import AccuracyFirst, Hypothesis

__all__ = ["AccuracyFirst", "Hypothesis"]
