"""What a refused training is told to do next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dpledger.errors import BudgetRefused

__all__ = ["told_what_fits"]


@contextmanager
def told_what_fits(plan: str) -> Iterator[None]:
    """A refusal of the budget names at its end the function that plans such a run."""
    try:
        yield
    except BudgetRefused as refused:
        refused.args = (f"{refused}; `{plan}` finds the least noise with which such a run fits",)
        raise
