"""Numbers with noise: single values that the caller computed, and the statistics of records."""

from dpledger.mechanisms.numeric.clipped_mean import ClippedMean, MeanEstimate
from dpledger.mechanisms.numeric.gaussian import Gaussian
from dpledger.mechanisms.numeric.integers import Geometric, IntegerGaussian
from dpledger.mechanisms.numeric.laplace import Laplace
from dpledger.mechanisms.numeric.statistics import Count, Counts, Histogram

__all__ = [
    "ClippedMean",
    "Count",
    "Counts",
    "Gaussian",
    "Geometric",
    "Histogram",
    "IntegerGaussian",
    "Laplace",
    "MeanEstimate",
]
