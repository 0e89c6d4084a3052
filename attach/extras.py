"""Errors for a library that is missing, or of another version: which extra brings it.

>>> with extra("opacus"):
...     import no_such_library
Traceback (most recent call last):
...
ModuleNotFoundError: No module named 'no_such_library'; what this module needs: pip install 'dpledger[opacus]'
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["extra"]

_NEEDS = "; what this module needs: pip install "


@contextmanager
def extra(name: str) -> Iterator[None]:
    """For imports of what the extra `name` brings: where one fails, its error says so, and is of its own type. Of
    extras within one another the outermost is named: that of the module that was asked for."""
    try:
        yield
    except ImportError as error:
        told = f"{str(error).partition(_NEEDS)[0]}{_NEEDS}'dpledger[{name}]'"
        raise type(error)(told, name=error.name, path=error.path) from error
