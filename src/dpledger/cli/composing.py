"""`dpledger compose`: certified bounds for a composition document."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpledger.cli.speaking import AsJson, bounds_in_words, number, speaking
from dpledger.errors import ParameterError

__all__ = ["compose", "document_text"]

LARGEST_DOCUMENT = 64 * 2**20  # bytes


def compose(
    file: Annotated[Path, typer.Argument(help="A composition document (JSON); - reads standard input.")],
    delta: Annotated[str | None, typer.Option(help="Bounds of epsilon at this delta.")] = None,
    epsilon: Annotated[str | None, typer.Option(help="Bounds of delta at this epsilon.")] = None,
    profile: Annotated[bool, typer.Option("--profile", help="The whole privacy profile.")] = False,
    verify: Annotated[str | None, typer.Option(help="arb: confirm the bounds in ball arithmetic.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compose what was run: a lower and an upper bound, and the truth between them."""
    with speaking(as_json) as voice:
        asked = {"--delta": delta is not None, "--epsilon": epsilon is not None, "--profile": profile}
        chosen = [option for option, is_given in asked.items() if is_given]
        if len(chosen) != 1:
            raise ParameterError("compose", " and ".join(chosen) or "none", f"exactly one of {', '.join(asked)}")
        from dpledger.accounting.composition import parse_document
        from dpledger.accounting.profile import compose as composed
        from dpledger.schema import read_json

        if verify not in (None, "arb"):
            raise ParameterError("verify", verify, "arb, or nothing")
        made = composed(parse_document(read_json(document_text(file))), verify="arb" if verify else None)
        if delta is not None:
            bounds = made.epsilon(delta)
            voice.say(f"epsilon at delta {delta}: {bounds_in_words(bounds.lower, bounds.upper)}")
            voice.give({"delta": delta, "epsilon": {"lower": number(bounds.lower), "upper": number(bounds.upper)}})
        elif epsilon is not None:
            bounds = made.delta(epsilon)
            voice.say(f"delta at epsilon {epsilon}: [{bounds.lower:.10g}, {bounds.upper:.10g}]")
            voice.give({"epsilon": epsilon, "delta": {"lower": bounds.lower, "upper": bounds.upper}})
        else:
            curve = made.curve()
            rows = [[f"{at:.6g}", f"{b.lower:.6g}", f"{b.upper:.6g}"] for at, b in curve]
            voice.table("privacy profile", ["epsilon", "delta, lower", "delta, upper"], rows)
            points = [{"epsilon": at, "delta": {"lower": b.lower, "upper": b.upper}} for at, b in curve]
            voice.give({"profile": points})


def document_text(file: Path) -> bytes:
    """The bytes of a document; - is standard input. ParameterError for what cannot be read, or is too large."""
    try:
        if str(file) == "-":
            data = typer.get_binary_stream("stdin").read(LARGEST_DOCUMENT + 1)
        else:
            with file.open("rb") as stream:
                data = stream.read(LARGEST_DOCUMENT + 1)
    except OSError as error:
        raise ParameterError("document", str(file), f"a readable file ({error.strerror})") from None
    if len(data) > LARGEST_DOCUMENT:
        raise ParameterError("document", str(file), "at most 64 MiB")
    return data
