"""Passphrases, asked for on the terminal: never echoed, never an argument, never in a message."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["Locked", "asked", "new"]

Locked = Annotated[bool, typer.Option("--passphrase", help="Lock the new key files; you are asked for the passphrase.")]


def asked() -> str:
    """The passphrase of a key file that is locked. ParameterError where nobody can be asked."""
    return _hidden("passphrase of the key file")


def new(is_wanted: bool) -> str | None:
    """A passphrase for a new key file, said twice; None where none is wanted."""
    from dpledger.errors import ParameterError

    if not is_wanted:
        return None
    first = _hidden("passphrase for the key files")
    if first != _hidden("once more"):
        raise ParameterError("passphrase", "two different ones", "the same one twice")
    return first


def _hidden(what: str) -> str:
    import getpass
    import sys

    from dpledger.errors import ParameterError

    if not sys.stdin.isatty():
        expected = "a terminal: it is never read from an argument or a pipe (in Python, give `passphrase=`)"
        raise ParameterError("passphrase", "no terminal", expected)
    return getpass.getpass(f"{what}: ", stream=sys.stderr)
