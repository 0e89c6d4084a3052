"""Elementary functions that are as wrong as error bounds assume them to be at most, or twice as wrong.

Ours are better than that, so a bound that forgets one of its errors holds with them all the same. With these it does
not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import ERFC_ULPS, ULPS

__all__ = ["worst_functions"]

ACCOUNTING = "dpledger.accounting."

OURS = 1.2  # units in the last place that ours err by already, and the rounding of what is added


@contextmanager
def worst_functions(side: int, units: int = 2 * ULPS) -> Iterator[None]:
    """All of them err upwards (1) or downwards (-1); with 0 they are as they are. `units` in the last place: of all but
    erfc, by default twice what is assumed, for which most bounds have room. Nothing that was computed before is
    remembered, nor afterwards what was computed here."""
    _forget()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("exp", "expm1", "log", "log1p", "erfc"):
            most = ERFC_ULPS if name == "erfc" else units
            for module in (elementary, scalars):
                patch.setattr(module, name, _moved(getattr(module, name), side * (most - OURS)))
        yield
    _forget()


def _forget() -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith(ACCOUNTING):
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


def _moved(function: Callable[..., Any], units: float) -> Callable[..., Any]:
    def moved(*given: Any) -> Any:
        value = function(*given)
        with np.errstate(invalid="ignore"):
            found = np.where(np.isfinite(value) & (value != 0), value + units * np.abs(np.spacing(value)), value)
        return float(found) if isinstance(value, float) else found

    return moved
