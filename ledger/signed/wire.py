"""The byte profile of a payload: one value, one text, checked when it is written and when it is read.

A payload is one JSON object (RFC 8259) in UTF-8, narrowed until every value has exactly one text:

* keys `[a-z][a-z0-9_]{0,63}`, each once, sorted by byte; objects and lists nested at most 32 deep, the payload itself
  counted; no white space outside strings;
* values are text, whole numbers of magnitude below 2^53, `true`, `false`, lists and objects: no null (what is absent is
  absent), no number with a point or an exponent, no `-0`;
* text has at most 4,096 characters (Unicode scalar values) and none of those that change how a line is shown
  (`check_text` lists them); its only escapes are `\\"`, `\\\\` and `\\n`;
* a number that a privacy claim rests on is text in its one decimal form (`check_number`).

Inside the profile these bytes are those of RFC 8785 and of JavaScript's `JSON.stringify` after sorting the keys.

>>> dump({"kind": "heartbeat", "index": 7})
b'{"index":7,"kind":"heartbeat"}'
>>> parse(b'{"index":7,"kind":"heartbeat"}')
{'index': 7, 'kind': 'heartbeat'}
>>> parse(b'{"index":7.0}')  # doctest: +ELLIPSIS
Traceback (most recent call last):
...
dpledger.errors.VerificationError: payload.index: expected text, a whole number, ..., got float
"""

from __future__ import annotations

import binascii
import re
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeAlias, cast

import orjson

from dpledger import decimals
from dpledger.errors import ParameterError, VerificationError, shortened
from dpledger.schema import Plain

__all__ = [
    "DEEPEST",
    "INTEGER_LIMIT",
    "LONGEST_TEXT",
    "check_digest",
    "check_id",
    "check_ledger_id",
    "check_number",
    "check_text",
    "check_time",
    "dump",
    "from_base64",
    "parse",
    "read_again",
    "to_base64",
]

DEEPEST = 32  # objects and lists around any value
INTEGER_LIMIT = 2**53  # below it every integer is exact in an IEEE double, and so in JavaScript
LONGEST_KEY = 64  # characters
LONGEST_TEXT = 4096  # characters
LONGEST_NUMBER = 80  # a sign, 18 digits, the point, 60 digits
_LONGEST_PATH = 100  # characters of a path that a message shows
_SHOWN = 48  # characters of a refused value that a message repeats

_KEY = re.compile(r"[a-z][a-z0-9_]{0,63}")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}")
_LEDGER_ID = re.compile(r"(?=.{8,128}\Z)(?!.*[./][./])[a-z0-9][a-z0-9./_-]*[0-9a-f]{32}|[0-9a-f]{32}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_HIDDEN = re.compile(
    "["
    "\u0000-\u0009\u000b-\u001f"  # control characters, LF excepted
    "\u007f-\u009f"  # DEL and the second block of control characters
    # invisible, line-breaking and direction-changing characters
    "\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\U000e0000-\U000e007f"
    "\ud800-\udfff"  # halves of surrogate pairs: not characters, no UTF-8
    "]"
)


def dump(value: Plain) -> bytes:
    """The one text of `value`, an object of the profile.

    Raises ParameterError, naming the path, for anything outside the profile: a float, a None, a tuple or a subclass of
    a plain type included. The inverse of `parse`.
    """
    if type(value) is not dict:
        raise ParameterError("payload", type(value).__name__, "an object (a dict)")
    _check(value, "payload", DEEPEST)
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def parse(data: bytes) -> dict[str, Plain]:
    """The value whose one text is `data`.

    Raises VerificationError with the byte offset, or the path, at which `data` leaves the profile. The inverse of
    `dump`: whatever is accepted is dumped to the same bytes.
    """
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise VerificationError(f"payload: not JSON at byte {_offset(data, error)}") from None
    if type(value) is not dict:
        raise VerificationError("payload: expected an object at the top")
    if not _is_usual(data):
        try:
            _check(value, "payload", DEEPEST)
        except ParameterError as error:
            raise VerificationError(str(error)) from None
    canonical = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    if canonical != data:
        raise VerificationError(
            f"payload: not in its one form at byte {_first_difference(canonical, data)} "
            "(sorted keys, each once; no spare escapes or space)"
        )
    return cast("dict[str, Plain]", value)


def read_again(data: bytes) -> dict[str, Plain]:
    """What `parse` returned for these bytes. Of bytes that it never accepted this says nothing."""
    return cast("dict[str, Plain]", orjson.loads(data))


_USUAL = re.compile(
    rb'(?:[{}\[\],]|"[a-z][a-z0-9_]{0,63}":|"[ !#-\[\]-~]{0,4096}"(?!:)|-?[0-9]{1,15}(?![0-9.eE])|true|false)*+'
)


def _is_usual(data: bytes) -> bool:
    """Whether bytes that are JSON show by themselves that `_check` finds nothing: keys of the profile, texts of
    printable ASCII without escapes, numbers of few digits, and too few brackets to be nested too deep."""
    return data.count(b"{") + data.count(b"[") <= DEEPEST and _USUAL.fullmatch(data) is not None


_Place: TypeAlias = "tuple[_Place, str | int] | str"  # where a value stands: the steps to it, innermost last


def _check(value: Any, place: _Place, left: int) -> None:
    """Raises ParameterError unless `value` lies in the profile with `left` more levels of nesting to use."""
    kind = type(value)
    if kind is str:
        if len(value) > LONGEST_TEXT or not (value.isascii() and value.isprintable()):
            check_text(value, _path(place))
    elif kind is int:
        if not -INTEGER_LIMIT < value < INTEGER_LIMIT:
            raise ParameterError(_path(place), "a larger one", "a whole number of magnitude below 2^53")
    elif kind is dict:
        _check_room(left)
        for key, item in value.items():
            if type(key) is not str or len(key) > LONGEST_KEY or not _is_key(key):
                raise ParameterError(_path(place), f"the key {_shown(key)}", "keys [a-z][a-z0-9_]{0,63}")
            _check(item, (place, key), left - 1)
    elif kind is list:
        _check_room(left)
        for position, item in enumerate(value):
            _check(item, (place, position), left - 1)
    elif kind is not bool:
        expected = "text, a whole number, true, false, a list or an object"
        raise ParameterError(_path(place), "null" if value is None else kind.__name__, expected)


def _check_room(left: int) -> None:
    if left == 0:
        raise ParameterError("payload", "deeper nesting", f"at most {DEEPEST} levels")


@lru_cache(maxsize=1024)
def _is_key(key: str) -> bool:
    return _KEY.fullmatch(key) is not None


def _path(place: _Place) -> str:
    """`place` as text, like payload.path[0].scope; of a long one the innermost part."""
    steps: list[str] = []
    while not isinstance(place, str):
        place, step = place
        steps.append(f".{step}" if isinstance(step, str) else f"[{step}]")
    path = place + "".join(reversed(steps))
    return path if len(path) <= _LONGEST_PATH else "…" + path[-_LONGEST_PATH:]


def check_text(text: str, field: str) -> str:
    """`text`, if it is free text of the profile: at most 4,096 characters, none of them U+0000-001F except LF,
    U+007F-009F, U+00AD, U+061C, U+180E, U+200B-200F, U+2028-202F, U+2060-206F, U+FEFF, U+E0000-E007F, or half of a
    surrogate pair. Else ParameterError."""
    _check_is_text(text, field)
    if len(text) > LONGEST_TEXT:
        raise ParameterError(field, f"{len(text)} characters", f"at most {LONGEST_TEXT} characters")
    found = _HIDDEN.search(text)
    if found:
        where = f"U+{ord(found.group()):04X} at character {found.start()}"
        raise ParameterError(field, where, "text without control, invisible or direction-changing characters")
    return text


def check_id(text: str, field: str) -> str:
    """`text`, if it is an id: `[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}`. Else ParameterError."""
    return _check_form(_ID, text, field, "1 to 128 letters, digits and . _ : / @ -, the first a letter or a digit")


def check_ledger_id(text: str, field: str) -> str:
    """`text`, if it is the id of a ledger: 32 to 128 of `a-z 0-9 . / _ -`, the first a letter or digit, the last 32
    hexadecimal digits (its 128 random bits), and no `.` or `/` beside another. Else ParameterError.

    The last rule makes every id a safe relative path: no `..`, no empty step. A DSSE message starts with a capital
    letter, a checkpoint with this id: so one key can sign both.
    """
    return _check_form(_LEDGER_ID, text, field, "a ledger id: a-z 0-9 . / _ -, ending in 32 hexadecimal digits")


def check_digest(text: str, field: str) -> str:
    """`text`, if it is a SHA-256 digest: 64 hexadecimal digits in lower case. Else ParameterError."""
    return _check_form(_DIGEST, text, field, "64 hexadecimal digits in lower case")


def check_time(text: str, field: str = "time") -> str:
    """`text`, if it is a moment of the calendar, `YYYY-MM-DDThh:mm:ssZ`, in UTC. Else ParameterError."""
    expected = "a time like 2026-11-21T20:15:00Z"
    _check_form(_TIME, text, field, expected)
    try:
        datetime.fromisoformat(text[:-1])
    except ValueError:
        raise ParameterError(field, text, expected) from None
    return text


def check_number(text: str, field: str, *, signed: bool = False, infinite: bool = False) -> Decimal:
    """The decimal whose one text is `text`: `(0|[1-9][0-9]{0,17})(\\.[0-9]{0,59}[1-9])?`, a leading `-` only if
    `signed` (never `-0`), `inf` only if `infinite`. Else ParameterError."""
    _check_is_text(text, field)
    if len(text) > LONGEST_NUMBER or not text.isascii() or not text.isprintable():
        raise ParameterError(field, _shown(text), "a decimal in its one form, like 0.5")
    return decimals.parse(text, field=field, signed=signed, infinite=infinite)


def to_base64(data: bytes) -> str:
    """`data` in standard base64 (RFC 4648 section 4), padded."""
    return binascii.b2a_base64(data, newline=False).decode("ascii")


def from_base64(text: str, field: str) -> bytes:
    """The bytes whose standard, padded base64 is exactly `text`. ParameterError for any other spelling: spare bits at
    the end, missing padding, another alphabet, white space."""
    try:
        data = binascii.a2b_base64(text, strict_mode=True)
    except ValueError:  # binascii.Error is one, and so is what text outside ASCII raises
        raise ParameterError(field, f"{len(text)} characters of another form", "standard base64") from None
    if to_base64(data) != text:
        raise ParameterError(
            field, f"{len(text)} characters of another form", "standard base64 that re-encodes to itself"
        )
    return data


def _check_form(form: re.Pattern[str], text: str, field: str, expected: str) -> str:
    _check_is_text(text, field)
    if not form.fullmatch(text):
        raise ParameterError(field, _shown(text), expected)
    return text


def _check_is_text(text: object, field: str) -> None:
    if type(text) is not str:
        raise ParameterError(field, type(text).__name__, "text")


def _shown(value: object) -> str:
    """A refused value for a message: short, and in ASCII, since it may have been written to mislead a terminal."""
    return shortened(ascii(value[: _SHOWN + 1]) if isinstance(value, str) else type(value).__name__, _SHOWN)


def _offset(data: bytes, error: orjson.JSONDecodeError) -> int:
    """Where `data` stops being JSON. orjson counts in characters, and names no place in what is not UTF-8."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as undecodable:
        return undecodable.start
    return len(text[: error.pos].encode("utf-8"))


def _first_difference(left: bytes, right: bytes) -> int:
    shorter = min(len(left), len(right))
    return next((place for place in range(shorter) if left[place] != right[place]), shorter)
