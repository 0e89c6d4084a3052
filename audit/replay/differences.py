"""In what two values differ, bit for bit, by structure: what a mechanism returned on two datasets.

Whatever tells two values apart counts: type, shape, keys and their order, the sign of a zero, what a function closes
over. A path is written as in Python. Its public form leaves out keys that are text, since they may be data.

>>> [found.words for found in differences({"mean": 1.5, "n": 3}, {"mean": 1.5, "n": 4})]
['output["n"] has another value']
>>> [found.words for found in differences([1, None], [1])]
['output has another length']
"""

from __future__ import annotations

import dataclasses
import functools
import struct
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt

__all__ = ["OutputDifference", "differences", "same"]

MOST = 16  # differences told
_ATOMS: Final = (bool, int, str, bytes, complex, type(None), type(Ellipsis), range, Decimal, Fraction, Enum)
_TIMES: Final = (date, time, timedelta)
_FIXED: Final = (type, types.ModuleType, types.BuiltinFunctionType)
_UNSEEN: Final = "is of a kind that cannot be compared"


@dataclass(frozen=True, slots=True)
class OutputDifference:
    """`path`: where; `public_path`: the same without text that may be data; `how`: what differs."""

    path: str
    public_path: str
    how: str

    @property
    def words(self) -> str:
        """For whoever made up the data."""
        return f"{self.path} {self.how}"

    @property
    def public_words(self) -> str:
        """Without anything that was in the data or the output."""
        return f"{self.public_path} {self.how}"

    @property
    def seen(self) -> bool:
        """False: the two could not be compared."""
        return self.how != _UNSEEN


def differences(left: object, right: object, at: str = "output", most: int = MOST) -> tuple[OutputDifference, ...]:
    """The first differences, at most so many; none where the two are the same to the last bit."""
    walk = _Walk(most)
    walk.compare(left, right, _Place(at, at))
    return tuple(walk.found)


def same(left: object, right: object) -> bool:
    """Whether nothing tells them apart."""
    return not differences(left, right)


@dataclass(frozen=True, slots=True)
class _Place:
    path: str
    public: str

    def item(self, key: object) -> _Place:
        if type(key) is int:
            return _Place(f"{self.path}[{key}]", f"{self.public}[{key}]")
        shown = f'"{key}"' if isinstance(key, str) else repr(key)
        return _Place(f"{self.path}[{shown}]", f"{self.public}[key]")

    def named(self, name: str) -> _Place:
        return _Place(f"{self.path}.{name}", f"{self.public}.{name}")


@dataclass(slots=True)
class _Walk:
    most: int
    found: list[OutputDifference] = field(default_factory=list)
    seen: set[tuple[int, int]] = field(default_factory=set)
    kept: list[object] = field(default_factory=list)  # what was made on the way: an id is nobody else's meanwhile

    def tell(self, place: _Place, how: str) -> None:
        self.found.append(OutputDifference(place.path, place.public, how))

    def compare(self, left: Any, right: Any, place: _Place) -> None:
        if left is right or len(self.found) >= self.most or (id(left), id(right)) in self.seen:
            return
        if type(left) is not type(right):
            self.tell(place, "is of another type")
            return
        if isinstance(left, (*_ATOMS, *_TIMES, float)):
            if not _same_atom(left, right):
                self.tell(place, _how(left, right))
            return
        self.seen.add((id(left), id(right)))
        self.kept += (left, right)
        if isinstance(left, (np.ndarray, np.generic)):
            self._arrays(np.asarray(left), np.asarray(right), place)
        elif isinstance(left, Mapping):
            self._mappings(left, right, place)
        elif isinstance(left, (list, tuple)):
            self._rows(left, right, place)
        elif isinstance(left, (set, frozenset)):
            if left != right:
                self.tell(place, "has other members")
        elif type(left).__module__.partition(".")[0] == "pandas":
            self._tables(left, right, place)
        elif callable(getattr(left, "detach", None)) and callable(getattr(left, "numpy", None)):
            self.compare(left.detach().cpu().numpy(), right.detach().cpu().numpy(), place)
        else:
            self._objects(left, right, place)

    def _arrays(self, left: npt.NDArray[Any], right: npt.NDArray[Any], place: _Place) -> None:
        if left.shape != right.shape:
            self.tell(place, "has another shape")
        elif left.dtype != right.dtype:
            self.tell(place, "is of another type")
        elif left.dtype.hasobject:
            self._rows(left.reshape(-1).tolist(), right.reshape(-1).tolist(), place)
        elif left.tobytes() != right.tobytes():
            told = left.dtype.kind in "fc" and not np.array_equal(np.isnan(left), np.isnan(right))
            self.tell(place, "is NaN in other places" if told else "has another value")

    def _mappings(self, left: Mapping[Any, Any], right: Mapping[Any, Any], place: _Place) -> None:
        if left.keys() != right.keys():
            self.tell(place, "has other keys")
        elif list(left) != list(right):
            self.tell(place, "has its keys in another order")
        else:
            for key in left:
                self.compare(left[key], right[key], place.item(key))

    def _rows(self, left: Any, right: Any, place: _Place) -> None:
        if len(left) != len(right):
            self.tell(place, "has another length")
            return
        names = getattr(left, "_fields", None)
        for number, (ours, theirs) in enumerate(zip(left, right, strict=True)):
            self.compare(ours, theirs, place.named(names[number]) if names else place.item(number))

    def _tables(self, left: Any, right: Any, place: _Place) -> None:
        for name in ("index", "columns", "dtypes", "dtype", "name", "names"):
            if hasattr(left, name) and getattr(left, name) is not left:
                ours, theirs = (_plain(getattr(table, name)) for table in (left, right))
                self.compare(ours, theirs, place.named(name))
        if hasattr(left, "to_numpy"):
            self.compare(left.to_numpy(), right.to_numpy(), place)
        elif left != right:
            self.tell(place, "has another value")

    def _objects(self, left: Any, right: Any, place: _Place) -> None:
        if isinstance(left, _FIXED):
            self.tell(place, "is another one")
            return
        ours, theirs = _members(left), _members(right)
        if ours is None or theirs is None:
            told = _equal(left, right)
            if told is not True:
                self.tell(place, _UNSEEN if told is None else "has another value")
        elif ours.keys() != theirs.keys():
            self.tell(place, "has other attributes")
        else:
            for name, value in ours.items():
                self.compare(value, theirs[name], place.named(name))


def _same_atom(left: Any, right: Any) -> bool:
    if isinstance(left, float):
        return struct.pack("<d", left) == struct.pack("<d", right)
    if isinstance(left, Decimal):
        return bool(left.as_tuple() == right.as_tuple())
    return bool(left == right) and repr(left) == repr(right)


def _how(left: Any, right: Any) -> str:
    return "is NaN on one of the two" if (left != left) != (right != right) else "has another value"


def _plain(value: Any) -> object:
    """Labels and types of a table."""
    if isinstance(value, (str, int, float, type(None))):
        return value
    return list(map(repr, value)) if isinstance(value, Iterable) else repr(value)


def _members(value: Any) -> dict[str, Any] | None:
    """What an object is made of; None where it does not show it."""
    if isinstance(value, types.FunctionType):
        closed = tuple(cell.cell_contents for cell in value.__closure__ or ())
        return {"code": value.__code__, "defaults": (value.__defaults__, value.__kwdefaults__), "closure": closed}
    if isinstance(value, types.MethodType):
        return {"function": value.__func__, "self": value.__self__}
    if isinstance(value, functools.partial):
        return {"function": value.func, "arguments": (value.args, value.keywords)}
    if isinstance(value, types.CodeType):
        return None
    if dataclasses.is_dataclass(value):
        return {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
    names = [name for kind in type(value).__mro__ for name in _slots(kind) if hasattr(value, name)]
    found = {name: getattr(value, name) for name in names} | dict(getattr(value, "__dict__", {}))
    return found or _reduced(value)


def _slots(kind: type) -> tuple[str, ...]:
    slots = kind.__dict__.get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(name for name in names if name not in ("__dict__", "__weakref__") and not name.startswith("__"))


def _reduced(value: Any) -> dict[str, Any] | None:
    """An object of compiled code by what it would be pickled as."""
    if _says_equal(value):
        return None
    reduce: Callable[[int], object] = value.__reduce_ex__
    try:
        return {"state": reduce(4)}
    except Exception:
        return None


def _equal(left: object, right: object) -> bool | None:
    """Whether they say that they are equal; None where they do not say."""
    if not _says_equal(left):
        return None
    try:
        return bool(left == right)
    except Exception:
        return None


def _says_equal(value: object) -> bool:
    """Whether its type says what is equal to it."""
    return any("__eq__" in kind.__dict__ for kind in type(value).__mro__[:-1])
