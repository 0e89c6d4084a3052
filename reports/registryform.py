"""Entries for the public registry of deployments, as YAML: one a promise, field by field; several are documents of one
file, each after a line `---`.

Text is quoted, so that no date and no truth value is read into it; what is missing is listed above the entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import yaml

from dpledger import decimals
from dpledger.errors import ParameterError
from dpledger.reports.model import ReportModel, Table
from dpledger.reports.sections.registry import LISTS

__all__ = ["render"]

WIDEST = 2**20  # characters of a line: none is folded


def render(model: ReportModel, digest: str) -> str:
    """The entries. `digest`: the SHA-256 of the report's JSON form. ParameterError for a model without any: a first
    page alone, or a record of which no entry was read."""
    if model.of or not model.registry:
        raise ParameterError("path", "a report without its annexes", "a whole report of entries that were read")
    return "---\n".join(_entry(table, digest) for table in model.registry)


def _entry(table: Table, digest: str) -> str:
    of = table.caption.partition(": ")[2]
    head = [
        "# Draft of an entry for the registry of deployments of differential privacy.",
        *([f"# Of one promise of the ledger: {of}."] if of else []),
        f"# From the report whose JSON form has the SHA-256 {digest}.",
        *_missing(table),
    ]
    return "\n".join(head) + "\n" + _yaml(_nested(table))


def _missing(table: Table) -> Iterator[str]:
    rows = [(field.text, said.note) for field, said in table.rows if said.status == "unknown"]
    if rows:
        yield "# Missing:"
    yield from (f"#   {field}: {' '.join(note.split())}" for field, note in rows)


def _nested(table: Table) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    for field, said in table.rows:
        if said.status == "unknown":
            continue
        *path, name = field.text.split(".")
        place = entry
        for step in path:
            place = place.setdefault(step, {})
        value = said.value if isinstance(said.value, Decimal | int) else said.text
        place[name] = [value] if field.text in LISTS else value
    return entry


class _Dumper(yaml.SafeDumper):
    """Text in quotes, or as a block where it has several lines; numbers as they are."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else '"')


def _number(dumper: yaml.SafeDumper, number: Decimal) -> yaml.ScalarNode:
    kind = "int" if decimals.is_whole(number) else "float"
    return dumper.represent_scalar(f"tag:yaml.org,2002:{kind}", decimals.text(number))


def _key(dumper: yaml.SafeDumper, entry: dict[str, Any]) -> yaml.MappingNode:
    pairs = [
        (yaml.ScalarNode("tag:yaml.org,2002:str", key), dumper.represent_data(value)) for key, value in entry.items()
    ]
    return yaml.MappingNode("tag:yaml.org,2002:map", pairs, flow_style=False)


_Dumper.add_representer(str, _text)
_Dumper.add_multi_representer(Decimal, _number)
_Dumper.add_representer(dict, _key)


def _yaml(entry: dict[str, Any]) -> str:
    return yaml.dump(entry, Dumper=_Dumper, allow_unicode=True, width=WIDEST)
