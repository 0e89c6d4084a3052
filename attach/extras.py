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


@contextmanager
def extra(name: str) -> Iterator[None]:
    """For imports of what the extra `name` brings: where one fails, its error says so, and is of its own type."""
    try:
        yield
    except ImportError as error:
        told = f"{error}; what this module needs: pip install 'dpledger[{name}]'"
        raise type(error)(told, name=error.name, path=error.path) from error
