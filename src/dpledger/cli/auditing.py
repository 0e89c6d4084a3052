"""`dpledger audit`: does this code keep its promise? Statistical evidence on two neighbouring datasets."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, assert_never

import typer

from dpledger.cli.audit_records import Record
from dpledger.cli.audited_code import AuditedPair, causes_shown, current_folder_first, imported, subject_of
from dpledger.cli.records import RecordIn
from dpledger.cli.speaking import AsJson, Voice, as_options, speaking
from dpledger.errors import ParameterError

if TYPE_CHECKING:
    from dpledger.accounting.guarantees import Guarantee
    from dpledger.audit import Audit, AuditResult, ExPostClaim
    from dpledger.ledger.entries.bodies import Audited

__all__ = ["audit"]

REFUTED = 1
UNUSABLE = 2
RECORDED = "recorded"  # of --loss
TRIALS = 200_000


def audit(
    target: Annotated[
        str,
        typer.Argument(
            help="module:name of a mechanism or function, f(data, rng) or f(data), found in the current folder first; "
            "or zoo:NAME."
        ),
    ],
    left: Annotated[
        str | None,
        typer.Option(help="One dataset, as JSON."),
    ] = None,
    right: Annotated[str | None, typer.Option(help="Its neighbour, as JSON.")] = None,
    relation: Annotated[
        str | None,
        typer.Option(
            help=(
                "The neighbouring relation: add_remove (default), replace_one, zero_out or label_flip; --scope sets "
                "its own."
            )
        ),
    ] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="The claimed epsilon (default: the mechanism's own claim).")
    ] = None,
    delta: Annotated[str, typer.Option(help="The claimed delta, with --epsilon or --loss.")] = "0",
    loss: Annotated[
        str | None,
        typer.Option(
            help=(
                "An ex-post claim, tested over all of its strata: module:name of a function that bounds the loss of "
                "an output, or 'recorded' for the loss that each run records."
            )
        ),
    ] = None,
    trials: Annotated[int | None, typer.Option(help="Runs on each side (default: 200,000).")] = None,
    confidence: Annotated[
        str | None, typer.Option(help="Confidence of the verdict and of the lower bound (default: 0.95).")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="To repeat a run (default: a fresh one, which is printed).")] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Stop after this many seconds; the verdict then depends on the machine.")
    ] = None,
    all_runs: Annotated[
        bool, typer.Option("--all-runs", help="Continue after the claim is refuted, for a larger lower bound.")
    ] = False,
    floats: Annotated[
        str, typer.Option(help="Compare floats as numbers, or as bits, so that the last digits count too.")
    ] = "numbers",
    each_seconds: Annotated[
        float | None, typer.Option(help="Stop a run that takes longer; that it was stopped is its outcome.")
    ] = None,
    texts: Annotated[
        bool,
        typer.Option("--texts", help="Count the message of an exception as part of the outcome, not only its type."),
    ] = False,
    jobs: Annotated[int, typer.Option(help="Processes; -1 is every core.")] = 1,
    resume: Annotated[
        Path | None,
        typer.Option(
            help=(
                "A file that keeps the runs as they are drawn, so that a killed audit can resume. It holds outputs: "
                "keep it private."
            )
        ),
    ] = None,
    replay: Annotated[
        bool,
        typer.Option(
            "--replay",
            help="Sample nothing: replay one run on the neighbour. For code that draws its noise from dpledger.",
        ),
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="Write the picture of the audit here (.png, .svg or .pdf).")] = None,
    ledger: RecordIn = None,
    scope: Annotated[
        str | None,
        typer.Option(help="With --ledger: the scope that the audit is about; it sets the relation and the unit."),
    ] = None,
    intend: Annotated[
        bool, typer.Option("--intend", help="Record in the --ledger, before the first run, that the audit is planned.")
    ] = False,
    made_up: Annotated[
        bool,
        typer.Option(
            "--made-up",
            help="The data are made up and about nobody, so the entry may hold their digest, which hides nothing.",
        ),
    ] = False,
    again: Annotated[
        int | None,
        typer.Option(help="Repeat the audit of this entry of the --ledger, and say whether the result is the same."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Audit a mechanism on two neighbouring datasets. Exits 1 if its claim is refuted; 2 if the audit was blind, or
    --again did not repeat the recorded result; a pass proves nothing.

    It stops as soon as the claim is refuted. You choose the pair, and the audit is only as good as the pair: take
    datasets that differ in one row, start with the smallest data and the most extreme row, and try several. A claim
    covers neighbours only."""
    with speaking(as_json) as voice, current_folder_first(), causes_shown():
        chosen: dict[str, Any] = {"trials": trials, "confidence": confidence, "seed": seed}
        beside = {"epsilon": epsilon, "intend": intend, "made-up": made_up}
        if replay:
            others = {
                "loss": loss,
                "seconds": seconds,
                "plot": plot,
                "ledger": ledger,
                "resume": resume,
                "again": again,
            }
            _require_alone("--replay", chosen | beside | others | {"scope": scope, "all-runs": all_runs})
            status = _replayed(subject_of(target, left, right), _relation(relation, None), voice, as_json=as_json)
            raise typer.Exit(status)
        if plot is not None:
            from dpledger.audit.results.plots import check_destination

            check_destination(plot)
        record = Record(ledger, scope)
        if again is None:
            rules = record.rules() | _relation(relation, scope)
            claim, subject, earlier = _claim(epsilon, delta, loss), subject_of(target, left, right), None
            if seed is None and resume is not None:
                from dpledger.audit.course.journal import seed_in

                chosen["seed"] = seed_in(resume)
            named = {name: value for name, value in chosen.items() if value is not None}
            ways = {"stop_at_violation": not all_runs, "floats": floats, "each_seconds": each_seconds, "texts": texts,
                    "made_up": made_up}  # fmt: skip
            asked = _asked(subject, claim, rules | named | ways)
        else:
            beside |= {"relation": relation, "scope": scope} | ({} if loss is not None else {"delta": delta != "0"})
            _require_alone("--again", chosen | beside)
            earlier = record.earlier(again)
            asked = record.repeated(earlier, subject_of(target, left, right), _claim(None, delta, loss))
        said = record.intend(asked) if intend else None
        result = asked.run(seconds=seconds, jobs=jobs, resume=resume)
        voice.say(str(result))
        if plot is not None:
            result.plot(plot)
            voice.say(f"wrote {plot}")
        noted = record.note(result, said) if earlier is None else _compared(asked, result, earlier) | {"again": again}
        if as_json:
            print(json.dumps(json.loads(result.to_json()) | noted, indent=2))
        for line in _as_told(noted, ledger):
            voice.say(line)
        if "not_recorded" in noted and not as_json:
            print(f"dpledger: not recorded: {noted['not_recorded']}", file=sys.stderr)
    raise typer.Exit(_status(result, noted))


def _status(result: AuditResult, noted: Mapping[str, object]) -> int:
    if result.blind is not None or noted.get("differences"):
        return UNUSABLE
    if result.verdict == "violation":
        return REFUTED
    return UNUSABLE if "not_recorded" in noted else 0


def _replayed(subject: AuditedPair, relation: dict[str, Any], voice: Voice, *, as_json: bool) -> int:
    """The exit status of a replay, which is told."""
    from dpledger.audit import audit_replay

    result = audit_replay(subject.mechanism, subject.left, subject.right, **relation)
    voice.say(str(result))
    if as_json:
        print(result.to_json())
    match result.verdict:
        case "violation":
            return REFUTED
        case "blind":
            return UNUSABLE
        case "not_refuted":
            return 0
    assert_never(result.verdict)


def _asked(subject: AuditedPair, claim: Guarantee | ExPostClaim | None, settings: dict[str, Any]) -> Audit:
    """The audit that was asked for, checked before anything is run."""
    from dpledger.audit import Audit

    if claim is None and subject.claim is None and not hasattr(subject.mechanism, "claim"):
        raise ParameterError("epsilon", "nothing", "what it claims, like --epsilon 1: it has no claim of its own")
    return Audit(
        subject.mechanism,
        subject.left,
        subject.right,
        claim if claim is not None else subject.claim,
        batched=subject.batched,
        **{"trials": TRIALS, **settings},
    )


def _require_alone(way: str, given: Mapping[str, object]) -> None:
    """What an entry says, or a replay does not ask for, is not said beside it."""
    reason = {"--again": "the entry sets it", "--replay": "a replay samples nothing, and only an audit is recorded"}
    for name, value in given.items():
        if value is not None and value is not False:
            raise ParameterError(name, str(value), f"nothing together with {way}: {reason[way]}")


def _compared(asked: Audit, result: AuditResult, earlier: Audited) -> dict[str, Any]:
    from dpledger.audit.planned import differences

    return {"changes": list(asked.changes(earlier)), "differences": list(differences(earlier, result.body()))}


def _as_told(noted: Mapping[str, Any], ledger: str | None) -> Iterator[str]:
    """Where it was recorded, or whether it came to the same, in words."""
    if "entry" in noted:
        yield f"recorded in {ledger}: entry {noted['entry']}"
    if "again" not in noted:
        return
    yield from noted["changes"]
    if not noted["differences"]:
        yield f"the same result as in entry {noted['again']}"
        return
    yield f"not the result of entry {noted['again']}:"
    yield from (f"  {difference}" for difference in noted["differences"])


def _relation(relation: str | None, scope: str | None) -> dict[str, Any]:
    """The relation that was named, for an audit that is about no scope."""
    from dpledger.relations import Relation

    if relation is None:
        return {}
    if scope is not None:
        raise ParameterError(
            "relation", relation, "nothing together with --scope: the audit runs under the scope's relation"
        )
    return {"relation": Relation.read(relation)}


def _claim(epsilon: str | None, delta: str, loss: str | None) -> Guarantee | ExPostClaim | None:
    """The claim that was named; None: the mechanism's own."""
    from dpledger.accounting.guarantees import ApproxDP, PureDP
    from dpledger.audit import ExPostClaim

    if epsilon is not None and loss is not None:
        raise ParameterError("loss", loss, "one claim: either --epsilon or --loss")
    if epsilon is not None:
        with as_options():
            approximate = ApproxDP(epsilon, delta)
            return approximate if approximate.delta else PureDP(epsilon)
    if loss == RECORDED:
        return ExPostClaim(delta=None if delta == "0" else delta)
    if loss is not None:
        return ExPostClaim(imported("loss", loss), delta)
    return None
