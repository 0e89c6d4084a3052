"""A digest of whatever the data hold, so that a mechanism that writes into its data is noticed.

What is read of an object are its contents (items, numbers, columns), its attributes (`__dict__` and slots, those of a
subclass of dict or ndarray as well), and where its class says how it is pickled, the parts of that. Parts are read in
their order, those of a set in the order of their digests, so a digest is the same in every process.

An object is read once, however often it is met. Equal data have equal digests, whether parts of them are shared or not.
An object that lies in itself is written as so many levels up; only there sharing may show.

>>> digest([1, 2.0]) == digest([1, 2.0]), digest([1, 2.0]) == digest([1, 2.5]), digest([1]) == digest([True])
(True, False, False)
>>> row = [1, None]
>>> digest([row, row]) == digest([row, [1, None]])
True
"""

from __future__ import annotations

import copyreg
import functools
import hashlib
import itertools
import marshal
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

__all__ = ["ATOMS", "digest"]

ATOMS: Final = frozenset({float, int, bool, str, bytes, complex, type(None)})
WRITTEN: Final[Callable[[Any, int], bytes]] = marshal.dumps
AS_VALUES = 2  # the version of marshal that writes each value out, whether it was met before or not
PICKLED = 4  # the protocol of pickle whose parts are read: it keeps buffers as bytes
MOST_LEVELS = 100_000  # of data: an object that makes new parts whenever it is asked ends there
COMPLETE = sys.stdlib_module_names | {"numpy", "pandas"}
"""Whose classes say all by their pickle: what else they keep is found again, like the text of a path."""
CONTENTS: Any = types.CellType.cell_contents  # of a name in a closure
KEPT_BY_PANDAS = frozenset({"_mgr", "_item_cache", "_is_copy"})  # the columns, which are read, and ways to them


def digest(data: object) -> bytes:
    """A digest of whatever the data hold: the same until something in them is changed. Total.

    Assumes: an object whose class is written in C shows its state by its pickle, its attributes or its numbers."""
    path = [_Reading((data, None))]
    levels: dict[int, int] = {}  # at which an object is being read
    done: dict[int, tuple[bytes, object]] = {}  # by id, so the object is kept until all is read
    while True:
        top = path[-1]
        for item in top.parts:
            if type(item) in ATOMS:
                top.take(WRITTEN(item, AS_VALUES))
            elif (known := done.get(id(item))) is not None:
                top.take(known[0])
            elif (level := levels.get(id(item))) is not None:
                top.take(b"^%d." % (len(path) - level))
            else:
                below = _Reading(item)
                if below.parts is NOTHING or len(path) > MOST_LEVELS:
                    top.take(below.token())
                    continue
                levels[id(item)] = len(path)
                path.append(below)
                break
        else:
            token = path.pop().token()
            if not path:
                return token[1:]
            del levels[id(top.data)]
            done[id(top.data)] = token, top.data
            path[-1].take(token)


class _Reading:
    """An object that is being read, and the parts of it that are not read yet."""

    __slots__ = ("_hasher", "_unordered", "data", "parts", "take")

    def __init__(self, data: object) -> None:
        self.data = data
        self._hasher = hashlib.blake2b(digest_size=16)
        self._unordered: list[bytes] = []
        self.take: Callable[[bytes], object] = self._hasher.update
        parts = _parts(self._hasher.update, data)
        if type(data) is _Unordered:
            self.take = self._unordered.append
        self.parts = iter(parts) if parts else NOTHING

    def token(self) -> bytes:
        """What stands for it among the parts of another object."""
        for part in sorted(self._unordered):
            self._hasher.update(part)
        return b"#" + self._hasher.digest()


@dataclass(frozen=True, slots=True)
class _Unordered:
    """The items of a set."""

    items: list[object]


NOTHING: Final[Iterator[object]] = iter(())


def _parts(update: Callable[[Any], None], data: Any) -> Sequence[object]:
    """What is to be read of an object, in order, after what is read at once."""
    kind: Any = type(data)
    update(f"<{kind.__qualname__}>".encode("utf-8", "surrogatepass"))
    if kind in (list, tuple):
        return _unless_plain(update, data)
    if kind is dict:
        return _unless_plain(update, [*itertools.chain.from_iterable(data.items())])
    if kind is _Unordered:
        return data.items  # type: ignore[no-any-return]
    try:
        return _unless_plain(update, _of_object(update, data, kind))
    except Exception:  # the object's own code
        return _held(data)


def _unless_plain(update: Callable[[Any], None], items: Sequence[object]) -> Sequence[object]:
    """The items; nothing where they are numbers and texts, or rows of them: those are read at once, much faster."""
    if not set(map(type, items)) <= ATOMS:
        rows = [item for item in items if type(item) in (list, tuple)]
        if len(rows) < len(items) or not set(map(type, itertools.chain.from_iterable(rows))) <= ATOMS:  # type: ignore[arg-type]
            return items
    update(WRITTEN(items, AS_VALUES))
    return ()


def _of_object(update: Callable[[Any], None], data: Any, kind: Any) -> list[object]:
    parts = _way(kind)(update, data)
    if not _shows_attributes(kind):
        return parts
    return [*parts, "attributes", *_attributes(data, kind)]


@functools.lru_cache(maxsize=1024)
def _way(kind: Any) -> Callable[[Callable[[Any], None], Any], list[object]]:
    """How the contents of objects of this class are read."""
    if issubclass(kind, (np.ndarray, np.generic, memoryview)):
        return _of_array
    if issubclass(kind, (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)):
        return _of_named
    if hasattr(kind, "detach") and hasattr(kind, "numpy"):
        return _of_tensor
    if _is_table(kind):
        return _of_table
    if issubclass(kind, Set):
        return lambda _, data: [_Unordered(list(data))]
    for plain in (list, tuple):
        if issubclass(kind, plain):
            return lambda _, data, plain=plain: list(plain.__iter__(data))  # type: ignore[misc]
    if issubclass(kind, Mapping):
        return _of_mapping
    return _of_pickle if _says_how(kind) else lambda _, data: []  # noqa: ARG005


@functools.lru_cache(maxsize=1024)
def _shows_attributes(kind: Any) -> bool:
    """Whether there may be more in the attributes than in the contents."""
    if issubclass(kind, (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)) or _is_table(kind):
        return False
    return issubclass(kind, np.ndarray) or not (_is_complete(kind) and _says_how(kind))


def _is_table(kind: type) -> bool:
    return hasattr(kind, "to_numpy") and hasattr(kind, "iloc")


def _of_array(update: Callable[[Any], None], data: Any) -> list[object]:
    """The bytes of an array, a record or a number of numpy; of records their fields, whose gaps hold anything."""
    plain = np.asarray(data)
    update(f"{plain.dtype.str}{plain.dtype.names}{plain.shape}".encode("utf-8", "surrogatepass"))
    if plain.dtype.names is not None:
        return [plain[name] for name in plain.dtype.names]
    if plain.dtype.hasobject or plain.dtype.char in "gG":  # an extended double has gaps as well
        return plain.ravel().tolist() if plain.dtype.hasobject else [repr(plain.tolist())]
    if plain.nbytes:
        update(np.ascontiguousarray(plain).view(np.uint8).data)
    return []


def _of_named(update: Callable[[Any], None], data: Any) -> list[object]:
    """The name of a function, a class or a module; of a function what it holds as well."""
    name = f"{getattr(data, '__module__', '')}.{getattr(data, '__qualname__', data.__name__)}"
    update(name.encode("utf-8", "surrogatepass"))
    if not isinstance(data, types.FunctionType):
        return [data.__self__] if isinstance(data, types.BuiltinFunctionType) else []
    cells = [_value(CONTENTS, cell) for cell in data.__closure__ or ()]
    return [cells, data.__defaults__, data.__kwdefaults__, data.__dict__]


def _of_mapping(update: Callable[[Any], None], data: Any) -> list[object]:
    items = dict.items(data) if isinstance(data, dict) else data.items()
    kind: Any = type(data)
    rest = _of_pickle(update, data) if _says_how(kind) else []  # as the order of an OrderedDict
    return [*itertools.chain.from_iterable(items), *rest]


def _of_tensor(_: Callable[[Any], None], data: Any) -> list[object]:
    numbers = data.detach().cpu()
    try:
        held = numbers.numpy()
    except (TypeError, RuntimeError):  # a kind of number, or a layout, that numpy does not have
        held = numbers.to_dense().double().numpy()
    return [str(data.dtype), held, data.requires_grad, data.grad if data.is_leaf else None]


def _of_table(_: Callable[[Any], None], table: Any) -> list[object]:
    """A frame or a series of pandas: its labels, its columns, and whatever was noted on it."""
    columns = getattr(table, "columns", None)
    listed = [table] if columns is None else [table.iloc[:, place] for place in range(len(columns))]
    held = [part for column in listed for part in (column.dtype, np.asarray(column.to_numpy()))]
    noted = {name: value for name, value in vars(table).items() if name not in KEPT_BY_PANDAS}
    return [columns, table.index, *held, noted]


def _attributes(data: Any, kind: Any) -> list[object]:
    """Names and values of `__dict__`, and of slots."""
    held = [part for name, slot in _slots(kind) for part in (name, _value(slot, data))]
    return [*held, *_held(data)]


def _held(data: object) -> list[object]:
    """Names and values of `__dict__`."""
    try:
        held = object.__getattribute__(data, "__dict__")
        return [*itertools.chain.from_iterable(dict.items(held))]
    except Exception:  # it has none, or its own code says what it is
        return []


@functools.lru_cache(maxsize=1024)
def _slots(kind: type) -> tuple[tuple[str, Any], ...]:
    """By name: those of a class of the standard library only where it does not say how it is pickled."""
    classes = [one for one in kind.__mro__ if not (_is_complete(one) and _says_how(one))]
    slots = [item for one in classes for item in vars(one).items()]
    return tuple((name, slot) for name, slot in slots if isinstance(slot, types.MemberDescriptorType))


def _value(slot: Any, data: object) -> object:
    try:
        return slot.__get__(data)
    except (AttributeError, ValueError):  # never set
        return None


def _is_complete(kind: type) -> bool:
    return str(kind.__module__).partition(".")[0] in COMPLETE


@functools.lru_cache(maxsize=1024)
def _says_how(kind: Any) -> bool:
    """Whether a class says itself how it is pickled. If not, it is what its attributes are."""
    own = ("__reduce_ex__", "__reduce__", "__getstate__")
    if kind in copyreg.dispatch_table or hasattr(kind, "__getnewargs__") or hasattr(kind, "__getnewargs_ex__"):
        return True
    return any(getattr(kind, name) is not getattr(object, name) for name in own)


def _of_pickle(_: Callable[[Any], None], data: Any) -> list[object]:
    """The parts of which its class says that they make it; nothing where it says that it cannot be pickled."""
    reduce = copyreg.dispatch_table.get(type(data))
    try:
        parts = data.__reduce_ex__(PICKLED) if reduce is None else reduce(data)
        listed = (parts,) if isinstance(parts, str) else parts
        return [list(part) if isinstance(part, Iterator) else part for part in listed]
    except Exception:
        return []
