"""What the copies of a learner still share, as far as it can be looked up: attributes of the caller's own classes and
modules, and what their methods close over, have for defaults and name.

Installed packages are not looked into. What could not be pickled is known by its identity alone.

>>> import numpy as np
>>> __name__ = "a_notebook"
>>> class Last:
...     model = None
...     def __call__(self, rows, labels):
...         Last.model = labels.mean()
...         return lambda asked: [Last.model] * len(asked)
>>> learner = Last()
>>> before = remembered(learner)
>>> answer = learner(None, np.ones(1))
>>> changed(before, remembered(learner))
['Last.model']
"""

from __future__ import annotations

import hashlib
import io
import sys
from collections.abc import Iterator, Sized
from types import FunctionType, MethodType, ModuleType
from typing import Any, TypeAlias

from dpledger.mechanisms.stability.ensembles.copies import CACHED, Copier, attributes, content, is_installed, named

__all__ = ["Memory", "changed", "left", "remembered", "uncopied"]

Memory: TypeAlias = dict[tuple[str, str], tuple[bytes | int, ...]]
"""By owner and name: a digest of what it holds, or its identity."""

_LEFT: set[bytes | int] = set()  # digests of what learners left where it is shared

_Place: TypeAlias = tuple[str, str, Any]
"""An owner, a name and what it holds. Without a name: the owner is there. Without an owner: a way on, no place."""
_CODE = (FunctionType, MethodType, type, property, staticmethod, classmethod, CACHED)


def remembered(learner: Any) -> Memory:
    """What the learner, and all code of the caller's that it reaches, remembers."""
    found: Memory = {}
    for (owner, name, _), digest in _places(learner):
        if owner:
            found[owner, name] = (*found.get((owner, name), ()), digest)
    return found


def changed(before: Memory, after: Memory) -> list[str]:
    """The names of what is not as it was, or new at an owner that was there."""
    owners = {owner for owner, _ in before}
    keys = [key for key in after if key[1] and (before[key] != after[key] if key in before else key[0] in owners)]
    for key in keys:
        _LEFT.update(digest for digest in after[key] if isinstance(digest, bytes) and digest not in before.get(key, ()))
    return _named(keys)


def left(memory: Memory) -> list[str]:
    """The names of what is still as a call of `changed` found it: a cache that is full does not change again."""
    return _named([key for key, digests in memory.items() if not _LEFT.isdisjoint(digests)])


def _named(keys: list[tuple[str, str]]) -> list[str]:
    return sorted(f"{owner}.{name}" for owner, name in keys)


def uncopied(learner: Any) -> str | None:
    """A name under which code of the learner's holds what cannot be copied; None where there is none."""
    for (owner, name, value), digest in _places(learner):
        if owner and isinstance(digest, int) and value is not learner and not isinstance(value, _CODE):
            return f"{owner}.{name}"
    return None


def _places(learner: Any) -> Iterator[tuple[_Place, bytes | int]]:
    """Every place that code of the caller's reaches from the learner, and a digest of what it holds."""
    todo: list[_Place] = [(type(learner).__name__, "state", learner)]
    seen: dict[int, Any] = {}  # values too, so that no number is that of another one
    while todo:
        owner, name, value = todo.pop()
        digest, within = (id(value), []) if isinstance(value, _CODE) else _digest(value, learner)
        yield (owner, name, value), digest
        if id(value) not in seen:
            seen[id(value)] = value
            inside = _inside(value, learner) if isinstance(value, _CODE) else _attributes(value, digest, learner)
            todo += [
                place for place in (*inside, *(("", "", one) for one in within)) if place[0] or id(place[2]) not in seen
            ]


def _attributes(value: Any, digest: bytes | int, learner: Any) -> Iterator[_Place]:
    """Those of objects of the caller's, whose digest is what they say; and of what has none."""
    owner = type(value).__qualname__
    is_own = isinstance(digest, int) or not is_installed(type(value).__module__, learner)
    if is_own and hasattr(value, "__dict__"):  # in this order: a partial has none until it is asked, and pickles it
        yield owner, "", None
        yield from ((owner, name, held) for name, held in vars(value).items())


class _Stable(Copier):
    """Writes the same bytes of the same values."""

    def reducer_override(self, one: Any) -> Any:
        """A generator of torch by its state, which it would write with an address."""
        generator: Any = getattr(sys.modules.get("torch"), "Generator", ())
        if isinstance(one, generator):
            return type(one), (), one.get_state().numpy().tobytes()
        return super().reducer_override(one)


def _digest(value: Any, learner: Any) -> tuple[bytes | int, list[Any]]:
    """A digest of a value, and the code that is in it."""
    buffer = io.BytesIO()
    copier = _Stable(buffer, learner)
    try:
        copier.dump(value)
    except Exception:  # of pickle, or of the value's own methods
        return hash((id(value), len(value) if isinstance(value, Sized) else 0)), [type(value)]
    within = [*copier.functions, *(one for one in copier.kept if isinstance(one, type))]
    return hashlib.sha256(buffer.getvalue()).digest(), within


def _inside(code: Any, learner: Any) -> Iterator[_Place]:
    """The places that code holds."""
    match code:
        case FunctionType() if not is_installed(code.__globals__.get("__name__"), learner):
            yield from _of_function(code, learner)
        case type() if not is_installed(code.__module__, learner):
            yield code.__qualname__, "", None
            yield from (("", "", base) for base in (*code.__bases__, type(code)))
            for name, value in vars(code).items():
                if isinstance(value, _CODE) or not name.startswith("__"):  # Python writes __slotnames__ and others
                    yield code.__qualname__, name, value
        case MethodType():
            yield "", "", code.__func__
            yield type(code.__self__).__qualname__, "state", code.__self__
        case staticmethod() | classmethod():
            yield "", "", code.__func__
        case property():
            yield from (("", "", one) for one in (code.fget, code.fset, code.fdel) if one is not None)
        case CACHED():
            yield code.__qualname__, "cache", tuple(code.cache_info())
            yield "", "", code.__wrapped__


def _of_function(function: FunctionType, learner: Any) -> Iterator[_Place]:
    owner = function.__qualname__
    yield owner, "defaults", (function.__defaults__, function.__kwdefaults__)
    yield owner, "attributes", vars(function)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield from ((owner, name, value) for value in content(cell))
    words = attributes(function.__code__)
    for name, value in named(function).items():
        if isinstance(value, ModuleType):
            yield from _of_module(value, words, learner)
        else:
            yield function.__module__, name, value
    for name in words & sys.modules.keys():  # imported where it runs
        if isinstance(module := sys.modules[name], ModuleType):
            yield from _of_module(module, words, learner)


def _of_module(module: ModuleType, words: frozenset[str], learner: Any) -> Iterator[_Place]:
    """What a module of the caller's holds under words that a function reads or sets."""
    if is_installed(module.__name__, learner):
        return
    yield module.__name__, "", None
    for name in words & vars(module).keys():
        value = vars(module)[name]
        if isinstance(value, ModuleType):
            yield from _of_module(value, words - {name}, learner)
        elif isinstance(value, type) or (isinstance(value, FunctionType) and value.__module__ != module.__name__):
            yield "", "", value  # modules may load classes and functions once they are asked for
        else:
            yield module.__name__, name, value
