"""The caller's own code, run where what goes wrong in it may not be told: it depends on the data.

>>> came_to(lambda: 1), came_to(lambda: 1 / 0)
((1,), None)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

__all__ = ["came_to"]

Value = TypeVar("Value")


def came_to(code: Callable[[], Value]) -> tuple[Value] | None:
    """What the code came to; None where it raised, whatever that was, unless somebody ends the program."""
    try:
        return (code(),)
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise  # nothing of the code
    except BaseException:  # what some libraries raise when they break is no Exception
        return None
