"""Every public name, and what it names."""

from __future__ import annotations

from inspect import ismodule
from typing import Any

import dpledger as dpl

__all__ = ["public"]


def public() -> dict[str, Any]:
    """What a user calls: `Laplace`, `learning.PointClass`; no modules, and of errors those of every day."""
    names = {name: getattr(dpl, name) for name in dpl.__all__}
    spaces = {name: space for name, space in names.items() if ismodule(space)}
    rooms = {name: space for name, space in spaces.items() if space is not dpl.errors}
    inside = {f"{name}.{one}": getattr(space, one) for name, space in rooms.items() for one in space.__all__}
    return {name: value for name, value in names.items() if name not in spaces} | inside
