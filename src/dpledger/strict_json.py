"""JSON as documents and records have it, read exactly: no duplicate keys, no NaN, numbers as decimals.

>>> read_json('{"epsilon": 0.10, "times": 3}')
{'epsilon': Decimal('0.1'), 'times': 3}
>>> read_json('{"a": 1, "a": 2}')
Traceback (most recent call last):
...
dpledger.errors.ParameterError: a: expected each key once, got a second 'a'
"""

from __future__ import annotations

import dataclasses
import json
import os
from decimal import Decimal
from typing import Any, TypeAlias

from dpledger import decimals, files
from dpledger.errors import ParameterError, shortened
from dpledger.schema import naming

__all__ = ["LARGEST_FILE", "JsonValue", "read_json", "read_json_file"]

JsonValue: TypeAlias = "str | int | bool | Decimal | list[JsonValue] | dict[str, JsonValue] | None"
"""What `read_json` returns: numbers with a point or an exponent come as exact decimals."""

LARGEST_FILE = 64 * 2**20  # bytes of a JSON file
DEEPEST = 32  # levels of nesting that a document may have, as in the ledger's byte profile


def read_json(source: str | bytes) -> JsonValue:
    """The value of a JSON text, read strictly: UTF-8 (with a byte order mark or without), each key once, no NaN or
    infinity, nested at most 32 deep.

    Raises ParameterError that says where the text stops being JSON.
    """
    try:
        text = source.decode("utf-8") if isinstance(source, bytes) else source
        text = text.removeprefix("\ufeff")  # what some editors write before UTF-8
        value: JsonValue = json.loads(
            text, object_pairs_hook=_each_key_once, parse_float=_exactly, parse_int=_whole, parse_constant=_no_constant
        )
    except UnicodeDecodeError as error:
        raise ParameterError("document", f"byte {error.start}", "UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise ParameterError("document", f"{error.msg} at character {error.pos}", "JSON") from None
    except RecursionError:
        raise ParameterError("document", "deeper nesting", f"at most {DEEPEST} levels") from None
    _check(value, "document", DEEPEST)
    return value


def read_json_file(path: str | os.PathLike[str]) -> JsonValue:
    """The value of a JSON file of at most 64 MiB, as `read_json`; ParameterError names the file."""
    data = files.read_whole(path, limit=LARGEST_FILE, field="document")
    with naming(path):
        return read_json(data)


def _each_key_once(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    result: dict[str, JsonValue] = {}
    for key, value in pairs:
        if key in result:
            raise ParameterError(key, f"a second {key!r}", "each key once")
        result[key] = value
    return result


@dataclasses.dataclass(frozen=True, slots=True)
class _Refused:
    """What stands for a number that cannot be kept, until the walk over the document finds where it is."""

    value: str
    expected: str


def _exactly(number: str) -> Any:
    try:
        return decimals.read(number, signed=True)
    except ParameterError as error:
        return _Refused(number, error.expected)


def _whole(number: str) -> Any:
    return int(number) if len(number) <= 20 else _Refused(number, "a whole number below 10^18")


def _no_constant(word: str) -> Any:
    return _Refused(word, "a finite number")


def _check(value: object, field: str, left: int) -> None:
    if isinstance(value, _Refused):
        raise ParameterError(field, shortened(value.value), value.expected)
    if not isinstance(value, (list, dict)):
        return
    if left == 0:
        raise ParameterError("document", "deeper nesting", f"at most {DEEPEST} levels")
    for step, item in enumerate(value) if isinstance(value, list) else value.items():
        _check(item, f"{field}.{step}", left - 1)
