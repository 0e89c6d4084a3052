"""`dpledger witness init, allow, forget, serve, ask`: be a witness of ledgers, and have one asked."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from dpledger.cli import passphrases
from dpledger.cli.records import no_password
from dpledger.cli.speaking import AsJson, speaking

__all__ = ["allow", "ask", "forget", "init", "serve"]

PORT = 8642
WitnessAt = Annotated[Path, typer.Argument(help="The file of the witness; its key lies beside it.")]


def init(
    witness: Annotated[Path, typer.Argument(help="Path of the new witness file; nothing may be there.")],
    name: Annotated[str, typer.Option(help="Its name: a domain and a path that are yours, like north.example/w.")],
    url: Annotated[
        str, typer.Option(help="The address at which ledgers ask it; if others do, the address of your proxy.")
    ] = f"http://127.0.0.1:{PORT}/",
    as_json: AsJson = False,
) -> None:
    """Make a witness: its file, its key, and the policy that ledgers name it by."""
    with speaking(as_json) as voice:
        from dpledger.ledger.witnessing.founding import founded

        made = founded(witness, name, url)
        voice.say(f"made {witness}, where it keeps the newest heads: never restore it from a copy")
        voice.say(f"  {made.key}      cosigns; only you can read it")
        voice.say(f"  {made.policy}   names it: for `dpledger init LEDGER --witnesses`, and for those who verify")
        voice.say(f"  next: dpledger witness serve {witness}")
        voice.give({"witness": str(witness), "public_key": made.public.text, "policy": made.policy.read_text()})


def allow(
    witness: WitnessAt,
    key: Annotated[str, typer.Argument(help="The public key of a ledger, or its file (.pub).")],
    as_json: AsJson = False,
) -> None:
    """Let a witness cosign the heads that this key signs for a ledger. Works while the witness runs."""
    with speaking(as_json) as voice:
        from dpledger.ledger.signed.keyfiles import read_public_key
        from dpledger.ledger.witnessing.witness_file import WitnessFile

        allowed = read_public_key(key)
        with WitnessFile(witness) as kept:
            is_new = kept.allow(allowed)
        voice.say(f"{allowed.name}: {'allowed' if is_new else 'was allowed already'}")
        voice.give({"ledger": allowed.name, "new": is_new})


def forget(
    witness: WitnessAt,
    key: Annotated[str, typer.Argument(help="The public key that signs no more, or its file (.pub).")],
    as_json: AsJson = False,
) -> None:
    """Stop a witness from cosigning heads that this key signs, because it was rotated or stolen. Works while the
    witness runs. The witness remembers what it saw of the ledger, and goes on with the ledger's other keys."""
    with speaking(as_json) as voice:
        from dpledger.errors import ParameterError
        from dpledger.ledger.signed.keyfiles import read_public_key
        from dpledger.ledger.witnessing.witness_file import WitnessFile

        forgotten = read_public_key(key)
        with WitnessFile(witness) as kept:
            if not kept.forget(forgotten):
                raise ParameterError("key", forgotten.text, f"one that {witness} allows (dpledger witness allow)")
        voice.say(f"{forgotten.name}: heads signed by the key {forgotten.key_id_hex} are cosigned no more")
        voice.give({"ledger": forgotten.name, "public_key": forgotten.text})


def serve(
    witness: WitnessAt,
    host: Annotated[
        str, typer.Option(help="Where to listen; others reach it through a proxy of yours, with TLS.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0: one that is free.")] = PORT,
    as_json: AsJson = False,
) -> None:
    """Run a witness until Ctrl-C or SIGTERM. It cosigns a head only if it continues the one before."""
    with speaking(as_json) as voice:
        from dpledger.ledger.witnessing.founding import key_beside
        from dpledger.ledger.witnessing.serving import WitnessServer
        from dpledger.ledger.witnessing.witness_file import WitnessFile

        signer = key_beside(witness)
        with WitnessFile(witness) as kept, WitnessServer(kept, signer, host=host, port=port) as server:

            def ready() -> None:
                voice.say(f"{signer.public.name} listens at {server.url} until you stop it (Ctrl-C)")
                voice.give({"url": server.url, "public_key": signer.public.text})
                sys.stdout.flush()  # whoever started it waits for the address

            server.serve_until_stopped(ready)


def ask(
    ledger: Annotated[
        str,
        typer.Argument(
            help="A ledger that names witnesses: its file, or a postgresql:// address.", callback=no_password
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to write the checkpoint; nothing may be there.")
    ],
    witnesses: Annotated[
        Path | None, typer.Option(help="Its policy, with addresses (default: those that the ledger names).")
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Of a ledger whose key delegates: that key, which signs the head as well.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Have the newest head of a ledger cosigned by a quorum of its witnesses, and write it: give it to those who
    verify (`dpledger verify --since FILE --witness POLICY`). No key of the ledger is needed, but one that delegates."""
    with speaking(as_json) as voice:
        from dpledger import files
        from dpledger.ledger.ledger import Ledger
        from dpledger.ledger.signed import checkpoint

        with Ledger.look(ledger) if key is None else Ledger.open(ledger, key=key, passphrase=passphrases.asked) as book:
            note = book.cosigned(witnesses=witnesses)
        files.write_new(output, note, field="output")
        head, lines = checkpoint.parse_unverified(note)
        cosigned = sum(line.name != head.origin for line in lines)
        voice.say(f"wrote {output}: {head.size} entries of {head.origin}, cosigned by {cosigned}")
        voice.give({"checkpoint": str(output), "ledger": head.origin, "size": head.size, "cosigned": cosigned})
