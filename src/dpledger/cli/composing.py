"""`dpledger compose`: certified bounds for a composition document."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dpledger.cli.speaking import AsJson, bounds_in_words, number, share_above, share_below, speaking
from dpledger.errors import ParameterError

if TYPE_CHECKING:
    from dpledger.accounting.documents import Document
    from dpledger.accounting.profile import Bounds
    from dpledger.strict_json import JsonValue

__all__ = ["compose", "composition_in", "document_in"]

LEAST = 1e-300  # below, the bounds are about what a float holds
FORM = (
    "a composition document has the fields relation, entries and, optionally, direction, like "
    '{"relation": "add_remove", "entries": [{"mechanism": {"kind": "gaussian", "noise_multiplier": "10"}, "count": 3}]}'
)
WIDE = 1e-3  # share of the upper bound
WIDE_FOR_WORK = "every part is priced exactly; the gap is rounding, or work above the engine's own limit"


def compose(
    file: Annotated[Path, typer.Argument(help="A composition document (JSON); - reads standard input.")],
    delta: Annotated[str | None, typer.Option(help="Bounds of epsilon at this delta.")] = None,
    epsilon: Annotated[str | None, typer.Option(help="Bounds of delta at this epsilon.")] = None,
    profile: Annotated[bool, typer.Option("--profile", help="The whole privacy profile.")] = False,
    verify: Annotated[str | None, typer.Option(help="arb: confirm the bounds in ball arithmetic.")] = None,
    order: Annotated[
        str, typer.Option(help="given: different bounded ranges run in the order of the document, fixed beforehand.")
    ] = "any",
    effort: Annotated[
        int,
        typer.Option(help="1 to 64: how many times the usual work to spend on different bounded ranges in any order."),
    ] = 1,
    as_json: AsJson = False,
) -> None:
    """Compose what was run: a lower and an upper bound, and the truth between them."""
    with speaking(as_json) as voice:
        asked = {"--delta": delta is not None, "--epsilon": epsilon is not None, "--profile": profile}
        chosen = [option for option, is_given in asked.items() if is_given]
        if len(chosen) != 1:
            raise ParameterError("compose", " and ".join(chosen) or "none", f"exactly one of {', '.join(asked)}")
        from dpledger.accounting.profile import compose as composed

        if verify not in (None, "arb"):
            raise ParameterError("verify", verify, "arb, or nothing")
        if order not in ("any", "given"):
            raise ParameterError("order", order, "any or given")
        read_in: Literal["any", "given"] = "given" if order == "given" else "any"
        made = composed(composition_in(file), verify="arb" if verify else None, order=read_in, effort=effort)
        if delta is not None:
            bounds = made.epsilon(delta)
            voice.say(f"epsilon at delta {delta}: {bounds_in_words(bounds.lower, bounds.upper)}")
            for line in _about(bounds, made.notes):
                voice.say(line)
            voice.give({"delta": delta, "epsilon": {"lower": number(bounds.lower), "upper": number(bounds.upper)}})
        elif epsilon is not None:
            bounds = made.delta(epsilon)
            voice.say(f"delta at epsilon {epsilon}: [{share_below(bounds.lower)}, {share_above(bounds.upper)}]")
            for line in _about(bounds, made.notes):
                voice.say(line)
            voice.give({"epsilon": epsilon, "delta": {"lower": bounds.lower, "upper": bounds.upper}})
        else:
            curve = made.curve()
            rows = [[f"{at:.6g}", share_below(b.lower, 6), share_above(b.upper, 6)] for at, b in curve]
            voice.table("privacy profile", ["epsilon", "delta, lower", "delta, upper"], rows)
            points = [{"epsilon": at, "delta": {"lower": b.lower, "upper": b.upper}} for at, b in curve]
            voice.give({"profile": points})


def _about(bounds: Bounds, notes: tuple[str, ...]) -> Iterator[str]:
    """How far apart two bounds are and, where that is much, why; why an epsilon is infinite."""
    if math.isinf(bounds.lower):
        yield "no finite epsilon: at every epsilon, delta is above this one"
    elif math.isinf(bounds.upper):
        yield "no upper bound: this delta is below 5e-324, or at most the delta that may remain at every epsilon"
        yield from notes
    elif bounds.upper > LEAST:
        share = (bounds.upper - bounds.lower) / bounds.upper
        yield f"the bounds differ by {share_above(share, 2)} of the upper one" if share else "exact"
        if share > WIDE:
            yield from (f"why: {note}" for note in notes or (WIDE_FOR_WORK,))


def document_in(file: Path) -> JsonValue:
    """What a JSON document says; - is standard input. ParameterError for what cannot be read, or is too large."""
    from dpledger.strict_json import LARGEST_FILE, read_json, read_json_file

    if str(file) != "-":
        return read_json_file(file)
    data = typer.get_binary_stream("stdin").read(LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        raise ParameterError("document", "more on standard input", f"at most {LARGEST_FILE:,} bytes")
    return read_json(data)


def composition_in(file: Path) -> Document:
    """The composition document in a file; - is standard input. Raises as `document_in`, for another document too."""
    from dpledger.accounting.documents import Document, parse_document

    try:
        return Document.read(file) if str(file) != "-" else parse_document(document_in(file))
    except ParameterError as error:
        if error.field.rpartition(": ")[2].count(".") == 1:  # one of the document's fields
            error.add_note(FORM)
        raise
