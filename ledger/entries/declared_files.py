"""A file of declarations, in YAML, that people write once, copy and keep beside their code.

    by: A. Lindqvist                    # whose words these are, unless an item names somebody else
    ledger:                             # about the whole ledger
      product_name: Screening statistics
      decision_owner: {by: M. Okafor, text: The head of data protection}
    scopes:                             # about one scope each
      patients-2026:
        population_size: 398

Every scalar is text, as it is written: `no` is no truth value, 2026-01-01 no date, 1_000 no number. Each key stands
once; anchors, aliases and tags are refused, and so is whatever is not of this form. `sample_declarations.yaml`, which
is examples/declarations.yaml, is one to copy; `is_sample` tells which of its words were left as they stand there.

>>> said = parsed(b"by: A. Lindqvist\\nledger: {region: no}\\n")
>>> [(one.scope, one.item, one.text, one.by) for one in said]
[('', 'region', 'no', 'A. Lindqvist')]
>>> parsed(b"by: A. Lindqvist\\nledger:\\n  region: Europe: north\\n")
Traceback (most recent call last):
...
dpledger.errors.ParameterError: declarations in line 3: expected YAML; a text with ": " or " #" in it, or one that \
begins with a sign, goes in "quotes", got mapping values are not allowed here
"""

from __future__ import annotations

import codecs
import functools
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Final, Protocol

import yaml

from dpledger.errors import ParameterError, UnknownWord, shortened
from dpledger.files import read_whole
from dpledger.ledger.entries.bodies import Declared
from dpledger.schema import naming

__all__ = ["LARGEST", "Statement", "is_sample", "is_sample_name", "parsed", "read"]

LARGEST: Final = 2**20  # bytes of a file
FORM: Final = "a mapping of `by`, `ledger` and `scopes`"
ITEM: Final = 'text, or a mapping of `by` and `text`; in { } a text with a comma in it goes in "quotes"'
IN_ONE_LINE: Final = (
    'each name with ": " behind it, its text on the same line, and names that belong together at the same indent'
)
MARKED: Final = 'text; one that begins with &, * or ! goes in "quotes"'
NO_BREAK: Final = "\u00a0"
NO_COLON: Final = "could not find expected ':'"  # as the YAML library says it
PLACES: Final = frozenset({NO_COLON, "expected <block end>, but found '<block mapping start>'"})
SECOND_COLON: Final = "mapping values are not allowed here"
OPENED: Final = frozenset(
    {"while scanning a quoted scalar", "while parsing a flow mapping", "while parsing a flow sequence"}
)
QUOTES: Final = 'a text with ": " or " #" in it, or one that begins with a sign, goes in "quotes"'
WHOSE: Final = "whose words these are, as `by: NAME`"
SAYS: Final = (
    'words, or leave the item out; after a space, # begins a comment: a text that begins with # goes in "quotes"'
)
KINDS: Final = frozenset(
    {
        *("none", "static", "growing", "one release", "many releases", "central", "local", "shuffled"),
        *("summary statistics", "machine learning model", "dataset"),
        *("synthetic data", "interactive api", "sql queries"),
    }
)
"""Words that an item takes from a closed list: whoever chooses one of them has the same words as the sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One declaration of a file. `scope`: empty where it is about the whole ledger; `place`: its part of the file,
    with the line."""

    scope: str
    item: str
    text: str
    by: str
    place: str = field(default="", compare=False)

    def body(self) -> Declared:
        """The declaration as an entry holds it, without its place. ParameterError as `Declared`."""
        return Declared(item=self.item, text=self.text, by=self.by)


def read(path: str | os.PathLike[str]) -> tuple[Statement, ...]:
    """What the file at `path` declares, in its order. ParameterError, naming the file, for one that cannot be read, is
    larger than 1 MiB, or says something else."""
    data = read_whole(path, limit=LARGEST, field="declarations")
    with naming(path):
        return parsed(data)


def parsed(data: bytes) -> tuple[Statement, ...]:
    """The declarations of a file's bytes. ParameterError for anything that is not of the form above, with its line."""
    value = _mapping(_loaded(data), "declarations", FORM)
    for key in sorted(value.keys() - {"by", "ledger", "scopes"}):
        raise ParameterError(f"declarations{value.at(key)}", key, FORM)
    where = f"by{value.at('by') or ' in line 1'}"
    by = _Author(_text(value.get("by", ""), where, WHOSE), where)
    found = list(_statements(value.get("ledger", NOTHING), "", f"ledger{value.at('ledger')}", by))
    scopes = _mapping(
        value.get("scopes", NOTHING), f"scopes{value.at('scopes')}", "a mapping of scopes; without any, leave it out"
    )
    for scope, items in scopes.items():
        if not scope:
            raise ParameterError(
                f"scopes{scopes.at('')}", "no name", "the name of each scope (what is about the ledger: `ledger`)"
            )
        found += _statements(items, scope, f"{scope}{scopes.at(scope)}", by)
    return tuple(found)


def is_sample(item: str, text: str) -> bool:
    """Whether a declaration of `item` is word for word the one of the sample file, and no kind from a closed list.

    >>> is_sample("intended_use", "Planning of screening capacity"), is_sample("dpia_reference", "DPIA-2026-014")
    (True, True)
    >>> is_sample("data_growth", "Growing"), is_sample("limits", "DPIA-2026-014")
    (False, False)
    """
    words = text.strip()
    return words.lower() not in KINDS and (item, words) in _sample()[0]


def is_sample_name(by: str) -> bool:
    """Whether a declaration is in the name of somebody of the sample file, who is nobody."""
    return by.strip() in _sample()[1]


@functools.cache
def _sample() -> tuple[frozenset[tuple[str, str]], frozenset[str]]:
    """What the sample file says of which item, and in whose names."""
    data = files("dpledger.ledger.entries").joinpath("sample_declarations.yaml").read_bytes()
    found = parsed(data)
    return frozenset((one.item, one.text) for one in found), frozenset(one.by for one in found)


@dataclass(frozen=True, slots=True)
class _Author:
    """Who speaks where an item names nobody; `place` is where the file says so, or would."""

    name: str
    place: str

    def named(self) -> str:
        """The name. ParameterError for none."""
        if not self.name.strip():
            raise ParameterError(self.place, "nothing", WHOSE)
        return self.name


def _statements(items: object, scope: str, place: str, by: _Author) -> Iterator[Statement]:
    said = _mapping(items, place, "a mapping of items; without any, leave it out")
    for item, words in said.items():
        where = f"{item}{said.at(item)}"
        if isinstance(words, str):
            one = Statement(scope=scope, item=item, text=words, by=by.named(), place=place)
        else:
            own = _mapping(words, where, ITEM)
            if own.keys() != {"by", "text"}:
                raise ParameterError(where, ", ".join(sorted(own)), ITEM)
            own_by = _Author(_text(own["by"], where, ITEM), f"by of {where}")
            one = Statement(
                scope=scope, item=item, text=_text(own["text"], where, ITEM), by=own_by.named(), place=place
            )
        _check(one, said.at(item))
        yield one


def _check(one: Statement, line: str) -> None:
    """ParameterError, with the line, for a declaration that no entry can hold."""
    if not one.text.strip():
        raise ParameterError(f"{one.item}{line}", "nothing", SAYS)
    try:
        one.body()
    except UnknownWord as error:
        raise UnknownWord(f"item{line}", error.value, error.expected) from None
    except ParameterError as error:
        raise ParameterError(f"{one.item}{line}", error.value, error.expected) from None


def _mapping(value: object, field: str, expected: str) -> _Mapping:
    if not isinstance(value, _Mapping):
        raise ParameterError(field, _given(value), expected)
    return value


def _given(value: object) -> str:
    """What a file says in place of what it should, for a message."""
    if isinstance(value, str) or value is None:
        return value or "nothing"
    return "a mapping" if isinstance(value, _Mapping) else "a list"


def _text(value: object, field: str, expected: str) -> str:
    if not isinstance(value, str):
        raise ParameterError(field, _given(value), expected)
    return value


# ---- YAML -----------------------------------------------------------------------------------------------------------


class _Mapping(dict[Any, Any]):
    """A mapping that knows in which line each of its keys stands."""

    def __init__(self, values: Mapping[Any, Any], lines: Mapping[str, int]) -> None:
        super().__init__(values)
        self.lines = lines

    def at(self, key: str) -> str:
        """Where `key` stands; nothing for one that is not there."""
        return f" in line {self.lines[key]}" if key in self.lines else ""


NOTHING: Final = _Mapping({}, {})
MOST_LEVELS = 16


class _Loader(yaml.BaseLoader):
    """Mappings, sequences and text alone: nothing is resolved to another type, nothing is built by a name."""

    _levels = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]  # the stubs leave it out
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) or getattr(event, "tag", None):
            raise ParameterError(f"declarations{_at(event.start_mark)}", "an anchor, alias or tag", MARKED)
        if self._levels == MOST_LEVELS:
            raise ParameterError("declarations", "very many levels", "a file of three or four levels")
        self._levels += 1
        node = super().compose_node(parent, index)
        self._levels -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> _Mapping:
        keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if len(keys) < len(node.value):
            raise ParameterError("declarations", f"a key that is no text{_at(node.start_mark)}", "words as keys")
        lines = {key.value: key.start_mark.line + 1 for key in keys}  # of a key that stands twice, the last
        for key in keys:
            if key.style is None and NO_BREAK in (key.value[:1], key.value[-1:]):
                raise _no_break_space(key.start_mark.line + 1)
        again = next((key for key, times in Counter(key.value for key in keys).items() if times > 1), None)
        if again is not None:
            raise ParameterError(again, f"a second one in line {lines[again]}", "each key once")
        return _Mapping(super().construct_mapping(node, deep=deep), lines)


def _loaded(data: bytes) -> object:
    try:
        return yaml.load(data, Loader=_Loader)  # noqa: S506  # a loader of text alone
    except yaml.reader.ReaderError as error:
        if error.encoding != "unicode":
            line = len(_lines(data[: error.position]))
            raise ParameterError(
                f"declarations in line {line}", "bytes that are not UTF-8", "a file of text, saved as UTF-8"
            ) from None
        raise ParameterError("declarations", f"the character U+{error.character:04X}", "a file of text") from None
    except yaml.MarkedYAMLError as error:
        raise _refused(error, _lines(data)) from None


def _refused(error: yaml.MarkedYAMLError, lines: Sequence[str]) -> ParameterError:
    """Why a file is no YAML, with the lines in which the mistake can be: YAML sees some of them a line later."""
    where = _suspects(error, lines)
    told = f"declarations in line {' or '.join(map(str, where))}" if where else "declarations"
    why = error.problem or "no text"
    if "'\\t'" in why:
        return ParameterError(told, "a tab", "spaces")
    for line in where:
        if re.match(rf"\s*{NO_BREAK}|[^:]*:{NO_BREAK}", _at_line(lines, line)):
            return _no_break_space(line)
    if where and (why in PLACES or (why == SECOND_COLON and len(where) > 1)):
        return ParameterError(told, shortened(_at_line(lines, where[0]).strip()), IN_ONE_LINE)
    return ParameterError(told, why, f"YAML; {QUOTES}")


def _suspects(error: yaml.MarkedYAMLError, lines: Sequence[str]) -> tuple[int, ...]:
    """The lines, counted from 1, in which a mistake can be that YAML found."""
    found, began = error.problem_mark, error.context_mark
    if found is None:
        return ()
    last = found.line + 1
    if error.problem == NO_COLON and began is not None:
        return (began.line + 1,)
    if began is not None and error.context in OPENED:
        first = began.line + 1
    elif error.problem == SECOND_COLON and ": " not in _at_line(lines, last)[: found.column]:
        first = next((line for line in range(last - 1, 0, -1) if _at_line(lines, line).strip()), last)
    else:
        first = last
    return (first,) if first >= last else (first, last)


def _at_line(lines: Sequence[str], line: int) -> str:
    return lines[line - 1] if line <= len(lines) else ""


def _lines(data: bytes) -> list[str]:
    """The lines of a file, as YAML counts them."""
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return re.split("\r\n|[\r\n\x85\u2028\u2029]", data.decode("utf-16" if wide else "utf-8", errors="replace"))


def _no_break_space(line: int) -> ParameterError:
    return ParameterError(f"declarations in line {line}", "a no-break space", "spaces, as the space bar makes them")


class _Mark(Protocol):
    """A place in a file."""

    @property
    def line(self) -> int: ...


def _at(mark: _Mark | None) -> str:
    return "" if mark is None else f" in line {mark.line + 1}"
