"""Texts: the numbers in them, their form (the text without its numbers) and a label that is short.

>>> read("mean 1.5 of 20")
('mean # of #', (1.5, 20.0))
>>> shortened("a" * 500)[:163][-6:]
'aaa...'
"""

from __future__ import annotations

import hashlib
import re

__all__ = ["digest_of", "read", "shortened"]

LONGEST_LABEL = 160  # characters; a longer text is cut and told apart by its digest
LONGEST_READ = 1_000_000  # characters
MOST_NUMBERS = 4096  # of one text
_NUMBER = re.compile(r"([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)")


def read(text: str) -> tuple[str, tuple[float, ...]]:
    """The form of a text and the numbers in it, in their order."""
    parts = _NUMBER.split(text[:LONGEST_READ], maxsplit=MOST_NUMBERS)
    return "#".join(parts[::2]), tuple(map(float, parts[1::2]))


def shortened(text: str) -> str:
    """The text itself, or its beginning and a digest."""
    if len(text) <= LONGEST_LABEL:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{text[:LONGEST_LABEL]}... {digest}"


def digest_of(number: int) -> str:
    """A digest of a whole number of any size."""
    return hashlib.sha256(f"{number:x}".encode("ascii")).hexdigest()[:16]
