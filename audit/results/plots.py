"""The picture of an audit: the wealth of its bets beside the line at which the claim falls, and how well the two
datasets are told apart beside what the claim allows.

The trade-off curve is drawn as detections against false alarms on logarithmic axes: a fault of a small delta lives at
rates that linear axes hide, and a factor e^epsilon is one distance everywhere. It shows shares as they were counted,
for the eye; what is certain is in the wealth. Line styles and greys carry the meaning, so that it survives print.
"""

from __future__ import annotations

import math
from decimal import Decimal
from importlib.util import find_spec
from os import PathLike
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from dpledger.audit.course.blocks import Evidence
from dpledger.audit.evidence.witness import Direction, Witness
from dpledger.audit.features.events import InStratum
from dpledger.audit.outcomes import Floats
from dpledger.audit.tested.claims import AuditTarget, ClaimPoint
from dpledger.errors import ParameterError
from dpledger.files import place_of
from dpledger.ledger.entries.members import MechanismNote

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["check_destination", "claimed_ceiling", "drawn", "without_matplotlib"]


STEPS = 800
LN10 = math.log(10)
SUFFIXES = (".png", ".svg", ".pdf")


class Plottable(Protocol):
    """What is drawn of an audit: an `AuditResult`."""

    @property
    def mechanism(self) -> MechanismNote: ...
    @property
    def evidence(self) -> Evidence: ...
    @property
    def target(self) -> AuditTarget: ...
    @property
    def verdict(self) -> Literal["violation", "not_refuted"]: ...
    @property
    def blind(self) -> str | None: ...
    @property
    def witness(self) -> Witness | None: ...
    @property
    def e_value(self) -> float: ...
    @property
    def epsilon_lower(self) -> Decimal: ...
    @property
    def delta(self) -> Decimal: ...


def claimed_ceiling(false_alarms: Floats, points: tuple[ClaimPoint, ...]) -> Floats:
    """The highest rate of detections that a claim of these points allows at each rate of false alarms.

    Claim: on a mechanism that satisfies every point, no event that is as rare on one side as `false_alarms` is likelier
        on the other than this. Source: Dong-Roth-Su 2022, proposition 2.5 (one minus the trade-off function).
    """
    ceilings = [np.ones_like(false_alarms)]
    for point in points:
        growth, delta = float(np.exp(min(float(point.epsilon), 700.0))), float(point.delta)
        ceilings += [growth * false_alarms + delta, 1 - (1 - delta - false_alarms) / growth]
    result: Floats = np.min(ceilings, axis=0)
    return result


def check_destination(path: str | PathLike[str]) -> None:
    """Raise ParameterError unless a picture can be drawn and written to `path`: before an audit runs for it."""
    where = place_of(path, "plot")
    if where.suffix.lower() not in SUFFIXES:
        raise ParameterError("plot", str(where), f"a file name that ends in {', '.join(SUFFIXES)}")
    if where.is_dir() or not where.parent.is_dir():
        raise ParameterError("plot", str(where), "a file in a folder that is there")
    if find_spec("matplotlib") is None:
        raise without_matplotlib()


def without_matplotlib() -> ParameterError:
    """The error where matplotlib is missing."""
    return ParameterError("plot", "no matplotlib", "the extra 'plots': install dpledger[plots]")


def drawn(result: Plottable, path: str | PathLike[str] | None) -> Figure:
    """The picture of `result`, saved to `path` if given. ParameterError where matplotlib is missing or `path` cannot be
    written."""
    if path is not None:
        check_destination(path)
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise without_matplotlib() from None
    figure = Figure(figsize=(11.5, 5.2), layout="constrained")
    FigureCanvasAgg(figure)  # draws to a file: no window, no global state
    wealth, curve = figure.subplots(1, 2)
    _wealth(wealth, result)
    (_losses if result.evidence.strata else _trade_off)(curve, result)
    figure.suptitle(f"{result.mechanism.kind}: {_verdict(result)}", fontsize=11)
    if path is not None:
        try:
            figure.savefig(path, dpi=150)
        except OSError as error:
            raise ParameterError("plot", str(path), f"a file that can be written ({error.strerror})") from None
    return figure


def _verdict(result: Plottable) -> str:
    if result.blind is not None:
        return "blind, so nothing follows"
    return {"violation": "violation", "not_refuted": "not refuted (which is no proof of privacy)"}[result.verdict]


def _wealth(axes: Axes, result: Plottable) -> None:
    """The wealth after each block of runs, and the largest at any run so far, which is the e-value."""
    evidence = result.evidence
    runs, ends, largest = (np.array(column) for column in zip(*evidence.path, strict=True))
    line = math.log(1 / evidence.alpha)
    axes.plot(runs, ends / LN10, color="0.45", lw=1.0, marker=".", ms=3, label="wealth of the bets")
    axes.plot(runs, largest / LN10, color="black", lw=1.5, drawstyle="steps-post", label="largest so far: the e-value")
    axes.axhline(
        line / LN10, color="tab:blue", ls="--", lw=1.4, label=f"1/alpha = {math.exp(line):.4g}: the claim is refuted"
    )
    if evidence.fell_after is not None:
        axes.axvline(
            evidence.fell_after, color="0.5", ls=":", lw=1.2, label=f"refuted after {evidence.fell_after:,} pairs"
        )
    axes.set(xscale="log", xlabel="runs of each side", ylabel="wealth, as a power of ten")
    axes.set_title(f"e-value {result.e_value:.4g}", fontsize=10)
    axes.grid(which="major", color="0.9", lw=0.6)
    axes.legend(loc="best", fontsize=8, framealpha=0.95)


def _trade_off(axes: Axes, result: Plottable) -> None:
    """Detections against false alarms of the events that the witness's cells make, in the order of their ratio."""
    witness = result.witness
    most = max(*result.evidence.trials, 1)
    rates = np.geomspace(0.3 / most, 1, STEPS)
    ceiling = claimed_ceiling(rates, result.target.points)
    axes.fill_between(rates, rates, ceiling, color="tab:blue", alpha=0.12, lw=0)
    axes.plot(rates, ceiling, color="tab:blue", ls="--", lw=1.4, label="the claim: no event lies above this line")
    rarer, likelier = "the other", "one"
    if witness is not None and result.blind is None:
        rarer, likelier = ("right", "left") if witness.direction is Direction.LEFT else ("left", "right")
        alarms, detections = witness.curve
        axes.plot(alarms, detections, color="black", lw=1.2, marker=".", ms=4, label="counted (no bound by itself)")
        place = ([witness.false_alarms], [witness.detections])
        axes.plot(*place, marker="o", color="black", ls="none", label=_event(witness))
    axes.set(xscale="log", yscale="log", xlim=(float(rates[0]), 1), ylim=(float(rates[0]), 1.1))
    axes.set_xlabel(f"false alarms: how often the event happens on the {rarer} data")
    axes.set_ylabel(f"detections: how often it happens on the {likelier} data")
    at_least, delta = float(result.epsilon_lower), float(result.delta)
    axes.set_title(f"epsilon at least {at_least:.4g} at delta {delta:.3g}", fontsize=10)
    axes.grid(which="major", color="0.9", lw=0.6)
    axes.legend(loc="lower right", fontsize=8, framealpha=0.95)


def _losses(axes: Axes, result: Plottable) -> None:
    """Of an ex-post claim: the losses that are claimed, and how far apart the two sides are where they are claimed."""
    evidence, witness = result.evidence, result.witness
    least = 0.5 / max(*evidence.trials, 1)  # an event that was never seen is drawn as half a run
    counts = np.maximum(np.array(evidence.in_strata) / np.maximum(evidence.trials, 1), least)
    claimed = [float(stratum.epsilon) for stratum in evidence.strata]
    seen = np.abs(np.log(counts[:, 0] / counts[:, 1]))
    highest = max(*claimed, *seen.tolist(), 0.1)
    if witness is not None and isinstance(witness.event, InStratum):
        loss = math.log(max(witness.detections, least) / max(witness.false_alarms, least))
        highest = max(highest, loss)
        place = ([float(witness.event.stratum.epsilon)], [loss])
        axes.plot(*place, marker="o", color="black", ls="none", label=_event(witness))
    axes.plot(claimed, seen, color="0.45", ls="none", marker="x", label="a whole stratum (no bound by itself)")
    ends = [0, 1.05 * highest]
    axes.fill_between(ends, [0, 0], ends, color="tab:blue", alpha=0.12, lw=0)
    axes.plot(ends, ends, color="tab:blue", ls="--", lw=1.4, label="the claim: no event lies above this line")
    axes.set(xlabel="claimed loss", ylabel="log of how many times likelier on one side")
    axes.set(xlim=ends, ylim=(-0.03 * highest, 1.4 * highest))
    axes.set_title("an ex-post claim, over all of its strata", fontsize=10)
    axes.grid(which="major", color="0.9", lw=0.6)
    axes.legend(loc="upper left", fontsize=8, framealpha=0.95)


def _event(witness: Witness) -> str:
    words = witness.event.words
    return f"event: {words if len(words) <= 50 else words[:49] + '…'}"
