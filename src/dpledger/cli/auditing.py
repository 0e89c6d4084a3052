"""`dpledger audit`: does this code keep its promise? Statistical evidence on two neighbouring datasets."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpledger.cli.speaking import AsJson, speaking
from dpledger.errors import ParameterError

if TYPE_CHECKING:
    from dpledger.accounting.guarantees import Guarantee
    from dpledger.audit import ExPostClaim

__all__ = ["audit"]

REFUTED = 1
UNUSABLE = 2
RECORDED = "recorded"  # of --loss


def audit(
    target: Annotated[
        str,
        typer.Argument(
            help="module:name of a mechanism or function f(data, rng), found in the current folder first, or zoo:NAME."
        ),
    ],
    left: Annotated[str | None, typer.Option(help="One dataset, as JSON.")] = None,
    right: Annotated[str | None, typer.Option(help="Its neighbour, as JSON.")] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="The claimed epsilon (default: the mechanism's own claim).")
    ] = None,
    delta: Annotated[str, typer.Option(help="The claimed delta, with --epsilon or --loss.")] = "0",
    loss: Annotated[
        str | None,
        typer.Option(
            help="An ex-post claim, tested stratum by stratum: module:name of a function of an output that says what "
            "it lost at most, or 'recorded', for what the record of each run says."
        ),
    ] = None,
    trials: Annotated[int, typer.Option(help="Runs on each side.")] = 200_000,
    confidence: Annotated[str, typer.Option(help="Of the verdict and of the lower bound.")] = "0.95",
    seed: Annotated[int | None, typer.Option(help="To repeat a run (default: a fresh one, which is printed).")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write the trade-off plot here (.png, .svg or .pdf).")] = None,
    insist: Annotated[bool, typer.Option("--insist", help="Run it even if it takes over three hours.")] = False,
    as_json: AsJson = False,
) -> None:
    """Audit a mechanism on two neighbouring datasets. Exits 1 if its claim is refuted, 2 if all it ever gave is one and
    the same output; a pass proves nothing."""
    with speaking(as_json) as voice, _current_folder_first():
        from dpledger.audit import audit_mechanism
        from dpledger.audit.plots import check_destination

        if plot is not None:
            check_destination(plot)
        claim = _claim(epsilon, delta, loss)
        subject = _subject(target, left, right)
        result = audit_mechanism(
            subject.mechanism,
            subject.left,
            subject.right,
            claim=claim if claim is not None else subject.claim,
            batched=subject.batched,
            trials=trials,
            confidence=confidence,
            seed=seed,
            insist=insist,
        )
        voice.say(str(result))
        if plot is not None:
            result.plot(plot)
            voice.say(f"wrote {plot}")
        if as_json:
            print(result.to_json())
        elif result.constant:
            raise ParameterError(
                "target", "one and the same output from every run", "a function that returns its answer"
            )
    if result.constant:
        raise typer.Exit(UNUSABLE)
    if result.verdict == "violation":
        raise typer.Exit(REFUTED)


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
        module, _, name = loss.partition(":")
        return ExPostClaim(_imported("loss", module, name, loss), delta)
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
        from dpledger.audit.zoo import exhibit

        shown = exhibit(name)
        return _Subject(shown.mechanism, shown.left, shown.right, shown.claim, shown.batched)
    if left is None or right is None:
        raise ParameterError("left, right", "nothing", "two neighbouring datasets as JSON, like --left 0 --right 1")
    return _Subject(_imported("target", module, name, target), _dataset("left", left), _dataset("right", right))


def _imported(field: str, module: str, name: str, target: str) -> Any:
    """What the person at the command line named. Never called with a name found in data."""
    try:
        return getattr(import_module(module), name)
    except Exception as error:  # whatever the module does as it is loaded
        reason = f"{type(error).__name__}: {error}"
        raise ParameterError(field, target, f"module:name of something that can be imported ({reason})") from None


def _dataset(field: str, text: str) -> object:
    import json

    try:
        return json.loads(text)
    except ValueError:
        raise ParameterError(field, text, "JSON, like 0 or [1, 2, 3]") from None
