"""The command line: one module a command group. Each parses, calls one room, and prints; no rule lives here.

Exit status: 0 success; 1 refuted, does not verify, or refused by a budget; 2 input that cannot be used.
Only typer is imported at the top: what a command needs is imported inside it.
"""

from __future__ import annotations

from typing import Annotated

import typer

from dpledger.cli import auditing, calibrating, composing, demonstration, ledgers, profiling, reporting
from dpledger.cli.speaking import Commands

app = typer.Typer(
    name="dpledger",
    cls=Commands,
    help="Certified privacy accounting, a signed ledger of what was released, and empirical audits.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

app.command("demo")(demonstration.demo)
app.command("compose")(composing.compose)
app.command("calibrate")(calibrating.calibrate)
app.command("profile")(profiling.profile)
app.command("init")(ledgers.init)
app.command("scopes")(ledgers.scopes)
app.command("show")(ledgers.show)
app.command("spent")(ledgers.spent)
app.command("verify")(ledgers.verify)
app.command("export")(ledgers.export)
app.command("backup")(ledgers.backup)
app.command("audit")(auditing.audit)
app.command("declare")(reporting.declare)
app.command("report")(reporting.report)


def _version(is_asked: bool) -> None:
    if is_asked:
        from dpledger import __version__

        print(f"dpledger {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Certified privacy accounting, a signed ledger of what was released, and empirical audits."""
