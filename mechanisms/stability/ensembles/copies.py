"""A learner of its own for each chunk: what one chunk makes of it, the next one does not see.

`copy.deepcopy` takes functions for constants. Here a function is copied as well, with all that it closes over, its
defaults and attributes, and every global that its code names: estimators, generators, caches, tables, and the functions
that it calls. Modules, classes, builtins and the functions of installed packages stay themselves; `shared` watches what
the caller's own classes and modules hold.

>>> import numpy as np
>>> def make():
...     coins = np.random.default_rng(7)
...     return lambda: int(coins.integers(1000))
>>> draw = make()
>>> [own(draw)(), own(draw)(), own(draw)()]
[944, 944, 944]
"""

from __future__ import annotations

import dis
import functools
import io
import pickle
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, TypeVar, cast

__all__ = ["CACHED", "Copier", "attributes", "content", "is_installed", "named", "own"]

T = TypeVar("T")

_READS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")

CACHED = type(functools.lru_cache(len))
"""What `functools.lru_cache` makes of a function."""


def own(learner: T) -> T:
    """A copy that shares nothing that changes, but for what its code reaches elsewhere: attributes of classes and
    modules. Raises what pickle raises for what has no copy, like a lock or an open file."""
    buffer = io.BytesIO()
    copier = Copier(buffer, learner)
    copier.dump(learner)
    buffer.seek(0)
    return cast(T, _Reader(buffer, copier.kept).load())


def is_installed(module: Any, learner: Any = None) -> bool:
    """Whether a module, by name, is one of Python or of an installed package, other than that of a learner which is a
    function."""
    if not isinstance(module, str):
        return False
    top = module.partition(".")[0]
    if top == "dpledger":
        return True
    if isinstance(learner, FunctionType) and top == str(learner.__module__).partition(".")[0]:
        return False
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return top in sys.stdlib_module_names or not {"site-packages", "dist-packages"}.isdisjoint(PurePath(file).parts)


def named(function: FunctionType) -> dict[str, Any]:
    """The globals that the code of a function reads, and the code within it."""
    return {name: function.__globals__[name] for name in _read(function.__code__) if name in function.__globals__}


@dataclass(frozen=True, slots=True, eq=False)
class _World:
    """The globals that copied functions share."""

    names: dict[str, Any]


class Copier(pickle.Pickler):
    """Writes functions by value. What is code, a class or a module stays itself: `kept`. `functions`: those written."""

    def __init__(self, buffer: io.BytesIO, learner: Any) -> None:
        super().__init__(buffer, protocol=5)
        self.kept: list[Any] = []
        self.functions: list[FunctionType] = []
        self._learner = learner
        self._worlds: dict[int, _World] = {}

    def persistent_id(self, one: Any) -> int | None:
        """The place of what is not copied."""
        if (
            not isinstance(one, (type, CodeType, ModuleType, _World)) and type(one) is not object
        ):  # a mark, known by `is`
            return None
        self.kept.append(one)
        return len(self.kept) - 1

    def reducer_override(self, one: Any) -> Any:
        """How functions, and the cells that they close over, are made anew."""
        match one:
            case CellType():
                return CellType, (), content(one), None, None, _fill_cell
            case CACHED():
                return _cached, (one.__wrapped__, one.cache_parameters())
            case staticmethod() | classmethod():
                return type(one), (one.__func__,)
            case property():
                return property, (one.fget, one.fset, one.fdel)
            case FunctionType():
                installed = is_installed(one.__globals__.get("__name__"), self._learner)
                return NotImplemented if installed and _is_by_name(one) else self._by_value(one, installed)
        return NotImplemented

    def _by_value(self, one: FunctionType, installed: bool) -> Any:
        """Of an installed package, a function that has no name there: globals are those of the package."""
        names = one.__globals__ if installed else dict(one.__globals__)
        world = self._worlds.setdefault(id(one.__globals__), _World(names))
        self.functions.append(one)
        read = {} if installed else named(one)
        state = (one.__defaults__, one.__kwdefaults__, one.__dict__, one.__qualname__, read, world)
        return _function, (one.__code__, world, one.__name__, one.__closure__), state, None, None, _fill_function


class _Reader(pickle.Unpickler):
    def __init__(self, buffer: io.BytesIO, kept: list[Any]) -> None:
        super().__init__(buffer)
        self._kept = kept

    def persistent_load(self, place: Any) -> Any:
        return self._kept[place]


def _cached(function: Any, parameters: dict[str, Any]) -> Any:
    return functools.lru_cache(**parameters)(function)


def _function(code: CodeType, world: _World, name: str, closure: tuple[CellType, ...] | None) -> FunctionType:
    return FunctionType(code, world.names, name, None, closure)


def _fill_function(function: FunctionType, state: tuple[Any, ...]) -> None:
    function.__defaults__, function.__kwdefaults__, attributes, function.__qualname__, globals_read, world = state
    function.__dict__.update(attributes)
    world.names.update(globals_read)


def content(cell: CellType) -> tuple[Any, ...]:
    """What a cell holds; nothing where it is empty."""
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()


def _fill_cell(cell: CellType, values: tuple[Any, ...]) -> None:
    for value in values:
        cell.cell_contents = value


def _is_by_name(function: FunctionType) -> bool:
    """Whether a module holds it under its name."""
    found: Any = sys.modules.get(function.__module__)
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is function


def attributes(code: CodeType) -> frozenset[str]:
    """All names in code, and the code within it: of globals, attributes and imports."""
    return frozenset(name for each in _nested(code) for name in each.co_names)


@functools.lru_cache(maxsize=4096)
def _read(code: CodeType) -> tuple[str, ...]:
    """The names of globals that code reads."""
    steps = (step for each in _nested(code) for step in dis.get_instructions(each))
    return tuple(dict.fromkeys(step.argval for step in steps if step.opname in _READS))


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)
