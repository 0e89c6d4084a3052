"""The command line: one module a command group. Each parses, calls one room, and prints; no rule lives here.

Exit status: 0 success; 1 refuted, does not verify, or refused by a budget; 2 input that cannot be used, or a question
to which nobody said yes; 3 what was verified holds, but not everything was verified.
Only typer is imported at the top: what a command needs is imported inside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from dpledger.cli import (
    account_audits,
    approving,
    auditing,
    calibrating,
    composing,
    demonstration,
    key_changes,
    ledgers,
    looking,
    profiling,
    proving,
    reporting,
    searching,
    statements,
    training_audits,
    witnesses,
)
from dpledger.cli.speaking import Commands

app = typer.Typer(
    name="dpledger",
    cls=Commands,
    help="Certified privacy accounting, a signed ledger of what was released, and empirical audits.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

_COMMANDS = (
    # what it does, in one line of the list; then examples of its use
    (
        demonstration.demo,
        "Walk through the main job on real data.",
        ("dpledger demo", "dpledger demo --out /tmp/demo"),
    ),
    (
        composing.compose,
        "Bound what a composition of mechanisms costs.",
        (
            "dpledger compose run.json --delta 1e-5",
            "dpledger compose run.json --epsilon 1",
            "cat run.json | dpledger compose - --profile --json",
        ),
    ),
    (
        calibrating.calibrate,
        "Find the least noise that meets a target.",
        (
            "dpledger calibrate plan.json --epsilon 2 --delta 1e-6",
            "dpledger calibrate plan.json --rho 0.1",
        ),
    ),
    (
        profiling.profile,
        "Print or draw the whole privacy profile.",
        ("dpledger profile run.json", "dpledger profile run.json --plot profile.svg"),
    ),
    (
        ledgers.init,
        "Create a ledger and its keys.",
        (
            "dpledger init clinic.ledger",
            "dpledger init clinic.ledger --name north-clinic",
            "dpledger init clinic.ledger --owner officer.key.pub",
            "dpledger init clinic.ledger --witnesses north.witness.policy",
        ),
    ),
    (
        approving.owner_key,
        "Make an owner's key, which approves budgets.",
        ("dpledger owner-key officer.key",),
    ),
    (
        approving.approve,
        "Approve a scope with the owner's key.",
        ("dpledger approve request.json --key officer.key --yes",),
    ),
    (
        key_changes.rotate_key,
        "Rotate the key that signs a ledger.",
        ("dpledger rotate-key clinic.ledger", "dpledger rotate-key clinic.ledger --to next.key"),
    ),
    (
        key_changes.rotate_owner,
        "Rotate the owner's key, which approves budgets.",
        ("dpledger rotate-owner owned.ledger deputy.key.pub --request new-owner.json",),
    ),
    (
        key_changes.revoke_key,
        "End a ledger whose signing key was stolen.",
        (
            "dpledger revoke-key clinic.ledger --recovery clinic.ledger.recovery.key --last-trusted 3 "
            "--reason 'the host was broken into'",
        ),
    ),
    (
        looking.scopes,
        "List the scopes of a ledger and what each spent.",
        ("dpledger scopes clinic.ledger", "dpledger scopes clinic.ledger --json"),
    ),
    (
        looking.show,
        "List the entries of a ledger, or show one.",
        (
            "dpledger show clinic.ledger",
            "dpledger show clinic.ledger --index 3",
            "dpledger show bundle --key clinic.ledger.pub --since remembered.checkpoint",
        ),
    ),
    (
        looking.spent,
        "Read what a scope has spent.",
        (
            "dpledger spent clinic.ledger --scope patients",
            "dpledger spent clinic.ledger --scope patients --delta 1e-6",
        ),
    ),
    (
        ledgers.verify,
        "Verify a ledger, a bundle, a statement or a proof.",
        (
            "dpledger verify clinic.ledger --key clinic.ledger.pub",
            "dpledger verify bundle --key clinic.ledger.pub --since remembered.checkpoint",
            "dpledger verify model.safetensors.intoto.json --key clinic.ledger.pub --file model.safetensors",
            "dpledger verify entry-3.tlog-proof --key clinic.ledger.pub",
        ),
    ),
    (
        statements.attest,
        "Sign a statement that binds a file to a ledger.",
        (
            "dpledger attest model.safetensors --ledger clinic.ledger --scope patients --by 'A. Smith'",
            "dpledger attest model.bin --ledger clinic.ledger --scope patients --by me --run model-2026",
        ),
    ),
    (
        ledgers.export,
        "Write a bundle that anyone can verify.",
        ("dpledger export clinic.ledger -o bundle",),
    ),
    (
        proving.prove,
        "Write one entry with a proof that it is in the ledger.",
        ("dpledger prove clinic.ledger 2 -o entry-2.tlog-proof",),
    ),
    (
        ledgers.backup,
        "Copy a ledger file, even while it is in use.",
        ("dpledger backup clinic.ledger -o clinic-copy.ledger",),
    ),
    (
        ledgers.accept_rollback,
        "Continue from an older copy of a lost ledger.",
        ("dpledger accept-rollback clinic.ledger --by 'A. Smith' --reason 'the disk failed'",),
    ),
    (
        auditing.audit,
        "Test by many runs whether code keeps its claim.",
        (
            "dpledger audit zoo:laplace_half_noise",
            "dpledger audit mine:release --left 0 --right 1 --epsilon 1",
            "dpledger audit mine:release --left 0 --right 1 --epsilon 1 --plot a.svg",
            "dpledger audit mine:release --left 0 --right 1 --epsilon 1 --ledger clinic.ledger",
        ),
    ),
    (
        account_audits.audit_account,
        "Check an accountant's claim against certified bounds.",
        ("dpledger audit-account run.json --epsilon 2 --delta 1e-5",),
    ),
    (
        searching.audit_search,
        "Search for a pair on which code breaks its claim.",
        ("dpledger audit-search mine:total --schema schema.json --epsilon 1 --trials 20000",),
    ),
    (
        training_audits.audit_training,
        "Audit a whole training by canaries in its data.",
        ("dpledger audit-training mine:train --score mine:score --data rows.csv --canaries 40 --epsilon 1",),
    ),
    (
        reporting.declare,
        "Declare in a ledger what it cannot measure itself.",
        ("dpledger declare clinic.ledger declarations.yaml",),
    ),
    (
        reporting.report,
        "Write the report of a verified ledger.",
        (
            "dpledger report clinic.ledger -o report.html",
            "dpledger report clinic.ledger --summary -o page.html -o page.md",
            "dpledger report clinic.ledger -o report.json -o report.html --record",
            "dpledger report bundle --key clinic.ledger.pub --since remembered.checkpoint -o report.html",
        ),
    ),
)

_OF_A_WITNESS = (
    (
        witnesses.init,
        "Make the file and the key of a witness.",
        ("dpledger witness init south.witness --name south.example/w",),
    ),
    (
        witnesses.allow,
        "Let a witness cosign the heads of a ledger.",
        ("dpledger witness allow north.witness clinic.ledger.pub",),
    ),
    (
        witnesses.forget,
        "Stop a witness from cosigning the heads of a key.",
        ("dpledger witness forget north.witness former.pub",),
    ),
    (
        witnesses.serve,
        "Run a witness until you stop it.",
        ("dpledger witness serve north.witness --port 8642",),
    ),
    (
        witnesses.ask,
        "Have the newest head of a ledger cosigned.",
        ("dpledger witness ask witnessed.ledger -o cosigned.checkpoint",),
    ),
)

_witness = typer.Typer(
    name="witness",
    cls=Commands,
    short_help="Run a witness, which cosigns the heads of ledgers.",
    help="A witness keeps the newest head of each ledger. It cosigns no head in which an entry it has seen is missing.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def _add(group: typer.Typer, commands: Sequence[tuple[Callable[..., None], str, tuple[str, ...]]]) -> None:
    for command, what, examples in commands:
        lines = "\n".join(("\b", "Examples:", *(f"  {example}" for example in examples)))
        group.command(command.__name__.replace("_", "-"), short_help=what, epilog=lines)(command)


_add(app, _COMMANDS)
_add(_witness, _OF_A_WITNESS)
app.add_typer(_witness)


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
