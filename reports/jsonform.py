"""The report as JSON in the ledger's byte profile: sorted keys, no float, numbers as exact decimal text, one form.

    {"ledger": "...", "pages": [...], "registry": [...], "schema": "dpledger.report.v3", "sections": [...], ...}

A page is the first page of one promise: `id`, `title`, `about`, `scopes`, `answers`. An answer is `id`, `question`,
`text`, `lines`, `status`, and where there are any `share`, `picture`, `links`. First pages that stand alone have no
section, and `of`, the digest of their report. `registry`: a table for each promise, the fields of its entry for a
public registry. A section is `id`, `heading`, `about`, `blocks`, `sections`; a block is told apart by its `kind`
(items, table, prose, picture). An item's `origin.status` is measured, declared or unknown. What is absent is
absent: there is no null. `digest` is what a `reported` entry records.
"""

from __future__ import annotations

import dataclasses
import hashlib
from decimal import Decimal

from dpledger import decimals
from dpledger.ledger.signed import wire
from dpledger.reports.model import ReportModel
from dpledger.schema import Plain

__all__ = ["digest", "render"]


def render(model: ReportModel) -> bytes:
    """The one JSON text of the model; `wire.parse` reads it back."""
    value = _plain(model)
    assert isinstance(value, dict), "a model is an object"
    return wire.dump(value)


def digest(model: ReportModel) -> str:
    """The SHA-256 of the JSON text, in hexadecimal."""
    return hashlib.sha256(render(model)).hexdigest()


def _plain(value: object) -> Plain:
    """Like `schema.plain`, with numbers that may be infinite or negative, and without empty texts."""
    match value:
        case bool() | int() | str():
            return value
        case Decimal():
            return f"-{decimals.text(decimals.negative(value))}" if value < 0 else decimals.text(value)
        case tuple():
            return [_plain(item) for item in value]
        case _:
            assert dataclasses.is_dataclass(value), "a model holds nothing else"
            pairs = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
            return {name: _plain(item) for name, item in pairs if item is not None and item != ""}
