"""dpledger: certified privacy accounting, a signed ledger of what was released, and empirical audits.

The public names are resolved when they are first used, so that `import dpledger` loads no numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "dpledger.accounting.composition": (
        "Composition", "DiscreteGaussianLaw", "DiscreteLaplaceLaw", "Document", "GaussianLaw", "LaplaceLaw", "Parallel",
        "PoissonSampled", "PostProcessed", "Repeated", "Sequence",
    ),
    "dpledger.accounting.filters": ("BasicFilter", "EitherFilter", "MixedFilter", "PureFilter"),
    "dpledger.accounting.guarantees": ("GDP", "RDP", "ZCDP", "ApproxDP", "BoundedRange", "PureDP"),
    "dpledger.accounting.profile": ("Bounds", "Profile", "compose"),
    "dpledger.errors": ("DpledgerError",),
    "dpledger.ledger.ledger": ("Ledger",),
    "dpledger.ledger.scope": ("Receipt", "Scope", "Session"),
    "dpledger.relations": ("Relation", "Unit"),
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = ["__version__", *_MODULE_OF]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
