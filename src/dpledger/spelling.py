"""What somebody may have meant by a word that is not known.

>>> meant("epsilom", ("epsilon", "delta"))
' (did you mean epsilon?)'
>>> meant("colour", ("epsilon", "delta"))
''
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

__all__ = ["meant"]

_MOST = 2  # that are named
_NEAR = 0.7  # of 1, by `difflib`
_LONGEST = 100  # characters of a word that is looked for


def meant(word: object, known: Iterable[object]) -> str:
    """The end of a message: those of the texts in `known` that are spelt nearly as `word`, the nearest first, of a
    mapping what it says of them; nothing where none is. Whatever is no text is near nothing."""
    if not isinstance(word, str) or len(word) > _LONGEST:
        return ""
    told = known if isinstance(known, Mapping) else {one: one for one in known if isinstance(one, str)}
    spelt = {one.casefold(): text for one, text in told.items()}
    near = [spelt[one] for one in get_close_matches(word.casefold(), list(spelt), n=_MOST, cutoff=_NEAR)]
    return f" (did you mean {' or '.join(near)}?)" if near else ""
