"""The picture of an audit: how well the two datasets can be told apart, beside what the claim allows.

Both axes are logarithmic: the faults of small deltas live at error rates that a linear axis hides. Black, grey and line
styles carry the meaning, so that the picture survives print.
"""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

from dpledger.audit.claims import Point
from dpledger.audit.evidence.thresholds import Direction
from dpledger.audit.outcomes import Floats
from dpledger.errors import ParameterError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dpledger.audit.verdict import AuditResult

__all__ = ["claimed_floor", "trade_off"]

LEAST_RATE = 1e-9


def claimed_floor(false_alarms: Floats, points: tuple[Point, ...]) -> Floats:
    """The least rate of missed detections that a claim of these points allows at each rate of false alarms.

    Claim: no test on a mechanism that satisfies every point does better. Source: Dong-Roth-Su 2022, proposition 2.5.
    """
    floors = [np.zeros_like(false_alarms)]
    for point in points:
        growth, delta = float(np.exp(min(float(point.epsilon), 700.0))), float(point.delta)
        floors += [1 - delta - growth * false_alarms, (1 - delta - false_alarms) / growth]
    result: Floats = np.max(floors, axis=0)
    return result


def trade_off(result: AuditResult, path: str | PathLike[str] | None) -> Figure:
    """The trade-off curve of `result` with its band, its witness and the claimed region; saved to `path` if given."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ParameterError(
            "plot", "no matplotlib", "the extra 'plots': pip install 'dpledger[plots]' brings it"
        ) from None
    figure = Figure(figsize=(7.2, 5.4), layout="constrained")
    FigureCanvasAgg(figure)  # draws to a file; no window and no global state
    axes = figure.add_subplot()
    low = _draw_band(axes, result)
    _draw_claim(axes, result, low)
    _draw_witness(axes, result, low)
    _finish(axes, result, low)
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def _draw_band(axes: Axes, result: AuditResult) -> float:
    """The measured curve between its limits; returns the least rate that the axes show."""
    band, runs = result.band, max(sum(result.cells.rarer), 1)
    low = max(LEAST_RATE, 0.3 / runs)
    worst = [(1e-300, 1.0), *((p.false_alarm_upper, p.missed_upper) for p in band), (1.0, 1e-300)]
    best = [(1e-300, 1.0), *((p.false_alarm_lower, p.missed_lower) for p in band), (1.0, 1e-300)]
    grid = np.geomspace(low, 1, 600)
    # Each event beyond the last with its upper limits is reached; no error rate falls below the lower limits of a step.
    upper = np.array([min(y for x, y in worst if x <= at) for at in grid])
    lower = np.array([max(y for x, y in best if x >= at) for at in grid])
    percent = f"{float(result.confidence) * 100:.6g} %"
    axes.fill_between(grid, np.maximum(lower, low / 10), np.maximum(upper, low / 10), color="0.75", lw=0)
    axes.plot(grid, np.maximum(upper, low / 10), color="black", lw=1.2, label=f"a test does at least this well ({percent}, all points at once)")
    return low


def _draw_claim(axes: Axes, result: AuditResult, low: float) -> None:
    grid = np.geomspace(low, 1, 600)
    floor = claimed_floor(grid, (result.target.point, *result.target.knots))
    shown = floor > 0
    axes.plot(grid[shown], floor[shown], color="tab:red", ls="--", lw=1.4, label="the claim: no test does better")
    axes.fill_between(grid, low / 10, np.maximum(floor, low / 10), color="tab:red", alpha=0.08, lw=0)


def _draw_witness(axes: Axes, result: AuditResult, low: float) -> None:
    look = result.witness
    x, y = look.rarer_upper, max(1 - look.likelier_lower, low)
    axes.plot([x], [y], marker="o", color="black", ls="none", label=f"the event of the verdict: {result.event.words[:60]}")


def _finish(axes: Axes, result: AuditResult, low: float) -> None:
    likelier = result.witness.planned.direction
    sides = ("right", "left") if likelier is Direction.LEFT else ("left", "right")
    axes.set(xscale="log", yscale="log", xlim=(low, 1), ylim=(low, 1.3))
    axes.set_xlabel(f"false alarms: rate of the event on the {sides[0]} data")
    axes.set_ylabel(f"missed: rate of its absence on the {sides[1]} data")
    words = {"violation": "violation", "not_refuted": "not refuted (no proof of privacy)"}[result.verdict]
    axes.set_title(f"{result.mechanism.kind}: {words}\nepsilon at least {float(result.epsilon_lower):.4g}", fontsize=11)
    axes.grid(which="major", color="0.9", lw=0.6)
    axes.legend(loc="lower left", fontsize=8, framealpha=0.95)
