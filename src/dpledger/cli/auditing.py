"""`dpledger audit`: does this code keep its promise? Statistical evidence on two neighbouring datasets."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from traceback import extract_tb, format_exception_only
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpledger.cli.speaking import AsJson, speaking
from dpledger.errors import DpledgerError, ParameterError

if TYPE_CHECKING:
    from dpledger.accounting.guarantees import Guarantee
    from dpledger.audit import Audit, AuditResult, ExPostClaim
    from dpledger.ledger.entries.bodies import Audited, Body
    from dpledger.ledger.rules.standing import State
    from dpledger.ledger.stores.protocol import Transaction

__all__ = ["audit"]

REFUTED = 1
UNUSABLE = 2
RECORDED = "recorded"  # of --loss
TRIALS = 200_000
MOST_NAMED = 3  # names, to somebody who named none


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
            help="Under which the two are neighbours: add_remove (default), replace_one, zero_out or label_flip; a "
            "--scope brings its own."
        ),
    ] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="The claimed epsilon (default: the mechanism's own claim).")
    ] = None,
    delta: Annotated[str, typer.Option(help="The claimed delta, with --epsilon or --loss.")] = "0",
    loss: Annotated[
        str | None,
        typer.Option(
            help="An ex-post claim, tested over all of its strata: module:name of a function of an output that says "
            "what it lost at most, or 'recorded', for what the record of each run says."
        ),
    ] = None,
    trials: Annotated[int | None, typer.Option(help="Runs on each side (default: 200,000).")] = None,
    confidence: Annotated[
        str | None, typer.Option(help="Of the verdict and of the lower bound (default: 0.95).")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="To repeat a run (default: a fresh one, which is printed).")] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Stop after so many; the verdict then depends on the machine.")
    ] = None,
    all_runs: Annotated[
        bool, typer.Option("--all-runs", help="Go on after the claim has fallen, for a larger lower bound.")
    ] = False,
    floats: Annotated[
        str, typer.Option(help="What a float is: numbers, or bits, where its last digits count as well.")
    ] = "numbers",
    each_seconds: Annotated[
        float | None, typer.Option(help="A run that takes longer is over, and that is its outcome.")
    ] = None,
    texts: Annotated[
        bool, typer.Option("--texts", help="What an exception says is part of the outcome, not its type alone.")
    ] = False,
    jobs: Annotated[int, typer.Option(help="Processes; -1 is every core.")] = 1,
    plot: Annotated[Path | None, typer.Option(help="Write the picture of the audit here (.png, .svg or .pdf).")] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(help="Record the result in this ledger, for its reports; the signing key lies beside it."),
    ] = None,
    scope: Annotated[
        str | None, typer.Option(help="With --ledger: the scope it is about, under whose relation and unit it is run.")
    ] = None,
    intend: Annotated[
        bool, typer.Option("--intend", help="Say in the --ledger, before the first run, that it will be made.")
    ] = False,
    made_up: Annotated[
        bool,
        typer.Option(
            "--made-up",
            help="The data are made up and about nobody: the entry has their digest, which hides nothing.",
        ),
    ] = False,
    again: Annotated[
        int | None,
        typer.Option(help="Run the audit in this entry of the --ledger again, and say whether it comes to the same."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Audit a mechanism on two neighbouring datasets. Exits 1 if its claim is refuted; 2 if the audit was blind, or
    --again did not come to what was recorded; a pass proves nothing.

    It ends as soon as the claim has fallen. The pair is your choice, and the audit is as good as the pair: one row
    apart, the smallest data and the most extreme row first; try several. A claim covers neighbours only."""
    with speaking(as_json) as voice, _current_folder_first(), _causes_shown():
        from dpledger.audit.plots import check_destination

        if plot is not None:
            check_destination(plot)
        record = _Record(ledger, scope)
        chosen = {"trials": trials, "confidence": confidence, "seed": seed}
        ways = {"stop_at_violation": not all_runs, "floats": floats, "each_seconds": each_seconds, "texts": texts}
        if again is None:
            rules = record.rules() | _relation(relation, scope)
            claim, subject, earlier = _claim(epsilon, delta, loss), _subject(target, left, right), None
            named = {name: value for name, value in chosen.items() if value is not None}
            asked = _asked(subject, claim, rules | named | ways)
        else:
            beside = {"epsilon": epsilon, "relation": relation, "scope": scope, "intend": intend, "made-up": made_up}
            _require_alone(chosen | beside | ({} if loss is not None else {"delta": delta != "0"}))
            earlier = record.earlier(again)
            asked = record.repeated(earlier, _subject(target, left, right), _claim(None, delta, loss))
        said = record.intend(asked) if intend else None
        result = asked.run(seconds=seconds, jobs=jobs)
        voice.say(str(result))
        if plot is not None:
            result.plot(plot)
            voice.say(f"wrote {plot}")
        noted: dict[str, Any] = {}
        if earlier is not None:
            noted = _compared(asked, result, earlier) | {"again": again}
        else:
            noted = record.note(asked, result, said, made_up=made_up)
        if as_json:
            print(json.dumps(json.loads(result.to_json()) | noted, indent=2, ensure_ascii=False))
        elif earlier is not None:
            for line in _as_told(noted):
                voice.say(line)
        elif "entry" in noted:
            voice.say(f"recorded in {ledger}: entry {noted['entry']}")
        elif noted:
            print(f"dpledger: not recorded: {noted['not_recorded']}", file=sys.stderr)
    if result.blind is not None or noted.get("differences"):
        raise typer.Exit(UNUSABLE)
    if result.verdict == "violation":
        raise typer.Exit(REFUTED)
    if "not_recorded" in noted:
        raise typer.Exit(UNUSABLE)


def _asked(subject: _Subject, claim: Guarantee | ExPostClaim | None, settings: dict[str, Any]) -> Audit:
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


def _require_alone(given: Mapping[str, object]) -> None:
    """What an entry says is not said again beside it."""
    for name, value in given.items():
        if value is not None and value is not False:
            raise ParameterError(name, str(value), "none beside --again: it is that of the entry")


def _compared(asked: Audit, result: AuditResult, earlier: Audited) -> dict[str, Any]:
    from dpledger.audit.planned import differences

    return {"changes": list(asked.changes(earlier)), "differences": list(differences(earlier, asked.entry(result)))}


def _as_told(compared: Mapping[str, Any]) -> Iterator[str]:
    """Whether it came to the same, in words."""
    yield from compared["changes"]
    if not compared["differences"]:
        yield f"the same result as in entry {compared['again']}"
        return
    yield f"not the result of entry {compared['again']}:"
    yield from (f"  {difference}" for difference in compared["differences"])


@dataclass(frozen=True, slots=True)
class _Record:
    """Where the result is noted, about which scope, if any; `ledger` None: nowhere. The file is open no longer than it
    takes to look and to write: what is audited may take hours, and may use the ledger itself."""

    ledger: Path | None
    scope: str | None

    def rules(self) -> dict[str, Any]:
        """What is audited is audited as it would run in the scope. Raises before anything is run what would stand
        against its entry."""
        if self.ledger is None:
            if self.scope is not None:
                raise ParameterError("scope", self.scope, "--ledger as well: the ledger that it is in")
            return {}
        from dpledger.ledger.ledger import Ledger
        from dpledger.ledger.rules import notes

        with Ledger.open(self.ledger) as book:
            about = None if self.scope is None else book.scope(self.scope)

            def nothing_yet(state: State, _: Transaction) -> Sequence[Body]:
                notes.require_open(state, self._about())
                return []

            book.transact(nothing_yet)
            return {} if about is None else {"relation": about.relation, "unit": about.unit}

    def earlier(self, index: int) -> Audited:
        """The audit that the entry at `index` holds, its signature verified."""
        from dpledger.ledger.entries.bodies import Audited
        from dpledger.ledger.ledger import Ledger

        with Ledger.look(self._required("again", index)) as book:
            body = book.entry(index).body
        if not isinstance(body, Audited):
            raise ParameterError("again", f"entry {index}, {body.kind}", "the index of an entry `audited`")
        return body

    def repeated(self, earlier: Audited, subject: _Subject, loss: Guarantee | ExPostClaim | None) -> Audit:
        """The audit of an entry, as it is run again; `loss`: the ex-post claim that was named."""
        from dpledger.audit import Audit, ExPostClaim
        from dpledger.ledger.ledger import Ledger

        with Ledger.look(self._required("again", "an entry")) as book:
            units = [book.state.scope(level.scope).unit for level in earlier.path]
        claims = [claim for claim in (loss, subject.claim) if isinstance(claim, ExPostClaim)]
        return Audit.again(
            earlier,
            subject.mechanism,
            subject.left,
            subject.right,
            loss=claims[0] if claims else None,
            batched=subject.batched,
            **({"unit": units[0]} if units else {}),
        )

    def intend(self, asked: Audit) -> int:
        """The index of the entry that says, before its first run, that it will be made."""
        from dpledger.ledger.ledger import Ledger

        with Ledger.open(self._required("intend", "an audit")) as book:
            return book.intend(asked, about=self._about()).index

    def note(self, asked: Audit, result: AuditResult, intended: int | None, *, made_up: bool) -> dict[str, Any]:
        """The index of its entry, or why there is none; the result stands either way."""
        if self.ledger is None:
            return {}
        from dpledger.ledger.ledger import Ledger

        try:
            with Ledger.open(self.ledger) as book:
                entry = asked.entry(result, made_up=made_up)
                return {"entry": book.record(entry, about=self._about(), intended=intended).index}
        except DpledgerError as error:
            return {"not_recorded": str(error)}

    def _required(self, field: str, value: object) -> Path:
        if self.ledger is None:
            raise ParameterError(field, str(value), "--ledger as well: the ledger that it is in")
        return self.ledger

    def _about(self) -> list[str]:
        return [] if self.scope is None else [self.scope]


def _relation(relation: str | None, scope: str | None) -> dict[str, Any]:
    """The relation that was named, for an audit that is about no scope."""
    from dpledger.relations import Relation

    if relation is None:
        return {}
    if scope is not None:
        raise ParameterError("relation", relation, "none beside --scope: what is audited is run under the scope's")
    return {"relation": Relation.read(relation)}


def _claim(epsilon: str | None, delta: str, loss: str | None) -> Guarantee | ExPostClaim | None:
    """The claim that was named; None: the mechanism's own."""
    from dpledger.accounting.guarantees import ApproxDP, PureDP
    from dpledger.audit import ExPostClaim

    if epsilon is not None and loss is not None:
        raise ParameterError("loss", loss, "one claim: either --epsilon or --loss")
    if epsilon is not None:
        approximate = ApproxDP(epsilon, delta)
        return approximate if approximate.delta else PureDP(epsilon)
    if loss == RECORDED:
        return ExPostClaim(delta=None if delta == "0" else delta)
    if loss is not None:
        return ExPostClaim(_imported("loss", loss), delta)
    return None


@contextmanager
def _current_folder_first() -> Iterator[None]:
    """Modules of the current folder are found, and found first, as `python -m` does it."""
    before = list(sys.path)
    sys.path.insert(0, str(Path.cwd()))
    try:
        yield
    finally:
        sys.path[:] = before


@contextmanager
def _causes_shown() -> Iterator[None]:
    """What the audited code itself raised, and where, is shown with the error: to whoever runs it, on data of their
    own choice, and nowhere else."""
    try:
        yield
    except ParameterError as error:
        if error.__cause__ is not None:
            *_, frame = extract_tb(error.__cause__.__traceback__) or (None,)
            where = "" if frame is None else f" (line {frame.lineno} of {Path(frame.filename).name})"
            error.add_note(f"cause: {''.join(format_exception_only(error.__cause__)).strip()}{where}")
        raise


@dataclass(frozen=True, slots=True)
class _Subject:
    """What is audited, on which pair of neighbours; `claim` None: the mechanism's own."""

    mechanism: Any
    left: object
    right: object
    claim: Guarantee | ExPostClaim | None = None
    batched: bool = False


def _subject(target: str, left: str | None, right: str | None) -> _Subject:
    module, _, name = target.partition(":")
    if module == "zoo":
        from dpledger.audit.zoo import ZOO, exhibit

        if name not in ZOO and (near := _near(name, ZOO)):
            raise ParameterError("target", target, "an exhibit, like " + ", ".join(f"zoo:{one}" for one in near))
        shown = exhibit(name)
        return _Subject(shown.mechanism, shown.left, shown.right, shown.claim, shown.batched)
    if left is None or right is None:
        raise ParameterError("left, right", "nothing", "two neighbouring datasets as JSON, like --left 0 --right 1")
    return _Subject(_imported("target", target), _dataset("left", left), _dataset("right", right))


def _imported(field: str, target: str) -> Any:
    """What the person at the command line named. Never called with a name found in data."""
    module, _, name = target.partition(":")
    if not module or not name or module.endswith(".py") or re.search(r"[/\\]", module):
        raise ParameterError(field, repr(target), _instead(module, name))
    try:
        found = import_module(module)
    except Exception as error:  # whatever the module does as it is loaded
        reason = f"{type(error).__name__}: {error}"
        expected = f"module:name, of a module that is installed or lies in the current folder ({reason})"
        raise ParameterError(field, target, expected) from None
    try:
        return getattr(found, name)
    except Exception:  # a module may answer for its names itself
        near = ", ".join(f"{module}:{one}" for one in _near(name, _audited(found)))
        expected = f"a name that {module} has{f', like {near}' if near else ''}"
        raise ParameterError(field, target, expected) from None


def _audited(module: ModuleType) -> Iterator[str]:
    """Names of what may be audited: no module that it imported, nothing that is not called and releases nothing."""
    for name, value in vars(module).items():
        if name[0] != "_" and not isinstance(value, ModuleType) and (callable(value) or hasattr(value, "release")):
            yield name


def _instead(module: str, name: str) -> str:
    """What to write for somebody who named a file, or left something out."""
    if not module.endswith(".py"):
        return "module:name, like job:release for the function `release` in job.py of the current folder"
    *folders, file = re.split(r"[/\\]", module.removesuffix(".py"))
    inside = "" if set(folders) <= {"", "."} else f", in the folder {'/'.join(folders) or '/'}"
    return f"module:name, without .py: {file}:{name or 'NAME'}{inside}"


def _near(name: str, known: Iterable[str]) -> list[str]:
    return get_close_matches(name, known, MOST_NAMED, cutoff=0.5)


def _dataset(field: str, text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        raise ParameterError(field, text, "JSON, like 0 or [1, 2, 3]") from None
