"""Functions that raise errors of ours in a worker process."""

from __future__ import annotations

import dpledger as dpl

__all__ = ["mistaken", "refused"]


def refused(asked: str) -> object:
    """Ask a scope of epsilon 1 for more: BudgetRefused."""
    with dpl.Ledger.in_memory() as book:
        scope = book.scope("rows", unit="record", relation="add_remove", budget=dpl.PureDP(1))
        return scope.release(dpl.Laplace(sensitivity=1, epsilon=asked), 1).value


def mistaken(epsilon: object) -> object:
    """A parameter that is none: ParameterError."""
    return dpl.PureDP(epsilon)  # type: ignore[arg-type]
