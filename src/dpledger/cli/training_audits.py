"""`dpledger audit-training`: does this training keep its promise? It is guessed from models which canaries were in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpledger.cli.audit_records import Record
from dpledger.cli.audited_code import causes_shown, current_folder_first, imported
from dpledger.cli.records import no_password
from dpledger.cli.speaking import AsJson, speaking
from dpledger.errors import ParameterError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from dpledger.audit.results.verdict import AuditResult
    from dpledger.audit.training.whole import TrainingAudit

    Rows = npt.NDArray[np.generic]

__all__ = ["audit_training"]

MOST_STEPS = 10_000  # where nothing else is asked for
REFUTED = 1
UNUSABLE = 2


def audit_training(
    target: Annotated[
        str, typer.Argument(help="module:name of a function train(data, rng), found in the current folder first.")
    ],
    score: Annotated[
        str,
        typer.Option(
            help="module:name of a function score(model, canary): a number, larger where the canary was in the data."
        ),
    ],
    data: Annotated[Path, typer.Option(help="The rows: an array in a .npy file, or a .csv of numbers, no header.")],
    canaries: Annotated[
        str,
        typer.Option(
            help="Rows that are each included by a fair coin: how many of the last rows of --data, or a file like it."
        ),
    ],
    epsilon: Annotated[str, typer.Option(help="The claimed epsilon of the whole training, under add_remove.")],
    delta: Annotated[str, typer.Option(help="The claimed delta.")] = "0",
    trainings: Annotated[
        int | None, typer.Option(help="Also train this many times with the first canary, and as many times without it.")
    ] = None,
    gradient: Annotated[
        str | None,
        typer.Option(help="module:name of a noisy gradient(state, batch, rng): audit steps as well."),
    ] = None,
    states: Annotated[
        str | None,
        typer.Option(help="With --gradient: module:name of states(rows): (state, batch) of each step."),
    ] = None,
    noise_multiplier: Annotated[
        str | None, typer.Option(help="With --gradient: the noise that one step claims, Gaussian, in clip norms.")
    ] = None,
    direction: Annotated[
        str | None, typer.Option(help="With --gradient: module:name of direction(state), of the first canary.")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="With --gradient: the most steps to audit (default: 10,000).")
    ] = None,
    confidence: Annotated[str, typer.Option(help="Confidence of each verdict and lower bound.")] = "0.95",
    seed: Annotated[int | None, typer.Option(help="To repeat an audit (default: a fresh one).")] = None,
    jobs: Annotated[int, typer.Option(help="Processes of --trainings; -1 is every core.")] = 1,
    plot: Annotated[Path | None, typer.Option(help="Write the picture here (.png, .svg or .pdf).")] = None,
    ledger: Annotated[
        str | None, typer.Option(help="Record the results in this ledger, for its reports.", callback=no_password)
    ] = None,
    scope: Annotated[str | None, typer.Option(help="With --ledger: the scope that they are about.")] = None,
    as_json: AsJson = False,
) -> None:
    """Audit a whole training by canaries in its data. Exits 1 if its claim is refuted; 2 if an audit was blind; a pass
    proves nothing. Before it begins, it says the most that one training can show.

    Canaries are added to the other rows. Run it on made-up or public rows: no budget is charged for the models."""
    with speaking(as_json) as voice, current_folder_first(), causes_shown():
        from dpledger.accounting.guarantees import ApproxDP, PureDP
        from dpledger.audit.training.whole import audit_training as audited

        if plot is not None:
            from dpledger.audit.results.plots import check_destination

            check_destination(plot)
        record = Record(ledger, scope)
        _require_add_remove(record.rules())
        approximate = ApproxDP(epsilon, delta)
        rows, items = _canaries(canaries, _rows("data", data))
        train, scored = imported("target", target), imported("score", score)
        of_steps = _audited_steps(
            rows, items[0], gradient=gradient, states=states, noise_multiplier=noise_multiplier, direction=direction,
            steps=steps, confidence=confidence, seed=seed,
        )  # fmt: skip
        found = audited(
            train,
            rows,
            approximate if approximate.delta else PureDP(epsilon),
            score=scored,
            canaries=items,
            trainings=trainings,
            steps=of_steps,
            confidence=confidence,
            seed=seed,
            jobs=jobs,
        )
        voice.say(str(found))
        if plot is not None:
            found.plot(plot)
            voice.say(f"wrote {plot}")
        entries = record.note_results(found.results)
        if entries:
            voice.say(f"recorded in {ledger}: {', '.join(f'entry {index}' for index in entries)}")
        voice.give(_document(found) | ({"entries": entries} if entries else {}))
    is_blind = any(result.blind is not None for result in found.results)
    raise typer.Exit(REFUTED if found.is_refuted else UNUSABLE if is_blind else 0)


def _document(found: TrainingAudit) -> dict[str, Any]:
    """Every result as it tells itself, None where a way was not asked for."""
    return {
        "is_refuted": found.is_refuted,
        "announced": found.announced,
        "steps": None if found.steps is None else json.loads(found.steps.to_json()),
        "one_run": None if found.one_run is None else json.loads(found.one_run.to_json()),
        "trainings": None if found.trainings is None else json.loads(found.trainings.to_json()),
    }


def _audited_steps(
    rows: Rows,
    canary: Any,
    *,
    gradient: str | None,
    states: str | None,
    noise_multiplier: str | None,
    direction: str | None,
    steps: int | None,
    **settings: Any,
) -> AuditResult | None:
    """What the steps show, where a gradient is named."""
    if gradient is None:
        others = {"states": states, "noise_multiplier": noise_multiplier, "direction": direction, "steps": steps}
        for name, given in others.items():
            if given is not None:
                raise ParameterError(name, str(given), "given together with --gradient")
        return None
    if states is None or noise_multiplier is None:
        raise ParameterError("gradient", gradient, "given together with --states and --noise-multiplier")
    from dpledger.accounting.composition import GaussianLaw
    from dpledger.audit.training.step_audit import audit_steps

    claim = GaussianLaw(noise_multiplier)
    towards = None if direction is None else imported("direction", direction)
    asked: Any = imported("states", states)
    if not callable(asked):
        raise ParameterError("states", type(asked).__name__, "a function states(rows)")
    try:
        pairs = asked(rows)
    except Exception as error:
        raise ParameterError("states", type(error).__name__, "a function states(rows) of the rows of --data") from error
    if steps is not None:
        settings["steps"] = steps
    return audit_steps(imported("gradient", gradient), pairs, canary, claim, direction=towards, **settings)


def _require_add_remove(rules: dict[str, Any]) -> None:
    """A canary is one row more, of one unit: what it shows is about no scope with another relation."""
    from dpledger.relations import Relation

    if rules and rules["relation"] != Relation.ADD_REMOVE:
        raise ParameterError("scope", str(rules["relation"]), "a scope under add_remove: a canary is one row more")


def _canaries(given: str, rows: Rows) -> tuple[Rows, list[Any]]:
    """The rows that stay, and those that are in by a coin."""
    from dpledger.audit.training.one_run import FEWEST_CANARIES

    if not given.isdecimal():
        return rows, list(_rows("canaries", Path(given)))
    many = int(given)
    if not FEWEST_CANARIES <= many <= len(rows):
        expected = f"a file, or a number from {FEWEST_CANARIES} to the {len(rows)} rows of --data"
        raise ParameterError("canaries", given, expected)
    return rows[: len(rows) - many], list(rows[len(rows) - many :])


def _rows(field: str, path: Path) -> Rows:
    """An array with one item a row. It runs no code that is in the file."""
    import numpy as np

    try:
        if path.suffix == ".csv":
            rows: Rows = np.loadtxt(path, delimiter=",", ndmin=2)
        else:
            rows = np.load(path, allow_pickle=False)
    except OSError as error:
        raise ParameterError(field, str(path), f"a file that can be read ({error.strerror})") from None
    except ValueError as error:
        raise ParameterError(field, str(path), f"an array in a .npy file, or a .csv of numbers ({error})") from None
    if not isinstance(rows, np.ndarray) or not rows.ndim:
        raise ParameterError(field, str(path), "an array with one item a row")
    return rows
