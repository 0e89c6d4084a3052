"""What any other thing is made of: a label for its kind, and its parts at paths.

A part at the thing's own path is what the thing is the inside of (a `Timestamp` is a whole number of its unit); parts
beside it hold what a double cannot (`rounding of output`). A thing's own code may fail: then that is its label.

>>> from fractions import Fraction
>>> described(Fraction(1, 3), "output")[0], sorted(described(Fraction(1, 3), "output")[1])
('Fraction', ['denominator of output', 'output', 'rounding of output'])
"""

from __future__ import annotations

import array
import ctypes
import dataclasses
import datetime
import enum
import functools
import numbers
import random
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from pathlib import PurePath
from typing import Any, TypeAlias

import numpy as np

from dpledger.audit.outcomes.structure import MOST_PARTS, RAISES, TOO_MANY, Raised, name_of_error
from dpledger.audit.outcomes.texts import shortened

__all__ = ["described", "key_words", "to_float"]

Parts: TypeAlias = dict[str, object]

_QUOTED, _BARE = re.compile(r'["\\]'), re.compile(r'["\\\[\]]')
_CONTROLS = frozenset(map(chr, (*range(9), *range(14, 32))))  # characters that no text has
_ADDRESS = " at 0x"  # of a thing whose text says only where it lies
_OPAQUE = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.ModuleType,
    type,
)
_VALUES = (
    *(int, float, complex, Decimal, str, bytes, bytearray, tuple, list, dict, set, frozenset, np.ndarray, np.generic),
    *(datetime.date, datetime.time, datetime.timedelta),
)


def described(item: object, path: str) -> tuple[str, Parts]:
    """The kind of a thing, and its parts by path. Total."""
    name = type(item).__name__
    try:
        for takes, parts in _KINDS:
            if takes(item):
                label, inside = parts(item, path, name)
                return label, {**inside, **_noted(item, path)}
    except Exception as error:  # the thing's own code: what it raises is part of the outcome
        return f"{name} that raises {name_of_error(error)}", {}
    return name, {}


def _noted(item: object, path: str) -> Parts:
    """The attributes of a value of a person's own type, such as a subclass of float."""
    if not isinstance(item, _VALUES) or isinstance(item, enum.Enum) or _module(item) in ("numpy", "pandas"):
        return {}
    return {_dotted(path, field): value for field, value in getattr(item, "__dict__", {}).items()}


def _module(item: object) -> str:
    return type(item).__module__.partition(".")[0]


def to_float(number: Any) -> float:
    """The nearest double; infinity beyond the largest."""
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


def key_words(keys: Iterable[object]) -> tuple[str, ...]:
    """The keys of a dict as they stand in paths, each its own; equal words get a number."""
    words: dict[str, None] = {}
    for key in keys:
        word = _key(key)
        while word in words:
            word += f"#{len(words)}"
        words[word] = None
    return tuple(words)


def _key(key: object) -> str:
    if type(key) is str:
        return f'"{_escaped(shortened(key), _QUOTED)}"'
    if isinstance(key, (int, float, type(None), bytes, np.generic, enum.Enum)):
        return _escaped(shortened(_text(key)), _BARE)
    if type(key) in (tuple, frozenset):
        return f"({', '.join(map(_key, key))})"  # type: ignore[call-overload]
    return _escaped(shortened(f"{type(key).__name__} {_text(key)}".rstrip()), _BARE)


def _escaped(text: str, special: re.Pattern[str]) -> str:
    """So that nothing in a key looks like the end of it."""
    return special.sub(r"\\\g<0>", text)


def _dotted(path: str, name: str) -> str:
    """The path of an attribute."""
    return f"{path}.{name}" if name.isidentifier() else f"{path}.[{_key(name)}]"


def _text(item: object) -> str:
    try:
        text = repr(item)
    except Exception as error:  # the thing's own code
        return f"that raises {name_of_error(error)}"
    return "" if _ADDRESS in text else text


# ---- numbers --------------------------------------------------------------------------------------------------------


def _raised(item: Raised, path: str, _: str) -> tuple[str, Parts]:
    return f"{RAISES}{item.name}", {} if item.text is None else {f"message of {path}": item.text}


def _complex(item: complex, path: str, name: str) -> tuple[str, Parts]:
    return name, {f"{path}.real": float(item.real), f"{path}.imag": float(item.imag)}


def _decimal(item: Decimal, path: str, name: str) -> tuple[str, Parts]:
    if item.is_nan():
        return f"{name} {item}", {}
    exponent = item.as_tuple().exponent
    beside: Parts = {f"exponent of {path}": exponent if isinstance(exponent, int) else None}
    if not item.is_finite() or item.adjusted() > 400 or (isinstance(exponent, int) and exponent < -1200):
        return name, {path: to_float(item), **beside}
    return name, {path: to_float(item), f"rounding of {path}": _rounding(Fraction(item)), **beside}


def _fraction(item: Any, path: str, name: str) -> tuple[str, Parts]:
    exact = Fraction(int(item.numerator), int(item.denominator))
    beside = {f"rounding of {path}": _rounding(exact), f"denominator of {path}": exact.denominator}
    return name, {path: to_float(exact), **beside}


def _rounding(exact: Fraction) -> float:
    """What the nearest double leaves out."""
    near = to_float(exact)
    return to_float(exact - Fraction(near)) if np.isfinite(near) else float("nan")


def _real(item: Any, path: str, name: str) -> tuple[str, Parts]:
    return name, {path: to_float(item)}


# ---- containers -----------------------------------------------------------------------------------------------------


def _range(item: range, path: str, name: str) -> tuple[str, Parts]:
    length = (item.stop - item.start + item.step - (1 if item.step > 0 else -1)) // item.step
    size = max(0, length)
    return name, {
        f"{path}.start": item.start,
        f"{path}.stop": item.stop,
        f"{path}.step": item.step,
        f"len({path})": size,
    }


def _set(item: Set[Any], path: str, name: str) -> tuple[str, Parts]:
    return name, {path: _in_order(item)}


def _in_order(items: Iterable[Any]) -> list[object]:
    """By value where the items can be compared, else by their words."""
    listed = list(items)
    if all(isinstance(item, (int, float)) for item in listed):
        return sorted(listed, key=lambda item: (item != item, item if item == item else 0.0))
    return sorted(listed, key=lambda item: (type(item).__name__, _key(item)))


def _mapping(item: Mapping[Any, Any], path: str, name: str) -> tuple[str, Parts]:
    return name, {path: dict(item.items())}


def _sequence(item: Sequence[Any], path: str, name: str) -> tuple[str, Parts]:
    return name, _first_of(item, path)


def _first_of(items: Iterable[Any], path: str) -> Parts:
    """As many items as are read."""
    taken = list(islice(items, MOST_PARTS + 1))
    return {path: taken[:MOST_PARTS], **({TOO_MANY: True} if len(taken) > MOST_PARTS else {})}


def _iterator(item: Iterator[Any], path: str, name: str) -> tuple[str, Parts]:
    taken: list[object] = []
    try:
        taken.extend(islice(item, MOST_PARTS + 1))
    except Exception as error:  # what it gave before it raised, and how it ended
        return f"{name} that raises {name_of_error(error)}", {path: taken}
    return name, _first_of(taken, path)


def _bytes(item: Any, path: str, name: str) -> tuple[str, Parts]:
    raw = bytes(item)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = None
    if text is not None and not _CONTROLS & set(text):
        return name, {path: text}
    parts: Parts = {f"len({path})": len(raw), f"bytes of {path}": np.frombuffer(raw[:MOST_PARTS], dtype=np.uint8)}
    if len(raw) % 8 == 0:
        parts[f"doubles in {path}"] = np.frombuffer(raw[: 8 * MOST_PARTS], dtype="<f8")
    if len(raw) > (1 if len(raw) % 8 else 8) * MOST_PARTS:
        parts[TOO_MANY] = True
    return f"binary {name}", parts


# ---- arrays and frames of others ------------------------------------------------------------------------------------


def _from_pandas(item: object) -> bool:
    return _module(item) == "pandas"


def _pandas(item: Any, path: str, name: str) -> tuple[str, Parts]:
    if name in ("NaTType", "NAType"):
        return str(item), {}
    if name == "DataFrame":
        words = key_words(item.columns)
        columns = {f"{path}[{word}]": item.iloc[:, place].array for place, word in enumerate(words)}
        names = _names(item.columns, f"columns of {path}")
        return f"{name} of {', '.join(words)}", {f"len({path})": len(item), **names, **_beside(item, path), **columns}
    if name == "Series":
        named: Parts = {} if item.name is None else {f"name of {path}": item.name}
        parts = {path: _values(item), **_beside(item, path), **named, **_categories(item, path)}
        return f"{name} {_dtype(item)}", parts
    if hasattr(item, "dtype") and hasattr(item, "__array__"):  # an index or an extension array
        return f"{name} {_dtype(item)}", {path: _values(item), **_categories(item, path)}
    if name in ("Timestamp", "Timedelta"):
        zone = getattr(item, "tz", None)
        return name if zone is None else f"{name} {zone}", {path: np.asarray(item.to_numpy())}
    return _attributes_or_text(item, path, name)


def _values(item: Any) -> object:
    values = np.asarray(item)
    return values if values.dtype.kind != "O" else values.tolist()


def _beside(item: Any, path: str) -> Parts:
    """The index of a frame or series, unless it counts the rows from 0, its names, and what is noted of it."""
    index = item.index
    counts = type(index).__name__ == "RangeIndex" and (index.start, index.step) == (0, 1)
    parts: Parts = {} if counts else {f"index of {path}": _values(index), **_categories(index, f"index of {path}")}
    parts |= _names(index, f"index of {path}")
    return {**parts, f"attrs of {path}": dict(item.attrs)} if item.attrs else parts


def _names(index: Any, path: str) -> Parts:
    """What an index or its levels are called, where they are."""
    names = list(index.names)
    return {} if all(name is None for name in names) else {f"names of {path}": names}


def _dtype(item: Any) -> str:
    return f"ordered {item.dtype}" if getattr(item.dtype, "ordered", False) else str(item.dtype)


def _categories(item: Any, path: str) -> Parts:
    """All categories that a value may have, with those that none has."""
    known = getattr(item.dtype, "categories", None)
    return {} if known is None else {f"categories of {path}": _values(known)}


def _arrow(item: Any, path: str, name: str) -> tuple[str, Parts]:
    """A frame or a column of polars, Arrow and others: by column, and a missing value is no NaN."""
    import narwhals as nw  # here: most outputs are no frames

    found = nw.from_native(item, pass_through=True, allow_series=True)
    if isinstance(found, nw.DataFrame):
        words = key_words(found.columns)
        columns = {f"{path}[{word}]": _entries(found[key]) for word, key in zip(words, found.columns, strict=True)}
        kinds = (f"{word} {kind}" for word, kind in zip(words, found.schema.values(), strict=True))
        return f"{name} of {', '.join(kinds)}", {f"len({path})": len(found), **columns}
    if isinstance(found, nw.Series):
        named: Parts = {f"name of {path}": found.name} if found.name else {}
        return f"{name} {found.dtype}", {path: _entries(found), **named}
    if hasattr(item, "to_pylist"):
        return f"{name} {item.type}", {path: item.to_pylist()}
    return _of_numpy(item, path, name)


def _entries(column: Any) -> object:
    are_numbers = column.dtype.is_numeric() or column.dtype.is_temporal()
    return column.to_numpy() if are_numbers and not column.null_count() else column.to_list()


_DENSE = "torch.strided"


def _tensor(item: Any, path: str, name: str) -> tuple[str, Parts]:
    kept = [str(item.dtype)] if hasattr(item, "dtype") else []
    beside: Parts = {}
    if getattr(item, "requires_grad", False) is True:
        kept.append("with gradients")
        beside |= {f"{path}.grad": item.grad}
    layout = str(getattr(item, "layout", _DENSE))
    if layout != _DENSE:
        kept.append(layout)
        beside[f"stored in {path}"] = item._nnz() if hasattr(item, "_nnz") else None  # zeros as well
    for step in ("detach", "cpu", "to_dense"):
        if callable(getattr(item, step, None)):
            try:
                item = getattr(item, step)()
            except (RuntimeError, TypeError, ValueError):
                continue  # it is dense, or on this machine, already
    try:
        array = item.numpy()
    except (TypeError, RuntimeError):  # numbers that numpy does not know, such as bfloat16
        array = item.float().numpy()
    if not isinstance(array, (np.ndarray, np.generic)):
        raise TypeError(type(array).__name__)
    return " ".join([name, *kept]), {path: np.asarray(array), **beside}


def _of_numpy(item: Any, path: str, name: str) -> tuple[str, Parts]:
    """A subclass of numpy's array, or what can be made one."""
    if item is np.ma.masked:
        return "masked", {}
    if isinstance(item, np.ma.MaskedArray):
        beside = {f"mask of {path}": np.ma.getmaskarray(item), f"fill value of {path}": np.asarray(item.fill_value)}
        return name, {path: np.asarray(item.data), **beside}  # also what is masked: it is still there
    return name, {path: np.asarray(item)}


# ---- objects --------------------------------------------------------------------------------------------------------

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


def _time(item: Any, path: str, name: str) -> tuple[str, Parts]:
    name += " fold" if getattr(item, "fold", 0) else ""  # the second of two equal times, when clocks are put back
    match item:
        case datetime.datetime():
            zone = item.utcoffset()
            since = item.replace(tzinfo=datetime.UTC) - _EPOCH - (zone or datetime.timedelta())
            return name if zone is None else f"{name} {zone} {_text(item.tzinfo)}", {path: since // _MICROSECOND}
        case datetime.date():
            return name, {path: item.toordinal()}
        case datetime.timedelta():
            return name, {path: item // _MICROSECOND}
    seconds = (item.hour * 60 + item.minute) * 60 + item.second
    return name, {path: seconds * 1_000_000 + item.microsecond}


def _enum(item: enum.Enum, path: str, name: str) -> tuple[str, Parts]:
    return f"{name}.{item.name}", {f"{path}.value": item.value}


def _named_tuple(item: Any, path: str, name: str) -> tuple[str, Parts]:
    return name, {f"{path}.{field}": value for field, value in zip(item._fields, item, strict=True)}


def _exception(item: BaseException, path: str, _: str) -> tuple[str, Parts]:
    return name_of_error(item), {f"{path}.args": list(item.args)}


def _attributes(item: object) -> dict[str, object]:
    """The attributes of an object, of its own and in slots."""
    found: dict[str, object] = {}
    for kind in type(item).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            name = f"_{kind.__name__.lstrip('_')}{slot}" if slot.startswith("__") and not slot.endswith("__") else slot
            if name not in ("__dict__", "__weakref__") and hasattr(item, name):
                found[name] = getattr(item, name)
    own = getattr(item, "__dict__", None)
    return found | dict(own) if isinstance(own, dict) else found


def _attributes_or_text(item: object, path: str, name: str) -> tuple[str, Parts]:
    parts = _attributes(item)
    if parts or dataclasses.is_dataclass(item):
        return name, {_dotted(path, field): value for field, value in parts.items()}
    text = _text(item)
    return name, {f"repr({path})": text} if text else {}


def _opaque(item: object, _: str, name: str) -> tuple[str, Parts]:
    return f"class {item.__name__}" if isinstance(item, type) else name, {}


def _function(item: types.FunctionType, path: str, name: str) -> tuple[str, Parts]:
    """What a function holds: variables of where it was made, defaults, attributes."""
    held: dict[str, object] = dict(vars(item))
    for variable, cell in zip(item.__code__.co_freevars, item.__closure__ or (), strict=True):
        try:
            held[variable] = cell.cell_contents
        except ValueError:  # it was never set
            held[variable] = None
    parts: Parts = {_dotted(path, variable): value for variable, value in held.items()}
    defaults = [*(item.__defaults__ or ()), *(item.__kwdefaults__ or {}).values()]
    return name, {**parts, f"defaults of {path}": defaults} if defaults else parts


def _method(item: Any, path: str, name: str) -> tuple[str, Parts]:
    """What a method is bound to; a function of a module is bound to that."""
    owner = getattr(item, "__self__", None)
    return name, {} if owner is None or isinstance(owner, _OPAQUE) else {f"{path}.__self__": owner}


def _partial(item: functools.partial[Any], path: str, name: str) -> tuple[str, Parts]:
    return name, {f"{path}.func": item.func, f"{path}.args": item.args, f"{path}.keywords": item.keywords}


def _generator(item: Any, path: str, name: str) -> tuple[str, Parts]:
    """The state of random numbers to come."""
    match item:
        case np.random.Generator():
            state: object = item.bit_generator.state
        case np.random.RandomState():
            state = item.get_state(legacy=False)
        case random.Random():
            state = item.getstate()
        case _:
            state = item.state
    return name, {f"state of {path}": state}


def _is(*kinds: Any) -> Callable[[object], bool]:
    return lambda item: isinstance(item, kinds)


def _has(*names: str) -> Callable[[object], bool]:
    return lambda item: all(callable(getattr(type(item), name, None)) for name in names)


_KINDS: tuple[tuple[Callable[[object], bool], Callable[[Any, str, str], tuple[str, Parts]]], ...] = (
    (_is(Raised), _raised),
    (_is(types.FunctionType), _function),
    (_is(types.BuiltinFunctionType, types.MethodType), _method),
    (_is(functools.partial), _partial),
    (_is(_OPAQUE), _opaque),
    (_is(np.random.Generator, np.random.BitGenerator, np.random.RandomState, random.Random), _generator),
    (_from_pandas, _pandas),
    (_is(enum.Enum), _enum),
    (_is(bool, int), lambda item, path, name: (name, {path: int(item)})),
    (_is(float), lambda item, path, name: (name, {path: float(item)})),
    (_is(complex), _complex),
    (_is(Decimal), _decimal),
    (_is(numbers.Rational), _fraction),
    (_is(numbers.Real), _real),
    (_is(str), lambda item, path, name: (name, {path: str.__str__(item)})),
    (_is(bytes, bytearray, memoryview), _bytes),
    (_is(PurePath), lambda item, path, name: (name, {path: str(item)})),
    (_is(datetime.date, datetime.time, datetime.timedelta), _time),
    (_is(np.ndarray), _of_numpy),
    (_has("detach", "numpy"), _tensor),
    (_is(range), _range),
    (_is(array.array, ctypes.Array), _of_numpy),
    (
        _is(tuple),
        lambda item, path, name: (
            _named_tuple(item, path, name) if hasattr(item, "_fields") else (name, {path: tuple(item)})
        ),
    ),
    (_is(list), lambda item, path, name: (name, {path: list(item)})),
    (_is(Mapping), _mapping),
    (_is(Set), _set),
    (_is(BaseException), _exception),
    (_has("__arrow_c_stream__"), _arrow),
    (_has("__arrow_c_array__"), _arrow),
    (_has("__array__"), _of_numpy),
    (_has("numpy"), _tensor),
    (_is(Sequence), _sequence),
    (_is(Iterator), _iterator),
    (lambda item: bool(_attributes(item)) or dataclasses.is_dataclass(item), _attributes_or_text),
    (_has("__float__"), _real),
    (_has("__iter__", "__len__"), lambda item, path, name: (name, _first_of(item, path))),
    (lambda _: True, _attributes_or_text),
)
