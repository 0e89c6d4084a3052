"""How public records are declared and written: frozen pydantic dataclasses, and one writer.

`record` makes a class frozen, slotted and strict, with positional arguments; what does not fit raises ParameterError
with the field and the value. `plain` writes a record back as values of the ledger's byte profile: no float, no null,
decimals as their one text. `strict_json` reads them.

>>> from dpledger.accounting.guarantees import ApproxDP
>>> plain(ApproxDP(epsilon=0.5, delta="1e-9"))
{'epsilon': '0.5', 'delta': '0.000000001', 'kind': 'approx_dp'}
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import os
import re
import sys
from array import array
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from decimal import Decimal
from enum import Enum
from itertools import islice
from numbers import Number
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, TypeVar, dataclass_transform

import pydantic
from pydantic import Field, TypeAdapter

from dpledger import decimals
from dpledger.errors import ParameterError, UnknownWord, shown
from dpledger.spelling import meant

__all__ = [
    "Plain",
    "complete",
    "flag",
    "given",
    "listed",
    "naming",
    "one_of",
    "one_text",
    "plain",
    "record",
    "said",
    "tag",
    "validated",
    "words",
]

T = TypeVar("T")

Plain: TypeAlias = "str | int | bool | list[Plain] | dict[str, Plain]"
"""A value of the ledger's byte profile: no float, no null."""

_SCALARS = frozenset({str, bytes, int, float, bool, Decimal, type(None)})
_UNORDERED = (Set, Iterator)  # what pydantic would make a tuple of, although it is not the list that was meant
_CONFIG = pydantic.ConfigDict(extra="forbid", strict=False, allow_inf_nan=False, arbitrary_types_allowed=True)


def tag(*, default: str, kw_only: Literal[True] = True) -> Any:
    """The default of a field `kind: Literal[...]`, by which a union tells its members apart. Given by name only."""
    return dataclasses.field(default=default, kw_only=kw_only)


def given(*, default: object) -> Any:
    """The default of a field (validated like any value that is given)."""
    return Field(default=default, validate_default=True)


def said(choices: str) -> Any:
    """What an annotated field expects, in words: told where it is left out, or is none of its choices."""
    return Field(description=choices)


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field, tag, given))
def record(cls: type[T]) -> type[T]:
    """A class decorator: a frozen, slotted pydantic dataclass that forbids extra fields and raises ParameterError."""
    made: Any = pydantic.dataclasses.dataclass(frozen=True, slots=True, config=_CONFIG)(cls)
    _speak_of_parameters(made)
    _read_well(made)
    result: type[T] = made
    return result


def complete(*classes: Any, names: Mapping[str, Any] = MappingProxyType({})) -> None:
    """Finish records whose fields name types that were not there yet when they were declared; `names`: those that are
    not in their own module."""
    for cls in classes:
        found = {**vars(sys.modules[cls.__module__]), **names}
        pydantic.dataclasses.rebuild_dataclass(cls, force=True, _types_namespace=found)  # makes a fresh __init__
        _speak_of_parameters(cls)
        _read_well(cls)


def _speak_of_parameters(cls: Any) -> None:
    """Let the constructor raise ParameterError in place of pydantic's error."""
    construct = cls.__init__
    names = tuple(field.name for field in dataclasses.fields(cls))

    @functools.wraps(construct)
    def initialise(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            if all(map(_is_as_asked, map(type, (*args, *kwargs.values())))):
                construct(self, *args, **kwargs)
            else:
                plain_args = [_asked(cls, name, value) for name, value in zip(names, args, strict=False)]
                plain_kwargs = {name: _asked(cls, name, value) for name, value in kwargs.items()}
                construct(self, *plain_args, *args[len(names) :], **plain_kwargs)
        except RecursionError:
            raise ParameterError(cls.__name__, "levels without end", "lists and mappings of a few levels") from None
        except pydantic.ValidationError as error:
            given = dict(zip(names, args, strict=False)) | kwargs
            raise _as_parameter_error(cls.__name__, error, given, cls.__pydantic_fields__) from None

    cls.__init__ = initialise


def _read_well(cls: Any) -> None:
    """Let the signature say what people give: names and defaults, without the tag and without what checks a value."""
    parameters = inspect.signature(cls).parameters.values()
    shown = [one.replace(annotation=one.empty) for one in parameters if one.name != "kind"]
    cls.__signature__ = inspect.Signature(shown)


@functools.cache
def _is_as_asked(kind: type) -> bool:
    """Whether every value of this type may be asked as it is: exact types of ours and of Python's alone."""
    return kind in _SCALARS or (kind.__module__.startswith("dpledger.") and dataclasses.is_dataclass(kind))


def _asked(cls: Any, name: str, value: object) -> object:
    """A value as it may be asked whether it fits: a range, and an array of one axis, as the list of its items.

    ParameterError for what is no list although it could be read as one, and for what runs code of its own when it is
    compared or written."""
    if _is_as_asked(type(value)):  # type: ignore[arg-type]
        return value
    shape = getattr(value, "shape", ())
    axes = getattr(value, "ndim", len(shape) if isinstance(shape, tuple) else 0)
    if isinstance(value, _UNORDERED) or axes > 1:
        expected = "a list or tuple (a set keeps equal items once, an iterator may have no end, a table has no order)"
        raise ParameterError(f"{cls.__name__}.{name}", value, expected)
    if axes == 1:
        value = list(value)  # type: ignore[call-overload]
    elif isinstance(value, (range, array)):
        value = listed(value, field=f"{cls.__name__}.{name}")
    if _is_strange(value):
        expected = "words, numbers, or a record of them (estimators, functions and data go to what they are run on)"
        raise ParameterError(f"{cls.__name__}.{name}", value, expected)
    return value


def _is_strange(value: object) -> bool:
    """Whether a value is no scalar, list, mapping, record or mechanism."""
    if isinstance(value, (list, tuple)):
        return any(map(_is_strange, value))
    if value is None or isinstance(value, (str, bytes, Number, Enum, Mapping)) or dataclasses.is_dataclass(value):
        return False
    return not (hasattr(value, "kind") or hasattr(value, "parts") or hasattr(value, "ndim"))


def validated(adapter: TypeAdapter[T], value: object, what: str) -> T:
    """`value` as the type of `adapter`; ParameterError naming the field, below `what`, and the value."""
    try:
        return adapter.validate_python(value)
    except pydantic.ValidationError as error:
        raise _as_parameter_error(what, error, value) from None


def _as_parameter_error(
    what: str, error: pydantic.ValidationError, root: object, fields: Mapping[str, Any] = MappingProxyType({})
) -> ParameterError:
    """`fields`: those of the record that is made, in order; none, where what does not fit was not made by a call."""
    found = error.errors(include_url=False)
    unknown = next((one for one in found if _is_unknown_word(one)), None)  # what is beside it cannot be judged
    first = unknown or next((one for one in found if one["type"] in _UNKNOWN), found[0])  # nor what may be misspelt
    loc = first["loc"]
    if fields and loc and isinstance(loc[0], int) and loc[0] < len(fields):
        loc = (list(fields)[loc[0]], *loc[1:])  # an argument given by position
    described = fields[str(loc[0])].description if len(loc) == 1 and loc[0] in fields else None
    steps = _steps(root, loc)
    field = ".".join([what, *steps])
    if first["type"] in {"missing", "missing_argument"}:
        return ParameterError(field, "nothing", described or "a value")
    if first["type"] == "union_tag_invalid":
        known = first["ctx"]["expected_tags"]
        told = UnknownWord if _is_unknown_word(first) else ParameterError
        return told(f"{field}.kind", shown(first["ctx"]["tag"]), f"one of {known}")
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, ParameterError):
        own = field if steps else f"{what}.{cause.field}"  # a check of the whole record names the field itself
        return type(cause)(own, cause.value, cause.expected)
    expected = str(cause) if cause is not None else described or _expected(first)
    if first["type"] in _UNKNOWN and len(loc) == 1 and fields:
        names = [name for name in fields if name != "kind"]
        expected += meant(loc[0], names) or f" ({what} has {', '.join(names)})"
        if "noise_multiplier" in names and loc[0] in ("epsilon", "delta"):
            expected += ": `dpl.calibrate` finds the noise for an epsilon and a delta"
    told = UnknownWord if _is_unknown_word(first) else ParameterError
    return told(field, _shown_at(root, loc, first["input"]), expected)


def _shown_at(root: object, loc: tuple[int | str, ...], value: object) -> str:
    """A value that does not fit, for a message; of an item of an array or table only the type, since it may be data."""
    at = root.get(loc[0]) if isinstance(root, Mapping) and loc else None
    return type(value).__name__ if len(loc) > 1 and hasattr(at, "ndim") else shown(value)


_WORD = re.compile(r"[a-z][a-z0-9_.]{0,63}")


def _is_unknown_word(error: Mapping[str, Any]) -> bool:
    """Whether what does not fit is a word, well formed, that is not on its closed list. Told before anything else that
    does not fit: what stands beside a kind that nobody here knows cannot be judged."""
    if error["type"] == "union_tag_invalid":
        word: object = error["input"].get("kind") if isinstance(error["input"], Mapping) else error["ctx"]["tag"]
    elif error["type"] in {"literal_error", "enum"}:
        word = error["input"]
    else:
        return isinstance(error.get("ctx", {}).get("error"), UnknownWord)
    return type(word) is str and _WORD.fullmatch(word) is not None


def _steps(root: object, loc: tuple[int | str, ...]) -> list[str]:
    """The way from `root` to what does not fit: `loc` without the tags of the unions on the way."""
    steps, at = [], root
    for step in loc:
        if isinstance(at, Mapping):
            tag, below = at.get("kind"), at.get(step)
        elif isinstance(at, (list, tuple)) and isinstance(step, int) and step < len(at):
            tag, below = None, at[step]
        else:
            tag, below = getattr(at, "kind", None), getattr(at, str(step), None)
        if isinstance(tag, str) and step == tag:
            continue
        if isinstance(step, str) and not step.isidentifier() and not (isinstance(at, Mapping) and step in at):
            continue  # the name of a member of a union that has no tag
        steps.append(str(step))
        at = below
    return steps


def _expected(error: Mapping[str, Any]) -> str:
    """What pydantic's error says was expected, as the end of "expected ..."."""
    if error["type"] == "string_pattern_mismatch":
        return f"text of the form {error['ctx']['pattern'].strip('^$')}"
    if error["type"] == "literal_error":
        return str(error["ctx"]["expected"])
    if error["type"] in _EXPECTED:
        return _EXPECTED[error["type"]].format_map(error.get("ctx", {}))
    message: str = error["msg"]
    return message.removeprefix("Input should be ").removeprefix("Value error, ")


_UNKNOWN = {"extra_forbidden", "unexpected_keyword_argument"}
_EXPECTED = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "greater_than_equal": "a number of at least {ge}",
    "greater_than": "a number above {gt}",
    "less_than_equal": "a number of at most {le}",
    "less_than": "a number below {lt}",
    "too_short": "a list of length {min_length} or more",
    "too_long": "a list of length {max_length} or less",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "an object",
    "mapping_type": "an object",
    "dataclass_type": "{class_name}, or an object with its fields",
    "model_attributes_type": "an object with a field 'kind'",
    "string_type": "text",
    "string_too_short": "text of length {min_length} or more",
    "string_too_long": "text of length {max_length} or less",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "extra_forbidden": "no such field",
    "unexpected_keyword_argument": "no such field",
    "unexpected_positional_argument": "fewer positional arguments",
    "union_tag_not_found": "a field 'kind'",
}


def one_of(value: object, words: tuple[str, ...], *, field: str) -> str:
    """`value`, if it is one of `words`; ParameterError naming `field` and the words for anything else."""
    if isinstance(value, str) and value in words:
        return str(value)
    raise ParameterError(field, shown(value), "one of " + ", ".join(map(repr, words)))


def listed(value: object, *, field: str, most: int = 10**6) -> list[Any]:
    """The items of a list, tuple, array of one axis, or generator. ParameterError, naming `field`, for a set (which
    keeps equal items once, in no order), text, a mapping, a table, more than `most` items, and what is no list."""
    items: Any = None
    if not isinstance(value, (str, bytes, Set, Mapping)) and getattr(value, "ndim", 1) == 1:
        with suppress(Exception):  # no list, or the value's own code
            items = iter(value)  # type: ignore[call-overload]
    if items is None:
        raise ParameterError(field, value if isinstance(value, type) else type(value).__name__, "a list or tuple")
    found = list(islice(items, most + 1))
    if len(found) > most:
        raise ParameterError(field, "more", f"at most {most:,} items")
    return found


def one_text(value: object, *, field: str) -> str:
    """`value`, if it is text; ParameterError naming `field` for anything else."""
    if not isinstance(value, str):
        raise ParameterError(field, value, "text")
    return str(value)


def flag(value: object, *, field: str) -> bool:
    """`value`, if it is true or false itself; ParameterError naming `field` for what only counts as one of them."""
    if not isinstance(value, bool):
        raise ParameterError(field, value, "True or False")
    return value


def words(value: object, *, field: str) -> tuple[str, ...]:
    """The texts of a list, in order. ParameterError, naming `field`, for a text alone or anything else in the list."""
    found = listed(value, field=field)
    if not all(isinstance(item, str) for item in found):
        raise ParameterError(field, value if isinstance(value, type) else type(value).__name__, "a list of texts")
    return tuple(map(str, found))


def plain(value: object) -> Any:
    """`value` (a record, or a tree of records, tuples, mappings and scalars) in the ledger's byte profile.

    A field that is None is left out. Raises ParameterError for a float or anything else without a place there.
    """
    return _writer(type(value))(value)  # type: ignore[arg-type]  # mypy takes a type for an object without a hash


@functools.cache
def _writer(kind: type) -> Callable[[Any], Any]:
    """How values of one type are written: found once, as a ledger writes a few types for ever."""
    if dataclasses.is_dataclass(kind):
        return functools.partial(_written, tuple(field.name for field in dataclasses.fields(kind)))
    if issubclass(kind, Decimal):
        return decimals.text
    if issubclass(kind, Enum):
        return lambda value: plain(value.value)
    if issubclass(kind, (str, bool)) or kind is int:
        return lambda value: value
    if issubclass(kind, (tuple, list)):
        return lambda value: [plain(item) for item in value]
    if issubclass(kind, Mapping):
        return lambda value: {str(key): plain(item) for key, item in value.items() if item is not None}
    raise ParameterError("record", kind.__name__, "text, whole numbers, decimals, lists and records")


def _written(names: tuple[str, ...], value: object) -> dict[str, Any]:
    pairs = ((name, getattr(value, name)) for name in names)
    return {name: plain(item) for name, item in pairs if item is not None}


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """What is wrong with what a file says is told with the name of the file."""
    try:
        yield
    except ParameterError as error:
        raise ParameterError(f"{os.fsdecode(path)}: {error.field}", error.value, error.expected) from None
