"""Small mechanisms in plain numpy, each a frozen callable that travels to worker processes.

They draw idealised floating-point noise from a seeded generator: for audits and their tests, never for a release.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger import decimals
from dpledger.schema import Plain

__all__ = ["Implementation", "Numbers", "Rng"]

Rng: TypeAlias = np.random.Generator
Numbers: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True)
class Implementation:
    """What implementations share: a name and public parameters for the ledger's note."""

    @property
    def kind(self) -> str:
        return f"zoo.{type(self).__name__}"

    def parameters(self) -> Mapping[str, Plain]:
        """Numbers as exact decimals, the rest as text."""
        return {field.name: _text(getattr(self, field.name)) for field in fields(self)}


def _text(value: object) -> str:
    if isinstance(value, float) and math.isfinite(value):
        return decimals.text(Decimal.from_float(value))
    if isinstance(value, (int, Decimal)) and not isinstance(value, bool) and math.isfinite(value):
        return decimals.text(Decimal(value))
    return str(value)
