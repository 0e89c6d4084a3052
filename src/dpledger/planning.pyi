from .accounting.composition import (
    Converted as Converted,
    GaussianWithReplacementLaw as GaussianWithReplacementLaw,
    MixtureOfGaussiansLaw as MixtureOfGaussiansLaw,
    OffsetZCDP as OffsetZCDP,
    PermuteAndFlipLaw as PermuteAndFlipLaw,
    Selected as Selected,
    SparseVectorLaw as SparseVectorLaw,
    TruncatedSampledGaussianLaw as TruncatedSampledGaussianLaw,
)
from .accounting.planning.calibration import calibrate_count as calibrate_count
from .accounting.profile import Bounds as Bounds
from .accounting.trials import NegativeBinomialTrials as NegativeBinomialTrials, PoissonTrials as PoissonTrials
from .mechanisms.learning.compare import compare_private_nonprivate as compare_private_nonprivate
from .mechanisms.learning.reachable import reachable_error as reachable_error
from .mechanisms.learning.recommended import recommend as recommend
from .mechanisms.learning.theory.orders import order_bounds as order_bounds
from .mechanisms.learning.theory.parity_sizes import parity_plan as parity_plan
from .mechanisms.learning.theory.query_sizes import query_size as query_size
from .mechanisms.learning.theory.users.clipped_sizes import clipped_pairwise_plan as clipped_pairwise_plan
from .mechanisms.stability.plans.classifier import (
    ClassifierPlan as ClassifierPlan,
    binclas_plan as binclas_plan,
    binclas_required_n as binclas_required_n,
)
from .mechanisms.stability.plans.label_private import (
    LabelPrivatePlan as LabelPrivatePlan,
    label_private_plan as label_private_plan,
)
from .mechanisms.stability.plans.soft import SoftPlan as SoftPlan, soft_plan as soft_plan
from .mechanisms.stability.plans.subsample import SubsamplePlan as SubsamplePlan, subsample_plan as subsample_plan
from .mechanisms.stability.release_plans import StablePlan as StablePlan, stable_plan as stable_plan
from .mechanisms.training.ftrl_plans import FTRLPlan as FTRLPlan, ftrl_plan as ftrl_plan
from .mechanisms.training.training_plans import TrainingPlan as TrainingPlan, dpsgd_plan as dpsgd_plan

__all__: list[str]
