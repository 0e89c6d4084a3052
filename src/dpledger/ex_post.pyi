from .accounting.composition import Chain as Chain, ExPostDP as ExPostDP, ExPostOutcome as ExPostOutcome
from .accounting.ex_post.boundaries import (
    LinearBoundary as LinearBoundary,
    MixtureBoundary as MixtureBoundary,
)
from .accounting.ex_post.odometer import Odometer as Odometer
from .accounting.ex_post.senses import (
    ProvedTail as ProvedTail,
    concurrent as concurrent,
    constant as constant,
    group as group,
    guarantee as guarantee,
    guarantee_by_tail as guarantee_by_tail,
    in_sense as in_sense,
    poisson_sampled as poisson_sampled,
    post_processed as post_processed,
    sampled_without_replacement as sampled_without_replacement,
    with_slack as with_slack,
)
from .audit.strata import ExPostClaim as ExPostClaim
from .mechanisms.refinement.accuracy_first import AccuracyFirst as AccuracyFirst
from .mechanisms.refinement.doubling import Doubling as Doubling
from .mechanisms.refinement.gaussian import GradualGaussian as GradualGaussian
from .mechanisms.refinement.judged import Judged as Judged
from .mechanisms.refinement.laplace import GradualRelease as GradualRelease
from .mechanisms.refinement.mean import GradualMean as GradualMean
from .mechanisms.refinement.reduction import NoiseReduction as NoiseReduction

__all__: list[str]
