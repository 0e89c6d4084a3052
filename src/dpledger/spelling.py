"""What somebody may have meant by a word that is not known, and which names may be one name, misspelt.

>>> meant("epsilom", ("epsilon", "delta"))
' (did you mean epsilon?)'
>>> meant("colour", ("epsilon", "delta"))
''
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

__all__ = ["meant", "spelt_alike"]

_MOST = 2  # that are named
_NEAR = 0.7  # of 1, by `difflib`
_LONGEST = 100  # characters of a word that is looked for
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_PART = re.compile(r"\d+|[^\W\d_]+")
_SHORT = 3  # letters of a word that tells names apart: a, ii, de, men
_SURE = 5  # letters, of which one may be a slip


def meant(word: object, known: Iterable[object]) -> str:
    """The end of a message: those of the texts in `known` that are spelt nearly as `word`, the nearest first, of a
    mapping what it says of them; nothing where none is. Whatever is no text is near nothing."""
    if not isinstance(word, str) or len(word) > _LONGEST:
        return ""
    told = known if isinstance(known, Mapping) else {one: one for one in known if isinstance(one, str)}
    spelt = {one.casefold(): text for one, text in told.items()}
    near = [spelt[one] for one in get_close_matches(word.casefold(), list(spelt), n=_MOST, cutoff=_NEAR)]
    return f" (did you mean {' or '.join(near)}?)" if near else ""


def spelt_alike(names: Iterable[str]) -> list[tuple[str, ...]]:
    """The groups, each sorted, of two names or more that may be one name: they differ in case, in what is no letter and
    no digit, in a last s, or in one letter that is wrong, missing, added or out of place. Names that differ in a digit,
    in a short word, or in their first letter are meant to.

    >>> spelt_alike(["visits", "Visits", "vists", "visits 2024", "visits 2025", "cohort a", "cohort b"])
    [('Visits', 'visits', 'vists')]
    """
    with_digits: dict[str, list[str]] = {}  # names whose digits differ have no key in common
    for name in set(names):
        with_digits.setdefault("".join(filter(str.isdigit, name)), []).append(name)
    sharing: dict[object, list[str]] = {}
    for name in (name for some in with_digits.values() if len(some) > 1 for name in some):
        for key in _keys(name):
            sharing.setdefault(key, []).append(name)
    groups = []
    while sharing:
        _, reached = sharing.popitem()
        group: set[str] = set()
        while reached:
            name = reached.pop()
            if name not in group:
                group.add(name)
                reached += [other for key in _keys(name) for other in sharing.pop(key, ())]
        if len(group) > 1:
            groups.append(tuple(sorted(group)))
    return sorted(groups)


def _keys(name: str) -> list[object]:
    """What two names that may be one name have in common: one of these."""
    parts = _PART.findall(_CAMEL.sub(" ", name).casefold())
    whole = "".join(parts).removesuffix("s") or name
    letters = "".join(part for part in parts if not part.isdigit())
    if not _SURE <= len(letters) <= _LONGEST:
        return [whole]
    marks = tuple(part for part in parts if part.isdigit() or len(part) <= _SHORT)
    letters = letters.removesuffix("s")
    return [whole, *((marks, letters[:place] + letters[place + 1 :]) for place in range(1, len(letters) + 1))]
