"""Every public name, and what it names."""

from __future__ import annotations

from inspect import ismodule
from typing import Any

import dpledger as dpl

__all__ = ["public"]


def public() -> dict[str, Any]:
    """What a user may take from the package: `Laplace`, `learning.PointClass`; no modules."""
    names = {name: getattr(dpl, name) for name in dpl.__all__}
    spaces = {name: space for name, space in names.items() if ismodule(space)}
    inside = {f"{name}.{one}": getattr(space, one) for name, space in spaces.items() for one in space.__all__}
    return {name: value for name, value in names.items() if name not in spaces} | inside
