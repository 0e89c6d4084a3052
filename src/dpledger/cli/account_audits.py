"""`dpledger audit-account`: does what an accountant says cover what was run?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpledger.cli.audit_records import Record
from dpledger.cli.composing import composition_in
from dpledger.cli.records import RecordIn
from dpledger.cli.speaking import AsJson, speaking

__all__ = ["audit_account"]

REFUTED = 1
UNTOLD = 2


def audit_account(
    file: Annotated[Path, typer.Argument(help="A composition document (JSON) of what ran; - reads standard input.")],
    epsilon: Annotated[str, typer.Option(help="The epsilon that was claimed.")],
    delta: Annotated[str, typer.Option(help="The delta that was claimed.")] = "0",
    ledger: RecordIn = None,
    scope: Annotated[str | None, typer.Option(help="With --ledger: the scope it is about.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compose what ran, and compare the bounds with what an accountant claims. Nothing is run. Exits 1 if the loss is
    certainly above the claim; 2 if the claim lies between the two bounds, so that nobody can tell."""
    with speaking(as_json) as voice:
        from dpledger.accounting.guarantees import ApproxDP, PureDP
        from dpledger.audit.analytic.accounts import audit_account as audited

        record = Record(ledger, scope)
        record.rules()
        claim = ApproxDP(epsilon, delta)
        result = audited(composition_in(file), claim if claim.delta else PureDP(epsilon))
        voice.say(str(result))
        for index in record.note_results([result]):
            voice.say(f"recorded in {ledger}: entry {index}")
        if as_json:
            print(result.to_json())
    raise typer.Exit(REFUTED if result.verdict == "violation" else 0 if result.is_kept else UNTOLD)
