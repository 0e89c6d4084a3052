"""How every command speaks: text for people or one JSON object for programs, and errors as exit statuses."""

from __future__ import annotations

import gc
import io
import json
import math
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dpledger.errors import (
    DpledgerError,
    EngineError,
    ForeignLedger,
    InputError,
    NewerThanVerifier,
    NotWitnessed,
    ParameterError,
    StoreBehind,
    StoreFailure,
    VerificationError,
)
from dpledger.notebooks import inert

__all__ = [
    "AsJson",
    "Commands",
    "Voice",
    "as_options",
    "bounds_in_words",
    "in_line",
    "inert",
    "number",
    "share_above",
    "share_below",
    "speaking",
]

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, for programs.")]

REFUSED = 1
BAD_INPUT = 2
WHOLE_ROWS = 10**6  # columns of a terminal that a pipe or a file is taken for: no row is folded
COLLECTED_AFTER = 200_000  # objects; by default 700, and a report would look at all entries of its record over and over
FOLLOWING_BLANK = re.compile("(?<=[ \u115f\u1160\u2800\u3164\uffa0])[ \u115f\u1160\u2800\u3164\uffa0]")
USAGE_ERROR: Any = typer.BadParameter.__base__  # typer itself does not name it, and where it lives has changed


class Commands(TyperGroup):
    """The group of all commands: with --json among the words, a wrong use of a command is told as JSON too."""

    def main(self, *given: Any, **named: Any) -> Any:
        """Also what the output's encoding cannot say is said, written out, and so is a path that is no text."""
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        return super().main(*given, **named)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.obj = "--json" in args
        rest: list[str] = super().parse_args(ctx, args)
        return rest

    def invoke(self, ctx: Any) -> Any:
        gc.set_threshold(COLLECTED_AFTER)
        try:
            return super().invoke(ctx)
        except USAGE_ERROR as error:
            if not ctx.obj:
                raise
            print(json.dumps({"error": {"kind": "UsageError", "message": error.format_message()}}))
            raise typer.Exit(BAD_INPUT) from None


def in_line(text: str) -> str:
    """Text from others inside a line of ours, which it cannot end: neither by a line feed, nor by so many blanks that
    the terminal goes on below."""
    return FOLLOWING_BLANK.sub(lambda blank: f"\\u{ord(blank[0]):04x}", inert(text).replace("\n", "\\n"))


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
            table.add_row(*(inert(cell) for cell in row))
        width = None if sys.stdout.isatty() else WHOLE_ROWS
        console = Console(width=width, highlight=False, markup=False)
        with console.capture() as written:
            console.print(table)
        print("\n".join(line.rstrip() for line in written.get().splitlines()))

    def give(self, answer: Mapping[str, Any]) -> None:
        """The answer for programs."""
        if self.as_json:
            print(json.dumps(answer))


@contextmanager
def speaking(as_json: bool) -> Iterator[Voice]:
    """A voice; an error of ours inside ends the command with its message, its notes and its exit status."""
    with _heard(), warnings.catch_warnings():
        warnings.showwarning = _warned
        try:
            yield Voice(as_json)
        except DpledgerError as error:
            notes = [inert(note) for note in getattr(error, "__notes__", ())]
            if as_json:
                told = {"kind": type(error).__name__, "message": str(error)} | ({"notes": notes} if notes else {})
                print(json.dumps({"error": told}))
            else:
                print("\n".join([f"dpledger: {_finding(error)}{error}", *notes]), file=sys.stderr)
            raise typer.Exit(_status(error)) from None
        except OSError as error:
            if not as_json or isinstance(error, BrokenPipeError):
                raise
            print(json.dumps({"error": {"kind": type(error).__name__, "message": _what_failed(error)}}))
            raise typer.Exit(BAD_INPUT) from None


@contextmanager
def as_options() -> Iterator[None]:
    """Where a guarantee is made of options, an error names the option, not the guarantee's field."""
    try:
        yield
    except ParameterError as error:
        kind, _, field = error.field.rpartition(".")
        if not kind:
            raise
        raise ParameterError(f"--{field}", error.value, error.expected) from None


def _what_failed(error: OSError) -> str:
    return f"{error.filename or 'a file, or standard output'}: {error.strerror}"


def _warned(message: Warning | str, *_: object, **__: object) -> None:
    """A warning in one line: where in the code it was given tells a reader of a shell nothing."""
    print(f"dpledger: warning: {inert(str(message))}", file=sys.stderr)


@contextmanager
def _heard() -> Iterator[None]:
    """What was said has arrived when this ends; where it cannot (a full disk, a closed pipe), bad input."""
    if sys.stdout is None:
        print("dpledger: standard output is closed", file=sys.stderr)
        raise typer.Exit(BAD_INPUT)
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        with suppress(OSError):  # else the interpreter tries once more at its end, and complains
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # whoever read has seen enough
            print(f"dpledger: {error.filename or 'standard output'}: {error.strerror}", file=sys.stderr)
        raise typer.Exit(BAD_INPUT) from None


def _finding(error: DpledgerError) -> str:
    """What is to be said first of a record that contradicts its signatures or the rules."""
    return "DOES NOT VERIFY: " if isinstance(error, VerificationError) and _status(error) == REFUSED else ""


def _status(error: DpledgerError) -> int:
    """A file that is no ledger, or not whole, or that only a newer version can judge, is bad input, and so is a witness
    that does not answer; a ledger that contradicts its signatures is a finding."""
    if isinstance(error, (InputError, EngineError, ForeignLedger, NewerThanVerifier)):
        return BAD_INPUT
    if isinstance(error, (StoreBehind, StoreFailure, NotWitnessed)):
        return BAD_INPUT
    return REFUSED


def number(value: float | Decimal) -> float | str:
    """A number as JSON can hold it; of a decimal, the least float whose shortest decimal is not below it."""
    if not math.isfinite(value):
        return "inf"
    nearest = float(value)
    if isinstance(value, Decimal) and Decimal(repr(nearest)) < value:
        return math.nextafter(nearest, math.inf)
    return nearest


def bounds_in_words(lower: float, upper: float | Decimal) -> str:
    """Two bounds for people, rounded outward to ten digits; with an exponent where they are beyond all promises."""
    from dpledger.decimals import round_down, round_up

    return f"[{_in_words(round_down(lower, digits=10))}, {_in_words(round_up(upper, digits=10))}]"


def _in_words(value: Decimal) -> str:
    if value.is_infinite():
        return "infinite"
    return format(value, "f" if value < 10**18 else "e")


def share_below(value: float, digits: int = 10) -> str:
    """A probability for people, rounded down to so many digits."""
    return _rounded(value, digits, ROUND_FLOOR)


def share_above(value: float, digits: int = 10) -> str:
    """A probability for people, rounded up to so many digits."""
    return _rounded(value, digits, ROUND_CEILING)


def _rounded(value: float, digits: int, rounding: str) -> str:
    from dpledger.decimals import own_context

    context = own_context(digits, rounding)
    return f"{context.create_decimal_from_float(value).normalize(context):g}"
