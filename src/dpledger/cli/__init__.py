"""The command line: one module a command group. Each parses, calls one room, and prints; no rule lives here.

Exit status: 0 success; 1 refuted, does not verify, or refused by a budget; 2 input that cannot be used.
Only typer is imported at the top: what a command needs is imported inside it.
"""

from __future__ import annotations

import typer

from dpledger.cli import auditing, calibrating, composing, demonstration, ledgers, profiling, reporting

app = typer.Typer(
    name="dpledger",
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
app.command("audit")(auditing.audit)
app.command("report")(reporting.report)


@app.callback()
def main() -> None:
    """Certified privacy accounting, a signed ledger of what was released, and empirical audits."""
