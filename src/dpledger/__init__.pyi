from . import (
    analytic as analytic,
    errors as errors,
    ex_post as ex_post,
    filters as filters,
    keys as keys,
    learning as learning,
    planning as planning,
    results as results,
    stability as stability,
)
from .accounting.accountant import Accountant as Accountant
from .accounting.composition import (
    Composition as Composition,
    DiscreteGaussianLaw as DiscreteGaussianLaw,
    DiscreteLaplaceLaw as DiscreteLaplaceLaw,
    ExponentialLaw as ExponentialLaw,
    GaussianLaw as GaussianLaw,
    Group as Group,
    LaplaceLaw as LaplaceLaw,
    Parallel as Parallel,
    PmfPair as PmfPair,
    PoissonSampled as PoissonSampled,
    PostProcessed as PostProcessed,
    RandomAllocation as RandomAllocation,
    RandomizedResponseLaw as RandomizedResponseLaw,
    Repeated as Repeated,
    SampledWithoutReplacement as SampledWithoutReplacement,
    Sequence as Sequence,
    Shuffled as Shuffled,
)
from .accounting.documents import Document as Document
from .accounting.guarantees import (
    GDP as GDP,
    RDP as RDP,
    ZCDP as ZCDP,
    ApproxDP as ApproxDP,
    BoundedRange as BoundedRange,
    PrivacyCurve as PrivacyCurve,
    PureDP as PureDP,
)
from .accounting.planning.calibration import calibrate as calibrate
from .accounting.profile import compose as compose
from .attach.searching import private_search as private_search
from .attach.training import private_sgd as private_sgd
from .audit.experiment import audit_mechanism as audit_mechanism, audit_outputs as audit_outputs
from .audit.planned import Audit as Audit
from .audit.replay import audit_replay as audit_replay
from .audit.search.searching import audit_search as audit_search
from .audit.services import audit_service as audit_service
from .audit.testing import assert_not_refuted as assert_not_refuted
from .audit.training.step_audit import audit_steps as audit_steps
from .audit.training.whole import audit_training as audit_training
from .errors import (
    BudgetRefused as BudgetRefused,
    DpledgerError as DpledgerError,
    ParameterError as ParameterError,
)
from .ledger.ledger import Ledger as Ledger
from .ledger.scope import Scope as Scope
from .mechanisms.groups.group_by import GroupBy as GroupBy
from .mechanisms.learning.recommended import plan as plan
from .mechanisms.numeric import (
    ClippedMean as ClippedMean,
    Count as Count,
    Gaussian as Gaussian,
    Geometric as Geometric,
    Histogram as Histogram,
    IntegerGaussian as IntegerGaussian,
    Laplace as Laplace,
)
from .mechanisms.selection.exponential import ExponentialMechanism as ExponentialMechanism
from .mechanisms.selection.permute_and_flip import PermuteAndFlip as PermuteAndFlip
from .mechanisms.selection.private_selection import PrivateSelection as PrivateSelection
from .mechanisms.selection.randomized_response import RandomizedResponse as RandomizedResponse
from .mechanisms.statistics import (
    ClippedSum as ClippedSum,
    ColumnBounds as ColumnBounds,
    Quantile as Quantile,
    Quantiles as Quantiles,
    TopK as TopK,
    Variance as Variance,
)
from .mechanisms.threshold.above_threshold import AboveThreshold as AboveThreshold
from .mechanisms.threshold.sparse_vector import SparseVector as SparseVector
from .mechanisms.training.dp_sgd import DPSGD as DPSGD
from .mechanisms.units import ByUnit as ByUnit
from .relations import Relation as Relation, Unit as Unit
from .reports import report as report

__all__: list[str]
__version__: str
