"""Texts: the numbers in them, their form (the text without its numbers), their words and a label that is short.

>>> read("mean 1.5 of 20")
('mean # of #', (1.5, 20.0))
>>> words_of("kq7-alice"), words_of("a b c d e f")
({1: 'kq', 2: 'alice'}, {1: 'a', 2: 'b', 3: 'c', 4: 'd', -2: 'e', -1: 'f'})
>>> shortened("a" * 500)[:163][-6:]
'aaa...'
"""

from __future__ import annotations

import hashlib
import re

__all__ = ["digest_of", "read", "shortened", "words_of"]

LONGEST_LABEL = 160  # characters; a longer text is cut and told apart by its digest
LONGEST_READ = 1_000_000  # characters
MOST_NUMBERS = 4096  # of one text
ENDS = 4  # words at the start of a text, and as many at its end
_WORD = re.compile(r"[^\W\d_]+")
_NUMBER = re.compile(r"([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)")


def read(text: str) -> tuple[str, tuple[float, ...]]:
    """The form of a text and the numbers in it, in their order."""
    parts = _NUMBER.split(text[:LONGEST_READ], maxsplit=MOST_NUMBERS)
    return "#".join(parts[::2]), tuple(map(float, parts[1::2]))


def words_of(text: str) -> dict[int, str]:
    """The first four words of a text by place from 1, and where it has more, the last four by place from its end, -1;
    a word is a run of letters. A text without two of them has none beside itself."""
    found = _WORD.findall(text[:LONGEST_READ])
    if len(found) < 2:
        return {}
    last = found[ENDS:][-ENDS:]
    return dict(enumerate(found[:ENDS], 1)) | dict(enumerate(last, -len(last)))


def shortened(text: str) -> str:
    """The text itself, or its beginning and a digest."""
    if len(text) <= LONGEST_LABEL:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{text[:LONGEST_LABEL]}... {digest}"


def digest_of(number: int) -> str:
    """A digest of a whole number of any size."""
    return hashlib.sha256(f"{number:x}".encode("ascii")).hexdigest()[:16]
