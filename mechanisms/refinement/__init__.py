"""Answers that grow finer until somebody is content: what was published costs what its last level costs."""

from dpledger.mechanisms.refinement.accuracy_first import AccuracyFirst, LinearHypothesis
from dpledger.mechanisms.refinement.doubling import Doubled, Doubling
from dpledger.mechanisms.refinement.gaussian import GradualGaussian
from dpledger.mechanisms.refinement.gradual_run import GradualRun
from dpledger.mechanisms.refinement.judged import Judged
from dpledger.mechanisms.refinement.laplace import GradualRelease
from dpledger.mechanisms.refinement.mean import GradualMean
from dpledger.mechanisms.refinement.reduction import NoiseReduction, Reduced

__all__ = [
    "AccuracyFirst",
    "Doubled",
    "Doubling",
    "GradualGaussian",
    "GradualMean",
    "GradualRelease",
    "GradualRun",
    "Judged",
    "LinearHypothesis",
    "NoiseReduction",
    "Reduced",
]
