from .attach.training import private_ftrl as private_ftrl
from .audit.learning.contracts import check_contract as check_contract
from .audit.learning.populations import Population as Population, hard_populations as hard_populations
from .audit.training.probes.loops import probe_loop as probe_loop, probe_sgd as probe_sgd
from .mechanisms.learning.booster import PrivateStumpBooster as PrivateStumpBooster
from .mechanisms.learning.finite_class import ExponentialPPACLearner as ExponentialPPACLearner
from .mechanisms.learning.logistic import PrivateLogisticLearner as PrivateLogisticLearner
from .mechanisms.learning.parities.parity_learners import (
    FAIL as FAIL,
    PrivateParityLearner as PrivateParityLearner,
    RepeatedParity as RepeatedParity,
)
from .mechanisms.learning.queries.conjunctions import PrivateConjunctionLearner as PrivateConjunctionLearner
from .mechanisms.learning.queries.domain_queries import DomainQuery as DomainQuery
from .mechanisms.learning.queries.oracle import StatisticalQueryOracle as StatisticalQueryOracle
from .mechanisms.learning.queries.query_run import JointQuery as JointQuery
from .mechanisms.learning.queries.thresholds import PrivateSQThresholdLearner as PrivateSQThresholdLearner
from .mechanisms.learning.representations.boosted import BoostedRepresentation as BoostedRepresentation
from .mechanisms.learning.representations.representation_learners import (
    RealizableRepresentationLearner as RealizableRepresentationLearner,
    SurrogateAgnosticLearner as SurrogateAgnosticLearner,
)
from .mechanisms.learning.representations.representations import (
    HashedPointRepresentation as HashedPointRepresentation,
    TrivialRepresentation as TrivialRepresentation,
)
from .mechanisms.learning.samples import LabeledSample as LabeledSample, UserSample as UserSample
from .mechanisms.learning.tables.binning import Binning as Binning
from .mechanisms.learning.tables.stumps import StumpClass as StumpClass
from .mechanisms.learning.theory.concepts import (
    FiniteClass as FiniteClass,
    ParityClass as ParityClass,
    PointClass as PointClass,
    ThresholdClass as ThresholdClass,
)
from .mechanisms.learning.theory.contracts import (
    AgnosticContract as AgnosticContract,
    PACContract as PACContract,
    PPACContract as PPACContract,
)
from .mechanisms.learning.users.clipped_pairwise import ClippedPairwiseEM as ClippedPairwiseEM
from .mechanisms.learning.users.least_error import (
    MinErrorTest as MinErrorTest,
    MinimumErrorEstimator as MinimumErrorEstimator,
)
from .mechanisms.learning.users.median import UserLevelMedian as UserLevelMedian
from .mechanisms.learning.users.reading import cap_users as cap_users
from .mechanisms.learning.users.surrogate_learner import UserLevelSurrogateLearner as UserLevelSurrogateLearner
from .mechanisms.learning.users.thresholds import UserLevelThresholdLearner as UserLevelThresholdLearner
from .mechanisms.learning.users.user_learners import UserLevelProperLearner as UserLevelProperLearner
from .mechanisms.selection.scores import Segments as Segments
from .mechanisms.training.dp_ftrl import DPFTRL as DPFTRL
from .mechanisms.training.factor import banded_factor as banded_factor
from .mechanisms.training.invariance import check_batch_invariance as check_batch_invariance
from .mechanisms.training.row_sums import row_sums as row_sums

__all__: list[str]
