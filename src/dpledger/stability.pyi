from .mechanisms.stability.answers import UNSTABLE as UNSTABLE, SideBySide as SideBySide
from .mechanisms.stability.ensembles.chunkers import Hashed as Hashed
from .mechanisms.stability.ensembles.ensemble import Ensemble as Ensemble
from .mechanisms.stability.ensembles.rehearsal import try_learner as try_learner
from .mechanisms.stability.hybrid_votes import HybridVotes as HybridVotes
from .mechanisms.stability.labels.learner import LabelPrivateLearner as LabelPrivateLearner, Lesson as Lesson
from .mechanisms.stability.labels.partitions import bins_of_width as bins_of_width
from .mechanisms.stability.labels.soft import SoftLabels as SoftLabels
from .mechanisms.stability.labels.soft_run import SoftQuery as SoftQuery
from .mechanisms.stability.labels.student import Student as Student
from .mechanisms.stability.noisy_votes import NoisyVotes as NoisyVotes
from .mechanisms.stability.on_average import (
    FirstMoment as FirstMoment,
    MeanSquare as MeanSquare,
    PublicPool as PublicPool,
    StabilityEstimate as StabilityEstimate,
    estimate_stability as estimate_stability,
    mean_learner as mean_learner,
)
from .mechanisms.stability.plans.sgd_stability import (
    Constant as Constant,
    Listed as Listed,
    Smooth as Smooth,
    convex_first_moment as convex_first_moment,
    convex_mean_square as convex_mean_square,
    convex_sampled_mean_square as convex_sampled_mean_square,
    nonconvex_first_moment as nonconvex_first_moment,
    strongly_convex_first_moment as strongly_convex_first_moment,
    strongly_convex_mean_square as strongly_convex_mean_square,
    strongly_convex_sampled_mean_square as strongly_convex_sampled_mean_square,
)
from .mechanisms.stability.propose_test_release import ProposeTestRelease as ProposeTestRelease
from .mechanisms.stability.stable_queries import StableQueries as StableQueries
from .mechanisms.stability.stable_release import StableRelease as StableRelease
from .mechanisms.stability.voting import (
    PrivateClassifier as PrivateClassifier,
    SampleAndAggregate as SampleAndAggregate,
)

__all__: list[str]
