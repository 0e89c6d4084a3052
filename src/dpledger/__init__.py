"""dpledger: certified privacy accounting, a signed ledger of what was released, and empirical audits.

The public names are resolved when they are first used, so that `import dpledger` loads no numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpledger.accounting.composition import (
        Composition as Composition,
    )
    from dpledger.accounting.composition import (
        DiscreteGaussianLaw as DiscreteGaussianLaw,
    )
    from dpledger.accounting.composition import (
        DiscreteLaplaceLaw as DiscreteLaplaceLaw,
    )
    from dpledger.accounting.composition import (
        Document as Document,
    )
    from dpledger.accounting.composition import (
        GaussianLaw as GaussianLaw,
    )
    from dpledger.accounting.composition import (
        LaplaceLaw as LaplaceLaw,
    )
    from dpledger.accounting.composition import (
        Parallel as Parallel,
    )
    from dpledger.accounting.composition import (
        PoissonSampled as PoissonSampled,
    )
    from dpledger.accounting.composition import (
        PostProcessed as PostProcessed,
    )
    from dpledger.accounting.composition import (
        Repeated as Repeated,
    )
    from dpledger.accounting.composition import (
        Sequence as Sequence,
    )
    from dpledger.accounting.composition import (
        SparseVectorLaw as SparseVectorLaw,
    )
    from dpledger.accounting.filters import (
        BasicFilter as BasicFilter,
    )
    from dpledger.accounting.filters import (
        EitherFilter as EitherFilter,
    )
    from dpledger.accounting.filters import (
        MixedFilter as MixedFilter,
    )
    from dpledger.accounting.filters import (
        PureFilter as PureFilter,
    )
    from dpledger.accounting.guarantees import (
        GDP as GDP,
    )
    from dpledger.accounting.guarantees import (
        RDP as RDP,
    )
    from dpledger.accounting.guarantees import (
        ZCDP as ZCDP,
    )
    from dpledger.accounting.guarantees import (
        ApproxDP as ApproxDP,
    )
    from dpledger.accounting.guarantees import (
        BoundedRange as BoundedRange,
    )
    from dpledger.accounting.guarantees import (
        PureDP as PureDP,
    )
    from dpledger.accounting.profile import (
        Bounds as Bounds,
    )
    from dpledger.accounting.profile import (
        Profile as Profile,
    )
    from dpledger.accounting.profile import (
        compose as compose,
    )
    from dpledger.audit.experiment import (
        audit_mechanism as audit_mechanism,
    )
    from dpledger.audit.experiment import (
        audit_outputs as audit_outputs,
    )
    from dpledger.audit.verdict import (
        AuditResult as AuditResult,
    )
    from dpledger.errors import (
        BudgetRefused as BudgetRefused,
    )
    from dpledger.errors import (
        DpledgerError as DpledgerError,
    )
    from dpledger.errors import (
        ParameterError as ParameterError,
    )
    from dpledger.errors import (
        VerificationError as VerificationError,
    )
    from dpledger.ledger.ledger import (
        Ledger as Ledger,
    )
    from dpledger.ledger.scope import (
        Receipt as Receipt,
    )
    from dpledger.ledger.scope import (
        Scope as Scope,
    )
    from dpledger.ledger.scope import (
        Session as Session,
    )
    from dpledger.mechanisms.numeric import (
        ClippedMean as ClippedMean,
    )
    from dpledger.mechanisms.numeric import (
        Count as Count,
    )
    from dpledger.mechanisms.numeric import (
        Gaussian as Gaussian,
    )
    from dpledger.mechanisms.numeric import (
        Histogram as Histogram,
    )
    from dpledger.mechanisms.numeric import (
        Laplace as Laplace,
    )
    from dpledger.mechanisms.threshold.sparse_vector import (
        SparseVector as SparseVector,
    )
    from dpledger.mechanisms.training.dp_sgd import (
        DPSGD as DPSGD,
    )
    from dpledger.relations import (
        Relation as Relation,
    )
    from dpledger.relations import (
        Unit as Unit,
    )
    from dpledger.reports import (
        report as report,
    )

__version__ = "0.1.0"

_HOME = {
    "dpledger.accounting.composition": (
        "Composition",
        "DiscreteGaussianLaw",
        "DiscreteLaplaceLaw",
        "Document",
        "GaussianLaw",
        "LaplaceLaw",
        "Parallel",
        "PoissonSampled",
        "PostProcessed",
        "Repeated",
        "Sequence",
        "SparseVectorLaw",
    ),
    "dpledger.accounting.filters": ("BasicFilter", "EitherFilter", "MixedFilter", "PureFilter"),
    "dpledger.accounting.guarantees": ("GDP", "RDP", "ZCDP", "ApproxDP", "BoundedRange", "PureDP"),
    "dpledger.accounting.profile": ("Bounds", "Profile", "compose"),
    "dpledger.audit.experiment": ("audit_mechanism", "audit_outputs"),
    "dpledger.audit.verdict": ("AuditResult",),
    "dpledger.errors": ("BudgetRefused", "DpledgerError", "ParameterError", "VerificationError"),
    "dpledger.ledger.ledger": ("Ledger",),
    "dpledger.ledger.scope": ("Receipt", "Scope", "Session"),
    "dpledger.mechanisms.numeric": ("ClippedMean", "Count", "Gaussian", "Histogram", "Laplace"),
    "dpledger.mechanisms.threshold.sparse_vector": ("SparseVector",),
    "dpledger.mechanisms.training.dp_sgd": ("DPSGD",),
    "dpledger.relations": ("Relation", "Unit"),
    "dpledger.reports": ("report",),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = ["__version__", *_MODULE_OF]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
