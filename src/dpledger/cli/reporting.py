"""`dpledger declare, report`: what people say of a ledger, and the report of what it shows and what it does not."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpledger.cli import passphrases, records
from dpledger.cli.speaking import AsJson, speaking

if TYPE_CHECKING:
    from dpledger.ledger.ledger import Ledger
    from dpledger.reports.sections.declared import Declarations

__all__ = ["declare", "report"]

MOST_NAMED = 8  # items, in a line


def report(
    source: records.Record,
    output: Annotated[
        list[Path],
        typer.Option(
            "--output",
            "-o",
            help="Where to write: .html, .json, .md, or .yaml for entries of a registry; may be repeated.",
        ),
    ],
    key: Annotated[
        str | None,
        typer.Option(
            help="The public key you trust: its text, or a file that holds it (default: the file beside a ledger, "
            "named .pub)."
        ),
    ] = None,
    since: Annotated[
        Path | None, typer.Option(help="A checkpoint, or a bundle, that you kept: what came after it is listed.")
    ] = None,
    witness: records.Witness = None,
    scope: Annotated[
        str | None,
        typer.Option(
            help="A scope: the report is about the promise that covers it alone (default: about every promise)."
        ),
    ] = None,
    summary: Annotated[
        bool, typer.Option("--summary", help="The first pages alone: one sheet of paper a promise.")
    ] = False,
    record: Annotated[
        bool,
        typer.Option(
            "--record",
            help="Record the SHA-256 of the .json that is written; the signing key lies beside the ledger file, or is "
            "in DPLEDGER_KEY.",
        ),
    ] = False,
    most_seconds: records.MostSeconds = records.MOST_SECONDS,
    as_json: AsJson = False,
) -> None:
    """Verify a ledger, and write what it shows and what it does not."""
    with speaking(as_json) as voice:
        from dpledger.reports import report as reported

        _check_forms(output, summary)
        if record:
            _check_recorded(source, output, summary)
        with _to_record(source) if record else nullcontext() as book:
            verified = records.verified(source, key, since, most_seconds=most_seconds, witness=witness)
            whole = reported(verified, scope=scope)
            made = whole.summary() if summary else whole
            for path in output:
                made.save(path)
                voice.say(f"wrote {path}")
            recorded = None if book is None else book.record(whole.body()).index
        answer: dict[str, Any] = {
            "reports": [str(path) for path in output],
            "ledger": verified.head.origin,
            "digest": whole.digest,
            "promises": [list(page.scopes) for page in whole.model.pages],
        }
        if recorded is not None:
            answer["recorded"] = recorded
            voice.say(f"recorded in entry {answer['recorded']}: SHA-256 {whole.digest}")
        if verified.unpriced:
            voice.say(f"NOT VERIFIED: the prices of {records.unpriced(verified)}; the report says so")
            answer["not_verified"] = list(verified.unpriced)
        voice.give(answer)
        if verified.unpriced:
            raise typer.Exit(records.NOT_ALL)


def _check_forms(output: Sequence[Path], summary: bool) -> None:
    """ParameterError, before any work, for a form that there is none of, or that is of the whole report where the first
    page alone is asked for."""
    from dpledger.errors import ParameterError
    from dpledger.reports.document import FORMS

    for path in output:
        suffix = path.suffix.lower()
        if suffix == ".pdf":
            expected = "a name that ends in .html, .json, .md or .yaml; a browser prints the .html as PDF"
            raise ParameterError("output", str(path), expected)
        if suffix not in FORMS:
            raise ParameterError("output", str(path), "a name that ends in .html, .json, .md or .yaml")
        if summary and suffix == ".yaml":
            forms = ".html, .json or .md; entries of a registry (.yaml) need the whole report: leave out --summary"
            raise ParameterError("output", str(path), forms)


def _check_recorded(source: str, output: list[Path], summary: bool) -> None:
    """ParameterError, before anything is written, where nothing can be recorded, or a digest of what nobody has."""
    from dpledger.errors import ParameterError

    if records.is_bundle(source):
        raise ParameterError("record", source, "a ledger: nothing is appended to a bundle")
    if summary:
        raise ParameterError("record", "--summary", "the whole report: give --record without --summary")
    if not any(path.suffix.lower() == ".json" for path in output):
        expected = "an output that ends in .json, whose SHA-256 is recorded: add -o report.json"
        raise ParameterError("record", ", ".join(map(str, output)), expected)


def _to_record(source: str) -> Ledger:
    """The ledger, with its signing key: where the key cannot be used, nothing is written."""
    from dpledger.ledger.ledger import Ledger

    return Ledger.open(source, passphrase=passphrases.asked)


def declare(
    ledger: records.LedgerPlace,
    file: Annotated[Path, typer.Argument(help="Declarations in YAML; examples/declarations.yaml is one to copy.")],
    key: records.SigningKeyFile = None,
    as_json: AsJson = False,
) -> None:
    """Declare the items of a file: facts that a report asks for and that no ledger can measure."""
    with speaking(as_json) as voice:
        from dpledger.errors import shown
        from dpledger.ledger.entries import declared_files
        from dpledger.ledger.ledger import Ledger
        from dpledger.reports import readings
        from dpledger.reports.sections.declared import Declarations

        with Ledger.open(ledger, key=key, passphrase=passphrases.asked) as book:
            entries = book.declare_file(file)
            standing = Declarations(book.entries())
        said = declared_files.read(file)
        copied = [one.item for one in said if declared_files.is_sample(one.item, one.text)]
        unread = {one: form for one in said if (form := readings.form(one.item, one.text))}
        voice.say(
            f"{len(entries)} declared, in {ledger}" if entries else ("nothing new: the ledger holds all of it already")
        )
        if copied:
            more = f" and {len(copied) - MOST_NAMED} more" if len(copied) > MOST_NAMED else ""
            named = ", ".join(copied[:MOST_NAMED]) + more
            voice.say(f"  copied word for word from the sample file, which is about nobody: {named}")
            voice.say("  the report says so beside them; write your own words and declare the file again")
        for one, form in unread.items():
            voice.say(f"  {one.item}: the report looks for {form}; it cannot read {shown(one.text)}")
        voice.say(f"  {_still(standing)}")
        voice.give(
            {
                "declared": [entry.index for entry in entries],
                "missing": list(standing.missing),
                "of_the_sample": copied,
                "not_read": sorted({one.item for one in unread}),
            }
        )


def _still(standing: Declarations) -> str:
    """What nobody has said yet, of the items of a report."""
    from dpledger.reports.sections.declared import COPIED, ITEMS

    left = f"in {COPIED}: {len(standing.copied)} of {len(ITEMS)} items of the report" if standing.copied else ""
    if standing.missing:
        return f"still not declared: {', '.join(standing.missing)}" + (f"; {left}" if left else "")
    return left or "every item of the report is declared"
