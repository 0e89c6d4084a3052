"""A file of declarations, in YAML, that people write once, copy and keep beside their code.

    by: A. Lindqvist                    # whose words these are, unless an item names somebody else
    ledger:                             # about the whole ledger
      product_name: Screening statistics
      decision_owner: {by: M. Okafor, text: The head of data protection}
    scopes:                             # about one scope each
      patients-2026:
        population_size: 398

Every scalar is text, as it is written: `no` is no truth value, 2026-01-01 no date, 1_000 no number. Each key stands
once; anchors, aliases and tags are refused, and so is whatever is not of this form.

>>> said = parsed(b"by: A. Lindqvist\\nledger: {region: no}\\n")
>>> [(one.scope, one.item, one.text, one.by) for one in said]
[('', 'region', 'no', 'A. Lindqvist')]
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import yaml

from dpledger.errors import ParameterError
from dpledger.files import read_whole
from dpledger.ledger.entries.bodies import Declared
from dpledger.schema import naming

__all__ = ["LARGEST", "Statement", "parsed", "read"]

LARGEST: Final = 2**20  # bytes of a file
FORM: Final = "a mapping of `by`, `ledger` and `scopes`"
ITEM: Final = "text, or a mapping of `by` and `text`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One declaration of a file. `scope`: empty where it is about the whole ledger."""

    scope: str
    item: str
    text: str
    by: str

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
    """The declarations of a file's bytes. ParameterError for anything that is not of the form above."""
    value = _mapping(_loaded(data), "declarations", FORM)
    if not value.keys() <= {"by", "ledger", "scopes"}:
        raise ParameterError("declarations", ", ".join(sorted(value.keys() - {"by", "ledger", "scopes"})), FORM)
    by = _text(value.get("by", ""), "by", "text: whose words these are")
    found = list(_statements(value.get("ledger", {}), "", by))
    for scope, items in _mapping(value.get("scopes", {}), "scopes", "a mapping of scopes").items():
        if not scope:
            raise ParameterError("scopes", "no name", "the name of each scope (what is about the ledger: `ledger`)")
        found += _statements(items, scope, by)
    for one in found:
        one.body()
    return tuple(found)


def _statements(items: object, scope: str, by: str) -> Iterator[Statement]:
    for item, said in _mapping(items, scope or "ledger", "a mapping of items").items():
        if isinstance(said, str):
            yield Statement(scope=scope, item=item, text=said, by=by)
            continue
        own = _mapping(said, item, ITEM)
        if own.keys() != {"by", "text"}:
            raise ParameterError(item, ", ".join(sorted(own)), ITEM)
        yield Statement(scope=scope, item=item, text=_text(own["text"], item, ITEM), by=_text(own["by"], item, ITEM))


def _mapping(value: object, field: str, expected: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ParameterError(field, type(value), expected)
    return value


def _text(value: object, field: str, expected: str) -> str:
    if not isinstance(value, str):
        raise ParameterError(field, type(value), expected)
    return value


# ---- YAML -----------------------------------------------------------------------------------------------------------


class _Loader(yaml.BaseLoader):
    """Mappings, sequences and text alone: nothing is resolved to another type, nothing is built by a name."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]  # the stubs leave it out
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) or getattr(event, "tag", None):
            raise ParameterError("declarations", f"an anchor, alias or tag{_at(event.start_mark)}", "none of them")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if len(keys) < len(node.value):
            raise ParameterError("declarations", f"a key that is no text{_at(node.start_mark)}", "words as keys")
        again = next((key for key, times in Counter(keys).items() if times > 1), None)
        if again is not None:
            raise ParameterError(again, f"a second one{_at(node.start_mark)}", "each key once")
        return super().construct_mapping(node, deep=deep)


def _loaded(data: bytes) -> object:
    try:
        return yaml.load(data, Loader=_Loader)  # noqa: S506  # a loader of text alone
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        why = getattr(error, "problem", None) or getattr(error, "reason", None) or "no text"
        raise ParameterError("declarations", f"{why}{_at(mark)}", "YAML") from None
    except RecursionError:
        raise ParameterError("declarations", "very many levels", "a file of three or four levels") from None


class _Mark(Protocol):
    """A place in a file."""

    @property
    def line(self) -> int: ...


def _at(mark: _Mark | None) -> str:
    return "" if mark is None else f" in line {mark.line + 1}"
