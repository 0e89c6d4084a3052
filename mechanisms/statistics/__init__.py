"""Statistics of a column: sums and variances, quantiles, the most frequent categories, bounds that nobody guesses."""

from dpledger.mechanisms.statistics.column_bounds import ColumnBounds
from dpledger.mechanisms.statistics.quantile import Quantile
from dpledger.mechanisms.statistics.quantiles import Quantiles
from dpledger.mechanisms.statistics.sums import ClippedSum
from dpledger.mechanisms.statistics.top_k import TopK
from dpledger.mechanisms.statistics.variance import Variance, VarianceEstimate

__all__ = ["ClippedSum", "ColumnBounds", "Quantile", "Quantiles", "TopK", "Variance", "VarianceEstimate"]
