"""How every command speaks: text for people or one JSON object for programs, and errors as exit statuses."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from dpledger.errors import DpledgerError, EngineError, ForeignLedger, InputError, StoreBehind, StoreFailure

__all__ = ["AsJson", "Voice", "bounds_in_words", "number", "speaking"]

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, for programs.")]

REFUSED = 1
BAD_INPUT = 2


class Voice:
    """Where a command's words go. With `as_json` only `give` is heard, once."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json

    def say(self, text: str = "") -> None:
        """A line for people."""
        if not self.as_json:
            print(text)

    def table(self, title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A table for people."""
        if self.as_json:
            return
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table

        table = Table(title=title or None, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
        for head in heads:
            table.add_column(head, overflow="fold")
        for row in rows:
            table.add_row(*(_inert(cell) for cell in row))
        width = None if sys.stdout.isatty() else 132
        Console(width=width, highlight=False, markup=False).print(table)

    def give(self, answer: Mapping[str, Any]) -> None:
        """The answer for programs."""
        if self.as_json:
            print(json.dumps(answer, ensure_ascii=False))


@contextmanager
def speaking(as_json: bool) -> Iterator[Voice]:
    """A voice; an error of ours inside ends the command with its message and its exit status."""
    try:
        yield Voice(as_json)
    except DpledgerError as error:
        kind = type(error).__name__
        if as_json:
            print(json.dumps({"error": {"kind": kind, "message": str(error)}}))
        else:
            print(f"dpledger: {error}", file=sys.stderr)
        raise typer.Exit(_status(error)) from None


def _status(error: DpledgerError) -> int:
    """A file that is no ledger, or not whole, is bad input; a ledger that contradicts its signatures is a finding."""
    if isinstance(error, (InputError, EngineError, ForeignLedger, StoreBehind, StoreFailure)):
        return BAD_INPUT
    return REFUSED


def number(value: float) -> float | str:
    """A number as JSON can hold it."""
    return value if math.isfinite(value) else "inf"


def bounds_in_words(lower: float, upper: float) -> str:
    """Two bounds for people, rounded outward to ten digits."""
    from dpledger.decimals import round_down, round_up, text

    high = "infinite" if math.isinf(upper) else text(round_up(upper, digits=10))
    low = "infinite" if math.isinf(lower) else text(round_down(lower, digits=10))
    return f"[{low}, {high}]"


def _inert(text: str) -> str:
    """Text from a ledger, safe on a terminal: control characters and direction marks are shown, not obeyed."""
    return "".join(c if c == "\n" or c.isprintable() else f"\\u{ord(c):04x}" for c in text)
