"""A learner of its own for each chunk: what one chunk makes of it, the next one does not see.

`copy.deepcopy` takes functions for constants. Here a function is copied as well, with all that it closes over, its
defaults and attributes, the generators that it names among its globals, and the functions beside it that it calls.

>>> import numpy as np
>>> def make():
...     coins = np.random.default_rng(7)
...     return lambda: int(coins.integers(1000))
>>> draw = make()
>>> [own(draw)(), own(draw)(), own(draw)()]
[944, 944, 944]
"""

from __future__ import annotations

import io
import pickle
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, TypeVar, cast

import numpy as np

__all__ = ["drawn_from", "own"]

T = TypeVar("T")

_GENERATORS = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random)


def own(learner: T) -> T:
    """A copy that shares nothing that changes, but for what its code reaches elsewhere: globals other than generators,
    attributes of classes and modules. Raises what pickle raises for what has no copy, like a lock or an open file."""
    buffer = io.BytesIO()
    copier = _Copier(buffer)
    copier.dump(learner)
    buffer.seek(0)
    return cast(T, _Reader(buffer, copier.kept).load())


def drawn_from(learner: Any) -> str | None:
    """The global generator that a method of the learner's class names, which no copy of the learner has for its own;
    None where there is none."""
    owner = learner.__self__ if isinstance(learner, MethodType) else learner
    for kind in type(owner).__mro__:
        for member in vars(kind).values():
            method = getattr(member, "__func__", member)
            if isinstance(method, FunctionType):
                for name in _names(method.__code__):
                    if isinstance(method.__globals__.get(name), _GENERATORS):
                        return name
    return None


@dataclass(frozen=True, slots=True, eq=False)
class _World:
    """The globals that copied functions share."""

    names: dict[str, Any]


class _Copier(pickle.Pickler):
    """Writes functions by value. What is code or a class stays itself: `kept`."""

    def __init__(self, buffer: io.BytesIO) -> None:
        super().__init__(buffer, protocol=5)
        self.kept: list[Any] = []
        self._worlds: dict[int, _World] = {}
        self._beside: set[int] = set()  # functions of a module that one copied from it names

    def dump(self, learner: Any) -> None:
        """Write the learner."""
        self._beside.add(id(learner))
        super().dump(learner)

    def persistent_id(self, one: Any) -> int | None:
        """The place of what is not copied."""
        if not isinstance(one, (type, CodeType, ModuleType, _World)):
            return None
        self.kept.append(one)
        return len(self.kept) - 1

    def reducer_override(self, one: Any) -> Any:
        """How functions, and the cells that they close over, are made anew."""
        if isinstance(one, CellType):
            return CellType, (), _content(one), None, None, _fill_cell
        if not isinstance(one, FunctionType) or (id(one) not in self._beside and _is_by_name(one)):
            return NotImplemented
        world = self._worlds.setdefault(id(one.__globals__), _World(dict(one.__globals__)))
        named = {name: one.__globals__[name] for name in _names(one.__code__) if name in one.__globals__}
        beside = {name: value for name, value in named.items() if _is_beside(value, one)}
        self._beside.update(map(id, beside.values()))
        coins = {name: value for name, value in named.items() if isinstance(value, _GENERATORS)}
        state = (one.__defaults__, one.__kwdefaults__, one.__dict__, one.__qualname__, {**beside, **coins}, world)
        return _function, (one.__code__, world, one.__name__, one.__closure__), state, None, None, _fill_function


class _Reader(pickle.Unpickler):
    def __init__(self, buffer: io.BytesIO, kept: list[Any]) -> None:
        super().__init__(buffer)
        self._kept = kept

    def persistent_load(self, place: Any) -> Any:
        return self._kept[place]


def _function(code: CodeType, world: _World, name: str, closure: tuple[CellType, ...] | None) -> FunctionType:
    return FunctionType(code, world.names, name, None, closure)


def _fill_function(function: FunctionType, state: tuple[Any, ...]) -> None:
    function.__defaults__, function.__kwdefaults__, attributes, function.__qualname__, named, world = state
    function.__dict__.update(attributes)
    world.names.update(named)


def _content(cell: CellType) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:  # empty
        return ()


def _fill_cell(cell: CellType, content: tuple[Any, ...]) -> None:
    for value in content:
        cell.cell_contents = value


def _is_beside(value: Any, function: FunctionType) -> bool:
    return isinstance(value, FunctionType) and value.__module__ == function.__module__


def _is_by_name(function: FunctionType) -> bool:
    """Whether a module holds it under its name."""
    found: Any = sys.modules.get(function.__module__)
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is function


def _names(code: CodeType) -> Iterator[str]:
    """The names that code reads, and the code within it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
