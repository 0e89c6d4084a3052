"""dpledger: certified privacy accounting, a signed ledger of what was released, and empirical audits.

The public names are resolved when they are first used, so that `import dpledger` loads no numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpledger import ex_post as ex_post, stability as stability
    from dpledger.accounting.accountant import (
        Accountant as Accountant,
    )
    from dpledger.accounting.composition import (
        AllowanceFilter as AllowanceFilter,
        Chain as Chain,
        Composition as Composition,
        Converted as Converted,
        DiscreteGaussianLaw as DiscreteGaussianLaw,
        DiscreteLaplaceLaw as DiscreteLaplaceLaw,
        ExponentialLaw as ExponentialLaw,
        ExPostDP as ExPostDP,
        ExPostOutcome as ExPostOutcome,
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
        SparseVectorLaw as SparseVectorLaw,
    )
    from dpledger.accounting.documents import Document as Document
    from dpledger.accounting.ex_post.boundaries import (
        LinearBoundary as LinearBoundary,
        MixtureBoundary as MixtureBoundary,
        StitchedBoundary as StitchedBoundary,
    )
    from dpledger.accounting.ex_post.odometer import (
        Odometer as Odometer,
    )
    from dpledger.accounting.filters import (
        AdvancedFilter as AdvancedFilter,
        BasicFilter as BasicFilter,
        Boundary as Boundary,
        EitherFilter as EitherFilter,
        GDPFilter as GDPFilter,
        MixedFilter as MixedFilter,
        PureFilter as PureFilter,
        RDPFilter as RDPFilter,
        ZCDPFilter as ZCDPFilter,
    )
    from dpledger.accounting.guarantees import (
        GDP as GDP,
        RDP as RDP,
        ZCDP as ZCDP,
        ApproxDP as ApproxDP,
        BoundedRange as BoundedRange,
        PrivacyCurve as PrivacyCurve,
        PureDP as PureDP,
    )
    from dpledger.accounting.planning.allotting import Allowance as Allowance
    from dpledger.accounting.planning.calibration import calibrate as calibrate, calibrate_count as calibrate_count
    from dpledger.accounting.profile import (
        Bounds as Bounds,
        Profile as Profile,
        compose as compose,
    )
    from dpledger.attach.training import (
        private_sgd as private_sgd,
    )
    from dpledger.audit.experiment import (
        audit_mechanism as audit_mechanism,
        audit_outputs as audit_outputs,
    )
    from dpledger.audit.learning.contracts import check_contract as check_contract
    from dpledger.audit.learning.populations import (
        Population as Population,
        hard_populations as hard_populations,
    )
    from dpledger.audit.planned import (
        Audit as Audit,
    )
    from dpledger.audit.replay import (
        ReplayResult as ReplayResult,
        audit_replay as audit_replay,
    )
    from dpledger.audit.strata import (
        ExPostClaim as ExPostClaim,
    )
    from dpledger.audit.testing import (
        assert_not_refuted as assert_not_refuted,
    )
    from dpledger.audit.verdict import (
        AuditResult as AuditResult,
    )
    from dpledger.errors import (
        AuditTooWeak as AuditTooWeak,
        BudgetRefused as BudgetRefused,
        ClaimRefuted as ClaimRefuted,
        DpledgerError as DpledgerError,
        ParameterError as ParameterError,
        VerificationError as VerificationError,
    )
    from dpledger.ledger.declared_runs import (
        DeclaredRun as DeclaredRun,
    )
    from dpledger.ledger.ledger import (
        Ledger as Ledger,
    )
    from dpledger.ledger.scope import (
        Receipt as Receipt,
        Scope as Scope,
        Session as Session,
    )
    from dpledger.mechanisms.learning.booster import (
        PrivateStumpBooster as PrivateStumpBooster,
    )
    from dpledger.mechanisms.learning.compare import (
        compare_private_nonprivate as compare_private_nonprivate,
    )
    from dpledger.mechanisms.learning.finite_class import (
        ExponentialPPACLearner as ExponentialPPACLearner,
    )
    from dpledger.mechanisms.learning.parities.learners import (
        FAIL as FAIL,
        PrivateParityLearner as PrivateParityLearner,
        RepeatedParity as RepeatedParity,
    )
    from dpledger.mechanisms.learning.queries.conjunctions import (
        PrivateConjunctionLearner as PrivateConjunctionLearner,
    )
    from dpledger.mechanisms.learning.queries.domain_queries import (
        DomainQuery as DomainQuery,
    )
    from dpledger.mechanisms.learning.queries.oracle import (
        StatisticalQueryOracle as StatisticalQueryOracle,
    )
    from dpledger.mechanisms.learning.queries.run import (
        JointQuery as JointQuery,
    )
    from dpledger.mechanisms.learning.queries.thresholds import (
        PrivateSQThresholdLearner as PrivateSQThresholdLearner,
    )
    from dpledger.mechanisms.learning.reachable import (
        reachable_error as reachable_error,
    )
    from dpledger.mechanisms.learning.recommended import (
        plan as plan,
        recommend as recommend,
    )
    from dpledger.mechanisms.learning.represented.boosted import (
        BoostedRepresentation as BoostedRepresentation,
    )
    from dpledger.mechanisms.learning.represented.learners import (
        RealizableRepresentationLearner as RealizableRepresentationLearner,
        SurrogateAgnosticLearner as SurrogateAgnosticLearner,
    )
    from dpledger.mechanisms.learning.represented.representations import (
        HashedPointRepresentation as HashedPointRepresentation,
        TrivialRepresentation as TrivialRepresentation,
    )
    from dpledger.mechanisms.learning.samples import (
        LabeledSample as LabeledSample,
        UserSample as UserSample,
    )
    from dpledger.mechanisms.learning.tables.binning import (
        Binning as Binning,
    )
    from dpledger.mechanisms.learning.tables.stumps import (
        StumpClass as StumpClass,
    )
    from dpledger.mechanisms.learning.theory.concepts import (
        FiniteClass as FiniteClass,
        ParityClass as ParityClass,
        PointClass as PointClass,
        ThresholdClass as ThresholdClass,
    )
    from dpledger.mechanisms.learning.theory.contracts import (
        AgnosticContract as AgnosticContract,
        PACContract as PACContract,
        PPACContract as PPACContract,
    )
    from dpledger.mechanisms.learning.theory.orders import (
        order_bounds as order_bounds,
    )
    from dpledger.mechanisms.learning.theory.parity_sizes import (
        parity_plan as parity_plan,
    )
    from dpledger.mechanisms.learning.theory.query_sizes import (
        query_size as query_size,
    )
    from dpledger.mechanisms.learning.theory.users.clipped_sizes import (
        clipped_pairwise_plan as clipped_pairwise_plan,
    )
    from dpledger.mechanisms.learning.users.clipped_pairwise import (
        ClippedPairwiseEM as ClippedPairwiseEM,
    )
    from dpledger.mechanisms.learning.users.learners import (
        UserLevelProperLearner as UserLevelProperLearner,
    )
    from dpledger.mechanisms.learning.users.least_error import (
        MinErrorTest as MinErrorTest,
        MinimumErrorEstimator as MinimumErrorEstimator,
    )
    from dpledger.mechanisms.learning.users.median import (
        UserLevelMedian as UserLevelMedian,
    )
    from dpledger.mechanisms.learning.users.reading import (
        cap_users as cap_users,
    )
    from dpledger.mechanisms.learning.users.surrogate_learner import (
        UserLevelSurrogateLearner as UserLevelSurrogateLearner,
    )
    from dpledger.mechanisms.learning.users.thresholds import (
        UserLevelThresholdLearner as UserLevelThresholdLearner,
    )
    from dpledger.mechanisms.numeric import (
        ClippedMean as ClippedMean,
        Count as Count,
        Gaussian as Gaussian,
        Geometric as Geometric,
        Histogram as Histogram,
        IntegerGaussian as IntegerGaussian,
        Laplace as Laplace,
    )
    from dpledger.mechanisms.refinement.accuracy_first import (
        AccuracyFirst as AccuracyFirst,
    )
    from dpledger.mechanisms.refinement.doubling import (
        Doubling as Doubling,
    )
    from dpledger.mechanisms.refinement.gaussian import (
        GradualGaussian as GradualGaussian,
    )
    from dpledger.mechanisms.refinement.judged import (
        Judged as Judged,
    )
    from dpledger.mechanisms.refinement.laplace import (
        GradualRelease as GradualRelease,
    )
    from dpledger.mechanisms.refinement.mean import (
        GradualMean as GradualMean,
    )
    from dpledger.mechanisms.refinement.reduction import (
        NoiseReduction as NoiseReduction,
    )
    from dpledger.mechanisms.selection.exponential import (
        ExponentialMechanism as ExponentialMechanism,
    )
    from dpledger.mechanisms.selection.permute_and_flip import (
        PermuteAndFlip as PermuteAndFlip,
    )
    from dpledger.mechanisms.selection.randomized_response import (
        RandomizedResponse as RandomizedResponse,
    )
    from dpledger.mechanisms.selection.scores import (
        Segments as Segments,
    )
    from dpledger.mechanisms.stability.answers import (
        UNSTABLE as UNSTABLE,
        SideBySide as SideBySide,
    )
    from dpledger.mechanisms.stability.ensembles.chunkers import (
        Hashed as Hashed,
    )
    from dpledger.mechanisms.stability.ensembles.ensemble import (
        Ensemble as Ensemble,
    )
    from dpledger.mechanisms.stability.ensembles.rehearsal import (
        try_learner as try_learner,
    )
    from dpledger.mechanisms.stability.labels.learner import (
        LabelPrivateLearner as LabelPrivateLearner,
        Lesson as Lesson,
    )
    from dpledger.mechanisms.stability.labels.partitions import (
        bins_of_width as bins_of_width,
    )
    from dpledger.mechanisms.stability.labels.soft import (
        SoftLabels as SoftLabels,
    )
    from dpledger.mechanisms.stability.labels.soft_run import (
        SoftQuery as SoftQuery,
    )
    from dpledger.mechanisms.stability.labels.student import (
        Student as Student,
    )
    from dpledger.mechanisms.stability.on_average import (
        MeanSquare as MeanSquare,
        PublicPool as PublicPool,
        StabilityEstimate as StabilityEstimate,
        estimate_stability as estimate_stability,
    )
    from dpledger.mechanisms.stability.planning import (
        StablePlan as StablePlan,
        stable_plan as stable_plan,
    )
    from dpledger.mechanisms.stability.plans.classifier import (
        ClassifierPlan as ClassifierPlan,
        binclas_plan as binclas_plan,
        binclas_required_n as binclas_required_n,
    )
    from dpledger.mechanisms.stability.plans.label_private import (
        LabelPrivatePlan as LabelPrivatePlan,
        label_private_plan as label_private_plan,
    )
    from dpledger.mechanisms.stability.plans.soft import (
        SoftPlan as SoftPlan,
        soft_plan as soft_plan,
    )
    from dpledger.mechanisms.stability.plans.subsample import (
        SubsamplePlan as SubsamplePlan,
        subsample_plan as subsample_plan,
    )
    from dpledger.mechanisms.stability.propose_test_release import (
        ProposeTestRelease as ProposeTestRelease,
    )
    from dpledger.mechanisms.stability.stable_queries import (
        StableQueries as StableQueries,
    )
    from dpledger.mechanisms.stability.stable_release import (
        StableRelease as StableRelease,
    )
    from dpledger.mechanisms.stability.voting import (
        PrivateClassifier as PrivateClassifier,
        SampleAndAggregate as SampleAndAggregate,
    )
    from dpledger.mechanisms.threshold.above_threshold import (
        AboveThreshold as AboveThreshold,
    )
    from dpledger.mechanisms.threshold.sparse_vector import (
        SparseVector as SparseVector,
    )
    from dpledger.mechanisms.training.dp_sgd import (
        DPSGD as DPSGD,
    )
    from dpledger.mechanisms.training.invariance import (
        check_batch_invariance as check_batch_invariance,
    )
    from dpledger.mechanisms.training.planning import (
        TrainingPlan as TrainingPlan,
        dpsgd_plan as dpsgd_plan,
    )
    from dpledger.mechanisms.training.row_sums import (
        row_sums as row_sums,
    )
    from dpledger.mechanisms.units import (
        ByUnit as ByUnit,
    )
    from dpledger.relations import (
        Relation as Relation,
        Unit as Unit,
    )
    from dpledger.reports import (
        report as report,
    )

__version__ = "0.1.0"

_HOME = {
    "dpledger.accounting.planning.allotting": ("Allowance",),
    "dpledger.accounting.planning.calibration": (
        "calibrate",
        "calibrate_count",
    ),
    "dpledger.accounting.composition": (
        "AllowanceFilter",
        "Chain",
        "Composition",
        "Converted",
        "DiscreteGaussianLaw",
        "DiscreteLaplaceLaw",
        "ExPostDP",
        "ExPostOutcome",
        "ExponentialLaw",
        "GaussianLaw",
        "Group",
        "LaplaceLaw",
        "Parallel",
        "PmfPair",
        "PoissonSampled",
        "PostProcessed",
        "RandomAllocation",
        "RandomizedResponseLaw",
        "Repeated",
        "SampledWithoutReplacement",
        "Sequence",
        "Shuffled",
        "SparseVectorLaw",
    ),
    "dpledger.accounting.documents": ("Document",),
    "dpledger.accounting.accountant": ("Accountant",),
    "dpledger.accounting.ex_post.boundaries": (
        "LinearBoundary",
        "MixtureBoundary",
        "StitchedBoundary",
    ),
    "dpledger.accounting.ex_post.odometer": ("Odometer",),
    "dpledger.accounting.filters": (
        "AdvancedFilter",
        "BasicFilter",
        "Boundary",
        "EitherFilter",
        "GDPFilter",
        "MixedFilter",
        "PureFilter",
        "RDPFilter",
        "ZCDPFilter",
    ),
    "dpledger.accounting.guarantees": (
        "GDP",
        "RDP",
        "ZCDP",
        "ApproxDP",
        "BoundedRange",
        "PrivacyCurve",
        "PureDP",
    ),
    "dpledger.accounting.profile": (
        "Bounds",
        "Profile",
        "compose",
    ),
    "dpledger.attach.training": ("private_sgd",),
    "dpledger.audit.experiment": (
        "audit_mechanism",
        "audit_outputs",
    ),
    "dpledger.audit.learning.contracts": ("check_contract",),
    "dpledger.audit.learning.populations": (
        "Population",
        "hard_populations",
    ),
    "dpledger.audit.planned": ("Audit",),
    "dpledger.audit.replay": (
        "ReplayResult",
        "audit_replay",
    ),
    "dpledger.audit.strata": ("ExPostClaim",),
    "dpledger.audit.testing": ("assert_not_refuted",),
    "dpledger.audit.verdict": ("AuditResult",),
    "dpledger.errors": (
        "AuditTooWeak",
        "BudgetRefused",
        "ClaimRefuted",
        "DpledgerError",
        "ParameterError",
        "VerificationError",
    ),
    "dpledger.ledger.declared_runs": ("DeclaredRun",),
    "dpledger.ledger.ledger": ("Ledger",),
    "dpledger.ledger.scope": (
        "Receipt",
        "Scope",
        "Session",
    ),
    "dpledger.mechanisms.learning.finite_class": ("ExponentialPPACLearner",),
    "dpledger.mechanisms.learning.queries.conjunctions": ("PrivateConjunctionLearner",),
    "dpledger.mechanisms.learning.queries.domain_queries": ("DomainQuery",),
    "dpledger.mechanisms.learning.queries.oracle": ("StatisticalQueryOracle",),
    "dpledger.mechanisms.learning.queries.run": ("JointQuery",),
    "dpledger.mechanisms.learning.queries.thresholds": ("PrivateSQThresholdLearner",),
    "dpledger.mechanisms.learning.tables.binning": ("Binning",),
    "dpledger.mechanisms.learning.booster": ("PrivateStumpBooster",),
    "dpledger.mechanisms.learning.tables.stumps": ("StumpClass",),
    "dpledger.mechanisms.learning.samples": ("LabeledSample", "UserSample"),
    "dpledger.mechanisms.learning.theory.concepts": (
        "FiniteClass",
        "ParityClass",
        "PointClass",
        "ThresholdClass",
    ),
    "dpledger.mechanisms.learning.theory.contracts": (
        "AgnosticContract",
        "PACContract",
        "PPACContract",
    ),
    "dpledger.mechanisms.learning.theory.query_sizes": ("query_size",),
    "dpledger.mechanisms.learning.users.learners": ("UserLevelProperLearner",),
    "dpledger.mechanisms.learning.users.least_error": ("MinErrorTest", "MinimumErrorEstimator"),
    "dpledger.mechanisms.learning.users.reading": ("cap_users",),
    "dpledger.mechanisms.learning.users.surrogate_learner": ("UserLevelSurrogateLearner",),
    "dpledger.mechanisms.learning.users.median": ("UserLevelMedian",),
    "dpledger.mechanisms.learning.users.thresholds": ("UserLevelThresholdLearner",),
    "dpledger.mechanisms.learning.parities.learners": (
        "FAIL",
        "PrivateParityLearner",
        "RepeatedParity",
    ),
    "dpledger.mechanisms.learning.reachable": ("reachable_error",),
    "dpledger.mechanisms.learning.recommended": (
        "plan",
        "recommend",
    ),
    "dpledger.mechanisms.learning.represented.boosted": ("BoostedRepresentation",),
    "dpledger.mechanisms.learning.represented.learners": (
        "RealizableRepresentationLearner",
        "SurrogateAgnosticLearner",
    ),
    "dpledger.mechanisms.learning.represented.representations": (
        "HashedPointRepresentation",
        "TrivialRepresentation",
    ),
    "dpledger.mechanisms.learning.theory.users.clipped_sizes": ("clipped_pairwise_plan",),
    "dpledger.mechanisms.learning.compare": ("compare_private_nonprivate",),
    "dpledger.mechanisms.learning.theory.orders": ("order_bounds",),
    "dpledger.mechanisms.learning.theory.parity_sizes": ("parity_plan",),
    "dpledger.mechanisms.learning.users.clipped_pairwise": ("ClippedPairwiseEM",),
    "dpledger.mechanisms.numeric": (
        "ClippedMean",
        "Count",
        "Gaussian",
        "Geometric",
        "Histogram",
        "IntegerGaussian",
        "Laplace",
    ),
    "dpledger.mechanisms.refinement.accuracy_first": ("AccuracyFirst",),
    "dpledger.mechanisms.refinement.doubling": ("Doubling",),
    "dpledger.mechanisms.refinement.gaussian": ("GradualGaussian",),
    "dpledger.mechanisms.refinement.judged": ("Judged",),
    "dpledger.mechanisms.refinement.mean": ("GradualMean",),
    "dpledger.mechanisms.refinement.laplace": ("GradualRelease",),
    "dpledger.mechanisms.refinement.reduction": ("NoiseReduction",),
    "dpledger.mechanisms.selection.exponential": ("ExponentialMechanism",),
    "dpledger.mechanisms.selection.permute_and_flip": ("PermuteAndFlip",),
    "dpledger.mechanisms.selection.randomized_response": ("RandomizedResponse",),
    "dpledger.mechanisms.selection.scores": ("Segments",),
    "dpledger.mechanisms.stability.answers": (
        "UNSTABLE",
        "SideBySide",
    ),
    "dpledger.mechanisms.stability.ensembles.chunkers": ("Hashed",),
    "dpledger.mechanisms.stability.ensembles.ensemble": ("Ensemble",),
    "dpledger.mechanisms.stability.ensembles.rehearsal": ("try_learner",),
    "dpledger.mechanisms.stability.labels.learner": (
        "LabelPrivateLearner",
        "Lesson",
    ),
    "dpledger.mechanisms.stability.labels.partitions": ("bins_of_width",),
    "dpledger.mechanisms.stability.labels.soft": ("SoftLabels",),
    "dpledger.mechanisms.stability.labels.soft_run": ("SoftQuery",),
    "dpledger.mechanisms.stability.labels.student": ("Student",),
    "dpledger.mechanisms.stability.on_average": (
        "MeanSquare",
        "PublicPool",
        "StabilityEstimate",
        "estimate_stability",
    ),
    "dpledger.mechanisms.stability.planning": (
        "StablePlan",
        "stable_plan",
    ),
    "dpledger.mechanisms.stability.plans.classifier": (
        "ClassifierPlan",
        "binclas_plan",
        "binclas_required_n",
    ),
    "dpledger.mechanisms.stability.plans.label_private": (
        "LabelPrivatePlan",
        "label_private_plan",
    ),
    "dpledger.mechanisms.stability.plans.soft": (
        "SoftPlan",
        "soft_plan",
    ),
    "dpledger.mechanisms.stability.plans.subsample": (
        "SubsamplePlan",
        "subsample_plan",
    ),
    "dpledger.mechanisms.stability.propose_test_release": ("ProposeTestRelease",),
    "dpledger.mechanisms.stability.stable_queries": ("StableQueries",),
    "dpledger.mechanisms.stability.stable_release": ("StableRelease",),
    "dpledger.mechanisms.stability.voting": (
        "PrivateClassifier",
        "SampleAndAggregate",
    ),
    "dpledger.mechanisms.threshold.above_threshold": ("AboveThreshold",),
    "dpledger.mechanisms.threshold.sparse_vector": ("SparseVector",),
    "dpledger.mechanisms.training.dp_sgd": ("DPSGD",),
    "dpledger.mechanisms.training.invariance": ("check_batch_invariance",),
    "dpledger.mechanisms.training.planning": (
        "TrainingPlan",
        "dpsgd_plan",
    ),
    "dpledger.mechanisms.training.row_sums": ("row_sums",),
    "dpledger.mechanisms.units": ("ByUnit",),
    "dpledger.relations": (
        "Relation",
        "Unit",
    ),
    "dpledger.reports": ("report",),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}
_NAMESPACES = ("ex_post", "stability")
"""Modules of this package that are public as they are."""

__all__ = ["__version__", *_MODULE_OF, *_NAMESPACES]


def __getattr__(name: str) -> Any:
    if name in _NAMESPACES:
        return import_module(f"{__name__}.{name}")
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
