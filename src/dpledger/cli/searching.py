"""`dpledger audit-search`: does this code keep its promise on any pair of neighbours that a schema allows?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpledger.cli.audited_code import causes_shown, current_folder_first, imported
from dpledger.cli.speaking import AsJson, speaking
from dpledger.errors import ParameterError

if TYPE_CHECKING:
    from dpledger.accounting.guarantees import Guarantee

__all__ = ["audit_search"]

REFUTED = 1
UNUSABLE = 2
TRIALS = 400_000
SECONDS = 60.0


def audit_search(
    target: Annotated[
        str,
        typer.Argument(
            help="module:name of a mechanism or function, f(data, rng) or f(data), found in the current folder first."
        ),
    ],
    schema: Annotated[
        str, typer.Option(help="What the data may be: JSON, or the name of a file of JSON (docs/audit_search.md).")
    ],
    relation: Annotated[
        str, typer.Option(help="The neighbouring relation: add_remove, replace_one or label_flip.")
    ] = "add_remove",
    max_contributions: Annotated[int, typer.Option(help="The most rows that one unit has.")] = 1,
    epsilon: Annotated[
        str | None, typer.Option(help="The claimed epsilon (default: the mechanism's own claim).")
    ] = None,
    delta: Annotated[str, typer.Option(help="The claimed delta, with --epsilon.")] = "0",
    trials: Annotated[int, typer.Option(help="Runs on each side, of all pairs together.")] = TRIALS,
    seconds: Annotated[
        float, typer.Option(help="Stop after about this many seconds; the verdict then depends on the machine.")
    ] = SECONDS,
    confidence: Annotated[str, typer.Option(help="Confidence of the verdict, over all pairs together.")] = "0.95",
    seed: Annotated[
        int | None, typer.Option(help="To repeat a search (default: a fresh one, which is printed).")
    ] = None,
    texts: Annotated[
        bool,
        typer.Option("--texts", help="Count the message of an exception as part of the outcome, not only its type."),
    ] = False,
    jobs: Annotated[int, typer.Option(help="Processes of the audits; -1 is every core.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Search neighbouring datasets for a pair on which a mechanism breaks its claim. Exits 1 if it found one; 2 if the
    audit of the worst pair was blind; finding nothing proves nothing.

    The pairs are made up from the schema alone. Nothing is written."""
    with speaking(as_json) as voice, current_folder_first(), causes_shown():
        from dpledger.audit import audit_search as search
        from dpledger.relations import Unit

        mechanism = imported("target", target)
        claim = _claim(epsilon, delta, mechanism)
        result = search(
            mechanism,
            claim,
            neighbours=_schema(schema),
            trials=trials,
            seconds=seconds,
            confidence=confidence,
            relation=relation,
            unit=Unit("record", max_contributions=max_contributions),
            texts=texts,
            seed=seed,
            jobs=jobs,
        )
        voice.say(str(result))
        if as_json:
            print(result.to_json())
    raise typer.Exit(UNUSABLE if result.blind is not None else REFUTED if result.verdict == "violation" else 0)


def _schema(given: str) -> Any:
    """The schema that was written out, or is in the file of that name."""
    text = given
    if not given.lstrip().startswith("{"):
        try:
            text = Path(given).read_text(encoding="utf-8")
        except OSError as error:
            raise ParameterError("schema", given, f"JSON, or a file that can be read ({error.strerror})") from None
    try:
        schema = json.loads(text)
    except ValueError:
        raise ParameterError("schema", given, 'JSON, like {"rows": {"type": "number", "low": 0, "high": 1}}') from None
    if not isinstance(schema, dict):
        raise ParameterError("schema", given, "an object with one of rows, table and answers")
    return schema


def _claim(epsilon: str | None, delta: str, mechanism: object) -> Guarantee | None:
    from dpledger.accounting.guarantees import ApproxDP, PureDP

    if epsilon is not None:
        approximate = ApproxDP(epsilon, delta)
        return approximate if approximate.delta else PureDP(epsilon)
    if not hasattr(mechanism, "claim"):
        raise ParameterError("epsilon", "nothing", "what it claims, like --epsilon 1: it has no claim of its own")
    return None
